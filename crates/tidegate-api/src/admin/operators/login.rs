//! Sign-in and sign-out of operators.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use tidegate_app::operators::{ConsoleSession, OperatorIdentity, SignIn};
use tidegate_http::Site;
use tidegate_http::browser::{SESSION_TRANSPORT_HEADER, console_cookie, console_token};
use tidegate_http::input::{Address, AnyOperator, Input, bearer};
use tidegate_http::limits::bucket_of;
use tidegate_http::problem::Problem;
use utoipa::ToSchema;

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OperatingShape {
    /// The operator's name, or `key:` and the name of an API key; null for the admin key.
    name: Option<String>,
    /// `viewer`, `operator` or `admin`.
    role: &'static str,
}

impl From<OperatorIdentity> for OperatingShape {
    fn from(operating: OperatorIdentity) -> Self {
        Self { name: operating.name, role: operating.role.as_str() }
    }
}

#[derive(Serialize, ToSchema)]
pub(crate) struct ConsoleShape {
    /// Bearer token. Absent if it is set as a cookie.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    /// Twelve hours after the last use, but at most seven days after sign-in.
    expires_at: String,
    #[serde(flatten)]
    operating: OperatingShape,
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LoginInput {
    name: String,
    password: String,
    /// TOTP code, if the account has a second factor. If it is missing, the answer is `code_required`.
    code: Option<String>,
}

/// Sign in an operator.
///
/// With the header `Tidegate-Session: cookie`, the token is set as a cookie. An earlier console session whose cookie is
/// sent with the request ends.
#[utoipa::path(post, path = "/v1/admin/login", tag = "operators", request_body = LoginInput,
    responses((status = 200, body = ConsoleShape), (status = 401, body = Problem), (status = 422, body = Problem),
              (status = 429, body = Problem), (status = 503, body = Problem)))]
pub(crate) async fn login(
    State(site): State<Site>,
    Address(address): Address,
    headers: HeaderMap,
    input: Input<LoginInput>,
) -> Result<Response, Problem> {
    let LoginInput { name, password, code } = input.value;
    let (address_key, replaced_token) =
        (bucket_of(address).to_string(), console_token(&headers).map(str::to_owned));
    let (app, given) = (site.app.clone(), SignIn { name, password, code, address_key, replaced_token });
    let sign_in = async move { app.operators.sign_in(given).await };
    let ConsoleSession { token, expires_at, operator } = site.run_to_completion(sign_in).await?;
    let as_cookie = headers.get(SESSION_TRANSPORT_HEADER).is_some_and(|wanted| wanted == "cookie");
    let cookie = as_cookie.then(|| [(header::SET_COOKIE, console_cookie(Some(&token)))]);
    let token = (!as_cookie).then_some(token);
    let shape = ConsoleShape { token, expires_at: expires_at.to_string(), operating: operator.into() };
    Ok(match cookie {
        Some(cookie) => (cookie, Json(shape)).into_response(),
        None => Json(shape).into_response(),
    })
}

/// Sign out an operator.
///
/// The session of the request's token or cookie ends.
#[utoipa::path(post, path = "/v1/admin/logout", tag = "operators", security(("bearer" = [])),
    responses((status = 204), (status = 401, body = Problem)))]
pub(crate) async fn logout(
    State(site): State<Site>,
    _: AnyOperator,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let token = bearer(&headers).or(console_token(&headers)).unwrap_or_default().to_owned();
    let app = site.app.clone();
    site.run_to_completion(async move { app.operators.sign_out(&token).await }).await?;
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, console_cookie(None))]).into_response())
}

/// Get the name and role of the caller.
#[utoipa::path(get, path = "/v1/admin/me", tag = "operators", security(("bearer" = [])),
    responses((status = 200, body = OperatingShape), (status = 401, body = Problem)))]
pub(crate) async fn me(AnyOperator(operating): AnyOperator) -> Json<OperatingShape> {
    Json(operating.into())
}
