//! A sale's page: every state a view of its own, and what a buyer can do there without a script.

use std::time::Instant;

use askama::Template;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use tidegate_core::campaign::Challenge;
use tidegate_core::{CampaignId, Order, Phase, UserId};
use tidegate_store::ledger::Page as Rows;

use super::super::Site;
use super::super::attempt::Attempt;
use super::super::input::{Asked, Id};
use super::super::orders::count;
use super::super::problem::Problem;
use super::format::{Art, When, money};
use super::forms::Form;
use super::orders::{StateWord, state_word};
use super::phrases::Phrase;
use super::phrases::shop::Shop;
use super::sale_views::{Facts, View};
use super::{Page, Trouble, Visit, see, shown};
use crate::chance;
use crate::ops::App;
use crate::ops::challenges::Task;
use crate::ops::orders::Placed;
use crate::ops::queue::{QueuePlace, QueueState};
use crate::ops::sales::SaleView;

#[derive(Template)]
#[template(path = "sale.html")]
pub(super) struct SalePage {
    pub(super) page: Page,
    pub(super) id: String,
    pub(super) name: String,
    pub(super) description: String,
    pub(super) art: Art,
    pub(super) price: String,
    pub(super) was: Option<String>,
    pub(super) limit: u32,
    pub(super) pay_minutes: u32,
    pub(super) stock: u32,
    pub(super) left: u32,
    pub(super) view: View,
    pub(super) starts: When,
    pub(super) ends: When,
    pub(super) starts_ms: i64,
    pub(super) now_ms: i64,
    /// `none`, `pow` or `image`.
    pub(super) challenge: &'static str,
    pub(super) needs_pass: bool,
    pub(super) waiting_room: bool,
    pub(super) unpaid: u32,
    /// Units came back after all were taken.
    pub(super) returned: bool,
    pub(super) place: Option<Place>,
    /// The most one order may ask for.
    pub(super) most: u32,
    pub(super) mine: Vec<Mine>,
    /// Sent with the form, so that sending it twice orders once.
    pub(super) key: String,
    /// For buyers without scripts, if they asked for it: a challenge's id and picture.
    pub(super) picture: Option<(String, String)>,
    pub(super) said: Option<Phrase>,
    pub(super) shuffle: Option<String>,
}

/// A place in line, in words.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) position: Option<usize>,
    pub(super) chance: u32,
    pub(super) eta_s: u64,
    pub(super) hopeless: bool,
    pub(super) pass: Option<(String, i64)>,
}

impl Place {
    fn of(place: &QueuePlace) -> Self {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 100")]
        let chance = (place.chance * 100.0).round() as u32;
        Self {
            position: place.position,
            chance,
            eta_s: place.eta.as_secs(),
            hopeless: place.state == QueueState::Hopeless,
            pass: place.pass.as_ref().map(|pass| (pass.pass.clone(), pass.expires_at.millis())),
        }
    }
}

