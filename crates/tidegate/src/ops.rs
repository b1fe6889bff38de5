//! The use cases. HTTP, workers and the command line call these and never each other.
//!
//! What always holds: every check that can refuse cheaply comes before one that costs; whatever was accepted is
//! in the intake; whatever changed an order's or a sale's state is in the ledger before anybody hears of it.

pub mod accounts;
pub mod audit;
mod book;
pub mod buyers;
pub mod campaigns;
pub mod challenges;
pub mod cluster;
pub mod deliveries;
pub mod draws;
pub mod envelope;
pub mod events;
pub mod items;
pub mod live;
mod merchant;
pub mod nodes;
pub mod operators;
pub mod orders;
pub mod passes;
pub mod payments;
pub mod plays;
pub mod preflight;
pub mod queue;
mod rates;
mod recording;
mod refusal;
pub mod sales;
mod seal;
pub mod sms;
mod turns;
pub mod watch;
pub mod webhooks;
pub mod window;

use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use quick_cache::sync::Cache;
use tidegate_core::dealer::Hash;
use tidegate_core::public_id::{Public, PublicIds, PublicText};
use tidegate_core::{
    Campaign, CampaignId, Claim, ClaimId, IdSource, IdempotencyKey, Item, ItemId, Kind, Moment, Rejection,
};
use tidegate_store::admission::Admission;
use tidegate_store::gate::GateError;
use tidegate_store::ledger::sql::{CodeLimits, SqlLedger};
use tidegate_store::ledger::{Ledger, LedgerError};
use tokio::sync::Mutex;

use self::accounts::Passwords;
use self::book::Book;
use self::buyers::Sessions;
use self::challenges::Challenges;
use self::cluster::Duties;
pub use self::cluster::Node;
use self::deliveries::{DeliveryRules, Lines};
use self::live::Live;
pub use self::merchant::Merchant;
use self::operators::Operators;
use self::payments::Provider;
use self::queue::Rooms;
use self::recording::Recording;
pub use self::refusal::Refusal;
use self::sms::Sms;
use self::turns::Turns;
use self::watch::Watchers;
use self::webhooks::Coupons;
use self::window::Dressed;
use crate::buckets::Buckets;
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
    pub admission: Arc<Admission>,
    pub ledger: Arc<SqlLedger>,
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
    /// Where there is one process, new at every start: what was sealed before does not open any more.
    pub boot: Secret,
    pub node: Node,
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
    admission: Arc<Admission>,
    ledger: Arc<SqlLedger>,
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
    operators: Operators,
    challenges: Challenges,
    rates: Buckets,
    rooms: Rooms,
    window: Dressed,
    live: Live,
    turns: Turns,
    /// Changes of campaigns happen one after the other.
    campaigns: Mutex<()>,
    node: Node,
    started_at: Moment,
    duties: Duties,
    /// By how many units gate and ledger differed at the last look.
    differed: parking_lot::Mutex<HashMap<CampaignId, i64>>,
    closing: tokio::sync::watch::Sender<bool>,
}

/// Accepted claims that were not kept: found by their buyers as rejected orders.
pub type Refused = Cache<ClaimId, Arc<Claim>>;
pub const REFUSED_KEPT: usize = 10_000;
const CACHED_ITEMS: usize = 10_000;
/// Log entries taken in at once.
const FOLLOW_BATCH: u32 = 1000;
/// Events that arrived are remembered this long.
const KEEP_DELIVERIES: Duration = Duration::from_secs(30 * 24 * 3600);
/// How long a change waits for its order to be recorded.
const RECORD_WAIT: Duration = Duration::from_secs(5);
/// How long a gate that does not answer is left alone at the start.
const GATE_RETRY: Duration = Duration::from_millis(300);

impl App {
    pub fn new(parts: Parts) -> Arc<Self> {
        let passwords = Passwords::new(parts.rules.hashing_at_once);
        Arc::new(Self {
            watchers: Arc::new(Watchers::new(parts.rules.max_streams)),
            started_at: parts.clock.now(),
            clock: parts.clock,
            health: parts.health,
            metrics: parts.metrics,
            rules: parts.rules,
            admission: parts.admission,
            ledger: parts.ledger,
            provider: parts.provider,
            sms: parts.sms,
            courier: parts.courier,
            lines: Lines::default(),
            merchant: parts.merchant,
            operators: Operators::new(&passwords),
            passwords,
            ids: IdSource::new(parts.node.number, parts.highest_id),
            node: parts.node,
            duties: Duties::default(),
            differed: parking_lot::Mutex::default(),
            public: PublicIds::new(&parts.secret),
            secret: parts.secret,
            admin_key_digest: parts.admin_key_digest,
            book: Book::default(),
            items: Cache::new(CACHED_ITEMS),
            commitments: Cache::new(CACHED_ITEMS),
            refused: parts.refused,
            sessions: Sessions::default(),
            rates: Buckets::default(),
            rooms: Rooms::default(),
            window: Dressed::default(),
            live: Live::default(),
            challenges: Challenges::new(&parts.secret, &parts.boot),
            turns: Turns::default(),
            campaigns: Mutex::new(()),
            closing: tokio::sync::watch::Sender::new(false),
        })
    }

