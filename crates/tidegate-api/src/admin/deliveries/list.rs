//! Listing deliveries.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use tidegate_app::ledger_types::{Delivery, DeliveryFilter};
use tidegate_core::{DeliveryId, DeliveryState, DrawId};
use tidegate_http::Site;
use tidegate_http::input::{Id, Operator, PageQuery, StrictQuery};
use tidegate_http::inputs::Checks;
use tidegate_http::problem::Problem;
use utoipa::IntoParams;

use crate::admin::deliveries::json::DeliveryShape;
use crate::json::PageShape;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeliveriesQuery {
    /// Only deliveries in this state: `waiting`, `new`, `failed`, `delivered` or `dead`.
    state: Option<String>,
    /// Only prizes of this draw.
    draw_id: Option<String>,
    /// Maximum number of entries: 1 to 1000, default 50.
    #[param(value_type = Option<u32>)]
    limit: Option<String>,
    /// The `next` of the previous page.
    cursor: Option<String>,
}

/// List deliveries, newest first.
///
/// Deliveries of prizes and of webhook events, with their attempts and last error. Viewers do not see addresses.
#[utoipa::path(get, path = "/v1/admin/deliveries", tag = "operators", params(DeliveriesQuery),
    security(("bearer" = [])),
    responses((status = 200, body = PageShape<DeliveryShape>), (status = 401, body = Problem),
              (status = 422, body = Problem)))]
pub(crate) async fn list(
    State(site): State<Site>,
    Operator(who): Operator,
    StrictQuery(query): StrictQuery<DeliveriesQuery>,
) -> Result<Json<PageShape<DeliveryShape>>, Problem> {
    let app = &site.app;
    let mut checks = Checks::default();
    let state = query.state.as_deref().map(DeliveryState::parse);
    if state == Some(None) {
        let states: Vec<_> = DeliveryState::ALL.iter().map(|state| state.as_str()).collect();
        checks.error("state", format!("must be one of {}", states.join(", ")));
    }
    let draw = query.draw_id.as_deref().map(|text| app.parse::<DrawId>(text));
    if draw == Some(None) {
        checks.error("draw_id", "is not the id of a draw");
    }
    let campaign = draw.flatten().map(DrawId::campaign);
    let filter = checks.finish(Some(DeliveryFilter { state: state.flatten(), campaign }))?;
    let page = PageQuery { limit: query.limit, cursor: query.cursor }.page(app, DeliveryId::raw)?;
    let deliveries = app.deliveries.list(filter, page).await?;
    let cursor = |delivery: &Delivery| app.print(delivery.id);
    Ok(Json(PageShape::of(deliveries, page.limit, cursor, |delivery| {
        DeliveryShape::of(app, delivery, who.role)
    })))
}

/// Get a delivery.
#[utoipa::path(get, path = "/v1/admin/deliveries/{id}", tag = "operators", params(("id" = String, Path)),
    security(("bearer" = [])),
    responses((status = 200, body = DeliveryShape), (status = 401, body = Problem), (status = 404, body = Problem)))]
pub(crate) async fn show(
    State(site): State<Site>,
    Operator(who): Operator,
    Id(id): Id<DeliveryId>,
) -> Result<Json<DeliveryShape>, Problem> {
    Ok(Json(DeliveryShape::of(&site.app, site.app.deliveries.find(id).await?, who.role)))
}
