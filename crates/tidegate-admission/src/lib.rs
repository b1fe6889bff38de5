//! Admission: the gate decides claims, the intake keeps them until the ledger has recorded them.
//!
//! Two deployments: `embedded` has the gate in memory and the intake in a journal on disk, `cluster` has both on Redis.
//! Invariants: an accepted claim is in the intake in the same step; once `Durability` resolves with `Ok`, the claim
//! survives any crash.

mod admission;
mod burst;
pub mod cluster;
pub mod embedded;
pub mod gate;
pub mod intake;
pub mod once_only;
pub mod recorder;
pub mod waiting_room;

pub use crate::admission::{AcceptedClaim, Admission, AdmissionState, ClaimError, Durability, Located, Now};
pub use crate::cluster::{Cluster, News};
pub use crate::embedded::Embedded;
pub use crate::embedded::buyer_locks::BuyerLock;
