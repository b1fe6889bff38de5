//! The embedded ledger: SQLite in WAL mode, one writer thread, a few readers.
//!
//! What always holds: every change goes through the writer; a commit is synced before anybody hears of it; a
//! failed sync ends writing for good.

mod accounts;
mod audit;
mod buyers;
mod campaigns;
mod connection;
mod deliveries;
mod delivery_desk;
mod draws;
mod events;
mod items;
mod orders;
mod payments;
mod places;
mod plays;
mod record;
mod remembered;
mod rows;
mod settings;
mod stock;
mod webhooks;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rusqlite::Connection;
use tidegate_core::order::WrongState;
use tidegate_core::pool::Withdrawal;
use tidegate_core::{
    Campaign, CampaignId, Claim, IdempotencyKey, Item, Moment, Order, OrderId, Play, PlayId, Seed,
    StockEntry, UserId,
};

pub use self::accounts::{Account, CodeCheck, CodeLimits, CodeSent, NewCode};
pub use self::buyers::{NewBuyer, Session};
pub use self::connection::schema_version;
pub use self::deliveries::Tried;
pub use self::delivery_desk::DeliveryFilter;
pub use self::events::Event;
pub use self::orders::OrderFilter;
pub use self::payments::DueRefund;
pub use self::places::KeptPlace;
pub use self::webhooks::Webhook;
use self::writer::Writer;
use super::{
    Actor, Audit, Delivery, History, Ledger, LedgerError, Payment, Recorded, Records, Remember, Settlement,
};
use crate::intake::Position;

#[derive(Clone, Debug)]
pub struct SqliteOptions {
    pub path: PathBuf,
    pub readers: usize,
    pub cache_mb: u32,
    /// The most the file may grow to; beyond it writes fail as on a full disk.
    pub max_mb: Option<u32>,
}

/// Called from the writer's thread; must be quick.
pub trait Observer: Send + Sync + 'static {
    fn committed(&self, changes: usize, took: Duration);
    /// Why nothing can be written, or that it can again.
    fn trouble(&self, problem: Option<&LedgerError>);
}

/// Nobody looks.
#[derive(Clone, Copy, Debug)]
pub struct Unobserved;

impl Observer for Unobserved {
    fn committed(&self, _: usize, _: Duration) {}
    fn trouble(&self, _: Option<&LedgerError>) {}
}

pub struct SqliteLedger {
    writer: Writer,
    readers: Arc<Readers>,
    /// Long queries at a time: one reader is always left for short ones.
    scans: tokio::sync::Semaphore,
}

struct Readers {
    idle: Mutex<Vec<Connection>>,
    returned: Condvar,
}

impl SqliteLedger {
    pub fn open(options: &SqliteOptions, observer: Box<dyn Observer>) -> Result<Self, LedgerError> {
        let writer = connection::open_writer(options)?;
        Self::with(Writer::start(writer, observer)?, options)
    }

    /// For looking only, beside a running server; every change is refused.
    pub fn open_to_read(options: &SqliteOptions) -> Result<Self, LedgerError> {
        Self::with(Writer::start(connection::open_reader(options)?, Box::new(Unobserved))?, options)
    }

    fn with(writer: Writer, options: &SqliteOptions) -> Result<Self, LedgerError> {
        let scans = tokio::sync::Semaphore::new(options.readers.saturating_sub(1).max(1));
        Ok(Self { writer, readers: Readers::open(options)?, scans })
    }

    /// Runs a short query here and now: a few rows by an index.
    pub fn read<T>(&self, query: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, LedgerError> {
        self.readers.with(query)
    }

    /// Runs a long query on a thread where it stops nobody.
    pub async fn scan<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, LedgerError> {
        let _place = self.scans.acquire().await;
        let readers = self.readers.clone();
        let answer = tokio::task::spawn_blocking(move || readers.with(query)).await;
        answer.unwrap_or_else(|panic| Err(LedgerError::Unexpected(panic.to_string())))
    }

    /// Records claims whose intake has no position that all readers share: an order is known by its id.
    pub async fn record_unplaced(
        &self,
        claims: Vec<Arc<Claim>>,
        now: Moment,
    ) -> Result<Vec<Recorded>, LedgerError> {
        self.writer.write_alone(move |tx| record::record(tx, None, &claims, now)).await
    }

    /// The same for a claim that cannot be recorded.
    pub async fn set_aside_unplaced(
        &self,
        claim: Arc<Claim>,
        why: String,
        now: Moment,
    ) -> Result<(), LedgerError> {
        self.writer.write_alone(move |tx| record::set_aside(tx, None, &claim, &why, now)).await
    }

    /// Commits what waits, then stops writing.
    pub fn close(&self) {
        self.writer.close();
    }
}

impl Readers {
    fn open(options: &SqliteOptions) -> Result<Arc<Self>, LedgerError> {
        let idle = (0..options.readers.max(2))
            .map(|_| connection::open_reader(options))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Arc::new(Self { idle: Mutex::new(idle), returned: Condvar::new() }))
    }

    fn with<T>(&self, query: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, LedgerError> {
        let connection = {
            let mut idle = self.idle.lock();
            loop {
                if let Some(connection) = idle.pop() {
                    break connection;
                }
                self.returned.wait(&mut idle);
            }
        };
        let connection = Borrowed { readers: self, connection: Some(connection) };
        // `connection` is taken only when the borrow ends.
        let Some(open) = connection.connection.as_ref() else {
            return Err(LedgerError::Unexpected("no connection".into()));
        };
        query(open).map_err(|error| connection::explain(&error))
    }
}

/// Goes back to the idle ones even if the query panics.
struct Borrowed<'a> {
    readers: &'a Readers,
    connection: Option<Connection>,
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.readers.idle.lock().push(connection);
            self.readers.returned.notify_one();
        }
    }
}

