//! Sign-in and sign-out of buyers.

use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use tidegate_http::Site;
use tidegate_http::browser::cookie;
use tidegate_http::input::{Buyer, Input, token};
use tidegate_http::inputs::Checks;
use tidegate_http::problem::Problem;
use utoipa::ToSchema;

use crate::accounts::json::{SessionShape, session};

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LoginInput {
    phone: String,
    password: Option<String>,
    code: Option<String>,
}

/// Sign in a buyer.
///
/// Send either `password` or `code`, not both.
#[utoipa::path(post, path = "/v1/auth/login", tag = "buyers", request_body = LoginInput,
    responses((status = 200, body = SessionShape), (status = 401, body = Problem), (status = 403, body = Problem),
              (status = 422, body = Problem), (status = 503, body = Problem)))]
pub(crate) async fn login(
    State(site): State<Site>,
    headers: HeaderMap,
    input: Input<LoginInput>,
) -> Result<Response, Problem> {
    let LoginInput { phone, password, code } = input.value;
    let mut checks = Checks::default();
    let phone = checks.phone("phone", &phone);
    if password.is_some() == code.is_some() {
        checks.error("password", "give either a password or a code");
    }
    for (field, secret) in [("password", &password), ("code", &code)] {
        if let Some(secret) = secret {
            checks.secret(field, secret, 1, 128);
        }
    }
    let phone = checks.finish(phone)?;
    let app = site.app.clone();
    let change = async move {
        match (password, code) {
            (Some(password), _) => app.accounts.login_by_password(&phone, password).await,
            (None, code) => app.accounts.login_by_code(&phone, &code.unwrap_or_default()).await,
        }
    };
    let signed_in = site.run_to_completion(change).await?;
    Ok(session(&site, &headers, StatusCode::OK, signed_in))
}

/// Sign out and end the session.
#[utoipa::path(post, path = "/v1/auth/logout", tag = "buyers", security(("bearer" = [])),
    responses((status = 204), (status = 401, body = Problem)))]
pub(crate) async fn logout(
    State(site): State<Site>,
    _: Buyer,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let token = token(&Method::POST, &headers)?.unwrap_or_default().to_owned();
    let app = site.app.clone();
    site.run_to_completion(async move { app.accounts.logout(&token).await }).await?;
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie(None))]).into_response())
}
