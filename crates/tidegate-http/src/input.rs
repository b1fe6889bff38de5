//! Strict parsing of requests: bodies are bounded in size and time, unknown fields and malformed ids are rejected.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::pin::pin;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderName, Method, StatusCode, header};
use futures_util::future::poll_immediate;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tidegate_app::App;
use tidegate_app::digest::short_digest;
use tidegate_app::ledger_types::{IdempotentRequest, Page};
use tidegate_app::operators::OperatorIdentity;
use tidegate_core::limits::MAX_IDEMPOTENCY_KEY;
use tidegate_core::public_id::Public;
use tidegate_core::{IdempotencyKey, ProblemCode, Rejection, Role, UserId};
use utoipa::IntoParams;

use super::Site;
use super::browser::{check_origin, console_token, session_token};
use super::headers::Headers;
use super::problem::Problem;

pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Limits for reading request bodies.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub max_body_bytes: usize,
    pub max_draw_bytes: usize,
    pub body_timeout: Duration,
}

/// A JSON body and a digest of its bytes. `LARGE` bodies may contain a draw's prize codes and have a higher limit.
#[derive(Debug)]
pub struct Input<T, const LARGE: bool = false> {
    pub value: T,
    pub fingerprint: [u8; 16],
}

impl<T: DeserializeOwned, const LARGE: bool> FromRequest<Site> for Input<T, LARGE> {
    type Rejection = Problem;

    async fn from_request(request: Request, site: &Site) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        let max_body_bytes = if LARGE { site.bounds.max_draw_bytes } else { site.bounds.max_body_bytes };
        let bytes =
            read_body((&parts.headers).into(), body, Bounds { max_body_bytes, ..site.bounds }).await?;
        Ok(Self { value: parse(&bytes)?, fingerprint: short_digest(&[&bytes]) })
    }
}

/// The body of a request: read completely, or still arriving.
#[derive(Debug)]
pub enum RequestBody<'a> {
    Complete(&'a [u8]),
    Incoming(Body),
}

/// Reads and checks a JSON body.
pub async fn json<T: DeserializeOwned>(
    headers: Headers<'_>,
    body: RequestBody<'_>,
    bounds: Bounds,
) -> Result<T, Problem> {
    match body {
        RequestBody::Complete(bytes) => {
            check_body(headers, bounds)?;
            parse(bytes)
        }
        // Boxed, so that the future of a request with a complete body stays small.
        RequestBody::Incoming(body) => parse(&Box::pin(read_body(headers, body, bounds)).await?),
    }
}

fn too_large(bounds: Bounds) -> Problem {
    let detail = format!("The body may have at most {} bytes.", bounds.max_body_bytes);
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, ProblemCode::BodyTooLarge, detail)
}

/// Checks `Content-Length` and `Content-Type` before the body is read.
fn check_body(headers: Headers<'_>, bounds: Bounds) -> Result<(), Problem> {
    let length: Option<usize> = headers.get(&header::CONTENT_LENGTH).and_then(|length| length.parse().ok());
    if length.is_some_and(|length| length > bounds.max_body_bytes) {
        return Err(too_large(bounds));
    }
    let kind = headers.get(&header::CONTENT_TYPE).unwrap_or("");
    let essence = kind.split(';').next().unwrap_or("").trim();
    if !essence.eq_ignore_ascii_case("application/json") {
        let detail = "Send JSON with the header Content-Type: application/json.";
        return Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            ProblemCode::UnsupportedMediaType,
            detail,
        ));
    }
    Ok(())
}

async fn read_body(headers: Headers<'_>, body: Body, bounds: Bounds) -> Result<Bytes, Problem> {
    check_body(headers, bounds)?;
    let mut read = pin!(Limited::new(body, bounds.max_body_bytes).collect());
    // The body nearly always arrives with the headers; a timer is set only if it does not.
    let read = match poll_immediate(&mut read).await {
        Some(read) => Ok(read),
        None => tokio::time::timeout(bounds.body_timeout, read).await,
    };
    match read {
        Err(_) => {
            let detail = "The body did not arrive in time.";
            Err(Problem::new(StatusCode::REQUEST_TIMEOUT, ProblemCode::BodyTimeout, detail))
        }
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large(bounds)),
        Ok(Err(_)) => {
            Err(Problem::new(StatusCode::BAD_REQUEST, ProblemCode::MalformedBody, "The body ended early."))
        }
        Ok(Ok(body)) => Ok(body.to_bytes()),
    }
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    let value = serde_json::from_slice(bytes).map_err(|_| explain_parse_error::<T>(bytes))?;
    // Serde would also deserialize a struct from an array, by field order.
    if bytes.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
        return Err(Problem::invalid(BTreeMap::from([("body".to_owned(), "must be an object".to_owned())])));
    }
    Ok(value)
}

