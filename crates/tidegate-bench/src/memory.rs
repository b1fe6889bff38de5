//! What a buyer costs in memory: how much the server's resident memory grows while half a million people order once each.
//!
//! Included is everything that grows with them: the pool's account of who has what, keys, rates, sessions that are cached (up
//! to their bound), and what the allocator loses between them. Not included is what is there for everybody and has a bound, which a
//! sale beforehand fills: SQLite's page cache, the buffers of journal and connections. Buyers are made before the server is
//! started again, so that it has no memory left over from making them.

use std::path::Path;

use crate::figures::{float, signed};
use crate::generator::{Load, closed};
use crate::process::{cpu, quiet, resident};
use crate::requests::{ORDER, Requests};
use crate::tidegate::Tidegate;

const CONNECTIONS: usize = 256;
const BUYERS: usize = 500_000;
/// Ordered at a time; then everything is recorded, so that nobody is refused for want of recording.
const AT_ONCE: usize = 100_000;

/// `bytes_per_buyer`.
pub(crate) fn measure(server: &Path) -> anyhow::Result<f64> {
    let directory = tempfile::Builder::new().prefix("tidegate-memory").tempdir()?;
    let running = Tidegate::on(server, directory.path())?;
    let operator = running.operator();
    let (early, sale) = (operator.sale(AT_ONCE, false)?, operator.sale(BUYERS, false)?);
    let (first, buyers) = (operator.tokens(AT_ONCE)?, operator.tokens(BUYERS)?);
    running.stop()?;
    let running = Tidegate::on(server, directory.path())?;
    order(&running, &early, &first)?;
    let before = resident(running.program().pid())?;
    let mut after = before;
    for some in buyers.chunks(AT_ONCE) {
        eprintln!("  memory: {} MiB", after >> 20);
        order(&running, &sale, some)?;
        after = resident(running.program().pid())?;
    }
    eprintln!("  memory: {} MiB with {BUYERS} buyers more", after >> 20);
    Ok(signed(after.cast_signed() - before.cast_signed()) / float(BUYERS as u64))
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
