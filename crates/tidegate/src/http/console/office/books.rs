//! Reconciliation: for every running campaign, where its units are, and whether gate, ledger and outbox agree.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use tidegate_core::{Campaign, CampaignId, DrawId};

use super::words::{Word, word};
use super::{lost, phrases};
use crate::http::Site;
use crate::http::console::{AtDesk, Desk, shown};
use crate::http::input::Asked;
use crate::http::pages::Trouble;
use crate::http::pages::format::{When, grouped};
use crate::http::pages::phrases::happenings::noun;
use crate::http::pages::phrases::office::Office;
use crate::ops::audit::{Books, SaleAudit};
use crate::ops::live::Light;
use crate::ops::{App, Refusal};

#[derive(Template)]
#[template(path = "console/reconciliation.html")]
pub(super) struct BooksPage {
    desk: Desk,
    o: &'static Office,
    /// The worst of all.
    light: Word,
    at: When,
    drift: i64,
    campaigns: Vec<Row>,
    audit: Option<Audited>,
}

#[derive(Debug)]
struct Row {
    /// `sale_id` or `draw_id`, as the page's own query names them.
    query: &'static str,
    id: String,
    link: String,
    name: String,
    noun: String,
    stock: String,
    paid: String,
    awaiting: String,
    queued: String,
    available: String,
    sum: String,
    gate_free: Option<String>,
    ledger_free: String,
    difference: i64,
    light: Word,
}

/// What an audit found.
#[derive(Debug)]
struct Audited {
    name: String,
    ok: bool,
    checked: String,
    violations: Vec<String>,
    gate_free: Option<String>,
    ledger_free: String,
    difference: i64,
    moving: bool,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct BooksQuery {
    sale_id: String,
    draw_id: String,
}

pub(super) async fn show(
    State(site): State<Site>,
    at: AtDesk,
    Asked(query): Asked<BooksQuery>,
) -> Result<Response, Trouble> {
    let (app, o) = (&site.app, phrases(&at.desk));
    let books = app.books().await?;
    let mut campaigns = Vec::with_capacity(books.len());
    for books in &books {
        campaigns.push(row(app, &at.desk, o, books).await?);
    }
    let audit = match asked(app, &query)? {
        Some(id) => Some(audited(app.audit(id).await?, name_of(app, &app.campaign(id).await?).await?)),
        None => None,
    };
    Ok(shown(&BooksPage {
        light: worst(o, &books),
        at: When(app.now()),
        drift: app.metrics.drift.get(),
        campaigns,
        audit,
        o,
        desk: at.desk,
    }))
}

/// Which campaign is to be audited, if any.
fn asked(app: &App, query: &BooksQuery) -> Result<Option<CampaignId>, Trouble> {
    if !query.draw_id.is_empty() {
        return app.parse::<DrawId>(&query.draw_id).map(|id| Some(id.campaign())).ok_or_else(lost);
    }
    if !query.sale_id.is_empty() {
        return app.parse::<CampaignId>(&query.sale_id).map(Some).ok_or_else(lost);
    }
    Ok(None)
}

/// What a campaign is called: its item, or itself.
async fn name_of(app: &App, campaign: &Campaign) -> Result<String, Refusal> {
    match (campaign.sale(), campaign.draw()) {
        (Some(sale), _) => Ok(app.item(sale.item).await?.name),
        (None, Some(draw)) => Ok(draw.name.clone()),
        (None, None) => Ok(app.print_campaign(campaign)),
    }
}

fn worst(o: &Office, books: &[Books]) -> Word {
    let has = |light: Light| books.iter().any(|books| books.light() == light);
    if has(Light::Broken) {
        word(o.books_broken, "bad")
    } else if has(Light::Moving) {
        word(o.books_moving, "warn")
    } else {
        word(o.books_ok, "good")
    }
}

async fn row(app: &App, desk: &Desk, o: &Office, books: &Books) -> Result<Row, Refusal> {
    let (campaign, counters, drift) = (&books.campaign, &books.counters, &books.drift);
    let units = |units: u32| grouped(units.into());
    let (query, page) = if campaign.draw().is_some() { ("draw_id", "draws") } else { ("sale_id", "sales") };
    let id = app.print_campaign(campaign);
    let kind = campaign.kind.noun();
    Ok(Row {
        query,
        link: format!("/console/{page}/{id}"),
        id,
        name: name_of(app, campaign).await?,
        noun: noun(desk.lang, kind).map_or_else(|| kind.to_owned(), |noun| noun.to_string()),
        stock: units(counters.tally.stock),
        paid: units(counters.tally.paid),
        awaiting: units(counters.tally.awaiting_payment),
        queued: units(counters.queued),
        available: units(counters.available),
        sum: grouped(books.sum()),
        gate_free: drift.gate_free.map(units),
        ledger_free: units(drift.ledger_free),
        difference: drift.units,
        light: match books.light() {
            Light::Ok => word(o.holds, "good"),
            Light::Moving => word(o.on_the_way, "warn"),
            Light::Broken => word(o.holds_not, "bad"),
        },
    })
}

fn audited(audit: SaleAudit, name: String) -> Audited {
    Audited {
        name,
        ok: audit.is_ok(),
        checked: grouped(audit.ledger.checked),
        gate_free: audit.drift.gate_free.map(|units| grouped(units.into())),
        ledger_free: grouped(audit.drift.ledger_free.into()),
        difference: audit.drift.units,
        moving: audit.drift.moving,
        violations: audit.ledger.violations,
    }
}

#[cfg(test)]
mod samples {
    use super::*;
    use tidegate_core::Moment;

    impl BooksPage {
        pub(in super::super) fn sample(desk: Desk) -> Self {
            let o = phrases(&desk);
            let row = Row {
                query: "sale_id",
                id: "S".into(),
                link: "/console/sales/S".into(),
                name: "Lamp".into(),
                noun: "Sale".into(),
                stock: "10".into(),
                paid: "1".into(),
                awaiting: "2".into(),
                queued: "3".into(),
                available: "4".into(),
                sum: "10".into(),
                gate_free: Some("4".into()),
                ledger_free: "7".into(),
                difference: -1,
                light: word(o.holds_not, "bad"),
            };
            let audit = Audited {
                name: "Lamp".into(),
                ok: false,
                checked: "1,234".into(),
                violations: vec!["1 units held beyond the stock".into()],
                gate_free: Some("4".into()),
                ledger_free: "7".into(),
                difference: -1,
                moving: true,
            };
            Self {
                light: word(o.books_broken, "bad"),
                at: When(Moment::from_millis(1_777_629_600_000)),
                drift: 1,
                campaigns: vec![row],
                audit: Some(audit),
                o,
                desk,
            }
        }
    }
}
