//! The storefront: pages of buyers and players.
//!
//! Invariant: every page works without JavaScript; scripts add live updates and retries.

mod draw;
mod home;
mod messages;
mod orders;
mod plays;
mod reminder;
mod sale;
mod sale_forms;
mod sale_views;
mod sign_in;
mod verify;
mod wheel;

use askama::Template;
use axum::Router;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, header};
use axum::middleware;
use axum::response::Response;
use axum::routing::{get, post};
use tidegate_app::Refusal;
use tidegate_core::{ProblemCode, Rejection, UserId};
use tidegate_http::Site;
use tidegate_http::browser::session_token;
use tidegate_http::problem::Problem;

use crate::assets;
use crate::i18n::language::{Lang, query_without_notices};
use crate::i18n::phrases::Phrase;
use crate::i18n::phrases::shop::ShopPhrases;
use crate::page::{PageError, html, redirect, remember_language};

pub(crate) fn routes() -> Router<Site> {
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
        .layer(middleware::from_fn(remember_language))
        .route("/assets/{version}/{name}", get(assets::asset))
}

/// Context of a storefront page; the field `page` of every template.
#[derive(Clone, Debug)]
pub(crate) struct PageContext {
    pub(crate) lang: Lang,
    t: &'static ShopPhrases,
    path: String,
    /// The query without language and notices.
    query: String,
    signed_in: bool,
    /// The server's time, for countdowns; 0 where nothing counts down.
    now_ms: i64,
}

impl PageContext {
    fn of(parts: &Parts, signed_in: bool, now_ms: i64) -> Self {
        let lang = Lang::of(parts.uri.query(), &parts.headers);
        let (path, query) = (parts.uri.path().to_owned(), query_without_notices(parts.uri.query()));
        Self { lang, t: ShopPhrases::of(lang), path, query, signed_in, now_ms }
    }

    /// Link to this page in the other language.
    fn translated(&self) -> String {
        format!("?{}lang={}", self.query, self.lang.other().code())
    }

    #[expect(clippy::unused_self, reason = "templates call it on the context")]
    pub(crate) fn asset(&self, name: &str) -> String {
        assets::url(name)
    }

    /// The sign-in page, which returns to this page.
    fn sign_in_path(&self) -> String {
        if self.is_current("/sign-in") { "/sign-in".into() } else { format!("/sign-in?next={}", self.path) }
    }

    /// Whether the navigation entry with this path is the current one.
    fn is_current(&self, path: &str) -> bool {
        self.path == path || (path.len() > 1 && self.path.starts_with(path))
    }
}

/// Extractor: the visitor of a page, signed in or not.
#[derive(Clone, Debug)]
struct Visitor {
    page: PageContext,
    user: Option<UserId>,
}

impl Visitor {
    /// For pages that require a signed-in buyer.
    fn require_user(self) -> Result<(PageContext, UserId), PageError> {
        let user = self.user.ok_or(Rejection::Unauthenticated)?;
        Ok((self.page, user))
    }
}

impl FromRequestParts<Site> for Visitor {
    type Rejection = PageError;

    async fn from_request_parts(parts: &mut Parts, site: &Site) -> Result<Self, PageError> {
        let user = match session_token(&parts.headers) {
            Some(token) => match site.app.accounts.buyer(Some(token)).await {
                Ok(user) => Some(user),
                Err(Refusal::Rejected(Rejection::Unauthenticated)) => None,
                // A failed lookup must not look like being signed out.
                Err(error) => return Err(error.into()),
            },
            None => None,
        };
        Ok(Self { page: PageContext::of(parts, user.is_some(), site.app.now().millis()), user })
    }
}

#[derive(Template)]
#[template(path = "error.html")]
struct ErrorPage {
    page: PageContext,
    title: Phrase,
    text: Phrase,
    /// Path of the "Try again" link, for errors that may pass.
    retry_path: Option<String>,
}

impl ErrorPage {
    fn of(page: PageContext, code: ProblemCode) -> Self {
        let t = page.t;
        let (title, text, may_pass) = match code {
            ProblemCode::NotFound => (t.not_found_title, t.not_found_text, false),
            ProblemCode::RateLimited => (t.rate_limited_title, t.rate_limited_text, true),
            ProblemCode::Busy | ProblemCode::NotReady | ProblemCode::OutcomeUnknown => {
                (t.busy_title, t.busy_text, true)
            }
            ProblemCode::Csrf => (t.csrf_title, t.csrf_text, false),
            _ => (t.error_title, t.error_text, true),
        };
        // A path such as `//evil.example` would lead to another site.
        let retry_path = may_pass.then(|| sign_in::safe_next(&page.path));
        Self { page, title, text, retry_path }
    }
}

/// The page of a form: the path it was sent to without its last part.
fn form_page(parts: &Parts) -> &str {
    let path = parts.uri.path();
    match path.rsplit_once('/') {
        Some((page, _)) if parts.method != Method::GET && page.len() > 1 => page,
        _ => path,
    }
}

pub(crate) fn error_response(parts: &Parts, problem: &Problem) -> Response {
    let path = form_page(parts);
    if problem.code() == ProblemCode::Unauthenticated {
        return redirect(&format!("/sign-in?next={path}"));
    }
    let page = PageContext {
        path: path.to_owned(),
        ..PageContext::of(parts, session_token(&parts.headers).is_some(), 0)
    };
    let mut response = html(problem.status(), &ErrorPage::of(page, problem.code()));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(wait) = problem.retry_after() {
        response.headers_mut().insert(header::RETRY_AFTER, wait.into());
    }
    response
}

#[cfg(test)]
mod samples;