impl std::fmt::Debug for SqliteLedger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SqliteLedger(..)")
    }
}

/// Where the ledger lies in a data directory.
pub fn path_in(data_dir: &Path) -> PathBuf {
    data_dir.join("ledger.db")
}

impl Records for SqliteLedger {
    async fn record(
        &self,
        first: Position,
        claims: Vec<Arc<Claim>>,
        now: Moment,
    ) -> Result<Vec<Recorded>, LedgerError> {
        self.writer.write_alone(move |tx| record::record(tx, Some(first), &claims, now)).await
    }

    async fn set_aside(
        &self,
        position: Position,
        claim: Arc<Claim>,
        why: String,
        now: Moment,
    ) -> Result<(), LedgerError> {
        self.writer.write_alone(move |tx| record::set_aside(tx, Some(position), &claim, &why, now)).await
    }
}

impl Ledger for SqliteLedger {
    async fn create_item(&self, item: Item, remember: Option<Remember>) -> Result<(), LedgerError> {
        self.writer.write(move |tx| items::create(tx, &item, remember)).await
    }

    async fn create_campaign(
        &self,
        campaign: Campaign,
        codes: Vec<Vec<String>>,
        remember: Option<Remember>,
    ) -> Result<(), LedgerError> {
        self.writer
            .write_alone(move |tx| {
                campaigns::create(tx, &campaign, remember)?;
                if campaign.draw().is_some() { draws::write(tx, &campaign, &codes) } else { Ok(()) }
            })
            .await
    }

    async fn position(&self) -> Result<Position, LedgerError> {
        self.read(record::position)
    }

    async fn seed(&self, campaign: CampaignId) -> Result<Option<Seed>, LedgerError> {
        self.scan(move |connection| stock::seed(connection, campaign)).await
    }

    async fn reseed(&self, campaign: CampaignId, now: Moment) -> Result<Option<Seed>, LedgerError> {
        self.writer.write(move |tx| stock::reseed(tx, campaign, now)).await
    }

    async fn stock_log(
        &self,
        campaign: CampaignId,
        after: u64,
        most: u32,
    ) -> Result<Vec<StockEntry>, LedgerError> {
        self.read(|connection| stock::log_after(connection, campaign, after, most))
    }

    async fn restock(
        &self,
        campaign: CampaignId,
        units: u32,
        now: Moment,
        remember: Option<Remember>,
    ) -> Result<Option<Campaign>, LedgerError> {
        self.writer.write(move |tx| stock::restock(tx, campaign, units, now, remember)).await
    }

    async fn withdraw(
        &self,
        campaign: CampaignId,
        withdrawal: Withdrawal,
        now: Moment,
        remember: Option<Remember>,
    ) -> Result<Option<Campaign>, LedgerError> {
        self.writer.write(move |tx| stock::withdraw(tx, campaign, &withdrawal, now, remember)).await
    }

    async fn order(&self, id: OrderId) -> Result<Option<Order>, LedgerError> {
        self.read(|connection| orders::by_id(connection, id))
    }

    async fn order_by_key(&self, user: UserId, key: IdempotencyKey) -> Result<Option<Order>, LedgerError> {
        self.find_by_key(user, key)
    }

    async fn play(&self, id: PlayId) -> Result<Option<Play>, LedgerError> {
        self.find_play(id)
    }

    async fn history(&self, draw: CampaignId) -> Result<Option<History>, LedgerError> {
        self.read(|connection| draws::history(connection, draw))
    }

    async fn give_prizes(&self, now: Moment, most: u32) -> Result<usize, LedgerError> {
        self.writer.write_alone(move |tx| deliveries::give_due(tx, now, most)).await
    }

    async fn delivery_of(&self, play: PlayId) -> Result<Option<Delivery>, LedgerError> {
        self.find_delivery_of(play)
    }

    async fn settle(&self, payment: Payment, by: Actor, now: Moment) -> Result<Settlement, LedgerError> {
        self.writer.write(move |tx| payments::settle(tx, &payment, by, now)).await
    }

    async fn cancel(
        &self,
        id: OrderId,
        by: Actor,
        now: Moment,
    ) -> Result<Option<Result<Order, WrongState>>, LedgerError> {
        self.writer.write(move |tx| orders::cancel(tx, id, by, now)).await
    }

    async fn refund(
        &self,
        id: OrderId,
        by: Actor,
        now: Moment,
    ) -> Result<Option<Result<Order, WrongState>>, LedgerError> {
        self.writer.write(move |tx| payments::refund(tx, id, by, now)).await
    }

    async fn expire_due(&self, now: Moment, most: u32) -> Result<Vec<Order>, LedgerError> {
        self.writer.write(move |tx| orders::expire_due(tx, now, most)).await
    }

    async fn next_deadline(&self) -> Result<Option<Moment>, LedgerError> {
        self.read(orders::next_deadline)
    }

    async fn audit(&self, campaign: CampaignId) -> Result<Option<Audit>, LedgerError> {
        self.scan(move |connection| audit::audit(connection, campaign)).await
    }
}
