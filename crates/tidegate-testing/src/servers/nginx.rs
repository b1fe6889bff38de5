//! nginx with the proxy configuration that we ship, in front of one server.

use std::net::{SocketAddr, TcpStream};
use std::process::Command;

use tempfile::TempDir;

use crate::servers::{Guarded, free_port, wait_until};

/// Debian installs nginx in /usr/sbin, which is not in every user's `PATH`.
const RUN: &str = r#"PATH=$PATH:/usr/sbin nginx "$@" & server=$!; read -r _; kill $server; wait $server"#;
/// nginx creates these directories at its start; by default they belong to root.
const TEMPORARY: [&str; 5] =
    ["client_body_temp_path", "proxy_temp_path", "fastcgi_temp_path", "uwsgi_temp_path", "scgi_temp_path"];

#[derive(Debug)]
pub struct Nginx {
    port: u16,
    /// Declared before `directory`: the proxy must stop before its directory is deleted.
    _guard: Guarded,
    directory: TempDir,
}

impl Nginx {
    /// `configuration` is the text of `deploy/proxy.conf`.
    pub fn start(configuration: &str, upstream: SocketAddr) -> Self {
        let found =
            Command::new("sh").args(["-c", "PATH=$PATH:/usr/sbin command -v nginx"]).output().unwrap();
        assert!(found.status.success(), "nginx is needed: apt-get install nginx-light");
        let directory = tempfile::Builder::new().prefix("tidegate-nginx").tempdir().unwrap();
        let path = directory.path().to_str().unwrap().to_owned();
        let port = free_port();
        let file = directory.path().join("nginx.conf");
        std::fs::write(&file, adapted(configuration, upstream, port, &path)).unwrap();
        let globals = format!("daemon off; pid {path}/nginx.pid;");
        let arguments = ["-p", &path, "-c", file.to_str().unwrap(), "-g", &globals].map(str::to_owned);
        let guard = Guarded::start(RUN, &arguments);
        wait_until("nginx answers", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        Self { port, _guard: guard, directory }
    }

    pub fn address(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.port).into()
    }

    /// The master process; its workers are its children.
    pub fn pid(&self) -> u32 {
        let pid = std::fs::read_to_string(self.directory.path().join("nginx.pid")).unwrap();
        pid.trim().parse().unwrap()
    }
}

/// The shipped configuration with one upstream, a private port and writable temporary directories.
fn adapted(configuration: &str, upstream: SocketAddr, port: u16, directory: &str) -> String {
    let temporary = TEMPORARY.map(|name| format!("\n    {name} {directory}/{name};")).concat();
    let lines = configuration.lines().filter(|line| !line.contains("server node2:8080"));
    let adapted = lines
        .collect::<Vec<_>>()
        .join("\n")
        .replace("http {", &format!("http {{{temporary}"))
        .replace("node1:8080", &upstream.to_string())
        .replace("listen 8080", &format!("listen 127.0.0.1:{port}"));
    assert!(
        adapted.contains(&upstream.to_string()) && !adapted.contains(" 8080"),
        "the shipped configuration names its nodes or its port differently now"
    );
    adapted
}
