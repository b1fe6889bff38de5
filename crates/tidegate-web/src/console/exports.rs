//! CSV exports of a sale's orders, a draw's plays and the audit log, streamed page by page in constant memory.
//!
//! Invariants: no export contains a buyer's address; an error in the middle aborts the download instead of ending it
//! early.

mod csv;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_util::future::BoxFuture;
use futures_util::stream::unfold;
use tidegate_app::ledger_types::{Event, OrderFilter, Page};
use tidegate_app::{App, Refusal};
use tidegate_core::{CampaignId, Draw, DrawId, Order, Play, Rejection};
use tidegate_http::Site;
use tidegate_http::event_shape::EventShape;
use tidegate_http::input::StrictQuery;
use tokio::sync::OwnedSemaphorePermit;

use self::csv::{BYTE_ORDER_MARK, amount, write_row};
use super::audit_log::AuditLogQuery;
use crate::console::OperatorSession;
use crate::console::listing::{PathId, not_found};
use crate::page::PageError;

/// Rows read from the ledger at once.
const PAGE_ROWS: u32 = 500;

/// Rows as CSV text, and the cursor of the next page.
type Rows = Result<(String, Option<u64>), Refusal>;
type Fetch = Box<dyn Fn(Arc<App>, Page) -> BoxFuture<'static, Rows> + Send>;

/// State of a running export.
struct Export {
    app: Arc<App>,
    fetch: Fetch,
    /// `None` when the export is complete.
    next: Option<Next>,
    /// Limits the number of concurrent exports.
    _permit: OwnedSemaphorePermit,
}

enum Next {
    Header(String),
    /// Rows older than this cursor.
    Rows(Option<u64>),
}

impl Export {
    async fn step(mut self) -> Option<(Result<String, axum::Error>, Self)> {
        match self.next.take()? {
            Next::Header(header) => {
                self.next = Some(Next::Rows(None));
                Some((Ok(header), self))
            }
            Next::Rows(before) => {
                let page = Page { before, limit: PAGE_ROWS };
                let rows = (self.fetch)(self.app.clone(), page).await;
                let chunk = rows.map(|(text, older)| {
                    self.next = older.map(|older| Next::Rows(Some(older)));
                    text
                });
                Some((chunk.map_err(axum::Error::new), self))
            }
        }
    }
}

fn download(site: &Site, name: &str, columns: &[&str], fetch: Fetch) -> Result<Response, PageError> {
    let permit = site.exports.clone().try_acquire_owned().map_err(|_| Rejection::Busy)?;
    let mut text = BYTE_ORDER_MARK.to_owned();
    write_row(&mut text, columns.iter().copied());
    let export = Export { app: site.app.clone(), fetch, next: Some(Next::Header(text)), _permit: permit };
    let headers = [
        (header::CONTENT_TYPE, "text/csv; charset=utf-8".to_owned()),
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{name}.csv\"")),
    ];
    Ok((headers, Body::from_stream(unfold(export, Export::step))).into_response())
}

/// The rows as CSV text, and the cursor of the next page if this page is full.
fn to_csv<T>(
    rows: &[T],
    id: impl Fn(&T) -> u64,
    mut write: impl FnMut(&mut String, &T),
) -> (String, Option<u64>) {
    let mut text = String::new();
    for row in rows {
        write(&mut text, row);
    }
    (text, rows.last().filter(|_| rows.len() == PAGE_ROWS as usize).map(id))
}

const ORDER_COLUMNS: &[&str] = &[
    "order_id",
    "buyer_id",
    "state",
    "reason",
    "quantity",
    "units",
    "unit_price",
    "total",
    "currency",
    "created_at",
    "pay_by",
    "updated_at",
];

pub(crate) async fn orders(
    State(site): State<Site>,
    _: OperatorSession,
    PathId(id): PathId<CampaignId>,
) -> Result<Response, PageError> {
    site.app.campaigns.find(id).await?.sale().ok_or_else(not_found)?;
    let fetch: Fetch = Box::new(move |app, page| {
        Box::pin(async move {
            let found = app.ordering.orders(OrderFilter { campaign: Some(id), state: None }, page).await?;
            Ok(to_csv(&found, |order| order.id.raw(), |text, order| order_row(text, &app, order)))
        })
    });
    download(&site, &format!("orders-{}", site.app.print(id)), ORDER_COLUMNS, fetch)
}

