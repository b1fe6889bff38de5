//! Tidegate, the program: configuration, wiring, listener, workers, command line, demo.
//!
//! Only this crate knows which backends there are, and only `embedded` and `cluster` build them.

pub mod cli;
pub mod cluster;
pub mod config;
pub mod demo;
pub mod embedded;
pub mod listener;
pub mod site;
pub mod starting;
pub mod telemetry;
mod wiring;
pub mod workers;
