//! An answer before it is dressed for its way out: its status, what its headers say that others do not, and its body.
//!
//! hyper takes it as a response, with a map of headers; the short way writes it as it goes out.

use std::borrow::Cow;

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use smallvec::{SmallVec, smallvec};

/// An order takes up less; one allocation does.
const TYPICAL_BYTES: usize = 512;
/// Room for those that every answer gets.
const HEADERS: usize = 12;

#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: SmallVec<[(HeaderName, Cow<'static, str>); 3]>,
    pub(super) body: Cow<'static, [u8]>,
}

impl Answer {
    pub(super) fn new(status: StatusCode, kind: &'static str, body: impl Into<Cow<'static, [u8]>>) -> Self {
        Self { status, headers: smallvec![(header::CONTENT_TYPE, kind.into())], body: body.into() }
    }

    pub(super) fn with(mut self, name: HeaderName, value: impl Into<Cow<'static, str>>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}

impl IntoResponse for Answer {
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
            // Ours are plain text.
            if let Ok(value) = value {
                headers.insert(name, value);
            }
        }
        response
    }
}

/// The answer to whoever made something, at `location`. `write` says what it is like; `replayed` if it was made before, by a
/// request with the same key.
pub(super) fn made(
    status: StatusCode,
    location: String,
    write: impl FnOnce(&mut Vec<u8>),
    replayed: bool,
) -> Answer {
    let mut body = Vec::with_capacity(TYPICAL_BYTES);
    write(&mut body);
    let answer = Answer::new(status, "application/json", body).with(header::LOCATION, location);
    if replayed { answer.with(REPLAYED, "true") } else { answer }
}

const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
