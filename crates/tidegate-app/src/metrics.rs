//! Prometheus metrics.
//!
//! The registry is not global, so that tests can run several servers in one process.

use std::hash::Hash;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use hashbrown::HashMap;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use tidegate_ledger::AttemptOutcome;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct RequestLabels {
    /// The route's pattern.
    pub route: &'static str,
    pub method: &'static str,
    pub status: u16,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct Outcome {
    pub outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct DeliveryLabels {
    pub kind: String,
    pub outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct Sale {
    pub sale: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct Draw {
    pub draw: String,
}

/// Counters for the hot path: looked up without the lock that `Family` takes on every access.
#[derive(Debug)]
pub struct Counters<L: Clone + Hash + Eq> {
    family: Family<L, Counter>,
    known: ArcSwap<HashMap<L, Counter>>,
}

impl<L: Clone + Hash + Eq> Counters<L> {
    fn new() -> Self {
        Self { family: Family::default(), known: ArcSwap::default() }
    }

    pub fn count(&self, labels: L) {
        if let Some(counter) = self.known.load().get(&labels) {
            counter.inc();
            return;
        }
        let counter = self.family.get_or_create(&labels).clone();
        counter.inc();
        self.known.rcu(|known| {
            let mut known = HashMap::clone(known);
            known.insert(labels.clone(), counter.clone());
            known
        });
    }
}

#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    pub requests: Counters<RequestLabels>,
    pub request_seconds: Histogram,
    pub orders: Counters<Outcome>,
    pub plays: Counters<Outcome>,
    pub deliveries: Family<DeliveryLabels, Counter>,
    pub unrecorded: Gauge,
    pub journal_batch: Histogram,
    pub journal_seconds: Histogram,
    pub ledger_batch: Histogram,
    pub ledger_seconds: Histogram,
    pub stock_left: Family<Sale, Gauge>,
    pub seats_left: Family<Draw, Gauge>,
    pub connections: Gauge,
    pub streams: Gauge,
    pub refused_connections: Counter,
    pub handed_over_connections: Counter,
    pub reseeds: Counter,
    drift: Gauge,
    /// The parts of `drift`: units by which quiet gates differ from the ledger, units that nobody has.
    drift_parts: [AtomicI64; 2],
}

impl Default for Metrics {
    fn default() -> Self {
        let seconds = || Histogram::new(exponential_buckets(0.000_1, 2.0, 16));
        let sizes = || Histogram::new(exponential_buckets(1.0, 4.0, 7));
        let mut metrics = Self {
            registry: Registry::with_prefix("tidegate"),
            requests: Counters::new(),
            request_seconds: seconds(),
            orders: Counters::new(),
            plays: Counters::new(),
            deliveries: Family::default(),
            unrecorded: Gauge::default(),
            journal_batch: sizes(),
            journal_seconds: seconds(),
            ledger_batch: sizes(),
            ledger_seconds: seconds(),
            stock_left: Family::default(),
            seats_left: Family::default(),
            connections: Gauge::default(),
            streams: Gauge::default(),
            refused_connections: Counter::<u64, AtomicU64>::default(),
            handed_over_connections: Counter::<u64, AtomicU64>::default(),
            reseeds: Counter::<u64, AtomicU64>::default(),
            drift: Gauge::default(),
            drift_parts: [const { AtomicI64::new(0) }; 2],
        };
        metrics.register();
        metrics
    }
}

impl Metrics {
    fn register(&mut self) {
        let to = &mut self.registry;
        to.register("http_requests", "Requests answered", self.requests.family.clone());
        to.register("http_request_seconds", "Time to answer a request", self.request_seconds.clone());
        to.register("orders", "Attempts to order, and orders, by outcome", self.orders.family.clone());
        to.register("plays", "Attempts to play, by outcome", self.plays.family.clone());
        to.register("deliveries", "Attempts to deliver coupons and events", self.deliveries.clone());
        to.register("unrecorded_claims", "Claims waiting to be recorded", self.unrecorded.clone());
        to.register("journal_batch_claims", "Claims made durable by one sync", self.journal_batch.clone());
        to.register("journal_sync_seconds", "Time to make a batch durable", self.journal_seconds.clone());
        to.register("ledger_commit_changes", "Changes in one commit", self.ledger_batch.clone());
        to.register("ledger_commit_seconds", "Time for one commit", self.ledger_seconds.clone());
        to.register("stock_left", "Units left of each running sale", self.stock_left.clone());
        to.register("seats_left", "Seats left of each running draw", self.seats_left.clone());
        to.register("connections", "Open connections", self.connections.clone());
        to.register("streams", "Open event streams", self.streams.clone());
        to.register(
            "refused_connections",
            "Connections refused because there were too many",
            self.refused_connections.clone(),
        );
        to.register(
            "handed_over_connections",
            "Connections that left the fast path because of a request that only hyper can parse",
            self.handed_over_connections.clone(),
        );
        to.register("gate_rebuilds", "Times this node rebuilt a gate from the ledger", self.reseeds.clone());
        to.register(
            "gate_drift_units",
            "Units by which gates and ledger differed at the last reconciliation",
            self.drift.clone(),
        );
    }

    /// Units by which the gates and the ledger differ where nothing is on its way.
    pub(crate) fn set_drift(&self, units: i64) {
        self.set_drift_part(0, units);
    }

    /// Units that neither a gate nor the ledger has, found while sales go on.
    pub(crate) fn set_missing_units(&self, units: u64) {
        self.set_drift_part(1, i64::try_from(units).unwrap_or(i64::MAX));
    }

    pub fn drift(&self) -> i64 {
        self.drift.get()
    }

    fn set_drift_part(&self, part: usize, units: i64) {
        self.drift_parts[part].store(units, Ordering::Relaxed);
        self.drift.set(self.drift_parts.iter().map(|part| part.load(Ordering::Relaxed)).max().unwrap_or(0));
    }

    pub fn order(&self, outcome: &'static str) {
        self.orders.count(Outcome { outcome });
    }

    pub fn play(&self, outcome: &'static str) {
        self.plays.count(Outcome { outcome });
    }

    /// Counts one attempt to deliver a coupon or event.
    pub fn delivery(&self, kind: &str, tried: &AttemptOutcome) {
        let outcome = match tried {
            AttemptOutcome::Delivered { .. } => "delivered",
            AttemptOutcome::Failed { .. } => "failed",
            AttemptOutcome::Dead { .. } => "dead",
        };
        self.deliveries.get_or_create(&DeliveryLabels { kind: kind.to_owned(), outcome }).inc();
    }

    pub fn print(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &self.registry);
        text
    }
}
