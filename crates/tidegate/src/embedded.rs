//! Builds the embedded backends from the configuration: the only place that knows which ones there are.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tidegate_core::Claim;
use tidegate_store::admission::Admission;
use tidegate_store::data_dir::DataDir;
use tidegate_store::gate::memory::MemoryGate;
use tidegate_store::intake::journal::disk::{Disk, RealDisk};
use tidegate_store::intake::journal::{self, Journal, JournalOptions, Written};
use tidegate_store::ledger::sql::{self, CodeLimits, SqlLedger, SqliteOptions};
use tidegate_store::ledger::{Ledger, LedgerError};

use crate::chance::{self, Secret, digest};
use crate::clock::Clock;
use crate::config::{Config, networks};
use crate::courier::{Courier, Going};
use crate::health::{Health, Part};
use crate::metrics::Metrics;
use crate::ops::deliveries::DeliveryRules;
use crate::ops::payments::{Provider, Sandbox};
use crate::ops::sms::Sms;
use crate::ops::webhooks::Coupons;
use crate::ops::{App, Merchant, Parts, REFUSED_KEPT, Refused, Rules};
use crate::signature::parse_secret;

/// The app, and what must live as long as it.
#[derive(Debug)]
pub struct Opened {
    pub app: Arc<App>,
    /// Set the first time only.
    pub new_admin_key: Option<String>,
    /// Nothing was ever written to this ledger.
    pub is_new: bool,
    _data_dir: DataDir,
}

/// Opens or creates everything in the data directory. The app still has to be started.
pub async fn open(config: &Config, clock: Clock) -> anyhow::Result<Opened> {
    open_on(config, clock, Box::new(RealDisk)).await
}

/// The same with the journal on a disk of the caller's.
pub async fn open_on(config: &Config, clock: Clock, disk: Box<dyn Disk>) -> anyhow::Result<Opened> {
    let data_dir = DataDir::lock(&config.data_dir)?;
    let (health, metrics) = (Arc::new(Health::starting()), Arc::new(Metrics::default()));
    let gate = Arc::new(MemoryGate::default());
    let refused = Arc::new(Refused::new(REFUSED_KEPT));
    let watch = Watch {
        health: health.clone(),
        metrics: metrics.clone(),
        gate: gate.clone(),
        refused: refused.clone(),
    };
    let ledger = Arc::new(SqlLedger::open(&ledger_options(config), Box::new(watch.clone()))?);
    let is_new = ledger.setting("secret").await?.is_none();
    let secret = kept(ledger.setting_or("secret", chance::secret()?.to_vec()).await?)?;
    let (admin_key_digest, new_admin_key) = admin_key(config, &ledger).await?;
    let options = JournalOptions {
        directory: config.data_dir.join("journal"),
        segment_bytes: u64::from(config.journal.segment_mb) << 20,
        max_unrecorded: config.journal.max_unrecorded,
    };
    let journal = Arc::new(Journal::open(options, ledger.position().await?, disk, Box::new(watch))?);
    let highest_id = ledger.highest_id().await?.max(journal.highest_order());
    let courier = Courier::new(&Going {
        allowed: networks(&config.deliveries.allow_networks).unwrap_or_default(),
        timeout: Duration::from_millis(config.deliveries.timeout_ms),
        ca_file: Some(&config.deliveries.ca_file).filter(|path| !path.is_empty()).map(Into::into),
    })?;
    let app = App::new(Parts {
        boot: chance::secret()?,
        sms: Sms::new(&config.sms, courier.clone()),
        courier,
        merchant: Merchant::new(&config.jwt, &secret)?,
        highest_id,
        provider: Provider::Sandbox(Sandbox {
            delay: Duration::from_millis(config.payment.sandbox_delay_ms),
        }),
        rules: Rules {
            test_tokens: config.test_tokens,
            require_approval: config.sales.require_approval,
            answer_within: Duration::from_millis(config.sales.answer_within_ms),
            max_streams: config.http.max_streams,
            reveal_codes: config.reveal_codes || config.wants_demo(),
            code_limits: CodeLimits {
                per_number: config.accounts.codes_per_number_per_day,
                per_address: config.accounts.codes_per_address_per_day,
            },
            hashing_at_once: config.accounts.hashing_at_once,
            deliveries: DeliveryRules {
                at_once: config.deliveries.at_once,
                timeout: Duration::from_millis(config.deliveries.timeout_ms),
                give_up_after: Duration::from_secs(config.deliveries.give_up_after_h * 3600),
            },
            coupons: parse_secret(&config.deliveries.coupon_secret)
                .map(|secret| Coupons { url: config.deliveries.coupon_url.clone(), secret }),
        },
        admission: Arc::new(Admission::embedded(gate, journal)),
        ledger,
        clock,
        health,
        metrics,
        refused,
        secret,
        admin_key_digest,
    });
    Ok(Opened { app, new_admin_key, is_new, _data_dir: data_dir })
}

