//! Background workers: expiry, opening and closing, following the stock log, refunds, deliveries, figures,
//! housekeeping.
//!
//! Invariants: a worker that fails logs it and tries again; none of them keeps state of its own.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tidegate_admission::News;
use tidegate_app::App;
use tidegate_app::health::Part;
use tidegate_ledger::LedgerError;
use tokio::sync::mpsc;

/// Upper bound for a sleep until the next deadline: orders and sales created meanwhile may be due sooner.
const LONGEST_SLEEP: Duration = Duration::from_millis(250);
const FOLLOW_EVERY: Duration = Duration::from_millis(500);
const REFUNDS_EVERY: Duration = Duration::from_millis(500);
/// Events of other nodes are found by looking.
const DISPATCH_EVERY: Duration = Duration::from_millis(50);
/// Rounds of the dispatcher are this far apart, so that each handles several events.
const DISPATCH_PAUSE: Duration = Duration::from_millis(10);
const ADMIT_EVERY: Duration = Duration::from_millis(100);
const PROBE_EVERY: Duration = Duration::from_secs(1);
const HOUSEKEEPING_EVERY: Duration = Duration::from_secs(3600);
const RECONCILE_EVERY: Duration = Duration::from_secs(10);
const CHECK_HISTORY_EVERY: Duration = Duration::from_millis(500);
const MISSING_UNITS_EVERY: Duration = Duration::from_millis(500);
const KEEP_NODE_EVERY: Duration = Duration::from_secs(5);
/// How often Redis and PostgreSQL are asked whether they answer, and how soon again if they do not.
const WATCH_EVERY: Duration = Duration::from_millis(250);
const WATCH_AGAIN: Duration = Duration::from_millis(50);
/// How soon the ledger is probed again, and the node's number renewed, while that fails.
const RECOVER_EVERY: Duration = Duration::from_millis(250);
const LEASE_RETRY: Duration = Duration::from_secs(1);
const MIN_FOLLOW_PAUSE: Duration = Duration::from_millis(50);
const NEWS_AT_ONCE: usize = 1000;
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// Starts all workers; they end when the app closes.
pub fn start(app: &Arc<App>) {
    // Run on every node; each due row is processed by one of them.
    repeat(app, "expiry", expiry);
    repeat(app, "following the stock log", follow);
    repeat(app, "probing the ledger", probe);
    repeat(app, "sampling the figures", figures);
    repeat(app, "counting expiring orders", count_expiring);
    // Run on the node that holds the lease; if it dies, another takes over within seconds.
    repeat_with_lease(app, "opening and closing", open_and_close);
    repeat_with_lease(app, "refunds", refunds);
    repeat_with_lease(app, "admission", admission);
    repeat_with_lease(app, "deliveries", deliveries);
    repeat_with_lease(app, "housekeeping", housekeeping);
    repeat_with_lease(app, "reconciling", reconcile);
    repeat_with_lease(app, "missing units", missing_units);
}

/// Starts the workers of a cluster node: watching its servers, renewing its number, and processing messages from other
/// nodes.
pub fn start_node(app: &Arc<App>, mut news: mpsc::UnboundedReceiver<News>) {
    repeat(app, "watching Redis", watch_gate);
    repeat(app, "watching PostgreSQL", watch_ledger);
    repeat(app, "checking PostgreSQL's history", check_history);
    repeat(app, "keeping the node's number", renew_node_number);
    // Weak: this task runs as long as the channel is open, and must not keep the app alive.
    let app = Arc::downgrade(app);
    tokio::spawn(async move {
        let mut told = Vec::new();
        while news.recv_many(&mut told, NEWS_AT_ONCE).await > 0 {
            let Some(app) = app.upgrade() else { return };
            // Deduplicated: repeated messages are processed once.
            let mut seen = Vec::new();
            for one in told.drain(..).rev() {
                if !seen.contains(&one) {
                    seen.push(one);
                }
            }
            // The slowest to process come last.
            seen.sort_by_key(|one| matches!(one, News::Campaign(_) | News::MissedMessages));
            for one in seen {
                if let Err(error) = app.node.handle_message(one).await {
                    tracing::debug!(%error, "failed to process a message from another node; a poll will catch up");
                }
            }
        }
    });
}

/// Like `repeat`, on the node that holds the worker's lease.
fn repeat_with_lease<F>(
    app: &Arc<App>,
    name: &'static str,
    work: impl Fn(Arc<App>) -> F + Clone + Send + 'static,
) where
    F: Future<Output = Result<Duration, LedgerError>> + Send,
{
    repeat(app, name, move |app| {
        let work = work.clone();
        let working = work(app.clone());
        async move { if app.node.holds_lease(name).await? { working.await } else { Ok(LEASE_RETRY) } }
    });
}

