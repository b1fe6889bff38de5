//! A sale's page: every state a view of its own, and what a buyer can do there without a script.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use tidegate_core::campaign::Challenge;
use tidegate_core::{CampaignId, Order, Phase, UserId};
use tidegate_store::ledger::Page as Rows;

use super::super::Site;
use super::super::input::{Asked, Id};
use super::format::{Art, When, money, reduced};
use super::orders::{StateWord, state_word};
use super::phrases::Phrase;
use super::phrases::shop::Shop;
use super::refusals::{Sentence, said, sentences};
use super::sale_forms::is_key;
use super::sale_views::{Facts, View};
use super::{Page, Trouble, Visit, shown};
use crate::chance;
use crate::ops::App;
use crate::ops::challenges::Task;
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
    pub(super) sentences: Vec<Sentence>,
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
    /// The key of a form whose outcome is not clear.
    key: String,
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
    if is_key(&query.key) {
        sale.key = query.key;
    }
    Ok(shown(&sale))
}

/// The page for somebody who is not signed in.
fn of(app: &App, page: Page, view: &SaleView) -> Result<SalePage, Trouble> {
    let SaleView { sale, terms, item, phase, left, unpaid } = view;
    let protect = &sale.protect;
    let key = chance::secret().map_err(|error| crate::ops::Refusal::Unavailable(error.to_string()))?;
    Ok(SalePage {
        id: app.print(sale.id),
        name: item.name.clone(),
        description: item.description.clone(),
        art: Art::of(item),
        price: money(terms.price),
        was: reduced(item.price, terms.price),
        limit: sale.per_user_limit,
        pay_minutes: terms.pay_within_s.div_ceil(60),
        stock: sale.stock,
        left: *left,
        view: Facts { phase: *phase, signed_in: false, may_have: 0, unpaid: 0, place: None }.view(),
        starts: When(sale.window.starts_at),
        ends: When(sale.window.ends_at),
        starts_ms: sale.window.starts_at.millis(),
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
        sentences: sentences(page.w),
        shuffle: app.shuffle_of(sale).map(|shuffle| shuffle.commitment),
        page,
    })
}

/// What a buyer may still have here, and has.
async fn holdings(app: &App, w: &Shop, user: UserId, view: &SaleView) -> Result<(u32, Vec<Mine>), Trouble> {
    // Most have nothing here, and the gate knows it.
    if app.holds_nothing(user, view.sale.id).await {
        return Ok((view.sale.per_user_limit, Vec::new()));
    }
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
