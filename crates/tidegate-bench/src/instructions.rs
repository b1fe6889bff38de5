//! How many instructions a request takes: a figure that does not depend on how busy the machine is.
//!
//! Counted by valgrind's callgrind in the whole process, from the first request until everything is recorded, and
//! divided by the number of requests.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use tempfile::TempDir;

use crate::figures::float;
use crate::generator::{Load, closed};
use crate::plan::Ask;
use crate::tidegate::Tidegate;

const COUNT: usize = 3000;
const WARM_UP: usize = 500;
const CONNECTIONS: usize = 64;
const KINDS: [(&str, Ask, u16); 3] =
    [("order", Ask::Order, 201), ("refusal", Ask::SoldOut, 409), ("healthz", Ask::Health, 200)];

pub(crate) fn measure(server: &Path) -> anyhow::Result<Vec<(&'static str, f64)>> {
    let directory = tempfile::Builder::new().prefix("tidegate-instructions").tempdir()?;
    let out = format!("--callgrind-out-file={}", directory.path().join("out").display());
    // Off until there is something to count: the start is quick.
    let valgrind = ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--quiet", &out];
    let mut server = Tidegate::under(server, &valgrind, &[])?;
    let mut counted = Vec::new();
    for (name, ask, expect) in KINDS {
        send(&mut server, ask, WARM_UP, expect)?;
        let requests = load(&mut server, ask, COUNT, expect)?;
        control(&server, &["-i", "on"])?;
        closed(&requests)?;
        server.operator().settle()?;
        control(&server, &["-i", "off"])?;
        control(&server, &["-d"])?;
        counted.push((name, float(total(&directory)?) / float(COUNT as u64)));
    }
    Ok(counted)
}

fn load(server: &mut Tidegate, ask: Ask, count: usize, expect: u16) -> anyhow::Result<Load> {
    let requests = server.requests(ask, count)?;
    Ok(Load { to: server.program().address, connections: CONNECTIONS, requests, count, expect })
}

fn send(server: &mut Tidegate, ask: Ask, count: usize, expect: u16) -> anyhow::Result<()> {
    closed(&load(server, ask, count, expect)?)?;
    server.operator().settle()?;
    Ok(())
}

fn control(server: &Tidegate, arguments: &[&str]) -> anyhow::Result<()> {
    let mut command = Command::new("callgrind_control");
    let output = command.args(arguments).arg(server.program().pid().to_string()).output();
    let output = output.context("valgrind is needed: apt-get install valgrind")?;
    ensure!(output.status.success(), "callgrind_control: {}", String::from_utf8_lossy(&output.stdout));
    Ok(())
}

/// What was counted since the last time; the dump is taken away.
fn total(directory: &TempDir) -> anyhow::Result<u64> {
    let mut sum = 0;
    for entry in std::fs::read_dir(directory.path())? {
        let path = entry?.path();
        let text = std::fs::read_to_string(&path)?;
        std::fs::remove_file(path)?;
        let total = text.lines().find_map(|line| line.strip_prefix("totals: "));
        sum += total.map_or(Ok(0), |total| total.trim().parse::<u64>())?;
    }
    ensure!(sum > 0, "callgrind counted nothing");
    Ok(sum)
}