pub fn ledger_options(config: &Config) -> SqliteOptions {
    SqliteOptions {
        path: sql::path_in(&config.data_dir),
        readers: config.ledger.readers,
        cache_mb: config.ledger.cache_mb,
        max_mb: Some(config.ledger.max_mb).filter(|max| *max > 0),
    }
}

/// The digest of the key in force, and the key itself if it was just made.
async fn admin_key(config: &Config, ledger: &SqlLedger) -> anyhow::Result<(Secret, Option<String>)> {
    if !config.admin_key.is_empty() {
        return Ok((digest(&[config.admin_key.as_bytes()]), None));
    }
    if let Some(stored) = ledger.setting("admin_key_digest").await? {
        return Ok((kept(stored)?, None));
    }
    let key = chance::token("ta_", &chance::secret()?);
    let digest = digest(&[key.as_bytes()]);
    ledger.setting_or("admin_key_digest", digest.to_vec()).await?;
    Ok((digest, Some(key)))
}

fn kept(bytes: Vec<u8>) -> anyhow::Result<Secret> {
    bytes.try_into().ok().context("a secret in the ledger does not have 32 bytes")
}

/// Watches the backends: health, metrics, and units that go back to the gate.
#[derive(Clone)]
struct Watch {
    health: Arc<Health>,
    metrics: Arc<Metrics>,
    gate: Arc<MemoryGate>,
    refused: Arc<Refused>,
}

impl journal::Observer for Watch {
    #[expect(clippy::cast_precision_loss, reason = "batches are small")]
    fn written(&self, written: Written) {
        self.metrics.journal_batch.observe(written.claims as f64);
        self.metrics.journal_seconds.observe(written.took.as_secs_f64());
    }

    fn refused(&self, claims: &[Arc<Claim>]) {
        for claim in claims {
            self.gate.forget(claim);
            self.refused.insert(claim.id, claim.clone());
        }
    }

    fn failed(&self, reason: &str) {
        let problem = format!("the journal failed and the process must be restarted: {reason}");
        self.health.set(Part::Journal, Some(&problem));
    }

    fn room(&self, problem: Option<&str>) {
        if problem.is_some() || !self.health.is_ready() {
            let problem = problem.map(|problem| format!("the journal has no room: {problem}"));
            self.health.set(Part::Journal, problem.as_deref());
        }
    }
}

impl sql::Observer for Watch {
    #[expect(clippy::cast_precision_loss, reason = "groups are small")]
    fn committed(&self, changes: usize, took: Duration) {
        self.metrics.ledger_batch.observe(changes as f64);
        self.metrics.ledger_seconds.observe(took.as_secs_f64());
    }

    fn trouble(&self, problem: Option<&LedgerError>) {
        if problem.is_some() || !self.health.is_ready() {
            self.health.set(Part::Ledger, problem.map(ToString::to_string).as_deref());
        }
    }
}
