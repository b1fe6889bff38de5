//! Campaigns: drafts, and the steps of the lifecycle, each of which is a compare-and-set on the state.

use std::sync::Arc;

use tidegate_core::campaign::{Step, StepRefused};
use tidegate_core::{Campaign, CampaignId, CampaignState, EventKind, EventNoun, EventVerb, Moment};

use super::events::{NewEvent, append_event};
use super::idempotency::insert_key;
use super::rows::{broken, campaign, sql};
use super::{audit, draws};
use crate::engine;
use crate::engine::dialect::Column;
use crate::engine::{Connection, Database, OptionalExtension, Row, Values, params, row};
use crate::{Actor, Audit, IdempotentRequest, LedgerError, Page, Tally};

pub(crate) fn create(
    tx: &Connection,
    campaign: &Campaign,
    by: &Actor,
    request: Option<IdempotentRequest>,
) -> engine::Result<()> {
    write(tx, campaign)?;
    insert_key(tx, request, campaign.id.raw(), 0, campaign.created_at)?;
    announce(tx, campaign, EventVerb::Created, by, campaign.created_at, None)
}

/// Inserts or replaces all columns but the tally.
fn write(tx: &Connection, campaign: &Campaign) -> engine::Result<()> {
    let protect =
        serde_json::to_string(&campaign.protect).map_err(|error| engine::Error::Broken(error.to_string()))?;
    let sale = campaign.sale();
    tx.execute(
        "INSERT INTO campaign (id, item, price, currency, stock, top, starts_at, ends_at, per_user_limit, pay_within_s,
                               shards, protect, state, epoch, opened, created_at, updated_at, kind)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)
         ON CONFLICT (id) DO UPDATE SET item = ?2, price = ?3, currency = ?4, stock = ?5, top = ?6, starts_at = ?7,
             ends_at = ?8, per_user_limit = ?9, pay_within_s = ?10, shards = ?11, protect = ?12, state = ?13,
             epoch = ?14, opened = ?15, updated_at = ?17, drained = 0",
        params![
            sql(campaign.id.raw()),
            sale.map(|sale| sql(sale.item.raw())),
            sale.map(|sale| sale.price.amount),
            sale.map(|sale| sale.price.currency.as_str()),
            campaign.stock,
            campaign.top,
            campaign.window.starts_at.millis(),
            campaign.window.ends_at.millis(),
            campaign.per_user_limit,
            sale.map(|sale| sale.pay_within_s),
            campaign.shards,
            protect,
            campaign.state.as_str(),
            campaign.epoch,
            campaign.opened,
            campaign.created_at.millis(),
            campaign.updated_at.millis(),
            campaign.kind.noun()
        ],
    )?;
    Ok(())
}

pub(crate) fn by_id(connection: &Connection, id: CampaignId) -> engine::Result<Option<Campaign>> {
    let mut select = connection.prepare_cached("SELECT * FROM campaign WHERE id = ?")?;
    select.query_row([sql(id.raw())], |row| campaign(connection, row)).optional()
}

/// Locks the campaigns' rows until the commit; a no-op on SQLite, which has a single writer. Every transaction that
/// changes a campaign's stock, orders or state calls this before it reads any of them.
pub(crate) fn lock(tx: &Connection, campaigns: &[CampaignId]) -> engine::Result<()> {
    if !tx.is_shared() {
        return Ok(());
    }
    let raw: Vec<i64> = campaigns.iter().map(|campaign| sql(campaign.raw())).collect();
    let rows: Vec<Values<'_>> = raw.iter().map(|id| row![*id]).collect();
    tx.query_many(
        &[Column::int("id")],
        &rows,
        // Locked in the order of their ids, so that no deadlock can occur.
        "SELECT campaign.id FROM campaign JOIN given ON given.id = campaign.id ORDER BY campaign.id
         FOR UPDATE OF campaign",
        |_| Ok(()),
    )?;
    Ok(())
}

/// Appends an event of a sale or draw: created, published, closed, …
pub(crate) fn announce(
    tx: &Connection,
    campaign: &Campaign,
    verb: EventVerb,
    by: &Actor,
    now: Moment,
    detail: Option<&str>,
) -> engine::Result<()> {
    let noun = EventNoun::from(&campaign.kind);
    let kind = EventKind::of(noun, verb).ok_or_else(|| broken(format!("a {noun} is never {verb}")))?;
    let event = NewEvent { kind, campaign: Some(campaign.id), subject: campaign.id.raw(), detail };
    append_event(tx, by, now, event)
}

