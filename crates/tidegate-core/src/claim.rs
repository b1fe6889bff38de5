//! A claim: the gate's decision to assign slots to a user, on its way through the journal or stream to the ledger.

use serde::{Deserialize, Serialize};

use crate::draw::PrizeNumber;
use crate::{CampaignId, ClaimId, Moment, Money, OrderId, PlayId, Shown, Slots, UserId};

/// A digest of the client's idempotency key: a retry finds the first response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct IdempotencyKey(pub [u8; 16]);

/// A request to the gate.
#[derive(Clone, Debug)]
pub struct ClaimRequest {
    pub id: ClaimId,
    pub user: UserId,
    pub campaign: CampaignId,
    pub quantity: u32,
    pub limit: u32,
    pub created_at: Moment,
    pub key: Option<IdempotencyKey>,
    pub shown: Shown,
    pub wanted: Wanted,
}

/// The purpose of the requested slots.
#[derive(Clone, Debug)]
pub enum Wanted {
    Order { unit_price: Money, pay_by: Moment },
    Play { client_seed: String },
}

/// The gate's decision, as the journal or stream stores it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    pub id: ClaimId,
    pub user: UserId,
    pub campaign: CampaignId,
    /// The gate's epoch; the ledger rejects claims of earlier epochs.
    pub epoch: u32,
    /// The gate's number of changes, including this one.
    pub version: u64,
    pub slots: Slots,
    pub created_at: Moment,
    pub key: Option<IdempotencyKey>,
    pub granted: Granted,
}

/// The purpose of the assigned slots.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Granted {
    Order { unit_price: Money, pay_by: Moment },
    Play { client_seed: String, prize: Option<PrizeNumber> },
}

impl Claim {
    /// The id of the claim's order.
    pub fn order(&self) -> OrderId {
        OrderId::from_raw(self.id.raw())
    }

    /// The id of the claim's play.
    pub fn play(&self) -> PlayId {
        PlayId::from_raw(self.id.raw())
    }

    /// The prize that was taken together with the seat.
    pub fn prize(&self) -> Option<PrizeNumber> {
        match self.granted {
            Granted::Play { prize, .. } => prize,
            Granted::Order { .. } => None,
        }
    }
}

impl ClaimRequest {
    /// The claim on these slots; `prize` is the prize of a play's seat.
    pub fn granted(self, slots: Slots, prize: Option<PrizeNumber>, epoch: u32, version: u64) -> Claim {
        let Self { id, user, campaign, created_at, key, .. } = self;
        let granted = match self.wanted {
            Wanted::Order { unit_price, pay_by } => Granted::Order { unit_price, pay_by },
            Wanted::Play { client_seed } => Granted::Play { client_seed, prize },
        };
        Claim { id, user, campaign, epoch, version, slots, created_at, key, granted }
    }
}
