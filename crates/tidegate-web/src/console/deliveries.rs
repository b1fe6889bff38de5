//! Deliveries of prizes and webhook events: a list with a filter by state.
//!
//! Invariant: a winner's address is never part of a list.

pub(super) mod show;

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::{get, post};
use tidegate_app::App;
use tidegate_app::deliveries::MAX_COUNTED;
use tidegate_app::ledger_types::{Delivery, DeliveryFilter, Target};
use tidegate_core::{DeliveryId, DeliveryState, DrawId, WaitsFor};
use tidegate_http::Site;
use tidegate_http::input::{PageQuery, StrictQuery};

use crate::badge::Badge;
use crate::console::badges::{delivery_badge, waits_for_label};
use crate::console::listing::{SelectOption, next_cursor, non_empty, url_with_query};
use crate::console::{ConsoleContext, OperatorSession};
use crate::format::{Timestamp, grouped};
use crate::i18n::phrases::Phrase;
use crate::i18n::phrases::deliveries::DeliveryPhrases;
use crate::page::{PageError, render};

pub(super) fn routes() -> Router<Site> {
    Router::new()
        .route("/console/deliveries", get(list))
        .route("/console/deliveries/{id}", get(show::show))
        .route("/console/deliveries/{id}/retry", post(show::retry))
        .route("/console/deliveries/{id}/grant", post(show::grant))
}

/// A delivery in a list.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) id: String,
    pub(crate) content: String,
    pub(crate) recipient: String,
    /// Console page of the recipient.
    pub(crate) link: Option<String>,
    pub(crate) state: Badge,
    pub(crate) waits_for: Option<Phrase>,
    pub(crate) attempts: u32,
    pub(crate) error: Option<String>,
    pub(crate) next_attempt: Option<Timestamp>,
    pub(crate) at: Timestamp,
    pub(crate) can_retry: bool,
    pub(crate) can_grant: bool,
}

impl Row {
    pub(crate) fn of(app: &App, t: &DeliveryPhrases, delivery: &Delivery) -> Self {
        let (recipient, link) = match (delivery.target, delivery.campaign) {
            (Target::Webhook(id), _) => {
                (t.to_webhook.to_string(), Some(format!("/console/webhooks/{}", app.print(id))))
            }
            (target, draw) => {
                let recipient = if target == Target::Merchant { t.to_merchant } else { t.to_winner };
                let draw = draw.map(|draw| format!("/console/draws/{}", app.print(draw.as_draw())));
                (recipient.to_string(), draw)
            }
        };
        let is_pending = matches!(delivery.state, DeliveryState::New | DeliveryState::Failed);
        let can_resend = delivery.state == DeliveryState::Delivered && delivery.event.is_some();
        Self {
            id: app.print(delivery.id),
            content: content_label(t, delivery),
            recipient,
            link,
            state: delivery_badge(t, delivery.state),
            waits_for: delivery.waits_for.map(|waits_for| waits_for_label(t, waits_for)),
            attempts: delivery.tries,
            error: delivery.error.clone(),
            next_attempt: is_pending.then_some(Timestamp(delivery.due_at)),
            at: Timestamp(delivery.updated_at),
            can_retry: can_resend || matches!(delivery.state, DeliveryState::Failed | DeliveryState::Dead),
            can_grant: delivery.state == DeliveryState::Waiting
                && delivery.waits_for == Some(WaitsFor::Operator),
        }
    }
}

fn content_label(t: &DeliveryPhrases, delivery: &Delivery) -> String {
    match (delivery.kind.as_str(), delivery.event) {
        (_, Some(event)) => t.kind_webhook.with(event),
        ("text", _) => t.kind_text.to_string(),
        ("code", _) => t.kind_code.to_string(),
        ("coupon", _) => t.kind_coupon.to_string(),
        ("goods", _) => t.kind_goods.to_string(),
        (kind, _) => kind.to_owned(),
    }
}

