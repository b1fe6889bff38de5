//! `make bench`: measures the server against its own ceiling and against the usual designs.
//!
//! Every candidate runs in its own process and gets the same load over loopback; candidates are measured in turn.

mod classic;
mod clock;
mod compare;
mod connections;
mod constant_server;
mod figures;
mod generator;
mod history;
mod instructions;
mod machine;
mod memory;
mod open_loop;
mod operator;
mod overload;
mod plan;
mod process;
mod report;
mod requests;
mod response;
mod rounds;
mod row_lock;
mod servers;
mod tidegate;
mod verdict;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail, ensure};
use clap::{Args, Parser, Subcommand};

use self::plan::{Candidate, GROUPS};
use self::report::Report;
use self::servers::Servers;

// The same allocator as the server under test.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Benchmark: measure the server against its own ceiling and against the usual designs on Redis and PostgreSQL.
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
    /// Number of rounds. Candidates far from their bound run in a third of them, those without a bound in a sixth.
    #[arg(long, default_value_t = 17)]
    rounds: usize,
    /// Measure only these, separated by commas.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Server executable [default: tidegate next to this program].
    #[arg(long, value_name = "PATH")]
    server: Option<PathBuf>,
    /// Output file for the figures, as JSON.
    #[arg(long, value_name = "FILE", default_value = "target/bench.json")]
    out: PathBuf,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Compare two versions or settings of the server in pairs of runs.
    Compare(compare::CompareArgs),
    // Servers that this program starts as child processes.
    #[command(hide = true)]
    ConstantServer,
    #[command(hide = true)]
    Classic { redis: String },
    #[command(hide = true)]
    RowLock { database: String, connections: usize },
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match cli.command {
        None => return measured(&cli.measure),
        Some(Command::Compare(args)) => compare::run(&args),
        Some(Command::ConstantServer) => constant_server::serve(),
        Some(Command::Classic { redis }) => serve(classic::serve(&redis)),
        Some(Command::RowLock { database, connections }) => serve(row_lock::serve(&database, connections)),
    };
    done.map_or_else(failed, |()| ExitCode::SUCCESS)
}

/// Exit code 1: a bound is missed. Exit code 2: the measurement failed.
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

/// The server executable; by default `tidegate` next to this program.
fn server(path: Option<&PathBuf>) -> anyhow::Result<PathBuf> {
    let beside = std::env::current_exe()?.with_file_name("tidegate");
    let program = path.unwrap_or(&beside);
    ensure!(program.exists(), "{} does not exist; build it with `make dist`", program.display());
    Ok(program.canonicalize()?)
}

/// Runs the measurements; returns whether every figure reaches its bound.
fn measure(args: &MeasureArgs) -> anyhow::Result<bool> {
    let selection = Selection::of(&args.only)?;
    let program = server(args.server.as_ref())?;
    process::allow_many_connections()?;
    let mut report = Report { rounds: args.rounds, ..Report::default() };
    for candidates in &selection.groups {
        report.runs.extend(rounds::run(
            &mut Servers::new(program.clone(), Vec::new()),
            candidates,
            args.rounds,
        )?);
    }
    if selection.memory {
        report.figures.push(("bytes_per_buyer", memory::measure(&program)?));
    }
    if selection.history {
        report.figures.extend(history::measure(&program)?);
    }
    if selection.instructions {
        report.instructions = instructions::measure(&program)?;
    }
    let reached = report.print();
    std::fs::write(&args.out, serde_json::to_string_pretty(&report.json())? + "\n")
        .with_context(|| format!("writing {}", args.out.display()))?;
    Ok(reached)
}

/// The measurements selected by `--only`.
struct Selection {
    groups: Vec<Vec<Candidate>>,
    memory: bool,
    history: bool,
    instructions: bool,
}

/// Measurements besides candidates.
const OTHERS: [&str; 3] = ["memory", "history", "instructions"];

impl Selection {
    /// Selects everything if `only` is empty.
    fn of(only: &[String]) -> anyhow::Result<Self> {
        let candidates = GROUPS.iter().copied().flatten().map(|candidate| candidate.name);
        let known: Vec<&str> = candidates.chain(OTHERS).collect();
        if let Some(unknown) = only.iter().find(|name| !known.contains(&name.as_str())) {
            bail!("unknown measurement {unknown}; choose from {}", known.join(", "));
        }
        let is_selected = |name: &str| only.is_empty() || only.iter().any(|selected| selected == name);
        let selected =
            |group: &[Candidate]| group.iter().filter(|one| is_selected(one.name)).copied().collect();
        let [memory, history, instructions] = OTHERS.map(is_selected);
        Ok(Self { groups: GROUPS.map(selected).into(), memory, history, instructions })
    }
}
