//! Published draws.

use axum::Json;
use axum::extract::State;
use tidegate_app::storefront::DrawView;
use tidegate_core::DrawId;
use tidegate_http::Site;
use tidegate_http::input::{Id, PageQuery, StrictQuery, Visitor};
use tidegate_http::problem::Problem;

use crate::draws::json::DrawShape;
use crate::json::PageShape;

/// List published draws, newest first.
#[utoipa::path(get, path = "/v1/draws", tag = "buyers", params(PageQuery),
    responses((status = 200, body = PageShape<DrawShape>), (status = 422, body = Problem)))]
pub(crate) async fn list(
    State(site): State<Site>,
    Visitor(player): Visitor,
    StrictQuery(query): StrictQuery<PageQuery>,
) -> Result<Json<PageShape<DrawShape>>, Problem> {
    let app = &site.app;
    let page = query.page(app, DrawId::raw)?;
    let draws = app.storefront.draws(page, player).await?;
    let cursor = |view: &DrawView| app.print(view.campaign.id.as_draw());
    Ok(Json(PageShape::of(draws, page.limit, cursor, |view| DrawShape::of(app, view))))
}

/// Get a draw with its prizes, odds and commitment.
///
/// With a buyer's token, `plays_left` is that player's own.
#[utoipa::path(get, path = "/v1/draws/{id}", tag = "buyers", params(("id" = String, Path)),
    responses((status = 200, body = DrawShape), (status = 404, body = Problem)))]
pub(crate) async fn show(
    State(site): State<Site>,
    Id(id): Id<DrawId>,
    Visitor(player): Visitor,
) -> Result<Json<DrawShape>, Problem> {
    Ok(Json(DrawShape::of(&site.app, site.app.storefront.draw(id.campaign(), player).await?)))
}
