//! My account: who I am, my password, my second factor.

use askama::Template;
use axum::extract::State;
use axum::response::Response;

use super::phrases;
use super::second_factor::{current, own_name};
use crate::http::Site;
use crate::http::console::{AtDesk, Desk, answered, shown};
use crate::http::pages::Trouble;
use crate::http::pages::format::When;
use crate::http::pages::forms::Form;
use crate::http::pages::phrases::office::Office;

#[derive(Template)]
#[template(path = "console/account.html")]
pub(super) struct AccountPage {
    desk: Desk,
    o: &'static Office,
    /// Nobody's, where the admin key has signed in.
    mine: Option<Mine>,
}

#[derive(Debug)]
struct Mine {
    second_factor: bool,
    created: When,
}

pub(super) async fn show(State(site): State<Site>, at: AtDesk) -> Result<Response, Trouble> {
    let mine = match &at.who.name {
        Some(name) => {
            let account = site.app.operator_account(name).await?;
            Some(Mine { second_factor: account.totp.is_some(), created: When(account.created_at) })
        }
        None => None,
    };
    Ok(shown(&AccountPage { o: phrases(&at.desk), desk: at.desk, mine }))
}

/// Ends all sessions, this one too: the next page is the one to sign in.
pub(super) async fn password(State(site): State<Site>, at: AtDesk, form: Form) -> Result<Response, Trouble> {
    let (app, name) = (site.app.clone(), own_name(&at.who)?);
    let (by, shown, new) = (at.who, current(&form), form.raw("password").to_owned());
    let done = site.carry_out(async move { app.set_password(&by, &name, new, shown).await });
    answered("/console/account", done.await)
}

#[cfg(test)]
impl AccountPage {
    pub(super) fn sample(desk: Desk) -> Self {
        let created = When(tidegate_core::Moment::from_millis(1_777_629_600_000));
        Self { o: phrases(&desk), desk, mine: Some(Mine { second_factor: true, created }) }
    }
}
