//! Draws: the prizes, codes and history of campaigns whose slots are seats.

use std::sync::Arc;

use tidegate_core::dealer::NO_PLAYS;
use tidegate_core::draw::{Grant, PrizeKind, Strategy};
use tidegate_core::{Campaign, CampaignId, Draw, Prize, PrizeNumber, PrizeSeed};

use super::campaigns::put_draft;
use super::rows::{broken, id, sql, word};
use crate::engine;
use crate::engine::dialect::Column;
use crate::engine::{Connection, Database, OptionalExtension, Row, Values, params, row};
use crate::{Actor, History, LedgerError};

pub(crate) fn read(connection: &Connection, campaign: CampaignId) -> engine::Result<Arc<Draw>> {
    let raw = sql(campaign.raw());
    let prizes = connection
        .prepare_cached("SELECT * FROM prize WHERE campaign = ? ORDER BY number")?
        .query_map([raw], prize)?
        .collect::<engine::Result<_>>()?;
    connection.prepare_cached("SELECT name, strategy, seed FROM draw WHERE campaign = ?")?.query_row(
        [raw],
        |row| {
            let strategy = word(row, "strategy", Strategy::parse)?;
            Ok(Arc::new(Draw { name: row.get("name")?, strategy, prizes, seed: row.get("seed")? }))
        },
    )
}

fn prize(row: &Row<'_>) -> engine::Result<Prize> {
    Ok(Prize {
        name: row.get("name")?,
        kind: word(row, "kind", PrizeKind::parse)?,
        odds: row.get("odds")?,
        stock: row.get("stock")?,
        grant: word(row, "granted", Grant::parse)?,
        content: row.get("content")?,
    })
}

/// Writes a draft's draw and replaces its prizes and codes; `codes` has one list per prize.
pub(crate) fn write(tx: &Connection, campaign: &Campaign, codes: &[Vec<String>]) -> engine::Result<()> {
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
    let numbered = codes.iter().zip(1_u32..);
    let rows: Vec<Values<'_>> = numbered
        .flat_map(|(codes, prize)| {
            codes.iter().zip(1_u32..).map(move |(code, number)| row![raw, prize, number, code])
        })
        .collect();
    let columns =
        [Column::int("campaign"), Column::int("prize"), Column::int("number"), Column::text("code")];
    let insert = "INSERT INTO prize_code SELECT campaign, prize, number, code, NULL FROM given";
    tx.change_many(&columns, &rows, insert)?;
    Ok(())
}

/// The state that the gate's prizes are rebuilt from.
pub(crate) fn prize_seed(connection: &Connection, campaign: &Campaign) -> engine::Result<Option<PrizeSeed>> {
    let Some(draw) = campaign.draw() else { return Ok(None) };
    let taken = taken(connection, campaign.id)?;
    Ok(Some(PrizeSeed { draw: draw.clone(), seats: campaign.stock, taken }))
}

pub(crate) fn taken(connection: &Connection, campaign: CampaignId) -> engine::Result<Vec<u32>> {
    connection
        .prepare_cached("SELECT taken FROM prize WHERE campaign = ? ORDER BY number")?
        .query_map([sql(campaign.raw())], |row| row.get(0))?
        .collect()
}

pub(crate) fn history(connection: &Connection, campaign: CampaignId) -> engine::Result<Option<History>> {
    connection
        .prepare_cached("SELECT plays, hash FROM draw WHERE campaign = ?")?
        .query_row([sql(campaign.raw())], |row| {
            Ok(History { plays: id(row, "plays")?, hash: row.get("hash")? })
        })
        .optional()
}

pub(crate) fn set_history(tx: &Connection, campaign: CampaignId, history: &History) -> engine::Result<()> {
    tx.prepare_cached("UPDATE draw SET plays = ?, hash = ? WHERE campaign = ?")?.execute(params![
        sql(history.plays),
        history.hash,
        sql(campaign.raw())
    ])?;
    Ok(())
}

/// Takes one unit of the prize for a winner; `false` if none is left.
pub(crate) fn take_prize(tx: &Connection, campaign: CampaignId, prize: PrizeNumber) -> engine::Result<bool> {
    let taken = tx
        .prepare_cached(
            "UPDATE prize SET taken = taken + 1 WHERE campaign = ? AND number = ? AND taken < stock",
        )?
        .execute(params![sql(campaign.raw()), prize])?;
    Ok(taken == 1)
}

#[derive(Clone, Debug)]
pub struct Draws(pub(crate) Arc<Database>);

impl Draws {
    /// Replaces a draft's terms; `false` if it is not a draft any more.
    pub async fn update_draft(
        &self,
        campaign: Campaign,
        codes: Vec<Vec<String>>,
        by: Actor,
    ) -> Result<bool, LedgerError> {
        self.0
            .write_alone(move |tx| {
                let edited = put_draft(tx, &campaign, &by)?;
                if edited {
                    write(tx, &campaign, &codes)?;
                }
                Ok(edited)
            })
            .await
    }

    /// A draw's codes, prize by prize.
    pub async fn prize_codes(&self, draw: CampaignId) -> Result<Vec<Vec<String>>, LedgerError> {
        self.0
            .scan(move |connection| {
                let mut select = connection.prepare_cached(
                    "SELECT prize, code FROM prize_code WHERE campaign = ? ORDER BY prize, number",
                )?;
                let rows =
                    select.query_map([sql(draw.raw())], |row| Ok((row.get("prize")?, row.get("code")?)))?;
                let mut codes: Vec<Vec<String>> = Vec::new();
                for row in rows {
                    let (prize, code): (u32, String) = row?;
                    let at = usize::try_from(prize).unwrap_or(1).saturating_sub(1);
                    codes.resize(codes.len().max(at + 1), Vec::new());
                    codes[at].push(code);
                }
                Ok(codes)
            })
            .await
    }

    /// Number of winners per prize.
    pub async fn prizes_taken(&self, draw: CampaignId) -> Result<Vec<u32>, LedgerError> {
        self.0.read(move |connection| taken(connection, draw)).await
    }

    /// The end of a draw's history: number of plays and hash.
    pub async fn history(&self, draw: CampaignId) -> Result<Option<History>, LedgerError> {
        self.0.read(move |connection| history(connection, draw)).await
    }
}
