//! Registration.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde::Deserialize;
use tidegate_http::Site;
use tidegate_http::input::Input;
use tidegate_http::inputs::Checks;
use tidegate_http::problem::Problem;
use utoipa::ToSchema;

use crate::accounts::json::{SessionShape, session};

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RegisterInput {
    phone: String,
    code: String,
    name: String,
    /// 8 to 128 characters.
    password: String,
}

/// Create a buyer account and sign in.
///
/// `code` must be the one-time code that was sent to `phone`.
#[utoipa::path(post, path = "/v1/auth/register", tag = "buyers", request_body = RegisterInput,
    responses((status = 201, body = SessionShape), (status = 403, body = Problem), (status = 409, body = Problem),
              (status = 422, body = Problem), (status = 503, body = Problem)))]
pub(crate) async fn register(
    State(site): State<Site>,
    headers: HeaderMap,
    input: Input<RegisterInput>,
) -> Result<Response, Problem> {
    let RegisterInput { phone, code, name, password } = input.value;
    let mut checks = Checks::default();
    let phone = checks.phone("phone", &phone);
    checks.text("name", name.trim(), 1, 50);
    checks.secret("password", &password, 8, 128);
    checks.secret("code", &code, 1, 16);
    let phone = checks.finish(phone)?;
    let (app, name) = (site.app.clone(), name.trim().to_owned());
    let signed_in = site
        .run_to_completion(async move { app.accounts.register(phone, &code, name, password).await })
        .await?;
    Ok(session(&site, &headers, StatusCode::CREATED, signed_in))
}
