//! Shared by the tests of every crate: private servers, network faults, a disk whose power can be cut, conformance
//! suites, and `eventually`.

pub mod chaos_proxy;
pub mod conformance;
mod eventually;
pub mod metrics;
pub mod network;
pub mod power_cut;
pub mod servers;

pub use self::eventually::{Look, eventually, eventually_within};
