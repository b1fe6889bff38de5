//! Creating and revoking API keys. The people page lists them.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{get, post};
use tidegate_core::{ApiKeyId, Role};
use tidegate_http::Site;

use super::people::role_from;
use super::secret::SecretPage;
use crate::console::listing::PathId;
use crate::console::{OperatorSession, redirect_with_notice};
use crate::forms::Form;
use crate::page::{PageError, html, redirect};

pub(super) fn routes() -> Router<Site> {
    // Changing the language on the page that shows a new key leads to this GET: the key is not shown again.
    let to_people = async || redirect("/console/people");
    Router::new()
        .route("/console/keys", get(to_people).post(create))
        .route("/console/keys/{id}/revoke", post(revoke))
}

pub(crate) async fn create(
    State(site): State<Site>,
    session: OperatorSession,
    form: Form,
) -> Result<Response, PageError> {
    session.operator.may(Role::Admin)?;
    let (app, by) = (site.app.clone(), session.operator);
    let made = site.run_to_completion(async move {
        app.operators.create_api_key(&by, form.text("name").to_owned(), role_from(&form)?, None).await
    });
    match made.await {
        Ok((key, Some(secret))) => {
            Ok(html(StatusCode::CREATED, &SecretPage::for_api_key(session.ctx, key.name, secret)))
        }
        // Only a repeated request with an idempotency key has no secret; a form sends no such key.
        Ok((_, None)) => redirect_with_notice("/console/people", Ok(())),
        Err(problem) => redirect_with_notice::<()>("/console/people", Err(problem)),
    }
}

pub(crate) async fn revoke(
    State(site): State<Site>,
    session: OperatorSession,
    PathId(id): PathId<ApiKeyId>,
    _: Form,
) -> Result<Response, PageError> {
    session.operator.may(Role::Admin)?;
    let (app, by) = (site.app.clone(), session.operator);
    let done = site.run_to_completion(async move { app.operators.revoke_api_key(&by, id).await });
    redirect_with_notice("/console/people", done.await)
}
