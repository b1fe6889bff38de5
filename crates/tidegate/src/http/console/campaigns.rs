//! The campaign side of the console: items, sales, draws, their drafts and their dashboards.
//!
//! What always holds: sales and draws are shown by the same pages, and differ only where the things themselves do.

mod board;
mod charting;
mod controls;
mod draft;
mod draw_form;
mod fields;
mod items;
pub(super) mod lists;
mod prizes;
mod sale_form;
mod show;
mod stream;

use std::collections::HashMap;

use axum::Router;
use axum::extract::{FromRequestParts, Path};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::routing::{get, post};
use tidegate_core::{Campaign, CampaignId, DrawId, Moment, Phase, Rejection};

use super::super::Site;
use super::super::pages::Trouble;
use super::super::pages::language::Lang;
use super::super::pages::phrases::Phrase;
use super::super::pages::phrases::campaigns::Campaigns;
use super::super::problem::Problem;
use crate::ops::{App, Refusal};

pub(super) fn campaign_routes() -> Router<Site> {
    Router::new()
        .route("/console/items", get(items::list))
        .route("/console/items/new", get(items::new).post(items::create))
        .route("/console/items/{id}", get(items::show).post(items::update))
        .route("/console/sales", get(lists::sales))
        .route("/console/sales/new", get(sale_form::new).post(sale_form::create))
        .route("/console/sales/{id}", get(show::campaign))
        .route("/console/sales/{id}/edit", get(sale_form::edit).post(sale_form::update))
        .route("/console/sales/{id}/live", get(stream::live))
        .route("/console/sales/{id}/{step}", post(controls::take))
        .route("/console/draws", get(lists::draws))
        .route("/console/draws/new", get(draw_form::new).post(draw_form::create))
        .route("/console/draws/{id}", get(show::campaign))
        .route("/console/draws/{id}/edit", get(draw_form::edit).post(draw_form::update))
        .route("/console/draws/{id}/live", get(stream::live))
        .route("/console/draws/{id}/{step}", post(controls::take))
}

pub(super) use self::board::light;
#[cfg(test)]
pub(super) use self::board::sample_figures;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Noun {
    Sale,
    Draw,
}

impl Noun {
    fn of(campaign: &Campaign) -> Self {
        if campaign.sale().is_some() { Self::Sale } else { Self::Draw }
    }

    /// Where the console keeps them.
    const fn path(self) -> &'static str {
        match self {
            Self::Sale => "/console/sales",
            Self::Draw => "/console/draws",
        }
    }
}

/// Where the console shows this campaign.
pub(super) fn path_of(app: &App, campaign: &Campaign) -> String {
    format!("{}/{}", Noun::of(campaign).path(), app.print_campaign(campaign))
}

/// The campaign an address names: a sale under `/console/sales`, a draw under `/console/draws`.
#[derive(Debug)]
struct Named {
    campaign: Campaign,
    noun: Noun,
    /// Its page.
    path: String,
    /// What is to be done with it, where the address says so.
    step: String,
}

impl FromRequestParts<Site> for Named {
    type Rejection = Trouble;

    async fn from_request_parts(parts: &mut Parts, site: &Site) -> Result<Self, Trouble> {
        let found = Path::<HashMap<String, String>>::from_request_parts(parts, site).await;
        let Path(mut named) = found.map_err(|_| Rejection::NotFound)?;
        let text = named.remove("id").unwrap_or_default();
        let is_draw = parts.uri.path().starts_with(Noun::Draw.path());
        let (noun, id) = if is_draw {
            (Noun::Draw, site.app.parse::<DrawId>(&text).map(DrawId::campaign))
        } else {
            (Noun::Sale, site.app.parse::<CampaignId>(&text))
        };
        let campaign = site.app.campaign(id.ok_or(Rejection::NotFound)?).await?;
        if Noun::of(&campaign) != noun {
            return Err(Rejection::NotFound.into());
        }
        let path = format!("{}/{text}", noun.path());
        Ok(Self { campaign, noun, path, step: named.remove("step").unwrap_or_default() })
    }
}

/// What a campaign is called: its item's name, or its own.
pub(super) async fn name_of(app: &App, campaign: &Campaign) -> Result<String, Refusal> {
    match (campaign.sale(), campaign.draw()) {
        (Some(sale), _) => Ok(app.item(sale.item).await?.name),
        (None, Some(draw)) => Ok(draw.name.clone()),
        (None, None) => Err(Rejection::NotFound.into()),
    }
}

/// A word in its colour.
#[derive(Clone, Copy, Debug)]
pub(super) struct Badge {
    pub(super) tone: &'static str,
    pub(super) word: Phrase,
}

/// Where a campaign stands, as an operator says it.
pub(super) fn standing(w: &Campaigns, campaign: &Campaign, now: Moment, left: u32) -> Badge {
    use tidegate_core::CampaignState::{Approved, Draft, InReview};
    let (tone, word) = match (campaign.state, campaign.phase(now, left)) {
        (Draft, _) => ("plain", w.state_draft),
        (InReview, _) => ("warn", w.state_in_review),
        (Approved, _) => ("accent", w.state_approved),
        (_, Some(Phase::Upcoming)) => ("accent", w.state_upcoming),
        (_, Some(Phase::Live)) => ("good", w.state_live),
        (_, Some(Phase::SoldOut)) => ("warn", w.state_sold_out),
        (_, Some(Phase::Paused)) => ("warn", w.state_paused),
        (_, Some(Phase::Ended) | None) => ("plain", w.state_closed),
    };
    Badge { tone, word }
}

/// Why a change was not made, in the operator's language. What no page can do anything about stays as it was said.
fn in_words<T>(lang: Lang, outcome: Result<T, Problem>) -> Result<T, Problem> {
    let w = Campaigns::of(lang);
    outcome.map_err(|problem| {
        let sentence = match problem.code() {
            "wrong_state" => w.refused_state,
            "approval_required" => w.refused_approval,
            "ended" => w.refused_ended,
            "no_free_units" => w.refused_no_free,
            "stock_changed" | "idempotency_key_reused" => w.refused_changed,
            "not_ready" | "busy" => w.refused_not_ready,
            "outcome_unknown" => w.refused_unknown,
            "validation_failed" => w.needs_a_look,
            _ => return problem,
        };
        Problem::new(StatusCode::CONFLICT, problem.code(), sentence.to_string())
    })
}

/// All templates of this side of the console, rendered with made-up figures.
#[cfg(test)]
pub(super) fn campaign_samples(desk: &super::Desk) -> Vec<(&'static str, String)> {
    let mut all = vec![("console/overview.html", super::overview::sample(desk))];
    all.extend(items::samples(desk));
    all.extend(lists::samples(desk));
    all.extend(sale_form::samples(desk));
    all.extend(draw_form::samples(desk));
    all.extend(draft::samples(desk));
    all.extend(board::samples(desk));
    all
}
