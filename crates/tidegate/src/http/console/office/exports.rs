//! Lists to take away: a sale's orders, a draw's plays, the log. Written page by page, so that a long one takes no more
//! memory than a short one.
//!
//! What always holds: nobody's address is in them; a list that breaks off in the middle breaks the download, too.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_util::future::BoxFuture;
use futures_util::stream::unfold;
use tidegate_core::{CampaignId, Draw, DrawId, Order, Play, Rejection};
use tidegate_store::ledger::Page;
use tidegate_store::ledger::sql::{Event, OrderFilter};
use tokio::sync::OwnedSemaphorePermit;

use super::csv::{BYTE_ORDER_MARK, amount, write_row};
use super::log::LogQuery;
use super::{Named, lost};
use crate::http::Site;
use crate::http::console::AtDesk;
use crate::http::input::Asked;
use crate::http::pages::Trouble;
use crate::http::shapes::EventShape;
use crate::ops::{App, Refusal};

/// Rows read at once.
const ROWS: u32 = 500;

/// Some rows as text, and where the next begin.
type Rows = Result<(String, Option<u64>), Refusal>;
type Fetch = Box<dyn Fn(Arc<App>, Page) -> BoxFuture<'static, Rows> + Send>;

/// A list on its way out.
struct Export {
    app: Arc<App>,
    fetch: Fetch,
    /// What is to be said next: the head, then what is older than this; nothing any more.
    next: Option<Next>,
    _place: OwnedSemaphorePermit,
}

enum Next {
    Head(String),
    Rows(Option<u64>),
}

impl Export {
    async fn step(mut self) -> Option<(Result<String, axum::Error>, Self)> {
        match self.next.take()? {
            Next::Head(head) => {
                self.next = Some(Next::Rows(None));
                Some((Ok(head), self))
            }
            Next::Rows(before) => {
                let page = Page { before, limit: ROWS };
                let rows = (self.fetch)(self.app.clone(), page).await;
                let said = rows.map(|(text, older)| {
                    self.next = older.map(|older| Next::Rows(Some(older)));
                    text
                });
                Some((said.map_err(axum::Error::new), self))
            }
        }
    }
}

fn download(site: &Site, name: &str, head: &[&str], fetch: Fetch) -> Result<Response, Trouble> {
    let place = site.exports.clone().try_acquire_owned().map_err(|_| Rejection::Busy)?;
    let mut text = BYTE_ORDER_MARK.to_owned();
    write_row(&mut text, head.iter().copied());
    let export = Export { app: site.app.clone(), fetch, next: Some(Next::Head(text)), _place: place };
    let headers = [
        (header::CONTENT_TYPE, "text/csv; charset=utf-8".to_owned()),
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{name}.csv\"")),
    ];
    Ok((headers, Body::from_stream(unfold(export, Export::step))).into_response())
}

/// These rows as text, and where the next begin if this page is full.
fn written<T>(
    rows: &[T],
    id: impl Fn(&T) -> u64,
    mut write: impl FnMut(&mut String, &T),
) -> (String, Option<u64>) {
    let mut text = String::new();
    for row in rows {
        write(&mut text, row);
    }
    (text, rows.last().filter(|_| rows.len() == ROWS as usize).map(id))
}

const ORDER_HEAD: &[&str] = &[
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

pub(super) async fn orders(
    State(site): State<Site>,
    _: AtDesk,
    Named(id): Named<CampaignId>,
) -> Result<Response, Trouble> {
    site.app.campaign(id).await?.sale().ok_or_else(lost)?;
    let fetch: Fetch = Box::new(move |app, page| {
        Box::pin(async move {
            let found = app.orders(OrderFilter { campaign: Some(id), state: None }, page).await?;
            Ok(written(&found, |order| order.id.raw(), |text, order| order_row(text, &app, order)))
        })
    });
    download(&site, &format!("orders-{}", site.app.print(id)), ORDER_HEAD, fetch)
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

const PLAY_HEAD: &[&str] = &[
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

pub(super) async fn plays(
    State(site): State<Site>,
    _: AtDesk,
    Named(id): Named<DrawId>,
) -> Result<Response, Trouble> {
    let campaign = site.app.campaign(id.campaign()).await?;
    let draw = campaign.draw().ok_or_else(lost)?.clone();
    let fetch: Fetch = Box::new(move |app, page| {
        let draw = draw.clone();
        Box::pin(async move {
            let found = app.plays(Some(id.campaign()), page).await?;
            Ok(written(&found, |play| play.id.raw(), |text, play| play_row(text, &app, &draw, play)))
        })
    });
    download(&site, &format!("plays-{}", site.app.print(id)), PLAY_HEAD, fetch)
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

const LOG_HEAD: &[&str] = &["event_id", "at", "actor", "kind", "subject", "sale_id", "draw_id", "detail"];

pub(super) async fn log(
    State(site): State<Site>,
    _: AtDesk,
    Asked(query): Asked<LogQuery>,
) -> Result<Response, Trouble> {
    let campaign = query.campaign(&site.app)?;
    let fetch: Fetch = Box::new(move |app, page| {
        Box::pin(async move {
            let found = app.events(campaign, page).await?;
            let write =
                |text: &mut String, event: &Event| log_row(text, &EventShape::of(&app, event.clone()));
            Ok(written(&found, |event| event.id, write))
        })
    });
    download(&site, "log", LOG_HEAD, fetch)
}

fn log_row(text: &mut String, event: &EventShape) {
    let or_nothing = |text: &Option<String>| text.clone().unwrap_or_default();
    let cells = [
        event.id.clone(),
        event.at.clone(),
        event.actor.clone(),
        event.kind.clone(),
        event.subject.clone(),
        or_nothing(&event.sale_id),
        or_nothing(&event.draw_id),
        or_nothing(&event.detail),
    ];
    write_row(text, cells.iter().map(String::as_str));
}
