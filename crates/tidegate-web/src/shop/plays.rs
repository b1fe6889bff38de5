//! A player's plays: the list, and one play with its prize, shipping address and proof.

use std::collections::BTreeMap;

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use tidegate_app::App;
use tidegate_app::plays::PlayView;
use tidegate_core::draw::PrizeKind;
use tidegate_core::{DeliveryState, PlayId, PlayState, UserId, WaitsFor};
use tidegate_http::Site;
use tidegate_http::input::{Id, StrictQuery};
use tidegate_http::inputs::addresses::AddressInput;
use tidegate_http::response::hex;

use super::orders::Cursor;
use super::{PageContext, Visitor};
use crate::badge::Badge;
use crate::format::Timestamp;
use crate::forms::Form;
use crate::i18n::phrases::Phrase;
use crate::i18n::phrases::shop::ShopPhrases;
use crate::page::{PageError, html, redirect, render};

#[derive(Template)]
#[template(path = "plays.html")]
pub(crate) struct PlaysPage {
    pub(crate) page: PageContext,
    pub(crate) plays: Vec<Row>,
    pub(crate) next: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) id: String,
    pub(crate) draw: String,
    pub(crate) seat: u32,
    pub(crate) won: Option<String>,
    pub(crate) content: Option<String>,
    pub(crate) state: Badge,
    pub(crate) at: Timestamp,
}

impl Row {
    /// The prize, or the seat if nothing was won.
    pub(crate) fn title(&self, t: &ShopPhrases) -> String {
        self.won.clone().unwrap_or_else(|| t.seat.with(self.seat))
    }
}

pub(crate) fn row(app: &App, t: &ShopPhrases, view: &PlayView) -> Row {
    let prize = view.play.prize.and_then(|number| view.draw.prize(number));
    Row {
        id: app.print(view.play.id),
        draw: view.draw.name.clone(),
        seat: view.play.seat,
        won: prize.map(|prize| prize.name.clone()),
        content: view.delivery.as_ref().and_then(|delivery| delivery.content.clone()),
        state: play_badge(t, view),
        at: Timestamp(view.play.created_at),
    }
}

fn play_badge(t: &ShopPhrases, view: &PlayView) -> Badge {
    match (view.play.state, &view.delivery) {
        (PlayState::Queued, _) => Badge::accent(t.play_queued),
        (PlayState::Rejected, _) => Badge::bad(t.play_rejected),
        (PlayState::Played, None) => Badge::plain(t.no_win),
        (PlayState::Played, Some(delivery)) => match (delivery.state, delivery.waits_for) {
            (DeliveryState::Delivered, _) => Badge::good(t.prize_delivered),
            (_, Some(WaitsFor::Address)) if delivery.address.is_none() => Badge::warn(t.prize_needs_address),
            (_, Some(WaitsFor::Close)) => Badge::accent(t.prize_at_close),
            (_, Some(WaitsFor::Operator)) => Badge::accent(t.prize_by_hand),
            (DeliveryState::Dead, _) => Badge::bad(t.prize_delayed),
            _ => Badge::accent(t.prize_on_its_way),
        },
    }
}

pub(crate) async fn list(
    State(site): State<Site>,
    visitor: Visitor,
    StrictQuery(query): StrictQuery<Cursor>,
) -> Result<Response, PageError> {
    let (app, (page, user)) = (&site.app, visitor.require_user()?);
    let rows = query.rows(app, PlayId::raw)?;
    let plays = app.plays.plays_of_player(user, rows).await?;
    let next =
        plays.last().filter(|_| plays.len() == rows.limit as usize).map(|view| app.print(view.play.id));
    let plays = plays.iter().map(|view| row(app, page.t, view)).collect();
    Ok(render(&PlaysPage { page, plays, next }))
}

#[derive(Template)]
#[template(path = "play.html")]
pub(crate) struct PlayPage {
    pub(crate) page: PageContext,
    pub(crate) draw_id: String,
    pub(crate) play: Row,
    /// There is no outcome yet.
    pub(crate) queued: bool,
    /// The play could not be recorded and has no outcome.
    pub(crate) rejected: bool,
    pub(crate) commitment: String,
    pub(crate) client_seed: String,
    pub(crate) number: Option<u64>,
    pub(crate) hash: Option<String>,
    /// The form for the shipping address, if the prize is goods.
    pub(crate) address: Option<Address>,
}

