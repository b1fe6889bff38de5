//! What a buyer costs in memory: how much the server's resident memory grows while a million people order once each.
//!
//! Included is everything that grows with them: the pool's account of who has what, keys, rates, sessions that are
//! cached (up to their bound), and what the allocator loses between them. Not included is what is there for everybody
//! and has a bound, which a sale beforehand fills: SQLite's page cache, the buffers of journal and connections. Buyers
//! are made before the server is started again, so that it has no memory left over from making them.

use std::path::Path;

use crate::figures::float;
use crate::generator::{Load, closed};
use crate::process::{cpu, quiet, resident};
use crate::requests::{ORDER, Requests};
use crate::tidegate::Tidegate;

const CONNECTIONS: usize = 256;
const BUYERS: usize = 1_000_000;
/// Ordered at a time; then everything is recorded, so that nobody is refused for want of recording.
const AT_ONCE: usize = 100_000;

/// `bytes_per_buyer`: how steep the line through all readings is. The last less the first would tell as much about
/// whether some table has just grown.
pub(crate) fn measure(server: &Path) -> anyhow::Result<f64> {
    let directory = tempfile::Builder::new().prefix("tidegate-memory").tempdir()?;
    let running = Tidegate::on(server, directory.path())?;
    let operator = running.operator();
    let (early, sale) = (operator.sale(AT_ONCE, false)?, operator.sale(BUYERS, false)?);
    let (first, buyers) = (operator.tokens(AT_ONCE)?, operator.tokens(BUYERS)?);
    running.stop()?;
    let running = Tidegate::on(server, directory.path())?;
    order(&running, &early, &first)?;
    let mut readings = vec![resident(running.program().pid())?];
    for some in buyers.chunks(AT_ONCE) {
        order(&running, &sale, some)?;
        readings.push(resident(running.program().pid())?);
    }
    let shown: Vec<String> = readings.iter().map(|bytes| (bytes >> 20).to_string()).collect();
    eprintln!("  memory: {} MiB, {AT_ONCE} buyers apart", shown.join(", "));
    Ok(slope(&readings) / float(AT_ONCE as u64))
}

/// By least squares, for readings one apart.
fn slope(readings: &[u64]) -> f64 {
    let middle = float(readings.len() as u64 - 1) / 2.0;
    let away = |at: usize| float(at as u64) - middle;
    let up: f64 = readings.iter().enumerate().map(|(at, reading)| away(at) * float(*reading)).sum();
    up / (0..readings.len()).map(|at| away(at).powi(2)).sum::<f64>()
}

/// Everybody orders, and everything is recorded.
fn order(server: &Tidegate, sale: &str, tokens: &[String]) -> anyhow::Result<()> {
    let to = server.program().address;
    let line = format!("POST /v1/sales/{sale}/orders");
    let requests = Requests::new(to, &line, ORDER, tokens.to_vec());
    closed(&Load { to, connections: CONNECTIONS, requests, count: tokens.len(), expect: 201 })?;
    server.operator().settle()?;
    quiet(|| cpu(server.program().pid()))
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
