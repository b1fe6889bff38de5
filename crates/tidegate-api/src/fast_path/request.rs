//! The strict parser of the fast path: requests whose framing no two parsers could read differently.
//!
//! Accepted: one HTTP/1.1 request that was read completely, with nothing behind it; a path as its target; one `Host`;
//! lines that end in CRLF; at most one `Content-Length`, in digits, that fits the body; `Connection: keep-alive` or
//! none.
//!
//! Left to hyper, and why: `HEAD` and `OPTIONS` (hyper decides about the body), HTTP/1.0 and `Connection: close` (the
//! connection ends anyway), chunked bodies, `Expect`, `Upgrade` and trailers, pipelined requests, heads and bodies
//! that arrive in pieces (hyper's timeouts and size limits apply to them), and event streams (hyper notices when
//! their client hangs up).

use std::mem::MaybeUninit;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, Method, Uri};
use bytes::Bytes;

/// Browsers and proxies send about twenty.
pub(super) const MAX_HEADERS: usize = 32;
/// Requests with one of these headers are left to hyper.
const UNSUPPORTED: [&str; 5] = ["transfer-encoding", "expect", "upgrade", "te", "trailer"];
/// Last path segments of event streams.
const STREAMS: [&str; 2] = ["/stream", "/live"];

/// A request that was read completely.
pub(super) struct PlainRequest<'a> {
    pub(super) method: Method,
    pub(super) target: &'a str,
    pub(super) headers: &'a [httparse::Header<'a>],
    pub(super) body: &'a [u8],
}

