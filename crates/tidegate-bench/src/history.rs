//! What a long history costs: orders to a new sale, and a restart, with ten million recorded orders and with ten
//! thousand.

mod fill;

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::ensure;
use tempfile::TempDir;

use crate::figures::{float, median, ratio};
use crate::generator::{Load, closed};
use crate::plan::Ask;
use crate::process::{cpu, quiet};
use crate::tidegate::Tidegate;

/// Orders in every earlier sale.
const SHORT: u32 = 100;
const LONG: u32 = 100_000;
const CONNECTIONS: usize = 256;
/// Orders of a round.
const COUNT: usize = 50_000;
const RESTARTS: usize = 3;
/// Orders just before a crash.
const BEFORE_CRASH: usize = 20_000;
/// Processor time does not change as much as rates do.
const ROUNDS: usize = 5;

/// A ledger with a past, and the server on it.
struct Ledger {
    server: PathBuf,
    running: Option<Tidegate>,
    directory: TempDir,
}

/// `growth` and `restart_s`.
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

/// How much more processor time an order takes with a long history, until it is recorded.
fn growth(short: &mut Ledger, long: &mut Ledger) -> anyhow::Result<f64> {
    let (mut with_short, mut with_long) = (Vec::new(), Vec::new());
    // The first is made to warm up.
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
            self.running = Some(Tidegate::on(&self.server, self.directory.path())?);
        }
        self.running.as_mut().ok_or_else(|| anyhow::anyhow!("no server"))
    }

    /// Orders to a new sale; processor time of each in microseconds.
    fn cost(&mut self) -> anyhow::Result<f64> {
        let server = self.running()?;
        let pid = server.program().pid();
        let load = load(server, COUNT)?;
        quiet(|| cpu(pid))?;
        let before = cpu(pid)?;
        closed(&load)?;
        server.operator().settle()?;
        let used = cpu(pid)?.saturating_sub(before);
        Ok(used.as_secs_f64() * 1e6 / float(COUNT as u64))
    }

    /// Kills the server while it still records, and starts it again; seconds until it is ready.
    fn crash_and_restart(&mut self) -> anyhow::Result<f64> {
        let server = self.running()?;
        closed(&load(server, BEFORE_CRASH)?)?;
        self.running = None;
        let started = Instant::now();
        let ready = self.running()?.operator().is_ready()?;
        let took = started.elapsed().as_secs_f64();
        ensure!(ready, "the server said where it is, and is not ready");
        Ok(took)
    }
}

fn load(server: &mut Tidegate, count: usize) -> anyhow::Result<Load> {
    let requests = server.requests(Ask::Order, count)?;
    Ok(Load { to: server.program().address, connections: CONNECTIONS, requests, count, expect: 201 })
}
