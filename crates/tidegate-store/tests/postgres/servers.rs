//! A private PostgreSQL for tests: on a free port, in a temporary directory, stopped with the test.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

pub(crate) struct Postgres {
    pub(crate) port: u16,
    directory: TempDir,
}

/// Debian keeps the server's programs out of the path.
fn program(name: &str) -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = versions.map(|version| version.path().join("bin").join(name)).collect();
    found.retain(|path| path.exists());
    found.sort();
    found.pop().expect("PostgreSQL is needed: apt-get install postgresql")
}

/// It refuses to run as root.
fn command(name: &str) -> Command {
    let path = program(name);
    if rustix_is_root() {
        let mut command = Command::new("runuser");
        command.args(["-u", "postgres", "--"]).arg(path);
        return command;
    }
    Command::new(path)
}

fn rustix_is_root() -> bool {
    let id = Command::new("id").arg("-u").output().expect("id is part of every system");
    id.stdout.trim_ascii() == b"0"
}

fn run(command: &mut Command) {
    let output =
        command.stdin(Stdio::null()).output().expect("PostgreSQL is needed: apt-get install postgresql");
    let said =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{command:?}: {said}");
}

impl Postgres {
    pub(crate) fn start() -> Self {
        let directory = tempfile::Builder::new().prefix("tidegate-pg").tempdir().unwrap();
        if rustix_is_root() {
            run(Command::new("chown").arg("postgres").arg(directory.path()));
        }
        let port = free_port();
        let server = Self { port, directory };
        let data = server.data();
        run(command("initdb").arg("-D").arg(&data).args([
            "-A",
            "trust",
            "-U",
            "tidegate",
            "-E",
            "UTF8",
            "--no-sync",
        ]));
        server.launch();
        server
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    fn log(&self) -> PathBuf {
        self.directory.path().join("log")
    }

    pub(crate) fn launch(&self) {
        let directory: &Path = self.directory.path();
        let options = format!(
            "-p {} -k {} -c listen_addresses=127.0.0.1 -c max_connections=200",
            self.port,
            directory.display()
        );
        let mut start = command("pg_ctl");
        start.arg("-D").arg(self.data()).arg("-l").arg(self.log()).args(["-w", "-o", &options, "start"]);
        // Nothing of the server's must hold on to the test's pipes.
        let started =
            start.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
        assert!(started.success(), "{}", std::fs::read_to_string(self.log()).unwrap_or_default());
    }

    /// Ends it as a crash would.
    pub(crate) fn stop(&self) {
        run(command("pg_ctl").arg("-D").arg(self.data()).args(["-w", "-m", "immediate", "stop"]));
    }

    pub(crate) fn url(&self, database: &str) -> String {
        format!("postgres://tidegate@127.0.0.1:{}/{database}", self.port)
    }

    /// A database of its own.
    pub(crate) fn create(&self, database: &str) -> String {
        let port = self.port.to_string();
        run(command("createdb").args(["-h", "127.0.0.1", "-p", &port, "-U", "tidegate", database]));
        self.url(database)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // It may have been stopped by the test.
        let mut stop = command("pg_ctl");
        stop.arg("-D").arg(self.data()).args(["-m", "immediate", "stop"]);
        let _ = stop.stdin(Stdio::null()).output();
    }
}

pub(crate) fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

pub(crate) async fn wait_until(what: &str, holds: impl AsyncFn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds().await {
        assert!(Instant::now() < deadline, "{what}, but it took too long");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
