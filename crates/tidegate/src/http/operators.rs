//! Operators: signing in and out, and who they are. What each may change is decided by the use cases.

use axum::Json;
use axum::extract::{FromRequest, FromRequestParts, Path, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use tidegate_core::{Rejection, Role};
use tidegate_store::ledger::sql::OperatorAccount;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Site;
use super::browser::{WANTS_COOKIE, console_cookie, console_token};
use super::input::{Address, Admin, Input, Key, Staff, bearer};
use super::limits::bucket_of;
use super::problem::Problem;
use super::shapes::PageShape;
use super::terms::Checks;
use crate::ops::operators::accounts::{MAX_OPERATORS, OPERATORS_SCOPE, OperatorPatch};
use crate::ops::operators::own::Shown;
use crate::ops::operators::second_factor::ProvenFactor;
use crate::ops::operators::{ConsoleSession, Operating, SignIn};

pub(super) fn routes() -> OpenApiRouter<Site> {
    OpenApiRouter::new()
        .routes(routes!(login))
        .routes(routes!(logout))
        .routes(routes!(me))
        .routes(routes!(create, list))
        .routes(routes!(change))
        .routes(routes!(begin_totp, confirm_totp, remove_totp))
}

/// The operator's name in the path.
struct Named(String);

impl FromRequestParts<Site> for Named {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, site: &Site) -> Result<Self, Problem> {
        let text = Path::<String>::from_request_parts(parts, site).await.map_err(|_| Rejection::NotFound)?;
        Ok(Self(text.0))
    }
}

/// One of the roles, or what is wrong with it.
pub(super) fn role(checks: &mut Checks, text: &str) -> Option<Role> {
    let role = Role::parse(text);
    if role.is_none() {
        let roles: Vec<_> = Role::ALL.iter().map(|role| role.as_str()).collect();
        checks.wrong("role", format!("must be one of {}", roles.join(", ")));
    }
    role
}

#[derive(Debug, Serialize, ToSchema)]
struct OperatingShape {
    /// The operator's name, or `key:` and the name of an API key; null for the admin key.
    name: Option<String>,
    /// `viewer`, `operator` or `admin`.
    role: &'static str,
}

impl From<Operating> for OperatingShape {
    fn from(operating: Operating) -> Self {
        Self { name: operating.name, role: operating.role.as_str() }
    }
}

#[derive(Serialize, ToSchema)]
struct ConsoleShape {
    /// Not there when it comes as a cookie.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    /// Twelve hours after it was last used, and at most seven days after it was opened.
    expires_at: String,
    #[serde(flatten)]
    operating: OperatingShape,
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct LoginInput {
    name: String,
    password: String,
    /// What the second factor shows, where there is one. Without it the answer is `code_required`.
    code: Option<String>,
}

/// Signs an operator in. The header `Tidegate-Session: cookie` brings the token as a cookie. A console whose cookie comes
/// with the request ends.
#[utoipa::path(post, path = "/v1/admin/login", tag = "operators", request_body = LoginInput,
    responses((status = 200, body = ConsoleShape), (status = 401, body = Problem), (status = 422, body = Problem),
              (status = 429, body = Problem), (status = 503, body = Problem)))]
async fn login(
    State(site): State<Site>,
    Address(address): Address,
    headers: HeaderMap,
    input: Input<LoginInput>,
) -> Result<Response, Problem> {
    let LoginInput { name, password, code } = input.value;
    let (place, before) = (bucket_of(address).to_string(), console_token(&headers).map(str::to_owned));
    let (app, given) = (site.app.clone(), SignIn { name, password, code, place, before });
    let sign_in = async move { app.sign_in_operator(given).await };
    let ConsoleSession { token, expires_at, operating } = site.carry_out(sign_in).await?;
    let as_cookie = headers.get(WANTS_COOKIE).is_some_and(|wanted| wanted == "cookie");
    let cookie = as_cookie.then(|| [(header::SET_COOKIE, console_cookie(Some(&token)))]);
    let token = (!as_cookie).then_some(token);
    let shape = ConsoleShape { token, expires_at: expires_at.to_string(), operating: operating.into() };
    Ok(match cookie {
        Some(cookie) => (cookie, Json(shape)).into_response(),
        None => Json(shape).into_response(),
    })
}

