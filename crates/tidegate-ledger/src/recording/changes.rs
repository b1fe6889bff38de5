//! The changes of a batch of claims, collected claim by claim and written with one statement per table.

use std::sync::Arc;

use hashbrown::HashMap;
use tidegate_core::dealer::Hash;
use tidegate_core::{
    CampaignId, Claim, EventKind, Granted, Moment, OrderState, PlayState, Rejection, Slots, StockChange,
    UserId,
};

use super::snapshot::{CampaignSnapshot, Snapshot};
use crate::Actor;
use crate::engine;
use crate::engine::dialect::Column;
use crate::engine::{Connection, Values, params, row};
use crate::tables::rows::{broken, sql};
use crate::tables::{deliveries, draws, stock};

#[derive(Default)]
pub(crate) struct Changes {
    /// Orders and plays, in the order of their claims; a rejected one with its reason.
    outcomes: Vec<Outcome>,
    held: Vec<Arc<Claim>>,
    log: Vec<Entry>,
    /// Claims that were granted twice, with the slots of the second grant that nobody holds.
    second_grants: Vec<(Arc<Claim>, Slots)>,
}

/// Units that go back on sale.
pub(crate) struct Entry {
    pub(crate) campaign: CampaignId,
    pub(crate) change: StockChange,
}

/// A play's number in its draw's history, and the hash chain's value after it.
pub(crate) struct HistoryEntry {
    pub(crate) number: u64,
    pub(crate) hash: Hash,
}

struct Outcome {
    claim: Arc<Claim>,
    reason: Option<Rejection>,
    place: Option<HistoryEntry>,
}

impl Outcome {
    fn event(&self) -> EventKind {
        match (&self.claim.granted, self.reason) {
            (Granted::Order { .. }, None) => EventKind::OrderCreated,
            (Granted::Order { .. }, Some(_)) => EventKind::OrderRejected,
            (Granted::Play { .. }, None) => EventKind::PlayCreated,
            (Granted::Play { .. }, Some(_)) => EventKind::PlayRejected,
        }
    }

    /// A rejected claim does not consume its idempotency key: the buyer may retry with it.
    fn key(&self) -> Option<[u8; 16]> {
        self.claim.key.filter(|_| self.reason.is_none()).map(|key| key.0)
    }
}

impl Changes {
    /// Assigns the claim's slots to it.
    pub(crate) fn hold(&mut self, claim: &Arc<Claim>) {
        self.held.push(claim.clone());
    }

    pub(crate) fn order(&mut self, claim: &Arc<Claim>, reason: Option<Rejection>) {
        self.outcomes.push(Outcome { claim: claim.clone(), reason, place: None });
    }

    pub(crate) fn play(&mut self, claim: &Arc<Claim>, place: Result<HistoryEntry, Rejection>) {
        let (place, reason) = match place {
            Ok(place) => (Some(place), None),
            Err(reason) => (None, Some(reason)),
        };
        self.outcomes.push(Outcome { claim: claim.clone(), reason, place });
    }

    pub(crate) fn log(&mut self, entry: Entry) {
        self.log.push(entry);
    }

    pub(crate) fn second_grant(&mut self, claim: &Arc<Claim>, free: Slots) {
        self.second_grants.push((claim.clone(), free));
    }

    pub(crate) fn write(&self, tx: &Connection, snapshot: &Snapshot, now: Moment) -> engine::Result<()> {
        self.write_held(tx, snapshot)?;
        self.write_orders(tx, now)?;
        self.write_plays(tx, snapshot, now)?;
        for Entry { campaign, change } in &self.log {
            stock::log(tx, *campaign, change, now)?;
        }
        self.return_second_grants(tx, now)?;
        self.write_events(tx, now)?;
        for campaign_snapshot in snapshot.campaigns() {
            self.write_tally(tx, campaign_snapshot)?;
        }
        Ok(())
    }

