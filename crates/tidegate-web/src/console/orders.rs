//! Orders: a list with filters by sale and state, and search by order number.

pub(super) mod show;

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::{get, post};
use tidegate_app::ledger_types::{OrderFilter, Page};
use tidegate_app::{App, Refusal};
use tidegate_core::{CampaignId, Order, OrderId, OrderState};
use tidegate_http::Site;
use tidegate_http::input::{PageQuery, StrictQuery};

use crate::badge::Badge;
use crate::console::badges::order_badge;
use crate::console::listing::{SelectOption, next_cursor, non_empty, url_with_query};
use crate::console::{ConsoleContext, OperatorSession};
use crate::format::{Timestamp, money};
use crate::i18n::phrases::orders::OrderPhrases;
use crate::page::{PageError, redirect, render};

/// Sales offered by the filter.
const RECENT_SALES: u32 = 30;

pub(super) fn routes() -> Router<Site> {
    Router::new()
        .route("/console/orders", get(list))
        .route("/console/orders/{id}", get(show::show))
        .route("/console/orders/{id}/cancel", post(show::cancel))
        .route("/console/orders/{id}/refund", post(show::refund))
}

#[derive(Template)]
#[template(path = "console/orders.html")]
pub(crate) struct OrdersPage {
    ctx: ConsoleContext,
    t: &'static OrderPhrases,
    sales: Vec<SelectOption>,
    states: Vec<SelectOption>,
    /// An order number that was searched for and not found.
    missing: Option<String>,
    filtered: bool,
    export: Option<String>,
    orders: Vec<Row>,
    next: Option<String>,
}

#[derive(Debug)]
struct Row {
    id: String,
    item: String,
    buyer: String,
    units: u32,
    total: String,
    state: Badge,
    at: Timestamp,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(crate) struct OrdersQuery {
    sale_id: String,
    state: String,
    cursor: String,
    number: String,
}

pub(crate) async fn list(
    State(site): State<Site>,
    session: OperatorSession,
    StrictQuery(query): StrictQuery<OrdersQuery>,
) -> Result<Response, PageError> {
    let (app, t) = (&site.app, OrderPhrases::of(session.ctx.lang));
    let number = non_empty(query.number);
    if let Some(id) = number.as_deref().and_then(|number| app.parse::<OrderId>(number))
        && app.ordering.recorded_order(id).await.is_ok()
    {
        return Ok(redirect(&format!("/console/orders/{}", app.print(id))));
    }
    let campaign = app.parse::<CampaignId>(&query.sale_id);
    let state = OrderState::parse(&query.state);
    let page = PageQuery { limit: None, cursor: non_empty(query.cursor) }.page(app, OrderId::raw)?;
    let found = app.ordering.orders(OrderFilter { campaign, state }, page).await?;
    let sale_id = campaign.map_or_else(String::new, |id| app.print(id));
    let state_id = state.map_or("", OrderState::as_str);
    let next = next_cursor(&found, page.limit, |order| app.print(order.id));
    let next = next.map(|next| {
        url_with_query("/console/orders", &[("sale_id", &sale_id), ("state", state_id), ("cursor", &next)])
    });
    let mut orders = Vec::with_capacity(found.len());
    for order in &found {
        orders.push(row(app, t, order).await?);
    }
    Ok(render(&OrdersPage {
        sales: sale_options(app, campaign).await?,
        states: state_options(t, state),
        missing: number,
        filtered: campaign.is_some() || state.is_some(),
        export: campaign.map(|_| format!("/console/sales/{sale_id}/orders.csv")),
        orders,
        next,
        t,
        ctx: session.ctx,
    }))
}

async fn row(app: &App, t: &OrderPhrases, order: &Order) -> Result<Row, Refusal> {
    Ok(Row {
        id: app.print(order.id),
        item: app.catalogue.item(order.item).await?.name,
        buyer: app.print(order.user),
        units: order.quantity(),
        total: money(order.total()),
        state: order_badge(t, order.state),
        at: Timestamp(order.created_at),
    })
}

/// The newest sales, and the selected one.
async fn sale_options(app: &App, selected: Option<CampaignId>) -> Result<Vec<SelectOption>, Refusal> {
    let recent = app.campaigns.all_sales(Page { before: None, limit: RECENT_SALES }).await?;
    let mut campaigns: Vec<_> = recent.into_iter().map(|sale| sale.campaign).collect();
    if let Some(selected) = selected.filter(|id| campaigns.iter().all(|sale| sale.id != *id)) {
        campaigns.extend(app.campaigns.find(selected).await.ok());
    }
    let mut options = Vec::with_capacity(campaigns.len());
    for sale in campaigns {
        let Some(terms) = sale.sale() else { continue };
        let day = sale.window.starts_at.to_string();
        let label =
            format!("{} · {}", app.catalogue.item(terms.item).await?.name, day.get(..10).unwrap_or(&day));
        options.push(SelectOption { value: app.print(sale.id), label, selected: Some(sale.id) == selected });
    }
    Ok(options)
}

fn state_options(t: &OrderPhrases, selected: Option<OrderState>) -> Vec<SelectOption> {
    // Queued orders are not in the ledger yet, so this list never has any.
    let recorded = OrderState::ALL.iter().filter(|state| **state != OrderState::Queued);
    let option = |state: &OrderState| SelectOption {
        value: state.as_str().to_owned(),
        label: order_badge(t, *state).label.to_string(),
        selected: Some(*state) == selected,
    };
    recorded.map(option).collect()
}

#[cfg(test)]
mod samples {
    use super::*;
    use tidegate_core::Moment;

    const AT: Timestamp = Timestamp(Moment::from_millis(1_777_629_600_000));

    impl OrdersPage {
        pub(crate) fn sample(ctx: ConsoleContext) -> Self {
            let t = OrderPhrases::of(ctx.lang);
            let row = Row {
                id: "4K7ZQ0V5T1M2N".into(),
                item: "Lamp <b>".into(),
                buyer: "0ABCDEFGHJKMN".into(),
                units: 2,
                total: "¥198.00".into(),
                state: order_badge(t, OrderState::Paid),
                at: AT,
            };
            let option = SelectOption { value: "S".into(), label: "Lamp".into(), selected: true };
            Self {
                sales: vec![option],
                states: state_options(t, Some(OrderState::Paid)),
                missing: Some("nonsense".into()),
                filtered: true,
                export: Some("/console/sales/S/orders.csv".into()),
                orders: vec![row],
                next: Some("/console/orders?cursor=C".into()),
                t,
                ctx,
            }
        }
    }
}
