//! Registration, signing in and out.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Site;
use super::browser::{WANTS_COOKIE, cookie};
use super::input::{Address, Buyer, Input, token};
use super::problem::Problem;
use super::terms::Checks;
use crate::ops::accounts::{Purpose, SignedIn};

pub(super) fn routes() -> OpenApiRouter<Site> {
    OpenApiRouter::new()
        .routes(routes!(codes))
        .routes(routes!(register))
        .routes(routes!(login))
        .routes(routes!(logout))
        .routes(routes!(me))
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct CodeInput {
    #[schema(example = "+8613800138000")]
    phone: String,
    /// `register` or `login`; if not said, whichever fits the number.
    purpose: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
struct CodeShape {
    expires_in_s: u64,
    resend_after_s: u64,
    /// Only where the configuration reveals codes, as the demo does.
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<String>,
}

/// Sends a one-time code to a number. Whether the number has an account does not show.
#[utoipa::path(post, path = "/v1/auth/codes", tag = "buyers", request_body = CodeInput,
    responses((status = 202, body = CodeShape), (status = 422, body = Problem), (status = 429, body = Problem)))]
async fn codes(
    State(site): State<Site>,
    Address(address): Address,
    input: Input<CodeInput>,
) -> Result<(StatusCode, Json<CodeShape>), Problem> {
    let mut checks = Checks::default();
    let phone = checks.phone("phone", &input.value.phone);
    let purpose = match input.value.purpose.as_deref() {
        None => None,
        Some("register") => Some(Purpose::Register),
        Some("login") => Some(Purpose::Login),
        Some(_) => {
            checks.wrong("purpose", "must be register or login");
            None
        }
    };
    let phone = checks.done(phone)?;
    let app = site.app.clone();
    let address = address.to_string();
    let sent = site.carry_out(async move { app.send_code(&phone, purpose, &address).await }).await?;
    let shape = CodeShape {
        expires_in_s: sent.expires_in.as_secs(),
        resend_after_s: sent.resend_after.as_secs(),
        code: sent.code,
    };
    Ok((StatusCode::ACCEPTED, Json(shape)))
}

#[derive(Debug, Serialize, ToSchema)]
struct UserShape {
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    phone: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
struct SessionShape {
    /// Not there when the session comes as a cookie.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    /// An hour after it was last used.
    expires_at: String,
    user: UserShape,
}

/// The session in the answer, or as a cookie for a page of ours that asks for it.
fn session(site: &Site, headers: &HeaderMap, status: StatusCode, signed_in: SignedIn) -> Response {
    let SignedIn { token, expires_at, account } = signed_in;
    let user =
        UserShape { id: site.app.print(account.user), phone: Some(account.phone), name: Some(account.name) };
    let as_cookie = headers.get(WANTS_COOKIE).is_some_and(|wanted| wanted == "cookie");
    let set_cookie = as_cookie.then(|| [(header::SET_COOKIE, cookie(Some(&token)))]);
    let token = (!as_cookie).then_some(token);
    let body = Json(SessionShape { token, expires_at: expires_at.to_string(), user });
    match set_cookie {
        Some(set_cookie) => (status, set_cookie, body).into_response(),
        None => (status, body).into_response(),
    }
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct RegisterInput {
    phone: String,
    code: String,
    name: String,
    /// 8 to 128 characters.
    password: String,
}

/// Makes an account for a number that the code proves, and signs in.
#[utoipa::path(post, path = "/v1/auth/register", tag = "buyers", request_body = RegisterInput,
    responses((status = 201, body = SessionShape), (status = 403, body = Problem), (status = 409, body = Problem),
              (status = 422, body = Problem), (status = 503, body = Problem)))]
async fn register(
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
    let phone = checks.done(phone)?;
    let (app, name) = (site.app.clone(), name.trim().to_owned());
    let signed_in = site.carry_out(async move { app.register(phone, &code, name, password).await }).await?;
    Ok(session(&site, &headers, StatusCode::CREATED, signed_in))
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct LoginInput {
    phone: String,
    password: Option<String>,
    code: Option<String>,
}

/// Signs in with a password or a code, one of them.
#[utoipa::path(post, path = "/v1/auth/login", tag = "buyers", request_body = LoginInput,
    responses((status = 200, body = SessionShape), (status = 401, body = Problem), (status = 403, body = Problem),
              (status = 422, body = Problem), (status = 503, body = Problem)))]
async fn login(
    State(site): State<Site>,
    headers: HeaderMap,
    input: Input<LoginInput>,
) -> Result<Response, Problem> {
    let LoginInput { phone, password, code } = input.value;
    let mut checks = Checks::default();
    let phone = checks.phone("phone", &phone);
    if password.is_some() == code.is_some() {
        checks.wrong("password", "give either a password or a code");
    }
    for (field, secret) in [("password", &password), ("code", &code)] {
        if let Some(secret) = secret {
            checks.secret(field, secret, 1, 128);
        }
    }
    let phone = checks.done(phone)?;
    let app = site.app.clone();
    let change = async move {
        match (password, code) {
            (Some(password), _) => app.login_by_password(&phone, password).await,
            (None, code) => app.login_by_code(&phone, &code.unwrap_or_default()).await,
        }
    };
    let signed_in = site.carry_out(change).await?;
    Ok(session(&site, &headers, StatusCode::OK, signed_in))
}

/// Ends the session.
#[utoipa::path(post, path = "/v1/auth/logout", tag = "buyers", security(("bearer" = [])),
    responses((status = 204), (status = 401, body = Problem)))]
async fn logout(State(site): State<Site>, _: Buyer, headers: HeaderMap) -> Result<Response, Problem> {
    let token = token(&Method::POST, &headers)?.unwrap_or_default().to_owned();
    let app = site.app.clone();
    site.carry_out(async move { app.logout(&token).await }).await?;
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie(None))]).into_response())
}

/// Who the token belongs to.
#[utoipa::path(get, path = "/v1/me", tag = "buyers", security(("bearer" = [])),
    responses((status = 200, body = UserShape), (status = 401, body = Problem)))]
async fn me(State(site): State<Site>, Buyer(user): Buyer) -> Result<Json<UserShape>, Problem> {
    let account = site.app.account_of(user).await?;
    let (phone, name) = account.map(|account| (account.phone, account.name)).unzip();
    Ok(Json(UserShape { id: site.app.print(user), phone, name }))
}
