//! Operators' accounts, and the consoles they have signed in to. Tokens are kept as digests only.
//!
//! What always holds: a code of a second factor is taken once, on whichever node; a console is worth what its operator is
//! at the moment of its use; who is disabled or has a new password has no console any more, from the same commit on;
//! who has a new second factor has at most the one it was put in force from.

use std::fmt;
use std::sync::Arc;

use tidegate_core::{Moment, OperatorId, Role};

use super::SqlLedger;
use super::engine;
use super::engine::{Connection, OptionalExtension, Row, params};
use super::events::{Told, tell};
use super::remembered::remember;
use super::rows::{id, moment, sql, word};
use crate::ledger::{Actor, LedgerError, Remember};

#[derive(Clone, PartialEq, Eq)]
pub struct OperatorAccount {
    pub id: OperatorId,
    pub name: String,
    /// A hash in PHC form.
    pub password: String,
    pub role: Role,
    /// The secret of the second factor.
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

/// What became of something that was to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made {
    Yes,
    NameTaken,
    /// There are as many as there may be.
    TooMany,
}

/// One change of an account.
#[derive(Clone, PartialEq, Eq)]
pub enum OperatorChange {
    Role(Role),
    /// Ends the operator's consoles.
    Disabled(bool),
    /// The hash of a new one; ends the operator's consoles.
    Password(String),
    /// A second factor's secret, with the step of the code that proved it; ends the operator's other consoles. Or none any
    /// more.
    Totp(Option<(Vec<u8>, u32)>),
}

impl OperatorChange {
    /// For the audit log, without anything secret.
    fn told(&self) -> String {
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
        f.write_str(&self.told())
    }
}

/// A console that is signed in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Console {
    pub opened_by: OpenedBy,
    pub opened_at: Moment,
    pub expires_at: Moment,
}

