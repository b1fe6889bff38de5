//! The outbox: one event per change, inserted in the transaction of the change. It is the audit log, too.

use std::sync::Arc;

use tidegate_core::{CampaignId, EventKind, Moment, Stored};

use super::rows::{id, moment, sql};
use crate::engine;
use crate::engine::{Connection, Database, OptionalExtension, params};
use crate::{Actor, LedgerError, Page};

#[derive(Clone, Debug)]
pub struct Event {
    pub id: u64,
    pub at: Moment,
    pub actor: String,
    pub kind: Stored<EventKind>,
    pub campaign: Option<CampaignId>,
    /// The raw id of the changed object.
    pub subject: u64,
    pub detail: Option<String>,
}

/// An event to append.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewEvent<'a> {
    pub(crate) kind: EventKind,
    pub(crate) campaign: Option<CampaignId>,
    pub(crate) subject: u64,
    pub(crate) detail: Option<&'a str>,
}

pub(crate) fn append_event(tx: &Connection, by: &Actor, at: Moment, new: NewEvent<'_>) -> engine::Result<()> {
    let NewEvent { kind, campaign, subject, detail } = new;
    let mut insert = tx.prepare_cached(
        "INSERT INTO outbox (at, actor, kind, campaign, subject, detail) VALUES (?, ?, ?, ?, ?, ?)",
    )?;
    let campaign = campaign.map(|campaign| sql(campaign.raw()));
    insert.execute(params![at.millis(), by.to_string(), kind.as_str(), campaign, sql(subject), detail])?;
    Ok(())
}

pub(crate) fn by_number(connection: &Connection, number: u64) -> engine::Result<Option<Event>> {
    let mut select = connection.prepare_cached("SELECT * FROM outbox WHERE id = ?")?;
    select.query_row([sql(number)], event).optional()
}

pub(crate) fn event(row: &engine::Row<'_>) -> engine::Result<Event> {
    let campaign: Option<i64> = row.get("campaign")?;
    Ok(Event {
        id: id(row, "id")?,
        at: moment(row, "at")?,
        actor: row.get("actor")?,
        kind: Stored::read(row.get("kind")?),
        campaign: campaign.map(|raw| CampaignId::from_raw(raw.cast_unsigned())),
        subject: id(row, "subject")?,
        detail: row.get("detail")?,
    })
}

#[derive(Clone, Debug)]
pub struct Events(pub(crate) Arc<Database>);

impl Events {
    /// Events, newest first.
    pub async fn list(&self, campaign: Option<CampaignId>, page: Page) -> Result<Vec<Event>, LedgerError> {
        let all =
            "SELECT * FROM outbox WHERE id < ?2 AND CAST(?1 AS BIGINT) IS NULL ORDER BY id DESC LIMIT ?3";
        let one = "SELECT * FROM outbox WHERE campaign = ?1 AND id < ?2 ORDER BY id DESC LIMIT ?3";
        let before = page.before.map_or(i64::MAX, sql);
        let campaign = campaign.map(|campaign| sql(campaign.raw()));
        self.0
            .read(move |connection| {
                let mut select = connection.prepare_cached(if campaign.is_some() { one } else { all })?;
                select.query_map(params![campaign, before, page.limit], event)?.collect()
            })
            .await
    }

    /// One event by its number.
    /// The number of the newest event; 0 if there is none.
    pub async fn newest(&self) -> Result<u64, LedgerError> {
        let sql_text = "SELECT coalesce(max(id), 0) AS id FROM outbox";
        self.0.read(move |connection| connection.query_row(sql_text, params![], |row| id(row, "id"))).await
    }

    pub async fn get(&self, number: u64) -> Result<Option<Event>, LedgerError> {
        self.0.read(move |connection| by_number(connection, number)).await
    }
}