/// Signs out: the token or cookie of the request is worth nothing any more.
#[utoipa::path(post, path = "/v1/admin/logout", tag = "operators", security(("bearer" = [])),
    responses((status = 204), (status = 401, body = Problem)))]
async fn logout(State(site): State<Site>, _: Staff, headers: HeaderMap) -> Result<Response, Problem> {
    let token = bearer(&headers).or(console_token(&headers)).unwrap_or_default().to_owned();
    let app = site.app.clone();
    site.carry_out(async move { app.sign_out_operator(&token).await }).await?;
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, console_cookie(None))]).into_response())
}

/// Who acts, and in which role.
#[utoipa::path(get, path = "/v1/admin/me", tag = "operators", security(("bearer" = [])),
    responses((status = 200, body = OperatingShape), (status = 401, body = Problem)))]
async fn me(Staff(operating): Staff) -> Json<OperatingShape> {
    Json(operating.into())
}

/// An operator's account.
#[derive(Debug, Serialize, ToSchema)]
struct OperatorShape {
    name: String,
    /// `viewer`, `operator` or `admin`.
    role: &'static str,
    /// Whether signing in needs a code.
    second_factor: bool,
    disabled: bool,
    created_at: String,
}

impl From<OperatorAccount> for OperatorShape {
    fn from(account: OperatorAccount) -> Self {
        Self {
            name: account.name,
            role: account.role.as_str(),
            second_factor: account.totp.is_some(),
            disabled: account.disabled,
            created_at: account.created_at.to_string(),
        }
    }
}

/// All operators, by their names.
#[utoipa::path(get, path = "/v1/admin/operators", tag = "operators", security(("bearer" = [])),
    responses((status = 200, body = PageShape<OperatorShape>), (status = 401, body = Problem),
              (status = 403, body = Problem)))]
async fn list(State(site): State<Site>, _: Admin) -> Result<Json<PageShape<OperatorShape>>, Problem> {
    let operators = site.app.operators().await?;
    // There are never more than fit one page.
    Ok(Json(PageShape::of(operators, MAX_OPERATORS + 1, |_| String::new(), OperatorShape::from)))
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct OperatorInput {
    /// 2 to 40 of the characters a to z, 0 to 9, dot, dash and underscore.
    #[schema(example = "lin")]
    name: String,
    /// 10 to 128 characters.
    password: String,
    /// `viewer`, `operator` or `admin`.
    #[schema(example = "operator")]
    role: String,
}

/// Makes an operator's account.
#[utoipa::path(post, path = "/v1/admin/operators", tag = "operators", request_body = OperatorInput,
    params(("Idempotency-Key" = Option<String>, Header)), security(("bearer" = [])),
    responses((status = 201, body = OperatorShape), (status = 401, body = Problem), (status = 403, body = Problem),
              (status = 409, body = Problem), (status = 422, body = Problem)))]
async fn create(
    State(site): State<Site>,
    Admin(by): Admin,
    key: Key,
    input: Input<OperatorInput>,
) -> Result<(StatusCode, Json<OperatorShape>), Problem> {
    let OperatorInput { name, password, role: wanted } = input.value;
    let mut checks = Checks::default();
    let role = role(&mut checks, &wanted);
    let role = checks.done(role)?;
    // Without the password: what is kept of it is its slow hash, and nothing else.
    let remember = key.remember(OPERATORS_SCOPE, &format!("{name} {wanted}"), [0; 16]);
    let app = site.app.clone();
    let change = async move { app.create_operator(&by, name, password, role, remember).await };
    Ok((StatusCode::CREATED, Json(site.carry_out(change).await?.into())))
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct OperatorPatchInput {
    /// `viewer`, `operator` or `admin`. Only admins may change it.
    role: Option<String>,
    /// Whoever is disabled is out at once. Only admins may change it.
    disabled: Option<bool>,
    /// 10 to 128 characters; ends all sessions of the operator. Everybody may change their own.
    password: Option<String>,
    /// The password until now: needed to change one's own.
    current_password: Option<String>,
}

/// Changes an operator: all of it or nothing.
#[utoipa::path(patch, path = "/v1/admin/operators/{name}", tag = "operators", params(("name" = String, Path)),
    request_body = OperatorPatchInput, security(("bearer" = [])),
    responses((status = 200, body = OperatorShape), (status = 401, body = Problem), (status = 403, body = Problem),
              (status = 404, body = Problem), (status = 422, body = Problem), (status = 429, body = Problem)))]
