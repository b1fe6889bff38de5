//! This node's role in a cluster: its number, its leases, messages from other nodes, and its report.
//!
//! Invariants: ids contain the node's number, so a node takes claims only while it is sure that the number is its
//! own; a job that only one node may do is done by the holder of its lease. The embedded deployment needs no
//! leases.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use parking_lot::Mutex;
use tidegate_admission::{Admission, News};
use tidegate_core::{Kind, Moment};
use tidegate_ledger::{LedgerError, NodeLease, SqlLedger};

use crate::Refusal;
use crate::accounts::Accounts;
use crate::catalogue::Catalogue;
use crate::clock::Clock;
use crate::context::Context;
use crate::directory::CampaignDirectory;
use crate::gate_sync::GateSync;
use crate::health::Part;
use crate::ledger_history::LedgerHistory;
use crate::metrics;
use crate::tables::NodeTables;

/// Lease on a node's number. A node that cannot renew it takes no claims.
pub const NUMBER_LEASE: Duration = Duration::from_secs(30);
/// How long after a renewal a node is sure of its number; shorter than the lease.
const NUMBER_SURE: Duration = Duration::from_secs(25);
/// How long a server may be silent before orders that wait for it are answered.
const ANSWER_LATE_AFTER: Duration = Duration::from_millis(500);
/// Lease of a worker.
const WORKER_LEASE: Duration = Duration::from_secs(3);

/// Identity of a node.
#[derive(Clone, Debug)]
pub struct Node {
    /// Unique among all processes, past and present.
    pub name: String,
    /// Part of the ids it generates; unique among the running nodes.
    pub number: u16,
}

impl Node {
    /// The only node of the embedded deployment.
    pub fn embedded() -> Self {
        Self { name: "alone".into(), number: 0 }
    }
}

/// Whether this node may generate ids with its number.
#[derive(Debug)]
pub(crate) enum NodeNumber {
    /// Embedded: always.
    Fixed,
    /// Cluster: until then; `None` before the first renewal.
    Leased(Mutex<Option<Instant>>),
}

impl NodeNumber {
    pub(crate) fn leased() -> Self {
        Self::Leased(Mutex::new(None))
    }

