//! Shared by the tests of every crate: private servers, conformance suites, and `eventually`.

pub mod conformance;
mod eventually;
pub mod metrics;
pub mod servers;

pub use self::eventually::{Look, eventually, eventually_within};
