//! The lifecycle of a draw: from submission to its close, and the rate of its waiting room.

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

transitions! { DrawId, AdminDrawShape, take;
    /// Hands a draft in for approval.
    submit "/v1/admin/draws/{id}/submit" |_| Step::Submit;
    /// Approves what was handed in.
    approve "/v1/admin/draws/{id}/approve" |_| Step::Approve;
    /// Sends it back to be edited.
    refuse "/v1/admin/draws/{id}/refuse" |_| Step::Refuse;
    /// Publishes a draw with what it is bound to; it opens and closes at its times.
    publish "/v1/admin/draws/{id}/publish" |site| Step::Publish {
        approval_required: site.app.campaigns.approval_required
    };
    /// Stops playing; after this returns no seat is played.
    pause "/v1/admin/draws/{id}/pause" |_| Step::Pause;
    /// Goes on.
    resume "/v1/admin/draws/{id}/resume" |_| Step::Resume;
    /// Ends a draw for good and reveals its seed; prizes that waited for this are given.
    close "/v1/admin/draws/{id}/close" |_| Step::Close;
}

pub(crate) async fn take(
    site: &Site,
    operator: Operator,
    id: DrawId,
    step: Step,
) -> Result<Json<AdminDrawShape>, Problem> {
    let app = site.app.clone();
    let id = id.campaign();
    app.campaigns.find(id).await?.draw().ok_or(Rejection::NotFound)?;
    let draw =
        site.carry_out(async move { app.campaigns.step(id, step, operator.0.actor(), None).await }).await?;
    Ok(Json(shape(site, draw).await?))
}

/// Changes how many the waiting room of a running draw lets in per second; it holds at once.
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
        .carry_out(async move { app.campaigns.set_admission(id, per_s, operator.0.actor()).await })
        .await?;
    Ok(Json(shape(&site, draw).await?))
}
