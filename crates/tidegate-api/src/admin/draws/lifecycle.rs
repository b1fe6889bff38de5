//! Lifecycle of a draw, from submission to close, and the admission rate of its waiting room.

use axum::Json;
use axum::extract::State;
use tidegate_core::campaign::Step;
use tidegate_core::{DrawId, Rejection};
use tidegate_http::Site;
use tidegate_http::input::{Id, Input, Operator};
use tidegate_http::inputs::AdmissionInput;
use tidegate_http::problem::Problem;

use super::json::shape;
use crate::admin::draws::json::AdminDrawShape;
use crate::admin::lifecycle::transitions;

transitions! { DrawId, AdminDrawShape, apply_step;
    /// Submit a draft for approval.
    submit "/v1/admin/draws/{id}/submit" |_| Step::Submit;
    /// Approve a submitted draw.
    approve "/v1/admin/draws/{id}/approve" |_| Step::Approve;
    /// Send a submitted draw back for editing.
    refuse "/v1/admin/draws/{id}/refuse" |_| Step::Refuse;
    /// Publish a draw.
    ///
    /// Fixes the commitment; the terms can no longer be edited. The draw opens and closes at its scheduled times.
    publish "/v1/admin/draws/{id}/publish" |site| Step::Publish {
        approval_required: site.app.campaigns.approval_required
    };
    /// Pause a draw.
    ///
    /// No seat is played after this call has returned.
    pause "/v1/admin/draws/{id}/pause" |_| Step::Pause;
    /// Resume a paused draw.
    resume "/v1/admin/draws/{id}/resume" |_| Step::Resume;
    /// Close a draw permanently.
    ///
    /// Publishes the seed and releases the prizes that are granted at close.
    close "/v1/admin/draws/{id}/close" |_| Step::Close;
}

pub(crate) async fn apply_step(
    site: &Site,
    operator: Operator,
    id: DrawId,
    step: Step,
) -> Result<Json<AdminDrawShape>, Problem> {
    let app = site.app.clone();
    let id = id.campaign();
    app.campaigns.find(id).await?.draw().ok_or(Rejection::NotFound)?;
    let draw = site
        .run_to_completion(async move { app.campaigns.step(id, step, operator.0.actor(), None).await })
        .await?;
    Ok(Json(shape(site, draw).await.map_err(Problem::after_commit)?))
}

/// Change the admission rate of a running draw's waiting room.
///
/// Takes effect immediately.
#[utoipa::path(post, path = "/v1/admin/draws/{id}/admission", tag = "operators", params(("id" = String, Path)),
    request_body = AdmissionInput, security(("bearer" = [])),
    responses((status = 200, body = AdminDrawShape), (status = 401, body = Problem),
              (status = 403, body = Problem), (status = 404, body = Problem),
              (status = 409, body = Problem), (status = 422, body = Problem)))]
pub(crate) async fn admission(
    State(site): State<Site>,
    operator: Operator,
    Id(id): Id<DrawId>,
    input: Input<AdmissionInput>,
) -> Result<Json<AdminDrawShape>, Problem> {
    let (app, id, per_s) = (site.app.clone(), id.campaign(), input.value.check()?);
    app.campaigns.find(id).await?.draw().ok_or(Rejection::NotFound)?;
    let draw = site
        .run_to_completion(async move { app.campaigns.set_admission(id, per_s, operator.0.actor()).await })
        .await?;
    Ok(Json(shape(&site, draw).await.map_err(Problem::after_commit)?))
}
