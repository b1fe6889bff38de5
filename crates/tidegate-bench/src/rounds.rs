//! Rounds: every candidate once, then all of them again the other way round, so that whatever the machine does
//! meanwhile happens to all. Those of which less has to be known are measured now and then.

use std::collections::BTreeMap;

use anyhow::Context;

use crate::figures::{Run, float};
use crate::generator::{Load, Told, closed};
use crate::overload;
use crate::plan::Candidate;
use crate::servers::Servers;

/// The part of a run that is made beforehand, unmeasured.
const WARM_UP: usize = 10;

/// The runs of every candidate, one per round.
pub(crate) type Runs = BTreeMap<&'static str, Vec<Run>>;

pub(crate) fn run(servers: &mut Servers, candidates: &[Candidate], rounds: usize) -> anyhow::Result<Runs> {
    for candidate in candidates {
        servers.start(candidate.at)?;
        closed_loop(servers, &Candidate { count: candidate.count / WARM_UP, ..*candidate })?;
    }
    let mut runs = Runs::new();
    for round in 0..rounds {
        let mut order: Vec<&Candidate> =
            candidates.iter().filter(|candidate| round % candidate.every == 0).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for candidate in order {
            let found = match candidate.offered {
                Some(times) => overload::measure(servers, candidate, times)?,
                None => vec![(candidate.name, closed_loop(servers, candidate)?)],
            };
            for (name, run) in found {
                eprintln!("round {} {name:<22} {:>9.0}/s", round + 1, run.rate);
                runs.entry(name).or_default().push(run);
            }
        }
    }
    Ok(runs)
}

/// One run of a candidate that asks as soon as it is answered.
pub(crate) fn closed_loop(servers: &mut Servers, candidate: &Candidate) -> anyhow::Result<Run> {
    measured(servers, candidate).with_context(|| format!("measuring {}", candidate.name))
}

fn measured(servers: &mut Servers, candidate: &Candidate) -> anyhow::Result<Run> {
    let &Candidate { at, ask, connections, count, expect, .. } = candidate;
    let requests = servers.requests(at, ask, count)?;
    let load = Load { to: servers.address(at)?, connections, requests, count, expect };
    servers.quiet(at)?;
    let (cpu, behind) = servers.cpu(at)?;
    let told = closed(&load)?;
    let recorded_after = servers.settle(at)?;
    let (cpu_after, behind_after) = servers.cpu(at)?;
    let mut run = Run { recorded_after_s: recorded_after.as_secs_f64(), ..of(&told) };
    let requests = float(count as u64);
    run.cpu_us = cpu_after.saturating_sub(cpu).as_secs_f64() * 1e6 / requests;
    run.behind_us = behind_after.saturating_sub(behind).as_secs_f64() * 1e6 / requests;
    Ok(run)
}

fn of(told: &Told) -> Run {
    let millis = |quantile| float(told.latency.value_at_quantile(quantile)) / 1000.0;
    let rate = float(told.latency.len()) / told.elapsed.as_secs_f64();
    Run { rate, p50_ms: millis(0.5), p99_ms: millis(0.99), ..Run::default() }
}
