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
mod rounds;
mod row_lock;
mod servers;
mod tidegate;
mod verdict;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail, ensure};
use clap::{Args, Parser, Subcommand};

use self::plan::{Candidate, SITTINGS};
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
    /// How often a candidate is measured; one that is far from its bound in a third of these rounds, one that has none
    /// in a sixth.
    #[arg(long, default_value_t = 17)]
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
    let wanted = Wanted::of(&args.only)?;
    let beside = std::env::current_exe()?.with_file_name("tidegate");
    let program = args.server.clone().unwrap_or(beside);
    ensure!(program.exists(), "{} is missing: make dist", program.display());
    let program = program.canonicalize()?;
    process::allow_many_connections()?;
    let mut report = Report { rounds: args.rounds, ..Report::default() };
    for candidates in &wanted.sittings {
        report.runs.extend(rounds::run(&mut Servers::new(program.clone()), candidates, args.rounds)?);
    }
    if wanted.memory {
        report.figures.push(("bytes_per_buyer", memory::measure(&program)?));
    }
    if wanted.history {
        report.figures.extend(history::measure(&program)?);
    }
    if wanted.instructions {
        report.instructions = instructions::measure(&program)?;
    }
    let reached = report.print();
    std::fs::write(&args.out, serde_json::to_string_pretty(&report.json())? + "\n")
        .with_context(|| format!("writing {}", args.out.display()))?;
    Ok(reached)
}

/// What is to be measured.
struct Wanted {
    sittings: Vec<Vec<Candidate>>,
    memory: bool,
    history: bool,
    instructions: bool,
}

/// What is measured besides candidates.
const OTHERS: [&str; 3] = ["memory", "history", "instructions"];

impl Wanted {
    /// Everything, if nothing is named.
    fn of(only: &[String]) -> anyhow::Result<Self> {
        let candidates = SITTINGS.iter().copied().flatten().map(|candidate| candidate.name);
        let known: Vec<&str> = candidates.chain(OTHERS).collect();
        if let Some(unknown) = only.iter().find(|name| !known.contains(&name.as_str())) {
            bail!("{unknown} cannot be measured; there are {}", known.join(", "));
        }
        let wants = |name: &str| only.is_empty() || only.iter().any(|wanted| wanted == name);
        let wanted = |sitting: &[Candidate]| sitting.iter().filter(|one| wants(one.name)).copied().collect();
        let [memory, history, instructions] = OTHERS.map(wants);
        Ok(Self { sittings: SITTINGS.map(wanted).into(), memory, history, instructions })
    }
}
