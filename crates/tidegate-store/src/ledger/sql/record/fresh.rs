//! Orders that are all new, written by one statement: PostgreSQL's way. Four ways to the server and back less, and nothing is
//! sent twice or spelled out that the server knows. With fetching the next while the last are forgotten, not measured apart: 3 %
//! less work for a 201, and hardly more of them a second.

use std::sync::Arc;

use hashbrown::HashMap;
use tidegate_core::{CampaignId, Claim, Granted, Moment, UserId};

use super::known::Known;
use crate::ledger::sql::dialect::Column;
use crate::ledger::sql::engine::{self, Connection, Table, Values, row};
use crate::ledger::sql::rows::sql;

/// Writes claims that were all found to be orders.
pub(super) fn write(
    tx: &Connection,
    known: &Known,
    claims: &[Arc<Claim>],
    now: Moment,
) -> engine::Result<()> {
    let lent: Vec<_> = claims.iter().map(|claim| (claim, claim.slots.to_string())).collect();
    let orders = lent.iter().filter_map(|(claim, slots)| {
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
        held.insert((claim.campaign, claim.user), known.units(claim));
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
/// What `written` writes with a statement for each table, for orders of which none is rejected.
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
