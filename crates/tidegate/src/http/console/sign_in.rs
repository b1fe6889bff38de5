//! Signing in to the console: an account with its second factor, or the admin key.

use askama::Template;
use axum::extract::State;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::super::Site;
use super::super::browser::{console_cookie, console_token};
use super::super::input::{Address, Asked};
use super::super::limits::bucket_of;
use super::super::pages::forms::Form;
use super::super::pages::phrases::Phrase;
use super::super::pages::{Trouble, html, see};
use super::super::problem::Problem;
use super::{Desk, shown};
use crate::ops::operators::SignIn;

#[derive(Template)]
#[template(path = "console/sign_in.html")]
pub(super) struct SignInPage {
    desk: Desk,
    by_key: bool,
    name: String,
    /// The account has a second factor, and its code was missing.
    wants_code: bool,
    wrong: Option<Phrase>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct SignInQuery {
    by: String,
    kept: bool,
}

pub(super) async fn show(
    State(site): State<Site>,
    Asked(query): Asked<SignInQuery>,
    parts: Parts,
) -> Response {
    if let Some(token) = console_token(&parts.headers)
        && site.app.console(token).await.is_ok()
    {
        return see("/console");
    }
    let desk = Desk::of(&parts, None);
    let wrong = query.kept.then_some(desk.c.no_cookie);
    shown(&SignInPage { desk, by_key: query.by == "key", name: String::new(), wants_code: false, wrong })
}

pub(super) async fn submit(
    State(site): State<Site>,
    Address(address): Address,
    parts: Parts,
    form: Form,
) -> Result<Response, Trouble> {
    let desk = Desk::of(&parts, None);
    let (app, by_key) = (site.app.clone(), form.text("by") == "key");
    let given = form.clone();
    let (place, before) = (bucket_of(address).to_string(), console_token(&parts.headers).map(str::to_owned));
    let outcome = site
        .carry_out(async move {
            if by_key {
                return app.sign_in_with_key(given.text("key"), before.as_deref()).await;
            }
            let (name, password) = (given.text("name").to_owned(), given.raw("password").to_owned());
            let code = given.given("code").map(str::to_owned);
            app.sign_in_operator(SignIn { name, password, code, place, before }).await
        })
        .await;
    match outcome {
        Ok(session) => {
            let kept = [(header::SET_COOKIE, console_cookie(Some(&session.token)))];
            // Should the browser not keep the cookie, that page says why.
            Ok((kept, see("/console/sign-in?kept=true")).into_response())
        }
        Err(problem) => {
            let wrong = Some(wrong(&desk, by_key, &problem));
            let (name, wants_code) = (form.text("name").to_owned(), problem.code() == "code_required");
            let page = SignInPage { desk, by_key, name, wants_code, wrong };
            Ok(html(StatusCode::UNPROCESSABLE_ENTITY, &page))
        }
    }
}

fn wrong(desk: &Desk, by_key: bool, problem: &Problem) -> Phrase {
    match problem.code() {
        "rate_limited" => desk.c.slower,
        "code_required" => desk.c.code_needed,
        _ if by_key => desk.c.wrong_key,
        _ => desk.c.wrong_login,
    }
}

pub(super) async fn sign_out(
    State(site): State<Site>,
    headers: HeaderMap,
    _: Form,
) -> Result<Response, Trouble> {
    if let Some(token) = console_token(&headers) {
        let (app, token) = (site.app.clone(), token.to_owned());
        site.carry_out(async move { app.sign_out_operator(&token).await }).await?;
    }
    Ok(([(header::SET_COOKIE, console_cookie(None))], see("/console/sign-in")).into_response())
}

#[cfg(test)]
pub(super) fn sample(desk: Desk, by_key: bool) -> SignInPage {
    let wrong = Some(desk.c.wrong_login);
    SignInPage { desk, by_key, name: "<script>alert(1)</script>".into(), wants_code: true, wrong }
}
