//! Open loop: requests arrive at a fixed rate, whether or not earlier ones were answered.
//!
//! Invariants: latency counts from the time the arrival was due, so that waiting for a slow server is not hidden
//! (coordinated omission). Clients do not pipeline: an arrival that finds no free connection is turned away.

use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use hdrhistogram::Histogram;

use crate::connections::{ConnectionSet, ReceivedResponse};
use crate::generator::{LONGEST_US, Load, PATIENCE, micros};

/// Poll timeout: how late an arrival may be noticed while no responses arrive.
const POLL_TIMEOUT: Duration = Duration::from_millis(1);
/// Status codes that count as a refusal by an overloaded server.
const REFUSALS: [u16; 3] = [409, 429, 503];

/// Outcomes of all arrivals.
#[derive(Clone, Debug)]
pub(crate) struct OpenLoopResult {
    pub(crate) elapsed: Duration,
    /// Latency of responses with the expected status, in microseconds.
    pub(crate) latency: Histogram<u64>,
    /// Responses with the expected status within the time limit.
    pub(crate) good: u64,
    /// Arrivals that the server refused.
    pub(crate) refused: u64,
    /// Arrivals that found no free connection.
    pub(crate) turned_away: u64,
}

/// Sends `load.count` arrivals at a fixed rate. A response is good if it has the expected status within `in_time`.
pub(crate) fn run_open_loop(
    load: &Load,
    per_second: f64,
    in_time: Duration,
) -> anyhow::Result<OpenLoopResult> {
    let mut connections = ConnectionSet::connect(load.to, load.connections)?;
    let mut events = ConnectionSet::events();
    let latency = Histogram::new_with_bounds(1, LONGEST_US, 3)?;
    let mut result = OpenLoopResult { elapsed: Duration::ZERO, latency, good: 0, refused: 0, turned_away: 0 };
    let mut idle: Vec<usize> = (0..load.connections).collect();
    let (mut arrived, mut sent, started) = (0, 0, Instant::now());
    let apart = Duration::from_secs_f64(1.0 / per_second);
    let due = |number: usize| started + apart * u32::try_from(number).unwrap_or(u32::MAX);
    let mut heard = started;
    while arrived < load.count || idle.len() < load.connections {
        connections.wait(&mut events, POLL_TIMEOUT)?;
        // The clock is read once per batch of events. Later arrivals are noticed in the next iteration: most are turned
        // away and should cost the generator nothing.
        let now = Instant::now();
        let has_come = |arrived: usize| arrived < load.count && due(arrived) <= now;
        for event in &events {
            let at = event.token().0;
            let Some(response) = connections.receive(at)? else { continue };
            result.count(&response, load.expect, in_time)?;
            heard = now;
            // Send at once, as in a closed loop, so that the server need not wait until the other responses are read.
            if has_come(arrived) {
                connections.send(at, &load.requests, sent, due(arrived))?;
                (arrived, sent) = (arrived + 1, sent + 1);
            } else {
                idle.push(at);
            }
        }
        while has_come(arrived) {
            if let Some(at) = idle.pop() {
                connections.send(at, &load.requests, sent, due(arrived))?;
                sent += 1;
            } else {
                result.turned_away += 1;
            }
            arrived += 1;
        }
        ensure!(heard.elapsed() < PATIENCE, "no response for {PATIENCE:?}, after {sent} requests");
    }
    result.elapsed = started.elapsed();
    Ok(result)
}

impl OpenLoopResult {
    fn count(
        &mut self,
        response: &ReceivedResponse<'_>,
        expect: u16,
        in_time: Duration,
    ) -> anyhow::Result<()> {
        if response.status == expect {
            self.latency.saturating_record(micros(response.took));
            self.good += u64::from(response.took <= in_time);
        } else if REFUSALS.contains(&response.status) {
            self.refused += 1;
        } else {
            bail!("{} instead of {expect}: {}", response.status, String::from_utf8_lossy(response.body));
        }
        Ok(())
    }
}
