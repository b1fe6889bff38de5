//! The Redis gate and its streams, against private servers.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod batches;
mod buyers;
mod differential;
mod gate;
mod late;
mod link;
mod nodes;
mod shards;
mod stream;
mod support;
