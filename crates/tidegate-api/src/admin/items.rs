//! Managing the catalogue.

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use tidegate_app::catalogue::ITEMS_SCOPE;
use tidegate_core::ItemId;
use tidegate_http::Site;
use tidegate_http::input::{Id, Input, Operator, OperatorIdempotencyKey, PageQuery, StrictQuery};
use tidegate_http::inputs::{ItemInput, ItemPatch};
use tidegate_http::problem::Problem;

use crate::items::json::ItemShape;
use crate::items::list::page;
use crate::json::PageShape;

/// Create an item.
#[utoipa::path(post, path = "/v1/admin/items", tag = "operators", request_body = ItemInput,
    params(("Idempotency-Key" = Option<String>, Header)), security(("bearer" = [])),
    responses((status = 201, body = ItemShape), (status = 401, body = Problem), (status = 403, body = Problem),
              (status = 422, body = Problem)))]
pub(crate) async fn create(
    State(site): State<Site>,
    operator: Operator,
    key: OperatorIdempotencyKey,
    input: Input<ItemInput>,
) -> Result<Response, Problem> {
    let idempotent_request = key.into_request(ITEMS_SCOPE, "", input.fingerprint);
    let (app, terms) = (site.app.clone(), input.value.check()?);
    let item = site
        .run_to_completion(async move {
            app.catalogue.create_item(terms, operator.0.actor(), idempotent_request).await
        })
        .await?;
    let location = format!("/v1/items/{}", site.app.print(item.id));
    let body = Json(ItemShape::of(&site.app, item));
    Ok((StatusCode::CREATED, [(header::LOCATION, location)], body).into_response())
}

/// List items, newest first.
#[utoipa::path(get, path = "/v1/admin/items", tag = "operators", params(PageQuery), security(("bearer" = [])),
    responses((status = 200, body = PageShape<ItemShape>), (status = 401, body = Problem)))]
pub(crate) async fn admin_list(
    State(site): State<Site>,
    _: Operator,
    StrictQuery(query): StrictQuery<PageQuery>,
) -> Result<Json<PageShape<ItemShape>>, Problem> {
    page(&site, &query).await
}

/// Get an item.
#[utoipa::path(get, path = "/v1/admin/items/{id}", tag = "operators", params(("id" = String, Path)),
    security(("bearer" = [])),
    responses((status = 200, body = ItemShape), (status = 401, body = Problem), (status = 404, body = Problem)))]
pub(crate) async fn admin_show(
    State(site): State<Site>,
    _: Operator,
    Id(id): Id<ItemId>,
) -> Result<Json<ItemShape>, Problem> {
    Ok(Json(ItemShape::of(&site.app, site.app.catalogue.item(id).await?)))
}

/// Update an item.
///
/// Existing sales keep their price.
#[utoipa::path(patch, path = "/v1/admin/items/{id}", tag = "operators", params(("id" = String, Path)),
    request_body = ItemPatch, security(("bearer" = [])),
    responses((status = 200, body = ItemShape), (status = 401, body = Problem), (status = 403, body = Problem),
              (status = 404, body = Problem), (status = 422, body = Problem)))]
pub(crate) async fn update(
    State(site): State<Site>,
    operator: Operator,
    Id(id): Id<ItemId>,
    input: Input<ItemPatch>,
) -> Result<Json<ItemShape>, Problem> {
    let terms = input.value.check(site.app.catalogue.item(id).await?)?;
    let app = site.app.clone();
    let item = site
        .run_to_completion(async move { app.catalogue.update_item(id, terms, operator.0.actor()).await })
        .await?;
    Ok(Json(ItemShape::of(&site.app, item)))
}
