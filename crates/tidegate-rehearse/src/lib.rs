//! `tidegate rehearse`: a sale or a draw with virtual buyers against a real server, and a verdict on the promises.
//!
//! The verdict rests on two independent accounts: what the server's audit finds, and what every buyer was told.

/// Prints a line. Whoever read it may have gone, as `head` does: that ends nothing.
#[macro_export]
macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write;
        let _ = writeln!(std::io::stdout(), $($text)*);
    }};
}

mod bots;
pub mod client;
mod crowd;
mod draw;
mod load;
mod report;
pub mod server;
mod setup;
mod timeline;
mod verdict;
pub mod verify;

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
    /// A running server, or the nodes of a cluster with commas; without it one is started in a temporary directory.
    #[arg(long, value_name = "URL", env = "TIDEGATE_URL")]
    url: Option<String>,
    /// The admin key of the server at --url.
    #[arg(long, value_name = "KEY", env = "TIDEGATE_ADMIN_KEY", hide_env_values = true)]
    admin_key: Option<String>,
    /// Units for sale, or seats of a draw [default: 1000, or 100000 with --draw].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    stock: Option<u32>,
    /// How many people want one [default: 20000, or 25000 with --draw].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    buyers: Option<u32>,
    /// Connections they share.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    connections: u32,
    /// Units one buyer may have [default: 1], or plays one player may make [default: 4].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    per_user_limit: Option<u32>,
    /// Units in one order.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    quantity: u32,
    /// How often every buyer tries [default: 1, or three more than --per-user-limit where that is given].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100))]
    tries: Option<u32>,
    /// Arrivals per second, whether or not earlier ones were answered (an open loop). Without it every connection
    /// tries again as soon as it is answered (a closed loop).
    #[arg(long, value_name = "PER_SECOND", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    rate: Option<u32>,
    /// The share of visitors who are scripts that skip and replay steps and hammer, such as 0.9. The sale is then
    /// protected by a proof of work and passes.
    #[arg(long, value_name = "SHARE", value_parser = share, conflicts_with = "waiting_room")]
    bots: Option<f64>,
    /// Everybody comes before the start and waits to be let in.
    #[arg(long)]
    waiting_room: bool,
    /// A draw instead of a sale: `--draw=single`, `--draw=whole` (if not said) or `--draw=deck`.
    #[arg(long, value_name = "STRATEGY", num_args = 0..=1, require_equals = true, default_missing_value = "whole",
          value_parser = ["single", "whole", "deck"], conflicts_with_all = ["bots", "waiting_room", "quantity"])]
    draw: Option<String>,
    /// Over how many shards a cluster splits the stock.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    shards: u32,
    /// How long a buyer goes on asking, with the same key, while there is no clear answer. 0: takes the first answer.
    #[arg(long, value_name = "SECONDS", default_value_t = 3, value_parser = clap::value_parser!(u32).range(0..=600))]
    patience: u32,
    /// Print one line of JSON.
    #[arg(long)]
    json: bool,
    /// Also write the report as a page of its own: verdict, figures, refusals, and how attempts, latencies and orders
    /// went.
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
}

fn share(text: &str) -> Result<f64, String> {
    let share: f64 = text.parse().map_err(|_| "must be a number between 0 and 0.99".to_owned())?;
    if (0.0..=0.99).contains(&share) { Ok(share) } else { Err("must be between 0 and 0.99".into()) }
}

/// Until a sale with a waiting room starts: everybody has to have joined by then.
const STARTS_IN: Duration = Duration::from_secs(8);

impl RehearseArgs {
    fn bots_percent(&self) -> usize {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 99")]
        self.bots.map_or(0, |share| (share * 100.0).round() as usize)
    }

    /// Visitors who are not scripts.
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

/// Rehearses; whether everything held.
pub async fn run(args: RehearseArgs) -> anyhow::Result<bool> {
    if let Some(path) = &args.report {
        report::begin(path)?;
    }
    let (server, url, admin_key) = if let Some(url) = &args.url {
        let key = args.admin_key.clone().context("the server at --url needs its --admin-key")?;
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
    let (told, fairness) = if args.waiting_room {
        let (told, fairness) = crowd::fire(plan, args.starts_in()).await?;
        (told, Some(fairness))
    } else {
        (load::fire(plan).await?, None)
    };
    let books = rehearsal.settle(&mut operator, Duration::from_secs(60)).await?;
    let findings = match &rehearsal.draw {
        Some(drawn) => Some(draw::conclude(&mut operator, &drawn.id, &drawn.commitment, &told).await?),
        None => None,
    };
    let mut report = verdict::judge(&args, &told, &books, fairness, findings);
    if let Some(server) = server {
        report.server_stopped_cleanly(server.stop().await?);
    }
    if let (Some(path), Some(timeline)) = (&args.report, timeline) {
        report::write(path, &report, &timeline.lock())?;
    }
    if args.json {
        say!("{}", serde_json::to_string(&report)?);
    } else {
        report.print();
    }
    Ok(report.passed())
}

/// A key for a server of our own.
fn admin_key() -> anyhow::Result<String> {
    let mut bytes = [0; 32];
    #[expect(clippy::disallowed_methods, reason = "a key for a server of our own")]
    getrandom::fill(&mut bytes)
        .map_err(|error| anyhow::anyhow!("the system gives no random numbers: {error}"))?;
    Ok(bytes.iter().fold("ta_".to_owned(), |key, byte| key + &format!("{byte:02x}")))
}