fn order_row(text: &mut String, app: &App, order: &Order) {
    let units: Vec<String> = order.slots.iter().map(|slot| slot.to_string()).collect();
    let cells = [
        app.print(order.id),
        app.print(order.user),
        order.state.as_str().to_owned(),
        order.reason.map(Rejection::code).unwrap_or_default().to_owned(),
        order.quantity().to_string(),
        units.join(" "),
        amount(order.unit_price),
        amount(order.total()),
        order.unit_price.currency.as_str().to_owned(),
        order.created_at.to_string(),
        order.pay_by.to_string(),
        order.updated_at.to_string(),
    ];
    write_row(text, cells.iter().map(String::as_str));
}

const PLAY_COLUMNS: &[&str] = &[
    "play_id",
    "player_id",
    "number",
    "seat",
    "state",
    "won",
    "prize_id",
    "prize",
    "prize_kind",
    "client_seed",
    "created_at",
];

pub(crate) async fn plays(
    State(site): State<Site>,
    _: OperatorSession,
    PathId(id): PathId<DrawId>,
) -> Result<Response, PageError> {
    let campaign = site.app.campaigns.find(id.campaign()).await?;
    let draw = campaign.draw().ok_or_else(not_found)?.clone();
    let fetch: Fetch = Box::new(move |app, page| {
        let draw = draw.clone();
        Box::pin(async move {
            let found = app.plays.all(Some(id.campaign()), page).await?;
            Ok(to_csv(&found, |play| play.id.raw(), |text, play| play_row(text, &app, &draw, play)))
        })
    });
    download(&site, &format!("plays-{}", site.app.print(id)), PLAY_COLUMNS, fetch)
}

fn play_row(text: &mut String, app: &App, draw: &Draw, play: &Play) {
    let prize = play.prize.and_then(|number| draw.prize(number));
    let cells = [
        app.print(play.id),
        app.print(play.user),
        play.place.map(|(number, _)| number.to_string()).unwrap_or_default(),
        play.seat.to_string(),
        play.state.as_str().to_owned(),
        if play.prize.is_some() { "yes" } else { "no" }.to_owned(),
        play.prize.map(|number| number.to_string()).unwrap_or_default(),
        prize.map(|prize| prize.name.clone()).unwrap_or_default(),
        prize.map(|prize| prize.kind.as_str()).unwrap_or_default().to_owned(),
        play.client_seed.clone(),
        play.created_at.to_string(),
    ];
    write_row(text, cells.iter().map(String::as_str));
}

const AUDIT_LOG_COLUMNS: &[&str] =
    &["event_id", "at", "actor", "kind", "subject", "sale_id", "draw_id", "detail"];

pub(crate) async fn audit_log(
    State(site): State<Site>,
    _: OperatorSession,
    StrictQuery(query): StrictQuery<AuditLogQuery>,
) -> Result<Response, PageError> {
    let campaign = query.campaign(&site.app)?;
    let fetch: Fetch = Box::new(move |app, page| {
        Box::pin(async move {
            let found = app.events.list(campaign, page).await?;
            let write =
                |text: &mut String, event: &Event| event_row(text, &EventShape::of(&app, event.clone()));
            Ok(to_csv(&found, |event| event.id, write))
        })
    });
    download(&site, "log", AUDIT_LOG_COLUMNS, fetch)
}

fn event_row(text: &mut String, event: &EventShape) {
    let or_empty = |text: &Option<String>| text.clone().unwrap_or_default();
    let cells = [
        event.id.clone(),
        event.at.clone(),
        event.actor.clone(),
        event.kind.to_string(),
        event.subject.clone(),
        or_empty(&event.sale_id),
        or_empty(&event.draw_id),
        or_empty(&event.detail),
    ];
    write_row(text, cells.iter().map(String::as_str));
}
