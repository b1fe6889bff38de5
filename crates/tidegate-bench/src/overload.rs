//! Orders from people who do not wait for each other: three times as many as the server can take.
//!
//! What counts is how many still get theirs within a second: a server that works on requests whose buyers have given up
//! would do worse the more of them there are.

use std::time::Duration;

use anyhow::Context;

use crate::figures::{Run, float};
use crate::generator::Load;
use crate::open_loop::open;
use crate::plan::{CAPACITY, Candidate};
use crate::rounds::closed_loop;
use crate::servers::Servers;

const IN_TIME: Duration = Duration::from_secs(1);

/// One round: what the server takes, and the candidate, which is offered so many times that; all that was found, by
/// name.
pub(crate) fn measure(
    servers: &mut Servers,
    candidate: &Candidate,
    times: f64,
) -> anyhow::Result<Vec<(&'static str, Run)>> {
    let capacity = closed_loop(servers, &CAPACITY)?;
    let offered = measured(servers, candidate, times * capacity.rate);
    let offered = offered.with_context(|| format!("measuring {}", candidate.name))?;
    Ok(vec![(CAPACITY.name, capacity), (candidate.name, offered)])
}

fn measured(servers: &mut Servers, candidate: &Candidate, per_second: f64) -> anyhow::Result<Run> {
    let &Candidate { name, at, ask, connections, count, expect, .. } = candidate;
    // A third of them can be served. Should it be more than half, they are the same buyers again, and refused.
    let requests = servers.requests(at, ask, count / 2 + connections)?;
    let load = Load { to: servers.address(at)?, connections, requests, count, expect };
    servers.quiet(at)?;
    let (cpu, _) = servers.cpu(at)?;
    let offered = open(&load, per_second, IN_TIME)?;
    let recorded_after_s = servers.settle(at)?.as_secs_f64();
    let (cpu_after, _) = servers.cpu(at)?;
    eprintln!(
        "  {name}: {count} arrivals, {} good, {} refused, {} found no connection",
        offered.good, offered.refused, offered.turned_away
    );
    let millis = |quantile| float(offered.latency.value_at_quantile(quantile)) / 1000.0;
    Ok(Run {
        rate: float(offered.good) / offered.elapsed.as_secs_f64(),
        p50_ms: millis(0.5),
        p99_ms: millis(0.99),
        cpu_us: cpu_after.saturating_sub(cpu).as_secs_f64() * 1e6 / float(offered.latency.len().max(1)),
        recorded_after_s,
        ..Run::default()
    })
}
