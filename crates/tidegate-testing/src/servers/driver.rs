//! ChromeDriver: one for all browsers of a test process, and a directory for their profiles.
//!
//! Invariant: its browsers end with it and their files are deleted, even if the tests are killed.

use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use tempfile::TempDir;

use crate::servers::{Guarded, free_port, wait_until};

#[derive(Debug)]
pub struct Driver {
    port: u16,
    profiles: AtomicU32,
    /// Declared before `directory`: the driver must stop before its directory is deleted.
    _guard: Guarded,
    directory: TempDir,
}

/// A browser is many processes: `setsid` puts them into one process group, which is killed as a whole.
const RUN: &str = r#"directory=$1; shift
TMPDIR=$directory setsid chromedriver "$@" & driver=$!
read -r _
kill -9 -$driver; wait $driver; rm -rf "$directory""#;

impl Driver {
    pub fn start() -> Self {
        let found = Command::new("chromedriver").arg("--version").output();
        found.expect("chromium-driver is missing: apt-get install chromium chromium-driver");
        let directory = tempfile::Builder::new().prefix("tidegate-chromium").tempdir().unwrap();
        let path = directory.path().to_str().unwrap().to_owned();
        let port = free_port();
        let guard = Guarded::start(RUN, &[path, format!("--port={port}"), "--silent".to_owned()]);
        wait_until("chromedriver answers", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        Self { port, profiles: AtomicU32::new(0), _guard: guard, directory }
    }

    /// The driver that all tests of this process share; it ends with the process.
    pub fn shared() -> &'static Self {
        static DRIVER: OnceLock<Driver> = OnceLock::new();
        DRIVER.get_or_init(Self::start)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// An unused profile directory.
    pub fn new_profile(&self) -> PathBuf {
        self.directory.path().join(format!("profile{}", self.profiles.fetch_add(1, Ordering::Relaxed)))
    }
}
