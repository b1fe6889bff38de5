//! A claim: the gate's decision to give slots to a user, as it travels through the intake into the ledger.

use serde::{Deserialize, Serialize};

use crate::draw::PrizeNumber;
use crate::{CampaignId, ClaimId, Moment, Money, OrderId, PlayId, Shown, Slots, UserId};

/// A digest of the text a client chose, so that retries find their first answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct IdempotencyKey(pub [u8; 16]);

/// What is asked of the gate.
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

/// What the slots are wanted for.
#[derive(Clone, Debug)]
pub enum Wanted {
    Order { unit_price: Money, pay_by: Moment },
    Play { client_seed: String },
}

/// What the gate decided and the intake keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    pub id: ClaimId,
    pub user: UserId,
    pub campaign: CampaignId,
    /// The gate's life in which this was decided; the ledger refuses older ones.
    pub epoch: u32,
    /// The gate's count of changes just after this one.
    pub version: u64,
    pub slots: Slots,
    pub created_at: Moment,
    pub key: Option<IdempotencyKey>,
    pub granted: Granted,
}

/// What the slots were given for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Granted {
    Order { unit_price: Money, pay_by: Moment },
    Play { client_seed: String, prize: Option<PrizeNumber> },
}

impl Claim {
    /// The order this is or becomes.
    pub fn order(&self) -> OrderId {
        OrderId::from_raw(self.id.raw())
    }

    /// The play this is or becomes.
    pub fn play(&self) -> PlayId {
        PlayId::from_raw(self.id.raw())
    }

    /// The prize that was taken with the seat.
    pub fn prize(&self) -> Option<PrizeNumber> {
        match self.granted {
            Granted::Play { prize, .. } => prize,
            Granted::Order { .. } => None,
        }
    }
}

impl ClaimRequest {
    /// The claim on these slots; `prize` is what the seat of a play wins.
    pub fn granted(self, slots: Slots, prize: Option<PrizeNumber>, epoch: u32, version: u64) -> Claim {
        let Self { id, user, campaign, created_at, key, .. } = self;
        let granted = match self.wanted {
            Wanted::Order { unit_price, pay_by } => Granted::Order { unit_price, pay_by },
            Wanted::Play { client_seed } => Granted::Play { client_seed, prize },
        };
        Claim { id, user, campaign, epoch, version, slots, created_at, key, granted }
    }
}
