//! Operators' accounts.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use tidegate_app::operators::accounts::{MAX_OPERATORS, OPERATORS_SCOPE, OperatorPatch};
use tidegate_app::operators::reauthentication::Shown;
use tidegate_http::Site;
use tidegate_http::input::{Admin, AnyOperator, Input, Key};
use tidegate_http::inputs::Checks;
use tidegate_http::problem::Problem;
use utoipa::ToSchema;

use super::json::role;
use crate::admin::operators::json::{Named, OperatorShape};
use crate::json::PageShape;

/// All operators, by their names.
#[utoipa::path(get, path = "/v1/admin/operators", tag = "operators", security(("bearer" = [])),
    responses((status = 200, body = PageShape<OperatorShape>), (status = 401, body = Problem),
              (status = 403, body = Problem)))]
pub(crate) async fn list(
    State(site): State<Site>,
    _: Admin,
) -> Result<Json<PageShape<OperatorShape>>, Problem> {
    let operators = site.app.operators.accounts().await?;
    // There are never more than fit one page.
    Ok(Json(PageShape::of(operators, MAX_OPERATORS + 1, |_| String::new(), OperatorShape::from)))
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OperatorInput {
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
pub(crate) async fn create(
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
    let change = async move { app.operators.create(&by, name, password, role, remember).await };
    Ok((StatusCode::CREATED, Json(site.carry_out(change).await?.into())))
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OperatorPatchInput {
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
pub(crate) async fn change(
    State(site): State<Site>,
    AnyOperator(by): AnyOperator,
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
    let changed = site.carry_out(async move { app.operators.change(&by, &name, patch, shown).await }).await?;
    Ok(Json(changed.into()))
}
