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

/// The longest a worker sleeps when it waits for a moment: orders and sales made meanwhile may be due sooner.
const LONGEST_SLEEP: Duration = Duration::from_millis(250);
const FOLLOW_EVERY: Duration = Duration::from_millis(500);
const REFUNDS_EVERY: Duration = Duration::from_millis(500);
const DISPATCH_EVERY: Duration = Duration::from_millis(50);
const ADMIT_EVERY: Duration = Duration::from_millis(100);
const PROBE_EVERY: Duration = Duration::from_secs(1);
const HOUSEKEEPING_EVERY: Duration = Duration::from_secs(3600);
const RECONCILE_EVERY: Duration = Duration::from_secs(10);
const KEEP_NODE_EVERY: Duration = Duration::from_secs(5);
const LEASE_RETRY: Duration = Duration::from_secs(1);
const LOOK_AT_MOST: Duration = Duration::from_millis(50);
const NEWS_AT_ONCE: usize = 1000;
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// Starts all workers; they end when the app closes.
pub fn start(app: &Arc<App>) {
    // All nodes do these: a row that is due is taken by one of them.
    repeat(app, "expiry", expiry);
    repeat(app, "following the stock log", follow);
    repeat(app, "probing the ledger", probe);
    repeat(app, "sampling the figures", figures);
    repeat(app, "counting what comes back", expiring);
    // One node does these, and another within seconds if it dies.
    repeat_alone(app, "opening and closing", times);
    repeat_alone(app, "refunds", refunds);
    repeat_alone(app, "admission", admission);
    repeat_alone(app, "deliveries", deliveries);
    repeat_alone(app, "housekeeping", housekeeping);
    repeat_alone(app, "reconciling", reconcile);
}

/// Starts the workers of a cluster's node: they renew its number and follow up news from other nodes.
pub fn start_node(app: &Arc<App>, mut news: mpsc::UnboundedReceiver<News>) {
    repeat(app, "keeping the node's number", node);
    // Weak: the channel lives as long as the app, and must not keep it alive.
    let app = Arc::downgrade(app);
    tokio::spawn(async move {
        let mut told = Vec::new();
        while news.recv_many(&mut told, NEWS_AT_ONCE).await > 0 {
            let Some(app) = app.upgrade() else { return };
            // News of the same thing that came several times is followed up once.
            let mut seen = Vec::new();
            for one in told.drain(..).rev() {
                if !seen.contains(&one) {
                    seen.push(one);
                }
            }
            // The slowest come last.
            seen.sort_by_key(|one| matches!(one, News::Campaign(_) | News::MissedMessages));
            for one in seen {
                if let Err(error) = app.node.hear(one).await {
                    tracing::debug!(%error, "news could not be followed up; the next look does");
                }
            }
        }
    });
}

/// Like `repeat`, on the node that holds the worker's lease.
fn repeat_alone<F>(app: &Arc<App>, name: &'static str, work: impl Fn(Arc<App>) -> F + Clone + Send + 'static)
where
    F: Future<Output = Result<Duration, LedgerError>> + Send,
{
    repeat(app, name, move |app| {
        let work = work.clone();
        let working = work(app.clone());
        async move { if app.node.leads(name).await? { working.await } else { Ok(LEASE_RETRY) } }
    });
}

/// Does `work` again and again; it says how long to rest in between.
fn repeat<F>(app: &Arc<App>, name: &'static str, work: impl Fn(Arc<App>) -> F + Send + 'static)
where
    F: Future<Output = Result<Duration, LedgerError>> + Send,
{
    let app = app.clone();
    tokio::spawn(async move {
        let mut closed = std::pin::pin!(app.closed());
        loop {
            let round = AssertUnwindSafe(work(app.clone())).catch_unwind().await;
            let rest = round.unwrap_or_else(|_| Err(LedgerError::Unexpected("it panicked".into())));
            let rest = rest.unwrap_or_else(|error| {
                // Where the ledger is in trouble its health has said so.
                if app.health.problem(Part::Shutdown).is_none() && app.health.problem(Part::Ledger).is_none()
                {
                    tracing::error!(%error, worker = name, "a worker failed and will try again");
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

/// Unpaid orders end exactly at their deadline: sleeps until the next one, from the index.
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

async fn times(app: Arc<App>) -> Result<Duration, LedgerError> {
    let next = app.campaigns.keep_times().await?;
    Ok(next
        .map_or(LONGEST_SLEEP, |next| app.now().until(next))
        .clamp(Duration::from_millis(1), LONGEST_SLEEP))
}

/// Changes are followed at once by whoever makes them; this finds what was missed.
async fn follow(app: Arc<App>) -> Result<Duration, LedgerError> {
    app.node.follow_all().await?;
    // A gate that has forgotten something is looked at when it is noticed, though not without a rest.
    tokio::time::sleep(LOOK_AT_MOST).await;
    let _ = tokio::time::timeout(FOLLOW_EVERY, app.node.attention()).await;
    Ok(Duration::ZERO)
}

async fn node(app: Arc<App>) -> Result<Duration, LedgerError> {
    app.node.keep_node().await?;
    Ok(KEEP_NODE_EVERY)
}

/// Gate against ledger: what differs in two looks, with nothing on its way, is mended.
async fn reconcile(app: Arc<App>) -> Result<Duration, LedgerError> {
    app.auditing.reconcile().await?;
    Ok(RECONCILE_EVERY)
}

async fn admission(app: Arc<App>) -> Result<Duration, LedgerError> {
    app.waiting_rooms.admit_all().await?;
    Ok(ADMIT_EVERY)
}

async fn refunds(app: Arc<App>) -> Result<Duration, LedgerError> {
    let given = app.ordering.give_refunds().await?;
    Ok(if given == 0 { REFUNDS_EVERY } else { Duration::ZERO })
}

/// Prizes and events on their way; what stayed new is found here.
async fn deliveries(app: Arc<App>) -> Result<Duration, LedgerError> {
    Ok(if app.deliveries.dispatch().await? { Duration::ZERO } else { DISPATCH_EVERY })
}

/// While the ledger is in trouble and nobody writes, somebody has to find out when it works again. Also forgets what
/// limits need not remember.
async fn probe(app: Arc<App>) -> Result<Duration, LedgerError> {
    if app.health.problem(Part::Ledger).is_some() {
        app.housekeeping.probe_ledger().await?;
    }
    app.housekeeping.tidy();
    Ok(PROBE_EVERY)
}

/// Every second, at its beginning.
async fn figures(app: Arc<App>) -> Result<Duration, LedgerError> {
    app.live.sample_all().await
}

/// Apart from the figures: it waits for long reads of others, which must not keep samples from being taken.
async fn expiring(app: Arc<App>) -> Result<Duration, LedgerError> {
    app.live.count_expiring().await
}

async fn housekeeping(app: Arc<App>) -> Result<Duration, LedgerError> {
    app.housekeeping.forget_old(app.now()).await?;
    Ok(HOUSEKEEPING_EVERY)
}
