//! Common processing of every request, on the fast path and through the router: rate limits before the handler,
//! common headers and metrics after it.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use axum::extract::{MatchedPath, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hashbrown::HashMap;
use tidegate_app::buckets::{Exhausted, Taken};
use tidegate_app::metrics::RequestLabels;
use tidegate_app::{App, Refusal};
use tidegate_core::Moment;

use super::input::Peer;
use super::limits;
use super::problem::Problem;
use super::{Site, browser};

/// One request, from its rate limits to its metrics.
#[derive(Debug)]
pub struct RequestScope<'a> {
    site: &'a Site,
    route: &'static str,
    method: &'static str,
    docs: bool,
    received: Instant,
    left: Option<Taken>,
}

impl<'a> RequestScope<'a> {
    /// Counts the request against its client's limits. The second value is the refusal if a limit is exceeded.
    pub fn begin(
        site: &'a Site,
        route: &'static str,
        method: &Method,
        path: &str,
        client: Option<Peer>,
        received: Instant,
    ) -> (Self, Result<(), Problem>) {
        let counted = client.map_or(Ok(None), |client| site.limits.count(client, method, path, received));
        let (left, admitted) = match counted {
            Ok(left) => (left, Ok(())),
            Err(empty @ Exhausted { of, .. }) => {
                (Some(Taken { of, left: 0 }), Err(Refusal::from(empty).into()))
            }
        };
        let docs = path.starts_with("/docs");
        (Self { site, route, method: known_method(method), docs, received, left }, admitted)
    }

    /// Records the response in the metrics; returns the headers to add to it.
    pub fn end(self, status: StatusCode) -> CommonHeaders {
        let (route, method, status) = (self.route, self.method, status.as_u16());
        let metrics = &self.site.app.metrics;
        metrics.requests.count(RequestLabels { route, method, status });
        let took = self.received.elapsed();
        metrics.request_seconds.observe(took.as_secs_f64());
        CommonHeaders { took, docs: self.docs, left: self.left }
    }
}

/// Headers of every response: the security headers and the remaining rate limit.
#[derive(Debug)]
pub struct CommonHeaders {
    /// How long the request took.
    pub took: Duration,
    docs: bool,
    left: Option<Taken>,
}

/// When a request was received, by both clocks. Read once per request and passed on, so that all decisions agree.
#[derive(Debug, Clone, Copy)]
pub struct ReceivedAt {
    pub at: Instant,
    pub now: Moment,
}

impl ReceivedAt {
    pub fn now(app: &App) -> Self {
        Self { at: Instant::now(), now: app.now() }
    }
}

/// The security headers of the API's responses, as bytes.
static SECURITY_HEADERS: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut headers = HeaderMap::new();
    browser::security_headers(&mut headers, false);
    let mut written = Vec::new();
    headers.iter().for_each(|(name, value)| write_header(&mut written, name, value.as_bytes()));
    written
});

impl CommonHeaders {
    pub fn apply(self, response: &mut Response) {
        let headers = response.headers_mut();
        browser::security_headers(headers, self.docs);
        limits::for_each_header(self.left, |name, number| {
            headers.insert(name, number.into());
        });
    }

    /// The same for a response of the API that the fast path writes as bytes.
    pub fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&SECURITY_HEADERS);
        let mut digits = itoa::Buffer::new();
        limits::for_each_header(self.left, |name, number| {
            write_header(out, &name, digits.format(number).as_bytes());
        });
    }
}

pub fn write_header(out: &mut Vec<u8>, name: &HeaderName, value: &[u8]) {
    for part in [b"\r\n", name.as_str().as_bytes(), b": ", value] {
        out.extend_from_slice(part);
    }
}

/// Unknown methods share a label: clients can invent any number of them.
fn known_method(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::HEAD => "HEAD",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}

/// The parts of a browser's request that its error page is rendered from; `None` for other clients.
fn browser_parts(request: &Request) -> Option<Parts> {
    let accepted = request.headers().get(header::ACCEPT)?.to_str().ok()?;
    if !accepted.contains("text/html") || request.uri().path().starts_with("/v1/") {
        return None;
    }
    let (mut parts, ()) = axum::http::Request::new(()).into_parts();
    parts.method = request.method().clone();
    parts.uri = request.uri().clone();
    parts.headers = request.headers().clone();
    Some(parts)
}

/// Route patterns as metric labels. There is a fixed number of routes, so each pattern is leaked once.
fn intern(pattern: &str) -> &'static str {
    static KNOWN: LazyLock<ArcSwap<HashMap<String, &'static str>>> = LazyLock::new(ArcSwap::default);
    if let Some(known) = KNOWN.load().get(pattern) {
        return known;
    }
    let kept: &'static str = pattern.to_owned().leak();
    KNOWN.rcu(|known| {
        let mut known = HashMap::clone(known);
        known.entry(pattern.to_owned()).or_insert(kept);
        known
    });
    kept
}

/// The request scope as a layer of the router. One layer, because each costs an allocation.
pub async fn layer(State(site): State<Site>, mut request: Request, next: Next) -> Response {
    let matched = request.extensions().get::<MatchedPath>().cloned();
    let route = matched.map_or("other", |matched| intern(matched.as_str()));
    let (received, peer) = (Instant::now(), request.extensions().get::<Peer>().copied());
    let client = peer.map(|peer| site.limits.client(peer, request.headers()));
    if let Some(client) = client.filter(|client| Some(*client) != peer) {
        request.extensions_mut().insert(client);
    }
    let browser = browser_parts(&request);
    let (scope, admitted) =
        RequestScope::begin(&site, route, request.method(), request.uri().path(), client, received);
    let mut response = match admitted {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    };
    if let Some(parts) = &browser {
        response = (site.error_page)(parts, response);
    }
    scope.end(response.status()).apply(&mut response);
    response
}