/// Runs `work` in a loop; it returns how long to sleep before the next run.
fn repeat<F>(app: &Arc<App>, name: &'static str, work: impl Fn(Arc<App>) -> F + Send + 'static)
where
    F: Future<Output = Result<Duration, LedgerError>> + Send,
{
    let app = app.clone();
    tokio::spawn(async move {
        let mut closed = std::pin::pin!(app.closed());
        loop {
            let round = AssertUnwindSafe(work(app.clone())).catch_unwind().await;
            let rest = round.unwrap_or_else(|_| Err(LedgerError::Unexpected("the worker panicked".into())));
            let rest = rest.unwrap_or_else(|error| {
                // Trouble with the ledger is already reported by its health state.
                let is_reported = [Part::Shutdown, Part::Ledger, Part::LedgerConnection]
                    .into_iter()
                    .any(|part| app.health.problem(part).is_some());
                if !is_reported {
                    tracing::error!(%error, worker = name, "a worker failed and will be retried");
                }
                AFTER_FAILURE
            });
            tokio::select! {
                () = tokio::time::sleep(rest) => {}
                () = &mut closed => return,
            }
        }
    });
}

/// Expires unpaid orders at their deadline: sleeps until the earliest deadline in the index.
async fn expiry(app: Arc<App>) -> Result<Duration, LedgerError> {
    let due = match app.ordering.next_deadline().await? {
        Some(deadline) => app.now().until(deadline),
        None => LONGEST_SLEEP,
    };
    if due.is_zero() {
        app.ordering.expire_due().await?;
        return Ok(Duration::ZERO);
    }
    Ok(due.min(LONGEST_SLEEP))
}

async fn open_and_close(app: Arc<App>) -> Result<Duration, LedgerError> {
    let next = app.campaigns.open_and_close_due().await?;
    Ok(next
        .map_or(LONGEST_SLEEP, |next| app.now().until(next))
        .clamp(Duration::from_millis(1), LONGEST_SLEEP))
}

/// Brings the gate up to date with the ledger. A change is applied at once where it is made; this poll finds the ones
/// that were missed.
async fn follow(app: Arc<App>) -> Result<Duration, LedgerError> {
    app.node.sync_all().await?;
    // A signal that a pool must be reconciled ends the wait early, but not before a minimum pause.
    tokio::time::sleep(MIN_FOLLOW_PAUSE).await;
    let _ = tokio::time::timeout(FOLLOW_EVERY, app.node.reconcile_requested()).await;
    Ok(Duration::ZERO)
}

async fn watch_gate(app: Arc<App>) -> Result<Duration, LedgerError> {
    Ok(if app.node.watch_gate().await { WATCH_EVERY } else { WATCH_AGAIN })
}

/// Notices a database that has lost committed changes.
async fn check_history(app: Arc<App>) -> Result<Duration, LedgerError> {
    app.node.check_history().await?;
    Ok(CHECK_HISTORY_EVERY)
}

async fn watch_ledger(app: Arc<App>) -> Result<Duration, LedgerError> {
    Ok(if app.node.watch_ledger().await { WATCH_EVERY } else { WATCH_AGAIN })
}

async fn renew_node_number(app: Arc<App>) -> Result<Duration, LedgerError> {
    Ok(if app.node.renew_number().await.is_ok() { KEEP_NODE_EVERY } else { RECOVER_EVERY })
}

/// Compares gate and ledger. A difference found twice, with nothing in transit, is repaired.
async fn reconcile(app: Arc<App>) -> Result<Duration, LedgerError> {
    app.auditing.reconcile().await?;
    Ok(RECONCILE_EVERY)
}

/// Puts units back on sale that nobody has, while the sale goes on.
async fn missing_units(app: Arc<App>) -> Result<Duration, LedgerError> {
    app.auditing.return_missing_units().await?;
    Ok(MISSING_UNITS_EVERY)
}

async fn admission(app: Arc<App>) -> Result<Duration, LedgerError> {
    app.waiting_rooms.admit_all().await?;
    Ok(ADMIT_EVERY)
}

async fn refunds(app: Arc<App>) -> Result<Duration, LedgerError> {
    let given = app.ordering.process_refunds().await?;
    Ok(if given == 0 { REFUNDS_EVERY } else { Duration::ZERO })
}

/// Grants prizes and sends events that are due; a commit or an answer of a receiver ends the wait.
async fn deliveries(app: Arc<App>) -> Result<Duration, LedgerError> {
    if !app.deliveries.dispatch().await? {
        app.deliveries.something_due(DISPATCH_EVERY).await;
    }
    Ok(DISPATCH_PAUSE)
}

/// While the ledger is in trouble, writes to it to detect its recovery, since there may be no other writes. Also drops
/// expired one-time values from memory.
async fn probe(app: Arc<App>) -> Result<Duration, LedgerError> {
    app.housekeeping.tidy();
    if app.health.problem(Part::Ledger).is_some() && app.housekeeping.probe_ledger().await.is_err() {
        return Ok(RECOVER_EVERY);
    }
    Ok(PROBE_EVERY)
}

/// Samples the live figures at the beginning of every second.
async fn figures(app: Arc<App>) -> Result<Duration, LedgerError> {
    app.live.sample_all().await
}

/// Separate from `figures`: it may wait behind long reads, which must not delay the samples.
async fn count_expiring(app: Arc<App>) -> Result<Duration, LedgerError> {
    app.live.count_expiring().await
}

async fn housekeeping(app: Arc<App>) -> Result<Duration, LedgerError> {
    app.housekeeping.forget_old(app.now()).await?;
    Ok(HOUSEKEEPING_EVERY)
}
