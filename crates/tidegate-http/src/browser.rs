//! Browsers: session cookies beside bearer tokens, protection against cross-site requests, security headers.

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use tidegate_app::Refusal;
use tidegate_core::ProblemCode;

use super::headers::Headers;
use super::problem::Problem;

/// Bound to this host, over TLS only, by the browser itself.
pub const COOKIE: &str = "__Host-session";
/// The same for operators: no other site's request or link brings it along.
const CONSOLE_COOKIE: &str = "__Host-console";
/// A client that sends this gets its session as a cookie, out of reach of scripts.
pub const WANTS_COOKIE: &str = "tidegate-session";
/// What browsers say of where a request comes from.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The cookie for a session, or the one that takes it away.
pub fn cookie(token: Option<&str>) -> HeaderValue {
    set_cookie(COOKIE, token, "Lax")
}

/// The same for a console.
pub fn console_cookie(token: Option<&str>) -> HeaderValue {
    set_cookie(CONSOLE_COOKIE, token, "Strict")
}

fn set_cookie(name: &str, token: Option<&str>, same_site: &str) -> HeaderValue {
    let life = if token.is_some() { 24 * 3600 } else { 0 };
    let token = token.unwrap_or("");
    let text = format!("{name}={token}; Path=/; Secure; HttpOnly; SameSite={same_site}; Max-Age={life}");
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static(""))
}

/// The token of a buyer's session.
pub fn session_token<'a>(headers: impl Into<Headers<'a>>) -> Option<&'a str> {
    find_cookie(headers, COOKIE)
}

/// The token of an operator's console.
pub fn console_token<'a>(headers: impl Into<Headers<'a>>) -> Option<&'a str> {
    find_cookie(headers, CONSOLE_COOKIE)
}

pub fn find_cookie<'a>(headers: impl Into<Headers<'a>>, wanted: &str) -> Option<&'a str> {
    let cookies = headers.into().all(&header::COOKIE).flatten();
    let mut pairs = cookies.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == wanted).map(|(_, token)| token)
}

/// Refuses cross-site requests: a browser sends its cookie with requests that other sites make it send.
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

const FOR_ANSWERS: &str = "default-src 'none'; frame-ancestors 'none'";
/// The API docs are a page with scripts and styles of its own.
const FOR_DOCS: &str =
    "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; frame-ancestors 'none'";
/// Pages run and load what comes from here, nothing that stands in the page itself; pictures may be the merchant's.
const FOR_PAGES: &str = "default-src 'none'; script-src 'self'; worker-src 'self'; style-src 'self'; \
     img-src 'self' data: https:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The security headers of every response.
pub fn security_headers(headers: &mut HeaderMap, docs: bool) {
    headers.reserve(8);
    // A worker is held to what comes with its own script.
    let page = headers.get(header::CONTENT_TYPE).is_some_and(|kind| {
        kind.as_bytes().starts_with(b"text/html") || kind.as_bytes().starts_with(b"text/javascript")
    });
    let policy = match (docs, page) {
        (true, _) => FOR_DOCS,
        (false, true) => FOR_PAGES,
        (false, false) => FOR_ANSWERS,
    };
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
}
