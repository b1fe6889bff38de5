//! One-time codes that are sent to a phone. Stored as digests, with the attempts they have left.

use std::sync::Arc;

use tidegate_core::Moment;

use super::rows::moment;
use crate::LedgerError;
use crate::engine::{self, Connection, Database, OptionalExtension, params};

/// Maximum number of codes per day.
#[derive(Clone, Copy, Debug)]
pub struct CodeLimits {
    pub per_number: u32,
    pub per_address: u32,
}

/// A code to send.
#[derive(Clone, Debug)]
pub struct NewCode {
    pub phone: String,
    pub purpose: &'static str,
    pub address: String,
    pub digest: [u8; 32],
    pub expires_at: Moment,
    pub tries: u32,
    /// No new code is issued if the last one was sent after this time.
    pub resend_before: Moment,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeIssueOutcome {
    Issued,
    /// Time at which the last code was sent.
    TooSoon(Moment),
    TooMany,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeCheck {
    Valid,
    Invalid,
    /// No code was sent, it has expired, or its attempts are used up.
    Expired,
}

/// Serializes transactions about this name until the commit; a no-op on SQLite.
fn alone(tx: &Connection, name: &str) -> engine::Result<()> {
    if tx.is_shared() {
        tx.query_row("SELECT 1 FROM pg_advisory_xact_lock(hashtext(?))", [name], |_| Ok(()))?;
    }
    Ok(())
}

const DAY_MS: i64 = 24 * 3600 * 1000;

fn put_code(
    tx: &Connection,
    code: &NewCode,
    limits: CodeLimits,
    now: Moment,
) -> engine::Result<CodeIssueOutcome> {
    alone(tx, &code.phone)?;
    let last: Option<Moment> = tx
        .prepare_cached("SELECT max(sent_at) AS sent_at FROM code WHERE phone = ? HAVING count(*) > 0")?
        .query_row([&code.phone], |row| moment(row, "sent_at"))
        .optional()?;
    if let Some(last) = last.filter(|last| *last > code.resend_before) {
        return Ok(CodeIssueOutcome::TooSoon(last));
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
            return Ok(CodeIssueOutcome::TooMany);
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
    Ok(CodeIssueOutcome::Issued)
}

/// A valid attempt and the last invalid one both end the code.
fn try_code(
    tx: &Connection,
    phone: &str,
    purpose: &str,
    digest: &[u8; 32],
    now: Moment,
) -> engine::Result<CodeCheck> {
    let found: Option<([u8; 32], i64, u32)> = tx
        .prepare_cached(
            "SELECT digest, expires_at, tries_left FROM code WHERE phone = ? AND purpose = ?
             /*pg FOR UPDATE */",
        )?
        .query_row(params![phone, purpose], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    let Some((expected, expires_at, tries_left)) = found else { return Ok(CodeCheck::Expired) };
    if now.millis() >= expires_at || tries_left == 0 {
        return Ok(CodeCheck::Expired);
    }
    let right = expected == *digest;
    let tries_left = if right { 0 } else { tries_left - 1 };
    // The row stays until it expires, without attempts left: it still says when the last code was sent.
    tx.execute(
        "UPDATE code SET tries_left = ? WHERE phone = ? AND purpose = ?",
        params![tries_left, phone, purpose],
    )?;
    Ok(if right { CodeCheck::Valid } else { CodeCheck::Invalid })
}

#[derive(Clone, Debug)]
pub struct OneTimeCodes(pub(crate) Arc<Database>);

impl OneTimeCodes {
    /// Stores a code before it is sent, unless the last one is too recent or a daily limit is reached.
    pub async fn issue(
        &self,
        code: NewCode,
        limits: CodeLimits,
        now: Moment,
    ) -> Result<CodeIssueOutcome, LedgerError> {
        self.0.write(move |tx| put_code(tx, &code, limits, now)).await
    }

    /// Checks a code; each call counts as an attempt.
    pub async fn check(
        &self,
        phone: String,
        purpose: &'static str,
        digest: [u8; 32],
        now: Moment,
    ) -> Result<CodeCheck, LedgerError> {
        self.0.write(move |tx| try_code(tx, &phone, purpose, &digest, now)).await
    }

    /// Deletes expired codes and the counts of earlier days.
    pub async fn delete_expired(&self, now: Moment) -> Result<(), LedgerError> {
        self.0
            .write(move |tx| {
                tx.execute("DELETE FROM code WHERE expires_at < ?", [now.millis()])?;
                tx.execute("DELETE FROM code_count WHERE day < ?", [now.millis() / DAY_MS])?;
                Ok(())
            })
            .await
    }
}