async fn change(
    State(site): State<Site>,
    Staff(by): Staff,
    Named(name): Named,
    input: Input<OperatorPatchInput>,
) -> Result<Json<OperatorShape>, Problem> {
    let OperatorPatchInput { role: wanted, disabled, password, current_password } = input.value;
    let mut checks = Checks::default();
    let role = wanted.map(|wanted| role(&mut checks, &wanted));
    let role = checks.done(Some(role.flatten()))?;
    let app = site.app.clone();
    let patch = OperatorPatch { role, disabled, password };
    let shown = Shown { current_password, current_code: None };
    let changed = site.carry_out(async move { app.change_operator(&by, &name, patch, shown).await }).await?;
    Ok(Json(changed.into()))
}

#[derive(Serialize, ToSchema)]
struct FactorShape {
    /// In base 32.
    secret: String,
    /// The same for a device's camera.
    #[schema(example = "otpauth://totp/Tidegate:lin?secret=…&issuer=Tidegate")]
    url: String,
}

/// Makes a secret for a second factor. It is in force once a code proves that a device has it.
#[utoipa::path(post, path = "/v1/admin/operators/{name}/totp", tag = "operators", params(("name" = String, Path)),
    security(("bearer" = [])),
    responses((status = 200, body = FactorShape), (status = 401, body = Problem), (status = 403, body = Problem),
              (status = 404, body = Problem)))]
async fn begin_totp(
    State(site): State<Site>,
    Staff(by): Staff,
    Named(name): Named,
) -> Result<Json<FactorShape>, Problem> {
    let factor = site.app.begin_totp(&by, &name).await?;
    Ok(Json(FactorShape { secret: factor.secret, url: factor.url }))
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct FactorInput {
    secret: String,
    /// What the device shows now.
    code: String,
    /// Needed for one's own.
    current_password: Option<String>,
    /// What the factor shows that is in force until now: needed for one's own, where there is one.
    current_code: Option<String>,
}

/// Puts a second factor in force: from now on signing in needs a code. Ends the operator's other sessions.
#[utoipa::path(put, path = "/v1/admin/operators/{name}/totp", tag = "operators", params(("name" = String, Path)),
    request_body = FactorInput, security(("bearer" = [])),
    responses((status = 200, body = OperatorShape), (status = 401, body = Problem), (status = 403, body = Problem),
              (status = 404, body = Problem), (status = 422, body = Problem), (status = 429, body = Problem)))]
async fn confirm_totp(
    State(site): State<Site>,
    Staff(by): Staff,
    Named(name): Named,
    headers: HeaderMap,
    input: Input<FactorInput>,
) -> Result<Json<OperatorShape>, Problem> {
    let (app, FactorInput { secret, code, current_password, current_code }) = (site.app.clone(), input.value);
    let console = bearer(&headers).or(console_token(&headers)).map(str::to_owned);
    let factor = ProvenFactor { secret, code, console };
    let shown = Shown { current_password, current_code };
    let change = async move { app.confirm_totp(&by, &name, factor, shown).await };
    Ok(Json(site.carry_out(change).await?.into()))
}

#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ShownInput {
    current_password: Option<String>,
    /// What the factor shows now.
    current_code: Option<String>,
}

/// Takes a second factor away. One's own is shown with the password and a code; an admin needs no body.
#[utoipa::path(delete, path = "/v1/admin/operators/{name}/totp", tag = "operators", params(("name" = String, Path)),
    request_body = Option<ShownInput>, security(("bearer" = [])),
    responses((status = 200, body = OperatorShape), (status = 401, body = Problem), (status = 403, body = Problem),
              (status = 404, body = Problem), (status = 422, body = Problem), (status = 429, body = Problem)))]
async fn remove_totp(
    State(site): State<Site>,
    Staff(by): Staff,
    Named(name): Named,
    request: Request,
) -> Result<Json<OperatorShape>, Problem> {
    let has_body = request.headers().contains_key(header::CONTENT_TYPE);
    let ShownInput { current_password, current_code } = if has_body {
        Input::<ShownInput>::from_request(request, &site).await?.value
    } else {
        ShownInput::default()
    };
    let (app, shown) = (site.app.clone(), Shown { current_password, current_code });
    let changed = site.carry_out(async move { app.remove_totp(&by, &name, shown).await }).await?;
    Ok(Json(changed.into()))
}
