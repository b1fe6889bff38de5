//! Redis: one server, or a cluster of three masters with a replica each.

use std::process::Command;

use tempfile::TempDir;

use crate::chaos_proxy::ChaosProxy;
use crate::servers::{Guarded, free_port, wait_until};

/// One server; without persistence unless its arguments enable it.
#[derive(Debug)]
pub struct Redis {
    running: Option<Guarded>,
    pub port: u16,
    directory: TempDir,
    more: Vec<String>,
}

/// Stops the server with SIGKILL, as a crash would, even if it is frozen.
const RUN: &str =
    r#"redis-server "$@" & server=$!; read -r _; kill -CONT $server; kill -9 $server; wait $server"#;

impl Redis {
    pub fn start(more: &[&str]) -> Self {
        Self::start_on(free_port(), more)
    }

    fn start_on(port: u16, more: &[&str]) -> Self {
        let more = more.iter().map(|word| (*word).to_owned()).collect();
        let mut server = Self { running: None, port, directory: tempfile::tempdir().unwrap(), more };
        server.restart();
        server
    }

    /// Kills the server, as a crash would.
    pub fn kill(&mut self) {
        self.running = None;
    }

    /// Starts the server on its port, with the data it saved last.
    pub fn restart(&mut self) {
        let found = Command::new("redis-server").arg("--version").output();
        found.expect("redis-server is needed: apt-get install redis-server");
        let directory = self.directory.path().to_str().unwrap();
        let port = self.port.to_string();
        let mut arguments: Vec<String> = [
            "--port",
            &port,
            "--dir",
            directory,
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--loglevel",
            "warning",
        ]
        .map(str::to_owned)
        .to_vec();
        arguments.extend(self.more.iter().cloned());
        self.running = Some(Guarded::start(RUN, &arguments));
        wait_until("redis-server answers", || self.cli(&["ping"]).trim() == "PONG");
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The output of redis-cli.
    pub fn cli(&self, command: &[&str]) -> String {
        let output = Command::new("redis-cli").args(["-p", &self.port.to_string()]).args(command).output();
        let output = output.expect("redis-cli is needed: apt-get install redis-tools");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The server's process, to send it signals.
    pub fn pid(&self) -> u32 {
        let info = self.cli(&["info", "server"]);
        let line = info.lines().find_map(|line| line.strip_prefix("process_id:"));
        line.unwrap().trim().parse().unwrap()
    }
}

/// Three masters, each with a replica.
pub fn cluster() -> Vec<Redis> {
    join((0..6).map(|_| (free_port(), Vec::new())).collect())
}

/// The same, but clients are told to connect to each server through its proxy.
pub fn cluster_behind_proxies() -> (Vec<Redis>, Vec<ChaosProxy>) {
    let proxies: Vec<(u16, ChaosProxy)> =
        (0..6).map(|_| free_port()).map(|port| (port, ChaosProxy::to_port(port))).collect();
    let announced = |(port, proxy): &(u16, ChaosProxy)| {
        let announce = ["--cluster-announce-port".to_owned(), proxy.port().to_string()];
        let bus = ["--cluster-announce-bus-port".to_owned(), (port + 10_000).to_string()];
        (*port, [announce, bus].concat())
    };
    let nodes = join(proxies.iter().map(announced).collect());
    (nodes, proxies.into_iter().map(|(_, proxy)| proxy).collect())
}

/// Starts servers on these ports with these additional settings and makes them a cluster.
fn join(servers: Vec<(u16, Vec<String>)>) -> Vec<Redis> {
    let settings = [
        "--cluster-enabled",
        "yes",
        "--cluster-node-timeout",
        "2000",
        // A replica that was cut off may still be promoted, so that a failover can lose writes.
        "--cluster-replica-validity-factor",
        "0",
        "--repl-diskless-sync-delay",
        "0",
    ];
    let start = |(port, more): (u16, Vec<String>)| {
        let more: Vec<&str> = settings.into_iter().chain(more.iter().map(String::as_str)).collect();
        Redis::start_on(port, &more)
    };
    let nodes: Vec<Redis> = servers.into_iter().map(start).collect();
    let addresses: Vec<String> = nodes.iter().map(|node| format!("127.0.0.1:{}", node.port)).collect();
    let mut create = Command::new("redis-cli");
    create.args(["--cluster", "create"]).args(&addresses).args(["--cluster-replicas", "1", "--cluster-yes"]);
    let made = create.output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stdout));
    wait_until("the cluster is whole", || {
        let settled = |node: &Redis| {
            node.cli(&["cluster", "info"]).contains("cluster_state:ok")
                && !node.cli(&["info", "replication"]).contains("master_link_status:down")
        };
        nodes.iter().all(settled)
    });
    nodes
}

/// The URLs of a cluster's nodes, separated by commas.
pub fn urls(nodes: &[Redis]) -> String {
    nodes.iter().map(Redis::url).collect::<Vec<_>>().join(",")
}

/// A primary, a replica, and a sentinel that watches them.
#[derive(Debug)]
pub struct Watched {
    pub primary: Redis,
    pub replica: Redis,
    port: u16,
    _sentinel: Guarded,
    _directory: TempDir,
}

impl Watched {
    /// The sentinel replaces a primary that is silent for a second.
    pub fn start() -> Self {
        let primary = Redis::start(&["--repl-diskless-sync-delay", "0"]);
        let port = primary.port;
        Self::watch(primary, port, 1000)
    }

    /// The sentinel reaches the primary, and clients are told to, through the proxy. It is never replaced.
    pub fn start_behind_proxy() -> (Self, ChaosProxy) {
        let primary = Redis::start(&["--repl-diskless-sync-delay", "0"]);
        let proxy = ChaosProxy::to_port(primary.port);
        (Self::watch(primary, proxy.port(), 3_600_000), proxy)
    }

    fn watch(primary: Redis, primary_port: u16, down_after_ms: u32) -> Self {
        let replica = Redis::start(&["--replicaof", "127.0.0.1", &primary.port.to_string()]);
        wait_until("the replica has its copy", || {
            replica.cli(&["info", "replication"]).contains("master_link_status:up")
        });
        let (port, directory) = (free_port(), tempfile::tempdir().unwrap());
        let file = directory.path().join("sentinel.conf");
        let settings = format!(
            "port {port}\nsentinel monitor main 127.0.0.1 {primary_port} 1\n\
             sentinel down-after-milliseconds main {down_after_ms}\nsentinel failover-timeout main 5000\n"
        );
        std::fs::write(&file, settings).unwrap();
        let arguments = [file.to_str().unwrap().to_owned(), "--sentinel".to_owned()];
        let sentinel = Guarded::start(RUN, &arguments);
        let watched = Self { primary, replica, port, _directory: directory, _sentinel: sentinel };
        wait_until("the sentinel knows the replica", || {
            watched.ask("replicas").contains(&watched.replica.port.to_string())
        });
        watched
    }

    fn ask(&self, what: &str) -> String {
        let command = ["-p", &self.port.to_string(), "sentinel", what, "main"];
        let output = Command::new("redis-cli").args(command).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    pub fn url(&self) -> String {
        format!("redis+sentinel://127.0.0.1:{}/main", self.port)
    }
}
