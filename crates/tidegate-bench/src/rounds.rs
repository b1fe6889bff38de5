//! Rounds: every candidate once per round, in alternating order, so that changes in the machine's speed affect all of
//! them alike. Candidates that need less precision skip rounds.

use std::collections::BTreeMap;

use anyhow::Context;

use crate::figures::{Run, float};
use crate::generator::{Load, LoadResult, run_closed_loop};
use crate::overload;
use crate::plan::Candidate;
use crate::servers::Servers;

/// Divisor of a run's request count for its unmeasured warm-up.
const WARM_UP: usize = 10;

/// The runs of every candidate, one per round.
pub(crate) type Runs = BTreeMap<&'static str, Vec<Run>>;

pub(crate) fn run(servers: &mut Servers, candidates: &[Candidate], rounds: usize) -> anyhow::Result<Runs> {
    for candidate in candidates {
        servers.start(candidate.server)?;
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
            let found = match candidate.overload_factor {
                Some(factor) => overload::measure(servers, candidate, factor)?,
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

/// One closed-loop run of a candidate.
pub(crate) fn closed_loop(servers: &mut Servers, candidate: &Candidate) -> anyhow::Result<Run> {
    measured(servers, candidate).with_context(|| format!("measuring {}", candidate.name))
}

fn measured(servers: &mut Servers, candidate: &Candidate) -> anyhow::Result<Run> {
    let &Candidate { server, request, connections, count, expect, .. } = candidate;
    let requests = servers.requests(server, request, count)?;
    let load = Load { to: servers.address(server)?, connections, requests, count, expect };
    servers.wait_until_idle(server)?;
    let (cpu, backend) = servers.cpu(server)?;
    let result = run_closed_loop(&load)?;
    let recorded_after = servers.settle(server)?;
    let (cpu_after, backend_after) = servers.cpu(server)?;
    let mut run = Run { recorded_after_s: recorded_after.as_secs_f64(), ..of(&result) };
    let requests = float(count as u64);
    run.cpu_us = cpu_after.saturating_sub(cpu).as_secs_f64() * 1e6 / requests;
    run.backend_cpu_us = backend_after.saturating_sub(backend).as_secs_f64() * 1e6 / requests;
    Ok(run)
}

fn of(result: &LoadResult) -> Run {
    let millis = |quantile| float(result.latency.value_at_quantile(quantile)) / 1000.0;
    let rate = float(result.latency.len()) / result.elapsed.as_secs_f64();
    Run { rate, p50_ms: millis(0.5), p99_ms: millis(0.99), ..Run::default() }
}
