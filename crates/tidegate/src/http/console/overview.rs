//! The console's first page: what runs, how it goes, what needs somebody.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use tidegate_core::{CampaignState, DeliveryState};
use tidegate_store::ledger::Page;
use tidegate_store::ledger::sql::DeliveryFilter;

use super::super::Site;
use super::super::pages::Trouble;
use super::super::pages::format::{When, grouped, money};
use super::super::pages::phrases::boards::Boards;
use super::super::pages::phrases::campaigns::Campaigns;
use super::campaigns::lists::Row;
use super::campaigns::{Badge, light, name_of, path_of, standing};
use super::{AtDesk, Desk, shown};
use crate::ops::App;
use crate::ops::live::LiveFigures;

#[derive(Template)]
#[template(path = "console/overview.html")]
struct OverviewPage {
    desk: Desk,
    w: &'static Campaigns,
    b: &'static Boards,
    /// The part of the server and what is wrong with it.
    problems: Vec<(String, String)>,
    running: Vec<Running>,
    coming: Vec<Coming>,
    unfinished: Vec<Row>,
    dead: Option<String>,
}

impl OverviewPage {
    fn is_empty(&self) -> bool {
        self.running.is_empty() && self.coming.is_empty() && self.unfinished.is_empty()
    }
}

/// A campaign that takes orders, or could.
#[derive(Debug)]
struct Running {
    href: String,
    name: String,
    is_sale: bool,
    badge: Badge,
    light: Badge,
    left: String,
    stock: String,
    part: (u32, u32),
    held: String,
    paid: String,
    revenue: Option<String>,
    /// Unknown where the last second was not looked at.
    pace: Option<f64>,
    ends: When,
}

/// One that opens later.
#[derive(Debug)]
struct Coming {
    href: String,
    name: String,
    is_sale: bool,
    at: When,
    at_ms: i64,
    stock: String,
}

/// Drafts and such of each kind and state that are shown.
const MOST: u32 = 10;
/// Deliveries that were given up and are counted.
const MOST_DEAD: u32 = 100;

pub(super) async fn show(State(site): State<Site>, at: AtDesk) -> Result<Response, Trouble> {
    let (app, desk) = (&site.app, at.desk);
    let w = Campaigns::of(desk.lang);
    let (running, coming) = published(app, &desk).await?;
    let problems = app.health.problems().into_iter().map(|(part, what)| (part.to_owned(), what));
    Ok(shown(&OverviewPage {
        w,
        b: Boards::of(desk.lang),
        problems: problems.collect(),
        running,
        coming,
        unfinished: unfinished(app, w).await?,
        dead: dead(app).await?,
        desk,
    }))
}

async fn published(app: &App, desk: &Desk) -> Result<(Vec<Running>, Vec<Coming>), Trouble> {
    let (mut running, mut coming) = (Vec::new(), Vec::new());
    for figures in app.live_overview().await? {
        let campaign = app.campaign(figures.id).await?;
        let (href, name) = (path_of(app, &campaign), name_of(app, &campaign).await?);
        let (is_sale, starts_at) = (campaign.sale().is_some(), campaign.window.starts_at);
        if figures.at < starts_at {
            let stock = grouped(campaign.stock.into());
            let (at, at_ms) = (When(starts_at), starts_at.millis());
            coming.push(Coming { href, name, is_sale, at, at_ms, stock });
            continue;
        }
        let badge = standing(Campaigns::of(desk.lang), &campaign, figures.at, figures.counters.available);
        running.push(Running::of(desk, &figures, (href, name), badge));
    }
    Ok((running, coming))
}

impl Running {
    fn of(desk: &Desk, figures: &LiveFigures, (href, name): (String, String), badge: Badge) -> Self {
        let counters = &figures.counters;
        Self {
            href,
            name,
            is_sale: figures.revenue.is_some(),
            badge,
            light: light(Boards::of(desk.lang), figures.light),
            left: grouped(counters.available.into()),
            stock: grouped(counters.tally.stock.into()),
            part: (counters.available, counters.tally.stock),
            held: grouped(u64::from(counters.tally.awaiting_payment) + u64::from(counters.queued)),
            paid: grouped(counters.tally.paid.into()),
            revenue: figures.revenue.map(money),
            pace: figures.pace.map(|pace| pace.attempts_per_s),
            ends: When(figures.window.ends_at),
        }
    }
}

/// Drafts, what waits for an approval, and what has one.
async fn unfinished(app: &App, w: &Campaigns) -> Result<Vec<Row>, Trouble> {
    let mut rows = Vec::new();
    let page = Page { before: None, limit: MOST };
    for state in [CampaignState::InReview, CampaignState::Approved, CampaignState::Draft] {
        for sale in app.sales_in(Some(state), page).await? {
            rows.push(Row::of(app, w, &sale.campaign, sale.counters).await?);
        }
        for draw in app.draws_in(Some(state), page).await? {
            rows.push(Row::of(app, w, &draw.campaign, draw.counters).await?);
        }
    }
    Ok(rows)
}

/// How many deliveries were given up, if any.
async fn dead(app: &App) -> Result<Option<String>, Trouble> {
    let filter = DeliveryFilter { state: Some(DeliveryState::Dead), campaign: None };
    let found = app.deliveries(filter, Page { before: None, limit: MOST_DEAD }).await?.len();
    Ok(match found {
        0 => None,
        found if found >= MOST_DEAD as usize => Some(format!("{MOST_DEAD}+")),
        found => Some(found.to_string()),
    })
}

#[cfg(test)]
pub(super) fn sample(desk: &Desk) -> String {
    let (w, b) = (Campaigns::of(desk.lang), Boards::of(desk.lang));
    let (_, figures) = super::campaigns::sample_figures(60);
    let badge = Badge { tone: "good", word: w.state_live };
    let running = Running::of(desk, &figures, ("/console/sales/1".into(), "Lamp".into()), badge);
    let coming = Coming {
        href: "/console/draws/1".into(),
        name: "Wheel".into(),
        is_sale: false,
        at: When(figures.at),
        at_ms: figures.at.millis(),
        stock: "1,000".into(),
    };
    let page = OverviewPage {
        desk: desk.clone(),
        w,
        b,
        problems: vec![("ledger".into(), "gone".into())],
        running: vec![running],
        coming: vec![coming],
        unfinished: vec![Row::sample(w)],
        dead: Some("100+".into()),
    };
    page.render().unwrap()
}
