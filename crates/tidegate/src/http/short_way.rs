//! The short way: what a buyer's program asks for is read straight off its connection, and answered on it.
//!
//! hyper reads and writes whatever HTTP/1.1 allows, and an order spends a third of its time there. What always holds: only
//! what every reader of HTTP understands alike goes this way: a GET or POST of the buyers' API that has come whole, with a
//! plain length and nothing behind it. Anything else, from its first byte on, is left to hyper, and with it the rest of its
//! connection.

use std::cell::RefCell;
use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::time::{Duration, UNIX_EPOCH};

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use bytes::Bytes;
use http_body::Body as _;
use http_body_util::BodyExt;
use tidegate_core::Moment;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, sleep};

use super::doors::Doors;
use super::headers::Headers;
use super::input::Sent;
use super::socket::Socket;
use super::visit::write_header;
use crate::ops::App;

/// Read at once; an order takes up a tenth of it.
const READ_BYTES: usize = 4 << 10;
const MOST_HEADERS: usize = 32;
/// A connection keeps room for answers of this size; of longer ones so much is written at a time.
const KEPT_BYTES: usize = 16 << 10;
/// What asks for more than an answer.
const NOT_FOR_HERE: [&str; 5] = ["transfer-encoding", "expect", "upgrade", "te", "trailer"];

/// Why no more is answered this way.
pub(super) enum End {
    /// The client is, or the server closes.
    Gone,
    /// It asks for something that is not for here; this was read of it.
    NotForHere(Bytes),
}

/// Answers what comes until something ends it. `patience` is how long nothing may come.
pub(super) async fn serve(
    socket: &mut Socket,
    peer: IpAddr,
    doors: &Doors,
    app: &App,
    patience: Duration,
) -> End {
    let mut closed = pin!(app.closed());
    let mut silence = pin!(sleep(patience));
    let mut last = Instant::now();
    let (mut read, mut out) = (Vec::with_capacity(READ_BYTES), Vec::new());
    loop {
        read.clear();
        tokio::select! {
            biased;
            // First: a client that never stops asking must not keep the server from closing.
            () = &mut closed => return End::Gone,
            got = socket.read_buf(&mut read) => if !got.is_ok_and(|bytes| bytes > 0) { return End::Gone },
            // Set anew only when it is over: that is rare, and answers are not.
            () = &mut silence => {
                if last.elapsed() >= patience {
                    return End::Gone;
                }
                silence.as_mut().reset(last + patience);
                continue;
            }
        }
        let mut room = [httparse::EMPTY_HEADER; MOST_HEADERS];
        let Some(asked) = Asked::read(&read, &mut room) else { return End::NotForHere(read.into()) };
        out.clear();
        out.shrink_to(KEPT_BYTES);
        match asked.answer(doors, peer, socket, &mut out).await {
            Ok(Then::More) => last = Instant::now(),
            Ok(Then::NotForHere) => return End::NotForHere(read.into()),
            Ok(Then::End) | Err(_) => return End::Gone,
        }
    }
}

/// What comes after an answer.
enum Then {
    More,
    End,
    /// Nothing was answered.
    NotForHere,
}

/// A request that came whole.
struct Asked<'a> {
    method: Method,
    target: &'a str,
    headers: &'a [httparse::Header<'a>],
    body: &'a [u8],
}