/// Parses a rejected body again, with path tracking, to name the field that is wrong.
fn explain_parse_error<T: DeserializeOwned>(bytes: &[u8]) -> Problem {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    match serde_path_to_error::deserialize::<_, T>(&mut reader) {
        Ok(_) => reader.end().map_or_else(|error| malformed(&error), |()| unreadable()),
        Err(error) => {
            let field = error.path().to_string();
            let inner = error.into_inner();
            if inner.is_data() { wrong_field(&field, &inner) } else { malformed(&inner) }
        }
    }
}

fn unreadable() -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, ProblemCode::MalformedJson, "The body is not JSON.")
}

fn malformed(error: &serde_json::Error) -> Problem {
    Problem::new(
        StatusCode::BAD_REQUEST,
        ProblemCode::MalformedJson,
        format!("The body is not JSON: {error}."),
    )
}

/// Reports the field by its path, by the name in serde's message, or as `body`.
fn wrong_field(path: &str, error: &serde_json::Error) -> Problem {
    let message = error.to_string();
    let what = message.split(" at line ").next().unwrap_or(&message).to_owned();
    let named = what.strip_prefix("missing field `").or_else(|| what.strip_prefix("unknown field `"));
    let named = named.and_then(|rest| rest.split('`').next());
    let field = match (path, named) {
        (".", Some(named)) => named.to_owned(),
        (".", None) => "body".to_owned(),
        (path, Some(named)) if path.rsplit('.').next() != Some(named) => format!("{path}.{named}"),
        (path, _) => path.to_owned(),
    };
    Problem::invalid(BTreeMap::from([(field, what)]))
}

/// The id in the path. A malformed id is answered like an unknown one: not found.
#[derive(Debug)]
pub struct Id<T>(pub T);

impl<T: Public + Send> FromRequestParts<Site> for Id<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, site: &Site) -> Result<Self, Problem> {
        let text = Path::<String>::from_request_parts(parts, site).await.map_err(|_| Rejection::NotFound)?;
        site.app.parse(&text.0).map(Self).ok_or_else(|| Rejection::NotFound.into())
    }
}

/// The buyer whose token the request carries.
#[derive(Debug)]
pub struct Buyer(pub UserId);

impl FromRequestParts<Site> for Buyer {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, site: &Site) -> Result<Self, Problem> {
        Ok(Self(site.app.accounts.buyer(token(&parts.method, &parts.headers)?).await?))
    }
}

/// The buyer, if the request carries a valid token. An expired token counts as none: these pages are public.
#[derive(Debug)]
pub struct Visitor(pub Option<UserId>);

impl FromRequestParts<Site> for Visitor {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, site: &Site) -> Result<Self, Problem> {
        let Some(token) = token(&parts.method, &parts.headers)? else { return Ok(Self(None)) };
        Ok(Self(site.app.accounts.buyer(Some(token)).await.ok()))
    }
}

/// Any signed-in operator, regardless of role: for actions on the operator's own account.
#[derive(Debug)]
pub struct AnyOperator(pub OperatorIdentity);

impl FromRequestParts<Site> for AnyOperator {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, site: &Site) -> Result<Self, Problem> {
        let headers = &parts.headers;
        if let Some(token) = console_token(headers).filter(|_| bearer(headers).is_none()) {
            check_origin(&parts.method, headers)?;
            return Ok(Self(site.app.operators.console_operator(token).await?));
        }
        Ok(Self(site.app.operators.authenticate(bearer(headers)).await?))
    }
}

/// An operator whose role allows the request's method: viewers may read, operators may also change.
#[derive(Debug)]
pub struct Operator(pub OperatorIdentity);

impl FromRequestParts<Site> for Operator {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, site: &Site) -> Result<Self, Problem> {
        let AnyOperator(operating) = AnyOperator::from_request_parts(parts, site).await?;
        operating.may(if parts.method.is_safe() { Role::Viewer } else { Role::Operator })?;
        Ok(Self(operating))
    }
}

/// An operator with the role admin.
#[derive(Debug)]
pub struct Admin(pub OperatorIdentity);

impl FromRequestParts<Site> for Admin {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, site: &Site) -> Result<Self, Problem> {
        let AnyOperator(operating) = AnyOperator::from_request_parts(parts, site).await?;
        operating.may(Role::Admin)?;
        Ok(Self(operating))
    }
}

/// The client's IP address.
#[derive(Debug)]
pub struct Address(pub IpAddr);

impl FromRequestParts<Site> for Address {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Site) -> Result<Self, Problem> {
        // The listener adds a `Peer` to every request; it is missing only in tests that call the router directly.
        let peer = parts.extensions.get::<Peer>();
        Ok(Self(peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.0)))
    }
}

