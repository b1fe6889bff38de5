//! The use cases. HTTP, workers and the command line call these and never each other.
//!
//! What always holds: every check that can refuse cheaply comes before one that costs; whatever was accepted is
//! in the journal; whatever changed an order's or a sale's state is in the ledger before anybody hears of it.

pub mod accounts;
pub mod audit;
mod book;
pub mod buyers;
pub mod campaigns;
pub mod challenges;
pub mod deliveries;
pub mod draws;
pub mod envelope;
pub mod events;
pub mod items;
mod merchant;
pub mod orders;
pub mod passes;
pub mod payments;
pub mod plays;
pub mod queue;
mod rates;
mod refusal;
pub mod sales;
mod seal;
pub mod sms;
pub mod watch;
pub mod webhooks;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use quick_cache::sync::Cache;
use tidegate_core::dealer::Hash;
use tidegate_core::public_id::{Public, PublicIds};
use tidegate_core::{
    CampaignId, Claim, ClaimId, IdSource, IdempotencyKey, Item, ItemId, Kind, Moment, UserId,
};
use tidegate_store::gate::Gate;
use tidegate_store::gate::memory::MemoryGate;
use tidegate_store::intake::Position;
use tidegate_store::intake::journal::Journal;
use tidegate_store::ledger::sqlite::{CodeLimits, SqliteLedger};
use tidegate_store::ledger::{Ledger, LedgerError, Recorded};
use tidegate_store::recorder;

use self::accounts::Passwords;
use self::book::Book;
use self::buyers::Sessions;
use self::challenges::Challenges;
use self::deliveries::{DeliveryRules, Lines};
pub use self::merchant::Merchant;
use self::payments::Provider;
use self::queue::Rooms;
use self::rates::Rates;
pub use self::refusal::Refusal;
use self::sms::Sms;
use self::watch::Watchers;
use self::webhooks::Coupons;
use crate::chance::Secret;
use crate::clock::Clock;
use crate::courier::Courier;
use crate::health::{Health, Part};
use crate::metrics::Metrics;

/// What the use cases are told by the configuration.
#[derive(Clone, Debug)]
pub struct Rules {
    pub test_tokens: bool,
    pub require_approval: bool,
    pub answer_within: Duration,
    pub max_streams: usize,
    pub reveal_codes: bool,
    pub code_limits: CodeLimits,
    pub hashing_at_once: usize,
    pub deliveries: DeliveryRules,
    /// Where coupons are asked for, if anywhere.
    pub coupons: Option<Coupons>,
}

/// The backends and what surrounds them, as `embedded` builds them.
#[derive(Debug)]
pub struct Parts {
    pub gate: Arc<MemoryGate>,
    pub journal: Arc<Journal>,
    pub ledger: Arc<SqliteLedger>,
    pub provider: Provider,
    pub sms: Sms,
    pub courier: Courier,
    pub merchant: Option<Merchant>,
    pub clock: Clock,
    pub health: Arc<Health>,
    pub metrics: Arc<Metrics>,
    pub rules: Rules,
    /// Claims that were told 202 and could not be kept after all.
    pub refused: Arc<Refused>,
    /// Keys the public ids and derived tokens.
    pub secret: Secret,
    pub admin_key_digest: Secret,
    /// New at every start: what was sealed before does not open any more.
    pub boot: Secret,
    /// The greatest id in use.
    pub highest_id: u64,
}

/// Everything the use cases work with.
#[derive(Debug)]
pub struct App {
    pub clock: Clock,
    pub health: Arc<Health>,
    pub metrics: Arc<Metrics>,
    pub watchers: Arc<Watchers>,
    pub(crate) rules: Rules,
    gate: Arc<MemoryGate>,
    journal: Arc<Journal>,
    ledger: Arc<SqliteLedger>,
    provider: Provider,
    sms: Sms,
    courier: Courier,
    /// How deliveries to each target are going.
    lines: Lines,
    merchant: Option<Merchant>,
    passwords: Passwords,
    ids: IdSource,
    public: PublicIds,
    secret: Secret,
    admin_key_digest: Secret,
    book: Book,
    /// Items at hand; whoever changes one puts it here.
    items: Cache<ItemId, Arc<Item>>,
    /// What published draws are bound to.
    commitments: Cache<CampaignId, Hash>,
    refused: Arc<Refused>,
    sessions: Sessions,
    challenges: Challenges,
    rates: Rates,
    rooms: Rooms,
    /// One buyer's orders are decided one after the other, so that a key is never used twice at once.
    turns: Vec<Mutex<()>>,
    /// Changes of campaigns happen one after the other.
    campaigns: tokio::sync::Mutex<()>,
    progress: tokio::sync::watch::Sender<Position>,
    closing: tokio::sync::watch::Sender<bool>,
}

