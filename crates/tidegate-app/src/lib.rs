//! The use cases, as services that own only what they use. Called by HTTP handlers, workers and the command line.
//!
//! Invariants: cheap checks come before expensive ones; every accepted claim is in the intake; a change of an
//! order's or a campaign's state is in the ledger before it is announced. Services form layers: `Context`,
//! `CampaignDirectory` and `StockCounts` at the bottom, then `GateSync`, `Challenges`, `Meters` and `Passes`, then
//! the services that callers see. No service depends on one that calls it.

pub mod accounts;
pub mod audit;
pub mod buckets;
pub mod buyers;
pub mod campaigns;
pub mod catalogue;
pub mod challenges;
pub mod changes;
pub mod clock;
pub mod commitments;
pub mod context;
pub mod deliveries;
pub mod digest;
mod directory;
pub mod draws;
pub mod envelope;
pub mod events;
mod gate_sync;
pub mod health;
pub mod housekeeping;
pub mod ledger_history;
pub mod ledger_types;
pub mod live;
pub mod merchant;
pub mod metrics;
pub mod node;
pub mod operators;
pub mod order_watchers;
pub mod ordering;
pub mod outbound_http;
pub mod passes;
mod passwords;
pub mod payments;
pub mod plays;
pub mod preflight;
pub mod proofs;
pub mod random;
mod recording;
mod refusal;
mod running_campaigns;
pub mod sales;
mod seal;
mod sessions;
pub mod signature;
pub mod sms;
mod stock_counts;
pub mod storefront;
pub mod storefront_cache;
mod tables;
pub mod waiting_rooms;
pub mod webhooks;
mod wiring;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use quick_cache::sync::Cache;
use tidegate_admission::Admission;
use tidegate_core::public_id::{Public, PublicText};
use tidegate_core::{Campaign, Claim, ClaimId, Moment};
use tidegate_ledger::{LedgerError, SqlLedger};

use self::accounts::Accounts;
use self::audit::Auditing;
use self::campaigns::Campaigns;
use self::catalogue::Catalogue;
use self::challenges::Challenges;
use self::changes::Changes;
use self::clock::Clock;
use self::commitments::Commitments;
use self::context::Context;
use self::deliveries::Deliveries;
use self::events::EventLog;
use self::gate_sync::GateSync;
use self::health::{Health, Part};
use self::housekeeping::Housekeeping;
use self::live::{LiveFigures, Meters};
pub use self::merchant::Merchant;
use self::metrics::Metrics;
pub use self::node::Node;
use self::node::NodeDuties;
use self::operators::Operators;
use self::order_watchers::Watchers;
use self::ordering::Ordering;
use self::ordering::attempt::Attempts;
use self::passes::Passes;
use self::plays::Plays;
use self::preflight::Preflight;
use self::proofs::Proofs;
use self::recording::{RECORD_WAIT, RecordingListener};
pub use self::refusal::Refusal;
use self::storefront::Storefront;
use self::waiting_rooms::WaitingRooms;
use self::webhooks::Webhooks;
pub use self::wiring::{Parts, Rules};

/// Claims that were answered 202 but could not be made durable; their buyers see them as rejected.
pub type LostClaims = Cache<ClaimId, Arc<Claim>>;
pub const LOST_CLAIMS_REMEMBERED: usize = 10_000;

/// The services of one process.
#[derive(Debug)]
pub struct App {
    pub clock: Clock,
    pub health: Arc<Health>,
    pub metrics: Arc<Metrics>,
    pub context: Arc<Context>,
    pub watchers: Arc<Watchers>,
    pub changes: Arc<Changes>,
    pub catalogue: Arc<Catalogue>,
    pub campaigns: Campaigns,
    pub storefront: Storefront,
    pub commitments: Arc<Commitments>,
    pub proofs: Proofs,
    pub preflight: Preflight,
    pub attempts: Attempts,
    pub ordering: Ordering,
    pub plays: Plays,
    pub challenges: Arc<Challenges>,
    pub passes: Arc<Passes>,
    pub waiting_rooms: WaitingRooms,
    pub accounts: Arc<Accounts>,
    pub operators: Arc<Operators>,
    pub webhooks: Webhooks,
    pub deliveries: Arc<Deliveries>,
    pub events: EventLog,
    pub meters: Arc<Meters>,
    pub live: LiveFigures,
    pub auditing: Arc<Auditing>,
    pub node: NodeDuties,
    pub housekeeping: Housekeeping,
    gate: Arc<GateSync>,
    admission: Arc<Admission>,
    ledger: Arc<SqlLedger>,
    closing: tokio::sync::watch::Sender<bool>,
}

impl App {
    /// Records the claims that the previous run left in the intake, then builds the gate from the ledger. The app
    /// is ready when this returns.
    pub async fn start(&self) -> Result<(), LedgerError> {
        let clock = self.clock.clone();
        let listener = RecordingListener {
            context: self.context.clone(),
            watchers: self.watchers.clone(),
            is_stuck: AtomicBool::new(false),
            history: self.node.history.clone(),
        };
        let now = Arc::new(move || clock.now());
        self.admission.start(self.ledger.clone(), Arc::new(listener), now).await;
        self.node.check_history().await?;
        self.gate.start().await?;
        self.health.set(Part::Startup, None);
        Ok(())
    }

    /// Records claims for up to `RECORD_WAIT` (the rest stays in the intake), releases the leases and closes the
    /// ledger.
    pub async fn stop(&self) {
        self.admission.stop(RECORD_WAIT).await;
        self.node.drop_leases().await;
        let ledger = self.ledger.clone();
        // `close` joins the ledger's threads; it does not panic, so there is no error to handle.
        let _ = tokio::task::spawn_blocking(move || ledger.close()).await;
    }

    /// Announces the shutdown: the process is no longer ready, streams end, workers stop.
    pub fn close(&self) {
        self.health.set(Part::Shutdown, Some("shutting down"));
        self.closing.send_replace(true);
    }

    /// Becomes `true` when `close` is called.
    pub fn closing(&self) -> tokio::sync::watch::Receiver<bool> {
        self.closing.subscribe()
    }

    /// Resolves once `close` has been called.
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

    /// An id as clients see it.
    pub fn print<T: Public>(&self, id: T) -> String {
        self.context.print(id)
    }

    /// Like `print`, without an allocation.
    pub fn text<T: Public>(&self, id: T) -> PublicText {
        self.context.text(id)
    }

    pub fn parse<T: Public>(&self, text: &str) -> Option<T> {
        self.context.parse(text)
    }

    /// A campaign's id as clients see it: that of a sale or of a draw.
    pub fn print_campaign(&self, campaign: &Campaign) -> String {
        self.context.print_campaign(campaign)
    }
}
