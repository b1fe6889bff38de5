//! Operators' accounts.
//!
//! Invariants: disabling an operator or changing their password ends all their console sessions in the same commit; a
//! new second factor ends all but the session it was enabled from; a TOTP code is accepted once, on whichever node.

use std::fmt;
use std::sync::Arc;

use tidegate_core::{EventKind, Moment, OperatorId, Role};

use super::events::{NewEvent, append_event};
use super::idempotency::insert_key;
use super::rows::{id, moment, sql, word};
use crate::engine;
use crate::engine::{Connection, Database, OptionalExtension, Row, params};
use crate::{Actor, IdempotentRequest, LedgerError};

#[derive(Clone, PartialEq, Eq)]
pub struct OperatorAccount {
    pub id: OperatorId,
    pub name: String,
    /// A hash in PHC form.
    pub password: String,
    pub role: Role,
    /// The TOTP secret.
    pub totp: Option<Vec<u8>>,
    pub disabled: bool,
    pub created_at: Moment,
}

impl fmt::Debug for OperatorAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OperatorAccount")
            .field("name", &self.name)
            .field("role", &self.role)
            .finish_non_exhaustive()
    }
}

/// The outcome of creating something with a unique name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateOutcome {
    Created,
    NameTaken,
    /// The limit is reached.
    TooMany,
}

/// One change of an account.
#[derive(Clone, PartialEq, Eq)]
pub enum OperatorChange {
    Role(Role),
    /// `true` ends the operator's console sessions.
    Disabled(bool),
    /// A new hash; ends the operator's console sessions.
    Password(String),
    /// A TOTP secret with the step of the code that proved it, which ends the operator's other console sessions; or
    /// none.
    Totp(Option<(Vec<u8>, u32)>),
}

impl OperatorChange {
    /// Text for the audit log, without secrets.
    fn description(&self) -> String {
        match self {
            Self::Role(role) => format!("role {}", role.as_str()),
            Self::Disabled(true) => "disabled".to_owned(),
            Self::Disabled(false) => "enabled".to_owned(),
            Self::Password(_) => "password".to_owned(),
            Self::Totp(Some(_)) => "second factor".to_owned(),
            Self::Totp(None) => "no second factor".to_owned(),
        }
    }
}

impl fmt::Debug for OperatorChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.description())
    }
}

fn account(row: &Row<'_>) -> engine::Result<OperatorAccount> {
    Ok(OperatorAccount {
        id: OperatorId::from_raw(id(row, "id")?),
        name: row.get("name")?,
        password: row.get("password")?,
        role: word(row, "role", Role::parse)?,
        totp: row.get("totp")?,
        disabled: row.get("disabled")?,
        created_at: moment(row, "created_at")?,
    })
}

fn insert(tx: &Connection, account: &OperatorAccount, most: u32) -> engine::Result<CreateOutcome> {
    let count = "SELECT count(*) AS accounts FROM operator_account";
    let accounts: u32 = tx.query_row(count, params![], |row| row.get("accounts"))?;
    if accounts >= most {
        return Ok(CreateOutcome::TooMany);
    }
    let inserted = tx.execute(
        "INSERT INTO operator_account (id, name, password, role, created_at) VALUES (?, ?, ?, ?, ?)
         ON CONFLICT (name) DO NOTHING",
        params![
            sql(account.id.raw()),
            account.name,
            account.password,
            account.role.as_str(),
            account.created_at.millis()
        ],
    )?;
    Ok(if inserted == 1 { CreateOutcome::Created } else { CreateOutcome::NameTaken })
}

/// `keep` is the token digest of the console session that makes the change.
fn change(
    tx: &Connection,
    account: i64,
    change: &OperatorChange,
    keep: Option<[u8; 32]>,
) -> engine::Result<()> {
    match change {
        OperatorChange::Role(role) => tx.execute(
            "UPDATE operator_account SET role = ?2 WHERE id = ?1",
            params![account, role.as_str()],
        )?,
        OperatorChange::Disabled(disabled) => {
            tx.execute("UPDATE operator_account SET disabled = ?2 WHERE id = ?1", params![account, disabled])?
        }
        OperatorChange::Password(hash) => {
            tx.execute("UPDATE operator_account SET password = ?2 WHERE id = ?1", params![account, hash])?
        }
        OperatorChange::Totp(factor) => {
            let (secret, step) = factor.clone().unzip();
            tx.execute(
                // No code of a new secret was used yet, whatever the step.
                "UPDATE operator_account SET totp = ?2,
                     totp_step = CASE WHEN totp IS NOT DISTINCT FROM ?2 AND totp_step > ?3 THEN totp_step
                                 ELSE CAST(?3 AS BIGINT) END WHERE id = ?1",
                params![account, secret, step.unwrap_or(0)],
            )?
        }
    };
    match change {
        OperatorChange::Disabled(true) | OperatorChange::Password(_) => {
            tx.execute("DELETE FROM operator_session WHERE account = ?", [account])?;
        }
        OperatorChange::Totp(Some(_)) => {
            tx.execute(
                "DELETE FROM operator_session WHERE account = ?1 AND token IS DISTINCT FROM ?2",
                params![account, keep],
            )?;
        }
        OperatorChange::Role(_) | OperatorChange::Disabled(false) | OperatorChange::Totp(None) => {}
    }
    Ok(())
}

