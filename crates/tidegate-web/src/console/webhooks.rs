//! Webhooks: the list, and a form for a new one.

pub(super) mod show;

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{get, post};
use tidegate_app::ledger_types::Webhook;
use tidegate_core::{EventKind, Role};
use tidegate_http::Site;
use tidegate_http::inputs::webhooks::WebhookInput;

use super::secret::SecretPage;
use crate::badge::Badge;
use crate::console::{ConsoleContext, OperatorSession, redirect_with_notice};
use crate::format::Timestamp;
use crate::forms::Form;
use crate::i18n::language::Lang;
use crate::i18n::phrases::events::{event_description, event_subject};
use crate::i18n::phrases::webhooks::WebhookPhrases;
use crate::page::{PageError, html, render};

pub(super) fn routes() -> Router<Site> {
    Router::new()
        .route("/console/webhooks", get(list).post(create))
        .route("/console/webhooks/{id}", get(show::show))
        .route("/console/webhooks/{id}/rotate", get(show::back).post(show::rotate))
        .route("/console/webhooks/{id}/enable", post(show::enable))
        .route("/console/webhooks/{id}/replay", post(show::replay))
        .route("/console/webhooks/{id}/delete", post(show::delete))
}

#[derive(Template)]
#[template(path = "console/webhooks.html")]
pub(crate) struct WebhooksPage {
    ctx: ConsoleContext,
    t: &'static WebhookPhrases,
    webhooks: Vec<Row>,
    groups: Vec<Group>,
}

#[derive(Debug)]
struct Row {
    id: String,
    url: String,
    events: String,
    state: Badge,
    disabled_reason: Option<String>,
    created: Timestamp,
}

/// Checkboxes for the events of one subject.
#[derive(Debug)]
struct Group {
    /// Pattern for all events of the subject, such as `order.*`.
    pattern: String,
    label: String,
    kinds: Vec<(&'static str, String)>,
}

pub(crate) fn webhook_badge(ctx: &ConsoleContext, webhook: &Webhook) -> Badge {
    if webhook.disabled.is_some() {
        Badge::bad(ctx.t.disabled)
    } else {
        Badge::good(WebhookPhrases::of(ctx.lang).enabled)
    }
}

pub(crate) async fn list(State(site): State<Site>, session: OperatorSession) -> Result<Response, PageError> {
    let app = &site.app;
    let row = |webhook: Webhook| Row {
        id: app.print(webhook.id),
        events: webhook.events.join(", "),
        state: webhook_badge(&session.ctx, &webhook),
        created: Timestamp(webhook.created_at),
        url: webhook.url,
        disabled_reason: webhook.disabled,
    };
    let webhooks = app.webhooks.list().await?.into_iter().map(row).collect();
    Ok(render(&WebhooksPage {
        webhooks,
        groups: groups(session.ctx.lang),
        t: WebhookPhrases::of(session.ctx.lang),
        ctx: session.ctx,
    }))
}

/// `order.*` for `order.paid`.
fn subject_pattern(kind: &str) -> String {
    format!("{}.*", kind.split('.').next().unwrap_or(kind))
}

fn groups(lang: Lang) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for kind in EventKind::public() {
        let (pattern, description) = (format!("{}.*", kind.noun()), event_description(lang, kind));
        match groups.last_mut().filter(|group| group.pattern == pattern) {
            Some(group) => group.kinds.push((kind.as_str(), description)),
            None => {
                let label = event_subject(lang, kind.noun()).to_string();
                groups.push(Group { pattern, label, kinds: vec![(kind.as_str(), description)] });
            }
        }
    }
    groups
}

pub(crate) async fn create(
    State(site): State<Site>,
    session: OperatorSession,
    form: Form,
) -> Result<Response, PageError> {
    session.operator.may(Role::Operator)?;
    let input = WebhookInput { url: form.text("url").to_owned(), events: selected_events(&form) };
    if let Err(problem) = input.check(&site.app) {
        return redirect_with_notice::<()>("/console/webhooks", Err(problem));
    }
    let (app, by) = (site.app.clone(), session.operator.actor());
    let made =
        site.run_to_completion(async move { app.webhooks.create(input.url, input.events, by, None).await });
    match made.await {
        Ok(webhook) => {
            let secret = tidegate_app::signature::print_secret(&webhook.secret);
            let page = SecretPage::for_webhook(session.ctx, &site.app.print(webhook.id), webhook.url, secret);
            Ok(html(StatusCode::CREATED, &page))
        }
        Err(problem) => redirect_with_notice::<()>("/console/webhooks", Err(problem)),
    }
}

/// The selected events, without those that a selected pattern already covers.
fn selected_events(form: &Form) -> Vec<String> {
    let ticked: Vec<&str> =
        form.0.iter().filter(|(name, _)| name == "events").map(|(_, value)| value.as_str()).collect();
    if ticked.contains(&"*") {
        return vec!["*".to_owned()];
    }
    let covered = |kind: &str| {
        let pattern = subject_pattern(kind);
        kind != pattern && ticked.contains(&pattern.as_str())
    };
    ticked.iter().filter(|kind| !covered(kind)).map(|kind| (*kind).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::Moment;

    impl WebhooksPage {
        pub(crate) fn sample(ctx: ConsoleContext) -> Self {
            let t = WebhookPhrases::of(ctx.lang);
            let row = Row {
                id: "W".into(),
                url: "https://shop.example/hooks?<b>".into(),
                events: "order.*".into(),
                state: Badge::bad(ctx.t.disabled),
                disabled_reason: Some("gone".into()),
                created: Timestamp(Moment::from_millis(1_777_629_600_000)),
            };
            Self { webhooks: vec![row], groups: groups(ctx.lang), t, ctx }
        }
    }

    fn ticked(kinds: &[&str]) -> Vec<String> {
        let field = |kind: &&str| ("events".to_owned(), (*kind).to_owned());
        selected_events(&Form(kinds.iter().map(field).collect()))
    }

    #[test]
    fn events_covered_by_a_pattern_are_left_out() {
        assert_eq!(ticked(&["order.*", "order.paid", "sale.closed"]), ["order.*", "sale.closed"]);
        assert_eq!(ticked(&["order.paid", "*"]), ["*"]);
    }

    #[test]
    fn every_event_has_one_checkbox() {
        let groups = groups(Lang::En);
        assert_eq!(groups.iter().map(|group| group.kinds.len()).sum::<usize>(), EventKind::public().count());
        let mut patterns: Vec<_> = groups.iter().map(|group| &group.pattern).collect();
        patterns.dedup();
        assert_eq!(patterns.len(), groups.len());
    }
}
