//! `tidegate rehearse`: a sale with virtual buyers against a real server, and a verdict on the promises.
//!
//! The verdict rests on two independent accounts: what the server's audit finds, and what every buyer was told.

pub mod client;
mod load;
pub mod server;
mod setup;
mod verdict;

use std::time::Duration;

use anyhow::Context;
use clap::Args;

use self::client::Client;
use self::load::Plan;
use self::server::Server;
use self::setup::Rehearsal;
use crate::chance;
use crate::cli::Verdict;

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
    /// Print one line of JSON.
    #[arg(long)]
    json: bool,
}

impl RehearseArgs {
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
    };
    let told = load::fire(plan).await?;
    let books = rehearsal.settle(&mut operator, Duration::from_secs(60)).await?;
    let mut report = verdict::judge(&args, &told, &books);
    if let Some(server) = server {
        report.server_stopped_cleanly(server.stop().await?);
    }
    if args.json {
        println!("{}", serde_json::to_string(&report)?);
    } else {
        report.print();
    }
    Ok(if report.passed() { Verdict::Yes } else { Verdict::No })
}
