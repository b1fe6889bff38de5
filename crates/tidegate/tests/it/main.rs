//! Integration tests of the program over HTTP. Servers are real and private, on free ports, in temporary directories.
//!
//! `make test` runs this binary twice: embedded, and with `TIDEGATE_TEST_ON=cluster` as a node on Redis and PostgreSQL.
//! The second run leaves out the tests in modules named `embedded_only`, and nothing else.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod accounts;
mod bad_input;
mod connections;
mod console;
mod deliveries;
mod draws;
mod expiry;
mod idempotency;
mod lifecycle;
mod limits;
mod live;
mod operators;
mod orders;
mod pages;
mod passes;
mod payments;
mod receiver;
mod stream;
mod support;
mod system;
mod waiting_room;
mod webhooks;

/// Tests of the journal, of SQLite's file, of the program as a process that runs embedded, and byte-for-byte
/// comparisons of answers, which differ on a cluster.
mod embedded_only {
    mod command_line;
    mod crash;
    mod damage;
    mod draw_faults;
    mod fast_path;
    mod fast_path_fuzz;
    mod faults;
    mod lost_log;
    mod power;
    mod readme;
}
