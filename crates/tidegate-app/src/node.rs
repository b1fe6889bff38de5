//! This node's part among all nodes: its number, its leases, news from the others, and its report.
//!
//! Invariants: ids carry a node's number, so a node takes claims only while it is sure that the number is its own; work
//! that one node does for all is done by the holder of its lease. One process has no lease to ask for.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use parking_lot::Mutex;
use tidegate_admission::{Admission, News};
use tidegate_core::{Kind, Moment};
use tidegate_ledger::{LedgerError, NodeLease};

use crate::Refusal;
use crate::accounts::Accounts;
use crate::catalogue::Catalogue;
use crate::clock::Clock;
use crate::context::Context;
use crate::directory::CampaignDirectory;
use crate::gate_sync::GateSync;
use crate::health::Part;
use crate::metrics;
use crate::tables::NodeTables;

/// How long a number stays a node's after its last renewal. A node that cannot renew it takes no claims.
pub const NUMBER_LEASE: Duration = Duration::from_secs(30);
/// How long after a renewal a node is sure of its number: less than the lease.
const NUMBER_SURE: Duration = Duration::from_secs(25);
/// How long a worker's lease lasts.
const WORKER_LEASE: Duration = Duration::from_secs(3);

/// Which of the nodes this is.
#[derive(Clone, Debug)]
pub struct Node {
    /// Unique among all processes there ever were.
    pub name: String,
    /// Carried by its ids; unique among the nodes that run.
    pub number: u16,
}

impl Node {
    /// The only one.
    pub fn alone() -> Self {
        Self { name: "alone".into(), number: 0 }
    }
}

/// Whether this node may give out ids with its number.
#[derive(Debug)]
pub(crate) enum NodeNumber {
    /// There is one process.
    Fixed,
    /// Sure until then, once the lease was renewed.
    Leased(Mutex<Option<Instant>>),
}

impl NodeNumber {
    pub(crate) fn leased() -> Self {
        Self::Leased(Mutex::new(None))
    }

    /// Not after the node was suspended for longer than its lease.
    pub(crate) fn is_sure(&self) -> bool {
        match self {
            Self::Fixed => true,
            Self::Leased(until) => until.lock().is_some_and(|until| Instant::now() < until),
        }
    }

    fn renewed(&self, asked: Instant) {
        if let Self::Leased(until) = self {
            *until.lock() = Some(asked + NUMBER_SURE);
        }
    }
}

/// The leases of workers that run on one node at a time.
#[derive(Debug)]
pub(crate) struct Leases {
    ledger: NodeTables,
    holder: String,
    /// Those this node holds, and until when it need not ask again.
    held: Mutex<HashMap<&'static str, Instant>>,
}

impl Leases {
    pub(crate) fn new(ledger: NodeTables, holder: String) -> Self {
        Self { ledger, holder, held: Mutex::default() }
    }

    async fn holds(&self, worker: &'static str) -> Result<bool, LedgerError> {
        if self.held.lock().get(worker).is_some_and(|until| Instant::now() < *until) {
            return Ok(true);
        }
        let asked = Instant::now();
        let holds =
            self.ledger.leases.take(worker.to_owned(), self.holder.clone(), millis(WORKER_LEASE)).await?;
        if holds {
            // Renewed long before it ends.
            self.held.lock().insert(worker, asked + WORKER_LEASE / 3);
        }
        Ok(holds)
    }
}

pub(crate) fn millis(span: Duration) -> u32 {
    u32::try_from(span.as_millis()).unwrap_or(u32::MAX)
}

/// A node at one moment.
#[derive(Clone, Debug)]
pub struct NodeReport {
    pub node: Node,
    /// Whether it is the only one: journal and SQLite in this process.
    pub embedded: bool,
    pub up: Duration,
    /// Claims that are accepted and not recorded yet.
    pub unrecorded: usize,
    /// Open connections and event streams.
    pub connections: i64,
    pub streams: i64,
    /// Times it rebuilt a gate from the ledger.
    pub rebuilds: u64,
    /// Units by which gates and ledger differed at the last reconciliation.
    pub drift: i64,
    /// What does not work, part by part.
    pub problems: Vec<(&'static str, String)>,
    /// When the next unpaid order expires.
    pub next_deadline: Option<Moment>,
    /// All nodes that run, this one among them; empty where there is one process.
    pub known: Vec<NodeLease>,
}

#[derive(Debug)]
pub struct NodeDuties {
    pub(crate) context: Arc<Context>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) ledger: NodeTables,
    pub(crate) directory: Arc<CampaignDirectory>,
    pub(crate) gate: Arc<GateSync>,
    pub(crate) catalogue: Arc<Catalogue>,
    pub(crate) accounts: Arc<Accounts>,
    pub(crate) node: Node,
    pub(crate) number: Arc<NodeNumber>,
    /// None where there is one process.
    pub(crate) leases: Option<Leases>,
    pub(crate) started_at: Moment,
}

