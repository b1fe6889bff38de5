//! Sales, as buyers see them.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderName, header};
use tidegate_core::CampaignId;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Site;
use super::input::{Asked, Id, PageQuery};
use super::problem::Problem;
use super::shapes::{PageShape, SaleShape};
use crate::ops::sales::SaleView;

pub(super) fn routes() -> OpenApiRouter<Site> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(show))
}

/// Published sales, newest first.
#[utoipa::path(get, path = "/v1/sales", tag = "buyers", params(PageQuery),
    responses((status = 200, body = PageShape<SaleShape>), (status = 422, body = Problem)))]
async fn list(
    State(site): State<Site>,
    Asked(query): Asked<PageQuery>,
) -> Result<Json<PageShape<SaleShape>>, Problem> {
    let app = &site.app;
    let page = query.page(app, CampaignId::raw)?;
    let sales = app.sales(page).await?;
    let cursor = |view: &SaleView| app.print(view.sale.id);
    Ok(Json(PageShape::of(sales, page.limit, cursor, |view| SaleShape::of(app, view))))
}

/// One sale.
#[utoipa::path(get, path = "/v1/sales/{id}", tag = "buyers", params(("id" = String, Path)),
    responses((status = 200, body = SaleShape), (status = 404, body = Problem)))]
async fn show(
    State(site): State<Site>,
    Id(id): Id<CampaignId>,
) -> Result<([(HeaderName, &'static str); 1], Json<SaleShape>), Problem> {
    let shape = SaleShape::of(&site.app, site.app.sale(id).await?);
    // Nothing in it is anybody's own, and every open page of the sale asks for it.
    Ok(([(header::CACHE_CONTROL, "public, max-age=1")], Json(shape)))
}
