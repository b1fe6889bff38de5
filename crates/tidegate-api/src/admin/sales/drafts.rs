//! Drafting, listing and editing sales.

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use tidegate_app::sales::{OperatedSale, SALES_SCOPE};
use tidegate_core::CampaignId;
use tidegate_http::Site;
use tidegate_http::input::{Id, Input, Operator, OperatorIdempotencyKey, PageQuery, StrictQuery};
use tidegate_http::inputs::SaleInput;
use tidegate_http::problem::Problem;

use super::json::shape;
use crate::admin::sales::json::AdminSaleShape;
use crate::json::PageShape;

/// Create a draft of a sale.
#[utoipa::path(post, path = "/v1/admin/sales", tag = "operators", request_body = SaleInput,
    params(("Idempotency-Key" = Option<String>, Header)), security(("bearer" = [])),
    responses((status = 201, body = AdminSaleShape), (status = 401, body = Problem),
              (status = 403, body = Problem), (status = 422, body = Problem)))]
pub(crate) async fn create(
    State(site): State<Site>,
    operator: Operator,
    key: OperatorIdempotencyKey,
    input: Input<SaleInput>,
) -> Result<Response, Problem> {
    let idempotent_request = key.into_request(SALES_SCOPE, "", input.fingerprint);
    // A repeated request is answered before its times are validated: they may have passed since.
    let sale = match site.app.changes.find_earlier(idempotent_request.as_ref()).await? {
        Some(before) => site.app.campaigns.find(CampaignId::from_raw(before.subject)).await?,
        None => {
            let (app, terms) = (site.app.clone(), input.value.check(&site.app)?);
            site.run_to_completion(async move {
                app.campaigns.create_sale(terms, operator.0.actor(), idempotent_request).await
            })
            .await?
        }
    };
    let location = format!("/v1/admin/sales/{}", site.app.print(sale.id));
    let made = shape(&site, sale).await.map_err(Problem::after_commit)?;
    Ok((StatusCode::CREATED, [(header::LOCATION, location)], Json(made)).into_response())
}

/// List all sales, including drafts, newest first.
#[utoipa::path(get, path = "/v1/admin/sales", tag = "operators", params(PageQuery), security(("bearer" = [])),
    responses((status = 200, body = PageShape<AdminSaleShape>), (status = 401, body = Problem)))]
pub(crate) async fn list(
    State(site): State<Site>,
    _: Operator,
    StrictQuery(query): StrictQuery<PageQuery>,
) -> Result<Json<PageShape<AdminSaleShape>>, Problem> {
    let page = query.page(&site.app, CampaignId::raw)?;
    let app = &site.app;
    let sales = app.campaigns.all_sales(page).await?;
    let cursor = |sale: &OperatedSale| app.print(sale.campaign.id);
    Ok(Json(PageShape::of(sales, page.limit, cursor, |sale| AdminSaleShape::of(app, sale))))
}

/// Get a sale with its counters.
#[utoipa::path(get, path = "/v1/admin/sales/{id}", tag = "operators", params(("id" = String, Path)),
    security(("bearer" = [])),
    responses((status = 200, body = AdminSaleShape), (status = 401, body = Problem), (status = 404, body = Problem)))]
pub(crate) async fn show(
    State(site): State<Site>,
    _: Operator,
    Id(id): Id<CampaignId>,
) -> Result<Json<AdminSaleShape>, Problem> {
    Ok(Json(shape(&site, site.app.campaigns.find(id).await?).await?))
}

/// Replace the terms of a draft.
#[utoipa::path(put, path = "/v1/admin/sales/{id}", tag = "operators", params(("id" = String, Path)),
    request_body = SaleInput, security(("bearer" = [])),
    responses((status = 200, body = AdminSaleShape), (status = 401, body = Problem),
              (status = 403, body = Problem), (status = 404, body = Problem),
              (status = 409, body = Problem), (status = 422, body = Problem)))]
pub(crate) async fn edit(
    State(site): State<Site>,
    operator: Operator,
    Id(id): Id<CampaignId>,
    input: Input<SaleInput>,
) -> Result<Json<AdminSaleShape>, Problem> {
    let (app, terms) = (site.app.clone(), input.value.check(&site.app)?);
    let sale = site
        .run_to_completion(async move { app.campaigns.edit_sale(id, terms, operator.0.actor()).await })
        .await?;
    Ok(Json(shape(&site, sale).await.map_err(Problem::after_commit)?))
}
