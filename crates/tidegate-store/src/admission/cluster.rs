//! Admission on many nodes: the gate and its streams on Redis or Valkey, shared by all of them.
//!
//! A node keeps the claims it has taken until it knows what became of them, whoever recorded them: from its own recorder, by
//! a message from the node that recorded them, or by asking the ledger, since messages can be lost. What always holds: nobody
//! hears of an order before the ledger has committed it; a claim that the gate's server has lost is told to be lost.

mod news;
mod outcomes;
mod pending;
mod readers;

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use parking_lot::Mutex;
use tidegate_core::{Campaign, CampaignId, Claim, ClaimId, ClaimRequest, Rejection, UserId, Wanted};
use tokio::sync::{Notify, OnceCell, mpsc};

pub use self::news::News;
use self::outcomes::{Outcomes, ask_the_ledger};
use self::pending::Pending;
use self::readers::Readers;
use super::{Kept, NotTaken, Now, Taken};
use crate::gate::GateError;
use crate::gate::redis::{self as gate, Asked, Given, RedisGate, Refused, Undecided, Watch};
use crate::intake::{AppendError, Unrecorded};
use crate::ledger::LedgerError;
use crate::ledger::sql::SqlLedger;
use crate::recorder::Listener;
use crate::redis_link::Link;
use crate::waiting::SharedRoom;

/// Outcomes that are told at all are told long before this.
const LONG: Duration = Duration::from_secs(5);
/// How often it is looked whether everything of a campaign is recorded.
const LOOK_EVERY: Duration = Duration::from_millis(20);

#[derive(Clone, Debug)]
pub struct ClusterOptions {
    /// What the link was opened with: messages are listened for over another.
    pub urls: String,
    /// Comes before every key and channel.
    pub prefix: String,
    /// Unique among all processes there ever were.
    pub node: String,
    /// What this node's ids carry; unique among those that run.
    pub number: u16,
    /// Claims whose outcome is not known; beyond that, claims are refused.
    pub max_pending: usize,
    /// Whether claims that wait go to the gate together.
    pub batches: bool,
    /// How long buyers wait until their claims are recorded; zero where nobody does.
    pub answer_within: Duration,
}

#[derive(Debug)]
pub struct Cluster(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    gate: Arc<RedisGate>,
    options: ClusterOptions,
    books: Arc<Books>,
    /// Pools the ledger has caught out, and in which epoch: somebody else held what they gave.
    distrusted: Mutex<HashMap<CampaignId, u32>>,
    /// Told when a pool had better be looked at now.
    attention: Arc<Notify>,
    ledger: OnceCell<Arc<SqlLedger>>,
}

/// What this node has asked for, and who records it.
#[derive(Debug)]
struct Books {
    pending: Pending,
    readers: Readers,
}

impl Watch for Books {
    fn expect(&self, claims: &mut dyn ExactSizeIterator<Item = ClaimId>) -> Vec<gate::Outcome> {
        self.pending.expect(claims)
    }

    fn decided(
        &self,
        campaign: CampaignId,
        claims: &mut dyn Iterator<Item = (ClaimId, Option<&Arc<Claim>>)>,
    ) {
        if self.pending.decided(claims) {
            self.readers.expect_claims(campaign);
        }
    }
}

