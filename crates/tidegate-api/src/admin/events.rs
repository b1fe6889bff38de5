//! The audit log.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use tidegate_app::ledger_types::Event;
use tidegate_core::{CampaignId, DrawId};
use tidegate_http::Site;
use tidegate_http::event_shape::EventShape;
use tidegate_http::input::{Operator, PageQuery, StrictQuery};
use tidegate_http::inputs::Checks;
use tidegate_http::problem::Problem;
use utoipa::IntoParams;

use crate::json::PageShape;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct EventsQuery {
    /// Only events of this sale.
    sale_id: Option<String>,
    /// Only events of this draw.
    draw_id: Option<String>,
    /// Maximum number of entries: 1 to 1000, default 50.
    #[param(value_type = Option<u32>)]
    limit: Option<String>,
    /// The `next` of the previous page.
    cursor: Option<String>,
}

/// List the audit log, newest first.
///
/// Each entry has the event, its subject, the actor and the time.
#[utoipa::path(get, path = "/v1/admin/events", tag = "operators", params(EventsQuery), security(("bearer" = [])),
    responses((status = 200, body = PageShape<EventShape>), (status = 401, body = Problem),
              (status = 422, body = Problem)))]
pub(crate) async fn events(
    State(site): State<Site>,
    _: Operator,
    StrictQuery(query): StrictQuery<EventsQuery>,
) -> Result<Json<PageShape<EventShape>>, Problem> {
    let app = &site.app;
    let mut checks = Checks::default();
    let campaign = query.sale_id.as_deref().map(|text| app.parse::<CampaignId>(text));
    if campaign == Some(None) {
        checks.error("sale_id", "is not the id of a sale");
    }
    let draw = query.draw_id.as_deref().map(|text| app.parse::<DrawId>(text));
    if draw == Some(None) {
        checks.error("draw_id", "is not the id of a draw");
    }
    let campaign = checks.finish(Some(campaign.flatten().or(draw.flatten().map(DrawId::campaign))))?;
    let page = PageQuery { limit: query.limit, cursor: query.cursor }.numbered()?;
    let events = app.events.list(campaign, page).await?;
    let cursor = |event: &Event| event.id.to_string();
    Ok(Json(PageShape::of(events, page.limit, cursor, |event| EventShape::of(app, event))))
}
