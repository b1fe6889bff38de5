//! The verification page: the visitor's browser recomputes a draw from its published proof.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use tidegate_core::Phase;
use tidegate_http::Site;
use tidegate_http::input::StrictQuery;

use super::{PageContext, Visitor};
use crate::page::{PageError, render};

#[derive(Template)]
#[template(path = "verify.html")]
pub(crate) struct VerifyPage {
    pub(crate) page: PageContext,
    pub(crate) draw: String,
    /// Id and name of ended draws.
    pub(crate) ended: Vec<(String, String)>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(crate) struct VerifyQuery {
    draw: String,
}

pub(crate) async fn show(
    State(site): State<Site>,
    visitor: Visitor,
    StrictQuery(query): StrictQuery<VerifyQuery>,
) -> Result<Response, PageError> {
    let window = site.app.storefront.listing().await?;
    let ended = window.draws.iter().filter(|view| view.phase == Phase::Ended);
    let ended = ended.map(|view| (site.app.print(view.campaign.id.as_draw()), view.draw.name.clone()));
    Ok(render(&VerifyPage { page: visitor.page, draw: query.draw, ended: ended.collect() }))
}
