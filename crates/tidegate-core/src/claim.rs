//! A claim: the gate's decision to give slots to a user, as it travels through the intake into the ledger.

use serde::{Deserialize, Serialize};

use crate::{CampaignId, Moment, Money, OrderId, Shown, Slots, UserId};

/// A digest of the text a client chose, so that retries find their first answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct IdempotencyKey(pub [u8; 16]);

/// What is asked of the gate.
#[derive(Clone, Debug)]
pub struct ClaimRequest {
    pub order: OrderId,
    pub user: UserId,
    pub campaign: CampaignId,
    pub quantity: u32,
    pub limit: u32,
    pub unit_price: Money,
    pub created_at: Moment,
    pub pay_by: Moment,
    pub key: Option<IdempotencyKey>,
    pub shown: Shown,
}

/// What the gate decided and the intake keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    pub order: OrderId,
    pub user: UserId,
    pub campaign: CampaignId,
    /// The gate's life in which this was decided; the ledger refuses older ones.
    pub epoch: u32,
    /// The gate's count of changes just after this one.
    pub version: u64,
    pub slots: Slots,
    pub unit_price: Money,
    pub created_at: Moment,
    pub pay_by: Moment,
    pub key: Option<IdempotencyKey>,
}

impl ClaimRequest {
    pub fn granted(self, slots: Slots, epoch: u32, version: u64) -> Claim {
        let Self { order, user, campaign, unit_price, created_at, pay_by, key, .. } = self;
        Claim { order, user, campaign, epoch, version, slots, unit_price, created_at, pay_by, key }
    }
}
