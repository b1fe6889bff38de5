//! Memory per buyer: the growth of the server's resident memory while a million buyers order once each.
//!
//! Included is everything that grows with the number of buyers: the pool's units per buyer, idempotency keys, rate
//! limits, cached sessions (up to their bound), and fragmentation. Excluded are bounded, shared structures, which a
//! sale beforehand fills: SQLite's page cache, the buffers of journal and connections. The server is restarted after
//! the buyers have been created, so that it holds no memory from creating them.

use std::path::Path;

use crate::figures::float;
use crate::generator::{Load, run_closed_loop};
use crate::process::{cpu, resident, wait_until_idle};
use crate::requests::{ORDER, Requests};
use crate::tidegate::Tidegate;

const CONNECTIONS: usize = 256;
const BUYERS: usize = 1_000_000;
/// Orders per step; all are recorded before the next step, so that none is refused because of the backlog.
const STEP: usize = 100_000;

/// The figure `bytes_per_buyer`: the slope of a line fitted through all readings. The difference of the last and the
/// first reading would depend on whether a hash table has just grown.
pub(crate) fn measure(server: &Path) -> anyhow::Result<f64> {
    let directory = tempfile::Builder::new().prefix("tidegate-memory").tempdir()?;
    let running = Tidegate::embedded_in(server, directory.path())?;
    let operator = running.operator();
    let (early, sale) = (operator.sale(STEP, false)?, operator.sale(BUYERS, false)?);
    let (first, buyers) = (operator.tokens(STEP)?, operator.tokens(BUYERS)?);
    running.stop()?;
    let running = Tidegate::embedded_in(server, directory.path())?;
    order(&running, &early, &first)?;
    let mut readings = vec![resident(running.program().pid())?];
    for some in buyers.chunks(STEP) {
        order(&running, &sale, some)?;
        readings.push(resident(running.program().pid())?);
    }
    let shown: Vec<String> = readings.iter().map(|bytes| (bytes >> 20).to_string()).collect();
    eprintln!("  memory: {} MiB, {STEP} buyers apart", shown.join(", "));
    Ok(slope(&readings) / float(STEP as u64))
}

/// Least-squares slope of equidistant readings.
fn slope(readings: &[u64]) -> f64 {
    let middle = float(readings.len() as u64 - 1) / 2.0;
    let away = |at: usize| float(at as u64) - middle;
    let up: f64 = readings.iter().enumerate().map(|(at, reading)| away(at) * float(*reading)).sum();
    up / (0..readings.len()).map(|at| away(at).powi(2)).sum::<f64>()
}

/// Places one order per token and waits until all are recorded.
fn order(server: &Tidegate, sale: &str, tokens: &[String]) -> anyhow::Result<()> {
    let to = server.program().address;
    let line = format!("POST /v1/sales/{sale}/orders");
    let requests = Requests::new(to, &line, ORDER, tokens.to_vec());
    run_closed_loop(&Load { to, connections: CONNECTIONS, requests, count: tokens.len(), expect: 201 })?;
    server.operator().settle()?;
    wait_until_idle(|| cpu(server.program().pid()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_as_steep_as_it_is_and_a_jump_at_its_end_is_smoothed() {
        assert!((slope(&[5, 7, 9, 11]) - 2.0).abs() < 1e-9);
        assert!((slope(&[169, 208, 218, 223, 219, 260]) - 14.086).abs() < 1e-3);
    }
}
