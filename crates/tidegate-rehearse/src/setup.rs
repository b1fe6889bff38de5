//! Creates the campaign and the buyers of a rehearsal, and reads the server's records afterwards.

use std::time::Duration;

use anyhow::{Context, bail};
use hyper::Method;
use serde_json::{Value, json};
use tidegate_core::Moment;

use super::{RehearseArgs, draw};
use crate::client::Client;

/// Tokens requested in one call.
const TOKENS_AT_ONCE: u32 = 10_000;
const HOUR: Duration = Duration::from_secs(3600);

#[derive(Debug)]
pub(super) struct Rehearsal {
    /// `/sales/{id}` or `/draws/{id}`.
    pub(super) path: String,
    pub(super) draw: Option<PublishedDraw>,
    pub(super) tokens: Vec<String>,
}

/// The draw's id, and its commitment as published before the first play.
#[derive(Debug)]
pub(super) struct PublishedDraw {
    pub(super) id: String,
    pub(super) commitment: String,
}

/// The server's records, read once everything is recorded.
#[derive(Debug)]
pub(super) struct ServerRecords {
    pub(super) counters: Value,
    pub(super) audit: Value,
    pub(super) orders: Vec<Value>,
}

/// Creates buyers and returns their tokens.
async fn mint(operator: &mut Client, buyers: u32) -> anyhow::Result<Vec<String>> {
    let mut tokens = Vec::new();
    while tokens.len() < buyers as usize {
        let missing = buyers - u32::try_from(tokens.len())?;
        let count = json!({"count": missing.min(TOKENS_AT_ONCE)});
        let minted = operator.expect(201, Method::POST, "/v1/admin/tokens", Some(&count)).await?;
        let minted = minted["tokens"].as_array().context("no tokens in the response")?;
        tokens.extend(minted.iter().filter_map(|token| token.as_str().map(str::to_owned)));
    }
    Ok(tokens)
}

/// Protection settings: enough passes for every honest buyer, and a waiting room that admits all within about ten
/// seconds.
fn protect(args: &RehearseArgs) -> Value {
    if args.waiting_room {
        return json!({"admit_per_s": (args.buyers() / 10).max(1), "pass_factor": 100});
    }
    if args.bots.is_some() {
        return json!({"challenge": "pow", "pow_difficulty": 2, "pass_factor": 100, "user_rate_per_s": 20});
    }
    json!({})
}

impl Rehearsal {
    /// Creates the sale or draw and the buyers, then publishes the campaign.
    pub(super) async fn set_up(operator: &mut Client, args: &RehearseArgs) -> anyhow::Result<Self> {
        let now = now();
        let starts_at = if args.waiting_room { now + args.starts_in() } else { now - Duration::from_secs(5) };
        let (starts_at, ends_at) = (starts_at.to_string(), (now + 24 * HOUR).to_string());
        let (noun, created) = match &args.draw {
            Some(strategy) => {
                let terms = draw::terms(args, strategy, &starts_at, &ends_at);
                ("draws", operator.expect(201, Method::POST, "/v1/admin/draws", Some(&terms)).await?)
            }
            None => ("sales", Self::sale(operator, args, &starts_at, &ends_at).await?),
        };
        let id = created["id"].as_str().context("no id in the response")?.to_owned();
        let tokens = mint(operator, args.buyers()).await?;
        operator.expect(200, Method::POST, &format!("/v1/admin/{noun}/{id}/publish"), None).await?;
        let path = format!("/{noun}/{id}");
        let commitment = created["commitment"].as_str().unwrap_or("").to_owned();
        Ok(Self { path, draw: args.draw.as_ref().map(|_| PublishedDraw { id, commitment }), tokens })
    }

    async fn sale(
        operator: &mut Client,
        args: &RehearseArgs,
        starts_at: &str,
        ends_at: &str,
    ) -> anyhow::Result<Value> {
        let price = json!({"amount": 9900, "currency": "CNY"});
        let item = json!({"name": "Rehearsal", "price": price});
        let item = operator.expect(201, Method::POST, "/v1/admin/items", Some(&item)).await?;
        let sale = json!({
            "item_id": item["id"], "price": price, "stock": args.stock(), "starts_at": starts_at, "ends_at": ends_at,
            "shards": args.shards, "per_user_limit": args.limit(), "pay_within_s": 24 * 3600, "protect": protect(args),
        });
        operator.expect(201, Method::POST, "/v1/admin/sales", Some(&sale)).await
    }

    /// Waits until everything is recorded, then reads the server's records.
    pub(super) async fn settle(
        &self,
        operator: &mut Client,
        within: Duration,
    ) -> anyhow::Result<ServerRecords> {
        let path = format!("/v1/admin{}", self.path);
        let deadline = tokio::time::Instant::now() + within;
        let counters = loop {
            let sale = operator.expect(200, Method::GET, &path, None).await?;
            if sale["counters"]["queued"] == 0 {
                break sale["counters"].clone();
            }
            if tokio::time::Instant::now() > deadline {
                bail!("orders are still queued after {} s", within.as_secs());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        let audit = operator.expect(200, Method::GET, &format!("{path}/audit"), None).await?;
        Ok(ServerRecords { counters, audit, orders: self.orders(operator).await? })
    }

    /// All orders or plays of the campaign.
    async fn orders(&self, operator: &mut Client) -> anyhow::Result<Vec<Value>> {
        let mut orders = Vec::new();
        let mut cursor = String::new();
        loop {
            let of = match &self.draw {
                Some(draw) => format!("plays?draw_id={}", draw.id),
                None => format!("orders?sale_id={}", self.path.trim_start_matches("/sales/")),
            };
            let path = format!("/v1/admin/{of}&limit=1000{cursor}");
            let page = operator.expect(200, Method::GET, &path, None).await?;
            orders.extend(page["data"].as_array().context("no orders in the response")?.iter().cloned());
            match page["next"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return Ok(orders),
            }
        }
    }
}

/// The time by this machine's clock, which is assumed to be close to the server's.
#[expect(clippy::disallowed_methods, reason = "a rehearsal happens now")]
fn now() -> Moment {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Moment::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
