//! Draws, as operators run them.

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use tidegate_core::campaign::Step;
use tidegate_core::{Campaign, CampaignId, DrawId, PlayId, Rejection};
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Site;
use super::draw_shapes::{AdminDrawShape, AdminPlayShape};
use super::draw_terms::DrawInput;
use super::input::{Asked, Id, Input, Key, Operator, PageQuery};
use super::problem::Problem;
use super::shapes::{AuditShape, PageShape};
use super::steps::steps;
use super::terms::{AdmissionInput, Checks};
use crate::ops::draws::{DRAWS_SCOPE, OperatedDraw};
use crate::ops::plays::PlayView;

pub(super) fn routes() -> OpenApiRouter<Site> {
    OpenApiRouter::new()
        .routes(routes!(create, list))
        .routes(routes!(show, edit))
        .routes(routes!(submit))
        .routes(routes!(approve))
        .routes(routes!(refuse))
        .routes(routes!(publish))
        .routes(routes!(pause))
        .routes(routes!(resume))
        .routes(routes!(close))
        .routes(routes!(admission))
        .routes(routes!(audit))
        .routes(routes!(plays))
}

async fn shape(site: &Site, draw: Campaign) -> Result<AdminDrawShape, Problem> {
    Ok(AdminDrawShape::of(&site.app, site.app.operated_draw(draw).await?))
}

/// Drafts a draw.
#[utoipa::path(post, path = "/v1/admin/draws", tag = "operators", request_body = DrawInput,
    params(("Idempotency-Key" = Option<String>, Header)), security(("bearer" = [])),
    responses((status = 201, body = AdminDrawShape), (status = 401, body = Problem),
              (status = 403, body = Problem), (status = 422, body = Problem)))]
async fn create(
    State(site): State<Site>,
    operator: Operator,
    key: Key,
    input: Input<DrawInput, true>,
) -> Result<Response, Problem> {
    let remember = key.remember(DRAWS_SCOPE, "", input.fingerprint);
    // A repetition is answered before its times are looked at: they may have passed since.
    let draw = match site.app.done_before(remember.as_ref()).await? {
        Some(before) => site.app.campaign(CampaignId::from_raw(before.subject)).await?,
        None => {
            let (app, terms) = (site.app.clone(), input.value.check(&site.app)?);
            site.carry_out(async move { app.create_draw(terms, operator.0.actor(), remember).await }).await?
        }
    };
    let location = format!("/v1/admin/draws/{}", site.app.print(draw.id.as_draw()));
    Ok((StatusCode::CREATED, [(header::LOCATION, location)], Json(shape(&site, draw).await?)).into_response())
}

/// All draws, drafts included, newest first.
#[utoipa::path(get, path = "/v1/admin/draws", tag = "operators", params(PageQuery), security(("bearer" = [])),
    responses((status = 200, body = PageShape<AdminDrawShape>), (status = 401, body = Problem)))]
async fn list(
    State(site): State<Site>,
    _: Operator,
    Asked(query): Asked<PageQuery>,
) -> Result<Json<PageShape<AdminDrawShape>>, Problem> {
    let app = &site.app;
    let page = query.page(app, DrawId::raw)?;
    let draws = app.all_draws(page).await?;
    let cursor = |draw: &OperatedDraw| app.print(draw.campaign.id.as_draw());
    Ok(Json(PageShape::of(draws, page.limit, cursor, |draw| AdminDrawShape::of(app, draw))))
}

/// One draw with its counters.
#[utoipa::path(get, path = "/v1/admin/draws/{id}", tag = "operators", params(("id" = String, Path)),
    security(("bearer" = [])),
    responses((status = 200, body = AdminDrawShape), (status = 401, body = Problem), (status = 404, body = Problem)))]
async fn show(
    State(site): State<Site>,
    _: Operator,
    Id(id): Id<DrawId>,
) -> Result<Json<AdminDrawShape>, Problem> {
    Ok(Json(shape(&site, site.app.campaign(id.campaign()).await?).await?))
}

/// Replaces a draft's terms.
#[utoipa::path(put, path = "/v1/admin/draws/{id}", tag = "operators", params(("id" = String, Path)),
    request_body = DrawInput, security(("bearer" = [])),
    responses((status = 200, body = AdminDrawShape), (status = 401, body = Problem),
              (status = 403, body = Problem), (status = 404, body = Problem),
              (status = 409, body = Problem), (status = 422, body = Problem)))]
async fn edit(
    State(site): State<Site>,
    operator: Operator,
    Id(id): Id<DrawId>,
    input: Input<DrawInput, true>,
) -> Result<Json<AdminDrawShape>, Problem> {
    let (app, terms) = (site.app.clone(), input.value.check(&site.app)?);
    let draw =
        site.carry_out(async move { app.edit_draw(id.campaign(), terms, operator.0.actor()).await }).await?;
    Ok(Json(shape(&site, draw).await?))
}

