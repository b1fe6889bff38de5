//! The ledger: opens the database and hands out one handle per group of tables.
//!
//! A handle is cheap to clone, so that a service owns those of the tables it uses and no others.

use std::sync::Arc;

use tidegate_core::{Claim, Moment};

use crate::engine::Database;
use crate::engine::database::{Observer, SqliteOptions};
use crate::engine::params;
use crate::tables::rows::id;
use crate::tables::{
    Accounts, ApiKeys, Buyers, Campaigns, Claims, ConsoleSessions, Deliveries, Draws, Events,
    IdempotencyKeys, Items, Leases, OneTimeCodes, Operators, Orders, Payments, Plays, Sessions, Settings,
    Stock, WaitingRoomPlaces, Webhooks,
};
use crate::{LedgerError, Position, PostgresOptions, RecordOutcome, Records};

#[derive(Debug)]
pub struct SqlLedger {
    pub(crate) database: Arc<Database>,
    pub accounts: Accounts,
    pub api_keys: ApiKeys,
    pub buyers: Buyers,
    pub campaigns: Campaigns,
    pub claims: Claims,
    pub console_sessions: ConsoleSessions,
    pub deliveries: Deliveries,
    pub draws: Draws,
    pub events: Events,
    pub idempotency_keys: IdempotencyKeys,
    pub items: Items,
    pub leases: Leases,
    pub one_time_codes: OneTimeCodes,
    pub operators: Operators,
    pub orders: Orders,
    pub payments: Payments,
    pub places: WaitingRoomPlaces,
    pub plays: Plays,
    pub sessions: Sessions,
    pub settings: Settings,
    pub stock: Stock,
    pub webhooks: Webhooks,
}

impl SqlLedger {
    /// Opens an SQLite file and migrates its schema if necessary.
    pub fn open(options: &SqliteOptions, observer: Box<dyn Observer>) -> Result<Self, LedgerError> {
        Ok(Self::on(Database::sqlite(options, observer)?))
    }

    /// Opens an SQLite file beside a running server; every write is refused.
    pub fn open_read_only(options: &SqliteOptions) -> Result<Self, LedgerError> {
        Ok(Self::on(Database::sqlite_read_only(options)?))
    }

    /// Uses PostgreSQL. Connects lazily and reconnects by itself, so the server may be unreachable now.
    pub fn postgres(options: PostgresOptions, observer: Arc<dyn Observer>) -> Result<Self, LedgerError> {
        Ok(Self::on(Database::postgres(options, observer)?))
    }

    fn on(database: Database) -> Self {
        let database = Arc::new(database);
        let shared = || Arc::clone(&database);
        Self {
            accounts: Accounts(shared()),
            api_keys: ApiKeys(shared()),
            buyers: Buyers(shared()),
            campaigns: Campaigns(shared()),
            claims: Claims(shared()),
            console_sessions: ConsoleSessions(shared()),
            deliveries: Deliveries(shared()),
            draws: Draws(shared()),
            events: Events(shared()),
            idempotency_keys: IdempotencyKeys(shared()),
            items: Items(shared()),
            leases: Leases(shared()),
            one_time_codes: OneTimeCodes(shared()),
            operators: Operators(shared()),
            orders: Orders(shared()),
            payments: Payments(shared()),
            places: WaitingRoomPlaces(shared()),
            plays: Plays(shared()),
            sessions: Sessions(shared()),
            settings: Settings(shared()),
            stock: Stock(shared()),
            webhooks: Webhooks(shared()),
            database,
        }
    }

    /// Migrates PostgreSQL's schema, one node at a time. SQLite is migrated when it is opened.
    pub async fn migrate(&self) -> Result<(), LedgerError> {
        self.database.migrate().await
    }

    /// Looks once whether PostgreSQL answers, and replaces connections to it that fell silent. To be called several
    /// times a second.
    pub async fn watch(&self) -> Result<(), LedgerError> {
        self.database.watch().await
    }

    /// Makes a write without effect, to find out whether writing works.
    pub async fn probe(&self) -> Result<(), LedgerError> {
        let update = "UPDATE intake SET recorded = recorded";
        self.database.write(move |tx| tx.execute(update, params![]).map(|_| ())).await
    }

    /// The highest id in use; a generator of new ids starts above it.
    pub async fn highest_id(&self) -> Result<u64, LedgerError> {
        self.database
            .read(move |connection| {
                connection.query_row(
                    "SELECT coalesce(max(id), 0) AS id FROM (
                         SELECT max(id) AS id FROM orders UNION ALL SELECT max(id) FROM buyer UNION ALL
                         SELECT max(id) FROM campaign UNION ALL SELECT max(id) FROM item UNION ALL
                         SELECT max(id) FROM play UNION ALL SELECT max(id) FROM webhook UNION ALL
                         SELECT max(id) FROM operator_account UNION ALL SELECT max(id) FROM api_key) AS ids",
                    params![],
                    |row| id(row, "id"),
                )
            })
            .await
    }

    /// Commits pending changes, then refuses all others, whichever handle they come from.
    pub fn close(&self) {
        self.database.close();
    }
}

impl Records for SqlLedger {
    async fn record(
        &self,
        first: Position,
        claims: Vec<Arc<Claim>>,
        now: Moment,
    ) -> Result<Vec<RecordOutcome>, LedgerError> {
        self.claims.record_from_journal(first, claims, now).await
    }

    /// A wrong count or a damaged index violates constraints, too: the claim is at fault only if the ledger is sound.
    async fn set_aside(
        &self,
        position: Position,
        claim: Arc<Claim>,
        why: String,
        now: Moment,
    ) -> Result<RecordOutcome, LedgerError> {
        self.database.verify().await?;
        let audit = self.campaigns.audit(claim.campaign).await?;
        if let Some(violation) = audit.and_then(|audit| audit.violations.into_iter().next()) {
            return Err(self.database.fail(LedgerError::Damaged(violation)));
        }
        self.claims.set_aside_from_journal(position, claim, why, now).await
    }
}
