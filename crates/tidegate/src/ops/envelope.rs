//! The envelope of everything that leaves: CloudEvents in JSON. An event of an order says what held when it
//! happened, whenever it is sent.

use serde_json::{Value, json};
use tidegate_core::{
    ApiKeyId, CampaignId, DeliveryId, DrawId, ItemId, Moment, Money, OperatorId, OrderId, PlayId, Rejection,
    UserId, WebhookId,
};
use tidegate_store::ledger::Delivery;
use tidegate_store::ledger::sql::Event;

use super::{App, Refusal};

/// Kinds of events a webhook can ask for.
pub const KINDS: &[&str] = &[
    "order.created",
    "order.paid",
    "order.cancelled",
    "order.expired",
    "order.refunded",
    "order.rejected",
    "refund.due",
    "refund.done",
    "sale.created",
    "sale.edited",
    "sale.submitted",
    "sale.approved",
    "sale.refused",
    "sale.published",
    "sale.opened",
    "sale.paused",
    "sale.resumed",
    "sale.restocked",
    "sale.admission_changed",
    "sale.closed",
    "sale.reopened",
    "draw.created",
    "draw.edited",
    "draw.submitted",
    "draw.approved",
    "draw.refused",
    "draw.published",
    "draw.opened",
    "draw.paused",
    "draw.resumed",
    "draw.admission_changed",
    "draw.closed",
    "play.created",
    "play.rejected",
    "prize.addressed",
    "prize.ship",
    "prize.delivered",
    "prize.undeliverable",
    "item.created",
    "item.updated",
];

fn envelope(id: String, kind: &str, subject: String, at: Moment, data: Value) -> Value {
    json!({
        "specversion": "1.0", "id": id, "source": "tidegate", "type": kind, "subject": subject,
        "time": at.to_string(), "datacontenttype": "application/json", "data": data,
    })
}

fn money(money: Money) -> Value {
    json!({"amount": money.amount, "currency": money.currency.as_str()})
}

impl App {
    /// The public id of what an event happened to; nothing where that has none.
    pub fn subject_of(&self, event: &Event) -> String {
        let raw = event.subject;
        match event.kind.split('.').next() {
            Some("item") => self.print(ItemId::from_raw(raw)),
            Some("sale") => self.print(CampaignId::from_raw(raw)),
            Some("draw") => self.print(DrawId::from_raw(raw)),
            Some("play" | "prize") => self.print(PlayId::from_raw(raw)),
            Some("delivery") => self.print(DeliveryId::from_raw(raw)),
            Some("webhook") => self.print(WebhookId::from_raw(raw)),
            // The admin key is no operator's.
            Some("operator") if raw == 0 => String::new(),
            Some("operator") => self.print(OperatorId::from_raw(raw)),
            Some("api_key") => self.print(ApiKeyId::from_raw(raw)),
            Some("buyers") => self.print(UserId::from_raw(raw)),
            _ => self.print(OrderId::from_raw(raw)),
        }
    }

    pub(super) async fn envelope(&self, event: &Event) -> Result<Value, Refusal> {
        let data = match event.kind.split_once('.') {
            Some(("order" | "refund", what)) => self.order_data(event, what).await?,
            Some(("play" | "prize", what)) => self.play_data(event, what).await?,
            Some((noun, _)) => json!({format!("{noun}_id"): self.subject_of(event), "detail": event.detail}),
            None => json!({}),
        };
        Ok(envelope(format!("evt_{}", event.id), &event.kind, self.subject_of(event), event.at, data))
    }

    async fn order_data(&self, event: &Event, what: &str) -> Result<Value, Refusal> {
        let order = self.ledger.find_order(OrderId::from_raw(event.subject)).await?;
        let order = order.ok_or(Rejection::NotFound)?;
        let state = match what {
            "created" => "awaiting_payment",
            "due" | "done" => order.state.as_str(),
            state => state,
        };
        Ok(json!({
            "order": {
                "id": self.print(order.id), "sale_id": self.print(order.campaign), "item_id": self.print(order.item),
                "user_id": self.print(order.user), "quantity": order.quantity(), "unit_price": money(order.unit_price),
                "total": money(order.total()), "state": state, "units": order.slots.iter().collect::<Vec<_>>(),
                "created_at": order.created_at.to_string(), "pay_by": order.pay_by.to_string(),
            },
            "reason": event.detail,
        }))
    }

    async fn play_data(&self, event: &Event, what: &str) -> Result<Value, Refusal> {
        let play = self.ledger.find_play(PlayId::from_raw(event.subject)).await?;
        let play = play.ok_or(Rejection::NotFound)?;
        let campaign = self.campaign(play.campaign).await?;
        let draw = campaign.draw().ok_or(Rejection::NotFound)?;
        let prize = play.prize.and_then(|number| Some((number, draw.prize(number)?))).map(
            |(number, prize)| json!({"id": number.to_string(), "name": prize.name, "kind": prize.kind.as_str()}),
        );
        let mut data = json!({
            "play": {
                "id": self.print(play.id), "draw_id": self.print(play.campaign.as_draw()),
                "user_id": self.print(play.user), "seat": play.seat, "won": prize.is_some(), "prize": prize,
                "created_at": play.created_at.to_string(),
            },
            "reason": event.detail,
        });
        if what == "ship" {
            let delivery = self.ledger.find_delivery_of(play.id).await?;
            let address = delivery.and_then(|delivery| delivery.address);
            data["address"] =
                address.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or(Value::Null);
        }
        Ok(data)
    }

    /// What the merchant is asked for a coupon with.
    pub(super) async fn coupon_request(&self, delivery: &Delivery) -> Result<Value, Refusal> {
        let play = delivery.play.ok_or(Rejection::NotFound)?;
        let play = self.ledger.find_play(play).await?.ok_or(Rejection::NotFound)?;
        let campaign = self.campaign(play.campaign).await?;
        let prize = campaign.draw().zip(play.prize).and_then(|(draw, number)| draw.prize(number));
        let prize = prize.ok_or(Rejection::NotFound)?;
        let data = json!({
            "coupon": prize.content, "prize": prize.name, "play_id": self.print(play.id),
            "draw_id": self.print(play.campaign.as_draw()), "user_id": self.print(play.user),
        });
        let id = format!("dlv_{}", self.print(delivery.id));
        Ok(envelope(id, "prize.coupon", self.print(play.id), play.created_at, data))
    }
}
