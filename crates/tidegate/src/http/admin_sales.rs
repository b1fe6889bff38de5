//! Sales, as operators run them.

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use tidegate_core::campaign::Step;
use tidegate_core::limits::MAX_STOCK;
use tidegate_core::{Campaign, CampaignId, Rejection};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Site;
use super::input::{Asked, Id, Input, Key, Operator, PageQuery};
use super::problem::Problem;
use super::shapes::{AdminSaleShape, AuditShape, PageShape};
use super::steps::steps;
use super::terms::{AdmissionInput, Checks, SaleInput};
use crate::ops::sales::{OperatedSale, RESTOCK_SCOPE, SALES_SCOPE};

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
        .routes(routes!(reopen))
        .routes(routes!(restock))
        .routes(routes!(admission))
        .routes(routes!(audit))
}

async fn shape(site: &Site, sale: Campaign) -> Result<AdminSaleShape, Problem> {
    Ok(AdminSaleShape::of(&site.app, site.app.operated_sale(sale).await?))
}

/// Drafts a sale.
#[utoipa::path(post, path = "/v1/admin/sales", tag = "operators", request_body = SaleInput,
    params(("Idempotency-Key" = Option<String>, Header)), security(("bearer" = [])),
    responses((status = 201, body = AdminSaleShape), (status = 401, body = Problem),
              (status = 403, body = Problem), (status = 422, body = Problem)))]
async fn create(
    State(site): State<Site>,
    operator: Operator,
    key: Key,
    input: Input<SaleInput>,
) -> Result<Response, Problem> {
    let remember = key.remember(SALES_SCOPE, "", input.fingerprint);
    // A repetition is answered before its times are looked at: they may have passed since.
    let sale = match site.app.done_before(remember.as_ref()).await? {
        Some(before) => site.app.campaign(CampaignId::from_raw(before.subject)).await?,
        None => {
            let (app, terms) = (site.app.clone(), input.value.check(&site.app)?);
            site.carry_out(async move { app.create_sale(terms, operator.0.actor(), remember).await }).await?
        }
    };
    let location = format!("/v1/admin/sales/{}", site.app.print(sale.id));
    Ok((StatusCode::CREATED, [(header::LOCATION, location)], Json(shape(&site, sale).await?)).into_response())
}

/// All sales, drafts included, newest first.
#[utoipa::path(get, path = "/v1/admin/sales", tag = "operators", params(PageQuery), security(("bearer" = [])),
    responses((status = 200, body = PageShape<AdminSaleShape>), (status = 401, body = Problem)))]
async fn list(
    State(site): State<Site>,
    _: Operator,
    Asked(query): Asked<PageQuery>,
) -> Result<Json<PageShape<AdminSaleShape>>, Problem> {
    let page = query.page(&site.app, CampaignId::raw)?;
    let app = &site.app;
    let sales = app.all_sales(page).await?;
    let cursor = |sale: &OperatedSale| app.print(sale.campaign.id);
    Ok(Json(PageShape::of(sales, page.limit, cursor, |sale| AdminSaleShape::of(app, sale))))
}

/// One sale with its counters.
#[utoipa::path(get, path = "/v1/admin/sales/{id}", tag = "operators", params(("id" = String, Path)),
    security(("bearer" = [])),
    responses((status = 200, body = AdminSaleShape), (status = 401, body = Problem), (status = 404, body = Problem)))]
async fn show(
    State(site): State<Site>,
    _: Operator,
    Id(id): Id<CampaignId>,
) -> Result<Json<AdminSaleShape>, Problem> {
    Ok(Json(shape(&site, site.app.campaign(id).await?).await?))
}

/// Replaces a draft's terms.
#[utoipa::path(put, path = "/v1/admin/sales/{id}", tag = "operators", params(("id" = String, Path)),
    request_body = SaleInput, security(("bearer" = [])),
    responses((status = 200, body = AdminSaleShape), (status = 401, body = Problem),
              (status = 403, body = Problem), (status = 404, body = Problem),
              (status = 409, body = Problem), (status = 422, body = Problem)))]
async fn edit(
    State(site): State<Site>,
    operator: Operator,
    Id(id): Id<CampaignId>,
    input: Input<SaleInput>,
) -> Result<Json<AdminSaleShape>, Problem> {
    let (app, terms) = (site.app.clone(), input.value.check(&site.app)?);
    let sale = site.carry_out(async move { app.edit_sale(id, terms, operator.0.actor()).await }).await?;
    Ok(Json(shape(&site, sale).await?))
}

steps! { CampaignId, AdminSaleShape, take;
    /// Hands a draft in for approval.
    submit "/v1/admin/sales/{id}/submit" |_| Step::Submit;
    /// Approves what was handed in.
    approve "/v1/admin/sales/{id}/approve" |_| Step::Approve;
    /// Sends it back to be edited.
    refuse "/v1/admin/sales/{id}/refuse" |_| Step::Refuse;
    /// Publishes a sale: its stock is loaded, and it opens and closes at its times.
    publish "/v1/admin/sales/{id}/publish" |site| Step::Publish { approval_required: site.app.rules.require_approval };
    /// Stops selling; after this returns nothing more is sold.
    pause "/v1/admin/sales/{id}/pause" |_| Step::Pause;
    /// Goes on selling.
    resume "/v1/admin/sales/{id}/resume" |_| Step::Resume;
    /// Ends a sale before its time. Unpaid orders may still be paid.
    close "/v1/admin/sales/{id}/close" |_| Step::Close;
}

