//! The command line.
//!
//! Exit codes: 0 ok, 1 the verdict is no, 2 wrong usage or configuration. Answers on stdout, logs on stderr.

mod audit;
mod config;
mod migrate;
mod serve;
mod verify;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use tokio::runtime::Runtime;

use crate::config::{Config, ConfigError, Sources, load};

/// A flash-sale and prize-draw engine: every unit sold exactly once, to the right people, fast; nothing lost whatever
/// crashes.
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
    /// Start the server. This is what happens without a command, too.
    Serve(serve::ServeArgs),
    /// Rehearse a sale or a draw with virtual buyers and judge it: nothing oversold, undersold or lost, limits kept.
    Rehearse(tidegate_rehearse::RehearseArgs),
    /// Check every promise against the ledger: in the data directory, or in the cluster's database with its gate.
    Audit(audit::AuditArgs),
    /// Check a draw's proof offline: what it was bound to, and every play.
    Verify(verify::VerifyArgs),
    /// Bring the ledger up to date: in the data directory, or in the cluster's database.
    Migrate(migrate::MigrateArgs),
    /// Check or show the configuration.
    Config(config::ConfigArgs),
}

/// Where settings come from, for every command that needs them.
#[derive(Clone, Debug, Default, Args)]
pub struct SettingsArgs {
    /// A configuration file.
    #[arg(long, value_name = "FILE", env = "TIDEGATE_CONFIG")]
    config: Option<PathBuf>,
    /// Where to listen.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Where the embedded parts keep their files.
    #[arg(long, value_name = "DIRECTORY")]
    data_dir: Option<String>,
    /// The cluster's database: postgres://…
    #[arg(long, value_name = "URL")]
    database_url: Option<String>,
    /// The cluster's Redis or Valkey: redis://…, several with commas.
    #[arg(long, value_name = "URL")]
    redis_url: Option<String>,
    /// Fill an empty ledger with demo data.
    #[arg(long, conflicts_with = "no_demo")]
    demo: bool,
    /// Do not.
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

/// How a command ended.
#[derive(Clone, Copy, Debug)]
pub enum Verdict {
    Yes,
    No,
}

impl From<bool> for Verdict {
    fn from(yes: bool) -> Self {
        if yes { Self::Yes } else { Self::No }
    }
}

/// How often a worker lets others run before it sleeps.
const YIELDS: usize = 2;

/// Runs the program.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let command = cli.command.unwrap_or(Command::Serve(cli.serve));
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error.into()),
    };
    let verdict = runtime.block_on(async {
        match command {
            Command::Serve(args) => serve::run(args).await,
            Command::Rehearse(args) => tidegate_rehearse::run(args).await.map(Verdict::from),
            Command::Audit(args) => audit::run(args).await,
            Command::Verify(args) => verify::run(args),
            Command::Migrate(args) => migrate::run(args).await,
            Command::Config(args) => config::run(args),
        }
    });
    // Threads that are still busy are not waited for: everything that matters is on disk.
    runtime.shutdown_background();
    match verdict {
        Ok(Verdict::Yes) => ExitCode::SUCCESS,
        Ok(Verdict::No) => ExitCode::from(1),
        Err(error) => failed(&error),
    }
}

/// Workers that let others run before they sleep: what those send meanwhile is found without falling asleep and being
/// woken, which costs a rush more than it saves. On two cores 14 % more orders, and more than that on a node of a
/// cluster (`tidegate-bench --only embedded`, in turns: 75,700 a second without, 83,700 with one, 86,200 with two). An
/// idle server needs 0.8 % of a core instead of 0.7 %.
fn runtime() -> std::io::Result<Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.on_thread_park(|| (0..YIELDS).for_each(|_| std::thread::yield_now()));
    builder.enable_all().build()
}

fn failed(error: &anyhow::Error) -> ExitCode {
    eprintln!("tidegate: {error:#}");
    ExitCode::from(2)
}
