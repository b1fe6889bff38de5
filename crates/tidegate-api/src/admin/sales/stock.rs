//! Changes to a running sale: its stock and the admission rate of its waiting room.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use tidegate_app::sales::RESTOCK_SCOPE;
use tidegate_core::limits::MAX_STOCK;
use tidegate_core::{CampaignId, Rejection};
use tidegate_http::Site;
use tidegate_http::input::{Id, Input, Operator, OperatorIdempotencyKey};
use tidegate_http::inputs::{AdmissionInput, Checks};
use tidegate_http::problem::Problem;
use utoipa::ToSchema;

use super::json::shape;
use crate::admin::sales::json::AdminSaleShape;

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RestockInput {
    /// Units to add; a negative number withdraws free units.
    #[schema(example = 100)]
    units: i64,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RestockedShape {
    #[serde(flatten)]
    sale: AdminSaleShape,
    /// Actual change of the stock. Smaller than requested if fewer units were free to withdraw.
    units_changed: i64,
}

/// Add units to a running sale, or withdraw free units.
#[utoipa::path(post, path = "/v1/admin/sales/{id}/restock", tag = "operators", request_body = RestockInput,
    params(("id" = String, Path), ("Idempotency-Key" = Option<String>, Header)), security(("bearer" = [])),
    responses((status = 200, body = RestockedShape), (status = 401, body = Problem),
              (status = 403, body = Problem), (status = 404, body = Problem),
              (status = 409, body = Problem), (status = 422, body = Problem)))]
pub(crate) async fn restock(
    State(site): State<Site>,
    operator: Operator,
    Id(id): Id<CampaignId>,
    key: OperatorIdempotencyKey,
    input: Input<RestockInput>,
) -> Result<Json<RestockedShape>, Problem> {
    let units = input.value.units;
    if units == 0 || units.unsigned_abs() > MAX_STOCK.into() {
        let mut checks = Checks::default();
        checks.error("units", format!("must be between -{MAX_STOCK} and {MAX_STOCK}, and not 0"));
        checks.finish::<()>(None)?;
    }
    let idempotent_request = key.into_request(RESTOCK_SCOPE, &site.app.print(id), input.fingerprint);
    let app = site.app.clone();
    let (sale, units_changed) = site
        .run_to_completion(async move {
            app.campaigns.restock(id, units, operator.0.actor(), idempotent_request).await
        })
        .await?;
    let sale = shape(&site, sale).await.map_err(Problem::after_commit)?;
    Ok(Json(RestockedShape { sale, units_changed }))
}

/// Change the admission rate of a running sale's waiting room.
///
/// Takes effect immediately.
#[utoipa::path(post, path = "/v1/admin/sales/{id}/admission", tag = "operators", params(("id" = String, Path)),
    request_body = AdmissionInput, security(("bearer" = [])),
    responses((status = 200, body = AdminSaleShape), (status = 401, body = Problem),
              (status = 403, body = Problem), (status = 404, body = Problem),
              (status = 409, body = Problem), (status = 422, body = Problem)))]
pub(crate) async fn admission(
    State(site): State<Site>,
    operator: Operator,
    Id(id): Id<CampaignId>,
    input: Input<AdmissionInput>,
) -> Result<Json<AdminSaleShape>, Problem> {
    let (app, per_s) = (site.app.clone(), input.value.check()?);
    app.campaigns.find(id).await?.sale().ok_or(Rejection::NotFound)?;
    let sale = site
        .run_to_completion(async move { app.campaigns.set_admission(id, per_s, operator.0.actor()).await })
        .await?;
    Ok(Json(shape(&site, sale).await.map_err(Problem::after_commit)?))
}
