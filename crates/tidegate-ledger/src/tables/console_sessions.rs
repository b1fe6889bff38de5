//! Console sessions: browsers in which an operator is signed in. Tokens are stored as digests only.
//!
//! Invariants: a session grants what its operator's account grants at the time of each request; a TOTP code is accepted
//! once, on whichever node.

use std::sync::Arc;

use tidegate_core::{EventKind, Moment, Role};

use super::events::append_event;
use super::operators::{OperatorAccount, event_of};
use super::rows::{moment, sql, word};
use crate::engine::{self, Connection, Database, OptionalExtension, Row, params};
use crate::{Actor, LedgerError};

/// A console session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsoleSessionRecord {
    pub opened_by: OpenedBy,
    pub opened_at: Moment,
    pub expires_at: Moment,
}

/// A console session to open.
#[derive(Clone, Copy, Debug)]
pub struct NewConsoleSession {
    /// The digest of its token.
    pub token: [u8; 32],
    pub opened_at: Moment,
    pub expires_at: Moment,
    /// Digest of the browser's previous session, which ends.
    pub instead_of: Option<[u8; 32]>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenedBy {
    /// The admin key with this digest.
    AdminKey([u8; 32]),
    /// An enabled operator, with their current role.
    Operator { name: String, role: Role },
}

fn console(row: &Row<'_>) -> engine::Result<ConsoleSessionRecord> {
    let key: Option<[u8; 32]> = row.get("admin_key")?;
    let opened_by = match key {
        Some(key) => OpenedBy::AdminKey(key),
        None => OpenedBy::Operator { name: row.get("name")?, role: word(row, "role", Role::parse)? },
    };
    Ok(ConsoleSessionRecord {
        opened_by,
        opened_at: moment(row, "opened_at")?,
        expires_at: moment(row, "expires_at")?,
    })
}

/// Ends a console session, if it exists, and appends the event.
fn end(tx: &Connection, token: [u8; 32], now: Moment) -> engine::Result<()> {
    let whose = tx
        .prepare_cached(
            "SELECT account, name FROM operator_session LEFT JOIN operator_account ON id = account WHERE token = ?",
        )?
        .query_row([token], |row| {
            Ok((row.get::<_, Option<i64>>("account")?, row.get::<_, Option<String>>("name")?))
        })
        .optional()?;
    let Some((account, name)) = whose else { return Ok(()) };
    tx.execute("DELETE FROM operator_session WHERE token = ?", [token])?;
    let by = Actor::Operator(name.as_deref().map(Arc::from));
    let detail = name.as_deref().unwrap_or(WITH_ADMIN_KEY);
    append_event(
        tx,
        &by,
        now,
        event_of(account.unwrap_or(0).cast_unsigned(), EventKind::OperatorSignedOut, detail),
    )
}

/// Audit detail of sessions that the admin key opened: they belong to no account.
const WITH_ADMIN_KEY: &str = "with the admin key";

#[derive(Clone, Debug)]
pub struct ConsoleSessions(pub(crate) Arc<Database>);

impl ConsoleSessions {
    /// Signs an operator in. `false` if the account has changed since its password and code were checked, or if the
    /// code of this TOTP step or of a later one was used before.
    pub async fn open(
        &self,
        console: NewConsoleSession,
        account: OperatorAccount,
        step: Option<u32>,
    ) -> Result<bool, LedgerError> {
        self.0
            .write(move |tx| {
                let raw = sql(account.id.raw());
                let taken = tx.execute(
                    "UPDATE operator_account
                 SET totp_step = CASE WHEN totp IS NULL THEN totp_step ELSE CAST(?4 AS BIGINT) END
                 WHERE id = ?1 AND password = ?2 AND disabled = 0 AND totp IS NOT DISTINCT FROM ?3
                 AND (totp IS NULL OR totp_step < ?4)",
                    params![raw, account.password, account.totp, step.unwrap_or(0)],
                )?;
                if taken != 1 {
                    return Ok(false);
                }
                let NewConsoleSession { token, opened_at, expires_at, instead_of } = console;
                instead_of.map_or(Ok(()), |before| end(tx, before, opened_at))?;
                tx.execute(
                "INSERT INTO operator_session (token, account, opened_at, expires_at) VALUES (?, ?, ?, ?)",
                params![token, raw, opened_at.millis(), expires_at.millis()],
            )?;
                let by = Actor::Operator(Some(Arc::from(account.name.as_str())));
                append_event(
                    tx,
                    &by,
                    opened_at,
                    event_of(account.id.raw(), EventKind::OperatorSignedIn, &account.name),
                )?;
                Ok(true)
            })
            .await
    }

    /// Signs in with the admin key of this digest.
    pub async fn open_with_admin_key(
        &self,
        console: NewConsoleSession,
        admin_key: [u8; 32],
    ) -> Result<(), LedgerError> {
        self.0
            .write(move |tx| {
                let NewConsoleSession { token, opened_at, expires_at, instead_of } = console;
                instead_of.map_or(Ok(()), |before| end(tx, before, opened_at))?;
                tx.execute(
                "INSERT INTO operator_session (token, admin_key, opened_at, expires_at) VALUES (?, ?, ?, ?)",
                params![token, admin_key, opened_at.millis(), expires_at.millis()],
            )?;
                append_event(
                    tx,
                    &Actor::Operator(None),
                    opened_at,
                    event_of(0, EventKind::OperatorSignedIn, WITH_ADMIN_KEY),
                )
            })
            .await
    }

    /// The session with this token digest; `None` also if its operator is disabled.
    pub async fn get(&self, token: [u8; 32]) -> Result<Option<ConsoleSessionRecord>, LedgerError> {
        self.0
            .read(move |connection| {
                connection
                    .prepare_cached(
                        "SELECT admin_key, opened_at, expires_at, name, role FROM operator_session
                     LEFT JOIN operator_account ON operator_account.id = account AND disabled = 0
                     WHERE token = ? AND (admin_key IS NOT NULL OR name IS NOT NULL)",
                    )?
                    .query_row([token], console)
                    .optional()
            })
            .await
    }

    pub async fn extend(&self, token: [u8; 32], until: Moment) -> Result<(), LedgerError> {
        let update = "UPDATE operator_session SET expires_at = ? WHERE token = ?";
        self.0.write(move |tx| tx.execute(update, params![until.millis(), token]).map(|_| ())).await
    }

    pub async fn end(&self, token: [u8; 32], now: Moment) -> Result<(), LedgerError> {
        self.0.write(move |tx| end(tx, token, now)).await
    }

    /// Deletes sessions that expired before `now`.
    pub async fn delete_expired(&self, now: Moment) -> Result<usize, LedgerError> {
        let delete = "DELETE FROM operator_session WHERE expires_at < ?";
        self.0.write(move |tx| tx.execute(delete, [now.millis()])).await
    }
}
