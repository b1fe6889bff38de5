//! Draws: what a campaign has besides, when its slots are seats.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Row, params};
use tidegate_core::dealer::NO_PLAYS;
use tidegate_core::draw::{Grant, PrizeKind, Strategy};
use tidegate_core::{Campaign, CampaignId, Draw, Prize, PrizeNumber, PrizeSeed};

use super::SqliteLedger;
use super::campaigns::put_draft;
use super::rows::{broken, id, sql, word};
use crate::ledger::{History, LedgerError};

pub(super) fn read(connection: &Connection, campaign: CampaignId) -> rusqlite::Result<Arc<Draw>> {
    let raw = sql(campaign.raw());
    let prizes = connection
        .prepare_cached("SELECT * FROM prize WHERE campaign = ? ORDER BY number")?
        .query_map([raw], prize)?
        .collect::<rusqlite::Result<_>>()?;
    connection.prepare_cached("SELECT name, strategy, seed FROM draw WHERE campaign = ?")?.query_row(
        [raw],
        |row| {
            let strategy = word(row, "strategy", Strategy::parse)?;
            Ok(Arc::new(Draw { name: row.get("name")?, strategy, prizes, seed: row.get("seed")? }))
        },
    )
}

fn prize(row: &Row<'_>) -> rusqlite::Result<Prize> {
    Ok(Prize {
        name: row.get("name")?,
        kind: word(row, "kind", PrizeKind::parse)?,
        odds: row.get("odds")?,
        stock: row.get("stock")?,
        grant: word(row, "granted", Grant::parse)?,
        content: row.get("content")?,
    })
}

/// Writes the draw of a draft, and its codes prize by prize, in place of what was there.
pub(super) fn write(tx: &Connection, campaign: &Campaign, codes: &[Vec<String>]) -> rusqlite::Result<()> {
    let Some(draw) = campaign.draw() else { return Err(broken("only a draw has prizes")) };
    let raw = sql(campaign.id.raw());
    tx.execute("DELETE FROM prize WHERE campaign = ?", [raw])?;
    tx.execute(
        "INSERT INTO draw (campaign, name, strategy, seed, hash) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (campaign) DO UPDATE SET name = ?2, strategy = ?3, seed = ?4",
        params![raw, draw.name, draw.strategy.as_str(), draw.seed, NO_PLAYS],
    )?;
    for (prize, number) in draw.prizes.iter().zip(1_u32..) {
        tx.prepare_cached(
            "INSERT INTO prize (campaign, number, name, kind, odds, stock, granted, content)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        )?
        .execute(params![
            raw,
            number,
            prize.name,
            prize.kind.as_str(),
            prize.odds,
            prize.stock,
            prize.grant.as_str(),
            prize.content
        ])?;
    }
    let mut insert = tx.prepare_cached("INSERT INTO prize_code VALUES (?, ?, ?, ?, NULL)")?;
    for (codes, prize) in codes.iter().zip(1_u32..) {
        for (code, number) in codes.iter().zip(1_u32..) {
            insert.execute(params![raw, prize, number, code])?;
        }
    }
    Ok(())
}

/// What the gate's prizes are rebuilt from.
pub(super) fn prize_seed(
    connection: &Connection,
    campaign: &Campaign,
) -> rusqlite::Result<Option<PrizeSeed>> {
    let Some(draw) = campaign.draw() else { return Ok(None) };
    let taken = taken(connection, campaign.id)?;
    Ok(Some(PrizeSeed { draw: draw.clone(), seats: campaign.stock, taken }))
}

fn taken(connection: &Connection, campaign: CampaignId) -> rusqlite::Result<Vec<u32>> {
    connection
        .prepare_cached("SELECT taken FROM prize WHERE campaign = ? ORDER BY number")?
        .query_map([sql(campaign.raw())], |row| row.get(0))?
        .collect()
}

pub(super) fn history(connection: &Connection, campaign: CampaignId) -> rusqlite::Result<Option<History>> {
    connection
        .prepare_cached("SELECT plays, hash FROM draw WHERE campaign = ?")?
        .query_row([sql(campaign.raw())], |row| {
            Ok(History { plays: id(row, "plays")?, hash: row.get("hash")? })
        })
        .optional()
}

pub(super) fn set_history(tx: &Connection, campaign: CampaignId, history: &History) -> rusqlite::Result<()> {
    tx.prepare_cached("UPDATE draw SET plays = ?, hash = ? WHERE campaign = ?")?.execute(params![
        sql(history.plays),
        history.hash,
        sql(campaign.raw())
    ])?;
    Ok(())
}

/// Takes one of the prize for a winner; `false` if none is left.
pub(super) fn take_prize(
    tx: &Connection,
    campaign: CampaignId,
    prize: PrizeNumber,
) -> rusqlite::Result<bool> {
    let taken = tx
        .prepare_cached(
            "UPDATE prize SET taken = taken + 1 WHERE campaign = ? AND number = ? AND taken < stock",
        )?
        .execute(params![sql(campaign.raw()), prize])?;
    Ok(taken == 1)
}

impl SqliteLedger {
    /// Replaces a draft's terms; `false` if it is no draft any more.
    pub async fn edit_draw(&self, campaign: Campaign, codes: Vec<Vec<String>>) -> Result<bool, LedgerError> {
        self.writer
            .write_alone(move |tx| {
                let edited = put_draft(tx, &campaign)?;
                if edited {
                    write(tx, &campaign, &codes)?;
                }
                Ok(edited)
            })
            .await
    }

    /// How many of each prize were won.
    pub fn prizes_taken(&self, draw: CampaignId) -> Result<Vec<u32>, LedgerError> {
        self.read(|connection| taken(connection, draw))
    }
}
