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
mod machine;
mod open_loop;
mod operator;
mod overload;
mod plan;
mod process;
mod report;
mod requests;
mod rounds;
mod row_lock;
mod servers;
mod tidegate;
mod verdict;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, ensure};
use clap::{Args, Parser, Subcommand};

use self::plan::{CANDIDATES, Candidate};
use self::report::Report;
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
    /// Where the figures are written, as JSON.
    #[arg(long, value_name = "FILE", default_value = "target/bench.json")]
    out: PathBuf,
}

/// The servers that this program can be, for itself.
#[derive(Debug, Subcommand)]
enum Command {
    #[command(hide = true)]
    Canned,
    #[command(hide = true)]
    Classic { redis: String },
    #[command(hide = true)]
    RowLock { database: String, connections: usize },
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match cli.command {
        None => return measured(&cli.measure),
        Some(Command::Canned) => canned::serve(),
        Some(Command::Classic { redis }) => serve(classic::serve(&redis)),
        Some(Command::RowLock { database, connections }) => serve(row_lock::serve(&database, connections)),
    };
    done.map_or_else(failed, |()| ExitCode::SUCCESS)
}

/// 1: a figure is not reached. 2: something did not work.
fn measured(args: &MeasureArgs) -> ExitCode {
    measure(args).map_or_else(failed, |reached| ExitCode::from(u8::from(!reached)))
}

fn failed(error: anyhow::Error) -> ExitCode {
    eprintln!("tidegate-bench: {error:#}");
    ExitCode::from(2)
}

fn serve(server: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(server)
}

/// Whether everything that was measured reaches its bound.
fn measure(args: &MeasureArgs) -> anyhow::Result<bool> {
    let candidates = chosen(&args.only)?;
    let beside = std::env::current_exe()?.with_file_name("tidegate");
    let program = args.server.clone().unwrap_or(beside);
    ensure!(program.exists(), "{} is missing: cargo build --release -p tidegate", program.display());
    let mut servers = Servers::new(program.canonicalize()?);
    let runs = rounds::run(&mut servers, &candidates, args.rounds)?;
    drop(servers);
    let report = Report { rounds: args.rounds, runs, ..Report::default() };
    let reached = report.print();
    std::fs::write(&args.out, serde_json::to_string_pretty(&report.json())? + "\n")
        .with_context(|| format!("writing {}", args.out.display()))?;
    Ok(reached)
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