impl<'a> Asked<'a> {
    /// `None` where it is not for here.
    fn read(bytes: &'a [u8], room: &'a mut [httparse::Header<'a>]) -> Option<Self> {
        let mut request = httparse::Request::new(room);
        let Ok(httparse::Status::Complete(head)) = request.parse(bytes) else { return None };
        let method = match (request.method?, request.version?) {
            ("POST", 1) => Method::POST,
            ("GET", 1) => Method::GET,
            _ => return None,
        };
        let target = request.path.filter(|target| is_for_here(target))?;
        let headers = &*request.headers;
        let mut length = None;
        for httparse::Header { name, value } in headers {
            let is = |other: &str| name.eq_ignore_ascii_case(other);
            if is("content-length") && length.replace(read_length(value)?).is_some()
                || is("connection") && !value.eq_ignore_ascii_case(b"keep-alive")
                || NOT_FOR_HERE.into_iter().any(is)
            {
                return None;
            }
        }
        let body = &bytes[head..];
        (body.len() == length.unwrap_or(0)).then_some(Self { method, target, headers, body })
    }

    /// Writes the answer.
    async fn answer(
        self,
        doors: &Doors,
        peer: IpAddr,
        socket: &mut Socket,
        out: &mut Vec<u8>,
    ) -> io::Result<Then> {
        let Self { method, target, headers, body } = self;
        if let Some(wish) = doors.wish(&method, target) {
            let sent = Sent::Whole(body);
            let (answer, dress) = doors.grant(wish, peer, target, Headers::Read(headers), sent).await;
            write_status(out, answer.status);
            answer.headers.iter().for_each(|(name, value)| write_header(out, name, value.as_bytes()));
            dress.write(out);
            write_end(out, answer.status, Some(answer.body.len() as u64), doors.site.app.now());
            out.extend_from_slice(&answer.body);
            return socket.write_all(out).await.map(|()| Then::More);
        }
        Box::pin(Self { method, target, headers, body }.answer_by_router(doors, peer, socket, out)).await
    }

    /// The same for what has no door of its own.
    async fn answer_by_router(
        self,
        doors: &Doors,
        peer: IpAddr,
        socket: &mut Socket,
        out: &mut Vec<u8>,
    ) -> io::Result<Then> {
        let Some(request) = self.into_request() else { return Ok(Then::NotForHere) };
        let (parts, mut body) = doors.answer(request, peer).await.into_parts();
        let length = body.size_hint().exact();
        write_status(out, parts.status);
        parts.headers.iter().for_each(|(name, value)| write_header(out, name, value.as_bytes()));
        write_end(out, parts.status, length, doors.site.app.now());
        while let Some(frame) = body.frame().await {
            if let Ok(data) = frame.map_err(io::Error::other)?.into_data() {
                out.extend_from_slice(&data);
            }
            // What has no length beforehand goes out as it comes, and ends with its connection.
            if length.is_none() || out.len() >= KEPT_BYTES {
                socket.write_all(out).await?;
                out.clear();
            }
        }
        socket.write_all(out).await?;
        Ok(if length.is_some() { Then::More } else { Then::End })
    }

    /// `None` where something in it is not as it may be: hyper says so.
    fn into_request(self) -> Option<Request> {
        let mut request = Request::new(Body::from(Bytes::copy_from_slice(self.body)));
        (*request.method_mut(), *request.uri_mut()) = (self.method, Uri::try_from(self.target).ok()?);
        for httparse::Header { name, value } in self.headers {
            let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
            request.headers_mut().append(name, HeaderValue::from_bytes(value).ok()?);
        }
        Some(request)
    }
}

/// The buyers' API but for its streams, which last.
fn is_for_here(target: &str) -> bool {
    target.starts_with("/v1/") && !target.starts_with("/v1/admin/") && !target.ends_with("/stream")
}

/// Digits and nothing else: readers differ in what else they take for a number.
fn read_length(value: &[u8]) -> Option<usize> {
    let digits = value.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(value).ok().filter(|_| digits)?.parse().ok()
}

fn write_status(out: &mut Vec<u8>, status: StatusCode) {
    for part in ["HTTP/1.1 ", status.as_str(), " ", status.canonical_reason().unwrap_or_default()] {
        out.extend_from_slice(part.as_bytes());
    }
}

/// What a head ends with.
fn write_end(out: &mut Vec<u8>, status: StatusCode, length: Option<u64>, now: Moment) {
    match length {
        // These have no body, and say nothing of one.
        _ if status == StatusCode::NO_CONTENT || status == StatusCode::NOT_MODIFIED => {}
        Some(length) => {
            write_header(out, &header::CONTENT_LENGTH, itoa::Buffer::new().format(length).as_bytes());
        }
        None => write_header(out, &header::CONNECTION, b"close"),
    }
    DATE.with_borrow_mut(|date| write_header(out, &header::DATE, date.at(now).as_bytes()));
    out.extend_from_slice(b"\r\n\r\n");
}

/// The time as answers say it: made once a second.
#[derive(Default)]
struct Date {
    second: i64,
    text: String,
}

thread_local! {
    static DATE: RefCell<Date> = RefCell::default();
}

impl Date {
    fn at(&mut self, now: Moment) -> &str {
        let second = now.millis() / 1000;
        if second != self.second || self.text.is_empty() {
            let since = Duration::from_secs(second.unsigned_abs());
            *self = Self { second, text: httpdate::fmt_http_date(UNIX_EPOCH + since) };
        }
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<(Method, String, usize, String)> {
        let mut room = [httparse::EMPTY_HEADER; MOST_HEADERS];
        let asked = Asked::read(text.as_bytes(), &mut room)?;
        let body = String::from_utf8_lossy(asked.body).into_owned();
        Some((asked.method, asked.target.to_owned(), asked.headers.len(), body))
    }

    #[test]
    fn what_came_whole_is_read() {
        let order = "POST /v1/sales/X/orders HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}";
        assert_eq!(read(order), Some((Method::POST, "/v1/sales/X/orders".into(), 2, "{}".into())));
        let look = "GET /v1/sales/X?a=b HTTP/1.1\r\nHost: a\r\nConnection: Keep-Alive\r\nX: \r\n\r\n";
        assert_eq!(read(look), Some((Method::GET, "/v1/sales/X?a=b".into(), 3, String::new())));
    }

    #[test]
    fn what_readers_might_differ_about_is_left_to_hyper() {
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
        ] {
            assert_eq!(read(&with(more, body)), None, "{more} {body}");
        }
        let many: Vec<_> = (0..MOST_HEADERS).map(|at| format!("x{at}: y")).collect();
        assert_eq!(read(&with(&many.join("\r\n"), "")), None);
        for line in [
            "PUT /v1/orders HTTP/1.1",
            "GET /healthz HTTP/1.1",
            "GET /v1/admin/sales HTTP/1.1",
            "GET /v1/orders HTTP/1.0",
            "GET http://a/v1/orders HTTP/1.1",
            "GET /v1/orders/X/stream HTTP/1.1",
        ] {
            assert_eq!(read(&format!("{line}\r\nHost: a\r\n\r\n")), None, "{line}");
        }
        assert_eq!(read("GET /v1/orders HTTP/1.1\r\nHost: a\r\n"), None, "not whole");
    }

    #[test]
    fn an_answer_is_written_as_http() {
        let mut out = Vec::new();
        write_status(&mut out, StatusCode::CREATED);
        write_end(&mut out, StatusCode::CREATED, Some(12), Moment::from_millis(784_111_777_000));
        let date = "Sun, 06 Nov 1994 08:49:37 GMT";
        let wanted = format!("HTTP/1.1 201 Created\r\ncontent-length: 12\r\ndate: {date}\r\n\r\n");
        assert_eq!(String::from_utf8(out).unwrap(), wanted);
        for (status, length, said) in [
            (StatusCode::OK, None, "\r\nconnection: close\r\ndate: "),
            (StatusCode::NO_CONTENT, Some(0), "\r\ndate: "),
        ] {
            let mut out = Vec::new();
            write_end(&mut out, status, length, Moment::default());
            assert!(String::from_utf8(out).unwrap().starts_with(said), "{status}");
        }
    }
}
