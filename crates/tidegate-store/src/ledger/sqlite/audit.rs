//! The audit: every promise about a campaign, recounted from the rows in one snapshot.
//!
//! Each check is a query for what must not exist, so a check that finds nothing has passed.

use rusqlite::Connection;
use tidegate_core::CampaignId;

use super::rows::sql;
use super::{record, stock};
use crate::ledger::{Audit, Tally};

/// What must not be found, and the query that would find it: one number, the count of offending rows, for campaign ?1.
const CHECKS: &[(&str, &str)] = &[
    (
        "slots held by an order that is not active or does not have them",
        "SELECT count(*) FROM held LEFT JOIN orders ON orders.id = held.order_id
         WHERE held.campaign = ?1 AND held.order_id IS NOT NULL
         AND (orders.id IS NULL OR orders.campaign <> ?1 OR orders.state NOT IN ('awaiting_payment', 'paid')
              OR instr(',' || orders.slots || ',', ',' || held.slot || ',') = 0)",
    ),
    (
        "active units that are not held, or held ones that are not active",
        "SELECT abs((SELECT count(*) FROM held WHERE campaign = ?1 AND order_id IS NOT NULL)
                  - (SELECT coalesce(sum(1 + length(slots) - length(replace(slots, ',', ''))), 0) FROM orders
                     WHERE campaign = ?1 AND state IN ('awaiting_payment', 'paid')))",
    ),
    (
        "units held beyond the stock",
        "SELECT max(0, (SELECT count(*) FROM held WHERE campaign = ?1 AND order_id IS NOT NULL)
                     - (SELECT stock FROM campaign WHERE id = ?1))",
    ),
    (
        "slots that do not exist but are held",
        "SELECT count(*) FROM held WHERE campaign = ?1 AND slot > (SELECT top FROM campaign WHERE id = ?1)",
    ),
    (
        "units by which the stock differs from the slots that exist and are not withdrawn",
        "SELECT abs(stock - top + (SELECT count(*) FROM held WHERE campaign = ?1 AND order_id IS NULL))
         FROM campaign WHERE id = ?1",
    ),
    (
        "buyers above the limit",
        "SELECT count(*) FROM held_by_user WHERE campaign = ?1
         AND units > (SELECT per_user_limit FROM campaign WHERE id = ?1)",
    ),
    (
        "buyers whose count differs from their active orders",
        "SELECT count(*) FROM (
             SELECT user, sum(counted) AS counted, sum(active) AS active FROM (
                 SELECT user, units AS counted, 0 AS active FROM held_by_user WHERE campaign = ?1
                 UNION ALL
                 SELECT user, 0, 1 + length(slots) - length(replace(slots, ',', '')) FROM orders
                 WHERE campaign = ?1 AND state IN ('awaiting_payment', 'paid'))
             GROUP BY user) WHERE counted <> active",
    ),
    (
        "states whose tally differs from their orders",
        "SELECT count(*) FROM campaign WHERE id = ?1 AND (
             awaiting <> (SELECT coalesce(sum(1 + length(slots) - length(replace(slots, ',', ''))), 0) FROM orders
                          WHERE campaign = ?1 AND state = 'awaiting_payment')
             OR paid <> (SELECT coalesce(sum(1 + length(slots) - length(replace(slots, ',', ''))), 0) FROM orders
                         WHERE campaign = ?1 AND state = 'paid')
             OR returned <> (SELECT coalesce(sum(1 + length(slots) - length(replace(slots, ',', ''))), 0) FROM orders
                             WHERE campaign = ?1 AND state IN ('cancelled', 'expired', 'refunded')))",
    ),
    (
        "gaps in the stock log",
        "SELECT coalesce(max(seq), 0) - count(*) FROM stock_log WHERE campaign = ?1",
    ),
    (
        "orders that are paid without exactly one payment kept, or not paid with one kept",
        "SELECT count(*) FROM orders WHERE campaign = ?1 AND (state = 'paid') <> (
             (SELECT count(*) FROM payment WHERE order_id = orders.id)
           - (SELECT count(*) FROM refund WHERE order_id = orders.id))",
    ),
    (
        "orders without their event in the outbox",
        "SELECT abs((SELECT count(*) FROM orders WHERE campaign = ?1)
                  - (SELECT count(*) FROM outbox WHERE campaign = ?1 AND kind IN ('order.created', 'order.rejected')))",
    ),
];

pub(super) fn audit(connection: &Connection, campaign: CampaignId) -> rusqlite::Result<Option<Audit>> {
    let snapshot = connection.unchecked_transaction()?;
    let raw = sql(campaign.raw());
    let tally = snapshot.query_row(
        "SELECT stock, awaiting, paid, returned FROM campaign WHERE id = ?",
        [raw],
        |row| {
            Ok(Tally {
                stock: row.get(0)?,
                awaiting_payment: row.get(1)?,
                paid: row.get(2)?,
                returned: row.get(3)?,
            })
        },
    );
    let tally = match tally {
        Err(rusqlite::Error::QueryReturnedNoRows) => return Ok(None),
        tally => tally?,
    };
    let mut audit = Audit {
        tally,
        log_end: stock::log_end(&snapshot, campaign)?,
        recorded: record::position(&snapshot)?,
        ..Audit::default()
    };
    for (what, query) in CHECKS {
        let found: i64 = snapshot.query_row(query, [raw], |row| row.get(0))?;
        if found != 0 {
            audit.violations.push(format!("{found} {what}"));
        }
    }
    audit.checked = snapshot.query_row(
        "SELECT (SELECT count(*) FROM orders WHERE campaign = ?1) + (SELECT count(*) FROM held WHERE campaign = ?1)
              + (SELECT count(*) FROM stock_log WHERE campaign = ?1)",
        [raw],
        |row| row.get(0).map(i64::cast_unsigned),
    )?;
    Ok(Some(audit))
}