impl NodeDuties {
    pub fn identity(&self) -> &Node {
        &self.node
    }

    /// Whether there may be other nodes.
    pub fn is_cluster(&self) -> bool {
        self.leases.is_some()
    }

    /// Whether this node runs this worker now.
    pub async fn leads(&self, worker: &'static str) -> Result<bool, LedgerError> {
        match &self.leases {
            Some(leases) => leases.holds(worker).await,
            None => Ok(true),
        }
    }

    /// Renews this node's number and sets its clock by the database's.
    pub async fn keep_node(&self) -> Result<(), LedgerError> {
        let (name, asked) = (format!("node {}", self.node.number), Instant::now());
        let kept = self.ledger.leases.take(name, self.node.name.clone(), millis(NUMBER_LEASE)).await?;
        if kept {
            self.number.renewed(asked);
        }
        // Two nodes with one number would give out the same ids.
        let problem = (!kept).then_some("another node has this one's number; it must be restarted");
        self.context.health.set(Part::Node, problem);
        let before = Clock::System.now();
        if let Some(there) = self.ledger.leases.database_time().await? {
            self.context.clock.set_right(before, there, Clock::System.now());
        }
        Ok(())
    }

    /// Other nodes need not wait until this node's leases end.
    pub(crate) async fn drop_leases(&self) {
        // If it fails they wait.
        let _ = self.ledger.leases.release_all(self.node.name.clone()).await;
    }

    /// Follows up what a node has told, this one included.
    pub async fn hear(&self, news: News) -> Result<(), LedgerError> {
        match news {
            News::Campaign(id) => self.gate.heard_of(id).await?,
            News::Item(id) => self.catalogue.forget(id),
            News::SessionEnded(digest) => self.accounts.forget_session(&digest),
            News::MissedMessages => {
                self.catalogue.forget_all();
                self.accounts.forget_sessions();
                self.gate.follow_all().await?;
            }
        }
        Ok(())
    }

    /// Brings gate and running campaigns up to date with the ledger.
    pub async fn follow_all(&self) -> Result<(), LedgerError> {
        self.gate.follow_all().await
    }

    /// Resolves when a pool should be checked against the ledger at once.
    pub async fn attention(&self) {
        self.admission.reconcile_signal().await;
    }

    pub async fn node_report(&self) -> Result<NodeReport, Refusal> {
        let metrics = &self.context.metrics;
        Ok(NodeReport {
            node: self.node.clone(),
            embedded: !self.is_cluster(),
            up: self.started_at.until(self.context.now()),
            unrecorded: self.admission.depth(),
            connections: metrics.connections.get(),
            streams: metrics.streams.get(),
            rebuilds: metrics.reseeds.get(),
            drift: metrics.drift.get(),
            problems: self.context.health.problems().into_iter().collect(),
            next_deadline: self.ledger.orders.next_deadline().await?,
            known: self.ledger.leases.nodes().await?,
        })
    }

    /// The metrics as Prometheus reads them, with gauges that are looked up for each scrape.
    pub fn print_metrics(&self) -> String {
        let metrics = &self.context.metrics;
        metrics.unrecorded.set(i64::try_from(self.admission.depth()).unwrap_or(i64::MAX));
        metrics.stock_left.clear();
        metrics.seats_left.clear();
        for campaign in self.directory.running.all() {
            let left = i64::from(self.admission.units_left(campaign.id).unwrap_or(0));
            let id = self.context.print_campaign(&campaign);
            match campaign.kind {
                Kind::Sale(_) => metrics.stock_left.get_or_create(&metrics::Sale { sale: id }).set(left),
                Kind::Draw(_) => metrics.seats_left.get_or_create(&metrics::Draw { draw: id }).set(left),
            };
        }
        metrics.print()
    }
}
