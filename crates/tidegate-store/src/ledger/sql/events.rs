//! The outbox: one row for every change, in its transaction. What happened, to what, by whom, when.

use tidegate_core::{CampaignId, Moment};

use super::SqlLedger;
use super::engine;
use super::engine::{Connection, OptionalExtension, params};
use super::rows::{id, moment, sql};
use crate::ledger::{Actor, LedgerError, Page};

#[derive(Clone, Debug)]
pub struct Event {
    pub id: u64,
    pub at: Moment,
    pub actor: String,
    pub kind: String,
    pub campaign: Option<CampaignId>,
    /// The raw id of what it happened to.
    pub subject: u64,
    pub detail: Option<String>,
}

/// What a change says about itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told<'a> {
    pub(super) kind: &'a str,
    pub(super) campaign: Option<CampaignId>,
    pub(super) subject: u64,
    pub(super) detail: Option<&'a str>,
}

pub(super) fn tell(tx: &Connection, by: &Actor, at: Moment, told: Told<'_>) -> engine::Result<()> {
    let Told { kind, campaign, subject, detail } = told;
    let mut insert = tx.prepare_cached(
        "INSERT INTO outbox (at, actor, kind, campaign, subject, detail) VALUES (?, ?, ?, ?, ?, ?)",
    )?;
    let campaign = campaign.map(|campaign| sql(campaign.raw()));
    insert.execute(params![at.millis(), by.to_string(), kind, campaign, sql(subject), detail])?;
    Ok(())
}

impl SqlLedger {
    /// What happened, newest first.
    pub async fn events(&self, campaign: Option<CampaignId>, page: Page) -> Result<Vec<Event>, LedgerError> {
        let all =
            "SELECT * FROM outbox WHERE id < ?2 AND CAST(?1 AS BIGINT) IS NULL ORDER BY id DESC LIMIT ?3";
        let one = "SELECT * FROM outbox WHERE campaign = ?1 AND id < ?2 ORDER BY id DESC LIMIT ?3";
        let before = page.before.map_or(i64::MAX, sql);
        let campaign = campaign.map(|campaign| sql(campaign.raw()));
        self.read(move |connection| {
            let mut select = connection.prepare_cached(if campaign.is_some() { one } else { all })?;
            select.query_map(params![campaign, before, page.limit], event)?.collect()
        })
        .await
    }
}

pub(super) fn by_number(connection: &Connection, number: u64) -> engine::Result<Option<Event>> {
    let mut select = connection.prepare_cached("SELECT * FROM outbox WHERE id = ?")?;
    select.query_row([sql(number)], event).optional()
}

pub(super) fn event(row: &engine::Row<'_>) -> engine::Result<Event> {
    let campaign: Option<i64> = row.get("campaign")?;
    Ok(Event {
        id: id(row, "id")?,
        at: moment(row, "at")?,
        actor: row.get("actor")?,
        kind: row.get("kind")?,
        campaign: campaign.map(|raw| CampaignId::from_raw(raw.cast_unsigned())),
        subject: id(row, "subject")?,
        detail: row.get("detail")?,
    })
}
