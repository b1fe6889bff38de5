//! Operators' accounts.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use tidegate_app::operators::accounts::{MAX_OPERATORS, OPERATORS_SCOPE, OperatorPatch};
use tidegate_app::operators::reauthentication::CurrentCredentials;
use tidegate_http::Site;
use tidegate_http::input::{Admin, AnyOperator, Input, OperatorIdempotencyKey};
use tidegate_http::inputs::Checks;
use tidegate_http::problem::Problem;
use utoipa::ToSchema;

use super::json::role;
use crate::admin::operators::json::{Named, OperatorShape};
use crate::json::PageShape;

/// List all operators by name.
#[utoipa::path(get, path = "/v1/admin/operators", tag = "operators", security(("bearer" = [])),
    responses((status = 200, body = PageShape<OperatorShape>), (status = 401, body = Problem),
              (status = 403, body = Problem)))]
pub(crate) async fn list(
    State(site): State<Site>,
    _: Admin,
) -> Result<Json<PageShape<OperatorShape>>, Problem> {
    let operators = site.app.operators.accounts().await?;
    // The maximum number of operators fits on one page.
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

/// Create an operator account.
#[utoipa::path(post, path = "/v1/admin/operators", tag = "operators", request_body = OperatorInput,
    params(("Idempotency-Key" = Option<String>, Header)), security(("bearer" = [])),
    responses((status = 201, body = OperatorShape), (status = 401, body = Problem), (status = 403, body = Problem),
              (status = 409, body = Problem), (status = 422, body = Problem)))]
pub(crate) async fn create(
    State(site): State<Site>,
    Admin(by): Admin,
    key: OperatorIdempotencyKey,
    input: Input<OperatorInput>,
) -> Result<(StatusCode, Json<OperatorShape>), Problem> {
    let OperatorInput { name, password, role: wanted } = input.value;
    let mut checks = Checks::default();
    let role = role(&mut checks, &wanted);
    let role = checks.finish(role)?;
    // The stored fingerprint excludes the password: only its slow hash may be stored.
    let idempotent_request = key.into_request(OPERATORS_SCOPE, &format!("{name} {wanted}"), [0; 16]);
    let app = site.app.clone();
    let change = async move { app.operators.create(&by, name, password, role, idempotent_request).await };
    Ok((StatusCode::CREATED, Json(site.run_to_completion(change).await?.into())))
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OperatorPatchInput {
    /// `viewer`, `operator` or `admin`. Only admins may change it.
    role: Option<String>,
    /// A disabled operator loses access immediately. Only admins may change it.
    disabled: Option<bool>,
    /// 10 to 128 characters. Changing it ends all sessions of the operator. Operators may change their own.
    password: Option<String>,
    /// Current password; required to change your own.
    current_password: Option<String>,
}

/// Update an operator.
///
/// Either all of the changes take effect or none.
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
    let role = checks.finish(Some(role.flatten()))?;
    let app = site.app.clone();
    let patch = OperatorPatch { role, disabled, password };
    let shown = CurrentCredentials { current_password, current_code: None };
    let changed =
        site.run_to_completion(async move { app.operators.change(&by, &name, patch, shown).await }).await?;
    Ok(Json(changed.into()))
}
