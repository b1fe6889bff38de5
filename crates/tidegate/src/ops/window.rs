//! What everybody looks at: the shop window, and how a sold-out sale stands. Looked up once a second, however many look.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::RwLock;
use quick_cache::sync::Cache;
use tidegate_core::CampaignId;
use tidegate_store::ledger::{Page, Tally};
use tokio::sync::Mutex;

use super::draws::DrawView;
use super::sales::SaleView;
use super::{App, Refusal};

/// How old it may be.
const FRESH: Duration = Duration::from_secs(1);
/// How many of each are looked at, the newest first.
const MOST: u32 = 60;
const CACHED_TALLIES: usize = 1000;

#[derive(Clone, Debug, Default)]
pub struct ShopWindow {
    pub sales: Vec<SaleView>,
    pub draws: Vec<DrawView>,
}

#[derive(Debug)]
pub(super) struct Dressed {
    window: RwLock<Option<(Instant, Arc<ShopWindow>)>>,
    /// Held by whoever dresses it anew.
    dressing: Mutex<()>,
    tallies: Cache<CampaignId, (Instant, Tally)>,
}

impl Default for Dressed {
    fn default() -> Self {
        Self { window: RwLock::default(), dressing: Mutex::default(), tallies: Cache::new(CACHED_TALLIES) }
    }
}

impl App {
    /// One looks it up anew while all others get what there is; only the first visitors ever wait.
    pub async fn shop_window(&self) -> Result<Arc<ShopWindow>, Refusal> {
        let dressed = self.window.window.read().clone();
        let _dressing = match dressed {
            Some((at, window)) if at.elapsed() < FRESH => return Ok(window),
            Some((_, window)) => match self.window.dressing.try_lock() {
                Ok(dressing) => dressing,
                Err(_) => return Ok(window),
            },
            None => self.window.dressing.lock().await,
        };
        if let Some((at, window)) = self.window.window.read().as_ref()
            && at.elapsed() < FRESH
        {
            return Ok(window.clone());
        }
        let page = Page { before: None, limit: MOST };
        let (sales, draws) = (self.sales(page).await?, self.draws(page, None).await?);
        let window = Arc::new(ShopWindow { sales, draws });
        *self.window.window.write() = Some((Instant::now(), window.clone()));
        Ok(window)
    }

    /// A campaign's units as they were within the last second.
    pub(super) async fn recent_tally(&self, id: CampaignId) -> Result<Tally, Refusal> {
        if let Some((at, tally)) = self.window.tallies.get(&id)
            && at.elapsed() < FRESH
        {
            return Ok(tally);
        }
        let tally = self.ledger.tally(id).await?.unwrap_or_default();
        self.window.tallies.insert(id, (Instant::now(), tally));
        Ok(tally)
    }
}
