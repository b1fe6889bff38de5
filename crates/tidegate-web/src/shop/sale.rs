//! The page of a sale, with one view for each state of sale and buyer.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use tidegate_app::App;
use tidegate_app::challenges::Task;
use tidegate_app::digest;
use tidegate_app::ledger_types::Page as Rows;
use tidegate_app::random;
use tidegate_app::storefront::SaleView;
use tidegate_app::waiting_rooms::{PlaceState, WaitingPlace};
use tidegate_core::campaign::Challenge;
use tidegate_core::{CampaignId, Order, Phase, UserId};
use tidegate_http::Site;
use tidegate_http::input::{Id, StrictQuery};

use super::messages::{CodeMessage, all_messages, message};
use super::orders::order_badge;
use super::sale_forms::is_key;
use super::sale_views::{View, ViewInputs};
use super::{PageContext, Visitor};
use crate::badge::Badge;
use crate::format::{ItemImage, Timestamp, money, original_price};
use crate::i18n::phrases::shop::ShopPhrases;
use crate::page::{PageError, render};

#[derive(Template)]
#[template(path = "sale.html")]
pub(crate) struct SalePage {
    pub(crate) page: PageContext,
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) image: ItemImage,
    pub(crate) price: String,
    pub(crate) original_price: Option<String>,
    pub(crate) limit: u32,
    pub(crate) pay_minutes: u32,
    pub(crate) stock: u32,
    pub(crate) left: u32,
    pub(crate) view: View,
    pub(crate) starts: Timestamp,
    pub(crate) ends: Timestamp,
    pub(crate) starts_ms: i64,
    /// `none`, `pow` or `image`.
    pub(crate) challenge: &'static str,
    pub(crate) needs_pass: bool,
    pub(crate) waiting_room: bool,
    pub(crate) unpaid: u32,
    /// Units are available again after all had been taken.
    pub(crate) returned: bool,
    pub(crate) place: Option<PlaceView>,
    /// Largest quantity of one order.
    pub(crate) max_quantity: u32,
    pub(crate) own_orders: Vec<OwnOrder>,
    /// Idempotency key of the form.
    pub(crate) key: String,
    /// Id and picture of a challenge, for buyers without JavaScript who requested one.
    pub(crate) picture: Option<(String, String)>,
    pub(crate) message: Option<String>,
    pub(crate) messages: Vec<CodeMessage>,
    /// Commitment of the draw that orders the waiting room.
    pub(crate) shuffle: Option<String>,
}

impl SalePage {
    /// The place in the waiting room; `None` before the start, when there is no order yet.
    fn position(&self) -> Option<usize> {
        self.place.as_ref()?.position
    }

    /// Path of the buyer's newest order in this sale.
    fn own_order_path(&self) -> String {
        self.own_orders.first().map_or_else(|| "/orders".into(), |order| format!("/orders/{}", order.id))
    }
}

/// A place in the waiting room, formatted for display.
#[derive(Debug)]
pub(crate) struct PlaceView {
    pub(crate) position: Option<usize>,
    pub(crate) chance: u32,
    pub(crate) eta_s: u64,
    pub(crate) hopeless: bool,
    pub(crate) pass: Option<(String, i64)>,
}

impl PlaceView {
    fn of(place: &WaitingPlace) -> Self {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 100")]
        let chance = (place.chance * 100.0).round() as u32;
        Self {
            position: place.position,
            chance,
            eta_s: place.eta.as_secs(),
            hopeless: place.state == PlaceState::Hopeless,
            pass: place.pass.as_ref().map(|pass| (pass.pass.clone(), pass.expires_at.millis())),
        }
    }
}

