//! Plays: recorded with their place in the draw's history, their prize and its delivery; found and listed.

use tidegate_core::{CampaignId, IdempotencyKey, Play, PlayId, PlayState, PrizeNumber, Rejection, UserId};

use super::SqlLedger;
use super::engine;
use super::engine::{Connection, OptionalExtension, Row, params};
use super::rows::{id, moment, sql, word};
use crate::ledger::{LedgerError, Page};

fn play(row: &Row<'_>) -> engine::Result<Play> {
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
        reason: row.get::<_, Option<String>>("reason")?.as_deref().and_then(Rejection::from_code),
        place: number.map(i64::cast_unsigned).zip(hash),
        created_at: moment(row, "created_at")?,
    })
}

/// Plays read at once.
const REPLAY_PAGE: u64 = 10_000;

/// Hands every play of a draw's history to `look`, in order, until it says `false`.
pub(super) fn replay(
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

pub(super) fn by_id(connection: &Connection, id: PlayId) -> engine::Result<Option<Play>> {
    let mut select = connection.prepare_cached("SELECT * FROM play WHERE id = ?")?;
    select.query_row([sql(id.raw())], play).optional()
}

impl SqlLedger {
    pub async fn find_play(&self, id: PlayId) -> Result<Option<Play>, LedgerError> {
        self.read(move |connection| by_id(connection, id)).await
    }

    pub async fn find_play_by_key(
        &self,
        user: UserId,
        key: IdempotencyKey,
    ) -> Result<Option<Play>, LedgerError> {
        self.read(move |connection| {
            connection
                .prepare_cached("SELECT * FROM play WHERE user = ? AND key = ?")?
                .query_row(params![sql(user.raw()), key.0], play)
                .optional()
        })
        .await
    }

    /// A player's plays, newest first.
    pub async fn plays_of(&self, user: UserId, page: Page) -> Result<Vec<Play>, LedgerError> {
        self.read(move |connection| {
            let before = page.before.map_or(i64::MAX, sql);
            connection
                .prepare_cached("SELECT * FROM play WHERE user = ? AND id < ? ORDER BY id DESC LIMIT ?")?
                .query_map(params![sql(user.raw()), before, page.limit], play)?
                .collect()
        })
        .await
    }

    /// A stretch of a draw's history, in order.
    pub async fn plays_between(
        &self,
        draw: CampaignId,
        from: u64,
        through: u64,
    ) -> Result<Vec<Play>, LedgerError> {
        self.scan(move |connection| {
            let mut plays = Vec::new();
            replay(connection, draw, (from, through), |play| {
                plays.push(play);
                true
            })?;
            Ok(plays)
        })
        .await
    }

    /// Everybody's plays, newest first.
    pub async fn plays(&self, draw: Option<CampaignId>, page: Page) -> Result<Vec<Play>, LedgerError> {
        let of_one = "SELECT * FROM play WHERE campaign = ?1 AND id < ?2 ORDER BY id DESC LIMIT ?3";
        let of_all =
            "SELECT * FROM play WHERE CAST(?1 AS BIGINT) IS NULL AND id < ?2 ORDER BY id DESC LIMIT ?3";
        self.scan(move |connection| {
            let campaign = draw.map(|campaign| sql(campaign.raw()));
            connection
                .prepare_cached(if campaign.is_some() { of_one } else { of_all })?
                .query_map(params![campaign, page.before.map_or(i64::MAX, sql), page.limit], play)?
                .collect()
        })
        .await
    }
}