/// Accepted claims that were not kept: found by their buyers as rejected orders.
pub type Refused = Cache<ClaimId, Arc<Claim>>;
pub const REFUSED_KEPT: usize = 10_000;
const CACHED_ITEMS: usize = 10_000;
const TURNS: usize = 256;
/// Log entries taken in at once.
const FOLLOW_BATCH: u32 = 1000;
/// Events that arrived are remembered this long.
const KEEP_DELIVERIES: Duration = Duration::from_secs(30 * 24 * 3600);
/// How long a change waits for its order to be recorded.
const RECORD_WAIT: Duration = Duration::from_secs(5);

impl App {
    pub fn new(parts: Parts) -> Arc<Self> {
        let recorded = parts.journal.recorded_through();
        let passwords = Passwords::new(parts.rules.hashing_at_once);
        Arc::new(Self {
            watchers: Arc::new(Watchers::new(parts.rules.max_streams)),
            clock: parts.clock,
            health: parts.health,
            metrics: parts.metrics,
            rules: parts.rules,
            gate: parts.gate,
            journal: parts.journal,
            ledger: parts.ledger,
            provider: parts.provider,
            sms: parts.sms,
            courier: parts.courier,
            lines: Lines::default(),
            merchant: parts.merchant,
            passwords,
            ids: IdSource::new(0, parts.highest_id),
            public: PublicIds::new(&parts.secret),
            secret: parts.secret,
            admin_key_digest: parts.admin_key_digest,
            book: Book::default(),
            items: Cache::new(CACHED_ITEMS),
            commitments: Cache::new(CACHED_ITEMS),
            refused: parts.refused,
            sessions: Sessions::default(),
            rates: Rates::default(),
            rooms: Rooms::default(),
            challenges: Challenges::new(&parts.secret, &parts.boot),
            turns: (0..TURNS).map(|_| Mutex::new(())).collect(),
            campaigns: tokio::sync::Mutex::new(()),
            progress: tokio::sync::watch::Sender::new(recorded),
            closing: tokio::sync::watch::Sender::new(false),
        })
    }

    /// Records the journal's tail, then rebuilds the gate from the ledger. After this the app is ready.
    pub async fn start(self: &Arc<Self>) -> Result<(), LedgerError> {
        tokio::spawn(recorder::run(
            self.journal.clone(),
            self.ledger.clone(),
            Recording(self.clone()),
            {
                let clock = self.clock.clone();
                move || clock.now()
            },
            self.progress.clone(),
        ));
        let end = self.journal.end();
        // The sender lives in `self`, so the channel cannot close.
        let _ = self.progress.subscribe().wait_for(|recorded| *recorded >= end).await;
        for campaign in self.ledger.running()? {
            // A new epoch: passes of the life before are worth nothing, and every claim of it is recorded by now.
            if let Some(seed) = self.ledger.reseed(campaign.id, self.now()).await? {
                let epoch = seed.epoch;
                self.gate.install(campaign.id, seed).await;
                self.book.enter(tidegate_core::Campaign { epoch, ..campaign });
            }
        }
        self.health.set(Part::Startup, None);
        Ok(())
    }

    /// Flushes the journal and records what it holds; then nothing is written any more.
    pub async fn stop(&self) {
        let end = self.journal.end();
        let recorded =
            async { self.progress.subscribe().wait_for(|recorded| *recorded >= end).await.is_ok() };
        if tokio::time::timeout(RECORD_WAIT, recorded).await.is_err() {
            tracing::warn!("not everything could be recorded; the journal keeps it for the next start");
        }
        let (journal, ledger) = (self.journal.clone(), self.ledger.clone());
        // Both wait for their threads; neither panics.
        let _ = tokio::task::spawn_blocking(move || {
            journal.close();
            ledger.close();
        })
        .await;
    }

    /// Says that the process is going to stop: not ready any more, streams end, workers rest.
    pub fn close(&self) {
        self.health.set(Part::Shutdown, Some("shutting down"));
        self.closing.send_replace(true);
    }

    /// Resolves once `close` was called.
    pub fn closed(&self) -> impl Future<Output = ()> + use<> {
        let mut closing = self.closing.subscribe();
        async move {
            // An error means the app is gone, which is as good as closed.
            let _ = closing.wait_for(|closing| *closing).await;
        }
    }

