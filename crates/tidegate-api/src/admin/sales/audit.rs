//! The audit of a sale.

use axum::Json;
use axum::extract::State;
use tidegate_core::CampaignId;
use tidegate_http::Site;
use tidegate_http::input::{Id, Operator};
use tidegate_http::problem::Problem;

use crate::admin::json::AuditShape;

/// Audit a sale.
///
/// Checks every guarantee about the sale against the rows of the ledger, and compares the gate with the ledger.
#[utoipa::path(get, path = "/v1/admin/sales/{id}/audit", tag = "operators", params(("id" = String, Path)),
    security(("bearer" = [])),
    responses((status = 200, body = AuditShape), (status = 401, body = Problem), (status = 404, body = Problem)))]
pub(crate) async fn audit(
    State(site): State<Site>,
    _: Operator,
    Id(id): Id<CampaignId>,
) -> Result<Json<AuditShape>, Problem> {
    Ok(Json(site.app.auditing.audit(id).await?.into()))
}
