//! Gates, intakes and ledgers, and the conformance suite that all of them pass.
//!
//! What always holds here: rules come from the core; time comes in as an argument; the ledger alone says what happened.

pub mod admission;
pub mod conformance;
pub mod data_dir;
pub mod gate;
pub mod intake;
pub mod ledger;
pub mod recorder;
pub mod redis_link;
pub mod waiting;
