//! Buyers and their sessions. Tokens are kept as digests only.

use rusqlite::{Connection, OptionalExtension, params};
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

/// Whose token it is, and until when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    pub user: UserId,
    pub expires_at: Moment,
    pub slides: bool,
}

pub(super) fn insert_session(tx: &Connection, token: &[u8; 32], session: Session) -> rusqlite::Result<()> {
    let row = params![token, sql(session.user.raw()), session.expires_at.millis(), session.slides];
    tx.prepare_cached("INSERT INTO session VALUES (?, ?, ?, ?)")?.execute(row)?;
    Ok(())
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
                let mut session = tx.prepare_cached("INSERT INTO session VALUES (?, ?, ?, 0)")?;
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
    pub fn session(&self, token: &[u8; 32]) -> Result<Option<Session>, LedgerError> {
        self.read(|connection| {
            connection
                .prepare_cached("SELECT user, expires_at, slides FROM session WHERE token = ?")?
                .query_row([token], |row| {
                    Ok(Session {
                        user: UserId::from_raw(id(row, "user")?),
                        expires_at: row.get("expires_at").map(Moment::from_millis)?,
                        slides: row.get("slides")?,
                    })
                })
                .optional()
        })
    }

    /// A session that lasts longer whenever it is used.
    pub async fn open_session(&self, token: [u8; 32], session: Session) -> Result<(), LedgerError> {
        self.writer.write(move |tx| insert_session(tx, &token, session)).await
    }

    pub async fn extend_session(&self, token: [u8; 32], until: Moment) -> Result<(), LedgerError> {
        let update = "UPDATE session SET expires_at = ? WHERE token = ?";
        self.writer.write(move |tx| tx.execute(update, params![until.millis(), token]).map(|_| ())).await
    }

    pub async fn end_session(&self, token: [u8; 32]) -> Result<(), LedgerError> {
        self.writer
            .write(move |tx| tx.execute("DELETE FROM session WHERE token = ?", [token]).map(|_| ()))
            .await
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
