//! Places in waiting rooms: one per account and campaign. Stored so that a restart loses none.

use std::sync::Arc;

use tidegate_core::{CampaignId, Moment, UserId};

use super::rows::{id, moment, sql};
use crate::LedgerError;
use crate::engine::{Database, params};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlaceRecord {
    pub user: UserId,
    pub joined_at: Moment,
    pub admitted: bool,
}

#[derive(Clone, Debug)]
pub struct WaitingRoomPlaces(pub(crate) Arc<Database>);

impl WaitingRoomPlaces {
    /// Inserts a place; an existing one stays as it is.
    pub async fn insert(&self, campaign: CampaignId, user: UserId, now: Moment) -> Result<(), LedgerError> {
        let insert = "INSERT INTO place (campaign, user, joined_at, admitted) VALUES (?, ?, ?, 0)
                      ON CONFLICT DO NOTHING";
        self.0
            .write(move |tx| {
                let row = params![sql(campaign.raw()), sql(user.raw()), now.millis()];
                tx.prepare_cached(insert)?.execute(row).map(|_| ())
            })
            .await
    }

    /// Marks the places of `admitted`; deletes those of `left`.
    pub async fn update(
        &self,
        campaign: CampaignId,
        admitted: Vec<UserId>,
        left: Vec<UserId>,
    ) -> Result<(), LedgerError> {
        self.0
            .write(move |tx| {
                let mut admit =
                    tx.prepare_cached("UPDATE place SET admitted = 1 WHERE campaign = ? AND user = ?")?;
                for user in admitted {
                    admit.execute(params![sql(campaign.raw()), sql(user.raw())])?;
                }
                let mut remove = tx.prepare_cached("DELETE FROM place WHERE campaign = ? AND user = ?")?;
                for user in left {
                    remove.execute(params![sql(campaign.raw()), sql(user.raw())])?;
                }
                Ok(())
            })
            .await
    }

    /// All places in the order in which they were taken.
    pub async fn list(&self, campaign: CampaignId) -> Result<Vec<PlaceRecord>, LedgerError> {
        self.0
            .scan(move |connection| {
                connection
                    .prepare_cached(
                        "SELECT user, joined_at, admitted FROM place WHERE campaign = ? ORDER BY number",
                    )?
                    .query_map([sql(campaign.raw())], |row| {
                        Ok(PlaceRecord {
                            user: UserId::from_raw(id(row, "user")?),
                            joined_at: moment(row, "joined_at")?,
                            admitted: row.get("admitted")?,
                        })
                    })?
                    .collect()
            })
            .await
    }
}