/// Replaces a draft's row; `false` if it is not a draft any more.
pub(crate) fn put_draft(tx: &Connection, campaign: &Campaign, by: &Actor) -> engine::Result<bool> {
    lock(tx, &[campaign.id])?;
    let found = by_id(tx, campaign.id)?.filter(|found| found.state == CampaignState::Draft);
    let still_draft = found.is_some();
    if let Some(Campaign { epoch, .. }) = found {
        // A publication that failed may have installed a pool of this epoch already.
        write(tx, &Campaign { epoch, ..campaign.clone() })?;
        announce(tx, campaign, EventVerb::Edited, by, campaign.updated_at, None)?;
    }
    Ok(still_draft)
}

fn tally(row: &Row<'_>) -> engine::Result<Tally> {
    Ok(Tally {
        stock: row.get("stock")?,
        awaiting_payment: row.get("awaiting")?,
        paid: row.get("paid")?,
        returned: row.get("returned")?,
    })
}

const fn event_of(step: Step) -> EventVerb {
    match step {
        Step::Submit => EventVerb::Submitted,
        Step::Approve => EventVerb::Approved,
        Step::Refuse => EventVerb::Refused,
        Step::Publish { .. } => EventVerb::Published,
        Step::Pause => EventVerb::Paused,
        Step::Resume => EventVerb::Resumed,
        Step::Close => EventVerb::Closed,
        Step::Reopen { .. } => EventVerb::Reopened,
    }
}

#[derive(Clone, Debug)]
pub struct Campaigns(pub(crate) Arc<Database>);

impl Campaigns {
    pub async fn get(&self, id: CampaignId) -> Result<Option<Campaign>, LedgerError> {
        self.0.read(move |connection| by_id(connection, id)).await
    }

    /// Published sales or draws (`noun`), newest first.
    pub async fn published(
        &self,
        noun: &'static str,
        page: Page,
    ) -> Result<Vec<(Campaign, Tally)>, LedgerError> {
        let sql_text =
            "SELECT * FROM campaign WHERE id < ?1 AND kind = ?3 AND state IN ('live', 'paused', 'closed')
                        ORDER BY id DESC LIMIT ?2";
        self.0
            .scan(move |connection| {
                let before = page.before.map_or(i64::MAX, sql);
                connection
                    .prepare_cached(sql_text)?
                    .query_map(params![before, page.limit, noun], |row| {
                        Ok((campaign(connection, row)?, tally(row)?))
                    })?
                    .collect()
            })
            .await
    }

    /// Sales or draws (`noun`) in this state, or all of them; newest first.
    pub async fn list(
        &self,
        noun: &'static str,
        state: Option<CampaignState>,
        page: Page,
    ) -> Result<Vec<(Campaign, Tally)>, LedgerError> {
        let sql_text =
            "SELECT * FROM campaign WHERE id < ?1 AND kind = ?3 AND (CAST(?4 AS TEXT) IS NULL OR state = ?4)
                        ORDER BY id DESC LIMIT ?2";
        self.0
            .scan(move |connection| {
                let (before, state) = (page.before.map_or(i64::MAX, sql), state.map(CampaignState::as_str));
                connection
                    .prepare_cached(sql_text)?
                    .query_map(params![before, page.limit, noun, state], |row| {
                        Ok((campaign(connection, row)?, tally(row)?))
                    })?
                    .collect()
            })
            .await
    }

    /// Live and paused campaigns: the ones that need a gate.
    pub async fn running(&self) -> Result<Vec<Campaign>, LedgerError> {
        self.0
            .read(move |connection| {
                connection
                    .prepare_cached(
                        "SELECT * FROM campaign WHERE state IN ('live', 'paused') ORDER BY ends_at",
                    )?
                    .query_map(params![], |row| campaign(connection, row))?
                    .collect()
            })
            .await
    }

    /// Closed campaigns, newest first, some of whose claims may not be recorded yet.
    pub async fn undrained(&self, most: u32) -> Result<Vec<Campaign>, LedgerError> {
        let sql_text =
            "SELECT * FROM campaign WHERE state = 'closed' AND drained = 0 ORDER BY id DESC LIMIT ?";
        self.0
            .read(move |connection| {
                connection
                    .prepare_cached(sql_text)?
                    .query_map([most], |row| campaign(connection, row))?
                    .collect()
            })
            .await
    }

