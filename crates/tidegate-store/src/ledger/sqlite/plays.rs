//! Plays: recorded with their place in the draw's history, their prize and its delivery; found and listed.

use rusqlite::{Connection, OptionalExtension, Row, params};
use tidegate_core::dealer::{Dealt, link};
use tidegate_core::{
    Campaign, CampaignId, Claim, Granted, IdempotencyKey, Moment, Play, PlayId, PlayState, PrizeNumber,
    Rejection, UserId,
};

use super::SqliteLedger;
use super::deliveries;
use super::draws::take_prize;
use super::rows::{broken, id, moment, sql, word};
use crate::ledger::{History, LedgerError, Page};

/// Records a play whose seat is held already: its prize, its place in the history, its delivery. `false` if the prize is
/// gone, and then nothing was changed.
pub(super) fn record(
    tx: &Connection,
    campaign: &Campaign,
    claim: &Claim,
    history: &mut History,
    now: Moment,
) -> rusqlite::Result<bool> {
    let Granted::Play { client_seed, prize } = &claim.granted else {
        return Err(broken("an order is no play"));
    };
    if let Some(prize) = prize
        && !take_prize(tx, claim.campaign, *prize)?
    {
        return Ok(false);
    }
    let seat = claim.slots.iter().next().ok_or_else(|| broken("a play has a seat"))?;
    let number = history.plays + 1;
    let hash = link(&history.hash, Dealt { number, seat, prize: *prize, client_seed });
    *history = History { plays: number, hash };
    insert(tx, claim, PlayState::Played, None, Some(history), now)?;
    if let Some(prize) = prize {
        deliveries::owe_prize(tx, campaign, claim, *prize, now)?;
    }
    Ok(true)
}

/// Writes the row. Only a play that is played has a place in the history, a prize, and a key that is used up.
pub(super) fn insert(
    tx: &Connection,
    claim: &Claim,
    state: PlayState,
    reason: Option<Rejection>,
    history: Option<&History>,
    now: Moment,
) -> rusqlite::Result<()> {
    let Granted::Play { client_seed, prize } = &claim.granted else {
        return Err(broken("an order is no play"));
    };
    let played = state == PlayState::Played;
    tx.prepare_cached("INSERT INTO play VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")?.execute(
        params![
            sql(claim.id.raw()),
            sql(claim.campaign.raw()),
            sql(claim.user.raw()),
            claim.slots.iter().next(),
            client_seed,
            prize.filter(|_| played),
            state.as_str(),
            reason.map(Rejection::code),
            history.map(|history| sql(history.plays)),
            history.map(|history| history.hash),
            claim.key.filter(|_| played).map(|key| key.0),
            claim.created_at.millis(),
            now.millis()
        ],
    )?;
    Ok(())
}

fn play(row: &Row<'_>) -> rusqlite::Result<Play> {
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

/// Hands every play of a draw's history to `look`, in order, until it says `false`.
pub(super) fn replay(
    connection: &Connection,
    campaign: CampaignId,
    (from, through): (u64, u64),
    mut look: impl FnMut(Play) -> bool,
) -> rusqlite::Result<()> {
    let mut select = connection.prepare_cached(
        "SELECT * FROM play WHERE campaign = ? AND number >= ? AND number <= ? ORDER BY number",
    )?;
    let mut rows = select.query(params![sql(campaign.raw()), sql(from), sql(through)])?;
    while let Some(row) = rows.next()? {
        if !look(play(row)?) {
            break;
        }
    }
    Ok(())
}

pub(super) fn by_id(connection: &Connection, id: PlayId) -> rusqlite::Result<Option<Play>> {
    let mut select = connection.prepare_cached("SELECT * FROM play WHERE id = ?")?;
    select.query_row([sql(id.raw())], play).optional()
}

impl SqliteLedger {
    pub fn find_play(&self, id: PlayId) -> Result<Option<Play>, LedgerError> {
        self.read(|connection| by_id(connection, id))
    }

    pub fn find_play_by_key(&self, user: UserId, key: IdempotencyKey) -> Result<Option<Play>, LedgerError> {
        self.read(|connection| {
            connection
                .prepare_cached("SELECT * FROM play WHERE user = ? AND key = ?")?
                .query_row(params![sql(user.raw()), key.0], play)
                .optional()
        })
    }

    /// A player's plays, newest first.
    pub fn plays_of(&self, user: UserId, page: Page) -> Result<Vec<Play>, LedgerError> {
        self.read(|connection| {
            let before = page.before.map_or(i64::MAX, sql);
            connection
                .prepare_cached("SELECT * FROM play WHERE user = ? AND id < ? ORDER BY id DESC LIMIT ?")?
                .query_map(params![sql(user.raw()), before, page.limit], play)?
                .collect()
        })
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
        let of_all = "SELECT * FROM play WHERE ?1 IS NULL AND id < ?2 ORDER BY id DESC LIMIT ?3";
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
