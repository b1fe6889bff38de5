//! Accounts and the one-time codes that open them. Codes are kept as digests, with the tries they have left.

use tidegate_core::{Moment, UserId};

use super::SqlLedger;
use super::buyers::{Session, insert_session};
use super::engine;
use super::engine::{Connection, OptionalExtension, Param, params};
use super::events::{Told, tell};
use super::rows::{id, moment, sql};
use crate::ledger::{Actor, LedgerError};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    pub user: UserId,
    pub phone: String,
    pub name: String,
    /// A hash in PHC form.
    pub password: String,
    pub created_at: Moment,
}

/// How many codes may be sent in a day.
#[derive(Clone, Copy, Debug)]
pub struct CodeLimits {
    pub per_number: u32,
    pub per_address: u32,
}

/// A code about to be sent.
#[derive(Clone, Debug)]
pub struct NewCode {
    pub phone: String,
    pub purpose: &'static str,
    pub address: String,
    pub digest: [u8; 32],
    pub expires_at: Moment,
    pub tries: u32,
    /// A code sent after this is too recent for another.
    pub resend_before: Moment,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeSent {
    Yes,
    /// The last one was sent then.
    TooSoon(Moment),
    TooMany,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeCheck {
    Right,
    Wrong,
    /// None was sent, or it has ended, or its tries are used up.
    Gone,
}

/// Where others write, too, what concerns this name is done one after the other.
fn alone(tx: &Connection, name: &str) -> engine::Result<()> {
    if tx.is_shared() {
        tx.query_row("SELECT 1 FROM pg_advisory_xact_lock(hashtext(?))", [name], |_| Ok(()))?;
    }
    Ok(())
}

const DAY_MS: i64 = 24 * 3600 * 1000;

fn put_code(tx: &Connection, code: &NewCode, limits: CodeLimits, now: Moment) -> engine::Result<CodeSent> {
    alone(tx, &code.phone)?;
    let last: Option<Moment> = tx
        .prepare_cached("SELECT max(sent_at) AS sent_at FROM code WHERE phone = ? HAVING count(*) > 0")?
        .query_row([&code.phone], |row| moment(row, "sent_at"))
        .optional()?;
    if let Some(last) = last.filter(|last| *last > code.resend_before) {
        return Ok(CodeSent::TooSoon(last));
    }
    let day = now.millis() / DAY_MS;
    let about = [
        (format!("number {}", code.phone), limits.per_number),
        (format!("address {}", code.address), limits.per_address),
    ];
    for (about, most) in &about {
        let sent: Option<u32> = tx
            .prepare_cached("SELECT sent FROM code_count WHERE day = ? AND about = ?")?
            .query_row(params![day, about], |row| row.get(0))
            .optional()?;
        if sent.unwrap_or(0) >= *most {
            return Ok(CodeSent::TooMany);
        }
    }
    for (about, _) in &about {
        tx.prepare_cached(
            "INSERT INTO code_count VALUES (?, ?, 1)
             ON CONFLICT (day, about) DO UPDATE SET sent = code_count.sent + 1",
        )?
        .execute(params![day, about])?;
    }
    tx.prepare_cached(
        "INSERT INTO code VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (phone, purpose)
         DO UPDATE SET digest = ?3, sent_at = ?4, expires_at = ?5, tries_left = ?6",
    )?
    .execute(params![
        code.phone,
        code.purpose,
        code.digest,
        now.millis(),
        code.expires_at.millis(),
        code.tries
    ])?;
    Ok(CodeSent::Yes)
}

/// A right answer and the last wrong one both end the code.
fn try_code(
    tx: &Connection,
    phone: &str,
    purpose: &str,
    digest: &[u8; 32],
    now: Moment,
) -> engine::Result<CodeCheck> {
    let found: Option<([u8; 32], i64, u32)> = tx
        .prepare_cached("SELECT digest, expires_at, tries_left FROM code WHERE phone = ? AND purpose = ? /*pg FOR UPDATE */",
        )?
        .query_row(params![phone, purpose], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    let Some((expected, expires_at, tries_left)) = found else { return Ok(CodeCheck::Gone) };
    if now.millis() >= expires_at || tries_left == 0 {
        return Ok(CodeCheck::Gone);
    }
    let right = expected == *digest;
    let tries_left = if right { 0 } else { tries_left - 1 };
    // The row stays until it ends, without tries: it still says when the last code was sent.
    tx.execute(
        "UPDATE code SET tries_left = ? WHERE phone = ? AND purpose = ?",
        params![tries_left, phone, purpose],
    )?;
    Ok(if right { CodeCheck::Right } else { CodeCheck::Wrong })
}

impl SqlLedger {
    pub async fn account_by_phone(&self, phone: &str) -> Result<Option<Account>, LedgerError> {
        self.account("SELECT * FROM account WHERE phone = ?", phone.to_owned()).await
    }

    pub async fn account_of(&self, user: UserId) -> Result<Option<Account>, LedgerError> {
        self.account("SELECT * FROM account WHERE user = ?", sql(user.raw())).await
    }

    async fn account(
        &self,
        query: &'static str,
        by: impl Param + Send + 'static,
    ) -> Result<Option<Account>, LedgerError> {
        self.read(move |connection| {
            let mut select = connection.prepare_cached(query)?;
            select
                .query_row([by], |row| {
                    Ok(Account {
                        user: UserId::from_raw(id(row, "user")?),
                        phone: row.get("phone")?,
                        name: row.get("name")?,
                        password: row.get("password")?,
                        created_at: moment(row, "created_at")?,
                    })
                })
                .optional()
        })
        .await
    }

    /// Makes the account and its first session; `false` if the number has one already.
    pub async fn create_account(
        &self,
        account: Account,
        token: [u8; 32],
        session: Session,
    ) -> Result<bool, LedgerError> {
        self.write(move |tx| {
            if tx.prepare_cached("SELECT 1 FROM account WHERE phone = ?")?.exists([&account.phone])? {
                return Ok(false);
            }
            let (user, now) = (sql(account.user.raw()), account.created_at);
            tx.execute("INSERT INTO buyer VALUES (?, 'account', ?)", params![user, now.millis()])?;
            tx.execute(
                "INSERT INTO account VALUES (?, ?, ?, ?, ?)",
                params![user, account.phone, account.name, account.password, now.millis()],
            )?;
            insert_session(tx, &token, session)?;
            let told =
                Told { kind: "buyers.registered", campaign: None, subject: account.user.raw(), detail: None };
            tell(tx, &Actor::Buyer(account.user), now, told)?;
            Ok(true)
        })
        .await
    }

    /// Keeps a code that is about to be sent, unless it is too soon or there were too many.
    pub async fn put_code(
        &self,
        code: NewCode,
        limits: CodeLimits,
        now: Moment,
    ) -> Result<CodeSent, LedgerError> {
        self.write(move |tx| put_code(tx, &code, limits, now)).await
    }

    /// Tries a code; each try counts.
    pub async fn try_code(
        &self,
        phone: String,
        purpose: &'static str,
        digest: [u8; 32],
        now: Moment,
    ) -> Result<CodeCheck, LedgerError> {
        self.write(move |tx| try_code(tx, &phone, purpose, &digest, now)).await
    }

    /// Forgets codes that have ended and counts of earlier days.
    pub async fn forget_codes(&self, now: Moment) -> Result<(), LedgerError> {
        self.write(move |tx| {
            tx.execute("DELETE FROM code WHERE expires_at < ?", [now.millis()])?;
            tx.execute("DELETE FROM code_count WHERE day < ?", [now.millis() / DAY_MS])?;
            Ok(())
        })
        .await
    }
}