impl<'a> PlainRequest<'a> {
    /// `None` for a request that is left to hyper.
    pub(super) fn parse(bytes: &'a [u8], room: &'a mut [MaybeUninit<httparse::Header<'a>>]) -> Option<Self> {
        let mut request = httparse::Request::new(&mut []);
        let Ok(httparse::Status::Complete(head)) = request.parse_with_uninit_headers(bytes, room) else {
            return None;
        };
        let method = request.method.filter(|method| bytes.starts_with(method.as_bytes()))?;
        let method = match (method, request.version?) {
            ("POST", 1) => Method::POST,
            ("GET", 1) => Method::GET,
            ("PUT", 1) => Method::PUT,
            ("PATCH", 1) => Method::PATCH,
            ("DELETE", 1) => Method::DELETE,
            _ => return None,
        };
        let target = request.path.filter(|target| target.starts_with('/') && !is_stream(target))?;
        let offset = |part: &[u8]| part.as_ptr().addr().wrapping_sub(bytes.as_ptr().addr());
        let ends = |part: &[u8], end: &[u8]| {
            let behind = offset(part).wrapping_add(part.len());
            bytes.get(behind..).is_some_and(|rest| rest.starts_with(end))
        };
        if offset(target.as_bytes()) != method.as_str().len() + 1
            || !ends(target.as_bytes(), b" HTTP/1.1\r\n")
        {
            return None;
        }
        let headers = &*request.headers;
        let (mut length, mut hosts) = (None, 0);
        for httparse::Header { name, value } in headers {
            let is = |other: &str| name.eq_ignore_ascii_case(other);
            if is("content-length") && length.replace(parse_length(value)?).is_some()
                || is("connection") && !value.eq_ignore_ascii_case(b"keep-alive")
                || UNSUPPORTED.into_iter().any(is)
                || !ends(value, b"\r\n")
            {
                return None;
            }
            hosts += u32::from(is("host"));
        }
        let body = &bytes[head..];
        let is_plain =
            hosts == 1 && body.len() == length.unwrap_or(0) && bytes[..head].ends_with(b"\r\n\r\n");
        is_plain.then_some(Self { method, target, headers, body })
    }

    /// Converts it for the router. `None` if the target or a header is invalid: hyper rejects such a request.
    pub(super) fn into_request(self) -> Option<Request> {
        let mut request = Request::new(Body::from(Bytes::copy_from_slice(self.body)));
        (*request.method_mut(), *request.uri_mut()) = (self.method, Uri::try_from(self.target).ok()?);
        for httparse::Header { name, value } in self.headers {
            let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
            request.headers_mut().append(name, HeaderValue::from_bytes(value).ok()?);
        }
        Some(request)
    }
}

fn is_stream(target: &str) -> bool {
    let path = target.split(['?', '#']).next().unwrap_or_default();
    STREAMS.iter().any(|stream| path.ends_with(stream))
}

/// Digits only: parsers differ in what else they accept as a number.
fn parse_length(value: &[u8]) -> Option<usize> {
    let digits = value.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(value).ok().filter(|_| digits)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<(Method, String, usize, String)> {
        let mut room = [const { MaybeUninit::uninit() }; MAX_HEADERS];
        let request = PlainRequest::parse(text.as_bytes(), &mut room)?;
        let body = String::from_utf8_lossy(request.body).into_owned();
        Some((request.method, request.target.to_owned(), request.headers.len(), body))
    }

    #[test]
    fn a_complete_request_is_accepted() {
        let order = "POST /v1/sales/X/orders HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}";
        assert_eq!(read(order), Some((Method::POST, "/v1/sales/X/orders".into(), 2, "{}".into())));
        let look = "GET /v1/sales/X?a=b HTTP/1.1\r\nHost: a\r\nConnection: Keep-Alive\r\nX: y\r\n\r\n";
        for line in ["GET / HTTP/1.1", "GET /assets/page.js HTTP/1.1", "DELETE /v1/admin/webhooks/X HTTP/1.1"]
        {
            assert!(read(&format!("{line}\r\nHost: a\r\n\r\n")).is_some(), "{line}");
        }
        assert_eq!(read(look), Some((Method::GET, "/v1/sales/X?a=b".into(), 3, String::new())));
    }

    #[test]
    fn what_parsers_could_read_differently_is_left_to_hyper() {
        let with = |more: &str, body: &str| {
            format!("POST /v1/sales/X/orders HTTP/1.1\r\nHost: a\r\n{more}\r\n\r\n{body}")
        };
        assert!(read(&with("Content-Length: 2", "{}")).is_some());
        for (more, body) in [
            ("Content-Length: 2\r\nContent-Length: 2", "{}"),
            ("Content-Length: 2, 2", "{}"),
            ("Content-Length: +2", "{}"),
            ("Content-Length: ", ""),
            ("Content-Length: 3", "{}"),
            ("Content-Length: 1", "{}"),
            ("Content-Length: 99999999999999999999999", "{}"),
            ("X: y", "{}"),
            ("Transfer-Encoding: chunked", "2\r\n{}\r\n0\r\n\r\n"),
            ("Content-Length: 2\r\nTransfer-Encoding: identity", "{}"),
            ("Content-Length: 2\r\nExpect: 100-continue", "{}"),
            ("Content-Length: 2\r\nUpgrade: h2c", "{}"),
            ("Content-Length: 2\r\nConnection: close", "{}"),
            ("Content-Length: 2\r\nConnection: keep-alive, upgrade", "{}"),
            ("Content-Length: 2\r\n folded: line", "{}"),
            ("Content-Length : 2", "{}"),
            ("Content-Length: 2", "{}GET /v1/orders HTTP/1.1\r\n\r\n"),
            ("Content-Length: 2\nX: y", "{}"),
            ("Content-Length: 2 ", "{}"),
            ("Content-Length: 2\r\nHost: b", "{}"),
        ] {
            assert_eq!(read(&with(more, body)), None, "{more} {body}");
        }
        let many: Vec<_> = (0..MAX_HEADERS).map(|at| format!("x{at}: y")).collect();
        assert_eq!(read(&with(&many.join("\r\n"), "")), None);
        for line in [
            "HEAD /v1/orders HTTP/1.1",
            "OPTIONS /v1/orders HTTP/1.1",
            "OPTIONS * HTTP/1.1",
            "get /v1/orders HTTP/1.1",
            "GET /v1/orders HTTP/1.0",
            "GET http://a/v1/orders HTTP/1.1",
            "GET /v1/orders/X/stream HTTP/1.1",
            "GET /v1/orders/X/stream?a=b HTTP/1.1",
            "GET /v1/admin/live HTTP/1.1",
            "GET /console/sales/X/live?lang=en HTTP/1.1",
            "\r\nGET /v1/orders HTTP/1.1",
            "GET  /v1/orders HTTP/1.1",
        ] {
            assert_eq!(read(&format!("{line}\r\nHost: a\r\n\r\n")), None, "{line}");
        }
        assert_eq!(read("GET /v1/orders HTTP/1.1\r\nHost: a\r\n"), None, "incomplete");
        assert_eq!(read("GET /v1/orders HTTP/1.1\r\nX: y\r\n\r\n"), None, "no host");
        assert_eq!(read("GET /v1/orders HTTP/1.1\nHost: a\r\n\r\n"), None, "a line ends badly");
        assert_eq!(read("GET /v1/orders HTTP/1.1\r\nHost: a\n\n"), None, "the head ends badly");
    }
}