    /// Puts the slots of second grants back on sale, once: the same entry of a stream can be recorded again.
    fn return_second_grants(&self, tx: &Connection, now: Moment) -> engine::Result<()> {
        for (claim, free) in &self.second_grants {
            let grant = params![sql(claim.id.raw()), claim.epoch, sql(claim.version)];
            let is_new = tx.execute(
                "INSERT INTO second_grant (claim, epoch, version) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                grant,
            )? == 1;
            if is_new && free.units() > 0 {
                let (user, slots, prize) = (claim.user, free.clone(), claim.prize());
                let change = StockChange::Return { user, slots, prize };
                stock::log(tx, claim.campaign, &change, now)?;
            }
        }
        Ok(())
    }

    fn write_held(&self, tx: &Connection, snapshot: &Snapshot) -> engine::Result<()> {
        let taken = self.held.iter().flat_map(|claim| claim.slots.iter().map(move |slot| (claim, slot)));
        let rows: Vec<Values<'_>> = taken
            .map(|(claim, slot)| row![sql(claim.campaign.raw()), i64::from(slot), sql(claim.id.raw())])
            .collect();
        let columns = [Column::int("campaign"), Column::int("slot"), Column::int("id")];
        tx.change_many(&columns, &rows, "INSERT INTO held SELECT campaign, slot, id FROM given")?;
        let mut units: HashMap<(CampaignId, UserId), u32> = HashMap::new();
        for claim in &self.held {
            units.insert((claim.campaign, claim.user), snapshot.units(claim));
        }
        let rows: Vec<Values<'_>> = units
            .iter()
            .map(|((campaign, user), units)| row![sql(campaign.raw()), sql(user.raw()), *units])
            .collect();
        let columns = [Column::int("campaign"), Column::int("user"), Column::int("units")];
        tx.change_many(
            &columns,
            &rows,
            "INSERT INTO held_by_user SELECT campaign, user, units FROM given WHERE true
             ON CONFLICT (campaign, user) DO UPDATE SET units = excluded.units",
        )?;
        Ok(())
    }

    fn write_orders(&self, tx: &Connection, now: Moment) -> engine::Result<()> {
        let orders =
            self.outcomes.iter().filter(|outcome| matches!(outcome.claim.granted, Granted::Order { .. }));
        // Values that the rows borrow.
        let borrowed: Vec<_> =
            orders.map(|outcome| (outcome, outcome.claim.slots.to_string(), outcome.key())).collect();
        let mut rows: Vec<Values<'_>> = Vec::with_capacity(borrowed.len());
        for (outcome, slots, key) in &borrowed {
            let claim = &outcome.claim;
            let Granted::Order { unit_price, pay_by } = &claim.granted else { continue };
            let state =
                if outcome.reason.is_some() { OrderState::Rejected } else { OrderState::AwaitingPayment };
            rows.push(row![
                sql(claim.id.raw()),
                sql(claim.campaign.raw()),
                sql(claim.user.raw()),
                slots,
                unit_price.amount,
                unit_price.currency.as_str(),
                state.as_str(),
                outcome.reason.map(Rejection::code),
                key.as_ref(),
                claim.created_at.millis(),
                pay_by.millis(),
                now.millis()
            ]);
        }
        tx.change_many(ORDER, &rows, INSERT_ORDERS)?;
        Ok(())
    }

    fn write_plays(&self, tx: &Connection, snapshot: &Snapshot, now: Moment) -> engine::Result<()> {
        let plays =
            self.outcomes.iter().filter(|outcome| matches!(outcome.claim.granted, Granted::Play { .. }));
        let borrowed: Vec<_> = plays.map(|outcome| (outcome, outcome.key())).collect();
        let mut rows: Vec<Values<'_>> = Vec::with_capacity(borrowed.len());
        for (outcome, key) in &borrowed {
            let claim = &outcome.claim;
            let Granted::Play { client_seed, prize } = &claim.granted else { continue };
            let (place, played) = (&outcome.place, outcome.reason.is_none());
            let state = if played { PlayState::Played } else { PlayState::Rejected };
            rows.push(row![
                sql(claim.id.raw()),
                sql(claim.campaign.raw()),
                sql(claim.user.raw()),
                claim.slots.iter().next(),
                client_seed,
                prize.filter(|_| played),
                state.as_str(),
                outcome.reason.map(Rejection::code),
                place.as_ref().map(|place| sql(place.number)),
                place.as_ref().map(|place| &place.hash),
                key.as_ref(),
                claim.created_at.millis(),
                now.millis()
            ]);
        }
        tx.change_many(PLAY, &rows, INSERT_PLAYS)?;
        for (outcome, _) in &borrowed {
            if let Some(prize) = outcome.claim.prize().filter(|_| outcome.reason.is_none()) {
                let campaign_snapshot = snapshot
                    .campaign_snapshot(outcome.claim.campaign)
                    .ok_or_else(|| broken("a prize has a draw"))?;
                if !draws::take_prize(tx, outcome.claim.campaign, prize)? {
                    return Err(broken("a prize was given that is not left"));
                }
                deliveries::owe_prize(tx, &campaign_snapshot.campaign, &outcome.claim, prize, now)?;
            }
        }
        Ok(())
    }

