//! Buyers and their sessions. Tokens are kept as digests only.

use tidegate_core::{Moment, UserId};

use super::SqlLedger;
use super::dialect::Column;
use super::engine;
use super::engine::{Connection, OptionalExtension, Values, params, row};
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

pub(super) fn insert_session(tx: &Connection, token: &[u8; 32], session: Session) -> engine::Result<()> {
    let row = params![token, sql(session.user.raw()), session.expires_at.millis(), session.slides];
    tx.prepare_cached("INSERT INTO session VALUES (?, ?, ?, ?)")?.execute(row)?;
    Ok(())
}

impl SqlLedger {
    /// Makes buyers with a session each. `kind` says where they come from.
    pub async fn create_buyers(
        &self,
        kind: &'static str,
        buyers: Vec<NewBuyer>,
        expires_at: Moment,
        by: Actor,
        now: Moment,
        key: Option<Remember>,
    ) -> Result<(), LedgerError> {
        self.write_alone(move |tx| {
            let ids: Vec<i64> = buyers.iter().map(|buyer| sql(buyer.user.raw())).collect();
            let (made_at, ends_at) = (now.millis(), expires_at.millis());
            let rows: Vec<Values<'_>> = ids.iter().map(|id| row![*id, kind, made_at]).collect();
            let columns = [Column::int("id"), Column::text("kind"), Column::int("created_at")];
            tx.change_many(&columns, &rows, "INSERT INTO buyer SELECT id, kind, created_at FROM given")?;
            let rows: Vec<Values<'_>> =
                buyers.iter().zip(&ids).map(|(buyer, id)| row![&buyer.token, *id, ends_at]).collect();
            let columns = [Column::blob("token"), Column::int("id"), Column::int("expires_at")];
            tx.change_many(
                &columns,
                &rows,
                "INSERT INTO session SELECT token, id, expires_at, 0 FROM given",
            )?;
            let first = buyers.first().map_or(0, |buyer| buyer.user.raw());
            remember(tx, key, first, 0, now)?;
            let detail = format!("{} {kind}", buyers.len());
            let told = Told { kind: "buyers.created", campaign: None, subject: first, detail: Some(&detail) };
            tell(tx, &by, now, told)
        })
        .await
    }

    /// Whose token this is the digest of, and until when.
    pub async fn session(&self, token: &[u8; 32]) -> Result<Option<Session>, LedgerError> {
        let token = *token;
        self.read(move |connection| {
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

    /// Whether this buyer has ever ordered or played.
    pub async fn has_claimed(&self, user: UserId) -> Result<bool, LedgerError> {
        let user = sql(user.raw());
        self.read(move |connection| {
            let ordered = "SELECT 1 AS found FROM orders WHERE user = ? LIMIT 1";
            let played = "SELECT 1 AS found FROM play WHERE user = ? LIMIT 1";
            for select in [ordered, played] {
                let mut select = connection.prepare_cached(select)?;
                if select.query_row([user], |row| row.get::<_, i64>("found")).optional()?.is_some() {
                    return Ok(true);
                }
            }
            Ok(false)
        })
        .await
    }

    /// A session that lasts longer whenever it is used.
    pub async fn open_session(&self, token: [u8; 32], session: Session) -> Result<(), LedgerError> {
        self.write(move |tx| insert_session(tx, &token, session)).await
    }

    pub async fn extend_session(&self, token: [u8; 32], until: Moment) -> Result<(), LedgerError> {
        let update = "UPDATE session SET expires_at = ? WHERE token = ?";
        self.write(move |tx| tx.execute(update, params![until.millis(), token]).map(|_| ())).await
    }

    pub async fn end_session(&self, token: [u8; 32]) -> Result<(), LedgerError> {
        self.write(move |tx| tx.execute("DELETE FROM session WHERE token = ?", [token]).map(|_| ())).await
    }

    /// Ends every session of buyers of this kind.
    pub async fn end_sessions(&self, kind: &'static str) -> Result<usize, LedgerError> {
        let delete = "DELETE FROM session WHERE user IN (SELECT id FROM buyer WHERE kind = ?)";
        self.write(move |tx| tx.execute(delete, [kind])).await
    }

    /// Forgets sessions that ended before `now`.
    pub async fn forget_sessions(&self, now: Moment) -> Result<usize, LedgerError> {
        self.write(move |tx| tx.execute("DELETE FROM session WHERE expires_at < ?", [now.millis()])).await
    }
}
