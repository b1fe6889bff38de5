//! Second factors (TOTP) of operators.

use axum::Json;
use axum::extract::{FromRequest, Request, State};
use axum::http::{HeaderMap, header};
use serde::{Deserialize, Serialize};
use tidegate_app::operators::reauthentication::CurrentCredentials;
use tidegate_app::operators::second_factor::ProvenFactor;
use tidegate_http::Site;
use tidegate_http::browser::console_token;
use tidegate_http::input::{AnyOperator, Input, bearer};
use tidegate_http::problem::Problem;
use utoipa::ToSchema;

use crate::admin::operators::json::{Named, OperatorShape};

#[derive(Serialize, ToSchema)]
pub(crate) struct FactorShape {
    /// The TOTP secret in Base32.
    secret: String,
    /// The secret as an `otpauth` URL, for a QR code.
    #[schema(example = "otpauth://totp/Tidegate:lin?secret=…&issuer=Tidegate")]
    url: String,
}

/// Create a secret for a second factor.
///
/// The factor is not active until a code from the device confirms it (`PUT`).
#[utoipa::path(post, path = "/v1/admin/operators/{name}/totp", tag = "operators", params(("name" = String, Path)),
    security(("bearer" = [])),
    responses((status = 200, body = FactorShape), (status = 401, body = Problem), (status = 403, body = Problem),
              (status = 404, body = Problem)))]
pub(crate) async fn begin_totp(
    State(site): State<Site>,
    AnyOperator(by): AnyOperator,
    Named(name): Named,
) -> Result<Json<FactorShape>, Problem> {
    let factor = site.app.operators.begin_totp(&by, &name).await?;
    Ok(Json(FactorShape { secret: factor.secret, url: factor.url }))
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FactorInput {
    secret: String,
    /// Current code of the new device.
    code: String,
    /// Required for your own account.
    current_password: Option<String>,
    /// Code of the factor that is being replaced, if any; required for your own account.
    current_code: Option<String>,
}

/// Activate a second factor.
///
/// From now on sign-in requires a code. The operator's other sessions end.
#[utoipa::path(put, path = "/v1/admin/operators/{name}/totp", tag = "operators", params(("name" = String, Path)),
    request_body = FactorInput, security(("bearer" = [])),
    responses((status = 200, body = OperatorShape), (status = 401, body = Problem), (status = 403, body = Problem),
              (status = 404, body = Problem), (status = 422, body = Problem), (status = 429, body = Problem)))]
pub(crate) async fn confirm_totp(
    State(site): State<Site>,
    AnyOperator(by): AnyOperator,
    Named(name): Named,
    headers: HeaderMap,
    input: Input<FactorInput>,
) -> Result<Json<OperatorShape>, Problem> {
    let (app, FactorInput { secret, code, current_password, current_code }) = (site.app.clone(), input.value);
    let console = bearer(&headers).or(console_token(&headers)).map(str::to_owned);
    let factor = ProvenFactor { secret, code, console };
    let shown = CurrentCredentials { current_password, current_code };
    let change = async move { app.operators.confirm_totp(&by, &name, factor, shown).await };
    Ok(Json(site.run_to_completion(change).await?.into()))
}

#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ShownInput {
    current_password: Option<String>,
    /// Current code of the factor.
    current_code: Option<String>,
}

/// Remove a second factor.
///
/// For your own account, send the current password and a code. An admin who removes another operator's factor sends no
/// body.
#[utoipa::path(delete, path = "/v1/admin/operators/{name}/totp", tag = "operators", params(("name" = String, Path)),
    request_body = Option<ShownInput>, security(("bearer" = [])),
    responses((status = 200, body = OperatorShape), (status = 401, body = Problem), (status = 403, body = Problem),
              (status = 404, body = Problem), (status = 422, body = Problem), (status = 429, body = Problem)))]
pub(crate) async fn remove_totp(
    State(site): State<Site>,
    AnyOperator(by): AnyOperator,
    Named(name): Named,
    request: Request,
) -> Result<Json<OperatorShape>, Problem> {
    let has_body = request.headers().contains_key(header::CONTENT_TYPE);
    let ShownInput { current_password, current_code } = if has_body {
        Input::<ShownInput>::from_request(request, &site).await?.value
    } else {
        ShownInput::default()
    };
    let (app, shown) = (site.app.clone(), CurrentCredentials { current_password, current_code });
    let changed =
        site.run_to_completion(async move { app.operators.remove_totp(&by, &name, shown).await }).await?;
    Ok(Json(changed.into()))
}
