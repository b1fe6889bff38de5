//! The intake: the log of accepted claims between gate and ledger.
//!
//! What every intake guarantees: an append that succeeded survives a crash; claims come out in the order in
//! which they got their positions, without gaps, until they are said to be recorded; what is not recorded yet
//! can be found by its buyer. `conformance::intake` holds them to it.

pub mod journal;
pub mod stream;

use std::future::Future;
use std::sync::Arc;

use tidegate_core::{Claim, Rejection, UserId};

/// A claim's place in the intake; the first is 1. The ledger commits the last one it has.
pub type Position = u64;

/// Why an append did not succeed.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum AppendError {
    /// Too many claims wait to be recorded. Nothing was kept.
    #[error("too many claims wait to be recorded")]
    Full,
    /// There is no room for it. Nothing was kept.
    #[error("the intake has no room: {0}")]
    NoRoom(String),
    /// The disk failed while it was being written. Only a restart can tell whether it was kept.
    #[error("the intake failed and must be reopened: {0}")]
    Failed(String),
    /// It is not known yet: it takes longer than anybody is to wait. What is on its way stays so.
    #[error("the intake takes too long")]
    Late,
    /// The ledger could not take it.
    #[error("{}", .0.sentence())]
    Rejected(Rejection),
}

/// A claim that the ledger does not have yet.
#[derive(Clone, Debug)]
pub struct Unrecorded {
    pub claim: Arc<Claim>,
    /// It will survive a crash.
    pub durable: bool,
}

pub trait Intake: Send + Sync + 'static {
    /// Resolves once the claim is durable, or late.
    fn append(&self, claim: Claim) -> impl Future<Output = Result<Arc<Claim>, AppendError>> + Send;

    /// The oldest durable claims that are not recorded, with the position of the first; waits until there are any.
    fn next(&self, most: usize) -> impl Future<Output = (Position, Vec<Arc<Claim>>)> + Send;

    /// The ledger has everything up to here. This is noted before anything is waited for: who asks for the next meanwhile is
    /// not given these again.
    fn recorded(&self, through: Position) -> impl Future<Output = ()> + Send;

    /// What this buyer has in the intake, oldest first.
    fn of_user(&self, user: UserId) -> impl Future<Output = Vec<Unrecorded>> + Send;

    /// Claims that are not recorded yet.
    fn depth(&self) -> usize;
}
