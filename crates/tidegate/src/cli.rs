//! The command line.
//!
//! Exit codes: 0 success, 1 a check failed (audit, verify, rehearse), 2 usage, configuration or runtime error. Results
//! go to stdout, logs to stderr.

mod accept_loss;
mod audit;
mod config;
mod migrate;
pub mod serve;
mod verify;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use tokio::runtime::Runtime;

use crate::config::{Config, ConfigError, Sources, load};

/// Flash-sale and prize-draw engine: sells every unit exactly once, and no accepted order is lost in a crash.
#[derive(Debug, Parser)]
#[command(name = "tidegate", version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: serve::ServeArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start the server (the default command).
    Serve(serve::ServeArgs),
    /// Run a sale or a draw with virtual buyers and check that nothing is oversold, undersold or lost and limits hold.
    Rehearse(tidegate_rehearse::RehearseArgs),
    /// Check the consistency of the ledger and, on a cluster, of the gate.
    Audit(audit::AuditArgs),
    /// Verify the proof of a closed draw offline: its commitment and every play.
    Verify(verify::VerifyArgs),
    /// Migrate the ledger's schema, in the data directory or in the cluster's database.
    Migrate(migrate::MigrateArgs),
    /// Let a server start whose ledger or journal has lost confirmed changes, without them.
    AcceptLoss(accept_loss::AcceptLossArgs),
    /// Check or show the effective configuration.
    Config(config::ConfigArgs),
}

/// Sources of the configuration, for every command that needs one.
#[derive(Clone, Debug, Default, Args)]
pub struct SettingsArgs {
    /// Configuration file (TOML).
    #[arg(long, value_name = "FILE", env = "TIDEGATE_CONFIG")]
    config: Option<PathBuf>,
    /// Address and port to listen on.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Directory of the embedded ledger and journal.
    #[arg(long, value_name = "DIRECTORY")]
    data_dir: Option<String>,
    /// PostgreSQL database of the cluster: postgres://…
    #[arg(long, value_name = "URL")]
    database_url: Option<String>,
    /// Redis or Valkey servers of the cluster: redis://…, separated by commas.
    #[arg(long, value_name = "URL")]
    redis_url: Option<String>,
    /// Fill an empty ledger with demo data.
    #[arg(long, conflicts_with = "no_demo")]
    demo: bool,
    /// Do not create demo data.
    #[arg(long)]
    no_demo: bool,
}

impl SettingsArgs {
    fn sources(&self) -> Sources {
        let mut flags = Vec::new();
        let mut say = |key, flag, value: Option<&String>| {
            flags.extend(value.map(|value| (key, flag, value.clone())));
        };
        say("listen", "--listen", self.listen.as_ref());
        say("data_dir", "--data-dir", self.data_dir.as_ref());
        say("database_url", "--database-url", self.database_url.as_ref());
        say("redis_url", "--redis-url", self.redis_url.as_ref());
        say("demo", "--demo", self.demo.then(|| "on".to_owned()).as_ref());
        say("demo", "--no-demo", self.no_demo.then(|| "off".to_owned()).as_ref());
        Sources { file: self.config.clone(), environment: std::env::vars().collect(), flags }
    }

    fn load(&self) -> Result<(Config, figment::Figment), ConfigError> {
        load(&self.sources())
    }
}

/// The result of a command that ran without an error: whether its checks passed.
#[derive(Clone, Copy, Debug)]
pub enum Outcome {
    Passed,
    Failed,
}

impl From<bool> for Outcome {
    fn from(passed: bool) -> Self {
        if passed { Self::Passed } else { Self::Failed }
    }
}

/// How often a runtime thread yields before it parks.
const YIELDS: usize = 2;

pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let command = cli.command.unwrap_or(Command::Serve(cli.serve));
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error.into()),
    };
    let outcome = runtime.block_on(async {
        match command {
            Command::Serve(args) => serve::run(args).await,
            Command::Rehearse(args) => tidegate_rehearse::run(args).await.map(Outcome::from),
            Command::Audit(args) => audit::run(args).await,
            Command::Verify(args) => verify::run(args),
            Command::Migrate(args) => migrate::run(args).await,
            Command::AcceptLoss(args) => accept_loss::run(args).await,
            Command::Config(args) => config::run(args),
        }
    });
    // Does not wait for blocking tasks: everything that must persist is already on disk.
    runtime.shutdown_background();
    match outcome {
        Ok(Outcome::Passed) => ExitCode::SUCCESS,
        Ok(Outcome::Failed) => ExitCode::from(1),
        Err(error) => failed(&error),
    }
}

/// A multi-threaded runtime whose threads yield before they park: work that arrives meanwhile is found without the
/// cost of parking and waking. On two cores this gives 14 % more orders, and more than that on a cluster node
/// (`tidegate-bench --only embedded`, alternating runs: 75,700 orders/s without yields, 83,700 with one, 86,200 with
/// two). An idle server uses 0.8 % of a core instead of 0.7 %.
fn runtime() -> std::io::Result<Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.on_thread_park(|| (0..YIELDS).for_each(|_| std::thread::yield_now()));
    builder.enable_all().build()
}

fn failed(error: &anyhow::Error) -> ExitCode {
    eprintln!("tidegate: {error:#}");
    ExitCode::from(2)
}
