//! The short way: what a buyer's program asks for is read straight off its connection, and answered on it.
//!
//! hyper reads and writes whatever HTTP/1.1 allows, and an order spends a third of its time there. What always holds: only
//! what is plain goes this way: a GET or POST of the buyers' API that has come whole, one host, every line ended properly, a
//! length in digits and nothing behind it. Anything else, from its first byte on, is left to hyper, and with it the rest of
//! its connection. Unlike there, what was begun is finished even if the client hangs up meanwhile.

use std::cell::RefCell;
use std::io;
use std::mem::MaybeUninit;
use std::net::IpAddr;
use std::pin::pin;
use std::time::{Duration, Instant, UNIX_EPOCH};

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use bytes::Bytes;
use http_body::Body as _;
use http_body_util::BodyExt;
use tidegate_core::Moment;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::sleep;

use super::doors::Doors;
use super::headers::Headers;
use super::input::Sent;
use super::socket::Socket;
use super::visit::{Came, write_header};
use crate::ops::App;

/// Read at once; an order takes up a tenth of it.
const READ_BYTES: usize = 4 << 10;
const MOST_HEADERS: usize = 32;
/// A connection keeps room for answers of this size; longer ones are written piece by piece.
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
    let (mut closed, closing) = (pin!(app.closed()), app.closing());
    let is_closing = || closing.has_changed().unwrap_or(true);
    let mut silence = pin!(sleep(patience));
    let mut last = Instant::now();
    let (mut read, mut out) = (Vec::with_capacity(READ_BYTES), Vec::new());
    loop {
        read.clear();
        // A client that never stops asking must not keep the server from closing.
        if is_closing() {
            return End::Gone;
        }
        tokio::select! {
            biased;
            got = socket.read_buf(&mut read) => if !got.is_ok_and(|bytes| bytes > 0) { return End::Gone },
            () = &mut closed => return End::Gone,
            // Set anew only when it is over: that is rare, and answers are not.
            () = &mut silence => {
                if last.elapsed() >= patience {
                    return End::Gone;
                }
                silence.as_mut().reset((last + patience).into());
                continue;
            }
        }
        let came = Came::just_now(app);
        let mut room = [const { MaybeUninit::uninit() }; MOST_HEADERS];
        let Some(asked) = Asked::read(&read, &mut room) else { return End::NotForHere(read.into()) };
        match asked
            .answer(doors, (peer, came), &mut Out { socket, bytes: &mut out, is_last: &is_closing })
            .await
        {
            // Not when it came: an answer may take longer than a client may be silent.
            Ok(Some(took)) => last = came.at + took,
            Ok(None) => return End::NotForHere(read.into()),
            Err(_) => return End::Gone,
        }
        out.clear();
        out.shrink_to(KEPT_BYTES);
    }
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
    fn read(bytes: &'a [u8], room: &'a mut [MaybeUninit<httparse::Header<'a>>]) -> Option<Self> {
        let mut request = httparse::Request::new(&mut []);
        let Ok(httparse::Status::Complete(head)) = request.parse_with_uninit_headers(bytes, room) else {
            return None;
        };
        let method = match (request.method?, request.version?) {
            ("POST", 1) if bytes.starts_with(b"POST ") => Method::POST,
            ("GET", 1) if bytes.starts_with(b"GET ") => Method::GET,
            _ => return None,
        };
        let target = request.path.filter(|target| is_for_here(target))?;
        let ends = |part: &[u8], end: &[u8]| {
            let behind = part.as_ptr().addr().wrapping_sub(bytes.as_ptr().addr()).wrapping_add(part.len());
            bytes.get(behind..).is_some_and(|rest| rest.starts_with(end))
        };
        if !ends(target.as_bytes(), b" HTTP/1.1\r\n") {
            return None;
        }
        let headers = &*request.headers;
        let (mut length, mut hosts) = (None, 0);
        for httparse::Header { name, value } in headers {
            let is = |other: &str| name.eq_ignore_ascii_case(other);
            if is("content-length") && length.replace(read_length(value)?).is_some()
                || is("connection") && !value.eq_ignore_ascii_case(b"keep-alive")
                || NOT_FOR_HERE.into_iter().any(is)
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

    /// Writes the answer, and says how long that took; `None` where there is none here.
    async fn answer(
        self,
        doors: &Doors,
        (peer, came): (IpAddr, Came),
        out: &mut Out<'_>,
    ) -> io::Result<Option<Duration>> {
        let Self { method, target, headers, body } = &self;
        let Some(wish) = doors.wish(method, target) else {
            let answered = Box::pin(self.answer_by_router(doors, peer, out)).await?;
            return Ok(answered.then(|| came.at.elapsed()));
        };
        let (answer, dress) =
            doors.grant(wish, peer, target, Headers::Read(headers), Sent::Whole(body), came).await;
        out.begin(answer.status);
        answer.headers.iter().for_each(|(name, value)| write_header(out.bytes, name, value.as_bytes()));
        let took = dress.took;
        dress.write(out.bytes);
        out.end_head(answer.status, Some(answer.body.len() as u64), came.now + took);
        out.bytes.extend_from_slice(&answer.body);
        out.send().await?;
        Ok(Some(took))
    }

    /// The same for what has no door of its own.
    async fn answer_by_router(self, doors: &Doors, peer: IpAddr, out: &mut Out<'_>) -> io::Result<bool> {
        let Some(request) = self.into_request() else { return Ok(false) };
        let (parts, mut body) = doors.answer(request, peer).await.into_parts();
        let length = body.size_hint().exact();
        out.begin(parts.status);
        // The router says the length, too, but not to everything.
        let others = parts.headers.iter().filter(|(name, _)| *name != header::CONTENT_LENGTH);
        others.for_each(|(name, value)| write_header(out.bytes, name, value.as_bytes()));
        out.end_head(parts.status, length, doors.site.app.now());
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(io::Error::other)?.into_data() else { continue };
            out.put(&data, length.is_none()).await?;
        }
        if length.is_none() {
            out.bytes.extend_from_slice(b"0\r\n\r\n");
        }
        out.send().await?;
        Ok(true)
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
    let path = target.split(['?', '#']).next().unwrap_or_default();
    path.starts_with("/v1/") && !path.starts_with("/v1/admin/") && !path.ends_with("/stream")
}

/// Digits and nothing else: readers differ in what else they take for a number.
fn read_length(value: &[u8]) -> Option<usize> {
    let digits = value.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(value).ok().filter(|_| digits)?.parse().ok()
}

/// What goes out, gathered to be written at once.
struct Out<'a> {
    socket: &'a mut Socket,
    bytes: &'a mut Vec<u8>,
    /// Whether the connection ends with this answer.
    is_last: &'a (dyn Fn() -> bool + Sync),
}

impl Out<'_> {
    fn begin(&mut self, status: StatusCode) {
        for part in ["HTTP/1.1 ", status.as_str(), " ", status.canonical_reason().unwrap_or_default()] {
            self.bytes.extend_from_slice(part.as_bytes());
        }
    }

    /// What has no length beforehand goes out in chunks: one that breaks off does not look whole.
    fn end_head(&mut self, status: StatusCode, length: Option<u64>, now: Moment) {
        match length {
            // These have no body, and say nothing of one.
            _ if status == StatusCode::NO_CONTENT || status == StatusCode::NOT_MODIFIED => {}
            Some(length) => {
                write_header(
                    self.bytes,
                    &header::CONTENT_LENGTH,
                    itoa::Buffer::new().format(length).as_bytes(),
                );
            }
            None => write_header(self.bytes, &header::TRANSFER_ENCODING, b"chunked"),
        }
        if (self.is_last)() {
            write_header(self.bytes, &header::CONNECTION, b"close");
        }
        DATE.with_borrow_mut(|date| write_header(self.bytes, &header::DATE, date.at(now).as_bytes()));
        self.bytes.extend_from_slice(b"\r\n\r\n");
    }

    /// A piece of the body, at once if it is large or nobody knows what comes behind it.
    async fn put(&mut self, data: &[u8], is_chunk: bool) -> io::Result<()> {
        if is_chunk && !data.is_empty() {
            self.bytes.extend_from_slice(format!("{:x}\r\n", data.len()).as_bytes());
        }
        if data.len() < KEPT_BYTES {
            self.bytes.extend_from_slice(data);
        } else {
            self.send().await?;
            self.socket.write_all(data).await?;
        }
        if is_chunk && !data.is_empty() {
            self.bytes.extend_from_slice(b"\r\n");
            self.send().await?;
        }
        Ok(())
    }

    async fn send(&mut self) -> io::Result<()> {
        self.socket.write_all(self.bytes).await?;
        self.bytes.clear();
        Ok(())
    }
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
        let mut room = [const { MaybeUninit::uninit() }; MOST_HEADERS];
        let asked = Asked::read(text.as_bytes(), &mut room)?;
        let body = String::from_utf8_lossy(asked.body).into_owned();
        Some((asked.method, asked.target.to_owned(), asked.headers.len(), body))
    }

    #[test]
    fn what_came_whole_is_read() {
        let order = "POST /v1/sales/X/orders HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}";
        assert_eq!(read(order), Some((Method::POST, "/v1/sales/X/orders".into(), 2, "{}".into())));
        let look = "GET /v1/sales/X?a=b HTTP/1.1\r\nHost: a\r\nConnection: Keep-Alive\r\nX: y\r\n\r\n";
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
            ("Content-Length: 2\nX: y", "{}"),
            ("Content-Length: 2 ", "{}"),
            ("Content-Length: 2\r\nHost: b", "{}"),
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
            "GET /v1/orders/X/stream?a=b HTTP/1.1",
            "\r\nGET /v1/orders HTTP/1.1",
            "GET  /v1/orders HTTP/1.1",
        ] {
            assert_eq!(read(&format!("{line}\r\nHost: a\r\n\r\n")), None, "{line}");
        }
        assert_eq!(read("GET /v1/orders HTTP/1.1\r\nHost: a\r\n"), None, "not whole");
        assert_eq!(read("GET /v1/orders HTTP/1.1\r\nX: y\r\n\r\n"), None, "for nobody");
        assert_eq!(read("GET /v1/orders HTTP/1.1\nHost: a\r\n\r\n"), None, "a line ends badly");
        assert_eq!(read("GET /v1/orders HTTP/1.1\r\nHost: a\n\n"), None, "the head ends badly");
    }

    #[test]
    fn the_date_is_made_once_a_second() {
        let mut date = Date::default();
        assert_eq!(date.at(Moment::from_millis(784_111_777_999)), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(date.at(Moment::from_millis(784_111_778_000)), "Sun, 06 Nov 1994 08:49:38 GMT");
    }
}
