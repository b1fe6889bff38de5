//! One delivery: its state and content, retrying it, releasing a prize.
//!
//! Invariant: a winner's address appears on this page only, and only for operators who may deliver the prize.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use serde_json::Value;
use tidegate_core::{DeliveryId, Role};
use tidegate_http::Site;

use super::Row;
use crate::console::listing::PathId;
use crate::console::{ConsoleContext, OperatorSession, redirect_with_notice};
use crate::format::Timestamp;
use crate::forms::Form;
use crate::i18n::phrases::deliveries::DeliveryPhrases;
use crate::page::{PageError, render};

#[derive(Template)]
#[template(path = "console/delivery.html")]
pub(crate) struct DeliveryPage {
    ctx: ConsoleContext,
    t: &'static DeliveryPhrases,
    row: Row,
    draw: Option<String>,
    play: Option<String>,
    content: Option<String>,
    /// Lines of the shipping label.
    address: Vec<String>,
    created: Timestamp,
}

pub(crate) async fn show(
    State(site): State<Site>,
    session: OperatorSession,
    PathId(id): PathId<DeliveryId>,
) -> Result<Response, PageError> {
    let (app, t) = (&site.app, DeliveryPhrases::of(session.ctx.lang));
    let mut delivery = app.deliveries.find(id).await?;
    if !session.ctx.can_edit() {
        // Viewers see neither the prize nor the address.
        (delivery.content, delivery.address) = (None, None);
    }
    Ok(render(&DeliveryPage {
        row: Row::of(app, t, &delivery),
        draw: delivery.campaign.map(|draw| app.print(draw.as_draw())),
        play: delivery.play.map(|play| app.print(play)),
        content: delivery.content,
        address: delivery.address.as_deref().map(address_lines).unwrap_or_default(),
        created: Timestamp(delivery.created_at),
        t,
        ctx: session.ctx,
    }))
}

fn address_lines(address: &str) -> Vec<String> {
    let Ok(Value::Object(fields)) = serde_json::from_str(address) else { return vec![address.to_owned()] };
    let known =
        ["name", "phone", "street", "line1", "line2", "town", "city", "region", "postcode", "country"];
    let place = |field: &str| known.iter().position(|name| *name == field).unwrap_or(known.len());
    let mut fields: Vec<_> = fields.into_iter().filter(|(_, value)| !value.is_null()).collect();
    fields.sort_by_key(|(field, _)| place(field));
    fields.into_iter().map(|(_, value)| value.as_str().map_or(value.to_string(), str::to_owned)).collect()
}

pub(crate) async fn retry(
    State(site): State<Site>,
    session: OperatorSession,
    PathId(id): PathId<DeliveryId>,
    _: Form,
) -> Result<Response, PageError> {
    session.operator.may(Role::Operator)?;
    let (app, by) = (site.app.clone(), session.operator.actor());
    let done = site.run_to_completion(async move { app.deliveries.retry(id, by).await }).await;
    redirect_with_notice(&format!("/console/deliveries/{}", site.app.print(id)), done)
}

pub(crate) async fn grant(
    State(site): State<Site>,
    session: OperatorSession,
    PathId(id): PathId<DeliveryId>,
    _: Form,
) -> Result<Response, PageError> {
    session.operator.may(Role::Operator)?;
    let (app, by) = (site.app.clone(), session.operator.actor());
    let done = site.run_to_completion(async move { app.deliveries.grant(id, by).await }).await;
    redirect_with_notice(&format!("/console/deliveries/{}", site.app.print(id)), done)
}

#[cfg(test)]
mod samples {
    use super::*;

    impl DeliveryPage {
        pub(crate) fn sample(ctx: ConsoleContext) -> Self {
            let t = DeliveryPhrases::of(ctx.lang);
            let row = Row::sample(t);
            Self {
                created: row.at,
                row,
                draw: Some("D".into()),
                play: Some("P".into()),
                content: Some("CODE-1".into()),
                address: vec!["Mei".into(), "1 <Main> Street".into()],
                t,
                ctx,
            }
        }
    }

    #[test]
    fn an_address_reads_like_a_shipping_label() {
        let address = r#"{"country":"CN","name":"Mei","postcode":"200000","street":"1 Main Street"}"#;
        assert_eq!(address_lines(address), ["Mei", "1 Main Street", "200000", "CN"]);
        assert_eq!(address_lines("nowhere"), ["nowhere"]);
    }
}
