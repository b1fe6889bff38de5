//! The audit of a draw.

use axum::Json;
use axum::extract::State;
use tidegate_core::DrawId;
use tidegate_http::Site;
use tidegate_http::input::{Id, Operator};
use tidegate_http::problem::Problem;

use crate::admin::json::AuditShape;

/// Audit a draw.
///
/// Checks every guarantee about the draw against the rows of the ledger, recomputes the outcome of each play, and
/// compares the gate with the ledger.
#[utoipa::path(get, path = "/v1/admin/draws/{id}/audit", tag = "operators", params(("id" = String, Path)),
    security(("bearer" = [])),
    responses((status = 200, body = AuditShape), (status = 401, body = Problem), (status = 404, body = Problem)))]
pub(crate) async fn audit(
    State(site): State<Site>,
    _: Operator,
    Id(id): Id<DrawId>,
) -> Result<Json<AuditShape>, Problem> {
    Ok(Json(site.app.auditing.audit(id.campaign()).await?.into()))
}