/// The address of the connection's other end, or the client address reported by a trusted proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer(pub IpAddr);

/// The buyer's session token: from the `Authorization` header, or from the cookie if the request passes the CSRF check.
pub fn token<'a>(method: &Method, headers: impl Into<Headers<'a>>) -> Result<Option<&'a str>, Problem> {
    let headers = headers.into();
    if let Some(token) = bearer(headers) {
        return Ok(Some(token));
    }
    let cookie = session_token(headers);
    if cookie.is_some() {
        check_origin(method, headers)?;
    }
    Ok(cookie)
}

pub fn bearer<'a>(headers: impl Into<Headers<'a>>) -> Option<&'a str> {
    let (scheme, token) = headers.into().get(&header::AUTHORIZATION)?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

/// The request's idempotency key, if it has one.
pub fn idempotency_key<'a>(headers: impl Into<Headers<'a>>) -> Result<Option<IdempotencyKey>, Problem> {
    let headers = headers.into();
    let text = headers.get(&IDEMPOTENCY_KEY);
    if text.is_none() && !headers.has(&IDEMPOTENCY_KEY) {
        return Ok(None);
    }
    let text = text.filter(|text| (1..=MAX_IDEMPOTENCY_KEY).contains(&text.len()));
    let text = text.ok_or_else(|| {
        let what = format!("must have 1 to {MAX_IDEMPOTENCY_KEY} printable ASCII characters");
        Problem::invalid(BTreeMap::from([("Idempotency-Key".to_owned(), what)]))
    })?;
    Ok(Some(tidegate_app::digest::idempotency_key(text)))
}

/// The idempotency key of an operator's request, if it has one.
#[derive(Debug)]
pub struct OperatorIdempotencyKey(Option<IdempotencyKey>);

impl OperatorIdempotencyKey {
    /// `about` contains what distinguishes the request besides its body, such as an id in the path.
    pub fn into_request(
        self,
        scope: &'static str,
        about: &str,
        fingerprint: [u8; 16],
    ) -> Option<IdempotentRequest> {
        let fingerprint = short_digest(&[about.as_bytes(), &fingerprint]);
        self.0.map(|key| IdempotentRequest { scope, key, fingerprint })
    }
}

impl FromRequestParts<Site> for OperatorIdempotencyKey {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Site) -> Result<Self, Problem> {
        idempotency_key(&parts.headers).map(Self)
    }
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct PageQuery {
    /// Maximum number of entries, 1 to 1000; 50 by default.
    #[param(value_type = Option<u32>)]
    pub limit: Option<String>,
    /// The `next` of the previous page.
    pub cursor: Option<String>,
}

const DEFAULT_LIMIT: u32 = 50;
const MAX_LIMIT: u32 = 1000;

impl PageQuery {
    pub fn page<T: Public>(&self, app: &App, raw: impl Fn(T) -> u64) -> Result<Page, Problem> {
        let before = match &self.cursor {
            Some(cursor) => Some(raw(app.parse(cursor).ok_or_else(not_a_cursor)?)),
            None => None,
        };
        Ok(Page { before, limit: self.limit()? })
    }

    /// For lists whose cursors are plain row numbers instead of public ids.
    pub fn numbered(&self) -> Result<Page, Problem> {
        let before = match &self.cursor {
            Some(cursor) => Some(cursor.parse().map_err(|_| not_a_cursor())?),
            None => None,
        };
        Ok(Page { before, limit: self.limit()? })
    }

    fn limit(&self) -> Result<u32, Problem> {
        let Some(text) = &self.limit else { return Ok(DEFAULT_LIMIT) };
        text.parse().ok().filter(|limit| (1..=MAX_LIMIT).contains(limit)).ok_or_else(|| {
            let what = format!("must be a number between 1 and {MAX_LIMIT}");
            Problem::invalid(BTreeMap::from([("limit".to_owned(), what)]))
        })
    }
}

fn not_a_cursor() -> Problem {
    let what = "must be the `next` of an earlier page".to_owned();
    Problem::invalid(BTreeMap::from([("cursor".to_owned(), what)]))
}

/// A query string; one that cannot be parsed is answered with `422`.
#[derive(Debug)]
pub struct StrictQuery<T>(pub T);

impl<T: DeserializeOwned> FromRequestParts<Site> for StrictQuery<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, site: &Site) -> Result<Self, Problem> {
        match Query::<T>::from_request_parts(parts, site).await {
            Ok(Query(asked)) => Ok(Self(asked)),
            Err(rejection) => {
                Err(Problem::invalid(BTreeMap::from([("query".to_owned(), rejection.body_text())])))
            }
        }
    }
}
