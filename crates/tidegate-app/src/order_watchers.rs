//! Subscriptions to changes of orders; their number is bounded.

use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::Mutex;
use tidegate_core::OrderId;
use tokio::sync::Notify;

#[derive(Debug)]
pub struct Watchers {
    orders: Mutex<HashMap<OrderId, Watched>>,
    places: Arc<tokio::sync::Semaphore>,
}

#[derive(Debug)]
struct Watched {
    changed: Arc<Notify>,
    watchers: usize,
}

/// A subscription to one order; ends when dropped.
#[derive(Debug)]
pub struct Watch {
    watchers: Arc<Watchers>,
    order: OrderId,
    changed: Arc<Notify>,
    _place: tokio::sync::OwnedSemaphorePermit,
}

impl Watchers {
    pub fn new(most: usize) -> Self {
        Self { orders: Mutex::default(), places: Arc::new(tokio::sync::Semaphore::new(most)) }
    }

    /// `None` if there are too many subscriptions.
    pub fn watch(self: &Arc<Self>, order: OrderId) -> Option<Watch> {
        let place = self.places.clone().try_acquire_owned().ok()?;
        let mut orders = self.orders.lock();
        let watched =
            orders.entry(order).or_insert_with(|| Watched { changed: Arc::new(Notify::new()), watchers: 0 });
        watched.watchers += 1;
        Some(Watch { watchers: self.clone(), order, changed: watched.changed.clone(), _place: place })
    }

    pub fn changed(&self, order: OrderId) {
        if let Some(watched) = self.orders.lock().get(&order) {
            watched.changed.notify_waiters();
        }
    }
}

impl Watch {
    /// Resolves at the next change after this call.
    pub fn changed(&self) -> impl Future<Output = ()> + use<> {
        self.changed.clone().notified_owned()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut orders = self.watchers.orders.lock();
        if let Some(watched) = orders.get_mut(&self.order) {
            watched.watchers -= 1;
            if watched.watchers == 0 {
                orders.remove(&self.order);
            }
        }
    }
}
