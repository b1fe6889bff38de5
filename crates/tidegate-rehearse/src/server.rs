//! Runs a server as a child process on a free port, in a temporary or given data directory.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStderr, Command};

#[derive(Debug)]
pub struct Server {
    child: Child,
    url: String,
    admin_key: Option<String>,
    /// The temporary data directory, deleted with the server.
    directory: Option<tempfile::TempDir>,
}

const START_WITHIN: Duration = Duration::from_secs(60);
const STOP_WITHIN: Duration = Duration::from_secs(30);
/// Lines of the log that a failed start shows.
const LOG_LINES: usize = 50;

/// Copies the server's log to our own standard error until the server ends; returns its last lines.
async fn forward_log(log: ChildStderr) -> String {
    let (mut lines, mut last) = (BufReader::new(log).lines(), VecDeque::with_capacity(LOG_LINES));
    while let Ok(Some(line)) = lines.next_line().await {
        eprintln!("{line}");
        if last.len() == LOG_LINES {
            last.pop_front();
        }
        last.push_back(line);
    }
    Vec::from(last).join("\n")
}

impl Server {
    /// Starts this executable in a temporary directory.
    pub async fn start(admin_key: &str, settings: &[(&str, &str)]) -> anyhow::Result<Self> {
        let directory = tempfile::tempdir().context("failed to create a temporary directory")?;
        let program = std::env::current_exe().context("failed to determine the path of this executable")?;
        let mut server = Self::start_in(&program, directory.path(), admin_key, settings).await?;
        server.directory = Some(directory);
        Ok(server)
    }

    /// Starts `program` in the given data directory, which is kept.
    pub async fn start_in(
        program: &Path,
        data_dir: &Path,
        admin_key: &str,
        settings: &[(&str, &str)],
    ) -> anyhow::Result<Self> {
        Self::start_with(program, data_dir, admin_key, settings, "--no-demo").await
    }

    /// The same, with the flag `--demo` or `--no-demo`. `settings` may override the port.
    pub async fn start_with(
        program: &Path,
        data_dir: &Path,
        admin_key: &str,
        settings: &[(&str, &str)],
        demo: &str,
    ) -> anyhow::Result<Self> {
        let mut command = Command::new(program);
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("TIDEGATE_")) {
            command.env_remove(name);
        }
        if !admin_key.is_empty() {
            command.env("TIDEGATE_ADMIN_KEY", admin_key);
        }
        command
            .args(["serve", "--json", demo, "--data-dir"])
            .arg(data_dir)
            .env("TIDEGATE_LISTEN", "127.0.0.1:0")
            .env("TIDEGATE_TEST_TOKENS", "true")
            .env("TIDEGATE__LOG__LEVEL", "warn")
            .envs(settings.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command.spawn().with_context(|| format!("failed to start {}", program.display()))?;
        let log = tokio::spawn(forward_log(child.stderr.take().context("the server has no stderr")?));
        let stdout = child.stdout.take().context("the server has no stdout")?;
        let mut line = String::new();
        let mut reader = BufReader::new(stdout);
        let said = tokio::time::timeout(START_WITHIN, reader.read_line(&mut line));
        said.await.context("the server did not start in time")??;
        let Ok(said) = serde_json::from_str::<serde_json::Value>(&line) else {
            child.kill().await?;
            bail!("the server ended before it was ready; its log:\n{}", log.await?);
        };
        let url = said["url"].as_str().context("the server did not announce its URL")?.to_owned();
        let admin_key = said["admin_key"].as_str().map(str::to_owned);
        Ok(Self { child, url, admin_key, directory: None })
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// The admin key that the server generated, if it did.
    pub fn new_admin_key(&self) -> Option<&str> {
        self.admin_key.as_deref()
    }

    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Current and peak resident memory in KiB.
    pub fn memory_kib(&self) -> anyhow::Result<(u64, u64)> {
        let pid = self.pid().context("the server has exited")?;
        let status = std::fs::read_to_string(PathBuf::from(format!("/proc/{pid}/status")))?;
        let of = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name))?;
            line.split_whitespace().nth(1)?.parse().ok()
        };
        Ok((of("VmRSS:").context("no VmRSS")?, of("VmHWM:").context("no VmHWM")?))
    }

    /// Waits until the server ends by itself; returns its exit code, if no signal ended it.
    pub async fn ended(&mut self) -> anyhow::Result<Option<i32>> {
        Ok(self.child.wait().await?.code())
    }

    /// Kills the server, as a crash would.
    pub async fn kill(mut self) -> anyhow::Result<()> {
        Ok(self.child.kill().await?)
    }

    /// Sends SIGTERM; returns whether the server exited cleanly.
    pub async fn stop(mut self) -> anyhow::Result<bool> {
        let Some(pid) = self.pid().and_then(|pid| rustix::process::Pid::from_raw(pid.cast_signed())) else {
            bail!("the server has already exited");
        };
        rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
        let status = tokio::time::timeout(STOP_WITHIN, self.child.wait())
            .await
            .context("the server did not stop in time")??;
        Ok(status.success())
    }
}
