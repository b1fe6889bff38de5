//! The load: one thread, many connections, the same for every candidate.
//!
//! What always holds: an answer with another status than the expected one ends a closed loop with an error that shows
//! it.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use hdrhistogram::Histogram;

use crate::crowd::Crowd;
use crate::requests::Requests;

/// When nothing at all is answered for so long, something is broken.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// The status of a page.
const PAGE: u16 = 200;
pub(crate) const LONGEST_US: u64 = 60_000_000;

/// What is sent, and what should come back.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(crate) to: SocketAddr,
    pub(crate) connections: usize,
    pub(crate) requests: Requests,
    pub(crate) count: usize,
    pub(crate) expect: u16,
}

#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub(crate) elapsed: Duration,
    /// In microseconds.
    pub(crate) latency: Histogram<u64>,
}

/// Closed loop: a connection sends the next request as soon as it is answered.
pub(crate) fn closed(load: &Load) -> anyhow::Result<Told> {
    let mut crowd = Crowd::connect(load.to, load.connections)?;
    let mut events = Crowd::events();
    let mut latency = Histogram::new_with_bounds(1, LONGEST_US, 3)?;
    let started = Instant::now();
    let (mut sent, mut answered) = (load.connections.min(load.count), 0);
    let mut pages = 0;
    for number in 0..sent {
        crowd.send(number, &load.requests, number, Instant::now())?;
    }
    while answered < load.count {
        crowd.wait(&mut events, PATIENCE)?;
        ensure!(!events.is_empty(), "no answer for {PATIENCE:?}, after {answered} of {}", load.count);
        for event in &events {
            let at = event.token().0;
            let Some(answer) = crowd.receive(at)? else { continue };
            // An order is never answered 200, so this is a page. They are counted below.
            if answer.status == PAGE && load.requests.pages_in(load.count) > 0 {
                pages += 1;
            } else if answer.status != load.expect {
                let said = String::from_utf8_lossy(answer.body);
                bail!("{} instead of {}, after {answered} answers: {said}", answer.status, load.expect);
            }
            latency.saturating_record(micros(answer.took));
            answered += 1;
            if sent < load.count {
                crowd.send(at, &load.requests, sent, Instant::now())?;
                sent += 1;
            }
        }
    }
    let expected = load.requests.pages_in(load.count);
    ensure!(pages == expected, "{pages} pages were answered instead of {expected}");
    Ok(Told { elapsed: started.elapsed(), latency })
}

pub(crate) fn micros(took: Duration) -> u64 {
    u64::try_from(took.as_micros()).unwrap_or(LONGEST_US).max(1)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;
    use crate::open_loop::open;
    use crate::requests::ORDER;

    /// Answers everything with this, on as many connections as are opened.
    fn server(answer: &'static str) -> SocketAddr {
        let door = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = door.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in door.incoming().map_while(Result::ok) {
                std::thread::spawn(move || serve(stream, answer));
            }
        });
        address
    }

    fn serve(mut stream: std::net::TcpStream, answer: &str) {
        stream.set_nodelay(true).unwrap();
        let mut buffer = [0; 4096];
        while stream.read(&mut buffer).is_ok_and(|length| length > 0) {
            let (first, rest) = answer.split_at(answer.len() / 2);
            stream.write_all(first.as_bytes()).unwrap();
            stream.write_all(rest.as_bytes()).unwrap();
        }
    }

    fn load(answer: &'static str) -> Load {
        let to = server(answer);
        let requests = Requests::new(to, "POST /x", ORDER, vec!["somebody".into()]);
        Load { to, connections: 4, requests, count: 100, expect: 201 }
    }

    const CREATED: &str = "HTTP/1.1 201 Created\r\ncontent-length: 2\r\n\r\n{}";
    const SOLD_OUT: &str = "HTTP/1.1 409 Conflict\r\ncontent-length: 8\r\n\r\nsold out";

    #[test]
    fn every_request_is_answered_once() {
        assert_eq!(closed(&load(CREATED)).unwrap().latency.len(), 100);
    }

    #[test]
    fn another_answer_than_the_expected_one_is_shown() {
        let error = closed(&load(SOLD_OUT)).unwrap_err().to_string();
        assert!(error.contains("409 instead of 201") && error.ends_with("sold out"), "{error}");
    }

    #[test]
    fn every_arrival_is_served_refused_or_turned_away() {
        let offered = open(&load(CREATED), 1e6, Duration::from_secs(1)).unwrap();
        assert_eq!(offered.good + offered.turned_away, 100);
        assert!(offered.good >= 4, "there were four connections");
        let offered = open(&load(SOLD_OUT), 1e6, Duration::from_secs(1)).unwrap();
        assert_eq!((offered.good, offered.refused + offered.turned_away), (0, 100));
    }
}
