//! The console's back office: what was ordered, what is on its way, whether the books add up, who did what, who may.
//!
//! What always holds: everybody who has signed in may look; a change asks for its role before anything else; a secret is
//! shown in the answer that made it and nowhere else.

mod account;
mod books;
mod csv;
mod deliveries;
mod exports;
mod keys;
mod log;
mod nodes;
mod orders;
mod people;
mod second_factor;
mod secret;
mod webhook_page;
mod webhooks;
mod words;

use axum::Router;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::routing::{get, post};
use tidegate_core::public_id::Public;

use super::Desk;
use crate::http::Site;
use crate::http::input::Id;
use crate::http::pages::phrases::office::Office;
use crate::http::pages::{Trouble, see};

pub(super) fn office_routes() -> Router<Site> {
    Router::new()
        .route("/console/orders", get(orders::list))
        .route("/console/orders/{id}", get(orders::show))
        .route("/console/orders/{id}/cancel", post(orders::cancel))
        .route("/console/orders/{id}/refund", post(orders::refund))
        .route("/console/deliveries", get(deliveries::list))
        .route("/console/deliveries/{id}", get(deliveries::show))
        .route("/console/deliveries/{id}/retry", post(deliveries::retry))
        .route("/console/deliveries/{id}/grant", post(deliveries::grant))
        .route("/console/webhooks", get(webhooks::list).post(webhooks::create))
        .route("/console/webhooks/{id}", get(webhook_page::show))
        .route("/console/webhooks/{id}/rotate", get(webhook_page::back).post(webhook_page::rotate))
        .route("/console/webhooks/{id}/enable", post(webhook_page::enable))
        .route("/console/webhooks/{id}/replay", post(webhook_page::replay))
        .route("/console/webhooks/{id}/delete", post(webhook_page::delete))
        .route("/console/reconciliation", get(books::show))
        .route("/console/log", get(log::show))
        .route("/console/log.csv", get(exports::log))
        .route("/console/sales/{id}/orders.csv", get(exports::orders))
        .route("/console/draws/{id}/plays.csv", get(exports::plays))
        .route("/console/nodes", get(nodes::show))
        .merge(people_routes())
}

fn people_routes() -> Router<Site> {
    let to_people = async || see("/console/people");
    let to_account = async || see("/console/account");
    Router::new()
        .route("/console/people", get(people::list).post(people::create))
        .route("/console/people/{name}", get(people::show))
        .route("/console/people/{name}/role", post(people::role))
        .route("/console/people/{name}/password", post(people::password))
        .route("/console/people/{name}/disable", post(people::disable))
        .route("/console/people/{name}/enable", post(people::enable))
        .route("/console/people/{name}/factor", post(people::remove_factor))
        // Whoever changes the language on a page that shows a secret comes here without one.
        .route("/console/keys", get(to_people).post(keys::create))
        .route("/console/keys/{id}/revoke", post(keys::revoke))
        .route("/console/account", get(account::show))
        .route("/console/account/password", post(account::password))
        .route("/console/account/second-factor", get(to_account).post(second_factor::begin))
        .route("/console/account/second-factor/confirm", get(to_account).post(second_factor::confirm))
        .route("/console/account/second-factor/remove", post(second_factor::remove))
}

/// The back office's phrases for who sits at this desk.
fn phrases(desk: &Desk) -> &'static Office {
    Office::of(desk.lang)
}

/// The id in a page's path: what is no id is answered with a page, too.
struct Named<T>(T);

impl<T: Public + Send> FromRequestParts<Site> for Named<T> {
    type Rejection = Trouble;

    async fn from_request_parts(parts: &mut Parts, site: &Site) -> Result<Self, Trouble> {
        Ok(Self(Id::<T>::from_request_parts(parts, site).await?.0))
    }
}

/// One of a select's options.
#[derive(Clone, Debug)]
struct Choice {
    value: String,
    label: String,
    chosen: bool,
}

/// A page's address with what is asked for; what is empty is left out.
fn address(path: &str, query: &[(&str, &str)]) -> String {
    let given: Vec<_> = query.iter().filter(|(_, value)| !value.is_empty()).collect();
    match serde_urlencoded::to_string(given) {
        Ok(query) if !query.is_empty() => format!("{path}?{query}"),
        _ => path.to_owned(),
    }
}

/// Where a list goes on, if this page is full.
fn cursor_after<T>(rows: &[T], limit: u32, cursor: impl Fn(&T) -> String) -> Option<String> {
    rows.last().filter(|_| rows.len() == limit as usize).map(cursor)
}

/// A choice of nothing is no choice.
fn given(text: String) -> Option<String> {
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

fn lost() -> Trouble {
    tidegate_core::Rejection::NotFound.into()
}

/// Renders every page of the back office once.
#[cfg(test)]
pub(super) fn office_samples(desk: &Desk) -> Vec<(&'static str, String)> {
    fn rendered(page: &impl askama::Template) -> String {
        page.render().unwrap()
    }
    let desk = || desk.clone();
    vec![
        ("orders", rendered(&orders::OrdersPage::sample(desk()))),
        ("order", rendered(&orders::OrderPage::sample(desk()))),
        ("deliveries", rendered(&deliveries::DeliveriesPage::sample(desk()))),
        ("delivery", rendered(&deliveries::DeliveryPage::sample(desk()))),
        ("webhooks", rendered(&webhooks::WebhooksPage::sample(desk()))),
        ("webhook", rendered(&webhook_page::WebhookPage::sample(desk()))),
        ("reconciliation", rendered(&books::BooksPage::sample(desk()))),
        ("log", rendered(&log::LogPage::sample(desk()))),
        ("nodes", rendered(&nodes::NodesPage::sample(desk()))),
        ("people", rendered(&people::PeoplePage::sample(desk()))),
        ("person", rendered(&people::PersonPage::sample(desk()))),
        ("account", rendered(&account::AccountPage::sample(desk()))),
        ("second_factor", rendered(&second_factor::FactorPage::sample(desk()))),
        ("secret", rendered(&secret::SecretPage::sample(desk()))),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::pages::language::Lang;

    #[test]
    fn every_page_renders_whole_in_both_languages() {
        for lang in Lang::ALL {
            for (name, page) in office_samples(&super::super::sample_desk(lang)) {
                assert_eq!(page.matches("<h1>").count(), 1, "{name}");
                assert!(page.contains("</html>") && !page.contains("{}"), "{name} is not whole: {page}");
                assert!(!page.contains(" style=") && !page.contains("<b>"), "{name} is not safe: {page}");
                let ids: Vec<_> =
                    page.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
                let mut once = ids.clone();
                once.sort_unstable();
                once.dedup();
                assert_eq!(once.len(), ids.len(), "{name} has an id twice: {ids:?}");
            }
        }
    }

    #[test]
    fn an_address_says_only_what_is_asked_for() {
        assert_eq!(address("/a", &[("x", ""), ("y", "1 2")]), "/a?y=1+2");
        assert_eq!(address("/a", &[("x", "")]), "/a");
    }

    #[test]
    fn only_a_full_page_goes_on() {
        assert_eq!(cursor_after(&[1, 2], 2, i32::to_string), Some("2".into()));
        assert_eq!(cursor_after(&[1], 2, i32::to_string), None);
    }
}
