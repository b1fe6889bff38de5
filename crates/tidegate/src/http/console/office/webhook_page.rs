//! One webhook: what went there, and what can be done with it.

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use tidegate_core::{Role, WebhookId};

use super::deliveries::Row;
use super::secret::SecretPage;
use super::webhooks::state;
use super::words::Word;
use super::{Named, phrases};
use crate::http::Site;
use crate::http::console::{AtDesk, Desk, answered, shown};
use crate::http::pages::format::When;
use crate::http::pages::forms::Form;
use crate::http::pages::phrases::office::Office;
use crate::http::pages::{Trouble, html, see};
use crate::http::problem::Problem;

const SHOWN: u32 = 50;

#[derive(Template)]
#[template(path = "console/webhook.html")]
pub(super) struct WebhookPage {
    desk: Desk,
    o: &'static Office,
    id: String,
    url: String,
    events: Vec<String>,
    state: Word,
    why: Option<String>,
    old_secret: Option<When>,
    created: When,
    deliveries: Vec<Row>,
}

fn path(site: &Site, id: WebhookId) -> String {
    format!("/console/webhooks/{}", site.app.print(id))
}

pub(super) async fn show(
    State(site): State<Site>,
    at: AtDesk,
    Named(id): Named<WebhookId>,
) -> Result<Response, Trouble> {
    let (app, o) = (&site.app, phrases(&at.desk));
    let webhook = app.webhook(id).await?;
    let deliveries = app.deliveries_to(id, SHOWN).await?;
    let old = webhook.old_secret.as_ref().map(|(_, until)| *until);
    Ok(shown(&WebhookPage {
        id: app.print(id),
        state: state(o, &webhook),
        old_secret: old.filter(|until| app.now() < *until).map(When),
        created: When(webhook.created_at),
        url: webhook.url,
        events: webhook.events,
        why: webhook.disabled,
        deliveries: deliveries.iter().map(|delivery| Row::of(app, o, delivery)).collect(),
        o,
        desk: at.desk,
    }))
}

/// Whoever changes the language on the page that shows a secret comes to the one that does not.
pub(super) async fn back(State(site): State<Site>, Named(id): Named<WebhookId>) -> Response {
    see(&path(&site, id))
}

pub(super) async fn rotate(
    State(site): State<Site>,
    at: AtDesk,
    Named(id): Named<WebhookId>,
    _: Form,
) -> Result<Response, Trouble> {
    at.who.may(Role::Operator)?;
    let (app, by) = (site.app.clone(), at.who.actor());
    match site.carry_out(async move { app.rotate_webhook(id, by).await }).await {
        Ok(webhook) => {
            let secret = crate::signature::print_secret(&webhook.secret);
            let page = SecretPage::of_webhook(at.desk, &site.app.print(id), webhook.url, secret);
            Ok(html(StatusCode::OK, &page))
        }
        Err(problem) => answered::<()>(&path(&site, id), Err(problem)),
    }
}

pub(super) async fn enable(
    State(site): State<Site>,
    at: AtDesk,
    Named(id): Named<WebhookId>,
    _: Form,
) -> Result<Response, Trouble> {
    at.who.may(Role::Operator)?;
    let (app, by) = (site.app.clone(), at.who.actor());
    let done = site.carry_out(async move { app.enable_webhook(id, by).await }).await;
    answered(&path(&site, id), done)
}

pub(super) async fn replay(
    State(site): State<Site>,
    at: AtDesk,
    Named(id): Named<WebhookId>,
    form: Form,
) -> Result<Response, Trouble> {
    at.who.may(Role::Operator)?;
    let Some(after) = form.number("after").and_then(|after| u64::try_from(after).ok()) else {
        let o = phrases(&at.desk);
        let detail = format!("{} {}", o.replay_after, o.replay_wrong);
        let wrong = Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "validation_failed", detail);
        return answered::<()>(&path(&site, id), Err(wrong));
    };
    let (app, by) = (site.app.clone(), at.who.actor());
    let done = site.carry_out(async move { app.replay_events(id, after, by).await }).await;
    answered(&path(&site, id), done)
}

pub(super) async fn delete(
    State(site): State<Site>,
    at: AtDesk,
    Named(id): Named<WebhookId>,
    _: Form,
) -> Result<Response, Trouble> {
    at.who.may(Role::Operator)?;
    let (app, by) = (site.app.clone(), at.who.actor());
    let done = site.carry_out(async move { app.delete_webhook(id, by).await }).await;
    answered("/console/webhooks", done)
}

#[cfg(test)]
impl WebhookPage {
    pub(super) fn sample(desk: Desk) -> Self {
        let o = phrases(&desk);
        let at = When(tidegate_core::Moment::from_millis(1_777_629_600_000));
        Self {
            id: "W".into(),
            url: "https://shop.example/hooks".into(),
            events: vec!["order.*".into(), "prize.ship".into()],
            state: super::words::word(o.disabled, "bad"),
            why: Some("the receiver answered 410 Gone".into()),
            old_secret: Some(at),
            created: at,
            deliveries: vec![Row::sample(o)],
            o,
            desk,
        }
    }
}
