//! Lists of sales and draws with a filter by state.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use tidegate_app::App;
use tidegate_app::campaigns::Counters;
use tidegate_core::{Campaign, CampaignId, CampaignState, DrawId};
use tidegate_http::Site;
use tidegate_http::input::{PageQuery, StrictQuery};

use super::{CampaignKind, campaign_name, campaign_path, state_badge};
use crate::badge::Badge;
use crate::console::{ConsoleContext, OperatorSession};
use crate::format::{Timestamp, grouped};
use crate::i18n::phrases::Phrase;
use crate::i18n::phrases::campaigns::CampaignPhrases;
use crate::page::{PageError, render};

#[derive(Template)]
#[template(path = "console/campaigns.html")]
struct CampaignsPage {
    ctx: ConsoleContext,
    t: &'static CampaignPhrases,
    kind: CampaignKind,
    rows: Vec<Row>,
    /// Label and path of each filter, and whether it is the current one.
    tabs: Vec<(Phrase, String, bool)>,
    older: Option<String>,
}

impl CampaignsPage {
    fn is_sales(&self) -> bool {
        self.kind == CampaignKind::Sale
    }

    fn title(&self) -> Phrase {
        if self.is_sales() { self.ctx.t.sales } else { self.ctx.t.draws }
    }

    fn new_label(&self) -> Phrase {
        if self.is_sales() { self.t.new_sale } else { self.t.new_draw }
    }

    fn path(&self) -> &'static str {
        self.kind.path()
    }
}

/// A campaign in a list.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) href: String,
    pub(crate) name: String,
    pub(crate) badge: Badge,
    pub(crate) is_sale: bool,
    pub(crate) left: String,
    pub(crate) stock: String,
    pub(crate) held: String,
    pub(crate) paid: String,
    pub(crate) starts: Timestamp,
    pub(crate) ends: Timestamp,
}

impl Row {
    pub(crate) async fn of(
        app: &App,
        t: &CampaignPhrases,
        campaign: &Campaign,
        counters: Counters,
    ) -> Result<Self, PageError> {
        let figure = |units: u32| grouped(units.into());
        Ok(Self {
            href: campaign_path(app, campaign),
            name: campaign_name(app, campaign).await?,
            badge: state_badge(t, campaign, app.now(), counters.available),
            is_sale: campaign.sale().is_some(),
            left: figure(counters.available),
            stock: figure(counters.tally.stock),
            held: figure(counters.tally.awaiting_payment + counters.queued),
            paid: figure(counters.tally.paid),
            starts: Timestamp(campaign.window.starts_at),
            ends: Timestamp(campaign.window.ends_at),
        })
    }
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(crate) struct ListQuery {
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

pub(crate) async fn sales(
    State(site): State<Site>,
    session: OperatorSession,
    StrictQuery(query): StrictQuery<ListQuery>,
) -> Result<Response, PageError> {
    let (app, t) = (&site.app, CampaignPhrases::of(session.ctx.lang));
    let page = query.page().page(app, CampaignId::raw)?;
    let mut rows = Vec::new();
    let found = app.campaigns.sales_in(query.state(), page).await?;
    for sale in &found {
        rows.push(Row::of(app, t, &sale.campaign, sale.counters).await?);
    }
    let full = found.len() >= page.limit as usize;
    let last = found.last().filter(|_| full).map(|sale| app.print_campaign(&sale.campaign));
    Ok(render(&list_page(session, CampaignKind::Sale, &query, rows, last)))
}

pub(crate) async fn draws(
    State(site): State<Site>,
    session: OperatorSession,
    StrictQuery(query): StrictQuery<ListQuery>,
) -> Result<Response, PageError> {
    let (app, t) = (&site.app, CampaignPhrases::of(session.ctx.lang));
    let page = query.page().page(app, DrawId::raw)?;
    let mut rows = Vec::new();
    let found = app.campaigns.draws_in(query.state(), page).await?;
    for draw in &found {
        rows.push(Row::of(app, t, &draw.campaign, draw.counters).await?);
    }
    let full = found.len() >= page.limit as usize;
    let last = found.last().filter(|_| full).map(|draw| app.print_campaign(&draw.campaign));
    Ok(render(&list_page(session, CampaignKind::Draw, &query, rows, last)))
}

fn list_page(
    session: OperatorSession,
    kind: CampaignKind,
    query: &ListQuery,
    rows: Vec<Row>,
    last: Option<String>,
) -> CampaignsPage {
    let (t, path, state) = (CampaignPhrases::of(session.ctx.lang), kind.path(), query.state());
    let states = CampaignState::ALL.iter().map(|known| {
        (state_label(t, *known), format!("{path}?state={}", known.as_str()), state == Some(*known))
    });
    let tabs = std::iter::once((t.all, path.to_owned(), state.is_none())).chain(states).collect();
    let filter = state.map_or(String::new(), |state| format!("state={}&", state.as_str()));
    let older = last.map(|last| format!("{path}?{filter}cursor={last}"));
    CampaignsPage { ctx: session.ctx, t, kind, rows, tabs, older }
}

fn state_label(t: &CampaignPhrases, state: CampaignState) -> Phrase {
    match state {
        CampaignState::Draft => t.state_draft,
        CampaignState::InReview => t.state_in_review,
        CampaignState::Approved => t.state_approved,
        CampaignState::Live => t.tab_live,
        CampaignState::Paused => t.state_paused,
        CampaignState::Closed => t.state_closed,
    }
}

#[cfg(test)]
impl Row {
    pub(crate) fn sample(t: &CampaignPhrases) -> Self {
        let at =
            |hour: i64| Timestamp(tidegate_core::Moment::from_millis(1_800_000_000_000 + hour * 3_600_000));
        Self {
            href: "/console/sales/0123456789ABC".into(),
            name: "Lamp".into(),
            badge: Badge::good(t.state_live),
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
pub(crate) fn samples(ctx: &ConsoleContext) -> Vec<(&'static str, String)> {
    let page = |query: ListQuery, kind, rows| {
        let session = OperatorSession {
            ctx: ctx.clone(),
            operator: tidegate_app::operators::OperatorIdentity::ADMIN_KEY,
        };
        list_page(session, kind, &query, rows, Some("0123456789ABC".into())).render().unwrap()
    };
    let drafts = ListQuery { state: "draft".into(), cursor: None };
    vec![
        (
            "console/campaigns.html",
            page(ListQuery::default(), CampaignKind::Sale, vec![Row::sample(CampaignPhrases::of(ctx.lang))]),
        ),
        ("console/campaigns.html, no draws", page(drafts, CampaignKind::Draw, vec![])),
    ]
}