/// A console that is to be opened.
#[derive(Clone, Copy, Debug)]
pub struct NewConsole {
    /// The digest of its token.
    pub token: [u8; 32],
    pub opened_at: Moment,
    pub expires_at: Moment,
    /// The one that the same browser had until now, which ends.
    pub instead_of: Option<[u8; 32]>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenedBy {
    /// Whoever had the admin key of this digest.
    AdminKey([u8; 32]),
    /// An operator who is not disabled, as they are now.
    Operator { name: String, role: Role },
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

fn console(row: &Row<'_>) -> engine::Result<Console> {
    let key: Option<[u8; 32]> = row.get("admin_key")?;
    let opened_by = match key {
        Some(key) => OpenedBy::AdminKey(key),
        None => OpenedBy::Operator { name: row.get("name")?, role: word(row, "role", Role::parse)? },
    };
    Ok(Console { opened_by, opened_at: moment(row, "opened_at")?, expires_at: moment(row, "expires_at")? })
}

fn insert(tx: &Connection, account: &OperatorAccount, most: u32) -> engine::Result<Made> {
    let count = "SELECT count(*) AS accounts FROM operator_account";
    let accounts: u32 = tx.query_row(count, params![], |row| row.get("accounts"))?;
    if accounts >= most {
        return Ok(Made::TooMany);
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
    Ok(if inserted == 1 { Made::Yes } else { Made::NameTaken })
}

/// `keep` is the digest of the console that the change is made from.
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
                // With another secret no code was taken yet, whatever the step.
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

/// Ends a console, if there is one, and tells of it.
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
    tell(tx, &by, now, told(account.unwrap_or(0).cast_unsigned(), "operator.signed_out", detail))
}

/// What is said of consoles that the admin key opened: they are no account's.
const WITH_ADMIN_KEY: &str = "with the admin key";

fn told<'a>(account: u64, kind: &'static str, detail: &'a str) -> Told<'a> {
    Told { kind, campaign: None, subject: account, detail: Some(detail) }
}

impl SqlLedger {
    /// By their names.
    pub async fn operator_accounts(&self) -> Result<Vec<OperatorAccount>, LedgerError> {
        self.read(move |connection| {
            connection
                .prepare_cached("SELECT * FROM operator_account ORDER BY name")?
                .query_map(params![], account)?
                .collect()
        })
        .await
    }

    pub async fn operator_account(&self, name: &str) -> Result<Option<OperatorAccount>, LedgerError> {
        let name = name.to_owned();
        self.read(move |connection| {
            connection
                .prepare_cached("SELECT * FROM operator_account WHERE name = ?")?
                .query_row([name], account)
                .optional()
        })
        .await
    }

    /// Makes an account, unless the name is taken or there are `most` already.
    pub async fn create_operator(
        &self,
        account: OperatorAccount,
        most: u32,
        by: Actor,
        key: Option<Remember>,
    ) -> Result<Made, LedgerError> {
        self.write(move |tx| {
            let made = insert(tx, &account, most)?;
            if made == Made::Yes {
                let now = account.created_at;
                remember(tx, key, account.id.raw(), 0, now)?;
                let detail = format!("{}, {}", account.name, account.role.as_str());
                tell(tx, &by, now, told(account.id.raw(), "operator.created", &detail))?;
            }
            Ok(made)
        })
        .await
    }

    /// Makes these changes together; gives the account as it is then, or `None` if there is none of this name. `keep` is the
    /// digest of the console they are made from.
    pub async fn change_operator(
        &self,
        name: String,
        changes: Vec<OperatorChange>,
        keep: Option<[u8; 32]>,
        by: Actor,
        now: Moment,
    ) -> Result<Option<OperatorAccount>, LedgerError> {
        self.write(move |tx| {
            let find = "SELECT * FROM operator_account WHERE name = ? /*pg FOR UPDATE */";
            let find = || tx.prepare_cached(find)?.query_row([&name], account).optional();
            let Some(found) = find()? else { return Ok(None) };
            for each in &changes {
                change(tx, sql(found.id.raw()), each, keep)?;
                let detail = format!("{name}: {}", each.told());
                tell(tx, &by, now, told(found.id.raw(), "operator.changed", &detail))?;
            }
            find()
        })
        .await
    }

    /// Signs an operator in, as they were when password and code were looked at; `false` if they have changed since, or
    /// the code of this step, or a later one, was taken before.
    pub async fn open_console(
        &self,
        console: NewConsole,
        account: OperatorAccount,
        step: Option<u32>,
    ) -> Result<bool, LedgerError> {
        self.write(move |tx| {
            let raw = sql(account.id.raw());
            let taken = tx.execute(
                "UPDATE operator_account SET totp_step = CASE WHEN totp IS NULL THEN totp_step ELSE CAST(?4 AS BIGINT) END
                 WHERE id = ?1 AND password = ?2 AND disabled = 0 AND totp IS NOT DISTINCT FROM ?3
                 AND (totp IS NULL OR totp_step < ?4)",
                params![raw, account.password, account.totp, step.unwrap_or(0)],
            )?;
            if taken != 1 {
                return Ok(false);
            }
            let NewConsole { token, opened_at, expires_at, instead_of } = console;
            instead_of.map_or(Ok(()), |before| end(tx, before, opened_at))?;
            tx.execute(
                "INSERT INTO operator_session (token, account, opened_at, expires_at) VALUES (?, ?, ?, ?)",
                params![token, raw, opened_at.millis(), expires_at.millis()],
            )?;
            let by = Actor::Operator(Some(Arc::from(account.name.as_str())));
            tell(tx, &by, opened_at, told(account.id.raw(), "operator.signed_in", &account.name))?;
            Ok(true)
        })
        .await
    }

    /// Signs in whoever has the admin key of this digest.
    pub async fn open_key_console(
        &self,
        console: NewConsole,
        admin_key: [u8; 32],
    ) -> Result<(), LedgerError> {
        self.write(move |tx| {
            let NewConsole { token, opened_at, expires_at, instead_of } = console;
            instead_of.map_or(Ok(()), |before| end(tx, before, opened_at))?;
            tx.execute(
                "INSERT INTO operator_session (token, admin_key, opened_at, expires_at) VALUES (?, ?, ?, ?)",
                params![token, admin_key, opened_at.millis(), expires_at.millis()],
            )?;
            tell(tx, &Actor::Operator(None), opened_at, told(0, "operator.signed_in", WITH_ADMIN_KEY))
        })
        .await
    }

    /// The console this is the digest of; `None` too where its operator is disabled.
    pub async fn console(&self, token: [u8; 32]) -> Result<Option<Console>, LedgerError> {
        self.read(move |connection| {
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

    pub async fn extend_console(&self, token: [u8; 32], until: Moment) -> Result<(), LedgerError> {
        let update = "UPDATE operator_session SET expires_at = ? WHERE token = ?";
        self.write(move |tx| tx.execute(update, params![until.millis(), token]).map(|_| ())).await
    }

    pub async fn end_console(&self, token: [u8; 32], now: Moment) -> Result<(), LedgerError> {
        self.write(move |tx| end(tx, token, now)).await
    }

    /// Takes the code of this step, for something else than signing in; `false` if it, or a later one, was taken before, or
    /// the factor is another by now.
    pub async fn take_code(&self, account: OperatorAccount, step: u32) -> Result<bool, LedgerError> {
        let update = "UPDATE operator_account SET totp_step = ?2
                      WHERE id = ?1 AND totp IS NOT DISTINCT FROM ?3 AND totp_step < ?2";
        let taken =
            self.write(move |tx| tx.execute(update, params![sql(account.id.raw()), step, account.totp]));
        Ok(taken.await? == 1)
    }

    /// Writes into the log that somebody did not get in as this operator.
    pub async fn tell_refused(
        &self,
        account: OperatorId,
        kind: &'static str,
        detail: String,
        now: Moment,
    ) -> Result<(), LedgerError> {
        self.write(move |tx| tell(tx, &Actor::Clock, now, told(account.raw(), kind, &detail))).await
    }

    /// Forgets consoles that ended before `now`.
    pub async fn forget_consoles(&self, now: Moment) -> Result<usize, LedgerError> {
        let delete = "DELETE FROM operator_session WHERE expires_at < ?";
        self.write(move |tx| tx.execute(delete, [now.millis()])).await
    }
}
