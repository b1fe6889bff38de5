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
mod refusals;
mod reminder;
mod sale;
mod sale_forms;
mod sale_views;
mod sign_in;
mod verify;
mod wheel;

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
use super::browser::session_token;
use super::problem::Problem;
use super::{Site, console};
use crate::ops::Refusal;

pub(super) fn routes() -> Router<Site> {
    Router::new()
        .route("/", get(home::home))
        .route("/sales/{id}", get(sale::show))
        .route("/sales/{id}/buy", post(sale_forms::buy))
        .route("/sales/{id}/queue", post(sale_forms::join))
        .route("/sales/{id}/reminder.ics", get(reminder::reminder))
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
        .layer(middleware::from_fn(keep_language))
        .route("/assets/{version}/{name}", get(assets::asset))
}

/// What every page knows.
#[derive(Clone, Debug)]
pub(super) struct Page {
    pub(super) lang: Lang,
    w: &'static Shop,
    path: String,
    /// What stands behind the path, but for the language.
    query: String,
    signed_in: bool,
    /// The server's time, for clocks; 0 where nothing counts down.
    now_ms: i64,
}

impl Page {
    fn of(parts: &Parts, signed_in: bool, now_ms: i64) -> Self {
        let lang = Lang::of(parts.uri.query(), &parts.headers);
        let (path, query) = (parts.uri.path().to_owned(), language::others(parts.uri.query()));
        Self { lang, w: Shop::of(lang), path, query, signed_in, now_ms }
    }

    /// This page in the other language.
    fn translated(&self) -> String {
        format!("?{}lang={}", self.query, self.lang.other().code())
    }

    /// Where one of our files is.
    #[expect(clippy::unused_self, reason = "templates have the page at hand")]
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
    type Rejection = Trouble;

    async fn from_request_parts(parts: &mut Parts, site: &Site) -> Result<Self, Trouble> {
        let user = match session_token(&parts.headers) {
            Some(token) => match site.app.buyer(Some(token)).await {
                Ok(user) => Some(user),
                Err(Refusal::Rejected(Rejection::Unauthenticated)) => None,
                // Whoever cannot be looked up is not signed out.
                Err(trouble) => return Err(trouble.into()),
            },
            None => None,
        };
        Ok(Self { page: Page::of(parts, user.is_some(), site.app.now().millis()), user })
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
    /// Where it may work in a moment.
    again: Option<String>,
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
        // Whatever the address was: one that begins like another site's is not offered as a link.
        let again = again.then(|| sign_in::safe_next(&page.path));
        Self { page, title, text, again }
    }
}

/// Remembers the chosen language, and keeps pages out of caches: they are somebody's.
pub(super) async fn keep_language(request: Request, next: Next) -> Response {
    let chosen = Lang::asked(request.uri().query());
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    if let Some(lang) = chosen {
        headers.append(header::SET_COOKIE, lang.cookie());
    }
    response
}

/// Somebody at a browser, who is to see a page whatever happens: what of the request is needed for it.
pub(super) fn looks_at(request: &Request) -> Option<Parts> {
    let accepted = request.headers().get(header::ACCEPT)?.to_str().ok()?;
    if !accepted.contains("text/html") || request.uri().path().starts_with("/v1/") {
        return None;
    }
    let (mut parts, ()) = axum::http::Request::new(()).into_parts();
    parts.method = request.method().clone();
    parts.uri = request.uri().clone();
    parts.headers = request.headers().clone();
    Some(parts)
}

/// What programs are told as a problem is a page for people.
pub(super) fn in_person(parts: &Parts, mut response: Response) -> Response {
    match told(&mut response) {
        Some(problem) if parts.uri.path().starts_with("/console") => console::trouble(parts, &problem),
        Some(problem) => trouble(parts, &problem),
        None => response,
    }
}

/// The problem that an answer tells, if it tells one: a page's own, or one that is known by its status.
fn told(response: &mut Response) -> Option<Problem> {
    if let Some(Trouble(problem)) = response.extensions_mut().remove::<Trouble>() {
        return Some(problem);
    }
    let kind = response.headers().get(header::CONTENT_TYPE)?;
    let code = match response.status() {
        StatusCode::NOT_FOUND => "not_found",
        StatusCode::TOO_MANY_REQUESTS => "rate_limited",
        StatusCode::SERVICE_UNAVAILABLE => "busy",
        _ => "malformed",
    };
    let detail = "The address or the form is not as it should be.";
    (kind == "application/problem+json").then(|| Problem::new(response.status(), code, detail))
}

/// The page that a form stood on: what it was sent to without its last step.
fn origin(parts: &Parts) -> &str {
    let path = parts.uri.path();
    match path.rsplit_once('/') {
        Some((page, _)) if parts.method != Method::GET && page.len() > 1 => page,
        _ => path,
    }
}

fn trouble(parts: &Parts, problem: &Problem) -> Response {
    let at = origin(parts);
    if problem.code() == Rejection::Unauthenticated.code() {
        return see(&format!("/sign-in?next={at}"));
    }
    let page = Page { path: at.to_owned(), ..Page::of(parts, session_token(&parts.headers).is_some(), 0) };
    let mut response = html(problem.status(), &TroublePage::of(page, problem.code()));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(wait) = problem.retry_after() {
        response.headers_mut().insert(header::RETRY_AFTER, wait.into());
    }
    response
}

#[cfg(test)]
mod samples;
