//! Building blocks of every page: rendering, redirects, errors as pages, the language cookie.
//!
//! Handlers return `PageError`; `error_page` turns it into HTML at the outermost layer, where the visitor's language
//! is known.

use askama::Template;
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Redirect, Response};
use tidegate_core::ProblemCode;
use tidegate_http::problem::Problem;

use crate::i18n::language::Lang;
use crate::{console, shop};

pub(crate) fn html(status: StatusCode, page: &impl Template) -> Response {
    match page.render() {
        Ok(text) => (status, Html(text)).into_response(),
        Err(error) => {
            tracing::error!(%error, "page template failed to render");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

pub(crate) fn render(page: &impl Template) -> Response {
    html(StatusCode::OK, page)
}

/// Answers a form with a redirect to the page that shows the result, so that a reload does not send the form again.
pub(crate) fn redirect(path: &str) -> Response {
    Redirect::to(path).into_response()
}

/// An error that `error_page` shows as a page.
#[derive(Clone, Debug)]
pub(crate) struct PageError(pub(crate) Problem);

impl<E: Into<Problem>> From<E> for PageError {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for PageError {
    fn into_response(self) -> Response {
        let mut response = self.0.clone().into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// Stores a language chosen by `?lang=` in a cookie and keeps pages out of shared caches: they are personal.
pub(crate) async fn remember_language(request: Request, next: Next) -> Response {
    let chosen = Lang::from_query(request.uri().query());
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    if let Some(lang) = chosen {
        headers.append(header::SET_COOKIE, lang.cookie());
    }
    response
}

/// Replaces a problem response by a page in the visitor's language. Other responses pass through.
pub fn error_page(parts: &Parts, mut response: Response) -> Response {
    match problem_of(&mut response) {
        Some(problem) if parts.uri.path().starts_with("/console") => console::error_response(parts, &problem),
        Some(problem) => shop::error_response(parts, &problem),
        None => response,
    }
}

/// The problem behind a response: a page's own, or one reconstructed from the status of a problem document.
fn problem_of(response: &mut Response) -> Option<Problem> {
    if let Some(PageError(problem)) = response.extensions_mut().remove::<PageError>() {
        return Some(problem);
    }
    let content_type = response.headers().get(header::CONTENT_TYPE)?;
    let code = match response.status() {
        StatusCode::NOT_FOUND => ProblemCode::NotFound,
        StatusCode::TOO_MANY_REQUESTS => ProblemCode::RateLimited,
        StatusCode::SERVICE_UNAVAILABLE => ProblemCode::Busy,
        _ => ProblemCode::MalformedBody,
    };
    let detail = "The address or the form is invalid.";
    (content_type == "application/problem+json").then(|| Problem::new(response.status(), code, detail))
}
