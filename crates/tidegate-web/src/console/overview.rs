//! The console's start page: health, running campaigns, and drafts or deliveries that need attention.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use tidegate_app::App;
use tidegate_app::ledger_types::{DeliveryFilter, Page};
use tidegate_app::live::CampaignFigures;
use tidegate_core::{CampaignState, DeliveryState};
use tidegate_http::Site;

use super::campaigns::lists::Row;
use super::campaigns::{campaign_name, campaign_path, consistency_badge, state_badge};
use super::{ConsoleContext, OperatorSession};
use crate::badge::Badge;
use crate::format::{Timestamp, grouped, money};
use crate::i18n::phrases::campaigns::CampaignPhrases;
use crate::i18n::phrases::dashboard::DashboardPhrases;
use crate::page::{PageError, render};

#[derive(Template)]
#[template(path = "console/overview.html")]
struct OverviewPage {
    ctx: ConsoleContext,
    t: &'static CampaignPhrases,
    /// Unhealthy parts of the server, each with its error.
    problems: Vec<(String, String)>,
    running: Vec<Running>,
    upcoming: Vec<Upcoming>,
    unfinished: Vec<Row>,
    dead_deliveries: Option<String>,
}

impl OverviewPage {
    fn is_empty(&self) -> bool {
        self.running.is_empty() && self.upcoming.is_empty() && self.unfinished.is_empty()
    }
}

/// A campaign whose start has passed: live, sold out or paused.
#[derive(Debug)]
struct Running {
    href: String,
    name: String,
    is_sale: bool,
    badge: Badge,
    consistency: Badge,
    left: String,
    stock: String,
    /// Units left and stock, for the progress bar.
    progress: (u32, u32),
    held: String,
    paid: String,
    revenue: Option<String>,
    /// `None` if the last second was not sampled.
    attempts_per_s: Option<f64>,
    ends: Timestamp,
}

/// A published campaign that has not started.
#[derive(Debug)]
struct Upcoming {
    href: String,
    name: String,
    is_sale: bool,
    starts: Timestamp,
    starts_ms: i64,
    stock: String,
}

/// Unpublished sales listed per state, and draws as well.
const MAX_UNFINISHED: u32 = 10;
/// Dead deliveries are counted up to this number.
const MAX_DEAD: u32 = 100;

pub(crate) async fn show(State(site): State<Site>, session: OperatorSession) -> Result<Response, PageError> {
    let (app, ctx) = (&site.app, session.ctx);
    let t = CampaignPhrases::of(ctx.lang);
    let (running, upcoming) = published(app, &ctx).await?;
    let problems = app.health.problems().into_iter().map(|(part, error)| (part.to_owned(), error));
    Ok(render(&OverviewPage {
        t,
        problems: problems.collect(),
        running,
        upcoming,
        unfinished: unfinished(app, t).await?,
        dead_deliveries: dead_deliveries(app).await?,
        ctx,
    }))
}

async fn published(app: &App, ctx: &ConsoleContext) -> Result<(Vec<Running>, Vec<Upcoming>), PageError> {
    let (mut running, mut upcoming) = (Vec::new(), Vec::new());
    for figures in app.live.overview().await? {
        let campaign = app.campaigns.find(figures.id).await?;
        let (href, name) = (campaign_path(app, &campaign), campaign_name(app, &campaign).await?);
        let (is_sale, starts_at) = (campaign.sale().is_some(), campaign.window.starts_at);
        if figures.at < starts_at {
            let stock = grouped(campaign.stock.into());
            let (starts, starts_ms) = (Timestamp(starts_at), starts_at.millis());
            upcoming.push(Upcoming { href, name, is_sale, starts, starts_ms, stock });
            continue;
        }
        let badge =
            state_badge(CampaignPhrases::of(ctx.lang), &campaign, figures.at, figures.counters.available);
        running.push(Running::of(ctx, &figures, (href, name), badge));
    }
    Ok((running, upcoming))
}

impl Running {
    fn of(
        ctx: &ConsoleContext,
        figures: &CampaignFigures,
        (href, name): (String, String),
        badge: Badge,
    ) -> Self {
        let counters = &figures.counters;
        Self {
            href,
            name,
            is_sale: figures.revenue.is_some(),
            badge,
            consistency: consistency_badge(DashboardPhrases::of(ctx.lang), figures.light),
            left: grouped(counters.available.into()),
            stock: grouped(counters.tally.stock.into()),
            progress: (counters.available, counters.tally.stock),
            held: grouped(u64::from(counters.tally.awaiting_payment) + u64::from(counters.queued)),
            paid: grouped(counters.tally.paid.into()),
            revenue: figures.revenue.map(money),
            attempts_per_s: figures.pace.map(|pace| pace.attempts_per_s),
            ends: Timestamp(figures.window.ends_at),
        }
    }
}

/// Drafts, and campaigns in review or approved.
async fn unfinished(app: &App, t: &CampaignPhrases) -> Result<Vec<Row>, PageError> {
    let mut rows = Vec::new();
    let page = Page { before: None, limit: MAX_UNFINISHED };
    for state in [CampaignState::InReview, CampaignState::Approved, CampaignState::Draft] {
        for sale in app.campaigns.sales_in(Some(state), page).await? {
            rows.push(Row::of(app, t, &sale.campaign, sale.counters).await?);
        }
        for draw in app.campaigns.draws_in(Some(state), page).await? {
            rows.push(Row::of(app, t, &draw.campaign, draw.counters).await?);
        }
    }
    Ok(rows)
}

/// Number of deliveries that were given up, if any.
async fn dead_deliveries(app: &App) -> Result<Option<String>, PageError> {
    let filter = DeliveryFilter { state: Some(DeliveryState::Dead), campaign: None };
    let found = app.deliveries.list(filter, Page { before: None, limit: MAX_DEAD }).await?.len();
    Ok(match found {
        0 => None,
        found if found >= MAX_DEAD as usize => Some(format!("{MAX_DEAD}+")),
        found => Some(found.to_string()),
    })
}

#[cfg(test)]
pub(crate) fn sample(ctx: &ConsoleContext) -> String {
    let t = CampaignPhrases::of(ctx.lang);
    let (_, figures) = super::campaigns::sample_figures(60);
    let badge = Badge::good(t.state_live);
    let running = Running::of(ctx, &figures, ("/console/sales/1".into(), "Lamp".into()), badge);
    let upcoming = Upcoming {
        href: "/console/draws/1".into(),
        name: "Wheel".into(),
        is_sale: false,
        starts: Timestamp(figures.at),
        starts_ms: figures.at.millis(),
        stock: "1,000".into(),
    };
    let page = OverviewPage {
        ctx: ctx.clone(),
        t,
        problems: vec![("ledger".into(), "gone".into())],
        running: vec![running],
        upcoming: vec![upcoming],
        unfinished: vec![Row::sample(t)],
        dead_deliveries: Some("100+".into()),
    };
    page.render().unwrap()
}
