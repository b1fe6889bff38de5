//! Open loop: arrivals keep their own pace, whether or not earlier ones were answered, as a crowd does.
//!
//! What always holds: a latency counts from when the arrival was due, so that waiting for a slow server is not hidden.
//! Buyers do not pipeline: an arrival that finds no connection free is turned away.

use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use hdrhistogram::Histogram;

use crate::crowd::{Answered, Crowd};
use crate::generator::{LONGEST_US, Load, PATIENCE, micros};

/// How late an arrival may be noticed when nothing else happens.
const LOOK: Duration = Duration::from_millis(1);
/// What an overloaded server may say.
const REFUSALS: [u16; 3] = [409, 429, 503];

/// What became of the arrivals.
#[derive(Clone, Debug)]
pub(crate) struct Offered {
    pub(crate) elapsed: Duration,
    /// Of those who got what they expected, in microseconds.
    pub(crate) latency: Histogram<u64>,
    /// How many of them got it in time.
    pub(crate) good: u64,
    /// Those whom the server sent away.
    pub(crate) refused: u64,
    /// Those who found no connection free.
    pub(crate) turned_away: u64,
}

/// `load.count` arrivals at an even pace; good is what is answered as expected `in_time`.
pub(crate) fn open(load: &Load, per_second: f64, in_time: Duration) -> anyhow::Result<Offered> {
    let mut crowd = Crowd::connect(load.to, load.connections)?;
    let mut events = Crowd::events();
    let latency = Histogram::new_with_bounds(1, LONGEST_US, 3)?;
    let mut offered = Offered { elapsed: Duration::ZERO, latency, good: 0, refused: 0, turned_away: 0 };
    let mut idle: Vec<usize> = (0..load.connections).collect();
    let (mut arrived, mut sent, started) = (0, 0, Instant::now());
    let apart = Duration::from_secs_f64(1.0 / per_second);
    let due = |number: usize| started + apart * u32::try_from(number).unwrap_or(u32::MAX);
    let mut heard = started;
    while arrived < load.count || idle.len() < load.connections {
        crowd.wait(&mut events, LOOK)?;
        // Who arrives while these are served is noticed at the next look: most are turned away, and should cost
        // nothing.
        let now = Instant::now();
        let has_come = |arrived: usize| arrived < load.count && due(arrived) <= now;
        for event in &events {
            let at = event.token().0;
            let Some(answer) = crowd.receive(at)? else { continue };
            offered.note(&answer, load.expect, in_time)?;
            heard = now;
            // At once, as in a closed loop: the server does not wait for the others' answers to be read.
            if has_come(arrived) {
                crowd.send(at, &load.requests, sent, due(arrived))?;
                (arrived, sent) = (arrived + 1, sent + 1);
            } else {
                idle.push(at);
            }
        }
        while has_come(arrived) {
            if let Some(at) = idle.pop() {
                crowd.send(at, &load.requests, sent, due(arrived))?;
                sent += 1;
            } else {
                offered.turned_away += 1;
            }
            arrived += 1;
        }
        ensure!(heard.elapsed() < PATIENCE, "no answer for {PATIENCE:?}, after {sent} requests");
    }
    offered.elapsed = started.elapsed();
    Ok(offered)
}

impl Offered {
    fn note(&mut self, answer: &Answered<'_>, expect: u16, in_time: Duration) -> anyhow::Result<()> {
        if answer.status == expect {
            self.latency.saturating_record(micros(answer.took));
            self.good += u64::from(answer.took <= in_time);
        } else if REFUSALS.contains(&answer.status) {
            self.refused += 1;
        } else {
            bail!("{} instead of {expect}: {}", answer.status, String::from_utf8_lossy(answer.body));
        }
        Ok(())
    }
}