    /// False after the node was suspended for longer than its lease.
    pub(crate) fn is_valid(&self) -> bool {
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
    /// Leases that this node holds, each with the time of its next renewal.
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

/// Snapshot of a node's state.
#[derive(Clone, Debug)]
pub struct NodeReport {
    pub node: Node,
    /// Whether this is the embedded deployment: journal and SQLite in one process.
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
    /// Current problems, by part.
    pub problems: Vec<(&'static str, String)>,
    /// When the next unpaid order expires.
    pub next_deadline: Option<Moment>,
    /// All running nodes, including this one; empty in the embedded deployment.
    pub known: Vec<NodeLease>,
}

#[derive(Debug)]
pub struct NodeDuties {
    pub(crate) context: Arc<Context>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) ledger: NodeTables,
    pub(crate) database: Arc<SqlLedger>,
    pub(crate) directory: Arc<CampaignDirectory>,
    pub(crate) gate: Arc<GateSync>,
    pub(crate) catalogue: Arc<Catalogue>,
    pub(crate) accounts: Arc<Accounts>,
    pub(crate) node: Node,
    pub(crate) number: Arc<NodeNumber>,
    /// `None` in the embedded deployment.
    pub(crate) leases: Option<Leases>,
    pub(crate) started_at: Moment,
    /// Since when Redis and PostgreSQL have not answered.
    pub(crate) gate_problem: Mutex<Option<Instant>>,
    pub(crate) ledger_problem: Mutex<Option<Instant>>,
    pub(crate) history: Arc<LedgerHistory>,
}

impl NodeDuties {
    pub fn identity(&self) -> &Node {
        &self.node
    }

    /// Whether there may be other nodes.
    pub fn is_cluster(&self) -> bool {
        self.leases.is_some()
    }

    /// Whether this node holds the worker's lease; always true in the embedded deployment.
    pub async fn holds_lease(&self, worker: &'static str) -> Result<bool, LedgerError> {
        match &self.leases {
            Some(leases) => leases.holds(worker).await,
            None => Ok(true),
        }
    }

    /// Renews the lease on this node's number and sets its clock by the database's.
    pub async fn renew_number(&self) -> Result<(), LedgerError> {
        let (name, asked) = (format!("node {}", self.node.number), Instant::now());
        let kept = self.ledger.leases.take(name, self.node.name.clone(), millis(NUMBER_LEASE)).await;
        let kept = kept.inspect_err(|_| {
            if !self.number.is_valid() {
                let problem = "the lease on this node's number has ended and cannot be renewed";
                self.context.health.set(Part::Node, Some(problem));
            }
        })?;
        if kept {
            self.number.renewed(asked);
        }
        // Two nodes with one number would generate the same ids.
        let problem = (!kept).then_some("another node has this one's number; it must be restarted");
        self.context.health.set(Part::Node, problem);
        let before = Clock::System.now();
        if let Some(there) = self.ledger.leases.database_time().await? {
            self.context.clock.synchronise(before, there, Clock::System.now());
        }
        Ok(())
    }

    /// Looks once whether Redis answers, and says so. Returns whether it does.
    pub async fn watch_gate(&self) -> bool {
        let Some(cluster) = self.admission.cluster() else { return true };
        let problem = cluster.ping().await.err().map(|error| format!("Redis does not answer: {error}"));
        self.report(&self.gate_problem, Part::Gate, problem)
    }

    /// The same for PostgreSQL. Connections that fell silent are replaced.
    pub async fn watch_ledger(&self) -> bool {
        let problem = self.database.watch().await.err().map(|error| error.to_string());
        self.report(&self.ledger_problem, Part::LedgerConnection, problem)
    }

    /// Looks once whether PostgreSQL still has what was committed, and says so.
    pub async fn check_history(&self) -> Result<(), LedgerError> {
        match self.admission.cluster() {
            Some(cluster) => self.history.check(&self.context, cluster, &self.database).await,
            None => Ok(()),
        }
    }

    /// Sets or clears a problem. Orders that wait for a server which does not answer are told that they are late: they
    /// remain where they are, and their outcome is found by their ids.
    fn report(&self, since: &Mutex<Option<Instant>>, part: Part, problem: Option<String>) -> bool {
        self.context.health.set(part, problem.as_deref());
        let mut since = since.lock();
        if problem.is_none() {
            *since = None;
            return true;
        }
        if since.get_or_insert_with(Instant::now).elapsed() >= ANSWER_LATE_AFTER
            && let Some(cluster) = self.admission.cluster()
        {
            cluster.answer_as_late();
        }
        false
    }

    /// Releases this node's leases, so that other nodes need not wait until they end.
    pub(crate) async fn drop_leases(&self) {
        // On failure the leases end by themselves.
        let _ = self.ledger.leases.release_all(self.node.name.clone()).await;
    }

    /// Handles a message from any node, including this one.
    pub async fn handle_message(&self, news: News) -> Result<(), LedgerError> {
        match news {
            News::Campaign(id) => self.gate.on_campaign_message(id).await?,
            News::Item(id) => self.catalogue.forget(id),
            News::SessionEnded(digest) => self.accounts.forget_session(&digest),
            News::MissedMessages => {
                self.catalogue.forget_all();
                self.accounts.forget_sessions();
                self.gate.sync_all().await?;
            }
        }
        Ok(())
    }

    /// Brings gate and running campaigns up to date with the ledger.
    pub async fn sync_all(&self) -> Result<(), LedgerError> {
        self.gate.sync_all().await
    }

    /// Resolves when a pool should be checked against the ledger at once.
    pub async fn reconcile_requested(&self) {
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
            drift: metrics.drift(),
            problems: self.context.health.problems().into_iter().collect(),
            next_deadline: self.ledger.orders.next_deadline().await?,
            known: self.ledger.leases.nodes().await?,
        })
    }

    /// The metrics in Prometheus' text format; gauges of current state are updated first.
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