/// The address form with its errors.
#[derive(Debug, Default)]
pub(crate) struct Address {
    /// The address can still be changed.
    pub(crate) open: bool,
    pub(crate) given: bool,
    pub(crate) name: String,
    pub(crate) phone: String,
    pub(crate) line1: String,
    pub(crate) line2: String,
    pub(crate) postcode: String,
    pub(crate) country: String,
    pub(crate) errors: BTreeMap<&'static str, Phrase>,
}

impl Address {
    pub(crate) fn error(&self, field: &str) -> Option<&Phrase> {
        self.errors.get(field)
    }

    fn of(view: &PlayView) -> Option<Self> {
        let prize = view.play.prize.and_then(|number| view.draw.prize(number))?;
        let delivery = view.delivery.as_ref().filter(|_| prize.kind == PrizeKind::Goods)?;
        let open = delivery.state == DeliveryState::Waiting;
        let Some(text) = &delivery.address else {
            return Some(Self { open, country: "CN".into(), ..Self::default() });
        };
        let json: serde_json::Value = serde_json::from_str(text).ok()?;
        let text = |value: &serde_json::Value| value.as_str().unwrap_or("").to_owned();
        Some(Self {
            open,
            given: true,
            name: text(&json["name"]),
            phone: text(&json["phone"]),
            line1: text(&json["lines"][0]),
            line2: text(&json["lines"][1]),
            postcode: text(&json["postcode"]),
            country: text(&json["country"]),
            errors: BTreeMap::new(),
        })
    }

    fn from_form(t: &ShopPhrases, form: &Form, errors: &BTreeMap<String, String>) -> Self {
        let fields = [
            ("name", "name", t.bad_name),
            ("phone", "phone", t.bad_phone),
            ("lines", "line1", t.bad_line),
            ("postcode", "postcode", t.bad_line),
            ("country", "country", t.bad_country),
        ];
        let invalid =
            fields.into_iter().filter(|(known, ..)| errors.keys().any(|field| field.starts_with(known)));
        Self {
            open: true,
            given: false,
            name: form.text("name").into(),
            phone: form.text("phone").into(),
            line1: form.text("line1").into(),
            line2: form.text("line2").into(),
            postcode: form.text("postcode").into(),
            country: form.text("country").into(),
            errors: invalid.map(|(_, field, phrase)| (field, phrase)).collect(),
        }
    }
}

async fn play_page(site: &Site, page: PageContext, user: UserId, id: PlayId) -> Result<PlayPage, PageError> {
    let view = site.app.plays.play_of_player(user, id).await?;
    Ok(PlayPage {
        draw_id: site.app.print(view.play.campaign.as_draw()),
        play: row(&site.app, page.t, &view),
        queued: view.play.state == PlayState::Queued,
        rejected: view.play.state == PlayState::Rejected,
        commitment: hex(&view.commitment),
        client_seed: view.play.client_seed.clone(),
        number: view.play.place.map(|(number, _)| number),
        hash: view.play.place.map(|(_, hash)| hex(&hash)),
        address: Address::of(&view),
        page,
    })
}

pub(crate) async fn show(
    State(site): State<Site>,
    visitor: Visitor,
    Id(id): Id<PlayId>,
) -> Result<Response, PageError> {
    let (page, user) = visitor.require_user()?;
    Ok(render(&play_page(&site, page, user, id).await?))
}

/// Saves the shipping address.
pub(crate) async fn address(
    State(site): State<Site>,
    visitor: Visitor,
    Id(id): Id<PlayId>,
    form: Form,
) -> Result<Response, PageError> {
    let (page, user) = visitor.require_user()?;
    let lines = [form.given("line1"), form.given("line2")];
    let input = AddressInput {
        name: form.text("name").into(),
        phone: form.text("phone").into(),
        lines: lines.into_iter().flatten().map(str::to_owned).collect(),
        postcode: form.given("postcode").map(str::to_owned),
        country: form.text("country").to_ascii_uppercase(),
    };
    match input.check() {
        Ok(address) => {
            let app = site.app.clone();
            site.run_to_completion(async move { app.plays.address(user, id, address).await }).await?;
            Ok(redirect(&format!("/plays/{}", site.app.print(id))))
        }
        Err(problem) => {
            let address = Address::from_form(page.t, &form, problem.errors());
            let page = play_page(&site, page, user, id).await?;
            Ok(html(StatusCode::UNPROCESSABLE_ENTITY, &PlayPage { address: Some(address), ..page }))
        }
    }
}
