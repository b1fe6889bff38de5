//! A draw's page: the wheel or the cards, the prizes with their exact odds, what the draw is bound to, one's own plays.

use askama::Template;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use tidegate_core::campaign::Challenge;
use tidegate_core::draw::{ODDS_TOTAL, PrizeKind, Strategy};
use tidegate_core::{CampaignId, DrawId, Phase, UserId};

use super::super::Site;
use super::super::attempt::Attempt;
use super::super::draw_shapes::hex;
use super::super::input::{Asked, Id};
use super::super::plays::count;
use super::super::problem::Problem;
use super::super::visit::Came;
use super::format::{When, odds};
use super::forms::Form;
use super::home::{state, tone};
use super::phrases::Phrase;
use super::phrases::shop::Shop;
use super::plays::{Row, row};
use super::refusals::{Sentence, said, sentences};
use super::wheel::{Slice, slices};
use super::{Page, Trouble, Visit, see, shown};
use crate::chance;
use crate::ops::App;
use crate::ops::draws::DrawView;
use crate::ops::plays::Played;

#[derive(Template)]
#[template(path = "draw.html")]
pub(super) struct DrawPage {
    pub(super) page: Page,
    pub(super) id: String,
    pub(super) name: String,
    pub(super) state: Phrase,
    pub(super) tone: &'static str,
    pub(super) view: &'static str,
    pub(super) starts: When,
    pub(super) ends: When,
    pub(super) starts_ms: i64,
    pub(super) seats: u32,
    pub(super) seats_left: u32,
    pub(super) plays_left: u32,
    pub(super) prizes: Vec<PrizeRow>,
    pub(super) no_win: Option<String>,
    /// How prizes are dealt, in a sentence.
    pub(super) strategy: Phrase,
    pub(super) commitment: String,
    pub(super) slices: Option<Vec<Slice>>,
    pub(super) challenge: &'static str,
    pub(super) needs_pass: bool,
    pub(super) waiting_room: bool,
    pub(super) mine: Vec<Row>,
    pub(super) key: String,
    pub(super) said: Option<Phrase>,
    pub(super) sentences: Vec<Sentence>,
}

#[derive(Debug)]
pub(super) struct PrizeRow {
    pub(super) name: String,
    pub(super) kind: Phrase,
    pub(super) odds: String,
    pub(super) left: u32,
    pub(super) stock: u32,
}

