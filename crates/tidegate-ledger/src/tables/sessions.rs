//! Buyers' sessions. Tokens are stored as digests only.

use std::sync::Arc;

use tidegate_core::{Moment, UserId};

use super::rows::{id, sql};
use crate::LedgerError;
use crate::engine::{self, Connection, Database, OptionalExtension, params};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    pub user: UserId,
    pub expires_at: Moment,
    pub slides: bool,
}

pub(crate) fn insert_session(tx: &Connection, token: &[u8; 32], session: Session) -> engine::Result<()> {
    let row = params![token, sql(session.user.raw()), session.expires_at.millis(), session.slides];
    tx.prepare_cached("INSERT INTO session VALUES (?, ?, ?, ?)")?.execute(row)?;
    Ok(())
}

#[derive(Clone, Debug)]
pub struct Sessions(pub(crate) Arc<Database>);

impl Sessions {
    /// Whose token this is the digest of, and until when.
    pub async fn get(&self, token: &[u8; 32]) -> Result<Option<Session>, LedgerError> {
        let token = *token;
        self.0
            .read(move |connection| {
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
            .await
    }

    /// A session that lasts longer whenever it is used.
    pub async fn open(&self, token: [u8; 32], session: Session) -> Result<(), LedgerError> {
        self.0.write(move |tx| insert_session(tx, &token, session)).await
    }

    pub async fn extend(&self, token: [u8; 32], until: Moment) -> Result<(), LedgerError> {
        let update = "UPDATE session SET expires_at = ? WHERE token = ?";
        self.0.write(move |tx| tx.execute(update, params![until.millis(), token]).map(|_| ())).await
    }

    pub async fn end(&self, token: [u8; 32]) -> Result<(), LedgerError> {
        self.0.write(move |tx| tx.execute("DELETE FROM session WHERE token = ?", [token]).map(|_| ())).await
    }

    /// Ends every session of buyers of this kind.
    pub async fn end_all(&self, kind: &'static str) -> Result<usize, LedgerError> {
        let delete = "DELETE FROM session WHERE user IN (SELECT id FROM buyer WHERE kind = ?)";
        self.0.write(move |tx| tx.execute(delete, [kind])).await
    }

    /// Forgets sessions that ended before `now`.
    pub async fn delete_expired(&self, now: Moment) -> Result<usize, LedgerError> {
        self.0.write(move |tx| tx.execute("DELETE FROM session WHERE expires_at < ?", [now.millis()])).await
    }
}
