//! The shop window: what can be bought and played, as everybody sees it. Looked up once a second, however many look in.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_store::ledger::Page;
use tokio::sync::Mutex;

use super::draws::DrawView;
use super::sales::SaleView;
use super::{App, Refusal};

/// How old it may be.
const FRESH: Duration = Duration::from_secs(1);
/// How many of each are looked at, the newest first.
const MOST: u32 = 60;

#[derive(Clone, Debug, Default)]
pub struct ShopWindow {
    pub sales: Vec<SaleView>,
    pub draws: Vec<DrawView>,
}

#[derive(Debug, Default)]
pub(super) struct Dressed(Mutex<Option<(Instant, Arc<ShopWindow>)>>);

impl App {
    pub async fn shop_window(&self) -> Result<Arc<ShopWindow>, Refusal> {
        // Whoever comes while it is being looked up waits for that, instead of looking, too.
        let mut dressed = self.window.0.lock().await;
        if let Some((_, window)) = dressed.as_ref().filter(|(at, _)| at.elapsed() < FRESH) {
            return Ok(window.clone());
        }
        let page = Page { before: None, limit: MOST };
        let (sales, draws) = (self.sales(page).await?, self.draws(page, None).await?);
        let window = Arc::new(ShopWindow { sales, draws });
        *dressed = Some((Instant::now(), window.clone()));
        Ok(window)
    }
}
