//! Published sales.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderName, header};
use tidegate_app::storefront::SaleView;
use tidegate_core::CampaignId;
use tidegate_http::Site;
use tidegate_http::input::{Id, PageQuery, StrictQuery};
use tidegate_http::problem::Problem;

use crate::json::PageShape;
use crate::sales::json::SaleShape;

/// List published sales, newest first.
#[utoipa::path(get, path = "/v1/sales", tag = "buyers", params(PageQuery),
    responses((status = 200, body = PageShape<SaleShape>), (status = 422, body = Problem)))]
pub(crate) async fn list(
    State(site): State<Site>,
    StrictQuery(query): StrictQuery<PageQuery>,
) -> Result<Json<PageShape<SaleShape>>, Problem> {
    let app = &site.app;
    let page = query.page(app, CampaignId::raw)?;
    let sales = app.storefront.sales(page).await?;
    let cursor = |view: &SaleView| app.print(view.sale.id);
    Ok(Json(PageShape::of(sales, page.limit, cursor, |view| SaleShape::of(app, view))))
}

/// Get a sale.
#[utoipa::path(get, path = "/v1/sales/{id}", tag = "buyers", params(("id" = String, Path)),
    responses((status = 200, body = SaleShape), (status = 404, body = Problem)))]
pub(crate) async fn show(
    State(site): State<Site>,
    Id(id): Id<CampaignId>,
) -> Result<([(HeaderName, &'static str); 1], Json<SaleShape>), Problem> {
    let shape = SaleShape::of(&site.app, site.app.storefront.sale(id).await?);
    // The response is the same for every buyer, and every open page of the sale polls it.
    Ok(([(header::CACHE_CONTROL, "public, max-age=1")], Json(shape)))
}
