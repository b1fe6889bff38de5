//! Overload: open-loop arrivals at three times the server's capacity.
//!
//! Measures goodput, the orders confirmed within a second. It would fall with rising load if the server worked on
//! requests whose buyers have already given up.

use std::time::Duration;

use anyhow::Context;

use crate::figures::{Run, float};
use crate::generator::Load;
use crate::open_loop::run_open_loop;
use crate::plan::{CAPACITY, Candidate};
use crate::rounds::closed_loop;
use crate::servers::Servers;

const IN_TIME: Duration = Duration::from_secs(1);

/// One round: measures the capacity, then offers the candidate `factor` times as much. Returns both results by name.
pub(crate) fn measure(
    servers: &mut Servers,
    candidate: &Candidate,
    factor: f64,
) -> anyhow::Result<Vec<(&'static str, Run)>> {
    let capacity = closed_loop(servers, &CAPACITY)?;
    let overloaded = measured(servers, candidate, factor * capacity.rate);
    let overloaded = overloaded.with_context(|| format!("measuring {}", candidate.name))?;
    Ok(vec![(CAPACITY.name, capacity), (candidate.name, overloaded)])
}

fn measured(servers: &mut Servers, candidate: &Candidate, per_second: f64) -> anyhow::Result<Run> {
    let &Candidate { name, server, request, connections, count, expect, .. } = candidate;
    // About a third of the arrivals can be served, so half as many buyers suffice. Beyond that, buyers repeat and are
    // refused.
    let requests = servers.requests(server, request, count / 2 + connections)?;
    let load = Load { to: servers.address(server)?, connections, requests, count, expect };
    servers.wait_until_idle(server)?;
    let (cpu, _) = servers.cpu(server)?;
    let result = run_open_loop(&load, per_second, IN_TIME)?;
    let recorded_after_s = servers.settle(server)?.as_secs_f64();
    let (cpu_after, _) = servers.cpu(server)?;
    eprintln!(
        "  {name}: {count} arrivals, {} good, {} refused, {} found no connection",
        result.good, result.refused, result.turned_away
    );
    let millis = |quantile| float(result.latency.value_at_quantile(quantile)) / 1000.0;
    Ok(Run {
        rate: float(result.good) / result.elapsed.as_secs_f64(),
        p50_ms: millis(0.5),
        p99_ms: millis(0.99),
        cpu_us: cpu_after.saturating_sub(cpu).as_secs_f64() * 1e6 / float(result.latency.len().max(1)),
        recorded_after_s,
        ..Run::default()
    })
}
