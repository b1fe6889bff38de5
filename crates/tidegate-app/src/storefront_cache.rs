//! Cache of the front page: refreshed at most once a second, however many visitors there are.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::RwLock;
use tokio::sync::Mutex;

use crate::Refusal;
use crate::storefront::{DrawView, SaleView};

const FRESH_FOR: Duration = Duration::from_secs(1);

/// Everything that is on the front page.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    pub sales: Vec<SaleView>,
    pub draws: Vec<DrawView>,
}

#[derive(Debug, Default)]
pub(crate) struct StorefrontCache {
    listing: RwLock<Option<(Instant, Arc<Listing>)>>,
    /// Held while the listing is looked up.
    refreshing: Mutex<()>,
}

impl StorefrontCache {
    /// One request refreshes a stale listing while all others get the stale one; only the very first visitors wait.
    pub(crate) async fn get(
        &self,
        look_up: impl Future<Output = Result<Listing, Refusal>>,
    ) -> Result<Arc<Listing>, Refusal> {
        let cached = self.listing.read().clone();
        let _refreshing = match cached {
            Some((at, listing)) if at.elapsed() < FRESH_FOR => return Ok(listing),
            Some((_, listing)) => match self.refreshing.try_lock() {
                Ok(refreshing) => refreshing,
                Err(_) => return Ok(listing),
            },
            None => self.refreshing.lock().await,
        };
        if let Some((at, listing)) = self.listing.read().as_ref()
            && at.elapsed() < FRESH_FOR
        {
            return Ok(listing.clone());
        }
        let listing = Arc::new(look_up.await?);
        *self.listing.write() = Some((Instant::now(), listing.clone()));
        Ok(listing)
    }
}
