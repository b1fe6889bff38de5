//! The desk: what operators and winners look at and change of deliveries. The sending is next door.

use tidegate_core::{CampaignId, DeliveryId, DeliveryState, Moment, PlayId, WebhookId};

use super::SqlLedger;
use super::deliveries::{RELEASE, by_id, delivery};
use super::engine;
use super::engine::{Connection, params};
use super::events::{Told, tell};
use super::rows::{id, sql, word};
use crate::ledger::{Actor, Delivery, LedgerError, Page};

/// Which deliveries an operator wants to see.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeliveryFilter {
    pub state: Option<DeliveryState>,
    pub campaign: Option<CampaignId>,
}

impl SqlLedger {
    /// Newest first.
    pub async fn deliveries(&self, filter: DeliveryFilter, page: Page) -> Result<Vec<Delivery>, LedgerError> {
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
        self.scan(move |connection| {
            let campaign = filter.campaign.map(|campaign| sql(campaign.raw()));
            let state = filter.state.map(DeliveryState::as_str);
            connection
                .prepare_cached(&query)?
                .query_map(params![campaign, state, page.before.map_or(i64::MAX, sql), page.limit], delivery)?
                .collect()
        })
        .await
    }

    /// How many of a draw's prizes are in which state.
    pub async fn count_deliveries(&self, draw: CampaignId) -> Result<Vec<(DeliveryState, u32)>, LedgerError> {
        self.scan(move |connection| {
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

    /// How many deliveries are in which state, counted up to `most` each: it takes no longer when there are millions.
    pub async fn count_all_deliveries(&self, most: u32) -> Result<Vec<(DeliveryState, u32)>, LedgerError> {
        self.scan(move |connection| {
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

    /// What is sent to a webhook, the newest events first.
    pub async fn deliveries_to(&self, webhook: WebhookId, most: u32) -> Result<Vec<Delivery>, LedgerError> {
        self.scan(move |connection| {
            connection
                .prepare_cached(
                    "SELECT * FROM delivery WHERE target = ? AND event IS NOT NULL ORDER BY event DESC LIMIT ?",
                )?
                .query_map(params![sql(webhook.raw()), most], delivery)?
                .collect()
        })
        .await
    }

    /// An operator has it tried again, now; `false` if there is nothing to try.
    pub async fn retry_delivery(&self, id: DeliveryId, by: Actor, now: Moment) -> Result<bool, LedgerError> {
        self.by_operator(id, by, now, "delivery.retried", |tx, raw, now| {
            tx.execute(
                "UPDATE delivery SET state = 'new', tries = 0, due_at = ?2, open_since = ?2, updated_at = ?2
                 WHERE id = ?1 AND (state IN ('failed', 'dead') OR (state = 'delivered' AND event IS NOT NULL))",
                params![raw, now.millis()],
            )
        })
        .await
    }

    /// An operator grants a prize that waited for them; `false` if it did not.
    pub async fn grant_delivery(&self, id: DeliveryId, by: Actor, now: Moment) -> Result<bool, LedgerError> {
        self.by_operator(id, by, now, "delivery.granted", |tx, raw, now| {
            let which = "waits_for = 'operator' AND id = ?2";
            tx.execute(&[RELEASE, which].concat(), params![now.millis(), raw])
        })
        .await
    }

    async fn by_operator(
        &self,
        id: DeliveryId,
        by: Actor,
        now: Moment,
        kind: &'static str,
        change: fn(&Connection, i64, Moment) -> engine::Result<usize>,
    ) -> Result<bool, LedgerError> {
        self.write(move |tx| {
            let Some(delivery) = by_id(tx, id)? else { return Ok(false) };
            let changed = change(tx, sql(id.raw()), now)? == 1;
            if changed {
                let told = Told { kind, campaign: delivery.campaign, subject: id.raw(), detail: None };
                tell(tx, &by, now, told)?;
            }
            Ok(changed)
        })
        .await
    }

    /// Where a winner's goods go; `false` if they are on their way, or there are none.
    pub async fn set_address(
        &self,
        play: PlayId,
        address: String,
        by: Actor,
        now: Moment,
    ) -> Result<bool, LedgerError> {
        self.write(move |tx| {
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
            let told = Told { kind: "prize.addressed", campaign, subject: play.raw(), detail: None };
            tell(tx, &by, now, told)?;
            Ok(true)
        })
        .await
    }
}
