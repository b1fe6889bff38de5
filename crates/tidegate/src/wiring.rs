//! Assembly of the app that embedded and cluster have in common.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tidegate_admission::Admission;
use tidegate_app::clock::Clock;
use tidegate_app::deliveries::DeliveryRules;
use tidegate_app::digest;
use tidegate_app::digest::{Secret, digest};
use tidegate_app::health::{Health, Part};
use tidegate_app::metrics::Metrics;
use tidegate_app::outbound_http::{OutboundHttp, OutboundSettings};
use tidegate_app::payments::{Provider, Sandbox};
use tidegate_app::random;
use tidegate_app::signature::parse_secret;
use tidegate_app::sms::Sms;
use tidegate_app::webhooks::Coupons;
use tidegate_app::{App, LostClaims, Merchant, Node, Parts, Rules};
use tidegate_ledger::LedgerError;
use tidegate_ledger::{CodeLimits, SqlLedger};
use tokio::sync::Notify;

use crate::config::{Config, networks};

/// Parts that differ between embedded and cluster.
pub(crate) struct Backends {
    pub(crate) admission: Arc<Admission>,
    pub(crate) ledger: Arc<SqlLedger>,
    pub(crate) clock: Clock,
    pub(crate) health: Arc<Health>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) lost_claims: Arc<LostClaims>,
    pub(crate) committed: Arc<Notify>,
    pub(crate) secret: Secret,
    pub(crate) challenge_secret: Secret,
    pub(crate) admin_key_digest: Secret,
    pub(crate) highest_id: u64,
    pub(crate) node: Node,
}

pub(crate) fn assemble(config: &Config, backends: Backends) -> anyhow::Result<Arc<App>> {
    let outbound = OutboundHttp::new(&OutboundSettings {
        allowed: networks(&config.deliveries.allow_networks).unwrap_or_default(),
        timeout: Duration::from_millis(config.deliveries.timeout_ms),
        ca_file: Some(&config.deliveries.ca_file).filter(|path| !path.is_empty()).map(Into::into),
    })?;
    let provider =
        Provider::Sandbox(Sandbox { delay: Duration::from_millis(config.payment.sandbox_delay_ms) });
    Ok(App::new(Parts {
        sms: Sms::new(&config.sms, outbound.clone()),
        outbound,
        merchant: Merchant::new(&config.jwt, &backends.secret)?,
        provider,
        rules: rules(config),
        challenge_secret: backends.challenge_secret,
        highest_id: backends.highest_id,
        node: backends.node,
        admission: backends.admission,
        ledger: backends.ledger,
        clock: backends.clock,
        health: backends.health,
        metrics: backends.metrics,
        lost_claims: backends.lost_claims,
        committed: backends.committed,
        secret: backends.secret,
        admin_key_digest: backends.admin_key_digest,
    }))
}

fn rules(config: &Config) -> Rules {
    Rules {
        test_tokens: config.test_tokens,
        require_approval: config.sales.require_approval,
        answer_within: Duration::from_millis(config.sales.answer_within_ms),
        max_in_flight: config.http.max_orders_in_flight,
        max_streams: config.http.max_streams,
        reveal_codes: config.reveal_codes || config.wants_demo(),
        code_limits: CodeLimits {
            per_number: config.accounts.codes_per_number_per_day,
            per_address: config.accounts.codes_per_address_per_day,
        },
        hashing_at_once: config.accounts.hashing_at_once,
        deliveries: DeliveryRules {
            at_once: config.deliveries.at_once,
            at_once_in_all: config.deliveries.at_once_in_all,
            timeout: Duration::from_millis(config.deliveries.timeout_ms),
            give_up_after: Duration::from_secs(config.deliveries.give_up_after_h * 3600),
        },
        coupons: parse_secret(&config.deliveries.coupon_secret)
            .map(|secret| Coupons { url: config.deliveries.coupon_url.clone(), secret }),
    }
}

/// The secret that keys ids and tokens, generated once per ledger; and whether this call generated it, that is, whether
/// the ledger is new.
pub(crate) async fn secret(ledger: &SqlLedger) -> anyhow::Result<(Secret, bool)> {
    let ours = random::secret()?;
    let in_force = stored_secret(ledger.settings.get_or_insert("secret", ours.to_vec()).await?)?;
    Ok((in_force, in_force == ours))
}

/// The digest of the effective admin key, and the key itself if this call generated it.
pub(crate) async fn admin_key(
    config: &Config,
    ledger: &SqlLedger,
) -> anyhow::Result<(Secret, Option<String>)> {
    if !config.admin_key.is_empty() {
        return Ok((digest(&[config.admin_key.as_bytes()]), None));
    }
    if let Some(stored) = ledger.settings.get("admin_key_digest").await? {
        return Ok((stored_secret(stored)?, None));
    }
    let key = digest::token("ta_", &random::secret()?);
    let ours = digest(&[key.as_bytes()]);
    let in_force = stored_secret(ledger.settings.get_or_insert("admin_key_digest", ours.to_vec()).await?)?;
    // Another node may have stored its key first.
    Ok((in_force, (in_force == ours).then_some(key)))
}

fn stored_secret(bytes: Vec<u8>) -> anyhow::Result<Secret> {
    bytes.try_into().ok().context("a secret in the ledger does not have 32 bytes")
}

/// Observes the ledger: updates health and metrics, and wakes those who wait for commits.
#[derive(Clone)]
pub(crate) struct LedgerWatch {
    pub(crate) health: Arc<Health>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) committed: Arc<Notify>,
}

impl tidegate_ledger::Observer for LedgerWatch {
    #[expect(clippy::cast_precision_loss, reason = "groups are small")]
    fn committed(&self, changes: usize, took: Duration) {
        self.metrics.ledger_batch.observe(changes as f64);
        self.metrics.ledger_seconds.observe(took.as_secs_f64());
        self.committed.notify_one();
    }

    fn trouble(&self, problem: Option<&LedgerError>) {
        if let Some(failure @ LedgerError::Failed(_)) = problem {
            self.health.fail(Part::Ledger, &failure.to_string());
        } else if problem.is_some() || !self.health.is_ready() {
            self.health.set(Part::Ledger, problem.map(ToString::to_string).as_deref());
        }
    }
}
