//! An order as JSON.

use serde::Serialize;
use tidegate_app::App;
use tidegate_core::moment::Rfc3339;
use tidegate_core::public_id::PublicText;
use tidegate_core::{Order, Slots};
use utoipa::ToSchema;

use crate::json::MoneyShape;

/// An order.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OrderShape {
    #[schema(value_type = String)]
    id: PublicText,
    #[schema(value_type = String)]
    sale_id: PublicText,
    #[schema(value_type = String)]
    item_id: PublicText,
    quantity: u32,
    unit_price: MoneyShape,
    total: MoneyShape,
    /// `queued`, `awaiting_payment`, `paid`, `cancelled`, `expired`, `refunded` or `rejected`.
    state: &'static str,
    /// Code of the reason, for a rejected order.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    /// Numbers of the ordered units in the sale's stock, from 1.
    #[schema(value_type = Vec<u32>)]
    units: Slots,
    #[schema(value_type = String)]
    created_at: Rfc3339,
    #[schema(value_type = String)]
    pay_by: Rfc3339,
    #[schema(value_type = String)]
    updated_at: Rfc3339,
}

impl OrderShape {
    pub(crate) fn of(app: &App, order: &Order) -> Self {
        Self {
            id: app.text(order.id),
            sale_id: app.text(order.campaign),
            item_id: app.text(order.item),
            quantity: order.quantity(),
            unit_price: order.unit_price.into(),
            total: order.total().into(),
            state: order.state.as_str(),
            reason: order.reason.map(tidegate_core::Rejection::code),
            units: order.slots.clone(),
            created_at: Rfc3339(order.created_at),
            pay_by: Rfc3339(order.pay_by),
            updated_at: Rfc3339(order.updated_at),
        }
    }
}

impl OrderShape {
    pub(crate) fn id(&self) -> &str {
        self.id.as_str()
    }

    /// Writes the same JSON as `Serialize`. Hand-written because it answers every order of a burst, and serde took
    /// 5 % of an order's time.
    pub(crate) fn write(&self, to: &mut Vec<u8>) {
        let mut put = |part: &[u8]| to.extend_from_slice(part);
        let mut number = itoa::Buffer::new();
        put(b"{\"id\":\"");
        put(self.id.as_bytes());
        put(b"\",\"sale_id\":\"");
        put(self.sale_id.as_bytes());
        put(b"\",\"item_id\":\"");
        put(self.item_id.as_bytes());
        put(b"\",\"quantity\":");
        put(number.format(self.quantity).as_bytes());
        for (name, money) in [("\"unit_price\"", &self.unit_price), ("\"total\"", &self.total)] {
            put(b",");
            put(name.as_bytes());
            put(b":{\"amount\":");
            put(number.format(money.amount).as_bytes());
            put(b",\"currency\":\"");
            put(money.currency.as_str().as_bytes());
            put(b"\"}");
        }
        put(b",\"state\":\"");
        put(self.state.as_bytes());
        if let Some(reason) = self.reason {
            put(b"\",\"reason\":\"");
            put(reason.as_bytes());
        }
        put(b"\",\"units\":[");
        for (at, unit) in self.units.iter().enumerate() {
            put(if at > 0 { b"," } else { b"" });
            put(number.format(unit).as_bytes());
        }
        for (before, moment) in [
            ("],\"created_at\":\"", self.created_at),
            ("\",\"pay_by\":\"", self.pay_by),
            ("\",\"updated_at\":\"", self.updated_at),
        ] {
            put(before.as_bytes());
            moment.with(&mut put);
        }
        put(b"\"}");
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::{Moment, Money};

    use super::*;

    #[test]
    fn an_order_written_by_hand_reads_as_one_that_serde_wrote() {
        use tidegate_core::public_id::{Public, PublicIds};
        let ids = PublicIds::new(&[7; 32]);
        let price = Money { amount: 9900, currency: "CNY".parse().unwrap() };
        let at = |ms| Rfc3339(Moment::from_millis(ms));
        for (reason, units) in [(None, vec![1]), (Some("claim_lost"), vec![7, 8, 4_000_000])] {
            let shape = OrderShape {
                id: tidegate_core::OrderId::from_raw(1).text(&ids),
                sale_id: tidegate_core::CampaignId::from_raw(2).text(&ids),
                item_id: tidegate_core::ItemId::from_raw(3).text(&ids),
                quantity: 3,
                unit_price: price.into(),
                total: price.times(3).into(),
                state: "awaiting_payment",
                reason,
                units: units.into_iter().collect(),
                created_at: at(1_777_629_600_250),
                pay_by: at(1_777_629_600_999),
                updated_at: at(0),
            };
            let mut written = Vec::new();
            shape.write(&mut written);
            assert_eq!(String::from_utf8(written).unwrap(), serde_json::to_string(&shape).unwrap());
        }
    }
}
