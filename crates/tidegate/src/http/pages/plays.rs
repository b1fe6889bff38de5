//! A player's plays and prizes: what was won, the code, where goods go, and what to check the draw with.

use std::collections::BTreeMap;

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use tidegate_core::draw::PrizeKind;
use tidegate_core::{DeliveryState, PlayId, PlayState, UserId, WaitsFor};

use super::super::Site;
use super::super::draw_shapes::hex;
use super::super::input::{Asked, Id};
use super::super::plays::AddressInput;
use super::format::When;
use super::forms::Form;
use super::orders::{Cursor, StateWord};
use super::phrases::Phrase;
use super::phrases::shop::Shop;
use super::{Page, Trouble, Visit, html, see, shown};
use crate::ops::App;
use crate::ops::plays::PlayView;

#[derive(Template)]
#[template(path = "plays.html")]
pub(super) struct PlaysPage {
    pub(super) page: Page,
    pub(super) plays: Vec<Row>,
    pub(super) next: Option<String>,
}

#[derive(Debug)]
pub(super) struct Row {
    pub(super) id: String,
    pub(super) draw: String,
    pub(super) seat: u32,
    pub(super) won: Option<String>,
    pub(super) content: Option<String>,
    pub(super) state: StateWord,
    pub(super) at: When,
}

pub(super) fn row(app: &App, w: &Shop, view: &PlayView) -> Row {
    let prize = view.play.prize.and_then(|number| view.draw.prize(number));
    Row {
        id: app.print(view.play.id),
        draw: view.draw.name.clone(),
        seat: view.play.seat,
        won: prize.map(|prize| prize.name.clone()),
        content: view.delivery.as_ref().and_then(|delivery| delivery.content.clone()),
        state: state_word(w, view),
        at: When(view.play.created_at),
    }
}

fn state_word(w: &Shop, view: &PlayView) -> StateWord {
    let (word, tone) = match (view.play.state, &view.delivery) {
        (PlayState::Queued, _) => (w.play_queued, "accent"),
        (PlayState::Rejected, _) => (w.play_rejected, "bad"),
        (PlayState::Played, None) => (w.no_win, "plain"),
        (PlayState::Played, Some(delivery)) => match (delivery.state, delivery.waits_for) {
            (DeliveryState::Delivered, _) => (w.prize_delivered, "good"),
            (_, Some(WaitsFor::Address)) if delivery.address.is_none() => (w.prize_needs_address, "warn"),
            (_, Some(WaitsFor::Close)) => (w.prize_at_close, "accent"),
            (_, Some(WaitsFor::Operator)) => (w.prize_by_hand, "accent"),
            (DeliveryState::Dead, _) => (w.prize_trouble, "bad"),
            _ => (w.prize_on_its_way, "accent"),
        },
    };
    StateWord { word, tone }
}

pub(super) async fn list(
    State(site): State<Site>,
    visit: Visit,
    Asked(query): Asked<Cursor>,
) -> Result<Response, Trouble> {
    let (app, (page, user)) = (&site.app, visit.own()?);
    let rows = query.rows(app, PlayId::raw)?;
    let plays = app.plays_of_player(user, rows).await?;
    let next =
        plays.last().filter(|_| plays.len() == rows.limit as usize).map(|view| app.print(view.play.id));
    let plays = plays.iter().map(|view| row(app, page.w, view)).collect();
    Ok(shown(&PlaysPage { page, plays, next }))
}

#[derive(Template)]
#[template(path = "play.html")]
pub(super) struct PlayPage {
    pub(super) page: Page,
    pub(super) draw_id: String,
    pub(super) play: Row,
    /// There is no outcome yet; or there will be none.
    pub(super) queued: bool,
    pub(super) rejected: bool,
    pub(super) commitment: String,
    pub(super) client_seed: String,
    pub(super) number: Option<u64>,
    pub(super) hash: Option<String>,
    /// Where goods go, if this play won some.
    pub(super) address: Option<Address>,
}

/// The address form: what is in it, and what is wrong with it.
#[derive(Debug, Default)]
pub(super) struct Address {
    /// It can be changed.
    pub(super) open: bool,
    pub(super) given: bool,
    pub(super) name: String,
    pub(super) phone: String,
    pub(super) line1: String,
    pub(super) line2: String,
    pub(super) postcode: String,
    pub(super) country: String,
    pub(super) wrong: BTreeMap<&'static str, Phrase>,
}

impl Address {
    /// What is wrong with this field.
    pub(super) fn wrong_with(&self, field: &str) -> Option<&Phrase> {
        self.wrong.get(field)
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
            wrong: BTreeMap::new(),
        })
    }

    fn from_form(w: &Shop, form: &Form, errors: &BTreeMap<String, String>) -> Self {
        let fields = [
            ("name", "name", w.bad_name),
            ("phone", "phone", w.bad_phone),
            ("lines", "line1", w.bad_line),
            ("postcode", "postcode", w.bad_line),
            ("country", "country", w.bad_country),
        ];
        let wrong =
            fields.into_iter().filter(|(told, ..)| errors.keys().any(|field| field.starts_with(told)));
        Self {
            open: true,
            given: false,
            name: form.text("name").into(),
            phone: form.text("phone").into(),
            line1: form.text("line1").into(),
            line2: form.text("line2").into(),
            postcode: form.text("postcode").into(),
            country: form.text("country").into(),
            wrong: wrong.map(|(_, field, phrase)| (field, phrase)).collect(),
        }
    }
}

async fn play_page(site: &Site, page: Page, user: UserId, id: PlayId) -> Result<PlayPage, Trouble> {
    let view = site.app.play_of_player(user, id).await?;
    Ok(PlayPage {
        draw_id: site.app.print(view.play.campaign.as_draw()),
        play: row(&site.app, page.w, &view),
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

pub(super) async fn show(
    State(site): State<Site>,
    visit: Visit,
    Id(id): Id<PlayId>,
) -> Result<Response, Trouble> {
    let (page, user) = visit.own()?;
    Ok(shown(&play_page(&site, page, user, id).await?))
}

/// Where the goods go.
pub(super) async fn address(
    State(site): State<Site>,
    visit: Visit,
    Id(id): Id<PlayId>,
    form: Form,
) -> Result<Response, Trouble> {
    let (page, user) = visit.own()?;
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
            site.carry_out(async move { app.address(user, id, address).await }).await?;
            Ok(see(&format!("/plays/{}", site.app.print(id))))
        }
        Err(problem) => {
            let address = Address::from_form(page.w, &form, problem.errors());
            let page = play_page(&site, page, user, id).await?;
            Ok(html(StatusCode::UNPROCESSABLE_ENTITY, &PlayPage { address: Some(address), ..page }))
        }
    }
}
