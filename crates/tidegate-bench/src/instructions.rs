//! Instructions per request: a figure that does not depend on the load of the machine.
//!
//! Valgrind's callgrind counts the instructions of the whole process from the first request until everything is
//! recorded; the sum is divided by the number of requests.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use tempfile::TempDir;

use crate::figures::float;
use crate::generator::{Load, run_closed_loop};
use crate::plan::RequestKind;
use crate::tidegate::Tidegate;

const COUNT: usize = 3000;
const WARM_UP: usize = 500;
const CONNECTIONS: usize = 64;
const KINDS: [(&str, RequestKind, u16); 3] = [
    ("order", RequestKind::Order, 201),
    ("refusal", RequestKind::SoldOut, 409),
    ("healthz", RequestKind::Health, 200),
];

pub(crate) fn measure(server: &Path) -> anyhow::Result<Vec<(&'static str, f64)>> {
    let directory = tempfile::Builder::new().prefix("tidegate-instructions").tempdir()?;
    let out = format!("--callgrind-out-file={}", directory.path().join("out").display());
    // Instrumentation is off at first, which keeps the start fast.
    let valgrind = ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--quiet", &out];
    let mut server = Tidegate::embedded(server, &valgrind, &[])?;
    let mut counted = Vec::new();
    for (name, request, expect) in KINDS {
        send(&mut server, request, WARM_UP, expect)?;
        let requests = load(&mut server, request, COUNT, expect)?;
        control(&server, &["-i", "on"])?;
        run_closed_loop(&requests)?;
        server.operator().settle()?;
        control(&server, &["-i", "off"])?;
        control(&server, &["-d"])?;
        counted.push((name, float(total(&directory)?) / float(COUNT as u64)));
    }
    Ok(counted)
}

fn load(server: &mut Tidegate, request: RequestKind, count: usize, expect: u16) -> anyhow::Result<Load> {
    let requests = server.requests(request, count)?;
    Ok(Load { to: server.program().address, connections: CONNECTIONS, requests, count, expect })
}

fn send(server: &mut Tidegate, request: RequestKind, count: usize, expect: u16) -> anyhow::Result<()> {
    run_closed_loop(&load(server, request, count, expect)?)?;
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

/// Sums and deletes the dumps written since the last call.
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
