//! Inserts orders that are all new by a single statement, on PostgreSQL only.
//!
//! Saves four round trips per batch compared with `changes`, and sends no value that the server can derive. Measured
//! only together with fetching the next batch while the last one is acknowledged: 3 % less work per order, hardly more
//! orders per second.

use std::sync::Arc;

use hashbrown::HashMap;
use tidegate_core::{CampaignId, Claim, Granted, Moment, UserId};

use super::snapshot::Snapshot;
use crate::engine;
use crate::engine::dialect::Column;
use crate::engine::{Connection, Table, Values, row};
use crate::tables::rows::sql;

/// Writes claims that `decide` has accepted as orders.
pub(crate) fn write(
    tx: &Connection,
    snapshot: &Snapshot,
    claims: &[Arc<Claim>],
    now: Moment,
) -> engine::Result<()> {
    let borrowed: Vec<_> = claims.iter().map(|claim| (claim, claim.slots.to_string())).collect();
    let orders = borrowed.iter().filter_map(|(claim, slots)| {
        let Granted::Order { unit_price, pay_by } = &claim.granted else { return None };
        let (id, campaign, user) = (sql(claim.id.raw()), sql(claim.campaign.raw()), sql(claim.user.raw()));
        let (price, currency) = (unit_price.amount, unit_price.currency.as_str());
        let key = claim.key.as_ref().map(|key| &key.0);
        let (made, ends) = (claim.created_at.millis(), pay_by.millis());
        Some(row![id, campaign, user, slots, price, currency, key, made, ends, now.millis()])
    });
    let slots = claims.iter().flat_map(|claim| claim.slots.iter().map(move |slot| (claim, slot)));
    let slots =
        slots.map(|(claim, slot)| row![sql(claim.campaign.raw()), i64::from(slot), sql(claim.id.raw())]);
    let mut held: HashMap<(CampaignId, UserId), u32> = HashMap::with_capacity(claims.len());
    let mut tally: HashMap<CampaignId, u32> = HashMap::new();
    for claim in claims {
        held.insert((claim.campaign, claim.user), snapshot.units(claim));
        *tally.entry(claim.campaign).or_default() += claim.slots.units();
    }
    let held =
        held.iter().map(|((campaign, user), units)| row![sql(campaign.raw()), sql(user.raw()), *units]);
    let tally = tally.iter().map(|(campaign, units)| row![sql(campaign.raw()), *units]);
    let (orders, slots): (Vec<Values<'_>>, Vec<Values<'_>>) = (orders.collect(), slots.collect());
    let (held, tally): (Vec<Values<'_>>, Vec<Values<'_>>) = (held.collect(), tally.collect());
    let tables = [
        Table { name: "ordered", columns: ORDERED, rows: &orders },
        Table { name: "slotted", columns: SLOTTED, rows: &slots },
        Table { name: "holding", columns: HOLDING, rows: &held },
        Table { name: "sold", columns: SOLD, rows: &tally },
    ];
    tx.change_together(&tables, WRITE)
}

const ORDERED: &[Column] = &[
    Column::int("id"),
    Column::int("campaign"),
    Column::int("user"),
    Column::text("slots"),
    Column::int("price"),
    Column::text("currency"),
    Column::blob("key"),
    Column::int("created_at"),
    Column::int("pay_by"),
    Column::int("updated_at"),
];
const SLOTTED: &[Column] = &[Column::int("campaign"), Column::int("slot"), Column::int("id")];
const HOLDING: &[Column] = &[Column::int("campaign"), Column::int("user"), Column::int("units")];
const SOLD: &[Column] = &[Column::int("campaign"), Column::int("units")];
/// Writes the same rows as `changes` does for accepted orders. All or nothing: it is one statement.
const WRITE: &str = "
    into_held AS (INSERT INTO held SELECT campaign, slot, id FROM slotted),
    into_users AS (
        INSERT INTO held_by_user SELECT campaign, user, units FROM holding WHERE true
        ON CONFLICT (campaign, user) DO UPDATE SET units = excluded.units),
    into_orders AS (
        INSERT INTO orders SELECT id, campaign, user, slots, price, currency, 'awaiting_payment', NULL, key,
                                  created_at, pay_by, updated_at FROM ordered),
    counted AS (
        UPDATE campaign SET awaiting = awaiting + sold.units FROM sold WHERE campaign.id = sold.campaign)
    INSERT INTO outbox (at, actor, kind, campaign, subject, detail)
    SELECT updated_at, 'buyer:' || user, 'order.created', campaign, id, NULL FROM ordered";