    pub fn now(&self) -> Moment {
        self.clock.now()
    }

    pub fn print<T: Public>(&self, id: T) -> String {
        id.print(&self.public)
    }

    pub fn parse<T: Public>(&self, text: &str) -> Option<T> {
        T::parse(text, &self.public)
    }

    fn next_id(&self, now: Moment) -> u64 {
        self.ids.next(now)
    }

    /// A digest of the key's text.
    pub fn key(text: &str) -> IdempotencyKey {
        IdempotencyKey(crate::chance::short_digest(&[b"key", text.as_bytes()]))
    }

    /// Ends what everybody may use on a demo server.
    pub async fn end_demo(&self) -> Result<(), LedgerError> {
        self.ledger.end_sessions("demo").await?;
        Ok(())
    }

    /// Lets the gate take in what the stock log has and it has not.
    pub async fn follow(&self, campaign: CampaignId) -> Result<(), LedgerError> {
        while let Some(figures) = self.gate.figures(campaign).await {
            let entries = self.ledger.stock_log(campaign, figures.applied, FOLLOW_BATCH).await?;
            if entries.is_empty() {
                return Ok(());
            }
            if self.gate.follow(campaign, &entries).await == Some(figures.applied) {
                // Somebody else took them in, or the pool was replaced; what is missing is found at the next look.
                return Ok(());
            }
        }
        Ok(())
    }

    /// Waits, within a bound, until everything up to `end` is recorded.
    async fn caught_up(&self, end: Position) -> Result<(), Refusal> {
        let mut progress = self.progress.subscribe();
        let caught_up =
            tokio::time::timeout(RECORD_WAIT, progress.wait_for(|recorded| *recorded >= end)).await;
        if caught_up.is_err() { Err(tidegate_core::Rejection::Busy.into()) } else { Ok(()) }
    }

    /// The gauges that are looked up when somebody asks.
    pub fn print_metrics(&self) -> String {
        use tidegate_store::intake::Intake;
        self.metrics.unrecorded.set(i64::try_from(self.journal.depth()).unwrap_or(i64::MAX));
        self.metrics.stock_left.clear();
        self.metrics.seats_left.clear();
        for campaign in self.book.all() {
            let left = i64::from(self.gate.left(campaign.id).unwrap_or(0));
            match campaign.kind {
                Kind::Sale(_) => {
                    let sale = crate::metrics::Sale { sale: self.print(campaign.id) };
                    self.metrics.stock_left.get_or_create(&sale).set(left);
                }
                Kind::Draw(_) => {
                    let draw = crate::metrics::Draw { draw: self.print(campaign.id.as_draw()) };
                    self.metrics.seats_left.get_or_create(&draw).set(left);
                }
            }
        }
        self.metrics.print()
    }

    /// Forgets what limits need not remember any more.
    pub(crate) fn tidy(&self) {
        self.rates.tidy();
        self.forget_challenges(self.now());
    }

    pub(crate) async fn probe_ledger(&self) -> Result<(), LedgerError> {
        self.ledger.probe().await
    }

    pub(crate) async fn forget_old(&self, now: Moment) -> Result<(), LedgerError> {
        self.ledger.forget_keys(now - Duration::from_secs(7 * 24 * 3600)).await?;
        self.ledger.forget_sessions(now).await?;
        self.ledger.forget_codes(now).await?;
        while self.ledger.forget_deliveries(now - KEEP_DELIVERIES).await? > 0 {}
        Ok(())
    }

    /// After this every claim that was being decided is in the journal.
    fn let_turns_pass(&self) {
        for turn in &self.turns {
            drop(turn.lock());
        }
    }

    fn turn(&self, user: UserId) -> parking_lot::MutexGuard<'_, ()> {
        let at = usize::try_from(user.raw() % TURNS as u64).unwrap_or(0);
        self.turns[at].lock()
    }
}

/// Hears from the recorder.
struct Recording(Arc<App>);

impl recorder::Listener for Recording {
    fn recorded(&self, claims: &[Arc<Claim>], outcomes: &[Recorded]) {
        for (claim, outcome) in claims.iter().zip(outcomes) {
            if let Recorded::Rejected(rejection) = outcome {
                tracing::warn!(
                    claim = claim.id.raw(),
                    reason = rejection.code(),
                    "an accepted claim could not be recorded"
                );
                self.0.metrics.order("rejected_by_ledger");
            }
            self.0.watchers.changed(claim.order());
        }
    }

    fn failing(&self, error: &LedgerError) {
        self.0.health.set(Part::Ledger, Some(&error.to_string()));
    }
}
