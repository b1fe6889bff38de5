//! The envelope of outbound messages: CloudEvents in JSON. An order's event carries the order's state at the time
//! of the event, whenever it is sent.

use serde_json::{Value, json};
use tidegate_core::{
    ApiKeyId, CampaignId, DeliveryId, DrawId, EventKind, EventNoun, ItemId, Moment, Money, OperatorId,
    OrderId, OrderState, PlayId, Rejection, Stored, UserId, WebhookId,
};
use tidegate_ledger::{DueDelivery, Event};

use crate::Refusal;
use crate::context::Context;
use crate::deliveries::Deliveries;

/// The type of the request for a coupon; it goes to the merchant only and is not an event.
const COUPON_REQUEST: &str = "prize.coupon";

fn envelope(id: String, kind: &str, subject: String, at: Moment, data: Value) -> Value {
    json!({
        "specversion": "1.0", "id": id, "source": "tidegate", "type": kind, "subject": subject,
        "time": at.to_string(), "datacontenttype": "application/json", "data": data,
    })
}

fn money(money: Money) -> Value {
    json!({"amount": money.amount, "currency": money.currency.as_str()})
}

impl Context {
    /// The public id of the event's subject; empty if it has none.
    pub fn subject_of(&self, event: &Event) -> String {
        let raw = event.subject;
        match event.kind.noun() {
            Some(EventNoun::Item) => self.print(ItemId::from_raw(raw)),
            Some(EventNoun::Sale) => self.print(CampaignId::from_raw(raw)),
            Some(EventNoun::Draw) => self.print(DrawId::from_raw(raw)),
            Some(EventNoun::Play | EventNoun::Prize) => self.print(PlayId::from_raw(raw)),
            Some(EventNoun::Delivery) => self.print(DeliveryId::from_raw(raw)),
            Some(EventNoun::Webhook) => self.print(WebhookId::from_raw(raw)),
            // The admin key belongs to no operator account.
            Some(EventNoun::Operator) if raw == 0 => String::new(),
            Some(EventNoun::Operator) => self.print(OperatorId::from_raw(raw)),
            Some(EventNoun::ApiKey) => self.print(ApiKeyId::from_raw(raw)),
            Some(EventNoun::Buyers) => self.print(UserId::from_raw(raw)),
            Some(EventNoun::Order | EventNoun::Refund) => self.print(OrderId::from_raw(raw)),
            // Written by a later version: the kind of id is unknown.
            None => String::new(),
        }
    }
}

impl Deliveries {
    /// `Unavailable` for a kind that this version does not know: a node of a later version may send it.
    pub(crate) async fn envelope(&self, event: &Event, due: &DueDelivery) -> Result<Value, Refusal> {
        let kind = match &event.kind {
            Stored::Known(kind) => *kind,
            Stored::Unknown(text) => {
                return Err(Refusal::Unavailable(format!(
                    "this version does not know events of kind {text:?}"
                )));
            }
        };
        let data = match kind.noun() {
            EventNoun::Order | EventNoun::Refund => self.order_data(event, kind, due)?,
            EventNoun::Play | EventNoun::Prize => self.play_data(event, kind, due).await?,
            noun @ (EventNoun::Sale
            | EventNoun::Draw
            | EventNoun::Item
            | EventNoun::Delivery
            | EventNoun::Webhook
            | EventNoun::Operator
            | EventNoun::ApiKey
            | EventNoun::Buyers) => {
                json!({format!("{noun}_id"): self.context.subject_of(event), "detail": event.detail})
            }
        };
        Ok(envelope(
            format!("evt_{}", event.id),
            kind.as_str(),
            self.context.subject_of(event),
            event.at,
            data,
        ))
    }

    fn order_data(&self, event: &Event, kind: EventKind, due: &DueDelivery) -> Result<Value, Refusal> {
        let order = due.order.as_ref().ok_or(Rejection::NotFound)?;
        // The state at the time of the event, which may have changed since; refund events do not change it.
        let state = match kind {
            EventKind::OrderCreated => OrderState::AwaitingPayment,
            EventKind::OrderPaid => OrderState::Paid,
            EventKind::OrderCancelled => OrderState::Cancelled,
            EventKind::OrderExpired => OrderState::Expired,
            EventKind::OrderRefunded => OrderState::Refunded,
            EventKind::OrderRejected => OrderState::Rejected,
            _ => order.state,
        };
        let state = state.as_str();
        Ok(json!({
            "order": {
                "id": self.context.print(order.id), "sale_id": self.context.print(order.campaign),
                "item_id": self.context.print(order.item),
                "user_id": self.context.print(order.user), "quantity": order.quantity(),
                "unit_price": money(order.unit_price),
                "total": money(order.total()), "state": state, "units": order.slots.iter().collect::<Vec<_>>(),
                "created_at": order.created_at.to_string(), "pay_by": order.pay_by.to_string(),
            },
            "reason": event.detail,
        }))
    }

    async fn play_data(&self, event: &Event, kind: EventKind, due: &DueDelivery) -> Result<Value, Refusal> {
        let play = due.play.as_ref().ok_or(Rejection::NotFound)?;
        let campaign = self.directory.campaign(play.campaign).await?;
        let draw = campaign.draw().ok_or(Rejection::NotFound)?;
        let prize = play.prize.and_then(|number| Some((number, draw.prize(number)?))).map(
            |(number, prize)| json!({"id": number.to_string(), "name": prize.name, "kind": prize.kind.as_str()}),
        );
        let mut data = json!({
            "play": {
                "id": self.context.print(play.id), "draw_id": self.context.print(play.campaign.as_draw()),
                "user_id": self.context.print(play.user), "seat": play.seat, "won": prize.is_some(), "prize": prize,
                "created_at": play.created_at.to_string(),
            },
            "reason": event.detail,
        });
        if kind == EventKind::PrizeShip {
            let delivery = self.ledger.deliveries.by_play(play.id).await?;
            let address = delivery.and_then(|delivery| delivery.address);
            data["address"] =
                address.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or(Value::Null);
        }
        Ok(data)
    }

    /// The request for a coupon, for the merchant.
    pub(crate) async fn coupon_request(&self, due: &DueDelivery) -> Result<Value, Refusal> {
        let play = due.play.as_ref().ok_or(Rejection::NotFound)?;
        let campaign = self.directory.campaign(play.campaign).await?;
        let prize = campaign.draw().zip(play.prize).and_then(|(draw, number)| draw.prize(number));
        let prize = prize.ok_or(Rejection::NotFound)?;
        let data = json!({
            "coupon": prize.content, "prize": prize.name, "play_id": self.context.print(play.id),
            "draw_id": self.context.print(play.campaign.as_draw()), "user_id": self.context.print(play.user),
        });
        let id = format!("dlv_{}", self.context.print(due.delivery.id));
        Ok(envelope(id, COUPON_REQUEST, self.context.print(play.id), play.created_at, data))
    }
}
