//! API keys: with one a machine acts as an operator. Kept as digests; a revoked one stays for a while, to be looked at.

use tidegate_core::{ApiKeyId, Moment, Role};

use super::SqlLedger;
use super::engine;
use super::engine::{Connection, OptionalExtension, Row, params};
use super::events::{Told, tell};
use super::operators::Made;
use super::remembered::remember;
use super::rows::{id, moment, sql, word};
use crate::ledger::{Actor, LedgerError, Remember};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKey {
    pub id: ApiKeyId,
    pub name: String,
    pub role: Role,
    pub created_at: Moment,
    /// Who made it, as the audit log names them.
    pub created_by: String,
    pub revoked_at: Option<Moment>,
    pub last_used_at: Option<Moment>,
}

fn api_key(row: &Row<'_>) -> engine::Result<ApiKey> {
    let maybe = |column: &'static str| -> engine::Result<Option<Moment>> {
        Ok(row.get::<_, Option<i64>>(column)?.map(Moment::from_millis))
    };
    Ok(ApiKey {
        id: ApiKeyId::from_raw(id(row, "id")?),
        name: row.get("name")?,
        role: word(row, "role", Role::parse)?,
        created_at: moment(row, "created_at")?,
        created_by: row.get("created_by")?,
        revoked_at: maybe("revoked_at")?,
        last_used_at: maybe("last_used_at")?,
    })
}

fn insert(tx: &Connection, key: &ApiKey, digest: &[u8; 32], most: u32) -> engine::Result<Made> {
    let count = "SELECT count(*) AS keys FROM api_key WHERE revoked_at IS NULL";
    let keys: u32 = tx.query_row(count, params![], |row| row.get("keys"))?;
    if keys >= most {
        return Ok(Made::TooMany);
    }
    let inserted = tx.execute(
        "INSERT INTO api_key (id, name, digest, role, created_at, created_by) VALUES (?, ?, ?, ?, ?, ?)
         ON CONFLICT (name) WHERE revoked_at IS NULL DO NOTHING",
        params![
            sql(key.id.raw()),
            key.name,
            digest,
            key.role.as_str(),
            key.created_at.millis(),
            key.created_by
        ],
    )?;
    Ok(if inserted == 1 { Made::Yes } else { Made::NameTaken })
}

fn told<'a>(key: ApiKeyId, kind: &'static str, detail: &'a str) -> Told<'a> {
    Told { kind, campaign: None, subject: key.raw(), detail: Some(detail) }
}

impl SqlLedger {
    /// Those that work first, then those that were revoked; newest first, `most` at most.
    pub async fn api_keys(&self, most: u32) -> Result<Vec<ApiKey>, LedgerError> {
        self.read(move |connection| {
            connection
                .prepare_cached(
                    "SELECT * FROM api_key ORDER BY CASE WHEN revoked_at IS NULL THEN 0 ELSE 1 END, id DESC LIMIT ?",
                )?
                .query_map([most], api_key)?
                .collect()
        })
        .await
    }

    pub async fn api_key(&self, id: ApiKeyId) -> Result<Option<ApiKey>, LedgerError> {
        self.read(move |connection| {
            let mut select = connection.prepare_cached("SELECT * FROM api_key WHERE id = ?")?;
            select.query_row([sql(id.raw())], api_key).optional()
        })
        .await
    }

    /// The key this is the digest of, if it works.
    pub async fn working_key(&self, digest: [u8; 32]) -> Result<Option<ApiKey>, LedgerError> {
        self.read(move |connection| {
            connection
                .prepare_cached("SELECT * FROM api_key WHERE digest = ? AND revoked_at IS NULL")?
                .query_row([digest], api_key)
                .optional()
        })
        .await
    }

    /// Makes a key, unless one that works has its name or `most` work already. A digest that is there already is an error:
    /// chance gives no secret twice.
    pub async fn create_api_key(
        &self,
        key: ApiKey,
        digest: [u8; 32],
        most: u32,
        by: Actor,
        request: Option<Remember>,
    ) -> Result<Made, LedgerError> {
        self.write(move |tx| {
            let made = insert(tx, &key, &digest, most)?;
            if made == Made::Yes {
                remember(tx, request, key.id.raw(), 0, key.created_at)?;
                let detail = format!("{}, {}", key.name, key.role.as_str());
                tell(tx, &by, key.created_at, told(key.id, "api_key.created", &detail))?;
            }
            Ok(made)
        })
        .await
    }

    /// Revokes a key and gives its digest; `None` if there is none of this id that works.
    pub async fn revoke_api_key(
        &self,
        id: ApiKeyId,
        by: Actor,
        now: Moment,
    ) -> Result<Option<[u8; 32]>, LedgerError> {
        self.write(move |tx| {
            let raw = sql(id.raw());
            let revoked = tx.execute(
                "UPDATE api_key SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL",
                params![raw, now.millis()],
            )?;
            if revoked != 1 {
                return Ok(None);
            }
            let (name, digest): (String, [u8; 32]) = tx
                .prepare_cached("SELECT name, digest FROM api_key WHERE id = ?")?
                .query_row([raw], |row| Ok((row.get("name")?, row.get("digest")?)))?;
            tell(tx, &by, now, told(id, "api_key.revoked", &name))?;
            Ok(Some(digest))
        })
        .await
    }

    pub async fn note_key_used(&self, id: ApiKeyId, now: Moment) -> Result<(), LedgerError> {
        let update = "UPDATE api_key SET last_used_at = ? WHERE id = ?";
        self.write(move |tx| tx.execute(update, params![now.millis(), sql(id.raw())]).map(|_| ())).await
    }

    /// Forgets keys that were revoked before this moment; the audit log still has them.
    pub async fn forget_api_keys(&self, before: Moment) -> Result<usize, LedgerError> {
        self.write(move |tx| tx.execute("DELETE FROM api_key WHERE revoked_at < ?", [before.millis()])).await
    }
}
