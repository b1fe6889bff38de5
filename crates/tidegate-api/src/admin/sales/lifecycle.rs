//! Lifecycle of a sale: from submission to close, and reopening.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use tidegate_core::campaign::Step;
use tidegate_core::{CampaignId, Rejection};
use tidegate_http::Site;
use tidegate_http::input::{Id, Input, Operator};
use tidegate_http::inputs::Checks;
use tidegate_http::problem::Problem;
use utoipa::ToSchema;

use super::json::shape;
use crate::admin::lifecycle::transitions;
use crate::admin::sales::json::AdminSaleShape;

transitions! { CampaignId, AdminSaleShape, apply_step;
    /// Submit a draft for approval.
    submit "/v1/admin/sales/{id}/submit" |_| Step::Submit;
    /// Approve a submitted sale.
    approve "/v1/admin/sales/{id}/approve" |_| Step::Approve;
    /// Send a submitted sale back for editing.
    refuse "/v1/admin/sales/{id}/refuse" |_| Step::Refuse;
    /// Publish a sale.
    ///
    /// Loads the stock. The sale opens and closes at its scheduled times.
    publish "/v1/admin/sales/{id}/publish" |site| Step::Publish {
        approval_required: site.app.campaigns.approval_required
    };
    /// Pause a sale.
    ///
    /// Nothing is sold after this call has returned.
    pause "/v1/admin/sales/{id}/pause" |_| Step::Pause;
    /// Resume a paused sale.
    resume "/v1/admin/sales/{id}/resume" |_| Step::Resume;
    /// Close a sale before its scheduled end.
    ///
    /// Unpaid orders can still be paid.
    close "/v1/admin/sales/{id}/close" |_| Step::Close;
}

pub(crate) async fn apply_step(
    site: &Site,
    operator: Operator,
    id: CampaignId,
    step: Step,
) -> Result<Json<AdminSaleShape>, Problem> {
    site.app.campaigns.find(id).await?.sale().ok_or(Rejection::NotFound)?;
    let app = site.app.clone();
    let sale = site
        .run_to_completion(async move { app.campaigns.step(id, step, operator.0.actor(), None).await })
        .await?;
    Ok(Json(shape(site, sale).await.map_err(Problem::after_commit)?))
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReopenInput {
    #[schema(example = "2026-12-01T12:00:00Z")]
    ends_at: String,
}

/// Reopen a closed sale until a new end time.
///
/// Sells the remaining stock.
#[utoipa::path(post, path = "/v1/admin/sales/{id}/reopen", tag = "operators", params(("id" = String, Path)),
    request_body = ReopenInput, security(("bearer" = [])),
    responses((status = 200, body = AdminSaleShape), (status = 401, body = Problem),
              (status = 403, body = Problem), (status = 404, body = Problem),
              (status = 409, body = Problem), (status = 422, body = Problem)))]
pub(crate) async fn reopen(
    State(site): State<Site>,
    operator: Operator,
    Id(id): Id<CampaignId>,
    input: Input<ReopenInput>,
) -> Result<Json<AdminSaleShape>, Problem> {
    let mut checks = Checks::default();
    let ends_at = checks.moment("ends_at", &input.value.ends_at);
    let ends_at = checks.finish(ends_at)?;
    apply_step(&site, operator, id, Step::Reopen { ends_at }).await
}
