//! Items, sales and draws: lists, forms, drafts and dashboards.
//!
//! Invariant: sales and draws share their pages and differ only in their terms.

mod controls;
mod dashboard;
mod draft;
mod draw_form;
mod fields;
mod items;
pub(crate) mod lists;
mod prize_rows;
mod sale_form;
mod show;

use std::collections::HashMap;

use axum::Router;
use axum::extract::{FromRequestParts, Path};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::routing::{get, post};
use tidegate_app::{App, Refusal};
use tidegate_core::{Campaign, CampaignId, DrawId, Moment, Phase, ProblemCode, Rejection};
use tidegate_http::Site;
use tidegate_http::problem::Problem;

use crate::badge::Badge;
use crate::i18n::language::Lang;
use crate::i18n::phrases::campaigns::CampaignPhrases;
use crate::page::PageError;

pub(super) fn routes() -> Router<Site> {
    Router::new()
        .route("/console/items", get(items::list))
        .route("/console/items/new", get(items::new).post(items::create))
        .route("/console/items/{id}", get(items::show).post(items::update))
        .route("/console/sales", get(lists::sales))
        .route("/console/sales/new", get(sale_form::new).post(sale_form::create))
        .route("/console/sales/{id}", get(show::campaign))
        .route("/console/sales/{id}/edit", get(sale_form::edit).post(sale_form::update))
        .route("/console/sales/{id}/live", get(dashboard::stream::live))
        .route("/console/sales/{id}/{step}", post(controls::apply))
        .route("/console/draws", get(lists::draws))
        .route("/console/draws/new", get(draw_form::new).post(draw_form::create))
        .route("/console/draws/{id}", get(show::campaign))
        .route("/console/draws/{id}/edit", get(draw_form::edit).post(draw_form::update))
        .route("/console/draws/{id}/live", get(dashboard::stream::live))
        .route("/console/draws/{id}/{step}", post(controls::apply))
}

pub(crate) use self::dashboard::consistency_badge;
#[cfg(test)]
pub(crate) use self::dashboard::sample_figures;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CampaignKind {
    Sale,
    Draw,
}

impl CampaignKind {
    fn of(campaign: &Campaign) -> Self {
        if campaign.sale().is_some() { Self::Sale } else { Self::Draw }
    }

    /// Path of the list.
    const fn path(self) -> &'static str {
        match self {
            Self::Sale => "/console/sales",
            Self::Draw => "/console/draws",
        }
    }
}

/// Path of the campaign's page.
pub(crate) fn campaign_path(app: &App, campaign: &Campaign) -> String {
    format!("{}/{}", CampaignKind::of(campaign).path(), app.print_campaign(campaign))
}

/// Extractor: the campaign in the path, a sale under `/console/sales` or a draw under `/console/draws`.
#[derive(Debug)]
struct CampaignPath {
    campaign: Campaign,
    kind: CampaignKind,
    /// Path of the campaign's page.
    path: String,
    /// Last part of the path of a control's form, such as `pause`; empty elsewhere.
    step: String,
}

impl FromRequestParts<Site> for CampaignPath {
    type Rejection = PageError;

    async fn from_request_parts(parts: &mut Parts, site: &Site) -> Result<Self, PageError> {
        let parameters = Path::<HashMap<String, String>>::from_request_parts(parts, site).await;
        let Path(mut parameters) = parameters.map_err(|_| Rejection::NotFound)?;
        let text = parameters.remove("id").unwrap_or_default();
        let is_draw = parts.uri.path().starts_with(CampaignKind::Draw.path());
        let (kind, id) = if is_draw {
            (CampaignKind::Draw, site.app.parse::<DrawId>(&text).map(DrawId::campaign))
        } else {
            (CampaignKind::Sale, site.app.parse::<CampaignId>(&text))
        };
        let campaign = site.app.campaigns.find(id.ok_or(Rejection::NotFound)?).await?;
        if CampaignKind::of(&campaign) != kind {
            return Err(Rejection::NotFound.into());
        }
        let path = format!("{}/{text}", kind.path());
        Ok(Self { campaign, kind, path, step: parameters.remove("step").unwrap_or_default() })
    }
}

/// A sale is named after its item, a draw has a name of its own.
pub(crate) async fn campaign_name(app: &App, campaign: &Campaign) -> Result<String, Refusal> {
    match (campaign.sale(), campaign.draw()) {
        (Some(sale), _) => Ok(app.catalogue.item(sale.item).await?.name),
        (None, Some(draw)) => Ok(draw.name.clone()),
        (None, None) => Err(Rejection::NotFound.into()),
    }
}

pub(crate) fn state_badge(t: &CampaignPhrases, campaign: &Campaign, now: Moment, left: u32) -> Badge {
    use tidegate_core::CampaignState::{Approved, Draft, InReview};
    match (campaign.state, campaign.phase(now, left)) {
        (Draft, _) => Badge::plain(t.state_draft),
        (InReview, _) => Badge::warn(t.state_in_review),
        (Approved, _) => Badge::accent(t.state_approved),
        (_, Some(Phase::Upcoming)) => Badge::accent(t.state_upcoming),
        (_, Some(Phase::Live)) => Badge::good(t.state_live),
        (_, Some(Phase::SoldOut)) => Badge::warn(t.state_sold_out),
        (_, Some(Phase::Paused)) => Badge::warn(t.state_paused),
        (_, Some(Phase::Ended) | None) => Badge::plain(t.state_closed),
    }
}

/// Translates a problem into the operator's language. Codes without a translation keep their own text.
fn localize_problem<T>(lang: Lang, outcome: Result<T, Problem>) -> Result<T, Problem> {
    let t = CampaignPhrases::of(lang);
    outcome.map_err(|problem| {
        let text = match problem.code() {
            ProblemCode::WrongState => t.refused_state,
            ProblemCode::ApprovalRequired => t.refused_approval,
            ProblemCode::Ended => t.refused_ended,
            ProblemCode::NoFreeUnits => t.refused_no_free,
            ProblemCode::StockChanged | ProblemCode::IdempotencyKeyReused => t.refused_changed,
            ProblemCode::NotReady | ProblemCode::Busy => t.refused_not_ready,
            ProblemCode::OutcomeUnknown => t.refused_unknown,
            ProblemCode::ValidationFailed => t.check_fields,
            _ => return problem,
        };
        Problem::new(StatusCode::CONFLICT, problem.code(), text.to_string())
    })
}

/// Every page of this module, rendered with sample data.
#[cfg(test)]
pub(super) fn samples(ctx: &super::ConsoleContext) -> Vec<(&'static str, String)> {
    let mut all = vec![("console/overview.html", super::overview::sample(ctx))];
    all.extend(items::samples(ctx));
    all.extend(lists::samples(ctx));
    all.extend(sale_form::samples(ctx));
    all.extend(draw_form::samples(ctx));
    all.extend(draft::samples(ctx));
    all.extend(dashboard::samples(ctx));
    all
}