impl Cluster {
    /// Over this link; gives also what other nodes tell.
    pub fn new(link: Link, options: ClusterOptions) -> (Self, mpsc::UnboundedReceiver<News>) {
        let pending = Pending::new(options.max_pending, !options.answer_within.is_zero());
        let books = Arc::new(Books { pending, readers: Readers::default() });
        let gate = RedisGate::new(link, options.prefix.clone(), options.node.clone());
        let watch: Weak<dyn Watch> = Arc::downgrade(&books) as _;
        let gate = gate.watched_by(watch);
        let gate = Arc::new(if options.batches { gate } else { gate.one_by_one() });
        let (sender, news) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            gate,
            books,
            distrusted: Mutex::default(),
            attention: Arc::new(Notify::new()),
            ledger: OnceCell::new(),
            options,
        });
        tokio::spawn(news::listen(Arc::downgrade(&shared), sender));
        (Self(shared), news)
    }

    pub(super) fn gate(&self) -> &RedisGate {
        &self.0.gate
    }

    pub(super) async fn start(&self, ledger: Arc<SqlLedger>, listener: Arc<dyn Listener>, now: Now) {
        if self.0.ledger.set(ledger.clone()).is_err() {
            return;
        }
        let outcomes = Arc::new(Outcomes { shared: Arc::downgrade(&self.0), outer: listener });
        let rush = self.0.options.answer_within.is_zero().then(|| self.0.books.pending.rush().clone());
        self.0.books.readers.start(ledger, outcomes, now, rush).await;
        tokio::spawn(ask_the_ledger(Arc::downgrade(&self.0)));
    }

    pub(super) async fn stop(&self, within: Duration) {
        let begun = Instant::now();
        while !self.0.books.pending.is_empty() && begun.elapsed() < within {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        if !self.0.books.pending.is_empty() {
            tracing::warn!("not everything could be recorded; other nodes will");
        }
        self.0.books.readers.stop();
    }

    /// These campaigns may have claims that are to be recorded: each gets its readers, and others lose theirs.
    pub async fn keep(&self, campaigns: &[Campaign]) -> Result<(), LedgerError> {
        for poisoned in self.0.books.readers.poisoned() {
            // Units of an entry that could not be read come back with a new epoch only.
            if let Some(campaign) = campaigns.iter().find(|campaign| campaign.id == poisoned) {
                self.distrust(poisoned, campaign.epoch);
            }
        }
        self.0.books.readers.keep(&self.0.gate, &self.0.options.node, campaigns).await
    }

    pub(super) async fn claim(&self, request: ClaimRequest, per_s: u32) -> Result<Taken, NotTaken> {
        if self.0.books.pending.is_full() {
            return Err(NotTaken::NotKept(AppendError::Full));
        }
        let decided = match self.gate().ask(request, Asked { looked: false, per_s }).await {
            // Boxed: few need it, and every claim would carry the room it takes about with it.
            Err(Refused { why: Undecided::Look, request: Some(request) }) => {
                Box::pin(self.look_up(*request)).await
            }
            decided => decided.map_err(|refused| refused.why.into()),
        };
        if matches!(decided, Err(NotTaken::Rejected(Rejection::NotReady) | NotTaken::NotKept(_))) {
            self.0.attention.notify_one();
        }
        let within = Some(self.0.options.answer_within);
        decided
            .map(|Given { claim, outcome }| Taken { claim, kept: outcome.map(|told| Kept { told, within }) })
    }

    /// The ledger may know its key: it is looked up there, then the gate asked again.
    async fn look_up(&self, request: ClaimRequest) -> Result<Given, NotTaken> {
        let ledger = self.0.ledger.get().ok_or(Rejection::NotReady)?;
        let known = match (&request.wanted, request.key) {
            (_, None) => Ok(false),
            (Wanted::Order { .. }, Some(key)) => {
                ledger.find_by_key(request.user, key).await.map(|found| found.is_some())
            }
            (Wanted::Play { .. }, Some(key)) => {
                ledger.find_play_by_key(request.user, key).await.map(|found| found.is_some())
            }
        };
        if known.map_err(|_| Rejection::NotReady)? {
            return Err(NotTaken::Repeated);
        }
        let asked = self.gate().ask(request, Asked { looked: true, per_s: 0 }).await;
        asked.map_err(|refused| refused.why.into())
    }

    /// Claims that wait to be recorded: what the streams had when they were last read, or this node's own, if they are more by now.
    pub(super) fn depth(&self) -> usize {
        self.0.books.readers.depth().max(self.0.books.pending.count())
    }

    pub(super) fn of_buyer(&self, user: UserId) -> Vec<Unrecorded> {
        self.0.books.pending.of_buyer(user)
    }

    /// A claim that is not recorded: this node's, or one in a stream.
    pub(super) async fn find(&self, user: UserId, id: ClaimId) -> Result<Option<Unrecorded>, GateError> {
        if let Some(claim) = self.0.books.pending.find(user, id) {
            return Ok(Some(Unrecorded { claim, durable: false }));
        }
        for campaign in self.0.books.readers.campaigns() {
            if let Some(claim) = self.gate().queued(campaign, user, id).await? {
                return Ok(Some(Unrecorded { claim: Arc::new(claim), durable: false }));
            }
        }
        Ok(None)
    }

    pub(super) async fn prizes_left(&self, campaign: CampaignId) -> Option<Vec<u32>> {
        self.gate().prizes_left(campaign).await.ok().filter(|left| !left.is_empty())
    }

    pub(super) async fn drained(&self, campaign: CampaignId, within: Duration) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < within {
            if matches!(self.gate().queued_units(campaign).await, Ok(0)) {
                return true;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        false
    }

    /// Whether this node has not known for a while what became of claims on this campaign.
    pub fn waits_long_for(&self, campaign: CampaignId) -> bool {
        self.0.books.pending.waits_for(campaign, LONG)
    }

    /// The epoch in which the ledger caught this pool out since it was last asked.
    pub fn caught_out_in(&self, campaign: CampaignId) -> Option<u32> {
        self.0.distrusted.lock().remove(&campaign)
    }

    /// Told when a pool had better be looked at now.
    pub fn attention(&self) -> Arc<Notify> {
        self.0.attention.clone()
    }

    /// A new epoch has begun: claims of earlier ones that this node waits for are recorded as lost, if they are not orders
    /// by now.
    pub async fn began(&self, campaign: CampaignId, epoch: u32) -> Result<(), LedgerError> {
        let Some(ledger) = self.0.ledger.get() else { return Ok(()) };
        let old = self.0.books.pending.before(campaign, epoch);
        if old.is_empty() {
            return Ok(());
        }
        let now = old.iter().map(|claim| claim.created_at).max().unwrap_or_default();
        let outcomes = ledger.record_unplaced(old.clone(), now).await?;
        self.0.settle(old.iter().zip(outcomes).map(|(claim, outcome)| (claim.id, outcome)));
        Ok(())
    }

    /// Tells all nodes, this one included.
    pub async fn tell(&self, news: &News) {
        if let Err(error) = news::publish(&self.0, news).await {
            // They look for themselves twice a second.
            tracing::debug!(%error, "news could not be told");
        }
    }

    /// Remembers a name for so long, for all nodes; `false` if it was remembered already.
    pub async fn once(&self, name: &str, life: Duration) -> Result<bool, GateError> {
        let mut command = redis::cmd("SET");
        command.arg(self.named(name)).arg(1).arg("NX").arg("PX").arg(millis(life));
        let set: Option<String> = command.query_async(&mut self.link()).await.map_err(GateError::from)?;
        Ok(set.is_some())
    }

    pub async fn forget_once(&self, name: &str) -> Result<(), GateError> {
        Ok(redis::cmd("DEL").arg(self.named(name)).query_async(&mut self.link()).await?)
    }

    /// Counts up a name that is forgotten after so long; for all nodes.
    pub async fn count(&self, name: &str, life: Duration) -> Result<u64, GateError> {
        let name = self.named(name);
        let counted: (u64, i64) = redis::pipe()
            .incr(&name, 1)
            .cmd("PEXPIRE")
            .arg(&name)
            .arg(millis(life))
            .arg("NX")
            .query_async(&mut self.link())
            .await
            .map_err(GateError::from)?;
        Ok(counted.0)
    }

    /// A sale's waiting room.
    pub fn room(&self, campaign: CampaignId) -> SharedRoom {
        SharedRoom::new(self.link(), &self.0.options.prefix, campaign)
    }

    fn named(&self, name: &str) -> String {
        format!("{}{name}", self.0.options.prefix)
    }

    /// The pool of this epoch is not believed any more.
    pub fn distrust(&self, campaign: CampaignId, epoch: u32) {
        self.0.distrust(campaign, epoch);
    }

    /// Whether the servers answer.
    pub async fn ping(&self) -> Result<(), GateError> {
        Ok(self.gate().link().check().await?)
    }

    fn link(&self) -> Link {
        self.gate().link().clone()
    }
}

impl From<Undecided> for NotTaken {
    fn from(undecided: Undecided) -> Self {
        match undecided {
            Undecided::Refused(rejection) => rejection.into(),
            Undecided::InFlight | Undecided::Look => Self::InFlight,
            Undecided::TooOften => Self::TooOften,
            Undecided::Unknown(why) => Self::NotKept(AppendError::Failed(why)),
        }
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX).max(1)
}

impl Shared {
    fn distrust(&self, campaign: CampaignId, epoch: u32) {
        let mut distrusted = self.distrusted.lock();
        let since = distrusted.entry(campaign).or_insert(epoch);
        *since = epoch.max(*since);
    }
}
