//! The answer to whoever made something: where it is, and what it is like.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use serde::Serialize;

/// An order takes up less; one allocation does.
const TYPICAL_BYTES: usize = 512;
/// Room for those that every answer gets.
const HEADERS: usize = 12;

/// `replayed` if it was made before, by a request with the same key.
pub(super) fn made(status: StatusCode, location: String, shape: &impl Serialize, replayed: bool) -> Response {
    let mut body = Vec::with_capacity(TYPICAL_BYTES);
    // Writing shapes to memory cannot fail.
    let _ = serde_json::to_writer(&mut body, shape);
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
