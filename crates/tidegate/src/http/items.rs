//! The catalogue, for buyers and operators.

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use tidegate_core::ItemId;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Site;
use super::input::{Asked, Id, Input, Key, Operator, PageQuery};
use super::problem::Problem;
use super::shapes::{ItemShape, PageShape};
use super::terms::{ItemInput, ItemPatch};
use crate::ops::items::ITEMS_SCOPE;

pub(super) fn routes() -> OpenApiRouter<Site> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(show))
        .routes(routes!(create, admin_list))
        .routes(routes!(update, admin_show))
}

/// The catalogue, newest first.
#[utoipa::path(get, path = "/v1/items", tag = "buyers", params(PageQuery),
    responses((status = 200, body = PageShape<ItemShape>), (status = 422, body = Problem)))]
async fn list(
    State(site): State<Site>,
    Asked(query): Asked<PageQuery>,
) -> Result<Json<PageShape<ItemShape>>, Problem> {
    page(&site, &query).await
}

async fn page(site: &Site, query: &PageQuery) -> Result<Json<PageShape<ItemShape>>, Problem> {
    let app = &site.app;
    let page = query.page(app, ItemId::raw)?;
    let items = app.items(page).await?;
    let cursor = |item: &tidegate_core::Item| app.print(item.id);
    Ok(Json(PageShape::of(items, page.limit, cursor, |item| ItemShape::of(app, item))))
}

/// One item.
#[utoipa::path(get, path = "/v1/items/{id}", tag = "buyers", params(("id" = String, Path)),
    responses((status = 200, body = ItemShape), (status = 404, body = Problem)))]
async fn show(State(site): State<Site>, Id(id): Id<ItemId>) -> Result<Json<ItemShape>, Problem> {
    Ok(Json(ItemShape::of(&site.app, site.app.item(id).await?)))
}

/// Adds an item.
#[utoipa::path(post, path = "/v1/admin/items", tag = "operators", request_body = ItemInput,
    params(("Idempotency-Key" = Option<String>, Header)), security(("bearer" = [])),
    responses((status = 201, body = ItemShape), (status = 401, body = Problem), (status = 403, body = Problem),
              (status = 422, body = Problem)))]
async fn create(
    State(site): State<Site>,
    operator: Operator,
    key: Key,
    input: Input<ItemInput>,
) -> Result<Response, Problem> {
    let remember = key.remember(ITEMS_SCOPE, "", input.fingerprint);
    let (app, terms) = (site.app.clone(), input.value.check()?);
    let item =
        site.carry_out(async move { app.create_item(terms, operator.0.actor(), remember).await }).await?;
    let location = format!("/v1/items/{}", site.app.print(item.id));
    let body = Json(ItemShape::of(&site.app, item));
    Ok((StatusCode::CREATED, [(header::LOCATION, location)], body).into_response())
}

/// The catalogue, for operators.
#[utoipa::path(get, path = "/v1/admin/items", tag = "operators", params(PageQuery), security(("bearer" = [])),
    responses((status = 200, body = PageShape<ItemShape>), (status = 401, body = Problem)))]
async fn admin_list(
    State(site): State<Site>,
    _: Operator,
    Asked(query): Asked<PageQuery>,
) -> Result<Json<PageShape<ItemShape>>, Problem> {
    page(&site, &query).await
}

/// One item, for operators.
#[utoipa::path(get, path = "/v1/admin/items/{id}", tag = "operators", params(("id" = String, Path)),
    security(("bearer" = [])),
    responses((status = 200, body = ItemShape), (status = 401, body = Problem), (status = 404, body = Problem)))]
async fn admin_show(
    State(site): State<Site>,
    _: Operator,
    Id(id): Id<ItemId>,
) -> Result<Json<ItemShape>, Problem> {
    Ok(Json(ItemShape::of(&site.app, site.app.item(id).await?)))
}

/// Changes an item. Sales keep the price they were made with.
#[utoipa::path(patch, path = "/v1/admin/items/{id}", tag = "operators", params(("id" = String, Path)),
    request_body = ItemPatch, security(("bearer" = [])),
    responses((status = 200, body = ItemShape), (status = 401, body = Problem), (status = 403, body = Problem),
              (status = 404, body = Problem), (status = 422, body = Problem)))]
async fn update(
    State(site): State<Site>,
    operator: Operator,
    Id(id): Id<ItemId>,
    input: Input<ItemPatch>,
) -> Result<Json<ItemShape>, Problem> {
    let terms = input.value.check(site.app.item(id).await?)?;
    let app = site.app.clone();
    let item = site.carry_out(async move { app.update_item(id, terms, operator.0.actor()).await }).await?;
    Ok(Json(ItemShape::of(&site.app, item)))
}
