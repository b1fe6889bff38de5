//! `tidegate rehearse`: runs a sale or a draw with virtual buyers against a real server and checks the guarantees.
//!
//! The verdict compares two independent sources: the server's ledger and audit, and the responses that buyers received.

/// Prints a line to stdout. Unlike `println!` it does not panic if the pipe is closed, as by `head`.
#[macro_export]
macro_rules! print_line {
    ($($text:tt)*) => {{
        use std::io::Write;
        let _ = writeln!(std::io::stdout(), $($text)*);
    }};
}

mod bots;
pub mod client;
mod draw;
mod load;
mod report;
pub mod server;
mod setup;
mod timeline;
mod verdict;
pub mod verify;
mod waiting_room;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;

use self::load::Plan;
use self::server::Server;
use self::setup::Rehearsal;
use crate::client::Client;

#[derive(Clone, Debug, Args)]
pub struct RehearseArgs {
    /// URL of a running server, or of a cluster's nodes separated by commas [default: start a temporary server].
    #[arg(long, value_name = "URL", env = "TIDEGATE_URL")]
    url: Option<String>,
    /// Admin key of the server at --url.
    #[arg(long, value_name = "KEY", env = "TIDEGATE_ADMIN_KEY", hide_env_values = true)]
    admin_key: Option<String>,
    /// Units for sale, or seats of a draw [default: 1000, or 100000 with --draw].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    stock: Option<u32>,
    /// Number of buyers [default: 20000, or 25000 with --draw].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    buyers: Option<u32>,
    /// Number of connections that the buyers share.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    connections: u32,
    /// Units per buyer [default: 1], or plays per player with --draw [default: 4].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    per_user_limit: Option<u32>,
    /// Units per order.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    quantity: u32,
    /// Attempts per buyer [default: 1; three more than allowed with --per-user-limit, one more with --draw].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100))]
    tries: Option<u32>,
    /// Arrivals per second, independent of responses (open loop). Without it, each connection makes the next attempt as
    /// soon as the previous one is answered (closed loop).
    #[arg(long, value_name = "PER_SECOND", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    rate: Option<u32>,
    /// Share of visitors that are bots, such as 0.9: they skip steps, replay passes and send bursts. The sale is then
    /// protected by proof of work and passes.
    #[arg(long, value_name = "SHARE", value_parser = share, conflicts_with = "waiting_room")]
    bots: Option<f64>,
    /// Use a waiting room, which all buyers join before the start.
    #[arg(long)]
    waiting_room: bool,
    /// Rehearse a draw instead of a sale, with this strategy; `--draw` alone means `--draw=whole`.
    #[arg(long, value_name = "STRATEGY", num_args = 0..=1, require_equals = true, default_missing_value = "whole",
          value_parser = ["single", "whole", "deck"], conflicts_with_all = ["bots", "waiting_room", "quantity"])]
    draw: Option<String>,
    /// Number of shards of the stock in a cluster.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    shards: u32,
    /// How long a buyer retries, with the same idempotency key, until the outcome is definite. 0: no retries.
    #[arg(long, value_name = "SECONDS", default_value_t = 3, value_parser = clap::value_parser!(u32).range(0..=600))]
    patience: u32,
    /// Print the result as one line of JSON.
    #[arg(long)]
    json: bool,
    /// Also write a self-contained HTML report: verdict, figures, refusals, and charts of attempts, latency and orders.
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
}

fn share(text: &str) -> Result<f64, String> {
    let share: f64 = text.parse().map_err(|_| "must be a number between 0 and 0.99".to_owned())?;
    if (0.0..=0.99).contains(&share) { Ok(share) } else { Err("must be between 0 and 0.99".into()) }
}

/// Time until a sale with a waiting room starts; all buyers must have joined by then.
const STARTS_IN: Duration = Duration::from_secs(8);

impl RehearseArgs {
    fn bots_percent(&self) -> usize {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 99")]
        self.bots.map_or(0, |share| (share * 100.0).round() as usize)
    }

