//! Nodes of the real program on a real Redis and PostgreSQL: what a cluster must show, and what its bad days may not
//! do.

#![expect(clippy::unwrap_used, reason = "a test says what it expects by failing")]

mod expiry;
mod faults;
mod trouble;
mod world;
