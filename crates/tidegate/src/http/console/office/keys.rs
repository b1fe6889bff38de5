//! API keys: made and revoked. The list is on the page of people.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use tidegate_core::{ApiKeyId, Role};

use super::Named;
use super::people::chosen_role;
use super::secret::SecretPage;
use crate::http::Site;
use crate::http::console::{AtDesk, answered};
use crate::http::pages::forms::Form;
use crate::http::pages::{Trouble, html};

pub(super) async fn create(State(site): State<Site>, at: AtDesk, form: Form) -> Result<Response, Trouble> {
    at.who.may(Role::Admin)?;
    let (app, by) = (site.app.clone(), at.who);
    let made = site.carry_out(async move {
        app.create_api_key(&by, form.text("name").to_owned(), chosen_role(&form)?, None).await
    });
    match made.await {
        Ok((key, Some(secret))) => {
            Ok(html(StatusCode::CREATED, &SecretPage::of_key(at.desk, key.name, secret)))
        }
        // Only for a repetition with a key of its own, which a form has not.
        Ok((_, None)) => answered("/console/people", Ok(())),
        Err(problem) => answered::<()>("/console/people", Err(problem)),
    }
}

pub(super) async fn revoke(
    State(site): State<Site>,
    at: AtDesk,
    Named(id): Named<ApiKeyId>,
    _: Form,
) -> Result<Response, Trouble> {
    at.who.may(Role::Admin)?;
    let (app, by) = (site.app.clone(), at.who);
    let done = site.carry_out(async move { app.revoke_api_key(&by, id).await });
    answered("/console/people", done.await)
}