    /// Number of visitors that are not bots.
    fn honest(&self) -> u32 {
        let bots = self.bots_percent();
        let count = (0..self.buyers() as usize).filter(|buyer| buyer % 100 >= bots).count();
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    fn starts_in(&self) -> Duration {
        if self.waiting_room { STARTS_IN } else { Duration::ZERO }
    }

    fn stock(&self) -> u32 {
        self.stock.unwrap_or(if self.draw.is_some() { 100_000 } else { 1000 })
    }

    fn buyers(&self) -> u32 {
        self.buyers.unwrap_or(if self.draw.is_some() { 25_000 } else { 20_000 })
    }

    fn limit(&self) -> u32 {
        self.per_user_limit.unwrap_or(if self.draw.is_some() { 4 } else { 1 })
    }

    fn tries(&self) -> u32 {
        let beyond_the_limit = match (&self.draw, self.per_user_limit) {
            (Some(_), _) => self.limit() + 1,
            (None, Some(limit)) => (limit / self.quantity).max(1) + 3,
            (None, None) => 1,
        };
        self.tries.unwrap_or(beyond_the_limit)
    }
}

/// Runs the rehearsal; returns whether it passed.
pub async fn run(args: RehearseArgs) -> anyhow::Result<bool> {
    if let Some(path) = &args.report {
        report::check_writable(path)?;
    }
    let (server, url, admin_key) = if let Some(url) = &args.url {
        let key = args.admin_key.clone().context("--url requires --admin-key")?;
        (None, url.clone(), key)
    } else {
        let key = admin_key()?;
        let server = Server::start(&key, &[]).await?;
        let url = server.url().to_owned();
        (Some(server), url, key)
    };
    let mut operator = Client::new(&url, Some(&admin_key))?;
    let rehearsal = Rehearsal::set_up(&mut operator, &args).await?;
    let plan = Plan {
        url,
        path: rehearsal.path.clone(),
        draw: args.draw.is_some(),
        tokens: rehearsal.tokens.clone(),
        tries: args.tries(),
        quantity: args.quantity,
        connections: args.connections,
        rate: args.rate,
        bots_percent: args.bots_percent(),
        used_passes: Arc::default(),
        patience: Duration::from_secs(args.patience.into()),
        timeline: args.report.is_some().then(Arc::default),
    };
    let timeline = plan.timeline.clone();
    let (responses, fairness) = if args.waiting_room {
        let (responses, fairness) = waiting_room::run_buyers(plan, args.starts_in()).await?;
        (responses, Some(fairness))
    } else {
        (load::run_buyers(plan).await?, None)
    };
    let records = rehearsal.settle(&mut operator, Duration::from_secs(60)).await?;
    let draw_result = match &rehearsal.draw {
        Some(published) => Some(
            draw::close_and_check(&mut operator, &published.id, &published.commitment, &responses).await?,
        ),
        None => None,
    };
    let mut report = verdict::judge(&args, &responses, &records, fairness, draw_result);
    if let Some(server) = server {
        report.server_stopped_cleanly(server.stop().await?);
    }
    if let (Some(path), Some(timeline)) = (&args.report, timeline) {
        report::write(path, &report, &timeline.lock())?;
    }
    if args.json {
        print_line!("{}", serde_json::to_string(&report)?);
    } else {
        report.print();
    }
    Ok(report.passed())
}

/// A random admin key for the server that this rehearsal starts.
fn admin_key() -> anyhow::Result<String> {
    let mut bytes = [0; 32];
    #[expect(clippy::disallowed_methods, reason = "a key for a server of our own")]
    getrandom::fill(&mut bytes)
        .map_err(|error| anyhow::anyhow!("the operating system returned no random numbers: {error}"))?;
    Ok(bytes.iter().fold("ta_".to_owned(), |key, byte| key + &format!("{byte:02x}")))
}