/// An order of this buyer in this sale.
#[derive(Debug)]
pub(crate) struct OwnOrder {
    pub(crate) id: String,
    pub(crate) quantity: u32,
    pub(crate) state: Badge,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(crate) struct SaleQuery {
    /// Problem code of the last form.
    said: String,
    /// Key of a form whose outcome is unknown.
    key: String,
    picture: bool,
}

/// Newest orders of the buyer that are searched for orders of this sale.
const SEARCHED_ORDERS: u32 = 50;

pub(crate) async fn show(
    State(site): State<Site>,
    visitor: Visitor,
    Id(id): Id<CampaignId>,
    StrictQuery(query): StrictQuery<SaleQuery>,
) -> Result<Response, PageError> {
    let (app, Visitor { page, user }) = (&site.app, visitor);
    let view = app.storefront.sale(id).await?;
    app.meters.visited(id);
    let t = page.t;
    let mut sale = of(app, page, &view)?;
    if view.phase == Phase::Live && view.left <= sale.stock / 10 {
        sale.returned = view.left <= app.campaigns.counters(&view.sale).await?.tally.returned;
    }
    let mut place = None;
    if let Some(user) = user {
        (sale.max_quantity, sale.own_orders) = holdings(app, t, user, &view).await?;
        // An error means that the buyer has no place, or that the sale is over.
        place = app.waiting_rooms.place_of(user, &view.sale).await.ok().filter(|_| sale.waiting_room);
        if query.picture {
            sale.picture = picture(app, user, &view).await?;
        }
    }
    let inputs = ViewInputs {
        phase: view.phase,
        signed_in: user.is_some(),
        allowance: sale.max_quantity,
        unpaid: sale.unpaid,
        place: place.as_ref(),
    };
    sale.view = inputs.view();
    sale.place = place.as_ref().map(PlaceView::of);
    sale.max_quantity = sale.max_quantity.min(view.left.max(1)).min(tidegate_core::limits::MAX_QUANTITY);
    sale.message = message(t, &query.said, sale.limit);
    if is_key(&query.key) {
        sale.key = query.key;
    }
    Ok(render(&sale))
}

/// The page for a visitor who is not signed in.
fn of(app: &App, page: PageContext, view: &SaleView) -> Result<SalePage, PageError> {
    let SaleView { sale, terms, item, phase, left, unpaid } = view;
    let protect = &sale.protect;
    let key = random::secret().map_err(|error| tidegate_app::Refusal::Unavailable(error.to_string()))?;
    Ok(SalePage {
        id: app.print(sale.id),
        name: item.name.clone(),
        description: item.description.clone(),
        image: ItemImage::of(item),
        price: money(terms.price),
        original_price: original_price(item.price, terms.price),
        limit: sale.per_user_limit,
        pay_minutes: terms.pay_within_s.div_ceil(60),
        stock: sale.stock,
        left: *left,
        view: ViewInputs { phase: *phase, signed_in: false, allowance: 0, unpaid: 0, place: None }.view(),
        starts: Timestamp(sale.window.starts_at),
        ends: Timestamp(sale.window.ends_at),
        starts_ms: sale.window.starts_at.millis(),
        challenge: Challenge::as_str(protect.challenge),
        needs_pass: protect.needs_pass(),
        waiting_room: protect.admit_per_s.is_some(),
        unpaid: unpaid.unwrap_or(0),
        returned: false,
        place: None,
        max_quantity: sale.per_user_limit,
        own_orders: Vec::new(),
        key: digest::token("page-", &key[..16]),
        picture: None,
        message: None,
        messages: all_messages(page.t, sale.per_user_limit),
        shuffle: app.waiting_rooms.shuffle_of(sale).map(|shuffle| shuffle.commitment),
        page,
    })
}

/// How many units the buyer may still order in this sale, and the orders they have.
async fn holdings(
    app: &App,
    t: &ShopPhrases,
    user: UserId,
    view: &SaleView,
) -> Result<(u32, Vec<OwnOrder>), PageError> {
    // Most buyers have nothing here. The gate knows that without a query.
    if app.ordering.never_claimed(user, view.sale.id).await {
        return Ok((view.sale.per_user_limit, Vec::new()));
    }
    let orders = app.ordering.orders_of_buyer(user, Rows { before: None, limit: SEARCHED_ORDERS }).await?;
    let here: Vec<&Order> = orders.iter().filter(|order| order.campaign == view.sale.id).collect();
    let held: u32 = here.iter().filter(|order| order.state.is_active()).map(|order| order.quantity()).sum();
    let own = here.iter().map(|order| OwnOrder {
        id: app.print(order.id),
        quantity: order.quantity(),
        state: order_badge(t, order.state),
    });
    Ok((view.sale.per_user_limit.saturating_sub(held), own.collect()))
}

async fn picture(app: &App, user: UserId, view: &SaleView) -> Result<Option<(String, String)>, PageError> {
    if view.sale.protect.challenge != Challenge::Image {
        return Ok(None);
    }
    let offer = app.challenges.issue(user, &view.sale).await?;
    Ok(match offer.task {
        Task::Image(picture) => Some((offer.id, picture)),
        Task::Pow(_) => None,
    })
}
