//! Home: what is on now, what comes next, what is over.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use tidegate_core::{Moment, Phase};

use super::super::Site;
use super::format::{Art, When, grouped, money, reduced};
use super::phrases::Phrase;
use super::phrases::shop::Shop;
use super::{Page, Trouble, Visit, shown};
use crate::ops::App;
use crate::ops::draws::DrawView;
use crate::ops::sales::SaleView;

#[derive(Template)]
#[template(path = "home.html")]
pub(super) struct HomePage {
    pub(super) page: Page,
    pub(super) live: Vec<Offer>,
    pub(super) upcoming: Vec<Offer>,
    pub(super) over: Vec<Offer>,
}

/// A sale or a draw in the window.
#[derive(Debug)]
pub(super) struct Offer {
    pub(super) href: String,
    pub(super) name: String,
    pub(super) art: Art,
    pub(super) tone: &'static str,
    pub(super) state: Phrase,
    pub(super) price: Option<String>,
    pub(super) was: Option<String>,
    /// What is left, in words; and of how much, for the bar.
    pub(super) left: Option<(String, u32, u32)>,
    pub(super) starts: Option<(When, i64)>,
}

/// Those that are over and still shown.
const MOST_OVER: usize = 8;

pub(super) async fn home(State(site): State<Site>, visit: Visit) -> Result<Response, Trouble> {
    let (app, page) = (&site.app, visit.page);
    let window = app.shop_window().await?;
    let (mut live, mut upcoming, mut over) = (Vec::new(), Vec::new(), Vec::new());
    let sales =
        window.sales.iter().map(|view| (view.phase, view.sale.window.starts_at, of_sale(app, page.w, view)));
    let draws = window
        .draws
        .iter()
        .map(|view| (view.phase, view.campaign.window.starts_at, of_draw(app, page.w, view)));
    for (phase, starts_at, offer) in sales.chain(draws) {
        match phase {
            Phase::Live | Phase::Paused => live.push(offer),
            Phase::Upcoming => upcoming.push((starts_at, offer)),
            Phase::SoldOut | Phase::Ended => over.push(offer),
        }
    }
    upcoming.sort_by_key(|(starts_at, _)| *starts_at);
    over.truncate(MOST_OVER);
    let upcoming = upcoming.into_iter().map(|(_, offer)| offer).collect();
    Ok(shown(&HomePage { page, live, upcoming, over }))
}

fn of_sale(app: &App, w: &Shop, view: &SaleView) -> Offer {
    let SaleView { sale, terms, item, phase, left, .. } = view;
    Offer {
        href: format!("/sales/{}", app.print(sale.id)),
        name: item.name.clone(),
        art: Art::of(item),
        tone: tone(*phase),
        state: state(w, *phase),
        price: Some(money(terms.price)),
        was: reduced(item.price, terms.price),
        left: (*phase == Phase::Live)
            .then(|| (w.units_left.with(grouped((*left).into())), *left, sale.stock)),
        starts: starts(*phase, sale.window.starts_at),
    }
}

fn of_draw(app: &App, w: &Shop, view: &DrawView) -> Offer {
    let (campaign, left) = (&view.campaign, view.seats_left);
    Offer {
        href: format!("/draws/{}", app.print(campaign.id.as_draw())),
        name: view.draw.name.clone(),
        art: Art::waves(&view.draw.name),
        tone: tone(view.phase),
        state: state(w, view.phase),
        price: None,
        was: None,
        left: (view.phase == Phase::Live)
            .then(|| (w.seats_left.with(grouped(left.into())), left, campaign.stock)),
        starts: starts(view.phase, campaign.window.starts_at),
    }
}

fn starts(phase: Phase, at: Moment) -> Option<(When, i64)> {
    (phase == Phase::Upcoming).then(|| (When(at), at.millis()))
}

pub(super) fn state(w: &Shop, phase: Phase) -> Phrase {
    match phase {
        Phase::Upcoming => w.state_upcoming,
        Phase::Live => w.state_live,
        Phase::Paused => w.state_paused,
        Phase::SoldOut => w.state_sold_out,
        Phase::Ended => w.state_ended,
    }
}

pub(super) const fn tone(phase: Phase) -> &'static str {
    match phase {
        Phase::Live => "good",
        Phase::Upcoming => "accent",
        Phase::Paused | Phase::SoldOut => "warn",
        Phase::Ended => "plain",
    }
}
