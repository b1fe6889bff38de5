//! Managing API keys; for admins only.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use tidegate_app::App;
use tidegate_app::ledger_types::ApiKey;
use tidegate_app::operators::keys::{KEYS_SCOPE, MAX_LISTED};
use tidegate_core::{ApiKeyId, Moment};
use tidegate_http::Site;
use tidegate_http::input::{Admin, Id, Input, OperatorIdempotencyKey};
use tidegate_http::inputs::Checks;
use tidegate_http::problem::Problem;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::admin::operators::json::role;
use crate::json::PageShape;

pub(crate) fn routes() -> OpenApiRouter<Site> {
    OpenApiRouter::new().routes(routes!(create, list)).routes(routes!(revoke))
}

/// A key with which a program acts as an operator.
#[derive(Serialize, ToSchema)]
pub(crate) struct ApiKeyShape {
    id: String,
    name: String,
    /// `viewer`, `operator` or `admin`.
    role: &'static str,
    created_at: String,
    /// The actor that created it, as in the audit log.
    #[schema(example = "operator:lin")]
    created_by: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    revoked_at: Option<String>,
    /// Accurate to the minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_used_at: Option<String>,
    /// The bearer token. Present only in the response that created the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
}

impl ApiKeyShape {
    fn of(app: &App, key: ApiKey) -> Self {
        let format = |moment: Moment| moment.to_string();
        Self {
            id: app.print(key.id),
            name: key.name,
            role: key.role.as_str(),
            created_at: key.created_at.to_string(),
            created_by: key.created_by,
            revoked_at: key.revoked_at.map(format),
            last_used_at: key.last_used_at.map(format),
            key: None,
        }
    }
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ApiKeyInput {
    /// Name in the audit log: 2 to 40 of the characters a to z, 0 to 9, dot, dash and underscore.
    #[schema(example = "deploy")]
    name: String,
    /// `viewer`, `operator` or `admin`.
    #[schema(example = "operator")]
    role: String,
}

/// Create an API key.
///
/// `key` is returned only once: a request repeated with the same `Idempotency-Key` is answered without it. If it is
/// lost, revoke the API key and create another.
#[utoipa::path(post, path = "/v1/admin/keys", tag = "operators", request_body = ApiKeyInput,
    params(("Idempotency-Key" = Option<String>, Header)), security(("bearer" = [])),
    responses((status = 201, body = ApiKeyShape), (status = 401, body = Problem), (status = 403, body = Problem),
              (status = 409, body = Problem), (status = 422, body = Problem)))]
pub(crate) async fn create(
    State(site): State<Site>,
    Admin(by): Admin,
    key: OperatorIdempotencyKey,
    input: Input<ApiKeyInput>,
) -> Result<(StatusCode, Json<ApiKeyShape>), Problem> {
    let idempotent_request = key.into_request(KEYS_SCOPE, "", input.fingerprint);
    let mut checks = Checks::default();
    let role = role(&mut checks, &input.value.role);
    let (role, name, app) = (checks.finish(role)?, input.value.name, site.app.clone());
    let change = async move { app.operators.create_api_key(&by, name, role, idempotent_request).await };
    let (made, secret) = site.run_to_completion(change).await?;
    let shape = ApiKeyShape { key: secret, ..ApiKeyShape::of(&site.app, made) };
    Ok((StatusCode::CREATED, Json(shape)))
}

/// List API keys.
///
/// Valid keys first, then keys revoked in the last ninety days; each group newest first.
#[utoipa::path(get, path = "/v1/admin/keys", tag = "operators", security(("bearer" = [])),
    responses((status = 200, body = PageShape<ApiKeyShape>), (status = 401, body = Problem),
              (status = 403, body = Problem)))]
pub(crate) async fn list(
    State(site): State<Site>,
    _: Admin,
) -> Result<Json<PageShape<ApiKeyShape>>, Problem> {
    let app = &site.app;
    let keys = app.operators.api_keys().await?;
    // All keys fit on one page.
    Ok(Json(PageShape::of(keys, MAX_LISTED + 1, |_| String::new(), |key| ApiKeyShape::of(app, key))))
}

/// Revoke an API key.
///
/// Takes effect immediately on this node and within half a minute on other nodes.
#[utoipa::path(delete, path = "/v1/admin/keys/{id}", tag = "operators", params(("id" = String, Path)),
    security(("bearer" = [])),
    responses((status = 204), (status = 401, body = Problem), (status = 403, body = Problem),
              (status = 404, body = Problem)))]
pub(crate) async fn revoke(
    State(site): State<Site>,
    Admin(by): Admin,
    Id(id): Id<ApiKeyId>,
) -> Result<StatusCode, Problem> {
    let app = site.app.clone();
    site.run_to_completion(async move { app.operators.revoke_api_key(&by, id).await }).await?;
    Ok(StatusCode::NO_CONTENT)
}
