//! Plays, each with its number in the draw's history.

use std::sync::Arc;

use tidegate_core::{CampaignId, IdempotencyKey, Play, PlayId, PlayState, PrizeNumber, UserId};

use super::rows::{id, moment, rejection, sql, word};
use crate::engine;
use crate::engine::{Connection, Database, OptionalExtension, Row, params};
use crate::{LedgerError, Page};

pub(crate) fn play(row: &Row<'_>) -> engine::Result<Play> {
    let number: Option<i64> = row.get("number")?;
    let hash: Option<[u8; 32]> = row.get("hash")?;
    Ok(Play {
        id: PlayId::from_raw(id(row, "id")?),
        campaign: CampaignId::from_raw(id(row, "campaign")?),
        user: UserId::from_raw(id(row, "user")?),
        seat: row.get("seat")?,
        client_seed: row.get("client_seed")?,
        prize: row.get::<_, Option<PrizeNumber>>("prize")?,
        state: word(row, "state", PlayState::parse)?,
        reason: rejection(row)?,
        place: number.map(i64::cast_unsigned).zip(hash),
        created_at: moment(row, "created_at")?,
    })
}

/// Plays per query.
const REPLAY_PAGE: u64 = 10_000;

/// Calls `look` with each play of a draw's history, in order, until it returns `false`.
pub(crate) fn replay(
    connection: &Connection,
    campaign: CampaignId,
    (from, through): (u64, u64),
    mut look: impl FnMut(Play) -> bool,
) -> engine::Result<()> {
    let mut select = connection.prepare_cached(
        "SELECT * FROM play WHERE campaign = ? AND number >= ? AND number <= ? ORDER BY number",
    )?;
    let mut next = from;
    while next <= through {
        let last = through.min(next + REPLAY_PAGE - 1);
        for play in select.query_map(params![sql(campaign.raw()), sql(next), sql(last)], play)? {
            if !look(play?) {
                return Ok(());
            }
        }
        next = last + 1;
    }
    Ok(())
}

pub(crate) fn by_id(connection: &Connection, id: PlayId) -> engine::Result<Option<Play>> {
    let mut select = connection.prepare_cached("SELECT * FROM play WHERE id = ?")?;
    select.query_row([sql(id.raw())], play).optional()
}

#[derive(Clone, Debug)]
pub struct Plays(pub(crate) Arc<Database>);

impl Plays {
    pub async fn get(&self, id: PlayId) -> Result<Option<Play>, LedgerError> {
        self.0.read(move |connection| by_id(connection, id)).await
    }

    pub async fn by_key(&self, user: UserId, key: IdempotencyKey) -> Result<Option<Play>, LedgerError> {
        self.0
            .read(move |connection| {
                connection
                    .prepare_cached("SELECT * FROM play WHERE user = ? AND key = ?")?
                    .query_row(params![sql(user.raw()), key.0], play)
                    .optional()
            })
            .await
    }

    /// A buyer's plays, newest first.
    pub async fn by_buyer(&self, user: UserId, page: Page) -> Result<Vec<Play>, LedgerError> {
        self.0
            .read(move |connection| {
                let before = page.before.map_or(i64::MAX, sql);
                connection
                    .prepare_cached("SELECT * FROM play WHERE user = ? AND id < ? ORDER BY id DESC LIMIT ?")?
                    .query_map(params![sql(user.raw()), before, page.limit], play)?
                    .collect()
            })
            .await
    }

    /// A range of a draw's history, in order.
    pub async fn history_range(
        &self,
        draw: CampaignId,
        from: u64,
        through: u64,
    ) -> Result<Vec<Play>, LedgerError> {
        self.0
            .scan(move |connection| {
                let mut plays = Vec::new();
                replay(connection, draw, (from, through), |play| {
                    plays.push(play);
                    true
                })?;
                Ok(plays)
            })
            .await
    }

    /// All buyers' plays, newest first.
    pub async fn list(&self, draw: Option<CampaignId>, page: Page) -> Result<Vec<Play>, LedgerError> {
        let of_one = "SELECT * FROM play WHERE campaign = ?1 AND id < ?2 ORDER BY id DESC LIMIT ?3";
        let of_all =
            "SELECT * FROM play WHERE CAST(?1 AS BIGINT) IS NULL AND id < ?2 ORDER BY id DESC LIMIT ?3";
        self.0
            .scan(move |connection| {
                let campaign = draw.map(|campaign| sql(campaign.raw()));
                connection
                    .prepare_cached(if campaign.is_some() { of_one } else { of_all })?
                    .query_map(params![campaign, page.before.map_or(i64::MAX, sql), page.limit], play)?
                    .collect()
            })
            .await
    }
}
