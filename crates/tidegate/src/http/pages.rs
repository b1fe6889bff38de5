//! The pages people see, rendered here.
//!
//! What always holds: what is essential works without a script; every phrase is there in both languages; a page changes
//! something only by a form, or a call of the API, that comes from a page of ours.

pub(super) mod assets;
mod draw;
pub(super) mod format;
pub(super) mod forms;
mod home;
pub(super) mod language;
mod orders;
pub(super) mod phrases;
mod plays;
mod sale;
mod sale_views;
mod sign_in;
mod verify;
mod wheel;

use std::convert::Infallible;

use askama::Template;
use axum::Router;
use axum::extract::{FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use tidegate_core::{Rejection, UserId};

use self::language::Lang;
use self::phrases::shop::Shop;
use super::Site;
use super::browser::session_token;
use super::problem::Problem;

pub(super) fn routes() -> Router<Site> {
    Router::new()
        .route("/", get(home::home))
        .route("/sales/{id}", get(sale::show))
        .route("/sales/{id}/buy", post(sale::buy))
        .route("/sales/{id}/queue", post(sale::join))
        .route("/sales/{id}/reminder.ics", get(sale::reminder))
        .route("/orders", get(orders::list))
        .route("/orders/{id}", get(orders::show))
        .route("/orders/{id}/pay", post(orders::pay))
        .route("/orders/{id}/cancel", post(orders::cancel))
        .route("/draws/{id}", get(draw::show))
        .route("/draws/{id}/play", post(draw::play))
        .route("/plays", get(plays::list))
        .route("/plays/{id}", get(plays::show).post(plays::address))
        .route("/sign-in", get(sign_in::show).post(sign_in::submit))
        .route("/sign-out", post(sign_in::sign_out))
        .route("/verify", get(verify::show))
        .layer(middleware::from_fn(around))
        .route("/assets/{version}/{name}", get(assets::asset))
}

/// What every page knows.
#[derive(Clone, Debug)]
pub(super) struct Page {
    pub(super) lang: Lang,
    w: &'static Shop,
    path: String,
    signed_in: bool,
}

impl Page {
    fn of(parts: &Parts, signed_in: bool) -> Self {
        let lang = Lang::of(parts.uri.query(), &parts.headers);
        Self { lang, w: Shop::of(lang), path: parts.uri.path().to_owned(), signed_in }
    }

    /// Where one of our files is.
    pub(super) fn asset(&self, name: &str) -> String {
        assets::address(name)
    }

    /// Whether this is that part of the site.
    fn at(&self, path: &str) -> bool {
        self.path == path || (path.len() > 1 && self.path.starts_with(path))
    }
}

/// Somebody looking at a page, signed in or not.
#[derive(Clone, Debug)]
struct Visit {
    page: Page,
    user: Option<UserId>,
}

impl Visit {
    /// For pages of one's own.
    fn own(self) -> Result<(Page, UserId), Trouble> {
        let user = self.user.ok_or(Rejection::Unauthenticated)?;
        Ok((self.page, user))
    }
}

impl FromRequestParts<Site> for Visit {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, site: &Site) -> Result<Self, Infallible> {
        let user = match session_token(&parts.headers) {
            Some(token) => site.app.buyer(Some(token)).await.ok(),
            None => None,
        };
        Ok(Self { page: Page::of(parts, user.is_some()), user })
    }
}

/// Renders a page.
pub(super) fn html(status: StatusCode, page: &impl Template) -> Response {
    match page.render() {
        Ok(text) => (status, Html(text)).into_response(),
        Err(error) => {
            tracing::error!(%error, "a page could not be rendered");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

fn shown(page: &impl Template) -> Response {
    html(StatusCode::OK, page)
}

/// After a change: the browser gets the page that shows it, so that a reload changes nothing.
pub(super) fn see(path: &str) -> Response {
    Redirect::to(path).into_response()
}

/// Why there is no page to show. What it looks like is decided where the visitor's language is known.
#[derive(Clone, Debug)]
pub(super) struct Trouble(pub(super) Problem);

impl<E: Into<Problem>> From<E> for Trouble {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for Trouble {
    fn into_response(self) -> Response {
        let mut response = self.0.clone().into_response();
        response.extensions_mut().insert(self);
        response
    }
}

#[derive(Template)]
#[template(path = "trouble.html")]
struct TroublePage {
    page: Page,
    title: phrases::Phrase,
    text: phrases::Phrase,
    /// It may work in a moment.
    again: bool,
}

impl TroublePage {
    fn of(page: Page, code: &str) -> Self {
        let w = page.w;
        let (title, text, again) = match code {
            "not_found" => (w.lost_title, w.lost_text, false),
            "rate_limited" => (w.slower_title, w.slower_text, true),
            "busy" | "not_ready" | "outcome_unknown" => (w.busy_title, w.busy_text, true),
            "csrf" => (w.foreign_title, w.foreign_text, false),
            _ => (w.trouble_title, w.trouble_text, true),
        };
        Self { page, title, text, again }
    }
}

/// Turns troubles into pages, remembers the chosen language, and keeps pages out of caches: they are somebody's.
async fn around(request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let seen = parts.clone();
    let mut response = next.run(Request::from_parts(parts, body)).await;
    if let Some(problem) = told(&mut response) {
        response = trouble(&seen, &problem);
    }
    let headers = response.headers_mut();
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    if let Some(lang) = Lang::asked(seen.uri.query()) {
        headers.append(header::SET_COOKIE, lang.cookie());
    }
    response
}

/// The problem that an answer tells, if it tells one: a page's own, or one with what was asked for.
pub(super) fn told(response: &mut Response) -> Option<Problem> {
    if let Some(Trouble(problem)) = response.extensions_mut().remove::<Trouble>() {
        return Some(problem);
    }
    let kind = response.headers().get(header::CONTENT_TYPE)?;
    let code = if response.status() == StatusCode::NOT_FOUND { "not_found" } else { "malformed" };
    let detail = "The address or the form is not as it should be.";
    (kind == "application/problem+json").then(|| Problem::new(response.status(), code, detail))
}

fn trouble(parts: &Parts, problem: &Problem) -> Response {
    if problem.code() == Rejection::Unauthenticated.code() {
        let back = if parts.method == Method::GET { parts.uri.path() } else { "/" };
        return see(&format!("/sign-in?next={back}"));
    }
    let page = Page::of(parts, session_token(&parts.headers).is_some());
    let mut response = html(problem.status(), &TroublePage::of(page, problem.code()));
    if let Some(wait) = problem.clone().into_response().headers().get(header::RETRY_AFTER) {
        response.headers_mut().insert(header::RETRY_AFTER, wait.clone());
    }
    response
}

/// An address that names nothing: a page for people, a problem for programs.
pub(super) async fn lost(request: Request) -> Response {
    let problem = Problem::new(StatusCode::NOT_FOUND, "not_found", "There is no such address.");
    let (parts, _) = request.into_parts();
    let accepted =
        parts.headers.get(header::ACCEPT).and_then(|accepted| accepted.to_str().ok()).unwrap_or("");
    if accepted.contains("text/html") && !parts.uri.path().starts_with("/v1/") {
        return trouble(&parts, &problem);
    }
    problem.into_response()
}

#[cfg(test)]
mod samples;