pub(crate) fn event_of(account: u64, kind: EventKind, detail: &str) -> NewEvent<'_> {
    NewEvent { kind, campaign: None, subject: account, detail: Some(detail) }
}

#[derive(Clone, Debug)]
pub struct Operators(pub(crate) Arc<Database>);

impl Operators {
    /// All accounts, by name.
    pub async fn list(&self) -> Result<Vec<OperatorAccount>, LedgerError> {
        self.0
            .read(move |connection| {
                connection
                    .prepare_cached("SELECT * FROM operator_account ORDER BY name")?
                    .query_map(params![], account)?
                    .collect()
            })
            .await
    }

    pub async fn by_name(&self, name: &str) -> Result<Option<OperatorAccount>, LedgerError> {
        let name = name.to_owned();
        self.0
            .read(move |connection| {
                connection
                    .prepare_cached("SELECT * FROM operator_account WHERE name = ?")?
                    .query_row([name], account)
                    .optional()
            })
            .await
    }

    /// Creates an account, unless the name is taken or `most` accounts exist.
    pub async fn create(
        &self,
        account: OperatorAccount,
        most: u32,
        by: Actor,
        request: Option<IdempotentRequest>,
    ) -> Result<CreateOutcome, LedgerError> {
        self.0
            .write(move |tx| {
                let outcome = insert(tx, &account, most)?;
                if outcome == CreateOutcome::Created {
                    let now = account.created_at;
                    insert_key(tx, request, account.id.raw(), 0, now)?;
                    let detail = format!("{}, {}", account.name, account.role.as_str());
                    append_event(
                        tx,
                        &by,
                        now,
                        event_of(account.id.raw(), EventKind::OperatorCreated, &detail),
                    )?;
                }
                Ok(outcome)
            })
            .await
    }

    /// Makes all changes in one transaction; returns the changed account, or `None` if no account has this name.
    /// `keep` is the token digest of the console session that makes the changes.
    pub async fn update(
        &self,
        name: String,
        changes: Vec<OperatorChange>,
        keep: Option<[u8; 32]>,
        by: Actor,
        now: Moment,
    ) -> Result<Option<OperatorAccount>, LedgerError> {
        self.0
            .write(move |tx| {
                let find = "SELECT * FROM operator_account WHERE name = ? /*pg FOR UPDATE */";
                let find = || tx.prepare_cached(find)?.query_row([&name], account).optional();
                let Some(found) = find()? else { return Ok(None) };
                for each in &changes {
                    change(tx, sql(found.id.raw()), each, keep)?;
                    let detail = format!("{name}: {}", each.description());
                    append_event(
                        tx,
                        &by,
                        now,
                        event_of(found.id.raw(), EventKind::OperatorChanged, &detail),
                    )?;
                }
                find()
            })
            .await
    }

    /// Uses up the code of this TOTP step for another purpose than signing in. `false` if it or a later one was used
    /// before, or if the secret has changed.
    pub async fn consume_totp_step(&self, account: OperatorAccount, step: u32) -> Result<bool, LedgerError> {
        let update = "UPDATE operator_account SET totp_step = ?2
                      WHERE id = ?1 AND totp IS NOT DISTINCT FROM ?3 AND totp_step < ?2";
        let taken =
            self.0.write(move |tx| tx.execute(update, params![sql(account.id.raw()), step, account.totp]));
        Ok(taken.await? == 1)
    }

    /// Appends a failed authentication to the audit log.
    pub async fn log_refusal(
        &self,
        account: OperatorId,
        kind: EventKind,
        detail: String,
        now: Moment,
    ) -> Result<(), LedgerError> {
        self.0
            .write(move |tx| append_event(tx, &Actor::Clock, now, event_of(account.raw(), kind, &detail)))
            .await
    }
}
