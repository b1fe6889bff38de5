//! Processes that are measured: started with the benchmark, gone with it however it ends, and what they cost.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use rustix::process::{Pid, Resource, Rlimit, Signal};
use serde_json::{Value, json};

/// A server that does nothing uses less than this of so much time.
const QUIET: Duration = Duration::from_millis(10);
const LOOK: Duration = Duration::from_millis(100);
const QUIET_WITHIN: Duration = Duration::from_secs(10);

/// A server on a free port.
#[derive(Debug)]
pub(crate) struct Program {
    child: Child,
    pub(crate) address: SocketAddr,
}

/// What a server says, once it answers, to whoever started it.
pub(crate) fn announce(address: SocketAddr) {
    println!("{}", json!({"url": format!("http://{address}")}));
}

impl Program {
    /// Starts a program that announces itself. The system kills it when we end, even if we are killed.
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
        let mut child = command.spawn().context("setpriv is needed: apt-get install util-linux")?;
        let mut line = String::new();
        let out = child.stdout.take().context("a program without output")?;
        BufReader::new(out).read_line(&mut line)?;
        let said: Value = serde_json::from_str(&line)
            .with_context(|| format!("{} ended before it was ready", program.display()))?;
        let url = said["url"].as_str().context("it did not say where it listens")?;
        let address = url.trim_start_matches("http://").parse()?;
        Ok(Self { child, address })
    }

    /// This program, as one of the servers that it can be.
    pub(crate) fn ours(arguments: &[&str]) -> anyhow::Result<Self> {
        Self::start(&std::env::current_exe()?, arguments, &[], &[])
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to end, and waits until it has.
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
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The processor time that a process has used.
pub(crate) fn cpu(pid: u32) -> anyhow::Result<Duration> {
    let fields = stat(pid)?;
    Ok(ticks(&fields[11..13]))
}

/// The processor time of a process, of those it started, and of those that have ended.
pub(crate) fn cpu_of_family(pid: u32) -> anyhow::Result<Duration> {
    let mut total = ticks(&stat(pid)?[11..15]);
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(child) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        // One that has just ended is counted with its parent.
        let Ok(fields) = stat(child) else { continue };
        if fields[1] == u64::from(pid) {
            total += ticks(&fields[11..13]);
        }
    }
    Ok(total)
}

/// As many connections as the system allows, for this process and those it starts: overload needs thousands.
pub(crate) fn allow_many_connections() -> anyhow::Result<()> {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let all = Rlimit { current: limit.maximum, ..limit };
    rustix::process::setrlimit(Resource::Nofile, all).context("raising the number of open files")
}

/// Waits, within a bound, until whoever uses this processor time does nothing more: what a server does for one run
/// must not slow the next.
pub(crate) fn quiet(mut used: impl FnMut() -> anyhow::Result<Duration>) -> anyhow::Result<()> {
    let until = Instant::now() + QUIET_WITHIN;
    let mut before = used()?;
    loop {
        std::thread::sleep(LOOK);
        let now = used()?;
        if now.saturating_sub(before) <= QUIET || Instant::now() > until {
            return Ok(());
        }
        before = now;
    }
}

/// The numbers of `/proc/PID/stat` from the third field on: what is no number is 0.
fn stat(pid: u32) -> anyhow::Result<Vec<u64>> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (_, rest) = text.rsplit_once(')').context("a strange /proc")?;
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