/// An order this buyer has here.
#[derive(Debug)]
pub(super) struct Mine {
    pub(super) id: String,
    pub(super) quantity: u32,
    pub(super) state: StateWord,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct SaleQuery {
    /// What the last form was answered.
    said: String,
    picture: bool,
}

/// Orders of one buyer that are looked through for those of this sale.
const LOOKED_THROUGH: u32 = 50;

pub(super) async fn show(
    State(site): State<Site>,
    visit: Visit,
    Id(id): Id<CampaignId>,
    Asked(query): Asked<SaleQuery>,
) -> Result<Response, Trouble> {
    let (app, Visit { page, user }) = (&site.app, visit);
    let view = app.sale(id).await?;
    app.visited(id);
    let w = page.w;
    let mut sale = of(app, page, &view)?;
    if view.phase == Phase::Live && view.left <= sale.stock / 10 {
        sale.returned = view.left <= app.counters(&view.sale).await?.tally.returned;
    }
    let mut place = None;
    if let Some(user) = user {
        (sale.most, sale.mine) = holdings(app, w, user, &view).await?;
        // Whoever has no place is told so by an error, and so is whoever came too late.
        place = app.place_of(user, &view.sale).await.ok().filter(|_| sale.waiting_room);
        if query.picture {
            sale.picture = picture(app, user, &view).await?;
        }
    }
    let facts = Facts {
        phase: view.phase,
        signed_in: user.is_some(),
        may_have: sale.most,
        unpaid: sale.unpaid,
        place: place.as_ref(),
    };
    sale.view = facts.view();
    sale.place = place.as_ref().map(Place::of);
    sale.most = sale.most.min(view.left.max(1)).min(tidegate_core::limits::MAX_QUANTITY);
    sale.said = said(w, &query.said);
    Ok(shown(&sale))
}

/// The page for somebody who is not signed in.
fn of(app: &App, page: Page, view: &SaleView) -> Result<SalePage, Trouble> {
    let SaleView { sale, terms, item, phase, left, unpaid } = view;
    let protect = &sale.protect;
    let reduced = item.price.amount > terms.price.amount && item.price.currency == terms.price.currency;
    let key = chance::secret().map_err(|error| crate::ops::Refusal::Unavailable(error.to_string()))?;
    Ok(SalePage {
        page,
        id: app.print(sale.id),
        name: item.name.clone(),
        description: item.description.clone(),
        art: Art::of(item),
        price: money(terms.price),
        was: reduced.then(|| money(item.price)),
        limit: sale.per_user_limit,
        pay_minutes: terms.pay_within_s.div_ceil(60),
        stock: sale.stock,
        left: *left,
        view: Facts { phase: *phase, signed_in: false, may_have: 0, unpaid: 0, place: None }.view(),
        starts: When(sale.window.starts_at),
        ends: When(sale.window.ends_at),
        starts_ms: sale.window.starts_at.millis(),
        now_ms: app.now().millis(),
        challenge: Challenge::as_str(protect.challenge),
        needs_pass: protect.needs_pass(),
        waiting_room: protect.admit_per_s.is_some(),
        unpaid: unpaid.unwrap_or(0),
        returned: false,
        place: None,
        most: sale.per_user_limit,
        mine: Vec::new(),
        key: chance::token("page-", &key[..16]),
        picture: None,
        said: None,
        shuffle: app.shuffle_of(sale).map(|shuffle| shuffle.commitment),
    })
}

/// What a buyer may still have here, and has.
async fn holdings(app: &App, w: &Shop, user: UserId, view: &SaleView) -> Result<(u32, Vec<Mine>), Trouble> {
    let orders = app.orders_of_buyer(user, Rows { before: None, limit: LOOKED_THROUGH }).await?;
    let here: Vec<&Order> = orders.iter().filter(|order| order.campaign == view.sale.id).collect();
    let held: u32 = here.iter().filter(|order| order.state.is_active()).map(|order| order.quantity()).sum();
    let mine = here.iter().map(|order| Mine {
        id: app.print(order.id),
        quantity: order.quantity(),
        state: state_word(w, order.state),
    });
    Ok((view.sale.per_user_limit.saturating_sub(held), mine.collect()))
}

async fn picture(app: &App, user: UserId, view: &SaleView) -> Result<Option<(String, String)>, Trouble> {
    if view.sale.protect.challenge != Challenge::Image {
        return Ok(None);
    }
    let offer = app.challenge(user, &view.sale).await?;
    Ok(match offer.task {
        Task::Image(picture) => Some((offer.id, picture)),
        Task::Pow(_) => None,
    })
}

fn said(w: &Shop, code: &str) -> Option<Phrase> {
    Some(match code {
        "" => return None,
        "sold_out" => w.said_sold_out,
        "limit_reached" => w.said_limit,
        "not_started" => w.said_not_started,
        "paused" => w.said_paused,
        "ended" => w.said_ended,
        "rate_limited" => w.slower_text,
        "pass_required" | "pass_invalid" => w.said_pass,
        "challenge_required" | "challenge_failed" | "challenge_used" | "challenge_expired"
        | "challenge_invalid" => w.said_challenge,
        _ => w.busy_text,
    })
}

/// What a form was answered is shown on the page it came from.
fn answered(id: &str, outcome: Result<String, Problem>) -> Response {
    match outcome {
        Ok(path) => see(&path),
        Err(problem) if problem.code() == "unauthenticated" => see(&format!("/sign-in?next=/sales/{id}")),
        Err(problem) => see(&format!("/sales/{id}?said={}", problem.code())),
    }
}

/// Orders, for whoever has no script.
pub(super) async fn buy(
    State(site): State<Site>,
    Id(id): Id<CampaignId>,
    headers: HeaderMap,
    form: Form,
) -> Response {
    let started = Instant::now();
    let outcome = try_buy(&site, id, &headers, &form).await;
    count(&site, id, &outcome, started);
    let placed = outcome.map(|placed| format!("/orders/{}", site.app.print(placed.order.id)));
    answered(&site.app.print(id), placed)
}

async fn try_buy(site: &Site, id: CampaignId, headers: &HeaderMap, form: &Form) -> Result<Placed, Problem> {
    let app = &site.app;
    let sale = app.open_campaign(id, app.now()).await?;
    let attempt = Attempt::admit(site, &sale, headers).await?;
    let quantity = form.number("quantity").and_then(|quantity| u32::try_from(quantity).ok()).unwrap_or(1);
    let quantity = quantity.clamp(1, tidegate_core::limits::MAX_QUANTITY);
    let mut pass = form.given("pass").map(str::to_owned);
    if pass.is_none() && sale.protect.needs_pass() {
        let answer = form.given("challenge_id").zip(form.given("answer"));
        pass = Some(app.issue_pass(attempt.user, &sale, answer).await?.pass);
    }
    let key = form.given("key").map(App::key);
    Ok(app.place(attempt.user, &sale, quantity, key, pass.as_deref()).await?)
}

/// Joins the waiting room, for whoever has no script.
pub(super) async fn join(
    State(site): State<Site>,
    visit: Visit,
    Id(id): Id<CampaignId>,
    form: Form,
) -> Response {
    let outcome = async {
        let (_, user) = visit.own().map_err(|Trouble(problem)| problem)?;
        let sale = site.app.campaign_ahead(id).await?;
        let answer = form.given("challenge_id").zip(form.given("answer"));
        site.app.join_queue(user, &sale, answer).await?;
        Ok(format!("/sales/{}", site.app.print(id)))
    };
    answered(&site.app.print(id), outcome.await)
}

/// A calendar entry with an alarm five minutes before the start.
pub(super) async fn reminder(
    State(site): State<Site>,
    visit: Visit,
    Id(id): Id<CampaignId>,
    headers: HeaderMap,
) -> Result<Response, Trouble> {
    let view = site.app.sale(id).await?;
    let (id, w) = (site.app.print(id), visit.page.w);
    let time = |moment: tidegate_core::Moment| {
        let text: String = moment.to_string().chars().filter(char::is_ascii_alphanumeric).take(15).collect();
        text + "Z"
    };
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or("localhost");
    let text = [
        "BEGIN:VCALENDAR",
        "VERSION:2.0",
        "PRODID:-//Tidegate//EN",
        "BEGIN:VEVENT",
        &format!("UID:{id}@tidegate"),
        &format!("DTSTAMP:{}", time(site.app.now())),
        &format!("DTSTART:{}", time(view.sale.window.starts_at)),
        &format!("SUMMARY:{}", in_calendar(&w.reminder_summary.with(&view.item.name))),
        &format!("DESCRIPTION:{}", in_calendar(&format!("{host}/sales/{id}"))),
        "BEGIN:VALARM",
        "TRIGGER:-PT5M",
        "ACTION:DISPLAY",
        &format!("DESCRIPTION:{}", in_calendar(&view.item.name)),
        "END:VALARM",
        "END:VEVENT",
        "END:VCALENDAR",
        "",
    ]
    .join("\r\n");
    let file = format!("attachment; filename=\"sale-{id}.ics\"");
    let headers =
        [(header::CONTENT_TYPE, "text/calendar; charset=utf-8"), (header::CONTENT_DISPOSITION, &file)];
    Ok((headers, text).into_response())
}

/// Text as calendars read it.
fn in_calendar(text: &str) -> String {
    text.replace('\\', "\\\\").replace(';', "\\;").replace(',', "\\,").replace('\n', "\\n").replace('\r', "")
}
