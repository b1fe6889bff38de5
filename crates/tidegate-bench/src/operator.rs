//! The operators' side: makes what a run needs through the server's own API, one blocking call at a time.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::answer;
use crate::clock::from_now;
use crate::requests::ORDER;

pub(crate) const KEY: &str = "the key of the operators";
/// What the server mints in one call.
const TOKENS_AT_ONCE: usize = 100_000;
/// Longer than making a hundred thousand buyers takes.
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
        let answer = answer::parse(&bytes)?.with_context(|| format!("{line}: no whole answer"))?;
        Ok((answer.status, String::from_utf8(bytes[answer.body].to_vec())?))
    }

    fn ask(self, expect: u16, line: &str, body: &Value) -> anyhow::Result<Value> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let (status, said) = self.call(KEY, line, &body)?;
        ensure!(status == expect, "{line} was answered {status} instead of {expect}: {said}");
        Ok(serde_json::from_str(&said)?)
    }

    /// Makes one and gives its id.
    fn make(self, what: &str, terms: &Value) -> anyhow::Result<String> {
        let made = self.ask(201, &format!("POST /v1/admin/{what}"), terms)?;
        Ok(made["id"].as_str().context("what was made has no id")?.to_owned())
    }

    pub(crate) fn item(self) -> anyhow::Result<String> {
        self.make("items", &json!({"name": "Lantern", "price": {"amount": 9900, "currency": "CNY"}}))
    }

    /// A sale that runs: one unit for everybody, and every buyer's rate is counted.
    pub(crate) fn sale(self, stock: usize, pass: bool) -> anyhow::Result<String> {
        let sale = json!({
            "item_id": self.item()?, "price": {"amount": 9900, "currency": "CNY"}, "stock": stock,
            "starts_at": from_now(-5), "ends_at": from_now(DAY), "per_user_limit": 1, "pay_within_s": DAY,
            "protect": {"pass": pass, "user_rate_per_s": 5},
        });
        self.publish("sales", self.make("sales", &sale)?)
    }

    /// A draw that runs: one play for everybody, one in a hundred wins something.
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
        self.ask(200, &format!("POST /v1/admin/{noun}/{id}/publish"), &Value::Null)?;
        Ok(id)
    }

    pub(crate) fn close(self, sale: &str) -> anyhow::Result<()> {
        self.ask(200, &format!("POST /v1/admin/sales/{sale}/close"), &Value::Null)?;
        Ok(())
    }

    /// Fails unless every promise about a sale holds.
    pub(crate) fn audit(self, sale: &str) -> anyhow::Result<()> {
        let audit = self.ask(200, &format!("GET /v1/admin/sales/{sale}/audit"), &Value::Null)?;
        ensure!(audit["ok"] == true, "the audit of a sale found {audit}");
        Ok(())
    }

    pub(crate) fn is_ready(self) -> anyhow::Result<bool> {
        Ok(self.call(KEY, "GET /readyz", "")?.0 == 200)
    }

    /// A sale of a server that is not ours.
    pub(crate) fn rival_sale(self, id: usize, stock: usize) -> anyhow::Result<()> {
        let sale = json!({"id": id, "stock": stock}).to_string();
        let (status, said) = self.call(KEY, "POST /sales", &sale)?;
        ensure!(status == 201, "a sale was answered {status}: {said}");
        Ok(())
    }

    /// Somebody orders a unit.
    pub(crate) fn order(self, sale: &str, token: &str) -> anyhow::Result<()> {
        let (status, said) = self.call(token, &format!("POST /v1/sales/{sale}/orders"), ORDER)?;
        ensure!(status == 201, "an order was answered {status}: {said}");
        Ok(())
    }

    /// Buyers that nobody has seen before.
    pub(crate) fn tokens(self, count: usize) -> anyhow::Result<Vec<String>> {
        let mut tokens = Vec::with_capacity(count);
        while tokens.len() < count {
            let missing = (count - tokens.len()).min(TOKENS_AT_ONCE);
            let minted = self.ask(201, "POST /v1/admin/tokens", &json!({"count": missing}))?;
            let minted = minted["tokens"].as_array().context("no tokens")?;
            tokens.extend(minted.iter().filter_map(|token| token.as_str().map(str::to_owned)));
        }
        Ok(tokens)
    }

    /// Waits, within a bound, until everything that was accepted is recorded; how long that took.
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
