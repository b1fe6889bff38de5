//! The parts on Redis, against real and private servers.

#![expect(clippy::unwrap_used, reason = "a test says what it expects by failing")]

mod batches;
mod buyers;
mod gate;
mod nodes;
