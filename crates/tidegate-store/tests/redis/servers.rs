//! Private servers for tests: on free ports, in temporary directories, stopped with the test.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// One Redis server without persistence.
pub(crate) struct Redis {
    child: Child,
    pub(crate) port: u16,
    directory: TempDir,
    more: Vec<String>,
}

impl Redis {
    pub(crate) fn start(more: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let port = free_port();
        let more: Vec<String> = more.iter().map(|word| (*word).to_owned()).collect();
        let server = Self { child: spawn(port, &directory, &more), port, directory, more };
        server.wait();
        server
    }

    /// Ends it as a crash would.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again on its port, with what it saved last.
    pub(crate) fn restart(&mut self) {
        self.child = spawn(self.port, &self.directory, &self.more);
        self.wait();
    }

    fn wait(&self) {
        wait_until("redis-server answers", || self.cli(&["ping"]).trim() == "PONG");
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub(crate) fn cli(&self, command: &[&str]) -> String {
        let output = Command::new("redis-cli").args(["-p", &self.port.to_string()]).args(command).output();
        let output = output.expect("redis-cli is needed: apt-get install redis-tools");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // It may have been stopped by the test.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(port: u16, directory: &TempDir, more: &[String]) -> Child {
    Command::new("redis-server")
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
        .args(["--dir", directory.path().to_str().unwrap()])
        .args(more)
        .stdout(Stdio::null())
        .spawn()
        .expect("redis-server is needed: apt-get install redis-server")
}

/// Three masters with a replica each.
pub(crate) fn cluster() -> Vec<Redis> {
    let nodes: Vec<Redis> = (0..6)
        .map(|_| Redis::start(&["--cluster-enabled", "yes", "--cluster-node-timeout", "2000"]))
        .collect();
    let addresses: Vec<String> = nodes.iter().map(|node| format!("127.0.0.1:{}", node.port)).collect();
    let created = Command::new("redis-cli")
        .args(["--cluster", "create"])
        .args(&addresses)
        .args(["--cluster-replicas", "1", "--cluster-yes"])
        .output()
        .unwrap();
    assert!(created.status.success(), "{}", String::from_utf8_lossy(&created.stdout));
    wait_until("the cluster is up", || {
        nodes.iter().all(|node| node.cli(&["cluster", "info"]).contains("cluster_state:ok"))
    });
    nodes
}

/// A port nobody listens on, with its cluster bus's, which is 10000 above.
fn free_port() -> u16 {
    loop {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        if port < 55_000 {
            return port;
        }
    }
}

fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < deadline, "{what}, but it took too long");
        std::thread::sleep(Duration::from_millis(20));
    }
}
