//! The home page: live, upcoming and ended sales and draws.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use tidegate_app::App;
use tidegate_app::storefront::DrawView;
use tidegate_app::storefront::SaleView;
use tidegate_core::{Moment, Phase};
use tidegate_http::Site;

use super::{PageContext, Visitor};
use crate::badge::Badge;
use crate::format::{ItemImage, Timestamp, grouped, money, original_price};
use crate::i18n::phrases::shop::ShopPhrases;
use crate::page::{PageError, render};

#[derive(Template)]
#[template(path = "home.html")]
pub(crate) struct HomePage {
    pub(crate) page: PageContext,
    pub(crate) live: Vec<Offer>,
    pub(crate) upcoming: Vec<Offer>,
    pub(crate) ended: Vec<Offer>,
}

/// A sale or draw as a card.
#[derive(Debug)]
pub(crate) struct Offer {
    pub(crate) href: String,
    pub(crate) name: String,
    pub(crate) image: ItemImage,
    pub(crate) state: Badge,
    pub(crate) price: Option<String>,
    pub(crate) original_price: Option<String>,
    /// Label of what is left, and value and maximum of its progress bar.
    pub(crate) left: Option<(String, u32, u32)>,
    pub(crate) starts: Option<(Timestamp, i64)>,
}

/// Ended sales and draws on the page.
const MAX_ENDED: usize = 8;

pub(crate) async fn home(State(site): State<Site>, visitor: Visitor) -> Result<Response, PageError> {
    let (app, page) = (&site.app, visitor.page);
    let window = app.storefront.listing().await?;
    let (mut live, mut upcoming, mut ended) = (Vec::new(), Vec::new(), Vec::new());
    let sales =
        window.sales.iter().map(|view| (view.phase, view.sale.window.starts_at, of_sale(app, page.t, view)));
    let draws = window
        .draws
        .iter()
        .map(|view| (view.phase, view.campaign.window.starts_at, of_draw(app, page.t, view)));
    for (phase, starts_at, offer) in sales.chain(draws) {
        match phase {
            Phase::Live | Phase::Paused => live.push(offer),
            Phase::Upcoming => upcoming.push((starts_at, offer)),
            Phase::SoldOut | Phase::Ended => ended.push(offer),
        }
    }
    upcoming.sort_by_key(|(starts_at, _)| *starts_at);
    ended.truncate(MAX_ENDED);
    let upcoming = upcoming.into_iter().map(|(_, offer)| offer).collect();
    Ok(render(&HomePage { page, live, upcoming, ended }))
}

fn of_sale(app: &App, t: &ShopPhrases, view: &SaleView) -> Offer {
    let SaleView { sale, terms, item, phase, left, .. } = view;
    Offer {
        href: format!("/sales/{}", app.print(sale.id)),
        name: item.name.clone(),
        image: ItemImage::of(item),
        state: phase_badge(t, *phase),
        price: Some(money(terms.price)),
        original_price: original_price(item.price, terms.price),
        left: (*phase == Phase::Live)
            .then(|| (t.units_left.with(grouped((*left).into())), *left, sale.stock)),
        starts: starts(*phase, sale.window.starts_at),
    }
}

fn of_draw(app: &App, t: &ShopPhrases, view: &DrawView) -> Offer {
    let (campaign, left) = (&view.campaign, view.seats_left);
    Offer {
        href: format!("/draws/{}", app.print(campaign.id.as_draw())),
        name: view.draw.name.clone(),
        image: ItemImage::placeholder(&view.draw.name),
        state: phase_badge(t, view.phase),
        price: None,
        original_price: None,
        left: (view.phase == Phase::Live)
            .then(|| (t.seats_left.with(grouped(left.into())), left, campaign.stock)),
        starts: starts(view.phase, campaign.window.starts_at),
    }
}

fn starts(phase: Phase, at: Moment) -> Option<(Timestamp, i64)> {
    (phase == Phase::Upcoming).then(|| (Timestamp(at), at.millis()))
}

pub(crate) fn phase_badge(t: &ShopPhrases, phase: Phase) -> Badge {
    match phase {
        Phase::Upcoming => Badge::accent(t.state_upcoming),
        Phase::Live => Badge::good(t.state_live),
        Phase::Paused => Badge::warn(t.state_paused),
        Phase::SoldOut => Badge::warn(t.state_sold_out),
        Phase::Ended => Badge::plain(t.state_ended),
    }
}
