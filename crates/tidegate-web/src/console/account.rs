//! An operator's own account: name, role, password, second factor.

pub(super) mod second_factor;

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::{get, post};
use tidegate_http::Site;

use self::second_factor::{own_name, proof_from};
use crate::console::{ConsoleContext, OperatorSession, redirect_with_notice};
use crate::format::Timestamp;
use crate::forms::Form;
use crate::i18n::phrases::account::AccountPhrases;
use crate::page::{PageError, redirect, render};

pub(super) fn routes() -> Router<Site> {
    // Changing the language on a page of the set-up leads to these GETs: the secret is not shown again.
    let to_account = async || redirect("/console/account");
    Router::new()
        .route("/console/account", get(show))
        .route("/console/account/password", post(password))
        .route("/console/account/second-factor", get(to_account).post(second_factor::begin))
        .route("/console/account/second-factor/confirm", get(to_account).post(second_factor::confirm))
        .route("/console/account/second-factor/remove", post(second_factor::remove))
}

#[derive(Template)]
#[template(path = "console/account.html")]
pub(crate) struct AccountPage {
    ctx: ConsoleContext,
    t: &'static AccountPhrases,
    /// `None` for the admin key, which has no account.
    account: Option<Account>,
}

#[derive(Debug)]
struct Account {
    second_factor: bool,
    created: Timestamp,
}

pub(crate) async fn show(State(site): State<Site>, session: OperatorSession) -> Result<Response, PageError> {
    let account = match &session.operator.name {
        Some(name) => {
            let account = site.app.operators.account(name).await?;
            Some(Account { second_factor: account.totp.is_some(), created: Timestamp(account.created_at) })
        }
        None => None,
    };
    Ok(render(&AccountPage { t: AccountPhrases::of(session.ctx.lang), ctx: session.ctx, account }))
}

/// Ends all sessions of the account, this one included, so the next page is the sign-in page.
pub(crate) async fn password(
    State(site): State<Site>,
    session: OperatorSession,
    form: Form,
) -> Result<Response, PageError> {
    let (app, name) = (site.app.clone(), own_name(&session.operator)?);
    let (by, proof, new) = (session.operator, proof_from(&form), form.raw("password").to_owned());
    let done =
        site.run_to_completion(async move { app.operators.set_password(&by, &name, new, proof).await });
    redirect_with_notice("/console/account", done.await)
}

#[cfg(test)]
impl AccountPage {
    pub(crate) fn sample(ctx: ConsoleContext) -> Self {
        let created = Timestamp(tidegate_core::Moment::from_millis(1_777_629_600_000));
        Self { t: AccountPhrases::of(ctx.lang), ctx, account: Some(Account { second_factor: true, created }) }
    }
}
