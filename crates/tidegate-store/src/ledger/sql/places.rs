//! Places in waiting rooms: one per account and sale, kept so that a restart forgets nobody.

use tidegate_core::{CampaignId, Moment, UserId};

use super::SqlLedger;
use super::engine::params;
use super::rows::{id, moment, sql};
use crate::ledger::LedgerError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptPlace {
    pub user: UserId,
    pub joined_at: Moment,
    pub admitted: bool,
}

impl SqlLedger {
    /// Keeps a place; one that is there already stays as it is.
    pub async fn keep_place(
        &self,
        campaign: CampaignId,
        user: UserId,
        now: Moment,
    ) -> Result<(), LedgerError> {
        let insert = "INSERT INTO place (campaign, user, joined_at, admitted) VALUES (?, ?, ?, 0) ON CONFLICT DO NOTHING";
        self.write(move |tx| {
            let row = params![sql(campaign.raw()), sql(user.raw()), now.millis()];
            tx.prepare_cached(insert)?.execute(row).map(|_| ())
        })
        .await
    }

    /// These were admitted; those gave their place up.
    pub async fn move_places(
        &self,
        campaign: CampaignId,
        admitted: Vec<UserId>,
        left: Vec<UserId>,
    ) -> Result<(), LedgerError> {
        self.write(move |tx| {
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

    /// Everybody's places, in the order in which they came.
    pub async fn places(&self, campaign: CampaignId) -> Result<Vec<KeptPlace>, LedgerError> {
        self.scan(move |connection| {
            connection
                .prepare_cached(
                    "SELECT user, joined_at, admitted FROM place WHERE campaign = ? ORDER BY number",
                )?
                .query_map([sql(campaign.raw())], |row| {
                    Ok(KeptPlace {
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
