//! Configuration: compiled-in defaults, then a file, then the environment, then flags.
//!
//! Invariants: a key that is not in the defaults is rejected, with a suggestion; every value has a known origin.

mod layers;
mod show;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use ipnet::IpNet;
use serde::Deserialize;
use tidegate_app::merchant::JwtSettings;
use tidegate_app::signature::parse_secret;
use tidegate_app::sms::{SmsKind, SmsSettings};
use tidegate_app::webhooks::MAX_WEBHOOKS;

pub use self::layers::{ConfigError, Flags, Sources, load};
pub use self::show::{EffectiveSetting, show};

#[derive(Clone, Debug, Deserialize)]
pub struct Config {
    pub listen: SocketAddr,
    pub data_dir: PathBuf,
    pub admin_key: String,
    pub database_url: String,
    pub redis_url: String,
    pub test_tokens: bool,
    pub reveal_codes: bool,
    pub demo: Demo,
    pub http: Http,
    pub limits: Limits,
    pub journal: Journal,
    pub ledger: Ledger,
    pub cluster: Cluster,
    pub sales: Sales,
    pub deliveries: Deliveries,
    pub payment: Payment,
    pub accounts: Accounts,
    pub sms: SmsSettings,
    pub jwt: JwtSettings,
    pub log: Log,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Demo {
    Auto,
    On,
    Off,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Http {
    pub max_connections: usize,
    pub max_streams: usize,
    pub max_body_bytes: usize,
    pub max_draw_bytes: usize,
    pub header_timeout_ms: u64,
    pub body_timeout_ms: u64,
    pub write_timeout_ms: u64,
    pub drain_timeout_ms: u64,
    pub max_orders_in_flight: usize,
    pub fast_path: bool,
    pub hot_routes: bool,
    pub trusted_proxies: String,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Limits {
    pub per_address_per_s: u32,
    pub per_address_burst: u32,
    pub auth_per_address_per_min: u32,
    pub exempt: String,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Journal {
    pub segment_mb: u32,
    pub max_unrecorded: usize,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Ledger {
    pub readers: usize,
    pub writers: usize,
    pub cache_mb: u32,
    pub max_mb: u32,
    pub defer_recording_ms: u64,
    pub insert_new: bool,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Cluster {
    pub prefix: String,
    pub max_unrecorded: usize,
    pub batches: bool,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Sales {
    pub require_approval: bool,
    pub answer_within_ms: u64,
    pub first_time_buyers: bool,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Deliveries {
    pub allow_networks: String,
    pub timeout_ms: u64,
    pub at_once: usize,
    pub at_once_in_all: usize,
    pub give_up_after_h: u64,
    pub ca_file: String,
    pub coupon_url: String,
    pub coupon_secret: String,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Payment {
    pub sandbox_delay_ms: u64,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Accounts {
    pub codes_per_number_per_day: u32,
    pub codes_per_address_per_day: u32,
    pub hashing_at_once: usize,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Log {
    pub format: LogFormat,
    pub level: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    Pretty,
    Json,
}

impl Config {
    /// Whether to fill an empty ledger with demo data.
    pub fn wants_demo(&self) -> bool {
        match self.demo {
            Demo::On => true,
            Demo::Off => false,
            Demo::Auto => self.listen.ip().is_loopback() && !self.is_cluster(),
        }
    }

    /// Whether this process is a cluster node, on Redis and PostgreSQL.
    pub fn is_cluster(&self) -> bool {
        !self.database_url.is_empty()
    }

    /// Checks constraints that the types do not express.
    fn check(&self) -> Result<(), String> {
        let wrong = |key: &str, what: &str| Err(format!("{key} {what}"));
        if !self.admin_key.is_empty() && self.admin_key.len() < 16 {
            return wrong("admin_key", "must have at least 16 characters");
        }
        if self.database_url.is_empty() != self.redis_url.is_empty() {
            return wrong(
                "database_url and redis_url",
                "belong together: set both for a cluster, or neither to run embedded in this process",
            );
        }
        if !(1..=64).contains(&self.ledger.writers) {
            return wrong("ledger.writers", "must be between 1 and 64");
        }
        if self.cluster.prefix.contains(['{', '}', ' ']) {
            return wrong("cluster.prefix", "must not contain spaces, or braces, which mark Redis hash tags");
        }
        if !(1..=10_000_000).contains(&self.cluster.max_unrecorded) {
            return wrong("cluster.max_unrecorded", "must be between 1 and 10000000");
        }
        if !(1..=64).contains(&self.accounts.hashing_at_once) {
            return wrong("accounts.hashing_at_once", "must be between 1 and 64");
        }
        if self.sms.kind == SmsKind::Webhook
            && (!is_web_address(&self.sms.webhook_url) || self.sms.webhook_secret.len() < 16)
        {
            return wrong(
                "sms.webhook_url and sms.webhook_secret",
                "must be an http(s):// URL and a secret of at least 16 characters",
            );
        }
        let coupons = &self.deliveries;
        if !(coupons.coupon_url.is_empty() && coupons.coupon_secret.is_empty())
            && (!is_web_address(&coupons.coupon_url) || parse_secret(&coupons.coupon_secret).is_none())
        {
            return wrong(
                "deliveries.coupon_url and deliveries.coupon_secret",
                "must be an http(s):// URL, and whsec_ followed by 24 to 64 bytes in base64",
            );
        }
        if !(1..=1000).contains(&self.deliveries.at_once) || self.deliveries.timeout_ms == 0 {
            return wrong("deliveries", "must have at_once between 1 and 1000 and timeout_ms above 0");
        }
        // Each target has at least one.
        if !(MAX_WEBHOOKS + 1..=10_000).contains(&self.deliveries.at_once_in_all) {
            return wrong("deliveries.at_once_in_all", "must be between 101 and 10000");
        }
        for (key, list) in [
            ("http.trusted_proxies", &self.http.trusted_proxies),
            ("limits.exempt", &self.limits.exempt),
            ("deliveries.allow_networks", &self.deliveries.allow_networks),
        ] {
            if networks(list).is_none() {
                return wrong(key, "must be IP addresses or networks, separated by commas");
            }
        }
        if self.http.max_connections == 0 {
            return wrong("http.max_connections", "must be at least 1");
        }
        if !(1..=1024).contains(&self.journal.segment_mb) {
            return wrong("journal.segment_mb", "must be between 1 and 1024");
        }
        if !(1..=10_000_000).contains(&self.journal.max_unrecorded) {
            return wrong("journal.max_unrecorded", "must be between 1 and 10000000");
        }
        if self.ledger.defer_recording_ms > 60_000 {
            return wrong("ledger.defer_recording_ms", "must be between 0 and 60000");
        }
        if !(2..=64).contains(&self.ledger.readers) {
            return wrong("ledger.readers", "must be between 2 and 64");
        }
        Ok(())
    }
}

fn is_web_address(text: &str) -> bool {
    let uri = text.parse::<hyper::Uri>();
    uri.is_ok_and(|uri| matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some())
}

/// Parses a comma-separated list of addresses and networks; `None` if one of them is invalid.
pub(crate) fn networks(list: &str) -> Option<Vec<IpNet>> {
    let parts = list.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts.map(|part| part.parse().ok().or_else(|| part.parse::<IpAddr>().ok().map(IpNet::from))).collect()
}
