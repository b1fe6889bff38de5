//! What is measured: every candidate, what it is asked, over how many connections and how often.
//!
//! The counts are such that a run takes about two seconds on two cores.

/// The server that is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum At {
    /// The canned answers.
    Generator,
    Embedded,
    Classic,
}

/// What it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// Whether it is alive, with an order's headers and body.
    Health,
    /// An order of a fresh buyer in a sale that has one for everybody.
    Order,
    /// An order in a sale that is sold out.
    SoldOut,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub(crate) name: &'static str,
    pub(crate) at: At,
    pub(crate) ask: Ask,
    pub(crate) connections: usize,
    pub(crate) count: usize,
    pub(crate) expect: u16,
}

const fn candidate(
    name: &'static str,
    at: At,
    ask: Ask,
    connections: usize,
    count: usize,
    expect: u16,
) -> Candidate {
    Candidate { name, at, ask, connections, count, expect }
}

/// In the order of a round; those that are compared are neighbours.
pub(crate) const CANDIDATES: [Candidate; 5] = [
    candidate("generator", At::Generator, Ask::Health, 256, 400_000, 200),
    candidate("ceiling", At::Embedded, Ask::Health, 256, 180_000, 200),
    candidate("refusal", At::Embedded, Ask::SoldOut, 256, 120_000, 409),
    candidate("embedded", At::Embedded, Ask::Order, 256, 100_000, 201),
    candidate("classic", At::Classic, Ask::Order, 256, 100_000, 201),
];