async fn take(
    site: &Site,
    operator: Operator,
    id: CampaignId,
    step: Step,
) -> Result<Json<AdminSaleShape>, Problem> {
    site.app.campaign(id).await?.sale().ok_or(Rejection::NotFound)?;
    let app = site.app.clone();
    let sale = site.carry_out(async move { app.step(id, step, operator.0.actor(), None).await }).await?;
    Ok(Json(shape(site, sale).await?))
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ReopenInput {
    #[schema(example = "2026-12-01T12:00:00Z")]
    ends_at: String,
}

/// Opens a closed sale again until a new end, with what is left of its stock.
#[utoipa::path(post, path = "/v1/admin/sales/{id}/reopen", tag = "operators", params(("id" = String, Path)),
    request_body = ReopenInput, security(("bearer" = [])),
    responses((status = 200, body = AdminSaleShape), (status = 401, body = Problem),
              (status = 403, body = Problem), (status = 404, body = Problem),
              (status = 409, body = Problem), (status = 422, body = Problem)))]
async fn reopen(
    State(site): State<Site>,
    operator: Operator,
    Id(id): Id<CampaignId>,
    input: Input<ReopenInput>,
) -> Result<Json<AdminSaleShape>, Problem> {
    let mut checks = Checks::default();
    let ends_at = checks.moment("ends_at", &input.value.ends_at);
    let ends_at = checks.done(ends_at)?;
    take(&site, operator, id, Step::Reopen { ends_at }).await
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct RestockInput {
    /// Units to add; negative to take free ones out of sale.
    #[schema(example = 100)]
    units: i64,
}

#[derive(Debug, Serialize, ToSchema)]
struct RestockedShape {
    #[serde(flatten)]
    sale: AdminSaleShape,
    /// By how many units the stock changed: fewer than asked where fewer were free.
    units_changed: i64,
}

/// Adds units to a running sale, or takes free ones out.
#[utoipa::path(post, path = "/v1/admin/sales/{id}/restock", tag = "operators", request_body = RestockInput,
    params(("id" = String, Path), ("Idempotency-Key" = Option<String>, Header)), security(("bearer" = [])),
    responses((status = 200, body = RestockedShape), (status = 401, body = Problem),
              (status = 403, body = Problem), (status = 404, body = Problem),
              (status = 409, body = Problem), (status = 422, body = Problem)))]
async fn restock(
    State(site): State<Site>,
    operator: Operator,
    Id(id): Id<CampaignId>,
    key: Key,
    input: Input<RestockInput>,
) -> Result<Json<RestockedShape>, Problem> {
    let units = input.value.units;
    if units == 0 || units.unsigned_abs() > MAX_STOCK.into() {
        let mut checks = Checks::default();
        checks.wrong("units", format!("must be between -{MAX_STOCK} and {MAX_STOCK}, and not 0"));
        checks.done::<()>(None)?;
    }
    let remember = key.remember(RESTOCK_SCOPE, &site.app.print(id), input.fingerprint);
    let app = site.app.clone();
    let (sale, units_changed) =
        site.carry_out(async move { app.restock(id, units, operator.0.actor(), remember).await }).await?;
    Ok(Json(RestockedShape { sale: shape(&site, sale).await?, units_changed }))
}

/// Changes how many the waiting room of a running sale lets in per second; it holds at once.
#[utoipa::path(post, path = "/v1/admin/sales/{id}/admission", tag = "operators", params(("id" = String, Path)),
    request_body = AdmissionInput, security(("bearer" = [])),
    responses((status = 200, body = AdminSaleShape), (status = 401, body = Problem),
              (status = 403, body = Problem), (status = 404, body = Problem),
              (status = 409, body = Problem), (status = 422, body = Problem)))]
async fn admission(
    State(site): State<Site>,
    operator: Operator,
    Id(id): Id<CampaignId>,
    input: Input<AdmissionInput>,
) -> Result<Json<AdminSaleShape>, Problem> {
    let (app, per_s) = (site.app.clone(), input.value.check()?);
    app.campaign(id).await?.sale().ok_or(Rejection::NotFound)?;
    let sale = site.carry_out(async move { app.set_admission(id, per_s, operator.0.actor()).await }).await?;
    Ok(Json(shape(&site, sale).await?))
}

/// Checks every promise about a sale against what is recorded, and the gate against the ledger.
#[utoipa::path(get, path = "/v1/admin/sales/{id}/audit", tag = "operators", params(("id" = String, Path)),
    security(("bearer" = [])),
    responses((status = 200, body = AuditShape), (status = 401, body = Problem), (status = 404, body = Problem)))]
async fn audit(
    State(site): State<Site>,
    _: Operator,
    Id(id): Id<CampaignId>,
) -> Result<Json<AuditShape>, Problem> {
    Ok(Json(site.app.audit(id).await?.into()))
}
