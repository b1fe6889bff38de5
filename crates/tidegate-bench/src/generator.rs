//! The load generator: one thread, many connections, the same for every candidate.
//!
//! Invariant: a closed loop fails at the first response with an unexpected status, and its error shows the response.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use hdrhistogram::Histogram;

use crate::connections::ConnectionSet;
use crate::requests::Requests;

/// A run fails if there is no response at all for this long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// The status of a page.
const PAGE: u16 = 200;
pub(crate) const LONGEST_US: u64 = 60_000_000;

/// The requests of a run and the expected status.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(crate) to: SocketAddr,
    pub(crate) connections: usize,
    pub(crate) requests: Requests,
    pub(crate) count: usize,
    pub(crate) expect: u16,
}

#[derive(Clone, Debug)]
pub(crate) struct LoadResult {
    pub(crate) elapsed: Duration,
    /// In microseconds.
    pub(crate) latency: Histogram<u64>,
}

/// Closed loop: a connection sends the next request as soon as it has received a response.
pub(crate) fn run_closed_loop(load: &Load) -> anyhow::Result<LoadResult> {
    let mut connections = ConnectionSet::connect(load.to, load.connections)?;
    let mut events = ConnectionSet::events();
    let mut latency = Histogram::new_with_bounds(1, LONGEST_US, 3)?;
    let started = Instant::now();
    let (mut sent, mut answered) = (load.connections.min(load.count), 0);
    let mut pages = 0;
    for number in 0..sent {
        connections.send(number, &load.requests, number, Instant::now())?;
    }
    while answered < load.count {
        connections.wait(&mut events, PATIENCE)?;
        ensure!(!events.is_empty(), "no response for {PATIENCE:?}, after {answered} of {}", load.count);
        for event in &events {
            let at = event.token().0;
            let Some(response) = connections.receive(at)? else { continue };
            // An order is never answered with 200, so this is a page. Pages are counted below.
            if response.status == PAGE && load.requests.pages_in(load.count) > 0 {
                pages += 1;
            } else if response.status != load.expect {
                let said = String::from_utf8_lossy(response.body);
                bail!("{} instead of {}, after {answered} responses: {said}", response.status, load.expect);
            }
            latency.saturating_record(micros(response.took));
            answered += 1;
            if sent < load.count {
                connections.send(at, &load.requests, sent, Instant::now())?;
                sent += 1;
            }
        }
    }
    let expected = load.requests.pages_in(load.count);
    ensure!(pages == expected, "{pages} pages were served instead of {expected}");
    Ok(LoadResult { elapsed: started.elapsed(), latency })
}

pub(crate) fn micros(took: Duration) -> u64 {
    u64::try_from(took.as_micros()).unwrap_or(LONGEST_US).max(1)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;
    use crate::open_loop::run_open_loop;
    use crate::requests::ORDER;

    /// A server that answers every request with `response`.
    fn server(response: &'static str) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                std::thread::spawn(move || serve(stream, response));
            }
        });
        address
    }

    fn serve(mut stream: std::net::TcpStream, response: &str) {
        stream.set_nodelay(true).unwrap();
        let mut buffer = [0; 4096];
        while stream.read(&mut buffer).is_ok_and(|length| length > 0) {
            let (first, rest) = response.split_at(response.len() / 2);
            stream.write_all(first.as_bytes()).unwrap();
            stream.write_all(rest.as_bytes()).unwrap();
        }
    }

    fn load(response: &'static str) -> Load {
        let to = server(response);
        let requests = Requests::new(to, "POST /x", ORDER, vec!["somebody".into()]);
        Load { to, connections: 4, requests, count: 100, expect: 201 }
    }

    const CREATED: &str = "HTTP/1.1 201 Created\r\ncontent-length: 2\r\n\r\n{}";
    const SOLD_OUT: &str = "HTTP/1.1 409 Conflict\r\ncontent-length: 8\r\n\r\nsold out";

    #[test]
    fn every_request_is_answered_once() {
        assert_eq!(run_closed_loop(&load(CREATED)).unwrap().latency.len(), 100);
    }

    #[test]
    fn another_answer_than_the_expected_one_is_shown() {
        let error = run_closed_loop(&load(SOLD_OUT)).unwrap_err().to_string();
        assert!(error.contains("409 instead of 201") && error.ends_with("sold out"), "{error}");
    }

    #[test]
    fn every_arrival_is_served_refused_or_turned_away() {
        let result = run_open_loop(&load(CREATED), 1e6, Duration::from_secs(1)).unwrap();
        assert_eq!(result.good + result.turned_away, 100);
        assert!(result.good >= 4, "there were four connections");
        let result = run_open_loop(&load(SOLD_OUT), 1e6, Duration::from_secs(1)).unwrap();
        assert_eq!((result.good, result.refused + result.turned_away), (0, 100));
    }
}
