//! Buyers and their sessions. Tokens are kept as digests only.

use rusqlite::{OptionalExtension, params};
use tidegate_core::{Moment, UserId};

use super::SqliteLedger;
use super::events::{Told, tell};
use super::remembered::remember;
use super::rows::{id, sql};
use crate::ledger::{Actor, LedgerError, Remember};

/// A buyer to be made, with the digest of their token.
#[derive(Clone, Copy, Debug)]
pub struct NewBuyer {
    pub user: UserId,
    pub token: [u8; 32],
}

impl SqliteLedger {
    /// Makes buyers with a session each. `kind` says where they come from.
    pub async fn create_buyers(
        &self,
        kind: &'static str,
        buyers: Vec<NewBuyer>,
        expires_at: Moment,
        now: Moment,
        key: Option<Remember>,
    ) -> Result<(), LedgerError> {
        self.writer
            .write_alone(move |tx| {
                let mut buyer = tx.prepare_cached("INSERT INTO buyer VALUES (?, ?, ?)")?;
                let mut session = tx.prepare_cached("INSERT INTO session VALUES (?, ?, ?)")?;
                for NewBuyer { user, token } in &buyers {
                    buyer.execute(params![sql(user.raw()), kind, now.millis()])?;
                    session.execute(params![token, sql(user.raw()), expires_at.millis()])?;
                }
                let first = buyers.first().map_or(0, |buyer| buyer.user.raw());
                remember(tx, key, first, 0, now)?;
                let detail = format!("{} {kind}", buyers.len());
                let told =
                    Told { kind: "buyers.created", campaign: None, subject: first, detail: Some(&detail) };
                tell(tx, Actor::Operator, now, told)
            })
            .await
    }

    /// Whose token this is the digest of, and until when.
    pub fn session(&self, token: &[u8; 32]) -> Result<Option<(UserId, Moment)>, LedgerError> {
        self.read(|connection| {
            connection
                .prepare_cached("SELECT user, expires_at FROM session WHERE token = ?")?
                .query_row([token], |row| {
                    Ok((UserId::from_raw(id(row, "user")?), row.get("expires_at").map(Moment::from_millis)?))
                })
                .optional()
        })
    }

    /// Ends every session of buyers of this kind.
    pub async fn end_sessions(&self, kind: &'static str) -> Result<usize, LedgerError> {
        let delete = "DELETE FROM session WHERE user IN (SELECT id FROM buyer WHERE kind = ?)";
        self.writer.write(move |tx| tx.execute(delete, [kind])).await
    }

    /// Forgets sessions that ended before `now`.
    pub async fn forget_sessions(&self, now: Moment) -> Result<usize, LedgerError> {
        self.writer
            .write(move |tx| tx.execute("DELETE FROM session WHERE expires_at < ?", [now.millis()]))
            .await
    }
}
