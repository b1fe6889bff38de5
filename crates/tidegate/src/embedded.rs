//! Builds the embedded backends from the configuration: one process, all files in one directory.

use std::sync::Arc;
use std::time::Duration;

use tidegate_admission::Admission;
use tidegate_admission::embedded::continuity::{Comparison, JournalFound, journal_in};
use tidegate_admission::embedded::data_dir::DataDir;
use tidegate_admission::embedded::gate::MemoryGate;
use tidegate_admission::embedded::journal;
use tidegate_admission::embedded::journal::disk::{Disk, RealDisk};
use tidegate_admission::embedded::journal::{BatchWritten, Journal, JournalOptions};
use tidegate_app::clock::Clock;
use tidegate_app::health::{Health, Part};
use tidegate_app::metrics::Metrics;
use tidegate_app::random;
use tidegate_app::{App, LOST_CLAIMS_REMEMBERED, LostClaims, Node};
use tidegate_core::Claim;
use tidegate_ledger;
use tidegate_ledger::{Progress, SqlLedger, SqliteOptions};
use tokio::sync::Notify;

use crate::config::Config;
use crate::wiring;
use crate::wiring::{Backends, LedgerWatch};

/// The app, and the lock on its data directory.
#[derive(Debug)]
pub struct OpenApp {
    pub app: Arc<App>,
    /// The generated admin key; set only at the first start.
    pub new_admin_key: Option<String>,
    /// The ledger was created by this start.
    pub is_new: bool,
    pub(crate) _data_dir: Option<DataDir>,
}

/// Opens or creates everything in the data directory. The app still has to be started.
pub async fn open(config: &Config, clock: Clock) -> anyhow::Result<OpenApp> {
    open_with_disk(config, clock, Box::new(RealDisk)).await
}

/// The same with a given `Disk` for the journal.
pub async fn open_with_disk(config: &Config, clock: Clock, disk: Box<dyn Disk>) -> anyhow::Result<OpenApp> {
    let data_dir = DataDir::lock(&config.data_dir)?;
    let (health, metrics) = (Arc::new(Health::starting()), Arc::new(Metrics::default()));
    let committed = Arc::new(Notify::new());
    let gate = Arc::new(MemoryGate::default());
    let lost_claims = Arc::new(LostClaims::new(LOST_CLAIMS_REMEMBERED));
    let ledger_watch =
        LedgerWatch { health: health.clone(), metrics: metrics.clone(), committed: committed.clone() };
    let watch = JournalWatch {
        health: health.clone(),
        metrics: metrics.clone(),
        gate: gate.clone(),
        lost_claims: lost_claims.clone(),
    };
    let found = JournalFound::look(&config.data_dir)?;
    compare_before_opening(config, &found).await?;
    let ledger = Arc::new(SqlLedger::open(&ledger_options(config), Box::new(ledger_watch))?);
    data_dir.sync()?;
    refuse_losses(found.compare(ledger.progress().await?, ledger.has_journal().await?))?;
    let (secret, is_new) = wiring::secret(&ledger).await?;
    let (admin_key_digest, new_admin_key) = wiring::admin_key(config, &ledger).await?;
    let options = JournalOptions {
        directory: journal_in(&config.data_dir),
        segment_bytes: u64::from(config.journal.segment_mb) << 20,
        max_unrecorded: config.journal.max_unrecorded,
        answer_timeout: Duration::from_millis(config.sales.answer_within_ms),
        max_deferral: Duration::from_millis(config.ledger.defer_recording_ms),
    };
    let journal = Arc::new(Journal::open(options, ledger.claims.position().await?, disk, Box::new(watch))?);
    ledger.set_witness(journal.witness());
    if !ledger.has_journal().await? {
        // The first write puts the ledger's progress into the journal: from now on it exists.
        ledger.probe().await?;
        ledger.note_journal(true).await?;
    }
    let highest_id = ledger.highest_id().await?.max(journal.highest_order());
    let app = wiring::assemble(
        config,
        Backends {
            admission: Arc::new(Admission::embedded(gate, journal, config.sales.first_time_buyers)),
            ledger,
            clock,
            health,
            metrics,
            committed,
            lost_claims,
            secret,
            challenge_secret: random::secret()?,
            admin_key_digest,
            highest_id,
            node: Node::embedded(),
        },
    )?;
    Ok(OpenApp { app, new_admin_key, is_new, _data_dir: Some(data_dir) })
}

/// Compares journal and ledger without a write. Opening the ledger for writing drops what follows a damaged frame of
/// its log, and somebody may still want to read that.
async fn compare_before_opening(config: &Config, found: &JournalFound) -> anyhow::Result<()> {
    let options = ledger_options(config);
    if !options.path.exists() {
        return refuse_losses(found.compare(Progress::default(), false));
    }
    // A file that only a writer can open is compared once it is open.
    let Ok(ledger) = SqlLedger::open_read_only(&options) else { return Ok(()) };
    match (ledger.progress().await, ledger.has_journal().await) {
        (Ok(progress), Ok(must_exist)) => refuse_losses(found.compare(progress, must_exist)),
        _ => Ok(()),
    }
}

fn refuse_losses(compared: Comparison) -> anyhow::Result<()> {
    if let Some(loss) = compared.losses.into_iter().next() {
        return Err(loss.into());
    }
    if compared.recorded_again > 0 {
        let claims = compared.recorded_again;
        tracing::warn!(
            claims,
            "the ledger has lost recorded orders or plays; the journal has them all and they are \
                                recorded again"
        );
    }
    Ok(())
}

pub fn ledger_options(config: &Config) -> SqliteOptions {
    SqliteOptions {
        path: tidegate_ledger::path_in(&config.data_dir),
        readers: config.ledger.readers,
        cache_mb: config.ledger.cache_mb,
        max_mb: Some(config.ledger.max_mb).filter(|max| *max > 0),
    }
}

/// Observes the journal: updates health and metrics, and returns the units of refused claims to the gate.
struct JournalWatch {
    health: Arc<Health>,
    metrics: Arc<Metrics>,
    gate: Arc<MemoryGate>,
    lost_claims: Arc<LostClaims>,
}

impl journal::Observer for JournalWatch {
    #[expect(clippy::cast_precision_loss, reason = "batches are small")]
    fn written(&self, written: BatchWritten) {
        self.metrics.journal_batch.observe(written.claims as f64);
        self.metrics.journal_seconds.observe(written.took.as_secs_f64());
    }

    fn refused(&self, claims: &[Arc<Claim>]) {
        for claim in claims {
            self.gate.undo(claim);
            self.lost_claims.insert(claim.id, claim.clone());
        }
    }

    fn failed(&self, reason: &str) {
        let problem = format!("the journal failed and the process must be restarted: {reason}");
        self.health.fail(Part::Journal, &problem);
    }

    fn space(&self, problem: Option<&str>) {
        if problem.is_some() || !self.health.is_ready() {
            let problem = problem.map(|problem| format!("the journal has no room: {problem}"));
            self.health.set(Part::Journal, problem.as_deref());
        }
    }
}
