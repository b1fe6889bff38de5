//! A response independent of the HTTP stack: status, specific headers, body.
//!
//! The router converts it to an axum response; the fast path writes it directly to the socket.

use std::borrow::Cow;

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use smallvec::{SmallVec, smallvec};
use tidegate_app::digest::token;

/// Initial body capacity. An order's JSON is smaller, so one allocation is enough.
const TYPICAL_BYTES: usize = 512;
/// Initial header capacity, including the common headers.
const HEADERS: usize = 12;

#[derive(Debug)]
pub struct PlainResponse {
    pub status: StatusCode,
    pub headers: SmallVec<[(HeaderName, Cow<'static, str>); 3]>,
    pub body: Cow<'static, [u8]>,
}

impl PlainResponse {
    pub fn new(status: StatusCode, kind: &'static str, body: impl Into<Cow<'static, [u8]>>) -> Self {
        Self { status, headers: smallvec![(header::CONTENT_TYPE, kind.into())], body: body.into() }
    }

    #[must_use]
    pub fn with(mut self, name: HeaderName, value: impl Into<Cow<'static, str>>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}

impl IntoResponse for PlainResponse {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::from(self.body));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.reserve(HEADERS);
        for (name, value) in self.headers {
            let value = match value {
                Cow::Borrowed(text) => Ok(HeaderValue::from_static(text)),
                Cow::Owned(text) => HeaderValue::try_from(text),
            };
            // The program's own values are always valid.
            if let Ok(value) = value {
                headers.insert(name, value);
            }
        }
        response
    }
}

/// The response to a request that created something at `location`. `write` writes the body; `replayed` if an earlier
/// request with the same idempotency key created it.
pub fn created(
    status: StatusCode,
    location: String,
    write: impl FnOnce(&mut Vec<u8>),
    replayed: bool,
) -> PlainResponse {
    let mut body = Vec::with_capacity(TYPICAL_BYTES);
    write(&mut body);
    let response = PlainResponse::new(status, "application/json", body).with(header::LOCATION, location);
    if replayed { response.with(REPLAYED, "true") } else { response }
}

const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// A hash or seed as 64 hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    token("", bytes)
}
