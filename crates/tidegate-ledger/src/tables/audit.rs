//! The audit: every promise about a campaign, recounted from the rows in one snapshot.
//!
//! Each check is a query for what must not exist, so a check that finds nothing has passed. A draw's history is also
//! dealt again from its seed, play by play.

use tidegate_core::dealer::Dealt;
use tidegate_core::proof::Replay;
use tidegate_core::{Campaign, CampaignId, Kind};

use super::campaigns::by_id;
use super::rows::sql;
use super::{draws, plays, stock};
use crate::engine;
use crate::engine::Connection;
use crate::recording;
use crate::{Audit, Tally};

/// What must not be found, and the query that would find it: one number, the count of offending rows, for campaign ?1.
type Check = (&'static str, &'static str);

/// What holds for sales and draws alike.
const OF_ALL: &[Check] = &[
    (
        "units held beyond the stock",
        "SELECT CASE WHEN units > stock THEN units - stock ELSE 0 END FROM (
             SELECT stock, (SELECT count(*) FROM held WHERE campaign = ?1 AND order_id IS NOT NULL) AS units
             FROM campaign WHERE id = ?1) AS counted",
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
    ("gaps in the stock log", "SELECT coalesce(max(seq), 0) - count(*) FROM stock_log WHERE campaign = ?1"),
];

const OF_DRAWS: &[Check] = &[
    (
        "seats that are held but not played, or played but not held",
        "SELECT (SELECT count(*) FROM held LEFT JOIN play ON play.id = held.order_id AND play.seat = held.slot
                 AND play.campaign = ?1 AND play.state = 'played' WHERE held.campaign = ?1 AND play.id IS NULL)
              + (SELECT count(*) FROM play LEFT JOIN held ON held.campaign = ?1 AND held.slot = play.seat
                 AND held.order_id = play.id WHERE play.campaign = ?1 AND play.state = 'played' AND held.slot IS NULL)",
    ),
    (
        "players whose count differs from their plays",
        "SELECT count(*) FROM (
             SELECT user, sum(counted) AS counted, sum(active) AS active FROM (
                 SELECT user, units AS counted, 0 AS active FROM held_by_user WHERE campaign = ?1
                 UNION ALL SELECT user, 0, 1 FROM play WHERE campaign = ?1 AND state = 'played') AS each
             GROUP BY user) AS players WHERE counted <> active",
    ),
    (
        "tallies that differ from the plays",
        "SELECT count(*) FROM campaign JOIN draw ON draw.campaign = campaign.id WHERE campaign.id = ?1
         AND (paid <> plays OR awaiting <> 0
              OR plays <> (SELECT count(*) FROM play WHERE campaign = ?1 AND state = 'played'))",
    ),
    (
        "prizes whose winners are not as many as were taken",
        "SELECT count(*) FROM prize WHERE campaign = ?1
         AND taken <> (SELECT count(*) FROM play WHERE play.campaign = ?1 AND play.prize = prize.number
                       AND state = 'played')",
    ),
    (
        "wins without exactly one delivery, or deliveries without a win",
        "SELECT (SELECT count(*) FROM play LEFT JOIN delivery ON delivery.play = play.id
                 WHERE play.campaign = ?1 AND prize IS NOT NULL AND delivery.id IS NULL)
              + (SELECT count(*) FROM delivery LEFT JOIN play ON play.id = delivery.play AND play.prize IS NOT NULL
                 WHERE delivery.campaign = ?1 AND play.id IS NULL)",
    ),
    (
        "codes that were given to no winner of theirs, or winners told a code that is not theirs",
        "SELECT (SELECT count(*) FROM prize_code LEFT JOIN play ON play.id = prize_code.play
                 WHERE prize_code.campaign = ?1 AND prize_code.play IS NOT NULL
                 AND (play.id IS NULL OR play.campaign <> ?1 OR play.prize <> prize_code.prize))
              + (SELECT count(*) FROM delivery LEFT JOIN prize_code ON prize_code.play = delivery.play
                 WHERE delivery.campaign = ?1 AND delivery.kind = 'code' AND delivery.state = 'delivered'
                 AND prize_code.code IS DISTINCT FROM delivery.content)",
    ),
    (
        "plays without their event in the outbox",
        "SELECT abs((SELECT count(*) FROM play WHERE campaign = ?1)
                  - (SELECT count(*) FROM outbox WHERE campaign = ?1 AND kind IN ('play.created', 'play.rejected')))",
    ),
];

