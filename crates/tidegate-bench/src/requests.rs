//! The requests of a run: the same format for every candidate, each with its own buyer and idempotency key.
//!
//! The constant parts are rendered once, so that writing a request only copies bytes.

use std::io::Write;
use std::net::SocketAddr;

/// Prefix of the idempotency keys, which have 36 characters like a UUID; the request's number follows.
const KEY: &str = "5f0c6d2e-7a41-4c39-9b1d-";
const PAGE_EVERY: usize = 4;
pub(crate) const ORDER: &str = r#"{"quantity":1}"#;

#[derive(Clone, Debug)]
pub(crate) struct Requests {
    before_token: Vec<u8>,
    after_token: Vec<u8>,
    after_key: Vec<u8>,
    /// Used in turn.
    tokens: Vec<String>,
    /// Sent instead of every `PAGE_EVERY`th request.
    page: Option<Vec<u8>>,
}

impl Requests {
    /// `line` is the method and the path.
    pub(crate) fn new(to: SocketAddr, line: &str, body: &str, tokens: Vec<String>) -> Self {
        let length = body.len();
        Self {
            before_token: format!("{line} HTTP/1.1\r\nHost: {to}\r\nAuthorization: Bearer ").into(),
            after_token: format!("\r\nIdempotency-Key: {KEY}").into(),
            after_key: format!(
                "\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
            )
            .into(),
            tokens,
            page: None,
        }
    }

    /// Mixes in requests for a page.
    pub(crate) fn with_page(self, to: SocketAddr, path: &str) -> Self {
        let page = format!("GET {path} HTTP/1.1\r\nHost: {to}\r\nAccept: text/html\r\n\r\n");
        Self { page: Some(page.into()), ..self }
    }

    /// How many of the first `count` requests are for the page.
    pub(crate) fn pages_in(&self, count: usize) -> usize {
        if self.page.is_some() { count.div_ceil(PAGE_EVERY) } else { 0 }
    }

    /// Replaces the content of `buffer` with the request of this number.
    pub(crate) fn write(&self, number: usize, buffer: &mut Vec<u8>) {
        buffer.clear();
        if let Some(page) = self.page.as_ref().filter(|_| number.is_multiple_of(PAGE_EVERY)) {
            buffer.extend_from_slice(page);
            return;
        }
        buffer.extend_from_slice(&self.before_token);
        buffer.extend_from_slice(self.tokens[number % self.tokens.len()].as_bytes());
        buffer.extend_from_slice(&self.after_token);
        // Writing to memory cannot fail.
        let _ = write!(buffer, "{number:012}");
        buffer.extend_from_slice(&self.after_key);
    }
}

/// Tokens for competitors, which look up no session; as long as real tokens.
pub(crate) fn made_up_tokens(round: usize, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("tb_{round:032x}{number:032x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_its_own_buyer_and_key() {
        let to = "127.0.0.1:80".parse().unwrap();
        let requests = Requests::new(to, "POST /x", ORDER, vec!["a".into(), "b".into()]);
        let mut buffer = b"something".to_vec();
        requests.write(1, &mut buffer);
        let text = String::from_utf8(buffer).unwrap();
        assert!(text.starts_with("POST /x HTTP/1.1\r\nHost: 127.0.0.1:80\r\nAuthorization: Bearer b\r\n"));
        assert!(text.contains("Idempotency-Key: 5f0c6d2e-7a41-4c39-9b1d-000000000001\r\n"));
        assert!(text.ends_with("Content-Length: 14\r\n\r\n{\"quantity\":1}"));
    }

    #[test]
    fn pages_are_counted_as_they_are_written() {
        let to = "127.0.0.1:80".parse().unwrap();
        let requests = Requests::new(to, "POST /x", ORDER, vec!["a".into()]).with_page(to, "/page");
        for count in 0..10 {
            let is_page = |number| {
                let mut buffer = Vec::new();
                requests.write(number, &mut buffer);
                buffer.starts_with(b"GET /page ")
            };
            assert_eq!(requests.pages_in(count), (0..count).filter(|number| is_page(*number)).count());
        }
    }
}
