//! Reconciliation: units of each running campaign by state, gate compared with ledger, and audits on demand.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use tidegate_app::audit::{SaleAudit, UnitBalance};
use tidegate_app::live::BalanceState;
use tidegate_app::{App, Refusal};
use tidegate_core::{Campaign, CampaignId, DrawId};
use tidegate_http::Site;
use tidegate_http::input::StrictQuery;

use crate::badge::Badge;
use crate::console::listing::not_found;
use crate::console::{ConsoleContext, OperatorSession};
use crate::format::{Timestamp, grouped};
use crate::i18n::phrases::events::event_subject;
use crate::i18n::phrases::reconciliation::ReconciliationPhrases;
use crate::page::{PageError, render};

#[derive(Template)]
#[template(path = "console/reconciliation.html")]
pub(crate) struct ReconciliationPage {
    ctx: ConsoleContext,
    t: &'static ReconciliationPhrases,
    /// The worst state of all campaigns.
    status: Badge,
    at: Timestamp,
    drift: i64,
    campaigns: Vec<Row>,
    audit: Option<AuditResult>,
}

#[derive(Debug)]
struct Row {
    /// Name of the query parameter that requests an audit: `sale_id` or `draw_id`.
    audit_parameter: &'static str,
    id: String,
    link: String,
    name: String,
    kind: String,
    stock: String,
    paid: String,
    awaiting: String,
    queued: String,
    available: String,
    sum: String,
    gate_free: Option<String>,
    ledger_free: String,
    difference: i64,
    status: Badge,
}

#[derive(Debug)]
struct AuditResult {
    name: String,
    ok: bool,
    checked: String,
    violations: Vec<String>,
    gate_free: Option<String>,
    ledger_free: String,
    difference: i64,
    in_transit: bool,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(crate) struct ReconciliationQuery {
    sale_id: String,
    draw_id: String,
}

pub(crate) async fn show(
    State(site): State<Site>,
    session: OperatorSession,
    StrictQuery(query): StrictQuery<ReconciliationQuery>,
) -> Result<Response, PageError> {
    let (app, t) = (&site.app, ReconciliationPhrases::of(session.ctx.lang));
    let books = app.auditing.books().await?;
    let mut campaigns = Vec::with_capacity(books.len());
    for books in &books {
        campaigns.push(row(app, &session.ctx, t, books).await?);
    }
    let audit = match audited_campaign(app, &query)? {
        Some(id) => Some(audit_result(
            app.auditing.audit(id).await?,
            campaign_name(app, &app.campaigns.find(id).await?).await?,
        )),
        None => None,
    };
    Ok(render(&ReconciliationPage {
        status: worst_status(t, &books),
        at: Timestamp(app.now()),
        drift: app.metrics.drift(),
        campaigns,
        audit,
        t,
        ctx: session.ctx,
    }))
}

/// The campaign whose audit was requested, if any.
fn audited_campaign(app: &App, query: &ReconciliationQuery) -> Result<Option<CampaignId>, PageError> {
    if !query.draw_id.is_empty() {
        return app.parse::<DrawId>(&query.draw_id).map(|id| Some(id.campaign())).ok_or_else(not_found);
    }
    if !query.sale_id.is_empty() {
        return app.parse::<CampaignId>(&query.sale_id).map(Some).ok_or_else(not_found);
    }
    Ok(None)
}

/// A sale is named after its item, a draw has a name of its own.
async fn campaign_name(app: &App, campaign: &Campaign) -> Result<String, Refusal> {
    match (campaign.sale(), campaign.draw()) {
        (Some(sale), _) => Ok(app.catalogue.item(sale.item).await?.name),
        (None, Some(draw)) => Ok(draw.name.clone()),
        (None, None) => Ok(app.print_campaign(campaign)),
    }
}

fn worst_status(t: &ReconciliationPhrases, books: &[UnitBalance]) -> Badge {
    let has = |light: BalanceState| books.iter().any(|books| books.light() == light);
    if has(BalanceState::Broken) {
        Badge::bad(t.inconsistent)
    } else if has(BalanceState::Moving) {
        Badge::warn(t.in_transit)
    } else {
        Badge::good(t.consistent)
    }
}

async fn row(
    app: &App,
    ctx: &ConsoleContext,
    t: &ReconciliationPhrases,
    books: &UnitBalance,
) -> Result<Row, Refusal> {
    let (campaign, counters, drift) = (&books.campaign, &books.counters, &books.drift);
    let units = |units: u32| grouped(units.into());
    let (audit_parameter, page) =
        if campaign.draw().is_some() { ("draw_id", "draws") } else { ("sale_id", "sales") };
    let id = app.print_campaign(campaign);
    Ok(Row {
        audit_parameter,
        link: format!("/console/{page}/{id}"),
        id,
        name: campaign_name(app, campaign).await?,
        kind: event_subject(ctx.lang, (&campaign.kind).into()).to_string(),
        stock: units(counters.tally.stock),
        paid: units(counters.tally.paid),
        awaiting: units(counters.tally.awaiting_payment),
        queued: units(counters.queued),
        available: units(counters.available),
        sum: grouped(books.sum()),
        gate_free: drift.gate_free.map(units),
        ledger_free: units(drift.ledger_free),
        difference: drift.units,
        status: match books.light() {
            BalanceState::Ok => Badge::good(t.row_consistent),
            BalanceState::Moving => Badge::warn(t.row_in_transit),
            BalanceState::Broken => Badge::bad(t.row_inconsistent),
        },
    })
}

fn audit_result(audit: SaleAudit, name: String) -> AuditResult {
    AuditResult {
        name,
        ok: audit.is_ok(),
        checked: grouped(audit.ledger.checked),
        gate_free: audit.drift.gate_free.map(|units| grouped(units.into())),
        ledger_free: grouped(audit.drift.ledger_free.into()),
        difference: audit.drift.units,
        in_transit: audit.drift.in_progress,
        violations: audit.ledger.violations,
    }
}

#[cfg(test)]
mod samples {
    use super::*;
    use tidegate_core::Moment;

    impl ReconciliationPage {
        pub(crate) fn sample(ctx: ConsoleContext) -> Self {
            let t = ReconciliationPhrases::of(ctx.lang);
            let row = Row {
                audit_parameter: "sale_id",
                id: "S".into(),
                link: "/console/sales/S".into(),
                name: "Lamp".into(),
                kind: "Sale".into(),
                stock: "10".into(),
                paid: "1".into(),
                awaiting: "2".into(),
                queued: "3".into(),
                available: "4".into(),
                sum: "10".into(),
                gate_free: Some("4".into()),
                ledger_free: "7".into(),
                difference: -1,
                status: Badge::bad(t.row_inconsistent),
            };
            let audit = AuditResult {
                name: "Lamp".into(),
                ok: false,
                checked: "1,234".into(),
                violations: vec!["1 units held beyond the stock".into()],
                gate_free: Some("4".into()),
                ledger_free: "7".into(),
                difference: -1,
                in_transit: true,
            };
            Self {
                status: Badge::bad(t.inconsistent),
                at: Timestamp(Moment::from_millis(1_777_629_600_000)),
                drift: 1,
                campaigns: vec![row],
                audit: Some(audit),
                t,
                ctx,
            }
        }
    }
}
