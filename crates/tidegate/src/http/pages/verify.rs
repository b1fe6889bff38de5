//! "Verify this draw": the visitor's own browser deals the draw again from what was published.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use tidegate_core::Phase;

use super::super::Site;
use super::super::input::Asked;
use super::{Page, Trouble, Visit, shown};

#[derive(Template)]
#[template(path = "verify.html")]
pub(super) struct VerifyPage {
    pub(super) page: Page,
    pub(super) draw: String,
    /// Draws that are over, with their ids.
    pub(super) over: Vec<(String, String)>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct VerifyQuery {
    draw: String,
}

pub(super) async fn show(
    State(site): State<Site>,
    visit: Visit,
    Asked(query): Asked<VerifyQuery>,
) -> Result<Response, Trouble> {
    let window = site.app.shop_window().await?;
    let over = window.draws.iter().filter(|view| view.phase == Phase::Ended);
    let over = over.map(|view| (site.app.print(view.campaign.id.as_draw()), view.draw.name.clone()));
    Ok(shown(&VerifyPage { page: visit.page, draw: query.draw, over: over.collect() }))
}
