//! Console sign-in: an account with its second factor, or the admin key.

use askama::Template;
use axum::extract::State;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use tidegate_app::operators::SignIn;
use tidegate_core::ProblemCode;
use tidegate_http::Site;
use tidegate_http::browser::{console_cookie, console_token};
use tidegate_http::input::{Address, StrictQuery};
use tidegate_http::limits::bucket_of;
use tidegate_http::problem::Problem;

use super::ConsoleContext;
use crate::forms::Form;
use crate::i18n::phrases::Phrase;
use crate::page::{PageError, html, redirect, render};

#[derive(Template)]
#[template(path = "console/sign_in.html")]
pub(crate) struct SignInPage {
    ctx: ConsoleContext,
    by_key: bool,
    name: String,
    /// The account has a second factor and the code was missing.
    code_required: bool,
    error: Option<Phrase>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(crate) struct SignInQuery {
    by: String,
    kept: bool,
}

pub(crate) async fn show(
    State(site): State<Site>,
    StrictQuery(query): StrictQuery<SignInQuery>,
    parts: Parts,
) -> Response {
    if let Some(token) = console_token(&parts.headers)
        && site.app.operators.console_operator(token).await.is_ok()
    {
        return redirect("/console");
    }
    let ctx = ConsoleContext::of(&parts, None);
    let error = query.kept.then_some(ctx.t.no_cookie);
    render(&SignInPage { ctx, by_key: query.by == "key", name: String::new(), code_required: false, error })
}

pub(crate) async fn submit(
    State(site): State<Site>,
    Address(address): Address,
    parts: Parts,
    form: Form,
) -> Result<Response, PageError> {
    let ctx = ConsoleContext::of(&parts, None);
    let (app, by_key) = (site.app.clone(), form.text("by") == "key");
    let given = form.clone();
    let (address_key, replaced_token) =
        (bucket_of(address).to_string(), console_token(&parts.headers).map(str::to_owned));
    let outcome = site
        .run_to_completion(async move {
            if by_key {
                return app.operators.sign_in_with_key(given.text("key"), replaced_token.as_deref()).await;
            }
            let (name, password) = (given.text("name").to_owned(), given.raw("password").to_owned());
            let code = given.given("code").map(str::to_owned);
            app.operators.sign_in(SignIn { name, password, code, address_key, replaced_token }).await
        })
        .await;
    match outcome {
        Ok(session) => {
            let kept = [(header::SET_COOKIE, console_cookie(Some(&session.token)))];
            // The sign-in page redirects to the console if the browser kept the cookie, and explains it otherwise.
            Ok((kept, redirect("/console/sign-in?kept=true")).into_response())
        }
        Err(problem) => {
            let error = Some(error_message(&ctx, by_key, &problem));
            let (name, code_required) =
                (form.text("name").to_owned(), problem.code() == ProblemCode::CodeRequired);
            let page = SignInPage { ctx, by_key, name, code_required, error };
            Ok(html(StatusCode::UNPROCESSABLE_ENTITY, &page))
        }
    }
}

fn error_message(ctx: &ConsoleContext, by_key: bool, problem: &Problem) -> Phrase {
    match problem.code() {
        ProblemCode::RateLimited => ctx.t.rate_limited,
        ProblemCode::CodeRequired => ctx.t.code_needed,
        _ if by_key => ctx.t.wrong_key,
        _ => ctx.t.wrong_login,
    }
}

pub(crate) async fn sign_out(
    State(site): State<Site>,
    headers: HeaderMap,
    _: Form,
) -> Result<Response, PageError> {
    if let Some(token) = console_token(&headers) {
        let (app, token) = (site.app.clone(), token.to_owned());
        site.run_to_completion(async move { app.operators.sign_out(&token).await }).await?;
    }
    Ok(([(header::SET_COOKIE, console_cookie(None))], redirect("/console/sign-in")).into_response())
}

#[cfg(test)]
pub(crate) fn sample(ctx: ConsoleContext, by_key: bool) -> SignInPage {
    let error = Some(ctx.t.wrong_login);
    SignInPage { ctx, by_key, name: "<script>alert(1)</script>".into(), code_required: true, error }
}