    /// Records what was left from before, then rebuilds the gate from the ledger. After this the app is ready.
    pub async fn start(self: &Arc<Self>) -> Result<(), LedgerError> {
        let clock = self.clock.clone();
        let (listener, now) = (Arc::new(Recording(Arc::downgrade(self))), Arc::new(move || clock.now()));
        self.admission.start(self.ledger.clone(), listener, now).await;
        if self.admission.cluster().is_some() {
            // Whatever the gate has is taken as it is; what it lacks is mended.
            self.follow_all().await?;
            self.health.set(Part::Startup, None);
            return Ok(());
        }
        for campaign in self.ledger.running().await? {
            while let Err(error) = self.revive(&campaign).await? {
                tracing::warn!(%error, "the gate could not be rebuilt yet");
                tokio::time::sleep(GATE_RETRY).await;
            }
        }
        self.health.set(Part::Startup, None);
        Ok(())
    }

    /// A new epoch: passes of the life before are worth nothing, and every claim of it is recorded by now.
    async fn revive(&self, campaign: &Campaign) -> Result<Result<(), GateError>, LedgerError> {
        let Some(seed) = self.ledger.reseed(campaign.id, self.now()).await? else { return Ok(Ok(())) };
        let epoch = seed.epoch;
        let installed = self.admission.install(campaign.id, seed).await;
        if installed.is_ok() {
            self.book.enter(Campaign { epoch, ..campaign.clone() });
        }
        Ok(installed)
    }

    /// Records what it can, and what it cannot stays in the intake; then nothing is written any more.
    pub async fn stop(&self) {
        self.admission.stop(RECORD_WAIT).await;
        // Others need not wait until they end. If it fails they do.
        let _ = self.ledger.drop_leases(self.node.name.clone()).await;
        let ledger = self.ledger.clone();
        // It waits for its threads, and does not panic.
        let _ = tokio::task::spawn_blocking(move || ledger.close()).await;
    }

    /// Says that the process is going to stop: not ready any more, streams end, workers rest.
    pub fn close(&self) {
        self.health.set(Part::Shutdown, Some("shutting down"));
        self.closing.send_replace(true);
    }

    /// Changes once `close` was called.
    pub fn closing(&self) -> tokio::sync::watch::Receiver<bool> {
        self.closing.subscribe()
    }

    /// Resolves once `close` was called.
    pub fn closed(&self) -> impl Future<Output = ()> + use<> {
        let mut closing = self.closing.subscribe();
        async move {
            // An error means the app is gone, which is as good as closed.
            let _ = closing.wait_for(|closing| *closing).await;
        }
    }

    pub fn node(&self) -> &Node {
        &self.node
    }

    pub fn now(&self) -> Moment {
        self.clock.now()
    }

    pub fn print<T: Public>(&self, id: T) -> String {
        id.print(&self.public)
    }

    pub fn text<T: Public>(&self, id: T) -> PublicText {
        id.text(&self.public)
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

    /// Lets the gate take in what the stock log has and it has not; one that does not answer, at a later look.
    pub async fn follow(&self, campaign: CampaignId) -> Result<(), LedgerError> {
        while let Some(figures) = heard(self.admission.figures(campaign).await).flatten() {
            let entries = self.ledger.stock_log(campaign, figures.applied, FOLLOW_BATCH).await?;
            if entries.is_empty() {
                return Ok(());
            }
            let applied = heard(self.admission.follow(campaign, &entries).await);
            if applied.is_none_or(|applied| applied == Some(figures.applied)) {
                // Somebody else took them in, or the pool was replaced; what is missing is found at the next look.
                return Ok(());
            }
        }
        Ok(())
    }

    /// Waits, within a bound, until every claim that is durable now is recorded.
    async fn caught_up(&self) -> Result<(), Refusal> {
        if self.admission.caught_up(RECORD_WAIT).await { Ok(()) } else { Err(Rejection::Busy.into()) }
    }

    /// The same for every claim that is accepted, durable or not.
    async fn drained(&self, campaign: CampaignId) -> Result<(), Refusal> {
        if self.admission.drained(campaign, RECORD_WAIT).await { Ok(()) } else { Err(Rejection::Busy.into()) }
    }

    /// The gauges that are looked up when somebody asks.
    pub fn print_metrics(&self) -> String {
        self.metrics.unrecorded.set(i64::try_from(self.admission.depth()).unwrap_or(i64::MAX));
        self.metrics.stock_left.clear();
        self.metrics.seats_left.clear();
        for campaign in self.book.all() {
            let left = i64::from(self.admission.left(campaign.id).unwrap_or(0));
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
        self.forget_challenges(self.now());
    }

    pub(crate) async fn probe_ledger(&self) -> Result<(), LedgerError> {
        self.ledger.probe().await
    }

    pub(crate) async fn forget_old(&self, now: Moment) -> Result<(), LedgerError> {
        self.ledger.forget_keys(now - Duration::from_secs(7 * 24 * 3600)).await?;
        self.ledger.forget_sessions(now).await?;
        self.ledger.forget_codes(now).await?;
        self.forget_operators(now).await?;
        while self.ledger.forget_deliveries(now - KEEP_DELIVERIES).await? > 0 {}
        Ok(())
    }
}

/// What the gate said, if it answered: whoever asks this way looks again soon.
fn heard<T>(answer: Result<T, GateError>) -> Option<T> {
    answer.inspect_err(|error| tracing::warn!(%error, "the gate is asked again later")).ok()
}
