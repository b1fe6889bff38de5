//! Clusters of the real program on real Redis and PostgreSQL servers: exact sales, expiry, faults, unavailable servers.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod changes;
mod expiry;
mod faults;
mod silence;
mod trouble;
mod world;
