//! The commitments of draws: hashes over seed, prizes and odds, fixed before the first play.

use std::sync::Arc;

use quick_cache::sync::Cache;
use tidegate_core::dealer::{self, Hash};
use tidegate_core::{Campaign, CampaignId, Draw};

use crate::context::Context;

const CACHED: usize = 10_000;

#[derive(Debug)]
pub struct Commitments {
    context: Arc<Context>,
    /// Commitments of published draws, which no longer change; every play shows one.
    published: Cache<CampaignId, Hash>,
}

impl Commitments {
    pub(crate) fn new(context: Arc<Context>) -> Self {
        Self { context, published: Cache::new(CACHED) }
    }

    /// The draw's commitment; final once the draw is published.
    pub fn of(&self, campaign: &Campaign, draw: &Draw) -> Hash {
        if let Some(known) = self.published.get(&campaign.id).filter(|_| campaign.is_published()) {
            return known;
        }
        let table = dealer::table(&self.context.print(campaign.id.as_draw()), draw, campaign.stock);
        let commitment = dealer::commitment(&draw.seed, &table);
        if campaign.is_published() {
            self.published.insert(campaign.id, commitment);
        }
        commitment
    }
}