const OF_SALES: &[Check] = &[
    (
        "slots held by an order that is not active or does not have them",
        "SELECT count(*) FROM held LEFT JOIN orders ON orders.id = held.order_id
         WHERE held.campaign = ?1 AND held.order_id IS NOT NULL
         AND (orders.id IS NULL OR orders.campaign <> ?1 OR orders.state NOT IN ('awaiting_payment', 'paid')
              OR ',' || orders.slots || ',' NOT LIKE '%,' || held.slot || ',%')",
    ),
    (
        "active units that are not held, or held ones that are not active",
        "SELECT abs((SELECT count(*) FROM held WHERE campaign = ?1 AND order_id IS NOT NULL)
                  - (SELECT coalesce(sum(1 + length(slots) - length(replace(slots, ',', ''))), 0) FROM orders
                     WHERE campaign = ?1 AND state IN ('awaiting_payment', 'paid')))",
    ),
    (
        "buyers whose count differs from their active orders",
        "SELECT count(*) FROM (
             SELECT user, sum(counted) AS counted, sum(active) AS active FROM (
                 SELECT user, units AS counted, 0 AS active FROM held_by_user WHERE campaign = ?1
                 UNION ALL
                 SELECT user, 0, 1 + length(slots) - length(replace(slots, ',', '')) FROM orders
                 WHERE campaign = ?1 AND state IN ('awaiting_payment', 'paid')) AS each
             GROUP BY user) AS buyers WHERE counted <> active",
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
        "orders that are paid without exactly one payment kept, or not paid with one kept",
        "SELECT count(*) FROM orders WHERE campaign = ?1 AND CASE WHEN state = 'paid' THEN 1 ELSE 0 END <> (
             (SELECT count(*) FROM payment WHERE order_id = orders.id)
           - (SELECT count(*) FROM refund WHERE order_id = orders.id))",
    ),
    (
        "orders without their event in the outbox",
        "SELECT abs((SELECT count(*) FROM orders WHERE campaign = ?1)
                  - (SELECT count(*) FROM outbox WHERE campaign = ?1 AND kind IN ('order.created', 'order.rejected')))",
    ),
];

pub(crate) fn audit(connection: &Connection, campaign: CampaignId) -> engine::Result<Option<Audit>> {
    let snapshot = connection.read_transaction()?;
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
        Err(engine::Error::NoRow) => return Ok(None),
        tally => tally?,
    };
    let mut audit = Audit {
        tally,
        log_end: stock::log_end(&snapshot, campaign)?,
        recorded: recording::position(&snapshot)?,
        ..Audit::default()
    };
    let Some(found) = by_id(&snapshot, campaign)? else { return Ok(None) };
    let of_kind = match found.kind {
        Kind::Sale(_) => OF_SALES,
        Kind::Draw(_) => OF_DRAWS,
    };
    for (what, query) in OF_ALL.iter().chain(of_kind) {
        let found: i64 = snapshot.query_row(query, [raw], |row| row.get(0))?;
        if found != 0 {
            audit.violations.push(format!("{found} {what}"));
        }
    }
    audit.violations.extend(deal_again(&snapshot, &found)?);
    audit.checked = snapshot.query_row(
        "SELECT (SELECT count(*) FROM orders WHERE campaign = ?1) + (SELECT count(*) FROM held WHERE campaign = ?1)
              + (SELECT count(*) FROM stock_log WHERE campaign = ?1) + (SELECT count(*) FROM play WHERE campaign = ?1)
              + (SELECT count(*) FROM delivery WHERE campaign = ?1)",
        [raw],
        |row| row.get(0).map(i64::cast_unsigned),
    )?;
    Ok(Some(audit))
}

/// Deals a draw's history again; gives what is wrong with it first.
fn deal_again(snapshot: &Connection, campaign: &Campaign) -> engine::Result<Option<String>> {
    let Some((draw, history)) = campaign.draw().zip(draws::history(snapshot, campaign.id)?) else {
        return Ok(None);
    };
    let mut replay = Replay::new(draw, campaign.stock);
    let mut wrong = None;
    plays::replay(snapshot, campaign.id, (1, history.plays), |play| {
        let (number, hash) = play.place.unwrap_or((0, [0; 32]));
        let dealt = Dealt { number, seat: play.seat, prize: play.prize, client_seed: &play.client_seed };
        wrong = replay.play(dealt, &hash).err().map(|wrong| wrong.to_string());
        wrong.is_none()
    })?;
    let whole = (replay.plays(), replay.hash()) == (history.plays, &history.hash);
    Ok(wrong.or_else(|| (!whole).then(|| "the history does not end in the draw's hash".into())))
}