#[derive(Template)]
#[template(path = "console/deliveries.html")]
pub(crate) struct DeliveriesPage {
    ctx: ConsoleContext,
    t: &'static DeliveryPhrases,
    counts: Vec<Count>,
    states: Vec<SelectOption>,
    /// Filter: only prizes of this draw.
    draw: Option<String>,
    filtered: bool,
    deliveries: Vec<Row>,
    next: Option<String>,
}

#[derive(Debug)]
struct Count {
    label: Phrase,
    rows: String,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(crate) struct DeliveriesQuery {
    state: String,
    draw_id: String,
    cursor: String,
}

pub(crate) async fn list(
    State(site): State<Site>,
    session: OperatorSession,
    StrictQuery(query): StrictQuery<DeliveriesQuery>,
) -> Result<Response, PageError> {
    let (app, t) = (&site.app, DeliveryPhrases::of(session.ctx.lang));
    let (state, draw) = (DeliveryState::parse(&query.state), app.parse::<DrawId>(&query.draw_id));
    let page = PageQuery { limit: None, cursor: non_empty(query.cursor) }.page(app, DeliveryId::raw)?;
    let filter = DeliveryFilter { state, campaign: draw.map(DrawId::campaign) };
    let found = app.deliveries.list(filter, page).await?;
    let draw = draw.map(|draw| app.print(draw));
    let (draw_id, state_id) = (draw.as_deref().unwrap_or(""), state.map_or("", DeliveryState::as_str));
    let next = next_cursor(&found, page.limit, |delivery| app.print(delivery.id));
    let next = next.map(|next| {
        url_with_query("/console/deliveries", &[("state", state_id), ("draw_id", draw_id), ("cursor", &next)])
    });
    Ok(render(&DeliveriesPage {
        counts: state_counts(t, app.deliveries.counts().await?),
        states: state_options(t, state),
        filtered: state.is_some() || draw.is_some(),
        draw,
        deliveries: found.iter().map(|delivery| Row::of(app, t, delivery)).collect(),
        next,
        t,
        ctx: session.ctx,
    }))
}

fn state_counts(t: &DeliveryPhrases, counted: Vec<(DeliveryState, u32)>) -> Vec<Count> {
    let count = |(state, rows): (DeliveryState, u32)| {
        let more = if rows == MAX_COUNTED { "+" } else { "" };
        Count { label: delivery_badge(t, state).label, rows: format!("{}{more}", grouped(rows.into())) }
    };
    counted.into_iter().map(count).collect()
}

fn state_options(t: &DeliveryPhrases, selected: Option<DeliveryState>) -> Vec<SelectOption> {
    let option = |state: &DeliveryState| SelectOption {
        value: state.as_str().to_owned(),
        label: delivery_badge(t, *state).label.to_string(),
        selected: Some(*state) == selected,
    };
    DeliveryState::ALL.iter().map(option).collect()
}

#[cfg(test)]
mod samples {
    use super::*;
    use tidegate_core::Moment;

    impl Row {
        pub(crate) fn sample(t: &DeliveryPhrases) -> Self {
            let at = Timestamp(Moment::from_millis(1_777_629_600_000));
            Self {
                id: "4K7ZQ0V5T1M2N".into(),
                content: "Event 7".into(),
                recipient: "Webhook".into(),
                link: Some("/console/webhooks/W".into()),
                state: delivery_badge(t, DeliveryState::Failed),
                waits_for: Some(t.waits_operator),
                attempts: 3,
                error: Some("the receiver answered <500>".into()),
                next_attempt: Some(at),
                at,
                can_retry: true,
                can_grant: true,
            }
        }
    }

    impl DeliveriesPage {
        pub(crate) fn sample(ctx: ConsoleContext) -> Self {
            let t = DeliveryPhrases::of(ctx.lang);
            Self {
                counts: state_counts(t, vec![(DeliveryState::New, 3), (DeliveryState::Dead, MAX_COUNTED)]),
                states: state_options(t, Some(DeliveryState::Dead)),
                draw: Some("D".into()),
                filtered: true,
                deliveries: vec![Row::sample(t)],
                next: Some("/console/deliveries?cursor=C".into()),
                t,
                ctx,
            }
        }
    }
}
