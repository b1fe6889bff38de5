//! The audit log: time, actor, event and subject of every change.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use tidegate_app::App;
use tidegate_core::{CampaignId, DrawId, EventKind, EventNoun, Stored};
use tidegate_http::Site;
use tidegate_http::event_shape::EventShape;
use tidegate_http::input::{PageQuery, StrictQuery};

use crate::console::listing::{next_cursor, non_empty, not_found, url_with_query};
use crate::console::{ConsoleContext, OperatorSession};
use crate::format::Timestamp;
use crate::i18n::language::Lang;
use crate::i18n::phrases::audit_log::AuditLogPhrases;
use crate::i18n::phrases::events::event_description;
use crate::page::{PageError, render};

#[derive(Template)]
#[template(path = "console/audit_log.html")]
pub(crate) struct AuditLogPage {
    ctx: ConsoleContext,
    t: &'static AuditLogPhrases,
    /// Filter: id and page of the only campaign whose entries are listed.
    campaign_filter: Option<(String, String)>,
    export: String,
    entries: Vec<Entry>,
    next: Option<String>,
}

#[derive(Debug)]
struct Entry {
    id: String,
    at: Timestamp,
    actor: String,
    buyer_id: Option<String>,
    description: Option<String>,
    kind: String,
    subject: String,
    link: Option<String>,
    detail: Option<String>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(crate) struct AuditLogQuery {
    sale_id: String,
    draw_id: String,
    cursor: String,
}

impl AuditLogQuery {
    pub(crate) fn campaign(&self, app: &App) -> Result<Option<CampaignId>, PageError> {
        match (self.sale_id.as_str(), self.draw_id.as_str()) {
            ("", "") => Ok(None),
            ("", draw) => Ok(Some(app.parse::<DrawId>(draw).ok_or_else(not_found)?.campaign())),
            (sale, _) => Ok(Some(app.parse(sale).ok_or_else(not_found)?)),
        }
    }

    fn campaign_filter(&self) -> Option<(String, String)> {
        match (self.sale_id.as_str(), self.draw_id.as_str()) {
            ("", "") => None,
            ("", draw) => Some((draw.to_owned(), format!("/console/draws/{draw}"))),
            (sale, _) => Some((sale.to_owned(), format!("/console/sales/{sale}"))),
        }
    }

    fn url(&self, path: &str, cursor: &str) -> String {
        url_with_query(path, &[("sale_id", &self.sale_id), ("draw_id", &self.draw_id), ("cursor", cursor)])
    }
}

pub(crate) async fn show(
    State(site): State<Site>,
    session: OperatorSession,
    StrictQuery(query): StrictQuery<AuditLogQuery>,
) -> Result<Response, PageError> {
    let (app, t) = (&site.app, AuditLogPhrases::of(session.ctx.lang));
    let page = PageQuery { limit: None, cursor: non_empty(query.cursor.clone()) }.numbered()?;
    let events = app.events.list(query.campaign(app)?, page).await?;
    let next = next_cursor(&events, page.limit, |event| event.id.to_string());
    let moments: Vec<_> = events.iter().map(|event| event.at).collect();
    let shapes = events.into_iter().map(|event| EventShape::of(app, event));
    let lang = session.ctx.lang;
    Ok(render(&AuditLogPage {
        campaign_filter: query.campaign_filter(),
        export: query.url("/console/log.csv", ""),
        entries: shapes.zip(moments).map(|(shape, at)| Entry::of(lang, t, shape, Timestamp(at))).collect(),
        next: next.map(|next| query.url("/console/log", &next)),
        t,
        ctx: session.ctx,
    }))
}

impl Entry {
    fn of(lang: Lang, t: &AuditLogPhrases, event: EventShape, at: Timestamp) -> Self {
        let link = subject_link(&event);
        let (actor, buyer_id) = actor_label(t, &event.actor);
        Self {
            id: event.id,
            at,
            actor,
            buyer_id,
            description: event.kind.known().map(|kind| event_description(lang, kind)),
            kind: event.kind.to_string(),
            subject: event.subject,
            link,
            detail: event.detail,
        }
    }
}

/// Display name of the actor, and the id if it is a buyer.
fn actor_label(t: &AuditLogPhrases, actor: &str) -> (String, Option<String>) {
    match actor.split_once(':') {
        Some(("buyer", id)) => (t.by_buyer.to_string(), Some(id.to_owned())),
        Some(("operator", name)) => match name.strip_prefix("key:") {
            Some(key) => (t.by_key.with(key), None),
            None => (name.to_owned(), None),
        },
        None if actor == "operator" => (t.by_admin_key.to_string(), None),
        None if actor == "clock" => (t.by_clock.to_string(), None),
        _ => (actor.to_owned(), None),
    }
}

/// Console page of the subject, if it has one.
fn subject_link(event: &EventShape) -> Option<String> {
    let subject = &event.subject;
    match event.kind.noun()? {
        EventNoun::Order | EventNoun::Refund => Some(format!("/console/orders/{subject}")),
        EventNoun::Sale => Some(format!("/console/sales/{subject}")),
        EventNoun::Draw => Some(format!("/console/draws/{subject}")),
        EventNoun::Delivery => Some(format!("/console/deliveries/{subject}")),
        EventNoun::Webhook if event.kind == Stored::Known(EventKind::WebhookDeleted) => None,
        EventNoun::Webhook => Some(format!("/console/webhooks/{subject}")),
        EventNoun::Play | EventNoun::Prize => {
            event.draw_id.as_ref().map(|draw| format!("/console/draws/{draw}"))
        }
        EventNoun::Item | EventNoun::Operator | EventNoun::ApiKey | EventNoun::Buyers => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::Moment;

    impl AuditLogPage {
        pub(crate) fn sample(ctx: ConsoleContext) -> Self {
            let t = AuditLogPhrases::of(ctx.lang);
            let entry = Entry {
                id: "7".into(),
                at: Timestamp(Moment::from_millis(1_777_629_600_000)),
                actor: "lin".into(),
                buyer_id: Some("B".into()),
                description: Some(event_description(ctx.lang, EventKind::OrderPaid)),
                kind: "order.paid".into(),
                subject: "O".into(),
                link: Some("/console/orders/O".into()),
                detail: Some("<b>".into()),
            };
            Self {
                campaign_filter: Some(("S".into(), "/console/sales/S".into())),
                export: "/console/log.csv".into(),
                entries: vec![entry],
                next: Some("/console/log?cursor=7".into()),
                t,
                ctx,
            }
        }
    }

    #[test]
    fn every_actor_has_a_label() {
        let t = AuditLogPhrases::of(Lang::En);
        let label = |actor: &str| actor_label(t, actor);
        assert_eq!(label("operator"), ("Admin key".into(), None));
        assert_eq!(label("operator:lin"), ("lin".into(), None));
        assert_eq!(label("operator:key:deploy"), ("API key deploy".into(), None));
        assert_eq!(label("buyer:ABC"), ("Buyer".into(), Some("ABC".into())));
        assert_eq!(label("clock"), ("System".into(), None));
    }
}
