//! The ports of a ledger, as this one keeps them.

use std::sync::Arc;

use tidegate_core::order::WrongState;
use tidegate_core::pool::Withdrawal;
use tidegate_core::{
    Campaign, CampaignId, Claim, IdempotencyKey, Item, Moment, Order, OrderId, Play, PlayId, Seed,
    StockEntry, UserId,
};

use super::{
    Backend, SqlLedger, audit, campaigns, deliveries, draws, items, orders, payments, record, stock,
};
use crate::intake::Position;
use crate::ledger::{
    Actor, Audit, Delivery, History, Ledger, LedgerError, Payment, Recorded, Records, Remember, Settlement,
};

impl Records for SqlLedger {
    async fn record(
        &self,
        first: Position,
        claims: Vec<Arc<Claim>>,
        now: Moment,
    ) -> Result<Vec<Recorded>, LedgerError> {
        self.write_alone(move |tx| record::record(tx, Some(first), &claims, now)).await
    }

    async fn set_aside(
        &self,
        position: Position,
        claim: Arc<Claim>,
        why: String,
        now: Moment,
    ) -> Result<Recorded, LedgerError> {
        self.write_alone(move |tx| record::set_aside(tx, Some(position), &claim, &why, now)).await
    }
}

impl Ledger for SqlLedger {
    async fn create_item(
        &self,
        item: Item,
        by: Actor,
        remember: Option<Remember>,
    ) -> Result<(), LedgerError> {
        self.write(move |tx| items::create(tx, &item, &by, remember)).await
    }

    async fn create_campaign(
        &self,
        campaign: Campaign,
        codes: Vec<Vec<String>>,
        by: Actor,
        remember: Option<Remember>,
    ) -> Result<(), LedgerError> {
        self.write_alone(move |tx| {
            campaigns::create(tx, &campaign, &by, remember)?;
            if campaign.draw().is_some() { draws::write(tx, &campaign, &codes) } else { Ok(()) }
        })
        .await
    }

    async fn position(&self) -> Result<Position, LedgerError> {
        self.read(record::position).await
    }

    async fn seed(&self, campaign: CampaignId) -> Result<Option<Seed>, LedgerError> {
        self.scan(move |connection| stock::seed(connection, campaign)).await
    }

    async fn reseed(&self, campaign: CampaignId, now: Moment) -> Result<Option<Seed>, LedgerError> {
        match &self.0 {
            Backend::Sqlite(sqlite) => sqlite.writer.write(move |tx| stock::reseed(tx, campaign, now)).await,
            // Millions of rows may be read.
            Backend::Postgres(postgres) => {
                postgres.write_long(move |tx| stock::reseed(tx, campaign, now)).await
            }
        }
    }

    async fn stock_log(
        &self,
        campaign: CampaignId,
        after: u64,
        most: u32,
    ) -> Result<Vec<StockEntry>, LedgerError> {
        self.read(move |connection| stock::log_after(connection, campaign, after, most)).await
    }

    async fn restock(
        &self,
        campaign: CampaignId,
        units: u32,
        by: Actor,
        now: Moment,
        remember: Option<Remember>,
    ) -> Result<Option<Campaign>, LedgerError> {
        self.write(move |tx| stock::restock(tx, campaign, units, &by, now, remember)).await
    }

    async fn withdraw(
        &self,
        campaign: CampaignId,
        withdrawal: Withdrawal,
        by: Actor,
        now: Moment,
        remember: Option<Remember>,
    ) -> Result<Option<Campaign>, LedgerError> {
        self.write(move |tx| stock::withdraw(tx, campaign, &withdrawal, &by, now, remember)).await
    }

    async fn order(&self, id: OrderId) -> Result<Option<Order>, LedgerError> {
        self.read(move |connection| orders::by_id(connection, id)).await
    }

    async fn order_by_key(&self, user: UserId, key: IdempotencyKey) -> Result<Option<Order>, LedgerError> {
        self.find_by_key(user, key).await
    }

    async fn play(&self, id: PlayId) -> Result<Option<Play>, LedgerError> {
        self.find_play(id).await
    }

    async fn history(&self, draw: CampaignId) -> Result<Option<History>, LedgerError> {
        self.read(move |connection| draws::history(connection, draw)).await
    }

    async fn give_prizes(&self, now: Moment, most: u32) -> Result<usize, LedgerError> {
        self.write_alone(move |tx| deliveries::give_due(tx, now, most)).await
    }

    async fn delivery_of(&self, play: PlayId) -> Result<Option<Delivery>, LedgerError> {
        self.find_delivery_of(play).await
    }

    async fn settle(&self, payment: Payment, by: Actor, now: Moment) -> Result<Settlement, LedgerError> {
        self.write(move |tx| payments::settle(tx, &payment, &by, now)).await
    }

    async fn cancel(
        &self,
        id: OrderId,
        by: Actor,
        now: Moment,
    ) -> Result<Option<Result<Order, WrongState>>, LedgerError> {
        self.write(move |tx| orders::cancel(tx, id, &by, now)).await
    }

    async fn refund(
        &self,
        id: OrderId,
        by: Actor,
        now: Moment,
    ) -> Result<Option<Result<Order, WrongState>>, LedgerError> {
        self.write(move |tx| payments::refund(tx, id, &by, now)).await
    }

    async fn expire_due(&self, now: Moment, most: u32) -> Result<Vec<Order>, LedgerError> {
        self.write(move |tx| orders::expire_due(tx, now, most)).await
    }

    async fn next_deadline(&self) -> Result<Option<Moment>, LedgerError> {
        self.read(orders::next_deadline).await
    }

    async fn audit(&self, campaign: CampaignId) -> Result<Option<Audit>, LedgerError> {
        self.scan(move |connection| audit::audit(connection, campaign)).await
    }
}