    fn write_events(&self, tx: &Connection, now: Moment) -> engine::Result<()> {
        let actor = |outcome: &Outcome| Actor::Buyer(outcome.claim.user).to_string();
        let borrowed: Vec<_> = self.outcomes.iter().map(|outcome| (outcome, actor(outcome))).collect();
        let mut rows: Vec<Values<'_>> = Vec::with_capacity(borrowed.len());
        for (outcome, actor) in &borrowed {
            let claim = &outcome.claim;
            rows.push(row![
                now.millis(),
                actor,
                outcome.event().as_str(),
                sql(claim.campaign.raw()),
                sql(claim.id.raw()),
                outcome.reason.map(Rejection::code)
            ]);
        }
        tx.change_many(EVENT, &rows, INSERT_EVENTS)?;
        Ok(())
    }

    fn write_tally(&self, tx: &Connection, campaign_snapshot: &CampaignSnapshot) -> engine::Result<()> {
        let campaign = &campaign_snapshot.campaign;
        let ours = self.held.iter().filter(|claim| claim.campaign == campaign.id);
        let units: u32 = ours.map(|claim| claim.slots.units()).sum();
        if units == 0 {
            return Ok(());
        }
        let (awaiting, paid) = if campaign.draw().is_some() { (0, units) } else { (units, 0) };
        tx.prepare_cached("UPDATE campaign SET awaiting = awaiting + ?, paid = paid + ? WHERE id = ?")?
            .execute(params![awaiting, paid, sql(campaign.id.raw())])?;
        match campaign_snapshot.history() {
            Some(history) => draws::set_history(tx, campaign.id, history),
            None => Ok(()),
        }
    }
}

const ORDER: &[Column] = &[
    Column::int("id"),
    Column::int("campaign"),
    Column::int("user"),
    Column::text("slots"),
    Column::int("price"),
    Column::text("currency"),
    Column::text("state"),
    Column::text("reason"),
    Column::blob("key"),
    Column::int("created_at"),
    Column::int("pay_by"),
    Column::int("updated_at"),
];
const INSERT_ORDERS: &str = "INSERT INTO orders
     SELECT id, campaign, user, slots, price, currency, state, reason, key, created_at, pay_by, updated_at FROM given";
const PLAY: &[Column] = &[
    Column::int("id"),
    Column::int("campaign"),
    Column::int("user"),
    Column::int("seat"),
    Column::text("client_seed"),
    Column::int("prize"),
    Column::text("state"),
    Column::text("reason"),
    Column::int("number"),
    Column::blob("hash"),
    Column::blob("key"),
    Column::int("created_at"),
    Column::int("recorded_at"),
];
const INSERT_PLAYS: &str = "INSERT INTO play
     SELECT id, campaign, user, seat, client_seed, prize, state, reason, number, hash, key, created_at, recorded_at
     FROM given";
const EVENT: &[Column] = &[
    Column::int("at"),
    Column::text("actor"),
    Column::text("kind"),
    Column::int("campaign"),
    Column::int("subject"),
    Column::text("detail"),
];
const INSERT_EVENTS: &str = "INSERT INTO outbox (at, actor, kind, campaign, subject, detail)
     SELECT at, actor, kind, campaign, subject, detail FROM given";
