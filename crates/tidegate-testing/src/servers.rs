//! Private servers for tests: real programs on free ports, in temporary directories.
//!
//! Invariants: a missing program fails the test with the command that installs it; a server does not outlive the test
//! process, even if that is killed, because a shell waits for the end of its input and then stops the server.

#![expect(clippy::unwrap_used, reason = "a server that cannot start fails the test")]

pub mod driver;
pub mod nginx;
pub mod postgres;
pub mod redis;

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub use self::driver::Driver;
pub use self::nginx::Nginx;
pub use self::postgres::Postgres;
pub use self::redis::Redis;

/// A shell that runs a server and stops it when this is dropped.
#[derive(Debug)]
struct Guarded(Child);

impl Guarded {
    /// Runs `script` with `$@`; it must wait with `read -r _` and then stop the processes it started.
    fn start(script: &str, arguments: &[String]) -> Self {
        let mut shell = Command::new("sh");
        shell.args(["-c", script, "sh"]).args(arguments);
        let shell = shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(shell.spawn().unwrap())
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        // The shell ends after its input.
        let _ = self.0.wait();
    }
}

/// A free port, low enough that the port of Redis Cluster's bus, 10,000 above it, is valid, too.
pub fn free_port() -> u16 {
    loop {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        if port < 55_000 {
            return port;
        }
    }
}

/// Polls for at most 30 seconds until `holds` returns true; for use outside of a runtime.
pub fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < deadline, "not within 30 s: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