    /// Every claim on this campaign is recorded. Has no effect if it was changed since it was read.
    pub async fn set_drained(&self, read: &Campaign) -> Result<(), LedgerError> {
        let (id, as_of) = (read.id, read.updated_at);
        self.0
            .write(move |tx| {
                tx.execute(
                    "UPDATE campaign SET drained = 1 WHERE id = ? AND state = 'closed' AND updated_at = ?",
                    params![sql(id.raw()), as_of.millis()],
                )?;
                Ok(())
            })
            .await
    }

    pub async fn tally(&self, id: CampaignId) -> Result<Option<Tally>, LedgerError> {
        self.0
            .read(move |connection| {
                let mut select = connection
                    .prepare_cached("SELECT stock, awaiting, paid, returned FROM campaign WHERE id = ?")?;
                select.query_row([sql(id.raw())], tally).optional()
            })
            .await
    }

    /// Takes one step of the lifecycle; `None` if the campaign does not exist.
    pub async fn step(
        &self,
        id: CampaignId,
        step: Step,
        by: Actor,
        now: Moment,
        reason: Option<String>,
    ) -> Result<Option<Result<Campaign, StepRefused>>, LedgerError> {
        self.0
            .write(move |tx| {
                lock(tx, &[id])?;
                let Some(before) = by_id(tx, id)? else { return Ok(None) };
                let reopened = by == Actor::Clock && step == Step::Close && now < before.window.ends_at;
                if reopened {
                    // Reopened since the caller read it: the end that it has seen is no longer valid.
                    return Ok(Some(Ok(before)));
                }
                let after = match before.step(step, now) {
                    Ok(after) => after,
                    Err(refused) => return Ok(Some(Err(refused))),
                };
                write(tx, &after)?;
                announce(tx, &after, event_of(step), &by, now, reason.as_deref())?;
                Ok(Some(Ok(after)))
            })
            .await
    }

    /// Sets how many buyers per second the waiting room admits. A campaign that does not run or has no waiting room is
    /// returned unchanged; `None` if it does not exist.
    pub async fn set_admission_rate(
        &self,
        id: CampaignId,
        per_s: u32,
        by: Actor,
        now: Moment,
    ) -> Result<Option<Campaign>, LedgerError> {
        self.0
            .write(move |tx| {
                lock(tx, &[id])?;
                let Some(mut campaign) = by_id(tx, id)? else { return Ok(None) };
                let before =
                    campaign.protect.admit_per_s.filter(|before| campaign.runs() && *before != per_s);
                if let Some(before) = before {
                    campaign.protect.admit_per_s = Some(per_s);
                    campaign.updated_at = now;
                    write(tx, &campaign)?;
                    let detail = format!("{before} -> {per_s}");
                    announce(tx, &campaign, EventVerb::AdmissionChanged, &by, now, Some(&detail))?;
                }
                Ok(Some(campaign))
            })
            .await
    }

    /// Replaces a draft's terms; `false` if it is not a draft any more.
    pub async fn update_draft(&self, campaign: Campaign, by: Actor) -> Result<bool, LedgerError> {
        self.0.write(move |tx| put_draft(tx, &campaign, &by)).await
    }

    /// Appends the event that a campaign's window has begun, once.
    pub async fn announce_opening(&self, id: CampaignId, now: Moment) -> Result<bool, LedgerError> {
        self.0
            .write(move |tx| {
                let changed = tx
                    .execute("UPDATE campaign SET opened = 1 WHERE id = ? AND opened = 0", [sql(id.raw())])?;
                if changed == 0 {
                    return Ok(false);
                }
                if let Some(campaign) = by_id(tx, id)? {
                    announce(tx, &campaign, EventVerb::Opened, &Actor::Clock, now, None)?;
                }
                Ok(true)
            })
            .await
    }

    /// Creates a draft; `codes` are those of a draw's prizes, prize by prize.
    pub async fn create(
        &self,
        campaign: Campaign,
        codes: Vec<Vec<String>>,
        by: Actor,
        request: Option<IdempotentRequest>,
    ) -> Result<(), LedgerError> {
        self.0
            .write_alone(move |tx| {
                create(tx, &campaign, &by, request)?;
                if campaign.draw().is_some() { draws::write(tx, &campaign, &codes) } else { Ok(()) }
            })
            .await
    }

    /// Checks every guarantee about one campaign against its rows.
    pub async fn audit(&self, campaign: CampaignId) -> Result<Option<Audit>, LedgerError> {
        self.0.scan(move |connection| audit::audit(connection, campaign)).await
    }
}
