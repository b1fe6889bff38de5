//! A play: the ledger's record of a claim on a draw's seat.

use crate::dealer::Hash;
use crate::draw::PrizeNumber;
use crate::words::words;
use crate::{CampaignId, Moment, PlayId, Rejection, Slot, UserId};

words! {
    /// A play's state. `played` is final: the seat is used, won or not.
    PlayState { Queued "queued" Played "played" Rejected "rejected" }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Play {
    pub id: PlayId,
    pub campaign: CampaignId,
    pub user: UserId,
    pub seat: Slot,
    pub client_seed: String,
    pub prize: Option<PrizeNumber>,
    pub state: PlayState,
    /// The reason of the rejection.
    pub reason: Option<Rejection>,
    /// Its number in the draw's history and the hash after it, once recorded.
    pub place: Option<(u64, Hash)>,
    pub created_at: Moment,
}
