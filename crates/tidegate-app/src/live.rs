//! Live figures of campaigns, second by second: counted by `meters`, sampled by a worker, gathered for operators.
//!
//! Invariants: everything kept is bounded; figures are gathered at most once a second for each campaign, however
//! many operators watch. Freshness is measured by a monotonic clock.

mod figures;
mod gathering;
mod meter;
mod meters;
mod sampling;
mod series;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use parking_lot::RwLock;
use quick_cache::sync::Cache;
use tidegate_admission::waiting_room::WaitingRooms;
use tidegate_core::{Campaign, CampaignId};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub use self::figures::{BalanceState, CampaignFigures, Expiring, Pace, Quantiles, Totals};
use self::gathering::CachedFigures;
pub use self::meter::{Attempted, RefusalCount};
pub use self::meters::Meters;
pub use self::series::Sample;
use crate::audit::Auditing;
use crate::context::Context;
use crate::directory::CampaignDirectory;
use crate::running_campaigns::MAX_IN_OVERVIEW;
use crate::stock_counts::StockCounts;
use crate::tables::FigureTables;

/// Closed campaigns whose figures are kept.
const MAX_CLOSED: usize = 50;
/// Campaigns whose last figures are cached.
const MAX_SHOWN: usize = 2 * (MAX_IN_OVERVIEW + MAX_CLOSED);
const SAMPLE_EVERY: Duration = Duration::from_secs(1);
/// Maximum number of concurrent streams of figures.
const MAX_STREAMS: usize = 64;

/// What the figures are gathered from.
#[derive(Debug)]
pub(crate) struct FigureSources {
    pub(crate) context: Arc<Context>,
    pub(crate) ledger: FigureTables,
    pub(crate) directory: Arc<CampaignDirectory>,
    pub(crate) meters: Arc<Meters>,
    pub(crate) counts: Arc<StockCounts>,
    pub(crate) rooms: WaitingRooms,
    pub(crate) auditing: Arc<Auditing>,
    /// This node's name.
    pub(crate) node: String,
}

#[derive(Debug)]
pub struct LiveFigures {
    sources: FigureSources,
    /// The last figures of each campaign.
    shown: Cache<CampaignId, Arc<tokio::sync::Mutex<CachedFigures>>>,
    /// Units that expire soon, by campaign; `None` while unknown.
    expiring: RwLock<Option<HashMap<CampaignId, Expiring>>>,
    streams: Arc<Semaphore>,
}

impl LiveFigures {
    pub(crate) fn new(sources: FigureSources) -> Self {
        Self {
            sources,
            shown: Cache::new(MAX_SHOWN),
            expiring: RwLock::default(),
            streams: Arc::new(Semaphore::new(MAX_STREAMS)),
        }
    }

    fn shown(&self, id: CampaignId) -> Arc<tokio::sync::Mutex<CachedFigures>> {
        let made = self.shown.get_or_insert_with(&id, || Ok::<_, Infallible>(Arc::default()));
        made.unwrap_or_else(|never| match never {})
    }

    /// Number of people in the campaign's waiting room.
    async fn waiting_in(&self, campaign: &Campaign) -> usize {
        match campaign.protect.admit_per_s {
            Some(_) => self.sources.rooms.waiting(campaign.id).await,
            None => 0,
        }
    }

    /// A permit for a stream of figures; `None` if there are too many.
    pub fn watch_live(&self) -> Option<OwnedSemaphorePermit> {
        self.streams.clone().try_acquire_owned().ok()
    }
}
