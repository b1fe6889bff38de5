//! The cost of a long history: compares orders in a new sale with ten million and with ten thousand recorded orders,
//! and measures a restart with ten million.

mod fill;

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::ensure;
use tempfile::TempDir;

use crate::figures::{float, median, ratio};
use crate::generator::{Load, run_closed_loop};
use crate::plan::RequestKind;
use crate::process::{cpu, wait_until_idle};
use crate::tidegate::Tidegate;

/// Recorded orders per earlier sale.
const SHORT: u32 = 100;
const LONG: u32 = 100_000;
const CONNECTIONS: usize = 256;
/// Orders per round.
const COUNT: usize = 50_000;
const RESTARTS: usize = 3;
/// Orders placed just before a crash.
const BEFORE_CRASH: usize = 20_000;
/// Few rounds suffice: CPU time varies less than rates do.
const ROUNDS: usize = 5;

/// A ledger with recorded orders, and the server that runs on it.
struct Ledger {
    server: PathBuf,
    running: Option<Tidegate>,
    directory: TempDir,
}

/// The figures `growth` and `restart_s`.
pub(crate) fn measure(server: &Path) -> anyhow::Result<Vec<(&'static str, f64)>> {
    let mut short = Ledger::new(server, SHORT)?;
    let mut long = Ledger::new(server, LONG)?;
    let growth = growth(&mut short, &mut long)?;
    drop(short);
    let mut restarts = Vec::new();
    for _ in 0..RESTARTS {
        restarts.push(long.crash_and_restart()?);
    }
    eprintln!("  restarts: {restarts:.2?} s");
    let restart = median(&restarts).unwrap_or(f64::NAN);
    Ok(vec![("growth", growth), ("restart_s", restart)])
}

/// The ratio of CPU time per order, until it is recorded, between a long and a short history.
fn growth(short: &mut Ledger, long: &mut Ledger) -> anyhow::Result<f64> {
    let (mut with_short, mut with_long) = (Vec::new(), Vec::new());
    // Round 0 is a warm-up.
    for round in 0..=ROUNDS {
        let (few, many) = if round % 2 == 0 {
            let few = short.cost()?;
            (few, long.cost()?)
        } else {
            let many = long.cost()?;
            (short.cost()?, many)
        };
        eprintln!("growth round {round}: {few:.1} us an order with few, {many:.1} us with many");
        if round > 0 {
            with_short.push(few);
            with_long.push(many);
        }
    }
    Ok(ratio(&with_long, &with_short).unwrap_or(f64::NAN))
}

impl Ledger {
    fn new(server: &Path, per_sale: u32) -> anyhow::Result<Self> {
        let directory = tempfile::Builder::new().prefix("tidegate-history").tempdir()?;
        let started = Instant::now();
        let sales = fill::fill(server, directory.path(), per_sale)?;
        let took = started.elapsed().as_secs_f64();
        let mut ledger = Self { server: server.to_owned(), running: None, directory };
        let operator = ledger.running()?.operator();
        for sale in sales {
            operator.audit(&sale)?;
        }
        eprintln!("  {} orders were put into a ledger in {took:.0} s, and are sound", fill::SALES * per_sale);
        Ok(ledger)
    }

    fn running(&mut self) -> anyhow::Result<&mut Tidegate> {
        if self.running.is_none() {
            self.running = Some(Tidegate::embedded_in(&self.server, self.directory.path())?);
        }
        self.running.as_mut().ok_or_else(|| anyhow::anyhow!("no server"))
    }

    /// Places orders in a new sale; CPU time per order in microseconds.
    fn cost(&mut self) -> anyhow::Result<f64> {
        let server = self.running()?;
        let pid = server.program().pid();
        let load = load(server, COUNT)?;
        wait_until_idle(|| cpu(pid))?;
        let before = cpu(pid)?;
        run_closed_loop(&load)?;
        server.operator().settle()?;
        let used = cpu(pid)?.saturating_sub(before);
        Ok(used.as_secs_f64() * 1e6 / float(COUNT as u64))
    }

    /// Kills the server while it is still recording and restarts it; seconds until it is ready.
    fn crash_and_restart(&mut self) -> anyhow::Result<f64> {
        let server = self.running()?;
        run_closed_loop(&load(server, BEFORE_CRASH)?)?;
        self.running = None;
        let started = Instant::now();
        let ready = self.running()?.operator().is_ready()?;
        let took = started.elapsed().as_secs_f64();
        ensure!(ready, "the server announced its address but is not ready");
        Ok(took)
    }
}

fn load(server: &mut Tidegate, count: usize) -> anyhow::Result<Load> {
    let requests = server.requests(RequestKind::Order, count)?;
    Ok(Load { to: server.program().address, connections: CONNECTIONS, requests, count, expect: 201 })
}
