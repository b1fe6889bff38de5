//! The load: one thread, many connections, the same for every candidate.
//!
//! What always holds: an answer with another status than the expected one ends a closed loop with an error that shows it.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use hdrhistogram::Histogram;

use crate::crowd::Crowd;
use crate::requests::Requests;

/// When nothing at all is answered for so long, something is broken.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
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
    for number in 0..sent {
        crowd.send(number, &load.requests, number, Instant::now())?;
    }
    while answered < load.count {
        crowd.wait(&mut events, PATIENCE)?;
        ensure!(!events.is_empty(), "no answer for {PATIENCE:?}, after {answered} of {}", load.count);
        for event in &events {
            let at = event.token().0;
            let Some(answer) = crowd.receive(at)? else { continue };
            if answer.status != load.expect {
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
    Ok(Told { elapsed: started.elapsed(), latency })
}

pub(crate) fn micros(took: Duration) -> u64 {
    u64::try_from(took.as_micros()).unwrap_or(LONGEST_US).max(1)
}
