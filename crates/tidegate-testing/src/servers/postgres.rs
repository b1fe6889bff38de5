//! PostgreSQL: one server with any number of databases.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::servers::{Guarded, free_port};

#[derive(Debug)]
pub struct Postgres {
    pub port: u16,
    settings: String,
    /// Declared before `directory`: the server must stop before its directory is deleted.
    _guard: Guarded,
    directory: TempDir,
}

/// Debian does not put the server's programs into `PATH`.
fn program(name: &str) -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = versions.map(|version| version.path().join("bin").join(name)).collect();
    found.retain(|path| path.exists());
    found.sort();
    found.pop().expect("PostgreSQL is needed: apt-get install postgresql")
}

/// The command line that runs the program as another user than root, as which PostgreSQL refuses to run.
fn as_somebody(name: &str) -> Vec<String> {
    let path = program(name).to_str().unwrap().to_owned();
    if is_root() {
        ["runuser", "-u", "postgres", "--"].map(str::to_owned).into_iter().chain([path]).collect()
    } else {
        vec![path]
    }
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output().unwrap();
    id.stdout.trim_ascii() == b"0"
}

fn run(words: &[String]) {
    let mut command = Command::new(&words[0]);
    let output = command.args(&words[1..]).stdin(Stdio::null()).output().unwrap();
    let said =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{words:?}: {said}");
}

impl Postgres {
    /// Starts a server without fsync: a crash of the server loses nothing, only a crash of the machine would.
    pub fn start() -> Self {
        Self::start_with("-c fsync=off")
    }

    /// Starts a server with these command-line options.
    pub fn start_with(settings: &str) -> Self {
        let directory = tempfile::Builder::new().prefix("tidegate-postgres").tempdir().unwrap();
        let path = directory.path().to_str().unwrap().to_owned();
        if is_root() {
            run(&["chown", "postgres", &path].map(str::to_owned));
        }
        let data = format!("{path}/data");
        let mut make = as_somebody("initdb");
        let options = ["-D", &data, "-A", "trust", "-U", "tidegate", "-E", "UTF8", "--no-sync"];
        make.extend(options.map(str::to_owned));
        run(&make);
        let mut stop = as_somebody("pg_ctl");
        stop.extend(["-D", &data, "-m", "immediate", "stop"].map(str::to_owned));
        // The shell deletes the directory, too: a killed test process does not.
        stop.splice(0..0, [path]);
        let guard = Guarded::start(r#"directory=$1; shift; read -r _; "$@"; rm -rf "$directory""#, &stop);
        let server = Self { port: free_port(), directory, settings: settings.to_owned(), _guard: guard };
        server.launch();
        server
    }

    fn data(&self) -> String {
        format!("{}/data", self.directory.path().display())
    }

    /// Starts the server; after `stop`, starts it again.
    pub fn launch(&self) {
        let directory = self.directory.path().display();
        let log = format!("{directory}/log");
        let options = format!(
            "-p {} -k {directory} -c listen_addresses=127.0.0.1 -c max_connections=300 {}",
            self.port, self.settings
        );
        let mut start = as_somebody("pg_ctl");
        start.extend(["-D", &self.data(), "-l", &log, "-w", "-o", &options, "start"].map(str::to_owned));
        let mut command = Command::new(&start[0]);
        // The server must not inherit the test's pipes.
        let command =
            command.args(&start[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let started = command.status().unwrap();
        assert!(started.success(), "{}", std::fs::read_to_string(log).unwrap_or_default());
    }

    /// Allows connections from other networks than the loopback network.
    pub fn admit(&self, network: &str) {
        let file = format!("{}/pg_hba.conf", self.data());
        let rules = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, format!("{rules}\nhost all all {network} trust\n")).unwrap();
        let mut reload = as_somebody("pg_ctl");
        reload.extend(["-D", &self.data(), "reload"].map(str::to_owned));
        run(&reload);
    }

    /// Stops the server as a crash would.
    pub fn stop(&self) {
        let mut stop = as_somebody("pg_ctl");
        stop.extend(["-D", &self.data(), "-w", "-m", "immediate", "stop"].map(str::to_owned));
        run(&stop);
    }

    /// The postmaster, the parent of all server processes.
    pub fn pid(&self) -> u32 {
        let file = std::fs::read_to_string(format!("{}/postmaster.pid", self.data())).unwrap();
        file.lines().next().unwrap().trim().parse().unwrap()
    }

    pub fn url(&self, database: &str) -> String {
        format!("postgres://tidegate@127.0.0.1:{}/{database}", self.port)
    }

    /// Creates a database and returns its URL.
    pub fn create(&self, database: &str) -> String {
        let mut create = as_somebody("createdb");
        let port = self.port.to_string();
        create.extend(["-h", "127.0.0.1", "-p", &port, "-U", "tidegate", database].map(str::to_owned));
        run(&create);
        self.url(database)
    }
}
