//! The audit log: when, who, what, on what.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use tidegate_core::{CampaignId, DrawId};

use super::{address, cursor_after, given, lost, phrases};
use crate::http::Site;
use crate::http::console::{AtDesk, Desk, shown};
use crate::http::input::{Asked, PageQuery};
use crate::http::pages::Trouble;
use crate::http::pages::format::When;
use crate::http::pages::language::Lang;
use crate::http::pages::phrases::happenings::happened;
use crate::http::pages::phrases::office::Office;
use crate::http::shapes::EventShape;
use crate::ops::App;

#[derive(Template)]
#[template(path = "console/log.html")]
pub(super) struct LogPage {
    desk: Desk,
    o: &'static Office,
    /// The campaign whose entries alone are shown, and its page.
    only: Option<(String, String)>,
    export: String,
    entries: Vec<Entry>,
    next: Option<String>,
}

#[derive(Debug)]
struct Entry {
    id: String,
    at: When,
    who: String,
    /// A buyer's id.
    buyer: Option<String>,
    words: Option<String>,
    kind: String,
    subject: String,
    link: Option<String>,
    detail: Option<String>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct LogQuery {
    sale_id: String,
    draw_id: String,
    cursor: String,
}

impl LogQuery {
    /// The campaign that is asked for, if any.
    pub(super) fn campaign(&self, app: &App) -> Result<Option<CampaignId>, Trouble> {
        match (self.sale_id.as_str(), self.draw_id.as_str()) {
            ("", "") => Ok(None),
            ("", draw) => Ok(Some(app.parse::<DrawId>(draw).ok_or_else(lost)?.campaign())),
            (sale, _) => Ok(Some(app.parse(sale).ok_or_else(lost)?)),
        }
    }

    fn only(&self) -> Option<(String, String)> {
        match (self.sale_id.as_str(), self.draw_id.as_str()) {
            ("", "") => None,
            ("", draw) => Some((draw.to_owned(), format!("/console/draws/{draw}"))),
            (sale, _) => Some((sale.to_owned(), format!("/console/sales/{sale}"))),
        }
    }

    fn address(&self, path: &str, cursor: &str) -> String {
        address(path, &[("sale_id", &self.sale_id), ("draw_id", &self.draw_id), ("cursor", cursor)])
    }
}

pub(super) async fn show(
    State(site): State<Site>,
    at: AtDesk,
    Asked(query): Asked<LogQuery>,
) -> Result<Response, Trouble> {
    let (app, o) = (&site.app, phrases(&at.desk));
    let page = PageQuery { limit: None, cursor: given(query.cursor.clone()) }.numbered()?;
    let events = app.events(query.campaign(app)?, page).await?;
    let next = cursor_after(&events, page.limit, |event| event.id.to_string());
    let moments: Vec<_> = events.iter().map(|event| event.at).collect();
    let shapes = events.into_iter().map(|event| EventShape::of(app, event));
    let lang = at.desk.lang;
    Ok(shown(&LogPage {
        only: query.only(),
        export: query.address("/console/log.csv", ""),
        entries: shapes.zip(moments).map(|(shape, at)| Entry::of(lang, o, shape, When(at))).collect(),
        next: next.map(|next| query.address("/console/log", &next)),
        o,
        desk: at.desk,
    }))
}

impl Entry {
    fn of(lang: Lang, o: &Office, event: EventShape, at: When) -> Self {
        let link = link(&event);
        let (who, buyer) = who(o, &event.actor);
        Self {
            id: event.id,
            at,
            who,
            buyer,
            words: happened(lang, &event.kind),
            kind: event.kind,
            subject: event.subject,
            link,
            detail: event.detail,
        }
    }
}

/// Who it was, and a buyer's id.
fn who(o: &Office, actor: &str) -> (String, Option<String>) {
    match actor.split_once(':') {
        Some(("buyer", id)) => (o.by_buyer.to_string(), Some(id.to_owned())),
        Some(("operator", name)) => match name.strip_prefix("key:") {
            Some(key) => (o.by_key.with(key), None),
            None => (name.to_owned(), None),
        },
        None if actor == "operator" => (o.by_admin_key.to_string(), None),
        None if actor == "clock" => (o.by_clock.to_string(), None),
        _ => (actor.to_owned(), None),
    }
}

/// The page of what it happened to, where there is one.
fn link(event: &EventShape) -> Option<String> {
    let subject = &event.subject;
    match event.kind.split('.').next()? {
        "order" | "refund" => Some(format!("/console/orders/{subject}")),
        "sale" => Some(format!("/console/sales/{subject}")),
        "draw" => Some(format!("/console/draws/{subject}")),
        "delivery" => Some(format!("/console/deliveries/{subject}")),
        "webhook" if event.kind != "webhook.deleted" => Some(format!("/console/webhooks/{subject}")),
        "play" | "prize" => event.draw_id.as_ref().map(|draw| format!("/console/draws/{draw}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::Moment;

    impl LogPage {
        pub(in super::super) fn sample(desk: Desk) -> Self {
            let o = phrases(&desk);
            let entry = Entry {
                id: "7".into(),
                at: When(Moment::from_millis(1_777_629_600_000)),
                who: "lin".into(),
                buyer: Some("B".into()),
                words: happened(desk.lang, "order.paid"),
                kind: "order.paid".into(),
                subject: "O".into(),
                link: Some("/console/orders/O".into()),
                detail: Some("<b>".into()),
            };
            Self {
                only: Some(("S".into(), "/console/sales/S".into())),
                export: "/console/log.csv".into(),
                entries: vec![entry],
                next: Some("/console/log?cursor=7".into()),
                o,
                desk,
            }
        }
    }

    #[test]
    fn everybody_who_acts_is_named() {
        let o = Office::of(Lang::En);
        let said = |actor: &str| who(o, actor);
        assert_eq!(said("operator"), ("Admin key".into(), None));
        assert_eq!(said("operator:lin"), ("lin".into(), None));
        assert_eq!(said("operator:key:deploy"), ("API key deploy".into(), None));
        assert_eq!(said("buyer:ABC"), ("Buyer".into(), Some("ABC".into())));
        assert_eq!(said("clock"), ("Clock".into(), None));
    }
}
