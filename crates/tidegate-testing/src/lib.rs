//! Shared by the tests of every crate: private servers, network faults, conformance suites, and `eventually`.

pub mod chaos_proxy;
pub mod conformance;
mod eventually;
pub mod metrics;
pub mod network;
pub mod servers;

pub use self::eventually::{Look, eventually, eventually_within};
