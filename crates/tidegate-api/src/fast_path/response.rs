//! Writes responses to the socket, as hyper would write them.

use std::cell::RefCell;
use std::io;
use std::time::{Duration, UNIX_EPOCH};

use axum::http::{StatusCode, header};
use tidegate_core::Moment;
use tidegate_http::request_scope::write_header;
use tokio::io::AsyncWriteExt;

use crate::socket::Socket;

/// Buffer size of a connection. Larger parts of a body are written to the socket without being copied.
pub(super) const BUFFER_BYTES: usize = 16 << 10;

/// Collects a response in memory and sends it with one system call.
pub(super) struct ResponseWriter<'a> {
    pub(super) socket: &'a mut Socket,
    pub(super) bytes: &'a mut Vec<u8>,
    /// Whether the connection closes after this response.
    pub(super) is_last: &'a (dyn Fn() -> bool + Sync),
}

impl ResponseWriter<'_> {
    pub(super) fn begin(&mut self, status: StatusCode) {
        for part in ["HTTP/1.1 ", status.as_str(), " ", status.canonical_reason().unwrap_or_default()] {
            self.bytes.extend_from_slice(part.as_bytes());
        }
    }

    /// A body of unknown length is sent in chunks, so that the client notices one that ends early.
    pub(super) fn end_head(&mut self, status: StatusCode, length: Option<u64>, now: Moment) {
        match length {
            // These have no body and no length.
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

    /// Writes a part of the body. Sends it immediately if it is large, or if the next part may take a while.
    pub(super) async fn put(&mut self, data: &[u8], is_chunk: bool) -> io::Result<()> {
        if is_chunk && !data.is_empty() {
            self.bytes.extend_from_slice(format!("{:x}\r\n", data.len()).as_bytes());
        }
        if data.len() < BUFFER_BYTES {
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

    pub(super) async fn send(&mut self) -> io::Result<()> {
        self.socket.write_all(self.bytes).await?;
        self.bytes.clear();
        Ok(())
    }
}

/// The `Date` header, formatted once a second.
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

    #[test]
    fn the_date_is_formatted_once_a_second() {
        let mut date = Date::default();
        assert_eq!(date.at(Moment::from_millis(784_111_777_999)), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(date.at(Moment::from_millis(784_111_778_000)), "Sun, 06 Nov 1994 08:49:38 GMT");
    }
}
