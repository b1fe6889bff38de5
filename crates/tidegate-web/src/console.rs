//! The operators' console: pages over the same use cases as the operators' API.
//!
//! Invariants: every page requires a session and every change the role it needs; a change is a form that explains its
//! effect, comes from one of our own pages, and is written to the audit log with the operator who made it.

mod account;
mod api_keys;
mod audit_log;
mod badges;
mod campaigns;
mod context;
mod deliveries;
mod exports;
mod listing;
mod nodes;
mod orders;
mod overview;
mod people;
mod reconciliation;
mod secret;
mod sign_in;
mod webhooks;

use askama::Template;
use axum::Router;
use axum::http::request::Parts;
use axum::http::{HeaderValue, header};
use axum::middleware;
use axum::response::Response;
use axum::routing::{get, post};
use tidegate_core::ProblemCode;
use tidegate_http::Site;
use tidegate_http::problem::Problem;

use self::context::{ConsoleContext, OperatorSession, redirect_with_notice};
use super::i18n::phrases::Phrase;
use super::page::{html, redirect, remember_language};

pub(crate) fn routes() -> Router<Site> {
    Router::new()
        .route("/console", get(overview::show))
        .route("/console/sign-in", get(sign_in::show).post(sign_in::submit))
        .route("/console/sign-out", post(sign_in::sign_out))
        .route("/console/reconciliation", get(reconciliation::show))
        .route("/console/log", get(audit_log::show))
        .route("/console/log.csv", get(exports::audit_log))
        .route("/console/sales/{id}/orders.csv", get(exports::orders))
        .route("/console/draws/{id}/plays.csv", get(exports::plays))
        .route("/console/nodes", get(nodes::show))
        .merge(campaigns::routes())
        .merge(orders::routes())
        .merge(deliveries::routes())
        .merge(webhooks::routes())
        .merge(people::routes())
        .merge(api_keys::routes())
        .merge(account::routes())
        .layer(middleware::from_fn(remember_language))
}

#[derive(Template)]
#[template(path = "console/error.html")]
struct ErrorPage {
    ctx: ConsoleContext,
    title: Phrase,
    text: String,
}

impl ErrorPage {
    fn of(ctx: ConsoleContext, problem: &Problem) -> Self {
        let t = ctx.t;
        let (title, text) = match problem.code() {
            ProblemCode::NotFound => (t.not_found_title, t.not_found_text.to_string()),
            ProblemCode::RoleRequired => (t.role_title, t.role_text.to_string()),
            _ => (t.error_title, problem.sentence()),
        };
        Self { ctx, title, text }
    }
}

pub(crate) fn error_response(parts: &Parts, problem: &Problem) -> Response {
    if problem.code() == ProblemCode::Unauthenticated {
        return redirect("/console/sign-in");
    }
    let mut response = html(problem.status(), &ErrorPage::of(ConsoleContext::of(parts, None), problem));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
pub(crate) use self::samples::{sample_context, samples};

/// Every page of the console rendered with sample data; the storefront's tests check them together with its own.
#[cfg(test)]
mod samples {
    use super::*;
    use crate::i18n::language::Lang;

    pub(crate) fn sample_context(lang: Lang) -> ConsoleContext {
        ConsoleContext::sample(lang)
    }

    fn rendered(page: &impl Template) -> String {
        page.render().unwrap()
    }

    /// Name and HTML of each page.
    pub(crate) fn samples(ctx: &ConsoleContext) -> Vec<(String, String)> {
        let problem = Problem::new(
            axum::http::StatusCode::CONFLICT,
            ProblemCode::WrongState,
            "<script>alert(1)</script>",
        );
        let ctx = || ctx.clone();
        let mut pages = vec![
            ("error", rendered(&ErrorPage::of(ctx(), &problem))),
            ("sign-in", rendered(&sign_in::sample(ctx(), false))),
            ("sign-in by key", rendered(&sign_in::sample(ctx(), true))),
            ("orders", rendered(&orders::OrdersPage::sample(ctx()))),
            ("order", rendered(&orders::show::OrderPage::sample(ctx()))),
            ("deliveries", rendered(&deliveries::DeliveriesPage::sample(ctx()))),
            ("delivery", rendered(&deliveries::show::DeliveryPage::sample(ctx()))),
            ("webhooks", rendered(&webhooks::WebhooksPage::sample(ctx()))),
            ("webhook", rendered(&webhooks::show::WebhookPage::sample(ctx()))),
            ("reconciliation", rendered(&reconciliation::ReconciliationPage::sample(ctx()))),
            ("audit log", rendered(&audit_log::AuditLogPage::sample(ctx()))),
            ("nodes", rendered(&nodes::NodesPage::sample(ctx()))),
            ("people", rendered(&people::PeoplePage::sample(ctx()))),
            ("person", rendered(&people::PersonPage::sample(ctx()))),
            ("account", rendered(&account::AccountPage::sample(ctx()))),
            ("second factor", rendered(&account::second_factor::SecondFactorPage::sample(ctx()))),
            ("secret", rendered(&secret::SecretPage::sample(ctx()))),
        ];
        pages.extend(campaigns::samples(&ctx()));
        pages.into_iter().map(|(name, page)| (format!("console {name}"), page)).collect()
    }
}
