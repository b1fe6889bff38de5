//! The port of the intake: the log of accepted claims between gate and ledger.
//!
//! Every intake guarantees: an append that succeeded survives a crash; claims are read in the order of their positions,
//! without gaps, until they are marked as recorded; an unrecorded claim can be found by its user. The suite
//! `conformance::intake` checks every implementation.

use std::future::Future;
use std::sync::Arc;

use tidegate_core::{Claim, Rejection, UserId};
use tidegate_ledger::Position;

/// Why an append did not succeed.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum AppendError {
    /// Nothing was kept.
    #[error("too many claims wait to be recorded")]
    Full,
    /// Nothing was kept.
    #[error("the intake has no space: {0}")]
    NoSpace(String),
    /// A write failed. Only a restart can tell whether the claim was kept.
    #[error("the intake failed and must be reopened: {0}")]
    Failed(String),
    /// The claim is not durable within the time that a request waits. It stays on its way.
    #[error("the intake takes too long")]
    Late,
    /// The ledger rejected the claim.
    #[error("{}", .0.sentence())]
    Rejected(Rejection),
}

/// A claim that the ledger does not have yet.
#[derive(Clone, Debug)]
pub struct Unrecorded {
    pub claim: Arc<Claim>,
    /// It survives a crash.
    pub durable: bool,
}

pub trait Intake: Send + Sync + 'static {
    /// Resolves once the claim is durable, or late.
    fn append(&self, claim: Claim) -> impl Future<Output = Result<Arc<Claim>, AppendError>> + Send;

    /// Up to `max` of the oldest durable claims that are not recorded, with the position of the first. Waits until
    /// there are any.
    fn next(&self, max: usize) -> impl Future<Output = (Position, Vec<Arc<Claim>>)> + Send;

    /// The ledger has every claim up to `through`. The implementation notes this before it first waits, so that a
    /// concurrent `next` does not return these claims again.
    fn recorded(&self, through: Position) -> impl Future<Output = ()> + Send;

    /// The unrecorded claims of this user, oldest first.
    fn unrecorded_of(&self, user: UserId) -> impl Future<Output = Vec<Unrecorded>> + Send;

    /// The number of claims that are not recorded yet.
    fn depth(&self) -> usize;
}
