//! Deliveries: prizes and events on their way, what went wrong with them, and what an operator can do about it.
//!
//! What always holds: a winner's address is on its delivery's own page and on no list.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use serde_json::Value;
use tidegate_core::{DeliveryId, DeliveryState, DrawId, Role, WaitsFor};
use tidegate_store::ledger::sql::DeliveryFilter;
use tidegate_store::ledger::{Delivery, Target};

use super::words::{Word, delivery_state, waits_for};
use super::{Choice, Named, address, cursor_after, given, phrases};
use crate::http::Site;
use crate::http::console::{AtDesk, Desk, answered, shown};
use crate::http::input::{Asked, PageQuery};
use crate::http::pages::Trouble;
use crate::http::pages::format::{When, grouped};
use crate::http::pages::forms::Form;
use crate::http::pages::phrases::Phrase;
use crate::http::pages::phrases::office::Office;
use crate::ops::App;
use crate::ops::deliveries::COUNTED;

/// What every list of deliveries says about one.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) id: String,
    pub(super) what: String,
    pub(super) to: String,
    /// The page of where it goes.
    pub(super) link: Option<String>,
    pub(super) state: Word,
    pub(super) waits_for: Option<Phrase>,
    pub(super) tries: u32,
    pub(super) error: Option<String>,
    pub(super) next_try: Option<When>,
    pub(super) at: When,
    pub(super) can_retry: bool,
    pub(super) can_grant: bool,
}

impl Row {
    pub(super) fn of(app: &App, o: &Office, delivery: &Delivery) -> Self {
        let (to, link) = match (delivery.target, delivery.campaign) {
            (Target::Webhook(id), _) => {
                (o.webhook.to_string(), Some(format!("/console/webhooks/{}", app.print(id))))
            }
            (target, draw) => {
                let to = if target == Target::Merchant { o.to_merchant } else { o.to_winner };
                let draw = draw.map(|draw| format!("/console/draws/{}", app.print(draw.as_draw())));
                (to.to_string(), draw)
            }
        };
        let on_its_way = matches!(delivery.state, DeliveryState::New | DeliveryState::Failed);
        let again = delivery.state == DeliveryState::Delivered && delivery.event.is_some();
        Self {
            id: app.print(delivery.id),
            what: what(o, delivery),
            to,
            link,
            state: delivery_state(o, delivery.state),
            waits_for: delivery.waits_for.map(|what| waits_for(o, what)),
            tries: delivery.tries,
            error: delivery.error.clone(),
            next_try: on_its_way.then_some(When(delivery.due_at)),
            at: When(delivery.updated_at),
            can_retry: again || matches!(delivery.state, DeliveryState::Failed | DeliveryState::Dead),
            can_grant: delivery.state == DeliveryState::Waiting
                && delivery.waits_for == Some(WaitsFor::Operator),
        }
    }
}

fn what(o: &Office, delivery: &Delivery) -> String {
    match (delivery.kind.as_str(), delivery.event) {
        (_, Some(event)) => o.kind_webhook.with(event),
        ("text", _) => o.kind_text.to_string(),
        ("code", _) => o.kind_code.to_string(),
        ("coupon", _) => o.kind_coupon.to_string(),
        ("goods", _) => o.kind_goods.to_string(),
        (kind, _) => kind.to_owned(),
    }
}

#[derive(Template)]
#[template(path = "console/deliveries.html")]
pub(super) struct DeliveriesPage {
    desk: Desk,
    o: &'static Office,
    counts: Vec<Count>,
    states: Vec<Choice>,
    /// Whose prizes alone are shown.
    draw: Option<String>,
    filtered: bool,
    deliveries: Vec<Row>,
    next: Option<String>,
}

