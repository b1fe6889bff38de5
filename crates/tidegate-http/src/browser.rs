//! Support for browsers: session cookies as an alternative to bearer tokens, CSRF protection, security headers.

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use tidegate_app::Refusal;
use tidegate_core::ProblemCode;

use super::headers::Headers;
use super::problem::Problem;

/// Session cookie of buyers. Browsers accept the prefix `__Host-` only over TLS and bind the cookie to this host.
pub const COOKIE: &str = "__Host-session";
/// Session cookie of operators. It is `SameSite=Strict`: requests and links from other sites do not carry it.
const CONSOLE_COOKIE: &str = "__Host-console";
/// Request header by which a client asks for its session as an `HttpOnly` cookie, which scripts cannot read.
pub const SESSION_TRANSPORT_HEADER: &str = "tidegate-session";
/// Set by browsers: the relation between the site that caused the request and this one.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The `Set-Cookie` value that stores a buyer's session token; `None` deletes the cookie.
pub fn cookie(token: Option<&str>) -> HeaderValue {
    set_cookie(COOKIE, token, "Lax")
}

/// The same for an operator's console session.
pub fn console_cookie(token: Option<&str>) -> HeaderValue {
    set_cookie(CONSOLE_COOKIE, token, "Strict")
}

fn set_cookie(name: &str, token: Option<&str>, same_site: &str) -> HeaderValue {
    let life = if token.is_some() { 24 * 3600 } else { 0 };
    let token = token.unwrap_or("");
    let text = format!("{name}={token}; Path=/; Secure; HttpOnly; SameSite={same_site}; Max-Age={life}");
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static(""))
}

/// The token of a buyer's session, from its cookie.
pub fn session_token<'a>(headers: impl Into<Headers<'a>>) -> Option<&'a str> {
    find_cookie(headers, COOKIE)
}

/// The token of an operator's console session, from its cookie.
pub fn console_token<'a>(headers: impl Into<Headers<'a>>) -> Option<&'a str> {
    find_cookie(headers, CONSOLE_COOKIE)
}

pub fn find_cookie<'a>(headers: impl Into<Headers<'a>>, wanted: &str) -> Option<&'a str> {
    let cookies = headers.into().all(&header::COOKIE).flatten();
    let mut pairs = cookies.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == wanted).map(|(_, token)| token)
}

/// CSRF check: rejects unsafe requests from other sites, because browsers attach this site's cookie to them, too.
pub fn check_origin<'a>(method: &Method, headers: impl Into<Headers<'a>>) -> Result<(), Problem> {
    if method.is_safe() {
        return Ok(());
    }
    let headers = headers.into();
    let ours = match (headers.get(&FETCH_SITE), headers.get(&header::ORIGIN), headers.get(&header::HOST)) {
        (Some(site), ..) => site == "same-origin",
        (None, Some(origin), Some(host)) => origin.split_once("://").is_some_and(|(_, from)| from == host),
        _ => false,
    };
    if ours {
        return Ok(());
    }
    let detail = "This request was not made by a page of this site.";
    Err(Refusal::Denied { code: ProblemCode::Csrf, detail }.into())
}

const CSP_API: &str = "default-src 'none'; frame-ancestors 'none'";
/// Swagger UI needs its own scripts and inline styles.
const CSP_DOCS: &str =
    "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; frame-ancestors 'none'";
/// Scripts and styles only from this origin, nothing inline; images may come from the merchant's servers.
const CSP_PAGES: &str = "default-src 'none'; script-src 'self'; worker-src 'self'; style-src 'self'; \
     img-src 'self' data: https:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Sets the security headers that every response has.
pub fn security_headers(headers: &mut HeaderMap, docs: bool) {
    headers.reserve(8);
    // A web worker obeys the policy that its own script was served with.
    let page = headers.get(header::CONTENT_TYPE).is_some_and(|kind| {
        kind.as_bytes().starts_with(b"text/html") || kind.as_bytes().starts_with(b"text/javascript")
    });
    let policy = match (docs, page) {
        (true, _) => CSP_DOCS,
        (false, true) => CSP_PAGES,
        (false, false) => CSP_API,
    };
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
}
