//! Tidegate, the program: use cases, HTTP, workers, command line, configuration.
//!
//! `http | workers | cli → ops`, never each other; only `embedded` and `cluster` build backends.

/// Prints a line. Whoever read it may have gone, as `head` does: that ends nothing.
macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write;
        let _ = writeln!(std::io::stdout(), $($text)*);
    }};
}

pub mod buckets;
pub mod chance;
pub mod charts;
pub mod cli;
pub mod client;
pub mod clock;
pub mod cluster;
pub mod config;
pub mod courier;
pub mod demo;
pub mod embedded;
pub mod health;
pub mod http;
pub mod latency;
pub mod metrics;
pub mod ops;
mod parts;
pub mod rehearse;
pub mod signature;
pub mod telemetry;
pub mod verify;
pub mod workers;
