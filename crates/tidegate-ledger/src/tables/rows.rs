//! Conversions between rows and the core's types.

use tidegate_core::{
    Campaign, CampaignId, CampaignState, Currency, Item, ItemId, Kind, Moment, Money, Order, OrderId,
    OrderState, Rejection, Sale, Slots, UserId, Window,
};

use super::draws;
use crate::engine;
use crate::engine::{Connection, Error, Row};

/// Ids have 63 bits, so they fit a database's integers.
pub(crate) fn sql(id: u64) -> i64 {
    id.cast_signed()
}

pub(crate) fn id(row: &Row<'_>, column: &str) -> engine::Result<u64> {
    row.get::<_, i64>(column).map(i64::cast_unsigned)
}

pub(crate) fn moment(row: &Row<'_>, column: &str) -> engine::Result<Moment> {
    row.get(column).map(Moment::from_millis)
}

/// An invariant is violated: the whole transaction fails.
pub(crate) fn broken(what: impl Into<String>) -> Error {
    Error::Broken(what.into())
}

/// This change is not possible; others are.
pub(crate) fn refused(what: impl Into<String>) -> Error {
    Error::Refused(what.into())
}

/// Parses a text column with a fixed set of values.
pub(crate) fn word<T>(
    row: &Row<'_>,
    column: &str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> engine::Result<T> {
    let text: String = row.get(column)?;
    parse(&text).ok_or_else(|| broken(format!("{column} is {text:?}, which this program does not know")))
}

/// Why an order or a play was rejected, if it was.
pub(crate) fn rejection(row: &Row<'_>) -> engine::Result<Option<Rejection>> {
    let code: Option<String> = row.get("reason")?;
    code.is_some().then(|| word(row, "reason", Rejection::from_code)).transpose()
}

pub(crate) fn money(row: &Row<'_>) -> engine::Result<Money> {
    let currency = word(row, "currency", |text| text.parse::<Currency>().ok())?;
    Ok(Money { amount: row.get("price")?, currency })
}

pub(crate) fn item(row: &Row<'_>) -> engine::Result<Item> {
    Ok(Item {
        id: ItemId::from_raw(id(row, "id")?),
        name: row.get("name")?,
        description: row.get("description")?,
        price: money(row)?,
        image_url: row.get("image_url")?,
        created_at: moment(row, "created_at")?,
        updated_at: moment(row, "updated_at")?,
    })
}

/// Reads a row of `campaign`, and its draw over the same connection.
pub(crate) fn campaign(connection: &Connection, row: &Row<'_>) -> engine::Result<Campaign> {
    let campaign = CampaignId::from_raw(id(row, "id")?);
    let kind: String = row.get("kind")?;
    let kind = match kind.as_str() {
        "draw" => Kind::Draw(draws::read(connection, campaign)?),
        _ => Kind::Sale(Sale {
            item: ItemId::from_raw(id(row, "item")?),
            price: money(row)?,
            pay_within_s: row.get("pay_within_s")?,
        }),
    };
    Ok(Campaign {
        id: campaign,
        kind,
        stock: row.get("stock")?,
        top: row.get("top")?,
        window: Window { starts_at: moment(row, "starts_at")?, ends_at: moment(row, "ends_at")? },
        per_user_limit: row.get("per_user_limit")?,
        shards: row.get("shards")?,
        protect: word(row, "protect", |text| serde_json::from_str(text).ok())?,
        state: word(row, "state", CampaignState::parse)?,
        epoch: row.get("epoch")?,
        opened: row.get("opened")?,
        created_at: moment(row, "created_at")?,
        updated_at: moment(row, "updated_at")?,
    })
}

/// Reads a row of `orders` joined with its campaign's `item`.
pub(crate) fn order(row: &Row<'_>) -> engine::Result<Order> {
    Ok(Order {
        id: OrderId::from_raw(id(row, "id")?),
        campaign: CampaignId::from_raw(id(row, "campaign")?),
        item: ItemId::from_raw(id(row, "item")?),
        user: UserId::from_raw(id(row, "user")?),
        slots: word(row, "slots", Slots::parse)?,
        unit_price: money(row)?,
        state: word(row, "state", OrderState::parse)?,
        reason: rejection(row)?,
        created_at: moment(row, "created_at")?,
        pay_by: moment(row, "pay_by")?,
        updated_at: moment(row, "updated_at")?,
    })
}
