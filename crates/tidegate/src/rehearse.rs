//! `tidegate rehearse`: a sale with virtual buyers against a real server, and a verdict on the promises.
//!
//! The verdict rests on two independent accounts: what the server's audit finds, and what every buyer was told.

mod bots;
mod crowd;
mod load;
pub mod server;
mod setup;
mod verdict;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;

use self::load::Plan;
use self::server::Server;
use self::setup::Rehearsal;
use crate::chance;
use crate::cli::Verdict;
use crate::client::Client;

#[derive(Clone, Debug, Args)]
pub struct RehearseArgs {
    /// A running server; without it one is started in a temporary directory.
    #[arg(long, value_name = "URL", env = "TIDEGATE_URL")]
    url: Option<String>,
    /// The admin key of the server at --url.
    #[arg(long, value_name = "KEY", env = "TIDEGATE_ADMIN_KEY", hide_env_values = true)]
    admin_key: Option<String>,
    /// Units for sale.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    stock: u32,
    /// How many people want one.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    buyers: u32,
    /// Connections they share.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    connections: u32,
    /// Units one buyer may have [default: 1].
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
    /// Print one line of JSON.
    #[arg(long)]
    json: bool,
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
        let count = (0..self.buyers as usize).filter(|buyer| buyer % 100 >= bots).count();
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    fn starts_in(&self) -> Duration {
        if self.waiting_room { STARTS_IN } else { Duration::ZERO }
    }

    fn limit(&self) -> u32 {
        self.per_user_limit.unwrap_or(1)
    }

    fn tries(&self) -> u32 {
        self.tries
            .unwrap_or_else(|| self.per_user_limit.map_or(1, |limit| (limit / self.quantity).max(1) + 3))
    }
}

pub async fn run(args: RehearseArgs) -> anyhow::Result<Verdict> {
    let (server, url, admin_key) = if let Some(url) = &args.url {
        let key = args.admin_key.clone().context("the server at --url needs its --admin-key")?;
        (None, url.clone(), key)
    } else {
        let key = chance::token("ta_", &chance::secret()?);
        let server = Server::start(&key, &[]).await?;
        let url = server.url().to_owned();
        (Some(server), url, key)
    };
    let mut operator = Client::new(&url, Some(&admin_key))?;
    let rehearsal = Rehearsal::set_up(&mut operator, &args).await?;
    let plan = Plan {
        url,
        sale: rehearsal.sale.clone(),
        tokens: rehearsal.tokens.clone(),
        tries: args.tries(),
        quantity: args.quantity,
        connections: args.connections,
        rate: args.rate,
        bots_percent: args.bots_percent(),
        used_passes: Arc::default(),
    };
    let (told, fairness) = if args.waiting_room {
        let (told, fairness) = crowd::fire(plan, args.starts_in()).await?;
        (told, Some(fairness))
    } else {
        (load::fire(plan).await?, None)
    };
    let books = rehearsal.settle(&mut operator, Duration::from_secs(60)).await?;
    let mut report = verdict::judge(&args, &told, &books, fairness);
    if let Some(server) = server {
        report.server_stopped_cleanly(server.stop().await?);
    }
    if args.json {
        say!("{}", serde_json::to_string(&report)?);
    } else {
        report.print();
    }
    Ok(if report.passed() { Verdict::Yes } else { Verdict::No })
}
