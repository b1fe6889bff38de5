//! The benchmark plan: every candidate with its server, request type, connections and counts.
//!
//! Counts are chosen so that a run takes about a second on two cores: on a machine whose speed varies, many short runs
//! are more reliable than a few long ones.

/// The server under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ServerKind {
    /// The server with constant responses (`constant_server.rs`).
    Generator,
    Embedded,
    /// Embedded, behind nginx with `deploy/proxy.conf`.
    Proxied,
    /// The same without the fast path.
    ProxiedHyper,
    Classic,
    RowLock,
    /// A cluster node that answers after PostgreSQL's commit.
    Cluster201,
    /// A cluster node that answers after the gate's decision.
    Cluster202,
    /// The same without batching: one Redis call per order.
    OneByOne,
}

/// The type of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestKind {
    /// A health check with an order's headers and body.
    Health,
    /// An order by a new buyer in a sale with a unit for each buyer.
    Order,
    /// The same, with a storefront page instead of every fourth order.
    OrderOrPage,
    /// An order in a sale that is sold out.
    SoldOut,
    /// A request for a pass by a new buyer.
    Pass,
    /// A play by a new player.
    Play,
    /// A read of an item.
    Item,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub(crate) name: &'static str,
    pub(crate) server: ServerKind,
    pub(crate) request: RequestKind,
    pub(crate) connections: usize,
    pub(crate) count: usize,
    pub(crate) expect: u16,
    /// Open loop: arrivals at this multiple of the rate that `CAPACITY` has just reached. `None`: closed loop.
    pub(crate) overload_factor: Option<f64>,
    /// Measured in every n-th round.
    pub(crate) every: usize,
}

const fn candidate(
    name: &'static str,
    server: ServerKind,
    request: RequestKind,
    connections: usize,
    count: usize,
    expect: u16,
) -> Candidate {
    Candidate { name, server, request, connections, count, expect, overload_factor: None, every: 1 }
}

/// For a candidate far from its bound: measured less often.
const fn far_from_bound(candidate: Candidate) -> Candidate {
    Candidate { every: 3, ..candidate }
}

/// For a candidate without a bound: measured rarely.
const fn without_bound(candidate: Candidate) -> Candidate {
    Candidate { every: 6, ..candidate }
}

/// Measures the server's capacity right before the overload run; the same load as `embedded`.
pub(crate) const CAPACITY: Candidate =
    candidate("capacity", ServerKind::Embedded, RequestKind::Order, 256, 50_000, 201);

/// Groups of candidates measured in the same rounds, in this order; compared candidates are neighbours. The servers of
/// a group are stopped before the next group starts: an idle node with its Redis and database uses some hundredths of
/// a core, which would disturb other measurements.
pub(crate) const GROUPS: [&[Candidate]; 4] = [&PROCESS, &PROXY, &GATE, &LEDGER];

/// The embedded server and the classic Redis design.
const PROCESS: [Candidate; 11] = [
    without_bound(candidate("generator", ServerKind::Generator, RequestKind::Health, 256, 200_000, 200)),
    without_bound(candidate("read", ServerKind::Embedded, RequestKind::Item, 256, 50_000, 200)),
    without_bound(candidate("pass", ServerKind::Embedded, RequestKind::Pass, 256, 50_000, 201)),
    far_from_bound(candidate("refusal", ServerKind::Embedded, RequestKind::SoldOut, 256, 80_000, 409)),
    candidate("ceiling", ServerKind::Embedded, RequestKind::Health, 256, 80_000, 200),
    candidate("embedded", ServerKind::Embedded, RequestKind::Order, 256, 60_000, 201),
    candidate("classic", ServerKind::Classic, RequestKind::Order, 256, 50_000, 201),
    far_from_bound(candidate("classic_64", ServerKind::Classic, RequestKind::Order, 64, 50_000, 201)),
    far_from_bound(candidate("embedded_64", ServerKind::Embedded, RequestKind::Order, 64, 50_000, 201)),
    without_bound(candidate("draw", ServerKind::Embedded, RequestKind::Play, 256, 50_000, 201)),
    // Twice as many connections, so that more requests wait at the server than in the capacity run. Three times the
    // count at three times the rate takes as long.
    Candidate {
        overload_factor: Some(3.0),
        ..candidate("overload", ServerKind::Embedded, RequestKind::Order, 512, 150_000, 201)
    },
];

/// The deployment that the README recommends: pages and orders share the proxy's connection pool. The servers differ
/// only in `http.fast_path`.
const PROXY: [Candidate; 2] = [
    far_from_bound(candidate(
        "behind_proxy",
        ServerKind::Proxied,
        RequestKind::OrderOrPage,
        256,
        30_000,
        201,
    )),
    far_from_bound(candidate(
        "behind_proxy_hyper",
        ServerKind::ProxiedHyper,
        RequestKind::OrderOrPage,
        256,
        30_000,
        201,
    )),
];

/// A cluster node that answers after the gate's decision, and the classic design again: both write to Redis and do not
/// wait for a database.
const GATE: [Candidate; 2] = [
    candidate("classic_beside_nodes", ServerKind::Classic, RequestKind::Order, 256, 50_000, 201),
    candidate("cluster_202", ServerKind::Cluster202, RequestKind::Order, 256, 40_000, 202),
];

/// A cluster node that answers after PostgreSQL's commit, and the row-lock design; also a node without batching.
const LEDGER: [Candidate; 3] = [
    without_bound(candidate(
        "cluster_202_one_by_one",
        ServerKind::OneByOne,
        RequestKind::Order,
        256,
        20_000,
        202,
    )),
    far_from_bound(candidate("cluster_201", ServerKind::Cluster201, RequestKind::Order, 256, 20_000, 201)),
    far_from_bound(candidate("row_lock", ServerKind::RowLock, RequestKind::Order, 256, 2_000, 201)),
];
