//! Around every request, whichever way it comes: limits before it, headers and counts after it.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tidegate_core::Moment;

use super::input::Peer;
use super::limits;
use super::problem::Problem;
use super::{Site, browser, pages};
use crate::buckets::{Empty, Left};
use crate::metrics::{RequestLabels, Route};
use crate::ops::{App, Refusal};

pub(super) struct Visit<'a> {
    site: &'a Site,
    route: Route,
    method: &'static str,
    docs: bool,
    came: Instant,
    left: Option<Left>,
}

impl<'a> Visit<'a> {
    /// Counts it as it `came`; gives also what those are told who ask too often.
    pub(super) fn begin(
        site: &'a Site,
        route: Route,
        method: &Method,
        path: &str,
        asker: Option<Peer>,
        came: Instant,
    ) -> (Self, Result<(), Problem>) {
        let counted = asker.map_or(Ok(None), |asker| site.limits.count(asker, method, path, came));
        let (left, may_ask) = match counted {
            Ok(left) => (left, Ok(())),
            Err(empty @ Empty { of, .. }) => (Some(Left { of, left: 0 }), Err(Refusal::from(empty).into())),
        };
        let docs = path.starts_with("/docs");
        (Self { site, route, method: known_method(method), docs, came, left }, may_ask)
    }

    /// Counts what was answered; gives what it has to say besides.
    pub(super) fn end(self, status: StatusCode) -> Dress {
        let (route, method, status) = (self.route, self.method, status.as_u16());
        let metrics = &self.site.app.metrics;
        metrics.requests.count(RequestLabels { route, method, status });
        let took = self.came.elapsed();
        metrics.request_seconds.observe(took.as_secs_f64());
        Dress { took, docs: self.docs, left: self.left }
    }
}

/// What every answer says: what keeps browsers in, and how much is left of its asker's limit.
pub(super) struct Dress {
    /// How long it took.
    pub(super) took: Duration,
    docs: bool,
    left: Option<Left>,
}

/// When a request came, by both clocks: they are looked at once for everything that is counted or told by it.
#[derive(Clone, Copy)]
pub(super) struct Came {
    pub(super) at: Instant,
    pub(super) now: Moment,
}

impl Came {
    pub(super) fn just_now(app: &App) -> Self {
        Self { at: Instant::now(), now: app.now() }
    }
}

/// What keeps browsers in, as it goes out with answers of the API.
static KEEP_IN: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut headers = HeaderMap::new();
    browser::keep_in(&mut headers, false);
    let mut written = Vec::new();
    headers.iter().for_each(|(name, value)| write_header(&mut written, name, value.as_bytes()));
    written
});

impl Dress {
    pub(super) fn put_on(self, response: &mut Response) {
        let headers = response.headers_mut();
        browser::keep_in(headers, self.docs);
        limits::tell(self.left, |name, number| {
            headers.insert(name, number.into());
        });
    }

    /// The same for an answer of the API that is written as it goes out.
    pub(super) fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&KEEP_IN);
        let mut digits = itoa::Buffer::new();
        limits::tell(self.left, |name, number| write_header(out, &name, digits.format(number).as_bytes()));
    }
}

pub(super) fn write_header(out: &mut Vec<u8>, name: &HeaderName, value: &[u8]) {
    for part in [b"\r\n", name.as_str().as_bytes(), b": ", value] {
        out.extend_from_slice(part);
    }
}

/// Anybody can make up methods; each would be a series for ever.
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

/// A visit to what the router knows, in one layer because each costs an allocation.
pub(super) async fn by_router(State(site): State<Site>, mut request: Request, next: Next) -> Response {
    let matched = request.extensions().get::<MatchedPath>().cloned();
    let route = matched.map_or(Route::Known("other"), Route::Matched);
    let (came, peer) = (Instant::now(), request.extensions().get::<Peer>().copied());
    let asker = peer.map(|peer| site.limits.asker(peer, request.headers()));
    if let Some(asker) = asker.filter(|asker| Some(*asker) != peer) {
        request.extensions_mut().insert(asker);
    }
    let person = pages::looks_at(&request);
    let (visit, may_ask) = Visit::begin(&site, route, request.method(), request.uri().path(), asker, came);
    let mut response = match may_ask {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    };
    if let Some(parts) = &person {
        response = pages::in_person(parts, response);
    }
    visit.end(response.status()).put_on(&mut response);
    response
}
