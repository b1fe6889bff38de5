//! Admin client: creates what a run needs through the server's API, with blocking calls.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::clock::from_now;
use crate::requests::ORDER;
use crate::response;

pub(crate) const KEY: &str = "the key of the operators";
/// Tokens that the server mints in one call.
const TOKENS_AT_ONCE: usize = 100_000;
/// Read timeout; longer than creating a hundred thousand buyers takes.
const ANSWER_WITHIN: Duration = Duration::from_secs(120);
const RECORDED_WITHIN: Duration = Duration::from_secs(60);
const DAY: i64 = 24 * 3600;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Operator(pub(crate) SocketAddr);

impl Operator {
    fn call(self, token: &str, line: &str, body: &str) -> anyhow::Result<(u16, String)> {
        let mut stream = TcpStream::connect(self.0)?;
        stream.set_read_timeout(Some(ANSWER_WITHIN))?;
        let length = body.len();
        write!(
            stream,
            "{line} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}",
            self.0
        )?;
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes)?;
        let response = response::parse(&bytes)?.with_context(|| format!("{line}: incomplete response"))?;
        Ok((response.status, String::from_utf8(bytes[response.body].to_vec())?))
    }

    fn request(self, expect: u16, line: &str, body: &Value) -> anyhow::Result<Value> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let (status, said) = self.call(KEY, line, &body)?;
        ensure!(status == expect, "{line}: status {status} instead of {expect}: {said}");
        Ok(serde_json::from_str(&said)?)
    }

    /// Creates a resource and returns its id.
    fn make(self, what: &str, terms: &Value) -> anyhow::Result<String> {
        let created = self.request(201, &format!("POST /v1/admin/{what}"), terms)?;
        Ok(created["id"].as_str().context("no id in the response")?.to_owned())
    }

    pub(crate) fn item(self) -> anyhow::Result<String> {
        self.make("items", &json!({"name": "Lantern", "price": {"amount": 9900, "currency": "CNY"}}))
    }

    /// Creates a running sale: one unit per buyer, with a rate limit per buyer.
    pub(crate) fn sale(self, stock: usize, pass: bool) -> anyhow::Result<String> {
        let sale = json!({
            "item_id": self.item()?, "price": {"amount": 9900, "currency": "CNY"}, "stock": stock,
            "starts_at": from_now(-5), "ends_at": from_now(DAY), "per_user_limit": 1, "pay_within_s": DAY,
            "protect": {"pass": pass, "user_rate_per_s": 5},
        });
        self.publish("sales", self.make("sales", &sale)?)
    }

    /// Creates a running draw: one play per player, one play in a hundred wins.
    pub(crate) fn draw(self, seats: usize) -> anyhow::Result<String> {
        let prize = json!({"name": "Lantern", "kind": "text", "content": "It is yours.", "odds": 10_000_000,
                           "stock": seats, "grant": "instant"});
        let draw = json!({
            "name": "Lanterns", "seats": seats, "starts_at": from_now(-5), "ends_at": from_now(DAY),
            "plays_per_user": 1, "strategy": "whole", "prizes": [prize], "protect": {"user_rate_per_s": 5},
        });
        self.publish("draws", self.make("draws", &draw)?)
    }

    fn publish(self, noun: &str, id: String) -> anyhow::Result<String> {
        self.request(200, &format!("POST /v1/admin/{noun}/{id}/publish"), &Value::Null)?;
        Ok(id)
    }

    pub(crate) fn close(self, sale: &str) -> anyhow::Result<()> {
        self.request(200, &format!("POST /v1/admin/sales/{sale}/close"), &Value::Null)?;
        Ok(())
    }

    /// Fails if the audit of the sale finds a violation.
    pub(crate) fn audit(self, sale: &str) -> anyhow::Result<()> {
        let audit = self.request(200, &format!("GET /v1/admin/sales/{sale}/audit"), &Value::Null)?;
        ensure!(audit["ok"] == true, "the audit of a sale found {audit}");
        Ok(())
    }

    pub(crate) fn is_ready(self) -> anyhow::Result<bool> {
        Ok(self.call(KEY, "GET /readyz", "")?.0 == 200)
    }

    /// Creates a sale on a competitor's server.
    pub(crate) fn competitor_sale(self, id: usize, stock: usize) -> anyhow::Result<()> {
        let sale = json!({"id": id, "stock": stock}).to_string();
        let (status, said) = self.call(KEY, "POST /sales", &sale)?;
        ensure!(status == 201, "creating a sale failed with status {status}: {said}");
        Ok(())
    }

    /// Places an order for one unit.
    pub(crate) fn order(self, sale: &str, token: &str) -> anyhow::Result<()> {
        let (status, said) = self.call(token, &format!("POST /v1/sales/{sale}/orders"), ORDER)?;
        ensure!(status == 201, "an order failed with status {status}: {said}");
        Ok(())
    }

    /// Creates buyers and returns their tokens.
    pub(crate) fn tokens(self, count: usize) -> anyhow::Result<Vec<String>> {
        let mut tokens = Vec::with_capacity(count);
        while tokens.len() < count {
            let missing = (count - tokens.len()).min(TOKENS_AT_ONCE);
            let minted = self.request(201, "POST /v1/admin/tokens", &json!({"count": missing}))?;
            let minted = minted["tokens"].as_array().context("no tokens")?;
            tokens.extend(minted.iter().filter_map(|token| token.as_str().map(str::to_owned)));
        }
        Ok(tokens)
    }

    /// Waits, up to a timeout, until all accepted claims are recorded; returns how long that took.
    pub(crate) fn settle(self) -> anyhow::Result<Duration> {
        let since = Instant::now();
        loop {
            let (_, metrics) = self.call(KEY, "GET /metrics", "")?;
            let waiting = metrics.lines().find_map(|line| line.strip_prefix("tidegate_unrecorded_claims "));
            if waiting.context("no tidegate_unrecorded_claims in /metrics")? == "0" {
                return Ok(since.elapsed());
            }
            ensure!(since.elapsed() < RECORDED_WITHIN, "claims were not recorded within {RECORDED_WITHIN:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
