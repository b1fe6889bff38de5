//! Drafting, listing and editing draws.

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use tidegate_app::draws::{DRAWS_SCOPE, OperatedDraw};
use tidegate_core::{CampaignId, DrawId};
use tidegate_http::Site;
use tidegate_http::input::{Id, Input, Operator, OperatorIdempotencyKey, PageQuery, StrictQuery};
use tidegate_http::inputs::draws::DrawInput;
use tidegate_http::problem::Problem;

use super::json::shape;
use crate::admin::draws::json::AdminDrawShape;
use crate::json::PageShape;

/// Create a draft of a draw.
#[utoipa::path(post, path = "/v1/admin/draws", tag = "operators", request_body = DrawInput,
    params(("Idempotency-Key" = Option<String>, Header)), security(("bearer" = [])),
    responses((status = 201, body = AdminDrawShape), (status = 401, body = Problem),
              (status = 403, body = Problem), (status = 422, body = Problem)))]
pub(crate) async fn create(
    State(site): State<Site>,
    operator: Operator,
    key: OperatorIdempotencyKey,
    input: Input<DrawInput, true>,
) -> Result<Response, Problem> {
    let idempotent_request = key.into_request(DRAWS_SCOPE, "", input.fingerprint);
    // A repeated request is answered before its times are validated: they may have passed since.
    let draw = match site.app.changes.find_earlier(idempotent_request.as_ref()).await? {
        Some(before) => site.app.campaigns.find(CampaignId::from_raw(before.subject)).await?,
        None => {
            let (app, terms) = (site.app.clone(), input.value.check(&site.app)?);
            site.run_to_completion(async move {
                app.campaigns.create_draw(terms, operator.0.actor(), idempotent_request).await
            })
            .await?
        }
    };
    let location = format!("/v1/admin/draws/{}", site.app.print(draw.id.as_draw()));
    let made = shape(&site, draw).await.map_err(Problem::after_commit)?;
    Ok((StatusCode::CREATED, [(header::LOCATION, location)], Json(made)).into_response())
}

/// List all draws, including drafts, newest first.
#[utoipa::path(get, path = "/v1/admin/draws", tag = "operators", params(PageQuery), security(("bearer" = [])),
    responses((status = 200, body = PageShape<AdminDrawShape>), (status = 401, body = Problem)))]
pub(crate) async fn list(
    State(site): State<Site>,
    _: Operator,
    StrictQuery(query): StrictQuery<PageQuery>,
) -> Result<Json<PageShape<AdminDrawShape>>, Problem> {
    let app = &site.app;
    let page = query.page(app, DrawId::raw)?;
    let draws = app.campaigns.all_draws(page).await?;
    let cursor = |draw: &OperatedDraw| app.print(draw.campaign.id.as_draw());
    Ok(Json(PageShape::of(draws, page.limit, cursor, |draw| AdminDrawShape::of(app, draw))))
}

/// Get a draw with its counters.
#[utoipa::path(get, path = "/v1/admin/draws/{id}", tag = "operators", params(("id" = String, Path)),
    security(("bearer" = [])),
    responses((status = 200, body = AdminDrawShape), (status = 401, body = Problem), (status = 404, body = Problem)))]
pub(crate) async fn show(
    State(site): State<Site>,
    _: Operator,
    Id(id): Id<DrawId>,
) -> Result<Json<AdminDrawShape>, Problem> {
    Ok(Json(shape(&site, site.app.campaigns.find(id.campaign()).await?).await?))
}

/// Replace the terms of a draft.
#[utoipa::path(put, path = "/v1/admin/draws/{id}", tag = "operators", params(("id" = String, Path)),
    request_body = DrawInput, security(("bearer" = [])),
    responses((status = 200, body = AdminDrawShape), (status = 401, body = Problem),
              (status = 403, body = Problem), (status = 404, body = Problem),
              (status = 409, body = Problem), (status = 422, body = Problem)))]
pub(crate) async fn edit(
    State(site): State<Site>,
    operator: Operator,
    Id(id): Id<DrawId>,
    input: Input<DrawInput, true>,
) -> Result<Json<AdminDrawShape>, Problem> {
    let (app, terms) = (site.app.clone(), input.value.check(&site.app)?);
    let draw = site
        .run_to_completion(
            async move { app.campaigns.edit_draw(id.campaign(), terms, operator.0.actor()).await },
        )
        .await?;
    Ok(Json(shape(&site, draw).await.map_err(Problem::after_commit)?))
}
