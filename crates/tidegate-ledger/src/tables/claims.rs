//! Claims: recorded as orders and plays, or set aside. `recording` decides what becomes of each.

use std::sync::Arc;

use tidegate_core::{Claim, ClaimId, Moment, Rejection};

use super::leases;
use crate::engine::Database;
use crate::recording;
use crate::{Fence, LedgerError, Position, RecordOutcome};

#[derive(Clone, Debug)]
pub struct Claims(pub(crate) Arc<Database>);

impl Claims {
    /// The last journal position that is recorded.
    pub async fn position(&self) -> Result<Position, LedgerError> {
        self.0.read(recording::position).await
    }

    /// Records claims of a stream. Streams have no common position: a claim that is recorded already is recognized by
    /// its id.
    pub async fn record_from_stream(
        &self,
        claims: Vec<Arc<Claim>>,
        now: Moment,
    ) -> Result<Vec<RecordOutcome>, LedgerError> {
        self.0.record(claims, now).await
    }

    /// Like `record_from_stream`, in a transaction that commits only while this lease is held.
    pub async fn record_fenced(
        &self,
        claims: Vec<Arc<Claim>>,
        fence: Fence,
        now: Moment,
    ) -> Result<Vec<RecordOutcome>, LedgerError> {
        let recorded = self
            .0
            .write_alone(move |tx| {
                if !leases::is_held(tx, &fence)? {
                    return Ok(None);
                }
                recording::record(tx, None, &claims, now).map(Some)
            })
            .await?;
        recorded.ok_or_else(|| LedgerError::Unclear("another node has the lease".into()))
    }

    /// The outcomes of those claims that are recorded; `Some` if the claim was rejected.
    pub async fn outcomes_of(
        &self,
        claims: Vec<ClaimId>,
    ) -> Result<Vec<(ClaimId, Option<Rejection>)>, LedgerError> {
        self.0.read(move |connection| recording::outcomes_of(connection, &claims)).await
    }

    /// Sets aside a claim of a stream that cannot be recorded; commits only while the lease, if given, is held.
    pub async fn set_aside_from_stream(
        &self,
        claim: Arc<Claim>,
        why: String,
        fence: Option<Fence>,
        now: Moment,
    ) -> Result<RecordOutcome, LedgerError> {
        let done = self
            .0
            .write_alone(move |tx| match &fence {
                Some(fence) if !leases::is_held(tx, fence)? => Ok(None),
                _ => recording::set_aside(tx, None, &claim, &why, now).map(Some),
            })
            .await?;
        done.ok_or_else(|| LedgerError::Unclear("another node has the lease".into()))
    }

    /// Records claims of a journal, together with their positions; see `Records::record`.
    pub(crate) async fn record_from_journal(
        &self,
        first: Position,
        claims: Vec<Arc<Claim>>,
        now: Moment,
    ) -> Result<Vec<RecordOutcome>, LedgerError> {
        self.0.write_claims(move |tx| recording::record(tx, Some(first), &claims, now)).await
    }

    pub(crate) async fn set_aside_from_journal(
        &self,
        position: Position,
        claim: Arc<Claim>,
        why: String,
        now: Moment,
    ) -> Result<RecordOutcome, LedgerError> {
        self.0.write_claims(move |tx| recording::set_aside(tx, Some(position), &claim, &why, now)).await
    }
}
