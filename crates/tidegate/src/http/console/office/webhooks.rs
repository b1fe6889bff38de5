//! Webhooks: where events are sent, and new ones.

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use tidegate_core::Role;
use tidegate_store::ledger::sql::Webhook;

use super::phrases;
use super::secret::SecretPage;
use super::words::{Word, word};
use crate::http::Site;
use crate::http::console::{AtDesk, Desk, answered, shown};
use crate::http::pages::format::When;
use crate::http::pages::forms::Form;
use crate::http::pages::language::Lang;
use crate::http::pages::phrases::happenings::{happened, noun};
use crate::http::pages::phrases::office::Office;
use crate::http::pages::{Trouble, html};
use crate::http::webhooks::WebhookInput;
use crate::ops::envelope::KINDS;

#[derive(Template)]
#[template(path = "console/webhooks.html")]
pub(super) struct WebhooksPage {
    desk: Desk,
    o: &'static Office,
    webhooks: Vec<Row>,
    groups: Vec<Group>,
}

#[derive(Debug)]
struct Row {
    id: String,
    url: String,
    events: String,
    state: Word,
    why: Option<String>,
    at: When,
}

/// Events of one noun to choose from.
#[derive(Debug)]
struct Group {
    /// `order.*`
    all: String,
    word: String,
    kinds: Vec<(&'static str, String)>,
}

pub(super) fn state(o: &Office, webhook: &Webhook) -> Word {
    if webhook.disabled.is_some() { word(o.disabled, "bad") } else { word(o.enabled, "good") }
}

pub(super) async fn list(State(site): State<Site>, at: AtDesk) -> Result<Response, Trouble> {
    let (app, o) = (&site.app, phrases(&at.desk));
    let row = |webhook: Webhook| Row {
        id: app.print(webhook.id),
        events: webhook.events.join(", "),
        state: state(o, &webhook),
        at: When(webhook.created_at),
        url: webhook.url,
        why: webhook.disabled,
    };
    let webhooks = app.webhooks().await?.into_iter().map(row).collect();
    Ok(shown(&WebhooksPage { webhooks, groups: groups(at.desk.lang), o, desk: at.desk }))
}

fn groups(lang: Lang) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for kind in KINDS {
        let all = format!("{}.*", kind.split('.').next().unwrap_or(kind));
        let said = happened(lang, kind).unwrap_or_else(|| (*kind).to_owned());
        match groups.last_mut().filter(|group| group.all == all) {
            Some(group) => group.kinds.push((kind, said)),
            None => {
                let word = noun(lang, kind).map_or_else(|| all.clone(), |noun| noun.to_string());
                groups.push(Group { all, word, kinds: vec![(kind, said)] });
            }
        }
    }
    groups
}

pub(super) async fn create(State(site): State<Site>, at: AtDesk, form: Form) -> Result<Response, Trouble> {
    at.who.may(Role::Operator)?;
    let input = WebhookInput { url: form.text("url").to_owned(), events: chosen(&form) };
    if let Err(problem) = input.check(&site.app) {
        return answered::<()>("/console/webhooks", Err(problem));
    }
    let (app, by) = (site.app.clone(), at.who.actor());
    let made = site.carry_out(async move { app.create_webhook(input.url, input.events, by, None).await });
    match made.await {
        Ok(webhook) => {
            let secret = crate::signature::print_secret(&webhook.secret);
            let page = SecretPage::of_webhook(at.desk, &site.app.print(webhook.id), webhook.url, secret);
            Ok(html(StatusCode::CREATED, &page))
        }
        Err(problem) => answered::<()>("/console/webhooks", Err(problem)),
    }
}

/// What was ticked, without what something else that was ticked has in it.
fn chosen(form: &Form) -> Vec<String> {
    let ticked: Vec<&str> =
        form.0.iter().filter(|(name, _)| name == "events").map(|(_, value)| value.as_str()).collect();
    if ticked.contains(&"*") {
        return vec!["*".to_owned()];
    }
    let covered = |kind: &str| {
        let all = format!("{}.*", kind.split('.').next().unwrap_or(kind));
        kind != all && ticked.contains(&all.as_str())
    };
    ticked.iter().filter(|kind| !covered(kind)).map(|kind| (*kind).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::Moment;

    impl WebhooksPage {
        pub(in super::super) fn sample(desk: Desk) -> Self {
            let o = phrases(&desk);
            let row = Row {
                id: "W".into(),
                url: "https://shop.example/hooks?<b>".into(),
                events: "order.*".into(),
                state: word(o.disabled, "bad"),
                why: Some("gone".into()),
                at: When(Moment::from_millis(1_777_629_600_000)),
            };
            Self { webhooks: vec![row], groups: groups(desk.lang), o, desk }
        }
    }

    fn ticked(kinds: &[&str]) -> Vec<String> {
        let field = |kind: &&str| ("events".to_owned(), (*kind).to_owned());
        chosen(&Form(kinds.iter().map(field).collect()))
    }

    #[test]
    fn what_is_covered_is_not_said_twice() {
        assert_eq!(ticked(&["order.*", "order.paid", "sale.closed"]), ["order.*", "sale.closed"]);
        assert_eq!(ticked(&["order.paid", "*"]), ["*"]);
    }

    #[test]
    fn every_kind_can_be_chosen_once() {
        let groups = groups(Lang::En);
        assert_eq!(groups.iter().map(|group| group.kinds.len()).sum::<usize>(), KINDS.len());
        let mut nouns: Vec<_> = groups.iter().map(|group| &group.all).collect();
        nouns.dedup();
        assert_eq!(nouns.len(), groups.len());
    }
}
