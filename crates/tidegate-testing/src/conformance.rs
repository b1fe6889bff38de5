//! Conformance suites: the behaviour that every gate, intake and ledger must have, run unchanged by each backend.
//!
//! A backend's test calls `all` of a suite with a function that creates a fresh backend. A violation panics.

pub mod deliveries;
pub mod draws;
pub mod gate;
pub mod intake;
pub mod ledger;

use tidegate_core::{
    Campaign, CampaignId, CampaignState, Claim, ClaimId, ClaimRequest, Item, ItemId, Kind, Moment, Money,
    Protect, Sale, Shown, UserId, Wanted, Window,
};
use tidegate_ledger::{Actor, SqlLedger};

/// A moment within the window of every sample campaign.
pub const NOW: Moment = Moment::from_millis(1_800_000_000_000);
pub const CAMPAIGN: CampaignId = CampaignId::from_raw(77);
pub const ITEM: ItemId = ItemId::from_raw(7);

pub fn price() -> Money {
    // CNY is a currency of ISO 4217.
    #[expect(clippy::unwrap_used, reason = "a constant that parses")]
    let currency = "CNY".parse().unwrap();
    Money { amount: 9_900, currency }
}

pub fn item() -> Item {
    Item {
        id: ITEM,
        name: "A sample".into(),
        description: String::new(),
        price: price(),
        image_url: None,
        created_at: NOW,
        updated_at: NOW,
    }
}

/// A live sale of `stock` units.
pub fn campaign(stock: u32, per_user_limit: u32) -> Campaign {
    let hour = std::time::Duration::from_secs(3600);
    Campaign {
        id: CAMPAIGN,
        kind: Kind::Sale(Sale { item: ITEM, price: price(), pay_within_s: 60 }),
        stock,
        top: stock,
        window: Window { starts_at: NOW - hour, ends_at: NOW + hour },
        per_user_limit,
        shards: 1,
        protect: Protect::default(),
        state: CampaignState::Live,
        epoch: 1,
        opened: false,
        created_at: NOW,
        updated_at: NOW,
    }
}

/// Creates a live sale of `stock` units in a ledger; the limit is one unit per user.
pub async fn open_sale(ledger: &SqlLedger, stock: u32) {
    for made in [
        ledger.items.create(item(), Actor::Operator(None), None).await,
        ledger.campaigns.create(campaign(stock, 1), vec![], Actor::Operator(None), None).await,
    ] {
        assert!(made.is_ok(), "the sale is created: {made:?}");
    }
}

pub fn user(number: u64) -> UserId {
    UserId::from_raw(number)
}

pub fn request(order: u64, buyer: u64, quantity: u32, limit: u32) -> ClaimRequest {
    ClaimRequest {
        id: ClaimId::from_raw(order),
        user: user(buyer),
        campaign: CAMPAIGN,
        quantity,
        limit,
        created_at: NOW,
        key: None,
        shown: Shown::NotNeeded,
        wanted: Wanted::Order { unit_price: price(), pay_by: NOW + std::time::Duration::from_secs(60) },
    }
}

/// A claim as a gate of epoch 1 would grant it.
pub fn claim(order: u64, buyer: u64, slots: &[u32]) -> Claim {
    let quantity = u32::try_from(slots.len()).unwrap_or(u32::MAX);
    request(order, buyer, quantity, u32::MAX).granted(slots.iter().copied().collect(), None, 1, order)
}
