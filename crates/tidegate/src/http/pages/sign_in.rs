//! Signing in and up: a number and a password, or a number and a one-time code. Works without a script.

use askama::Template;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::super::Site;
use super::super::browser::{cookie, session_token};
use super::super::input::{Address, Asked};
use super::super::problem::Problem;
use super::super::terms::Checks;
use super::forms::Form;
use super::phrases::Phrase;
use super::phrases::shop::Shop;
use super::{Page, Trouble, Visit, html, see, shown};
use crate::ops::accounts::{Purpose, SignedIn};

#[derive(Template)]
#[template(path = "sign_in.html")]
pub(super) struct SignInPage {
    pub(super) page: Page,
    pub(super) mode: &'static str,
    /// Where to go afterwards.
    pub(super) next: String,
    pub(super) phone: String,
    pub(super) name: String,
    pub(super) wrong: Option<Phrase>,
    /// A code is on its way.
    pub(super) sent: bool,
    /// Where the server reveals codes.
    pub(super) code: Option<String>,
    /// The browser did not keep the cookie.
    pub(super) no_cookie: bool,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct SignInQuery {
    mode: String,
    next: String,
    kept: bool,
}

/// Signing in by password, by code, or making an account.
fn known_mode(text: &str) -> &'static str {
    match text {
        "code" => "code",
        "new" => "new",
        _ => "password",
    }
}

/// A path of ours, wherever the address says to go.
pub(super) fn safe_next(text: &str) -> String {
    // What is allowed, not what is forbidden: browsers read some odd addresses as another site's.
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.~".contains(&byte);
    let ours = text.starts_with('/') && !text.starts_with("//") && text.bytes().all(plain);
    if ours { text.to_owned() } else { "/".into() }
}

impl SignInPage {
    fn blank(page: Page, mode: &'static str, next: &str) -> Self {
        let next = safe_next(next);
        let (phone, name) = (String::new(), String::new());
        Self { page, mode, next, phone, name, wrong: None, sent: false, code: None, no_cookie: false }
    }
}

pub(super) async fn show(visit: Visit, Asked(query): Asked<SignInQuery>) -> Response {
    if visit.user.is_some() {
        return see(&safe_next(&query.next));
    }
    let mut page = SignInPage::blank(visit.page, known_mode(&query.mode), &query.next);
    page.no_cookie = query.kept;
    shown(&page)
}

/// Either button of the form: send a code, or sign in.
pub(super) async fn submit(
    State(site): State<Site>,
    visit: Visit,
    Address(address): Address,
    form: Form,
) -> Result<Response, Trouble> {
    let mut page = SignInPage::blank(visit.page, known_mode(form.text("mode")), form.text("next"));
    form.text("phone").clone_into(&mut page.phone);
    form.text("name").clone_into(&mut page.name);
    let outcome = if form.text("do") == "code" {
        send_code(&site, &mut page, &address.to_string()).await.map(|()| None)
    } else {
        enter(&site, &page, &form).await.map(Some)
    };
    match outcome {
        Ok(Some(signed_in)) => {
            // Should the browser not keep the cookie, that page says why.
            let next = format!("/sign-in?kept=true&next={}", page.next);
            let kept = [(header::SET_COOKIE, cookie(Some(&signed_in.token)))];
            Ok((kept, see(&next)).into_response())
        }
        Ok(None) => Ok(shown(&page)),
        Err(problem) => {
            page.sent = form.is_checked("code") || problem.code() == "rate_limited";
            page.wrong = Some(wrong(page.page.w, page.mode, &problem));
            Ok(html(StatusCode::UNPROCESSABLE_ENTITY, &page))
        }
    }
}

async fn send_code(site: &Site, page: &mut SignInPage, address: &str) -> Result<(), Problem> {
    let mut checks = Checks::default();
    let phone = checks.phone("phone", &page.phone);
    let (phone, address, app) = (checks.done(phone)?, address.to_owned(), site.app.clone());
    let purpose = if page.mode == "new" { Purpose::Register } else { Purpose::Login };
    let promise = site.carry_out(async move { app.send_code(&phone, Some(purpose), &address).await }).await?;
    (page.sent, page.code) = (true, promise.code);
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
    let (phone, app, mode) = (checks.done(phone)?, site.app.clone(), page.mode);
    site.carry_out(async move {
        match mode {
            "new" => app.register(phone, &code, name, password).await,
            "code" => app.login_by_code(&phone, &code).await,
            _ => app.login_by_password(&phone, password).await,
        }
    })
    .await
}

/// One sentence about what is wrong, the first thing first.
fn wrong(w: &Shop, mode: &str, problem: &Problem) -> Phrase {
    let errors = problem.errors();
    match problem.code() {
        _ if errors.contains_key("phone") => w.bad_phone,
        _ if errors.contains_key("name") => w.bad_name,
        _ if errors.contains_key("password") => w.bad_password,
        "code_invalid" => w.bad_code,
        "login_failed" if mode == "code" => w.bad_code,
        "login_failed" => w.bad_login,
        "phone_taken" => w.phone_taken,
        "rate_limited" => w.code_too_soon,
        _ => w.busy_text,
    }
}

pub(super) async fn sign_out(
    State(site): State<Site>,
    headers: HeaderMap,
    _: Form,
) -> Result<Response, Trouble> {
    if let Some(token) = session_token(&headers) {
        let (app, token) = (site.app.clone(), token.to_owned());
        site.carry_out(async move { app.logout(&token).await }).await?;
    }
    Ok(([(header::SET_COOKIE, cookie(None))], see("/")).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_sent_to_another_site() {
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
