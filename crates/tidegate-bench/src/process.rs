//! Child processes under test: start, stop, CPU time and memory. They are killed when the benchmark ends in any way.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use rustix::process::{Pid, Resource, Rlimit, Signal};
use serde_json::{Value, json};

/// An idle server uses at most this much CPU time per `SAMPLE_INTERVAL`.
const IDLE_CPU: Duration = Duration::from_millis(10);
const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);
const IDLE_WITHIN: Duration = Duration::from_secs(10);

/// A server on a free port.
#[derive(Debug)]
pub(crate) struct Program {
    child: Child,
    pub(crate) address: SocketAddr,
}

/// Prints the server's address to the parent process, once the server accepts connections.
pub(crate) fn announce(address: SocketAddr) {
    println!("{}", json!({"url": format!("http://{address}")}));
}

impl Program {
    /// Starts a program and reads its announced address. The kernel kills it when this process dies (`pdeathsig`).
    pub(crate) fn start(
        program: &Path,
        arguments: &[&str],
        settings: &[(&str, &str)],
        wrapper: &[&str],
    ) -> anyhow::Result<Self> {
        let mut command = Command::new("setpriv");
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("TIDEGATE_")) {
            command.env_remove(name);
        }
        command.args(["--pdeathsig", "KILL", "--"]).args(wrapper).arg(program).args(arguments);
        command.envs(settings.iter().copied()).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().context("failed to run setpriv: apt-get install util-linux")?;
        let mut line = String::new();
        let out = child.stdout.take().context("the program has no stdout")?;
        BufReader::new(out).read_line(&mut line)?;
        let said: Value = serde_json::from_str(&line)
            .with_context(|| format!("{} ended before it was ready", program.display()))?;
        let url = said["url"].as_str().context("the program did not announce its URL")?;
        let address = url.trim_start_matches("http://").parse()?;
        Ok(Self { child, address })
    }

    /// Starts this executable with a subcommand that is a server.
    pub(crate) fn ours(arguments: &[&str]) -> anyhow::Result<Self> {
        Self::start(&std::env::current_exe()?, arguments, &[], &[])
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends SIGTERM and waits for a clean exit.
    pub(crate) fn stop(mut self) -> anyhow::Result<()> {
        let pid = Pid::from_raw(self.child.id().cast_signed()).context("no process")?;
        rustix::process::kill_process(pid, Signal::TERM)?;
        let ended = self.child.wait()?;
        ensure!(ended.success(), "the server did not stop cleanly: {ended}");
        Ok(())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Fails if the process has already exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The CPU time of a process.
pub(crate) fn cpu(pid: u32) -> anyhow::Result<Duration> {
    let fields = stat(pid)?;
    Ok(ticks(&fields[11..13]))
}

/// The CPU time of a process, its children, and its children that have exited.
pub(crate) fn cpu_of_family(pid: u32) -> anyhow::Result<Duration> {
    let mut total = ticks(&stat(pid)?[11..15]);
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(child) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        // A child that has just exited is counted in its parent's total.
        let Ok(fields) = stat(child) else { continue };
        if fields[1] == u64::from(pid) {
            total += ticks(&fields[11..13]);
        }
    }
    Ok(total)
}

/// Raises the limit of open files to its maximum, for this process and its children: overload needs many connections.
pub(crate) fn allow_many_connections() -> anyhow::Result<()> {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let all = Rlimit { current: limit.maximum, ..limit };
    rustix::process::setrlimit(Resource::Nofile, all).context("raising the limit of open files")
}

/// Waits, up to a timeout, until the processes whose CPU time `used` returns are idle, so that work left from one run
/// does not slow the next.
pub(crate) fn wait_until_idle(mut used: impl FnMut() -> anyhow::Result<Duration>) -> anyhow::Result<()> {
    let until = Instant::now() + IDLE_WITHIN;
    let mut before = used()?;
    loop {
        std::thread::sleep(SAMPLE_INTERVAL);
        let now = used()?;
        if now.saturating_sub(before) <= IDLE_CPU || Instant::now() > until {
            return Ok(());
        }
        before = now;
    }
}

/// The fields of `/proc/PID/stat` from the third on; non-numeric fields are 0.
fn stat(pid: u32) -> anyhow::Result<Vec<u64>> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (_, rest) = text.rsplit_once(')').context("unexpected format of /proc/PID/stat")?;
    Ok(rest.split_ascii_whitespace().map(|field| field.parse().unwrap_or(0)).collect())
}

fn ticks(fields: &[u64]) -> Duration {
    let ticks: u64 = fields.iter().sum();
    Duration::from_micros(ticks * 1_000_000 / rustix::param::clock_ticks_per_second())
}

/// Resident memory in bytes.
pub(crate) fn resident(pid: u32) -> anyhow::Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim_end().parse()?;
    Ok(kib * 1024)
}
