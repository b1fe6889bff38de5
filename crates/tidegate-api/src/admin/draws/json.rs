//! A draw as JSON for operators.

use serde::Serialize;
use tidegate_app::App;
use tidegate_app::draws::OperatedDraw;
use tidegate_core::Campaign;
use tidegate_http::Site;
use tidegate_http::problem::Problem;
use tidegate_http::response::hex;
use utoipa::ToSchema;

use crate::admin::json::CountersShape;
use crate::draws::json::PrizeShape;
use crate::json::ProtectShape;

/// A draw with its state and counters, for operators.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AdminDrawShape {
    id: String,
    name: String,
    strategy: &'static str,
    seats: u32,
    starts_at: String,
    ends_at: String,
    plays_per_user: u32,
    prizes: Vec<PrizeShape>,
    protect: ProtectShape,
    /// `draft`, `in_review`, `approved`, `live`, `paused` or `closed`.
    state: &'static str,
    epoch: u32,
    /// Counts of seats; played seats count as `paid`.
    counters: CountersShape,
    plays: u32,
    wins: u32,
    /// Number of prize deliveries by state.
    deliveries: std::collections::BTreeMap<&'static str, u32>,
    commitment: String,
    created_at: String,
    updated_at: String,
}

impl AdminDrawShape {
    pub(crate) fn of(app: &App, operated: OperatedDraw) -> Self {
        let OperatedDraw { campaign, draw, counters, prizes_taken, deliveries, commitment } = operated;
        let left: Vec<u32> = draw
            .prizes
            .iter()
            .zip(&prizes_taken)
            .map(|(prize, taken)| prize.stock.saturating_sub(*taken))
            .collect();
        Self {
            id: app.print(campaign.id.as_draw()),
            name: draw.name.clone(),
            strategy: draw.strategy.as_str(),
            seats: campaign.stock,
            starts_at: campaign.window.starts_at.to_string(),
            ends_at: campaign.window.ends_at.to_string(),
            plays_per_user: campaign.per_user_limit,
            prizes: PrizeShape::all(&draw, Some(&left)),
            protect: (&campaign.protect).into(),
            state: campaign.state.as_str(),
            epoch: campaign.epoch,
            plays: counters.tally.paid,
            counters: counters.into(),
            wins: prizes_taken.iter().sum(),
            deliveries: deliveries.into_iter().map(|(state, count)| (state.as_str(), count)).collect(),
            commitment: hex(&commitment),
            created_at: campaign.created_at.to_string(),
            updated_at: campaign.updated_at.to_string(),
        }
    }
}

pub(crate) async fn shape(site: &Site, draw: Campaign) -> Result<AdminDrawShape, Problem> {
    Ok(AdminDrawShape::of(&site.app, site.app.campaigns.operated_draw(draw).await?))
}
