//! Sign-in and sign-up with a phone number and a password or one-time code. Works without JavaScript.

use askama::Template;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use tidegate_app::accounts::{Purpose, SignedIn};
use tidegate_core::ProblemCode;
use tidegate_http::Site;
use tidegate_http::browser::{cookie, session_token};
use tidegate_http::input::{Address, StrictQuery};
use tidegate_http::inputs::Checks;
use tidegate_http::problem::Problem;

use super::{PageContext, Visitor};
use crate::forms::Form;
use crate::i18n::phrases::Phrase;
use crate::i18n::phrases::shop::ShopPhrases;
use crate::page::{PageError, html, redirect, render};

#[derive(Template)]
#[template(path = "sign_in.html")]
pub(crate) struct SignInPage {
    pub(crate) page: PageContext,
    pub(crate) mode: &'static str,
    /// Path to return to after signing in.
    pub(crate) next: String,
    pub(crate) phone: String,
    pub(crate) name: String,
    pub(crate) error: Option<Phrase>,
    pub(crate) code_sent: bool,
    /// The one-time code, on servers that reveal codes.
    pub(crate) code: Option<String>,
    /// The browser did not keep the cookie.
    pub(crate) no_cookie: bool,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(crate) struct SignInQuery {
    mode: String,
    next: String,
    kept: bool,
}

/// Mode of the page: `password`, `code`, or `new` for sign-up.
fn parse_mode(text: &str) -> &'static str {
    match text {
        "code" => "code",
        "new" => "new",
        _ => "password",
    }
}

/// The path to return to; `/` unless it is a path on this site.
pub(crate) fn safe_next(text: &str) -> String {
    // An allowlist: browsers interpret some unusual characters in paths as another site.
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.~".contains(&byte);
    let is_local = text.starts_with('/') && !text.starts_with("//") && text.bytes().all(is_plain);
    if is_local { text.to_owned() } else { "/".into() }
}

impl SignInPage {
    fn blank(page: PageContext, mode: &'static str, next: &str) -> Self {
        let next = safe_next(next);
        let (phone, name) = (String::new(), String::new());
        Self { page, mode, next, phone, name, error: None, code_sent: false, code: None, no_cookie: false }
    }
}

pub(crate) async fn show(visitor: Visitor, StrictQuery(query): StrictQuery<SignInQuery>) -> Response {
    if visitor.user.is_some() {
        return redirect(&safe_next(&query.next));
    }
    let mut page = SignInPage::blank(visitor.page, parse_mode(&query.mode), &query.next);
    page.no_cookie = query.kept;
    render(&page)
}

/// Handles both buttons of the form: send a code, and sign in.
pub(crate) async fn submit(
    State(site): State<Site>,
    visitor: Visitor,
    Address(address): Address,
    form: Form,
) -> Result<Response, PageError> {
    let mut page = SignInPage::blank(visitor.page, parse_mode(form.text("mode")), form.text("next"));
    form.text("phone").clone_into(&mut page.phone);
    form.text("name").clone_into(&mut page.name);
    let outcome = if form.text("do") == "code" {
        send_code(&site, &mut page, &address.to_string()).await.map(|()| None)
    } else {
        enter(&site, &page, &form).await.map(Some)
    };
    match outcome {
        Ok(Some(signed_in)) => {
            // The sign-in page redirects on if the browser kept the cookie, and explains it otherwise.
            let next = format!("/sign-in?kept=true&next={}", page.next);
            let kept = [(header::SET_COOKIE, cookie(Some(&signed_in.token)))];
            Ok((kept, redirect(&next)).into_response())
        }
        Ok(None) => Ok(render(&page)),
        Err(problem) => {
            page.code_sent = form.is_checked("code") || problem.code() == ProblemCode::RateLimited;
            page.error = Some(error_message(page.page.t, page.mode, &problem));
            Ok(html(StatusCode::UNPROCESSABLE_ENTITY, &page))
        }
    }
}

async fn send_code(site: &Site, page: &mut SignInPage, address: &str) -> Result<(), Problem> {
    let mut checks = Checks::default();
    let phone = checks.phone("phone", &page.phone);
    let (phone, address, app) = (checks.finish(phone)?, address.to_owned(), site.app.clone());
    let purpose = if page.mode == "new" { Purpose::Register } else { Purpose::Login };
    let promise = site
        .run_to_completion(async move { app.accounts.send_code(&phone, Some(purpose), &address).await })
        .await?;
    (page.code_sent, page.code) = (true, promise.code);
    Ok(())
}

async fn enter(site: &Site, page: &SignInPage, form: &Form) -> Result<SignedIn, Problem> {
    let mut checks = Checks::default();
    let phone = checks.phone("phone", &page.phone);
    let (code, password, name) =
        (form.text("code").to_owned(), form.raw("password").to_owned(), page.name.clone());
    match page.mode {
        "new" => {
            checks.text("name", &name, 1, 50);
            checks.secret("password", &password, 8, 128);
        }
        "code" => {}
        _ => checks.secret("password", &password, 1, 128),
    }
    let (phone, app, mode) = (checks.finish(phone)?, site.app.clone(), page.mode);
    site.run_to_completion(async move {
        match mode {
            "new" => app.accounts.register(phone, &code, name, password).await,
            "code" => app.accounts.login_by_code(&phone, &code).await,
            _ => app.accounts.login_by_password(&phone, password).await,
        }
    })
    .await
}

/// A message for the first invalid field, or for the problem.
fn error_message(t: &ShopPhrases, mode: &str, problem: &Problem) -> Phrase {
    let errors = problem.errors();
    match problem.code() {
        _ if errors.contains_key("phone") => t.bad_phone,
        _ if errors.contains_key("name") => t.bad_name,
        _ if errors.contains_key("password") => t.bad_password,
        ProblemCode::CodeInvalid => t.bad_code,
        ProblemCode::LoginFailed if mode == "code" => t.bad_code,
        ProblemCode::LoginFailed => t.bad_login,
        ProblemCode::PhoneTaken => t.phone_taken,
        ProblemCode::RateLimited => t.code_too_soon,
        _ => t.busy_text,
    }
}

pub(crate) async fn sign_out(
    State(site): State<Site>,
    headers: HeaderMap,
    _: Form,
) -> Result<Response, PageError> {
    if let Some(token) = session_token(&headers) {
        let (app, token) = (site.app.clone(), token.to_owned());
        site.run_to_completion(async move { app.accounts.logout(&token).await }).await?;
    }
    Ok(([(header::SET_COOKIE, cookie(None))], redirect("/")).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sign_in_never_redirects_to_another_site() {
        assert_eq!(safe_next("/sales/abc"), "/sales/abc");
        for elsewhere in [
            "https://evil.example",
            "//evil.example",
            "/\\evil.example",
            "",
            "/a\r\nSet-Cookie: x",
            "/\t/evil.example",
        ] {
            assert_eq!(safe_next(elsewhere), "/", "{elsewhere}");
        }
    }
}
