//! Minimal HTTP/1.1 response parser for the load generator: the status and the range of the body.

use std::ops::Range;

use anyhow::{Context, bail};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// Ends where the response ends.
    pub(crate) body: Range<usize>,
}

/// Parses the response at the start of `bytes`; `None` while it is incomplete.
pub(crate) fn parse(bytes: &[u8]) -> anyhow::Result<Option<Response>> {
    let (mut at, mut status, mut length) = (0, None, 0);
    while let Some(end) = memchr::memchr(b'\n', &bytes[at..]) {
        let line = bytes[at..at + end].trim_ascii_end();
        at += end + 1;
        match status {
            None => status = Some(status_of(line)?),
            Some(status) if line.is_empty() => {
                let body = at..at + length;
                return Ok((bytes.len() >= body.end).then_some(Response { status, body }));
            }
            Some(_) => {
                if let Some(value) = value_of(line, b"content-length") {
                    length = number(value).context("Content-Length is not a number")?;
                } else if value_of(line, b"transfer-encoding").is_some() {
                    bail!("unsupported response: it has a Transfer-Encoding");
                }
            }
        }
    }
    Ok(None)
}

fn status_of(line: &[u8]) -> anyhow::Result<u16> {
    let status = line.strip_prefix(b"HTTP/1.1 ").and_then(|rest| rest.get(..3)).and_then(number);
    let status = status.and_then(|status| u16::try_from(status).ok());
    status.with_context(|| format!("not an HTTP/1.1 status line: {}", String::from_utf8_lossy(line)))
}

fn value_of<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (found, rest) = line.split_at_checked(name.len())?;
    let value = rest.strip_prefix(b":")?;
    found.eq_ignore_ascii_case(name).then(|| value.trim_ascii_start())
}

fn number(digits: &[u8]) -> Option<usize> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &[u8] = b"HTTP/1.1 201 Created\r\nx: y\r\ncontent-length: 4\r\n\r\nbody";

    #[test]
    fn status_and_body_are_found() {
        let response = parse(WHOLE).unwrap().unwrap();
        assert_eq!((response.status, &WHOLE[response.body]), (201, &b"body"[..]));
    }

    #[test]
    fn every_part_of_a_response_is_too_little() {
        for end in 0..WHOLE.len() {
            assert_eq!(parse(&WHOLE[..end]).unwrap(), None, "{end} bytes");
        }
    }

    #[test]
    fn the_next_response_is_left_alone() {
        let two = [WHOLE, WHOLE].concat();
        assert_eq!(parse(&two).unwrap().unwrap().body.end, WHOLE.len());
    }

    #[test]
    fn a_header_is_known_in_any_case_and_a_response_may_have_no_body() {
        let response = parse(b"HTTP/1.1 409 Conflict\r\nContent-Length:2\r\n\r\n{}").unwrap().unwrap();
        assert_eq!((response.status, response.body.len()), (409, 2));
        assert_eq!(parse(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap().unwrap().body.len(), 0);
    }

    #[test]
    fn what_is_no_response_is_an_error() {
        assert!(parse(b"SSH-2.0\r\n").is_err());
        assert!(parse(b"HTTP/1.1 200 OK\r\ncontent-length: many\r\n\r\n").is_err());
        assert!(parse(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").is_err());
    }
}