pub(super) fn kind_word(w: &Shop, kind: PrizeKind) -> Phrase {
    match kind {
        PrizeKind::Text => w.kind_text,
        PrizeKind::Code => w.kind_code,
        PrizeKind::Coupon => w.kind_coupon,
        PrizeKind::Goods => w.kind_goods,
    }
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct DrawQuery {
    said: String,
}

/// Plays of one's own that are shown here.
const MOST_SHOWN: usize = 5;

pub(super) async fn show(
    State(site): State<Site>,
    visit: Visit,
    Id(id): Id<DrawId>,
    Asked(query): Asked<DrawQuery>,
) -> Result<Response, Trouble> {
    let (app, Visit { page, user }) = (&site.app, visit);
    let view = app.draw(id.campaign(), user).await?;
    app.visited(id.campaign());
    let mine = match user {
        Some(user) => plays_here(app, page.w, user, id.campaign()).await?,
        None => Vec::new(),
    };
    let said = said(page.w, &query.said);
    Ok(shown(&DrawPage { mine, said, ..of(app, page, &view, user)? }))
}

async fn plays_here(app: &App, w: &Shop, user: UserId, draw: CampaignId) -> Result<Vec<Row>, Trouble> {
    let plays = app.plays_in(user, draw, MOST_SHOWN).await?;
    Ok(plays.iter().map(|view| row(app, w, view)).collect())
}

fn of(app: &App, page: Page, view: &DrawView, user: Option<UserId>) -> Result<DrawPage, Trouble> {
    let DrawView { campaign, draw, phase, seats_left, prizes_left, plays_left, commitment } = view;
    let w = page.w;
    let protect = &campaign.protect;
    let deck = draw.strategy == Strategy::Deck;
    let winning: u64 =
        draw.prizes.iter().map(|prize| u64::from(if deck { prize.stock } else { prize.odds })).sum();
    let all = u64::from(if deck { campaign.stock } else { ODDS_TOTAL });
    let rest = u32::try_from(all.saturating_sub(winning)).unwrap_or(0);
    let share = |part: u32| if deck { w.of_seats.with_two(part, campaign.stock) } else { odds(part) };
    let key = chance::secret().map_err(|error| crate::ops::Refusal::Unavailable(error.to_string()))?;
    Ok(DrawPage {
        id: app.print(campaign.id.as_draw()),
        name: draw.name.clone(),
        state: state(w, *phase),
        tone: tone(*phase),
        view: view_of(*phase, user, *plays_left),
        starts: When(campaign.window.starts_at),
        ends: When(campaign.window.ends_at),
        starts_ms: campaign.window.starts_at.millis(),
        seats: campaign.stock,
        seats_left: *seats_left,
        plays_left: *plays_left,
        prizes: draw
            .prizes
            .iter()
            .zip(prizes_left)
            .map(|(prize, left)| PrizeRow {
                name: prize.name.clone(),
                kind: kind_word(w, prize.kind),
                odds: share(if deck { prize.stock } else { prize.odds }),
                left: *left,
                stock: prize.stock,
            })
            .collect(),
        no_win: (rest > 0).then(|| share(rest)),
        strategy: match draw.strategy {
            Strategy::Single => w.strategy_single,
            Strategy::Whole => w.strategy_whole,
            Strategy::Deck => w.strategy_deck,
        },
        commitment: hex(commitment),
        slices: slices(draw, always_wins(view, rest), w.no_win.0).filter(|_| !deck),
        challenge: Challenge::as_str(protect.challenge),
        needs_pass: protect.needs_pass(),
        waiting_room: protect.admit_per_s.is_some(),
        mine: Vec::new(),
        key: chance::token("page-", &key[..16]),
        said: None,
        sentences: sentences(w),
        page,
    })
}

/// Whether no play can end without a prize: none is left out by the odds, and none can run out.
fn always_wins(view: &DrawView, rest: u32) -> bool {
    let stock: u64 = view.draw.prizes.iter().map(|prize| u64::from(prize.stock)).sum();
    rest == 0 && view.draw.strategy == Strategy::Whole && stock >= u64::from(view.campaign.stock)
}

fn view_of(phase: Phase, user: Option<UserId>, plays_left: u32) -> &'static str {
    match (phase, user) {
        (Phase::Upcoming, _) => "upcoming",
        (Phase::Paused, _) => "paused",
        (Phase::Ended, _) => "ended",
        (Phase::SoldOut, _) => "sold_out",
        (Phase::Live, None) => "sign_in",
        (Phase::Live, Some(_)) if plays_left == 0 => "limit",
        (Phase::Live, Some(_)) => "ready",
    }
}

/// Plays, for whoever has no script.
pub(super) async fn play(
    State(site): State<Site>,
    visit: Visit,
    Id(id): Id<DrawId>,
    headers: HeaderMap,
    form: Form,
) -> Response {
    let at = site.app.print(id);
    let came = Came::just_now(&site.app);
    let outcome = try_play(&site, id, visit.user, &headers, &form, came).await;
    count(&site, id.campaign(), &outcome, came.at);
    match outcome {
        Ok(played) => see(&format!("/plays/{}", site.app.print(played.play.play.id))),
        Err(problem) if problem.code() == "unauthenticated" => see(&format!("/sign-in?next=/draws/{at}")),
        Err(problem) => see(&format!("/draws/{at}?said={}", problem.code())),
    }
}

async fn try_play(
    site: &Site,
    id: DrawId,
    user: Option<UserId>,
    headers: &HeaderMap,
    form: &Form,
    came: Came,
) -> Result<Played, Problem> {
    let app = &site.app;
    let seed: String =
        form.text("client_seed").chars().take(tidegate_core::limits::MAX_CLIENT_SEED).collect();
    let key = form.given("key").map(App::key);
    // What was asked for before needs no open draw.
    if let (Some(user), Some(key)) = (user, key)
        && let Some(play) = app.replay_play(user, id.campaign(), &seed, key).await?
    {
        return Ok(Played { play, replayed: true });
    }
    let draw = app.open_campaign(id.campaign(), came.now).await?;
    let attempt = Attempt::admit(site, &draw, headers.into(), came).await?;
    Ok(app.play(attempt.user, &draw, seed, key, form.given("pass")).await?)
}
