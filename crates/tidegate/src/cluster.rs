//! Builds the backends of a cluster node from the configuration: Redis or Valkey, and PostgreSQL.
//!
//! A node keeps no state of its own. Its number, which is part of every id it generates, is leased from the database.

use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

use anyhow::{Context, bail};
use tidegate_admission::cluster::redis_link::Link;
use tidegate_admission::cluster::{Cluster, ClusterOptions};
use tidegate_admission::{Admission, News};
use tidegate_app::clock::Clock;
use tidegate_app::digest;
use tidegate_app::digest::keyed;
use tidegate_app::health::Health;
use tidegate_app::metrics::Metrics;
use tidegate_app::node::NUMBER_LEASE;
use tidegate_app::random;
use tidegate_app::{LOST_CLAIMS_REMEMBERED, LostClaims, Node};
use tidegate_ledger::{Observer, PostgresOptions, SqlLedger};
use tokio::sync::{Notify, mpsc};

use crate::config::Config;
use crate::embedded::OpenApp;
use crate::wiring;
use crate::wiring::{Backends, LedgerWatch};

/// Number of node numbers: ten bits of an id.
const NUMBERS: u32 = 1024;

/// The app, and the messages from other nodes.
#[derive(Debug)]
pub struct JoinedNode {
    pub opened: OpenApp,
    pub news: mpsc::UnboundedReceiver<News>,
}

pub fn ledger(config: &Config, observer: Arc<dyn Observer>) -> anyhow::Result<SqlLedger> {
    let options = PostgresOptions {
        url: config.database_url.clone(),
        readers: config.ledger.readers,
        writers: config.ledger.writers,
        insert_new: config.ledger.insert_new,
    };
    Ok(SqlLedger::postgres(options, observer)?)
}

/// Connects to PostgreSQL and Redis and leases a node number. May be retried after a failure.
pub async fn join(config: &Config) -> anyhow::Result<JoinedNode> {
    join_with_clock(config, Clock::Shared(Arc::new(AtomicI64::new(0)))).await
}

/// The same with a given clock.
pub async fn join_with_clock(config: &Config, clock: Clock) -> anyhow::Result<JoinedNode> {
    let (health, metrics) = (Arc::new(Health::starting()), Arc::new(Metrics::default()));
    let committed = Arc::new(Notify::new());
    let watch =
        LedgerWatch { health: health.clone(), metrics: metrics.clone(), committed: committed.clone() };
    let ledger = Arc::new(ledger(config, Arc::new(watch))?);
    ledger.migrate().await.context("PostgreSQL cannot be used")?;
    let here = clock.now();
    if let Some(there) = ledger.leases.database_time().await? {
        clock.synchronise(here, there, clock.now());
    }
    // Before the lease is taken, which a failure would leave behind.
    let redis = Link::open(&config.redis_url).await.context("Redis cannot be used")?;
    redis.check_version().await.context("Redis cannot be used")?;
    let (secret, is_new) = wiring::secret(&ledger).await?;
    let (admin_key_digest, new_admin_key) = wiring::admin_key(config, &ledger).await?;
    let name = digest::token("", &random::secret()?)[..12].to_owned();
    let millis = u32::try_from(NUMBER_LEASE.as_millis()).unwrap_or(u32::MAX);
    let Some(number) = ledger.leases.take_node_number(name.clone(), millis, NUMBERS).await? else {
        bail!("there are {NUMBERS} nodes already");
    };
    let node = Node { name, number: u16::try_from(number)? };
    let options = ClusterOptions {
        urls: config.redis_url.clone(),
        prefix: config.cluster.prefix.clone(),
        node: node.name.clone(),
        number: node.number,
        max_pending: config.cluster.max_unrecorded,
        batches: config.cluster.batches,
        answer_timeout: Duration::from_millis(config.sales.answer_within_ms),
        max_deferral: Duration::from_millis(config.ledger.defer_recording_ms),
    };
    let (cluster, news) = Cluster::new(redis, options);
    let highest_id = ledger.highest_id().await?;
    let app = wiring::assemble(
        config,
        Backends {
            admission: Arc::new(Admission::Cluster(cluster)),
            ledger,
            clock,
            health,
            metrics,
            committed,
            lost_claims: Arc::new(LostClaims::new(LOST_CLAIMS_REMEMBERED)),
            // The same on all nodes, so that each accepts the challenges that the others issued.
            challenge_secret: keyed(&secret, &[b"cluster"]),
            secret,
            admin_key_digest,
            highest_id,
            node,
        },
    )?;
    let opened = OpenApp { app, new_admin_key, is_new, _data_dir: None };
    Ok(JoinedNode { opened, news })
}
