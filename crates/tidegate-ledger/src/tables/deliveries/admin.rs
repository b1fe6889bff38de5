//! Deliveries as operators and winners see and change them. Sending is in the parent module.

use tidegate_core::{CampaignId, DeliveryId, DeliveryState, EventKind, Moment, PlayId, WebhookId};

use super::{Deliveries, RELEASE, by_id, delivery};
use crate::engine;
use crate::engine::{Connection, params};
use crate::tables::events::{NewEvent, append_event};
use crate::tables::rows::{id, sql, word};
use crate::{Actor, Delivery, LedgerError, Page};

/// Filter of an operator's list of deliveries.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeliveryFilter {
    pub state: Option<DeliveryState>,
    pub campaign: Option<CampaignId>,
}

impl Deliveries {
    /// Newest first.
    pub async fn list(&self, filter: DeliveryFilter, page: Page) -> Result<Vec<Delivery>, LedgerError> {
        let query = match (filter.campaign, filter.state) {
            (Some(_), _) => {
                "SELECT * FROM delivery WHERE campaign = ?1 AND (CAST(?2 AS TEXT) IS NULL OR state = ?2) AND id < ?3"
            }
            (None, Some(_)) => {
                "SELECT * FROM delivery WHERE CAST(?1 AS BIGINT) IS NULL AND state = ?2 AND id < ?3"
            }
            (None, None) => {
                "SELECT * FROM delivery WHERE CAST(?1 AS BIGINT) IS NULL AND CAST(?2 AS TEXT) IS NULL AND id < ?3"
            }
        };
        let query = format!("{query} ORDER BY id DESC LIMIT ?4");
        self.0
            .scan(move |connection| {
                let campaign = filter.campaign.map(|campaign| sql(campaign.raw()));
                let state = filter.state.map(DeliveryState::as_str);
                connection
                    .prepare_cached(&query)?
                    .query_map(
                        params![campaign, state, page.before.map_or(i64::MAX, sql), page.limit],
                        delivery,
                    )?
                    .collect()
            })
            .await
    }

    /// Number of a draw's deliveries per state.
    pub async fn count_by_state(&self, draw: CampaignId) -> Result<Vec<(DeliveryState, u32)>, LedgerError> {
        self.0
            .scan(move |connection| {
                connection
                    .prepare_cached(
                        "SELECT state, count(*) AS rows FROM delivery WHERE campaign = ? GROUP BY state",
                    )?
                    .query_map([sql(draw.raw())], |row| {
                        Ok((word(row, "state", DeliveryState::parse)?, row.get("rows")?))
                    })?
                    .collect()
            })
            .await
    }

    /// Number of deliveries per state, capped at `most` each, so that millions of rows take no longer.
    pub async fn count_all(&self, most: u32) -> Result<Vec<(DeliveryState, u32)>, LedgerError> {
        self.0
            .scan(move |connection| {
                let mut count = connection.prepare_cached(
                    "SELECT count(*) FROM (SELECT 1 FROM delivery WHERE state = ? LIMIT ?) AS counted",
                )?;
                let counted = DeliveryState::ALL.iter().map(|state| {
                    let rows = count.query_row(params![state.as_str(), most], |row| row.get(0))?;
                    Ok((*state, rows))
                });
                counted.collect()
            })
            .await
    }

    /// A webhook's deliveries, newest events first.
    pub async fn by_webhook(&self, webhook: WebhookId, most: u32) -> Result<Vec<Delivery>, LedgerError> {
        self.0.scan(move |connection| {
            connection
                .prepare_cached(
                    "SELECT * FROM delivery WHERE target = ? AND event IS NOT NULL ORDER BY event DESC LIMIT ?",
                )?
                .query_map(params![sql(webhook.raw()), most], delivery)?
                .collect()
        })
        .await
    }

    /// Schedules an attempt now; `false` if the delivery is not in a state for it.
    pub async fn retry(&self, id: DeliveryId, by: Actor, now: Moment) -> Result<bool, LedgerError> {
        self.change_by_operator(id, by, now, EventKind::DeliveryRetried, |tx, raw, now| {
            tx.execute(
                "UPDATE delivery SET state = 'new', tries = 0, due_at = ?2, open_since = ?2, updated_at = ?2
                 WHERE id = ?1 AND (state IN ('failed', 'dead') OR (state = 'delivered' AND event IS NOT NULL))",
                params![raw, now.millis()],
            )
        })
        .await
    }

    /// Releases a prize that waits for an operator; `false` if it does not.
    pub async fn grant(&self, id: DeliveryId, by: Actor, now: Moment) -> Result<bool, LedgerError> {
        self.change_by_operator(id, by, now, EventKind::DeliveryGranted, |tx, raw, now| {
            let which = "waits_for = 'operator' AND id = ?2";
            tx.execute(&[RELEASE, which].concat(), params![now.millis(), raw])
        })
        .await
    }

    async fn change_by_operator(
        &self,
        id: DeliveryId,
        by: Actor,
        now: Moment,
        kind: EventKind,
        change: fn(&Connection, i64, Moment) -> engine::Result<usize>,
    ) -> Result<bool, LedgerError> {
        self.0
            .write(move |tx| {
                let Some(delivery) = by_id(tx, id)? else { return Ok(false) };
                let changed = change(tx, sql(id.raw()), now)? == 1;
                if changed {
                    let event =
                        NewEvent { kind, campaign: delivery.campaign, subject: id.raw(), detail: None };
                    append_event(tx, &by, now, event)?;
                }
                Ok(changed)
            })
            .await
    }

    /// Sets the shipping address of a winner's goods; `false` if they are delivered already, or the play won none.
    pub async fn set_address(
        &self,
        play: PlayId,
        address: String,
        by: Actor,
        now: Moment,
    ) -> Result<bool, LedgerError> {
        self.0
            .write(move |tx| {
                let raw = sql(play.raw());
                let changed = tx.execute(
                    "UPDATE delivery SET address = ?2, updated_at = ?3 WHERE play = ?1 AND kind = 'goods'
                     AND state <> 'delivered'",
                    params![raw, address, now.millis()],
                )?;
                if changed == 0 {
                    return Ok(false);
                }
                let which = "waits_for = 'address' AND play = ?2";
                tx.execute(&[RELEASE, which].concat(), params![now.millis(), raw])?;
                let campaign = tx
                    .prepare_cached("SELECT campaign FROM play WHERE id = ?")?
                    .query_row([raw], |row| id(row, "campaign"))?;
                let campaign = Some(CampaignId::from_raw(campaign));
                let event =
                    NewEvent { kind: EventKind::PrizeAddressed, campaign, subject: play.raw(), detail: None };
                append_event(tx, &by, now, event)?;
                Ok(true)
            })
            .await
    }
}
