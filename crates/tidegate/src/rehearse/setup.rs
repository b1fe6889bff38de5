//! What a rehearsal needs on the server, and what the server's books say afterwards.

use std::time::Duration;

use anyhow::{Context, bail};
use hyper::Method;
use serde_json::{Value, json};

use super::RehearseArgs;
use crate::client::Client;
use crate::clock::Clock;

/// Tokens asked for in one call.
const TOKENS_AT_ONCE: u32 = 10_000;
const HOUR: Duration = Duration::from_secs(3600);

#[derive(Debug)]
pub(super) struct Rehearsal {
    pub(super) sale: String,
    pub(super) tokens: Vec<String>,
}

/// What the server says once everything has settled.
#[derive(Debug)]
pub(super) struct Books {
    pub(super) counters: Value,
    pub(super) audit: Value,
    pub(super) orders: Vec<Value>,
}

/// Enough passes that nobody honest goes without, and an admission that takes about ten seconds.
fn protect(args: &RehearseArgs) -> Value {
    if args.waiting_room {
        return json!({"admit_per_s": (args.buyers / 10).max(1), "pass_factor": 100});
    }
    if args.bots.is_some() {
        return json!({"challenge": "pow", "pow_difficulty": 2, "pass_factor": 100, "user_rate_per_s": 20});
    }
    json!({})
}

impl Rehearsal {
    /// Makes the item, the sale and the buyers, and publishes.
    pub(super) async fn set_up(operator: &mut Client, args: &RehearseArgs) -> anyhow::Result<Self> {
        let price = json!({"amount": 9900, "currency": "CNY"});
        let item = json!({"name": "Rehearsal", "price": price});
        let item = operator.expect(201, Method::POST, "/v1/admin/items", Some(&item)).await?;
        let now = Clock::System.now();
        let starts_at = if args.waiting_room { now + args.starts_in() } else { now - Duration::from_secs(5) };
        let sale = json!({
            "item_id": item["id"], "price": price, "stock": args.stock,
            "starts_at": starts_at.to_string(), "ends_at": (now + 24 * HOUR).to_string(),
            "per_user_limit": args.limit(), "pay_within_s": 24 * 3600, "protect": protect(args),
        });
        let sale = operator.expect(201, Method::POST, "/v1/admin/sales", Some(&sale)).await?;
        let id = sale["id"].as_str().context("the sale has no id")?.to_owned();
        let mut tokens = Vec::new();
        while tokens.len() < args.buyers as usize {
            let missing = args.buyers - u32::try_from(tokens.len())?;
            let count = json!({"count": missing.min(TOKENS_AT_ONCE)});
            let minted = operator.expect(201, Method::POST, "/v1/admin/tokens", Some(&count)).await?;
            let minted = minted["tokens"].as_array().context("no tokens in the answer")?;
            tokens.extend(minted.iter().filter_map(|token| token.as_str().map(str::to_owned)));
        }
        operator.expect(200, Method::POST, &format!("/v1/admin/sales/{id}/publish"), None).await?;
        Ok(Self { sale: id, tokens })
    }

    /// Waits until everything is recorded, then reads the books.
    pub(super) async fn settle(&self, operator: &mut Client, within: Duration) -> anyhow::Result<Books> {
        let path = format!("/v1/admin/sales/{}", self.sale);
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
        Ok(Books { counters, audit, orders: self.orders(operator).await? })
    }

    async fn orders(&self, operator: &mut Client) -> anyhow::Result<Vec<Value>> {
        let mut orders = Vec::new();
        let mut cursor = String::new();
        loop {
            let path = format!("/v1/admin/orders?sale_id={}&limit=1000{cursor}", self.sale);
            let page = operator.expect(200, Method::GET, &path, None).await?;
            orders.extend(page["data"].as_array().context("no orders in the answer")?.iter().cloned());
            match page["next"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return Ok(orders),
            }
        }
    }
}
