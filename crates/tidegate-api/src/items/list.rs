//! Reading the catalogue.

use axum::Json;
use axum::extract::State;
use tidegate_core::ItemId;
use tidegate_http::Site;
use tidegate_http::input::{Id, PageQuery, StrictQuery};
use tidegate_http::problem::Problem;

use crate::items::json::ItemShape;
use crate::json::PageShape;

/// List items, newest first.
#[utoipa::path(get, path = "/v1/items", tag = "buyers", params(PageQuery),
    responses((status = 200, body = PageShape<ItemShape>), (status = 422, body = Problem)))]
pub(crate) async fn list(
    State(site): State<Site>,
    StrictQuery(query): StrictQuery<PageQuery>,
) -> Result<Json<PageShape<ItemShape>>, Problem> {
    page(&site, &query).await
}

pub(crate) async fn page(site: &Site, query: &PageQuery) -> Result<Json<PageShape<ItemShape>>, Problem> {
    let app = &site.app;
    let page = query.page(app, ItemId::raw)?;
    let items = app.catalogue.items(page).await?;
    let cursor = |item: &tidegate_core::Item| app.print(item.id);
    Ok(Json(PageShape::of(items, page.limit, cursor, |item| ItemShape::of(app, item))))
}

/// Get an item.
#[utoipa::path(get, path = "/v1/items/{id}", tag = "buyers", params(("id" = String, Path)),
    responses((status = 200, body = ItemShape), (status = 404, body = Problem)))]
pub(crate) async fn show(State(site): State<Site>, Id(id): Id<ItemId>) -> Result<Json<ItemShape>, Problem> {
    Ok(Json(ItemShape::of(&site.app, site.app.catalogue.item(id).await?)))
}