steps! { DrawId, AdminDrawShape, take;
    /// Hands a draft in for approval.
    submit "/v1/admin/draws/{id}/submit" |_| Step::Submit;
    /// Approves what was handed in.
    approve "/v1/admin/draws/{id}/approve" |_| Step::Approve;
    /// Sends it back to be edited.
    refuse "/v1/admin/draws/{id}/refuse" |_| Step::Refuse;
    /// Publishes a draw with what it is bound to; it opens and closes at its times.
    publish "/v1/admin/draws/{id}/publish" |site| Step::Publish { approval_required: site.app.rules.require_approval };
    /// Stops playing; after this returns no seat is played.
    pause "/v1/admin/draws/{id}/pause" |_| Step::Pause;
    /// Goes on.
    resume "/v1/admin/draws/{id}/resume" |_| Step::Resume;
    /// Ends a draw for good and reveals its seed; prizes that waited for this are given.
    close "/v1/admin/draws/{id}/close" |_| Step::Close;
}

async fn take(
    site: &Site,
    operator: Operator,
    id: DrawId,
    step: Step,
) -> Result<Json<AdminDrawShape>, Problem> {
    let app = site.app.clone();
    let id = id.campaign();
    app.campaign(id).await?.draw().ok_or(Rejection::NotFound)?;
    let draw = site.carry_out(async move { app.step(id, step, operator.0.actor(), None).await }).await?;
    Ok(Json(shape(site, draw).await?))
}

/// Changes how many the waiting room of a running draw lets in per second; it holds at once.
#[utoipa::path(post, path = "/v1/admin/draws/{id}/admission", tag = "operators", params(("id" = String, Path)),
    request_body = AdmissionInput, security(("bearer" = [])),
    responses((status = 200, body = AdminDrawShape), (status = 401, body = Problem),
              (status = 403, body = Problem), (status = 404, body = Problem),
              (status = 409, body = Problem), (status = 422, body = Problem)))]
async fn admission(
    State(site): State<Site>,
    operator: Operator,
    Id(id): Id<DrawId>,
    input: Input<AdmissionInput>,
) -> Result<Json<AdminDrawShape>, Problem> {
    let (app, id, per_s) = (site.app.clone(), id.campaign(), input.value.check()?);
    app.campaign(id).await?.draw().ok_or(Rejection::NotFound)?;
    let draw = site.carry_out(async move { app.set_admission(id, per_s, operator.0.actor()).await }).await?;
    Ok(Json(shape(&site, draw).await?))
}

/// Checks every promise about a draw against what is recorded, deals its plays again, and checks the gate against the
/// ledger.
#[utoipa::path(get, path = "/v1/admin/draws/{id}/audit", tag = "operators", params(("id" = String, Path)),
    security(("bearer" = [])),
    responses((status = 200, body = AuditShape), (status = 401, body = Problem), (status = 404, body = Problem)))]
async fn audit(
    State(site): State<Site>,
    _: Operator,
    Id(id): Id<DrawId>,
) -> Result<Json<AuditShape>, Problem> {
    Ok(Json(site.app.audit(id.campaign()).await?.into()))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct PlaysQuery {
    /// Only those of this draw.
    draw_id: Option<String>,
    /// How many at most: 1 to 1000, 50 if not said.
    #[param(value_type = Option<u32>)]
    limit: Option<String>,
    /// The `next` of the page before.
    cursor: Option<String>,
}

/// Everybody's plays, newest first. Viewers do not see what was given to winners, nor their addresses.
#[utoipa::path(get, path = "/v1/admin/plays", tag = "operators", params(PlaysQuery), security(("bearer" = [])),
    responses((status = 200, body = PageShape<AdminPlayShape>), (status = 401, body = Problem),
              (status = 422, body = Problem)))]
async fn plays(
    State(site): State<Site>,
    Operator(who): Operator,
    Asked(query): Asked<PlaysQuery>,
) -> Result<Json<PageShape<AdminPlayShape>>, Problem> {
    let app = &site.app;
    let mut checks = Checks::default();
    let draw = query.draw_id.as_deref().map(|text| app.parse::<DrawId>(text));
    if draw == Some(None) {
        checks.wrong("draw_id", "is not the id of a draw");
    }
    let draw = checks.done(Some(draw.flatten()))?;
    let page = PageQuery { limit: query.limit, cursor: query.cursor }.page(app, PlayId::raw)?;
    let mut plays = Vec::new();
    for play in app.plays(draw.map(DrawId::campaign), page).await? {
        plays.push(app.play_view(play).await?);
    }
    let cursor = |view: &PlayView| app.print(view.play.id);
    Ok(Json(PageShape::of(plays, page.limit, cursor, |view| AdminPlayShape::of(app, view, who.role))))
}
