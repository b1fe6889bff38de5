//! The answer to whoever made something: where it is, and what it is like.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;

/// An order takes up less; one allocation does.
const TYPICAL_BYTES: usize = 512;
/// Room for those that every answer gets.
const HEADERS: usize = 12;

/// `write` says what it is like; `replayed` if it was made before, by a request with the same key.
pub(super) fn made(
    status: StatusCode,
    location: String,
    write: impl FnOnce(&mut Vec<u8>),
    replayed: bool,
) -> Response {
    let mut body = Vec::with_capacity(TYPICAL_BYTES);
    write(&mut body);
    let mut headers = HeaderMap::with_capacity(HEADERS);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Ok(location) = HeaderValue::try_from(location) {
        headers.insert(header::LOCATION, location);
    }
    if replayed {
        headers.insert("idempotency-replayed", HeaderValue::from_static("true"));
    }
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}