#[derive(Debug)]
struct Count {
    word: Phrase,
    rows: String,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct DeliveriesQuery {
    state: String,
    draw_id: String,
    cursor: String,
}

pub(super) async fn list(
    State(site): State<Site>,
    at: AtDesk,
    Asked(query): Asked<DeliveriesQuery>,
) -> Result<Response, Trouble> {
    let (app, o) = (&site.app, phrases(&at.desk));
    let (state, draw) = (DeliveryState::parse(&query.state), app.parse::<DrawId>(&query.draw_id));
    let page = PageQuery { limit: None, cursor: given(query.cursor) }.page(app, DeliveryId::raw)?;
    let filter = DeliveryFilter { state, campaign: draw.map(DrawId::campaign) };
    let found = app.deliveries(filter, page).await?;
    let draw = draw.map(|draw| app.print(draw));
    let (draw_id, state_id) = (draw.as_deref().unwrap_or(""), state.map_or("", DeliveryState::as_str));
    let next = cursor_after(&found, page.limit, |delivery| app.print(delivery.id));
    let next = next.map(|next| {
        address("/console/deliveries", &[("state", state_id), ("draw_id", draw_id), ("cursor", &next)])
    });
    Ok(shown(&DeliveriesPage {
        counts: counts(o, app.delivery_counts().await?),
        states: states(o, state),
        filtered: state.is_some() || draw.is_some(),
        draw,
        deliveries: found.iter().map(|delivery| Row::of(app, o, delivery)).collect(),
        next,
        o,
        desk: at.desk,
    }))
}

fn counts(o: &Office, counted: Vec<(DeliveryState, u32)>) -> Vec<Count> {
    let count = |(state, rows): (DeliveryState, u32)| {
        let more = if rows == COUNTED { "+" } else { "" };
        Count { word: delivery_state(o, state).word, rows: format!("{}{more}", grouped(rows.into())) }
    };
    counted.into_iter().map(count).collect()
}

fn states(o: &Office, chosen: Option<DeliveryState>) -> Vec<Choice> {
    let choice = |state: &DeliveryState| Choice {
        value: state.as_str().to_owned(),
        label: delivery_state(o, *state).word.to_string(),
        chosen: Some(*state) == chosen,
    };
    DeliveryState::ALL.iter().map(choice).collect()
}

#[derive(Template)]
#[template(path = "console/delivery.html")]
pub(super) struct DeliveryPage {
    desk: Desk,
    o: &'static Office,
    row: Row,
    draw: Option<String>,
    play: Option<String>,
    content: Option<String>,
    /// Its lines, in the order they are written on a parcel.
    address: Vec<String>,
    created: When,
}

pub(super) async fn show(
    State(site): State<Site>,
    at: AtDesk,
    Named(id): Named<DeliveryId>,
) -> Result<Response, Trouble> {
    let (app, o) = (&site.app, phrases(&at.desk));
    let mut delivery = app.delivery(id).await?;
    if !at.desk.may_change() {
        // What was won, and where it goes, is for those who deliver it.
        (delivery.content, delivery.address) = (None, None);
    }
    Ok(shown(&DeliveryPage {
        row: Row::of(app, o, &delivery),
        draw: delivery.campaign.map(|draw| app.print(draw.as_draw())),
        play: delivery.play.map(|play| app.print(play)),
        content: delivery.content,
        address: delivery.address.as_deref().map(lines).unwrap_or_default(),
        created: When(delivery.created_at),
        o,
        desk: at.desk,
    }))
}

fn lines(address: &str) -> Vec<String> {
    let Ok(Value::Object(fields)) = serde_json::from_str(address) else { return vec![address.to_owned()] };
    let known =
        ["name", "phone", "street", "line1", "line2", "town", "city", "region", "postcode", "country"];
    let place = |field: &str| known.iter().position(|name| *name == field).unwrap_or(known.len());
    let mut fields: Vec<_> = fields.into_iter().filter(|(_, value)| !value.is_null()).collect();
    fields.sort_by_key(|(field, _)| place(field));
    fields.into_iter().map(|(_, value)| value.as_str().map_or(value.to_string(), str::to_owned)).collect()
}

pub(super) async fn retry(
    State(site): State<Site>,
    at: AtDesk,
    Named(id): Named<DeliveryId>,
    _: Form,
) -> Result<Response, Trouble> {
    at.who.may(Role::Operator)?;
    let (app, by) = (site.app.clone(), at.who.actor());
    let done = site.carry_out(async move { app.retry_delivery(id, by).await }).await;
    answered(&format!("/console/deliveries/{}", site.app.print(id)), done)
}

pub(super) async fn grant(
    State(site): State<Site>,
    at: AtDesk,
    Named(id): Named<DeliveryId>,
    _: Form,
) -> Result<Response, Trouble> {
    at.who.may(Role::Operator)?;
    let (app, by) = (site.app.clone(), at.who.actor());
    let done = site.carry_out(async move { app.grant_delivery(id, by).await }).await;
    answered(&format!("/console/deliveries/{}", site.app.print(id)), done)
}

#[cfg(test)]
mod samples {
    use super::*;
    use tidegate_core::Moment;

    impl Row {
        pub(in super::super) fn sample(o: &Office) -> Self {
            let at = When(Moment::from_millis(1_777_629_600_000));
            Self {
                id: "4K7ZQ0V5T1M2N".into(),
                what: "Event 7".into(),
                to: "Webhook".into(),
                link: Some("/console/webhooks/W".into()),
                state: delivery_state(o, DeliveryState::Failed),
                waits_for: Some(o.waits_operator),
                tries: 3,
                error: Some("the receiver answered <500>".into()),
                next_try: Some(at),
                at,
                can_retry: true,
                can_grant: true,
            }
        }
    }

    impl DeliveriesPage {
        pub(in super::super) fn sample(desk: Desk) -> Self {
            let o = phrases(&desk);
            Self {
                counts: counts(o, vec![(DeliveryState::New, 3), (DeliveryState::Dead, COUNTED)]),
                states: states(o, Some(DeliveryState::Dead)),
                draw: Some("D".into()),
                filtered: true,
                deliveries: vec![Row::sample(o)],
                next: Some("/console/deliveries?cursor=C".into()),
                o,
                desk,
            }
        }
    }

    impl DeliveryPage {
        pub(in super::super) fn sample(desk: Desk) -> Self {
            let o = phrases(&desk);
            let row = Row::sample(o);
            Self {
                created: row.at,
                row,
                draw: Some("D".into()),
                play: Some("P".into()),
                content: Some("CODE-1".into()),
                address: vec!["Mei".into(), "1 <Main> Street".into()],
                o,
                desk,
            }
        }
    }

    #[test]
    fn an_address_reads_as_on_a_parcel() {
        let address = r#"{"country":"CN","name":"Mei","postcode":"200000","street":"1 Main Street"}"#;
        assert_eq!(lines(address), ["Mei", "1 Main Street", "200000", "CN"]);
        assert_eq!(lines("nowhere"), ["nowhere"]);
    }
}
