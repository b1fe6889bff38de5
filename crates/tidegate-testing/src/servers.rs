//! Private servers for tests: real ones, on free ports, in temporary directories, gone with the test.
//!
//! What always holds: a server that is missing is a failure with the command that installs it; a server does not
//! outlive the process that started it, however that ends, since a shell beside it waits for the end of its input.

#![expect(clippy::unwrap_used, reason = "a test that cannot have its server says where")]

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

/// A program that runs until this is dropped.
#[derive(Debug)]
struct Guarded(Child);

impl Guarded {
    /// Runs `script` with `$@`; it must wait with `read -r _` and then end what it started.
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
        // It ends once its input has.
        let _ = self.0.wait();
    }
}

/// A port nobody listens on; low enough that Redis Cluster's bus, ten thousand above, is one, too.
pub fn free_port() -> u16 {
    loop {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        if port < 55_000 {
            return port;
        }
    }
}

/// Waits, within a bound, until it holds.
pub fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < deadline, "{what}, but it took too long");
        std::thread::sleep(Duration::from_millis(20));
    }
}
