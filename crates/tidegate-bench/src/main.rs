//! `make bench`: how fast the server is here, compared with its own ceiling and with the usual ways to build one.
//!
//! Every candidate is a process of its own, gets the same load over loopback, and takes turns with the others.

mod answer;
mod canned;
mod classic;
mod clock;
mod crowd;
mod figures;
mod generator;
mod operator;
mod plan;
mod process;
mod report;
mod requests;
mod rounds;
mod servers;
mod tidegate;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, ensure};
use clap::{Args, Parser, Subcommand};

use self::plan::{CANDIDATES, Candidate};
use self::servers::Servers;

/// What our program has, too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures the server against its own ceiling and against the usual ways to build one.
#[derive(Debug, Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    measure: MeasureArgs,
}

#[derive(Debug, Args)]
struct MeasureArgs {
    /// How often every candidate is measured.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Only these, with commas.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// The server's program [default: the one beside this].
    #[arg(long, value_name = "PATH")]
    server: Option<PathBuf>,
}

/// The servers that this program can be, for itself.
#[derive(Debug, Subcommand)]
enum Command {
    #[command(hide = true)]
    Canned,
    #[command(hide = true)]
    Classic { redis: String },
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match cli.command {
        None => measure(&cli.measure),
        Some(Command::Canned) => canned::serve(),
        Some(Command::Classic { redis }) => serve(classic::serve(&redis)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tidegate-bench: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn serve(server: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(server)
}

fn measure(args: &MeasureArgs) -> anyhow::Result<()> {
    let candidates = chosen(&args.only)?;
    let beside = std::env::current_exe()?.with_file_name("tidegate");
    let program = args.server.clone().unwrap_or(beside);
    ensure!(program.exists(), "{} is missing: cargo build --release -p tidegate", program.display());
    let program = program.canonicalize()?;
    let mut servers = Servers::new(program);
    let runs = rounds::run(&mut servers, &candidates, args.rounds)?;
    report::print(&runs, &candidates);
    Ok(())
}

fn chosen(only: &[String]) -> anyhow::Result<Vec<Candidate>> {
    if only.is_empty() {
        return Ok(CANDIDATES.to_vec());
    }
    let find = |name: &String| {
        let found = CANDIDATES.iter().find(|candidate| candidate.name == name).copied();
        found.with_context(|| {
            let known: Vec<&str> = CANDIDATES.iter().map(|candidate| candidate.name).collect();
            format!("{name} is no candidate; there are {}", known.join(", "))
        })
    };
    only.iter().map(find).collect()
}
