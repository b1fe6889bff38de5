//! What this node says of itself, and what the ledger knows of the others.

use std::time::Duration;

use tidegate_core::Moment;
use tidegate_store::ledger::sql::KnownNode;

use super::{App, Node, Refusal};

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
    /// Units by which gates and ledger differed when the reconciler looked last.
    pub drift: i64,
    /// What does not work, part by part.
    pub problems: Vec<(&'static str, String)>,
    /// When the next unpaid order expires.
    pub next_deadline: Option<Moment>,
    /// All nodes that run, this one among them; empty where there is one process.
    pub known: Vec<KnownNode>,
}

impl App {
    pub async fn node_report(&self) -> Result<NodeReport, Refusal> {
        let metrics = &self.metrics;
        Ok(NodeReport {
            node: self.node.clone(),
            embedded: self.admission.is_embedded(),
            up: self.started_at.until(self.now()),
            unrecorded: self.admission.depth(),
            connections: metrics.connections.get(),
            streams: metrics.streams.get(),
            rebuilds: metrics.reseeds.get(),
            drift: metrics.drift.get(),
            problems: self.health.problems().into_iter().collect(),
            next_deadline: self.next_deadline().await?,
            known: self.ledger.nodes().await?,
        })
    }
}
