//! Sales and draws in lists, by their state.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use tidegate_core::{Campaign, CampaignId, CampaignState, DrawId};

use super::super::super::Site;
use super::super::super::input::{Asked, PageQuery};
use super::super::super::pages::Trouble;
use super::super::super::pages::format::{When, grouped};
use super::super::super::pages::phrases::Phrase;
use super::super::super::pages::phrases::campaigns::Campaigns;
use super::super::{AtDesk, Desk, shown};
use super::{Badge, Noun, name_of, path_of, standing};
use crate::ops::App;
use crate::ops::campaigns::Counters;

#[derive(Template)]
#[template(path = "console/campaigns.html")]
struct CampaignsPage {
    desk: Desk,
    w: &'static Campaigns,
    noun: Noun,
    rows: Vec<Row>,
    /// Each with its address, and whether it is this one.
    tabs: Vec<(Phrase, String, bool)>,
    older: Option<String>,
}

impl CampaignsPage {
    fn is_sales(&self) -> bool {
        self.noun == Noun::Sale
    }

    fn title(&self) -> Phrase {
        if self.is_sales() { self.desk.c.sales } else { self.desk.c.draws }
    }

    fn path(&self) -> &'static str {
        self.noun.path()
    }
}

/// A campaign in a list.
#[derive(Debug)]
pub(in crate::http::console) struct Row {
    pub(in crate::http::console) href: String,
    pub(in crate::http::console) name: String,
    pub(in crate::http::console) badge: Badge,
    pub(in crate::http::console) is_sale: bool,
    pub(in crate::http::console) left: String,
    pub(in crate::http::console) stock: String,
    pub(in crate::http::console) held: String,
    pub(in crate::http::console) paid: String,
    pub(in crate::http::console) starts: When,
    pub(in crate::http::console) ends: When,
}

impl Row {
    pub(in crate::http::console) async fn of(
        app: &App,
        w: &Campaigns,
        campaign: &Campaign,
        counters: Counters,
    ) -> Result<Self, Trouble> {
        let figure = |units: u32| grouped(units.into());
        Ok(Self {
            href: path_of(app, campaign),
            name: name_of(app, campaign).await?,
            badge: standing(w, campaign, app.now(), counters.available),
            is_sale: campaign.sale().is_some(),
            left: figure(counters.available),
            stock: figure(counters.tally.stock),
            held: figure(counters.tally.awaiting_payment + counters.queued),
            paid: figure(counters.tally.paid),
            starts: When(campaign.window.starts_at),
            ends: When(campaign.window.ends_at),
        })
    }
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct ListQuery {
    state: String,
    cursor: Option<String>,
}

impl ListQuery {
    fn state(&self) -> Option<CampaignState> {
        CampaignState::parse(&self.state)
    }

    fn page(&self) -> PageQuery {
        PageQuery { limit: None, cursor: self.cursor.clone() }
    }
}

pub(super) async fn sales(
    State(site): State<Site>,
    at: AtDesk,
    Asked(query): Asked<ListQuery>,
) -> Result<Response, Trouble> {
    let (app, w) = (&site.app, Campaigns::of(at.desk.lang));
    let page = query.page().page(app, CampaignId::raw)?;
    let mut rows = Vec::new();
    let found = app.sales_in(query.state(), page).await?;
    for sale in &found {
        rows.push(Row::of(app, w, &sale.campaign, sale.counters).await?);
    }
    let full = found.len() >= page.limit as usize;
    let last = found.last().filter(|_| full).map(|sale| app.print_campaign(&sale.campaign));
    Ok(shown(&listed(at, Noun::Sale, &query, rows, last)))
}

pub(super) async fn draws(
    State(site): State<Site>,
    at: AtDesk,
    Asked(query): Asked<ListQuery>,
) -> Result<Response, Trouble> {
    let (app, w) = (&site.app, Campaigns::of(at.desk.lang));
    let page = query.page().page(app, DrawId::raw)?;
    let mut rows = Vec::new();
    let found = app.draws_in(query.state(), page).await?;
    for draw in &found {
        rows.push(Row::of(app, w, &draw.campaign, draw.counters).await?);
    }
    let full = found.len() >= page.limit as usize;
    let last = found.last().filter(|_| full).map(|draw| app.print_campaign(&draw.campaign));
    Ok(shown(&listed(at, Noun::Draw, &query, rows, last)))
}

fn listed(at: AtDesk, noun: Noun, query: &ListQuery, rows: Vec<Row>, last: Option<String>) -> CampaignsPage {
    let (w, path, state) = (Campaigns::of(at.desk.lang), noun.path(), query.state());
    let states = CampaignState::ALL
        .iter()
        .map(|known| (word(w, *known), format!("{path}?state={}", known.as_str()), state == Some(*known)));
    let tabs = std::iter::once((w.all, path.to_owned(), state.is_none())).chain(states).collect();
    let filter = state.map_or(String::new(), |state| format!("state={}&", state.as_str()));
    let older = last.map(|last| format!("{path}?{filter}cursor={last}"));
    CampaignsPage { desk: at.desk, w, noun, rows, tabs, older }
}

fn word(w: &Campaigns, state: CampaignState) -> Phrase {
    match state {
        CampaignState::Draft => w.state_draft,
        CampaignState::InReview => w.state_in_review,
        CampaignState::Approved => w.state_approved,
        CampaignState::Live => w.tab_live,
        CampaignState::Paused => w.state_paused,
        CampaignState::Closed => w.state_closed,
    }
}

#[cfg(test)]
impl Row {
    pub(in crate::http::console) fn sample(w: &Campaigns) -> Self {
        let at = |hour: i64| When(tidegate_core::Moment::from_millis(1_800_000_000_000 + hour * 3_600_000));
        Self {
            href: "/console/sales/0123456789ABC".into(),
            name: "Lamp".into(),
            badge: Badge { tone: "good", word: w.state_live },
            is_sale: true,
            left: "900".into(),
            stock: "1,000".into(),
            held: "60".into(),
            paid: "40".into(),
            starts: at(0),
            ends: at(1),
        }
    }
}

#[cfg(test)]
pub(super) fn samples(desk: &Desk) -> Vec<(&'static str, String)> {
    let at = |query: ListQuery, noun, rows| {
        let at = AtDesk { desk: desk.clone(), who: crate::ops::operators::Operating::ADMIN_KEY };
        listed(at, noun, &query, rows, Some("0123456789ABC".into())).render().unwrap()
    };
    let drafts = ListQuery { state: "draft".into(), cursor: None };
    vec![
        (
            "console/campaigns.html",
            at(ListQuery::default(), Noun::Sale, vec![Row::sample(Campaigns::of(desk.lang))]),
        ),
        ("console/campaigns.html, no draws", at(drafts, Noun::Draw, vec![])),
    ]
}
