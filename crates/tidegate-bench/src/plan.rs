//! What is measured: every candidate, what it is asked, over how many connections and how often.
//!
//! The counts are such that a run takes about a second on two cores: where a machine changes its speed, many short
//! runs tell more than a few long ones.

/// The server that is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum At {
    /// The canned answers.
    Generator,
    Embedded,
    /// The same behind nginx with `deploy/proxy.conf`; and that without the fast path.
    Proxied,
    ProxiedHyper,
    Classic,
    RowLock,
    /// Nodes that answer after the database's commit, and after the gate.
    Cluster201,
    Cluster202,
    /// One that asks Redis for every order by itself.
    OneByOne,
}

/// What it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// Whether it is alive, with an order's headers and body.
    Health,
    /// An order of a fresh buyer in a sale that has one for everybody.
    Order,
    /// The same, with a page of the storefront in place of every fourth order.
    OrderOrPage,
    /// An order in a sale that is sold out.
    SoldOut,
    /// A pass of a fresh buyer.
    Pass,
    /// A play of a fresh player.
    Play,
    /// An item, to look at.
    Item,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub(crate) name: &'static str,
    pub(crate) at: At,
    pub(crate) ask: Ask,
    pub(crate) connections: usize,
    pub(crate) count: usize,
    pub(crate) expect: u16,
    /// How many times what `CAPACITY` takes just before arrives, whether or not earlier arrivals were answered; `None`
    /// where a connection asks as soon as it is answered.
    pub(crate) offered: Option<f64>,
    /// Of so many rounds it is measured in one.
    pub(crate) every: usize,
}

const fn candidate(
    name: &'static str,
    at: At,
    ask: Ask,
    connections: usize,
    count: usize,
    expect: u16,
) -> Candidate {
    Candidate { name, at, ask, connections, count, expect, offered: None, every: 1 }
}

/// It is far from its bound.
const fn seldom(candidate: Candidate) -> Candidate {
    Candidate { every: 3, ..candidate }
}

/// No bound is about it.
const fn aside(candidate: Candidate) -> Candidate {
    Candidate { every: 6, ..candidate }
}

/// What tells how much the server takes: what `embedded` does, once more, right before more than that arrives.
pub(crate) const CAPACITY: Candidate = candidate("capacity", At::Embedded, Ask::Order, 256, 50_000, 201);

/// Those that are measured in the same rounds, in the order of a round; those that are compared are neighbours. The
/// servers of a sitting are gone when the next begins: an idle node, its Redis and its database take some hundredths
/// of a core together, and what they do disturbs whoever is measured beside them.
pub(crate) const SITTINGS: [&[Candidate]; 4] = [&PROCESS, &PROXY, &GATE, &LEDGER];

/// What one process does, and the classic way beside it.
const PROCESS: [Candidate; 11] = [
    aside(candidate("generator", At::Generator, Ask::Health, 256, 200_000, 200)),
    aside(candidate("read", At::Embedded, Ask::Item, 256, 50_000, 200)),
    aside(candidate("pass", At::Embedded, Ask::Pass, 256, 50_000, 201)),
    seldom(candidate("refusal", At::Embedded, Ask::SoldOut, 256, 80_000, 409)),
    candidate("ceiling", At::Embedded, Ask::Health, 256, 80_000, 200),
    candidate("embedded", At::Embedded, Ask::Order, 256, 60_000, 201),
    candidate("classic", At::Classic, Ask::Order, 256, 50_000, 201),
    seldom(candidate("classic_64", At::Classic, Ask::Order, 64, 50_000, 201)),
    seldom(candidate("embedded_64", At::Embedded, Ask::Order, 64, 50_000, 201)),
    aside(candidate("draw", At::Embedded, Ask::Play, 256, 50_000, 201)),
    // Over twice as many connections, so that more wait at the server than it is used to; for as long.
    Candidate { offered: Some(3.0), ..candidate("overload", At::Embedded, Ask::Order, 512, 150_000, 201) },
];

/// The deployment that the README recommends: pages and orders share the proxy's pool of connections. Both servers
/// are the same but for `http.fast_path`.
const PROXY: [Candidate; 2] = [
    seldom(candidate("behind_proxy", At::Proxied, Ask::OrderOrPage, 256, 30_000, 201)),
    seldom(candidate("behind_proxy_hyper", At::ProxiedHyper, Ask::OrderOrPage, 256, 30_000, 201)),
];

/// What a node answers after its gate, and the classic way once more: both write to Redis and wait for no database.
const GATE: [Candidate; 2] = [
    candidate("classic_beside_nodes", At::Classic, Ask::Order, 256, 50_000, 201),
    candidate("cluster_202", At::Cluster202, Ask::Order, 256, 40_000, 202),
];

/// What a node answers after the database's commit, and what it is compared with.
const LEDGER: [Candidate; 3] = [
    aside(candidate("cluster_202_one_by_one", At::OneByOne, Ask::Order, 256, 20_000, 202)),
    seldom(candidate("cluster_201", At::Cluster201, Ask::Order, 256, 20_000, 201)),
    seldom(candidate("row_lock", At::RowLock, Ask::Order, 256, 2_000, 201)),
];
