//! One webhook: its recent deliveries, rotating its secret, enabling, replaying and deleting it.

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use tidegate_core::{ProblemCode, Role, WebhookId};
use tidegate_http::Site;
use tidegate_http::problem::Problem;

use super::webhook_badge;
use crate::badge::Badge;
use crate::console::deliveries::Row;
use crate::console::listing::PathId;
use crate::console::secret::SecretPage;
use crate::console::{ConsoleContext, OperatorSession, redirect_with_notice};
use crate::format::Timestamp;
use crate::forms::Form;
use crate::i18n::phrases::deliveries::DeliveryPhrases;
use crate::i18n::phrases::webhooks::WebhookPhrases;
use crate::page::{PageError, html, redirect, render};

/// Deliveries listed on the page.
const MAX_DELIVERIES: u32 = 50;

#[derive(Template)]
#[template(path = "console/webhook.html")]
pub(crate) struct WebhookPage {
    ctx: ConsoleContext,
    t: &'static WebhookPhrases,
    /// Labels of the list of deliveries.
    delivery_t: &'static DeliveryPhrases,
    id: String,
    url: String,
    events: Vec<String>,
    state: Badge,
    disabled_reason: Option<String>,
    old_secret: Option<Timestamp>,
    created: Timestamp,
    deliveries: Vec<Row>,
}

fn path(site: &Site, id: WebhookId) -> String {
    format!("/console/webhooks/{}", site.app.print(id))
}

pub(crate) async fn show(
    State(site): State<Site>,
    session: OperatorSession,
    PathId(id): PathId<WebhookId>,
) -> Result<Response, PageError> {
    let app = &site.app;
    let delivery_t = DeliveryPhrases::of(session.ctx.lang);
    let webhook = app.webhooks.find(id).await?;
    let deliveries = app.deliveries.to_webhook(id, MAX_DELIVERIES).await?;
    let old_until = webhook.old_secret.as_ref().map(|(_, until)| *until);
    Ok(render(&WebhookPage {
        id: app.print(id),
        state: webhook_badge(&session.ctx, &webhook),
        old_secret: old_until.filter(|until| app.now() < *until).map(Timestamp),
        created: Timestamp(webhook.created_at),
        url: webhook.url,
        events: webhook.events,
        disabled_reason: webhook.disabled,
        deliveries: deliveries.iter().map(|delivery| Row::of(app, delivery_t, delivery)).collect(),
        t: WebhookPhrases::of(session.ctx.lang),
        delivery_t,
        ctx: session.ctx,
    }))
}

/// Changing the language on the page that shows a secret leads here: the secret is not shown again.
pub(crate) async fn back(State(site): State<Site>, PathId(id): PathId<WebhookId>) -> Response {
    redirect(&path(&site, id))
}

pub(crate) async fn rotate(
    State(site): State<Site>,
    session: OperatorSession,
    PathId(id): PathId<WebhookId>,
    _: Form,
) -> Result<Response, PageError> {
    session.operator.may(Role::Operator)?;
    let (app, by) = (site.app.clone(), session.operator.actor());
    match site.run_to_completion(async move { app.webhooks.rotate(id, by).await }).await {
        Ok(webhook) => {
            let secret = tidegate_app::signature::print_secret(&webhook.secret);
            let page = SecretPage::for_webhook(session.ctx, &site.app.print(id), webhook.url, secret);
            Ok(html(StatusCode::OK, &page))
        }
        Err(problem) => redirect_with_notice::<()>(&path(&site, id), Err(problem)),
    }
}

pub(crate) async fn enable(
    State(site): State<Site>,
    session: OperatorSession,
    PathId(id): PathId<WebhookId>,
    _: Form,
) -> Result<Response, PageError> {
    session.operator.may(Role::Operator)?;
    let (app, by) = (site.app.clone(), session.operator.actor());
    let done = site.run_to_completion(async move { app.webhooks.enable(id, by).await }).await;
    redirect_with_notice(&path(&site, id), done)
}

pub(crate) async fn replay(
    State(site): State<Site>,
    session: OperatorSession,
    PathId(id): PathId<WebhookId>,
    form: Form,
) -> Result<Response, PageError> {
    session.operator.may(Role::Operator)?;
    let Some(after) = form.number("after").and_then(|after| u64::try_from(after).ok()) else {
        let t = WebhookPhrases::of(session.ctx.lang);
        let detail = format!("{} {}", t.replay_after, t.replay_wrong);
        let wrong = Problem::new(StatusCode::UNPROCESSABLE_ENTITY, ProblemCode::ValidationFailed, detail);
        return redirect_with_notice::<()>(&path(&site, id), Err(wrong));
    };
    let (app, by) = (site.app.clone(), session.operator.actor());
    let done = site.run_to_completion(async move { app.webhooks.replay_events(id, after, by).await }).await;
    redirect_with_notice(&path(&site, id), done)
}

pub(crate) async fn delete(
    State(site): State<Site>,
    session: OperatorSession,
    PathId(id): PathId<WebhookId>,
    _: Form,
) -> Result<Response, PageError> {
    session.operator.may(Role::Operator)?;
    let (app, by) = (site.app.clone(), session.operator.actor());
    let done = site.run_to_completion(async move { app.webhooks.delete(id, by).await }).await;
    redirect_with_notice("/console/webhooks", done)
}

#[cfg(test)]
impl WebhookPage {
    pub(crate) fn sample(ctx: ConsoleContext) -> Self {
        let at = Timestamp(tidegate_core::Moment::from_millis(1_777_629_600_000));
        Self {
            id: "W".into(),
            url: "https://shop.example/hooks".into(),
            events: vec!["order.*".into(), "prize.ship".into()],
            state: Badge::bad(ctx.t.disabled),
            disabled_reason: Some("the receiver answered 410 Gone".into()),
            old_secret: Some(at),
            created: at,
            deliveries: vec![Row::sample(DeliveryPhrases::of(ctx.lang))],
            t: WebhookPhrases::of(ctx.lang),
            delivery_t: DeliveryPhrases::of(ctx.lang),
            ctx,
        }
    }
}
