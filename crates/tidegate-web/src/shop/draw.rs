//! The page of a draw: wheel or cards, prizes with exact odds, the commitment, and the visitor's own plays.

use askama::Template;
use axum::extract::State;
use axum::http::{HeaderMap, Method};
use axum::response::Response;
use tidegate_app::App;
use tidegate_app::digest::{self, idempotency_key};
use tidegate_app::ordering::attempt::{AttemptRequest, Early, Received, WantedPlay};
use tidegate_app::plays::Plays;
use tidegate_app::random;
use tidegate_app::storefront::DrawView;
use tidegate_core::campaign::Challenge;
use tidegate_core::draw::{ODDS_TOTAL, PrizeKind, Strategy};
use tidegate_core::{Campaign, CampaignId, DrawId, IdempotencyKey, Phase, ProblemCode, UserId};
use tidegate_http::Site;
use tidegate_http::headers::Headers;
use tidegate_http::input::{self, Id, StrictQuery, token};
use tidegate_http::problem::Problem;
use tidegate_http::request_scope::ReceivedAt;
use tidegate_http::response::hex;

use super::home::phase_badge;
use super::messages::{CodeMessage, all_messages, message};
use super::plays::{Row, row};
use super::wheel::{Slice, slices};
use super::{PageContext, Visitor};
use crate::badge::Badge;
use crate::format::{Timestamp, odds};
use crate::forms::Form;
use crate::i18n::phrases::Phrase;
use crate::i18n::phrases::shop::ShopPhrases;
use crate::page::{PageError, redirect, render};

#[derive(Template)]
#[template(path = "draw.html")]
pub(crate) struct DrawPage {
    pub(crate) page: PageContext,
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) state: Badge,
    pub(crate) view: &'static str,
    pub(crate) starts: Timestamp,
    pub(crate) ends: Timestamp,
    pub(crate) starts_ms: i64,
    pub(crate) seats: u32,
    pub(crate) seats_left: u32,
    pub(crate) plays_left: u32,
    pub(crate) prizes: Vec<PrizeRow>,
    pub(crate) no_win: Option<String>,
    /// Explains the draw method.
    pub(crate) strategy: Phrase,
    pub(crate) commitment: String,
    pub(crate) slices: Option<Vec<Slice>>,
    pub(crate) challenge: &'static str,
    pub(crate) needs_pass: bool,
    pub(crate) waiting_room: bool,
    pub(crate) own_plays: Vec<Row>,
    /// Idempotency key of the form.
    pub(crate) key: String,
    pub(crate) message: Option<String>,
    pub(crate) messages: Vec<CodeMessage>,
}

#[derive(Debug)]
pub(crate) struct PrizeRow {
    pub(crate) name: String,
    pub(crate) kind: Phrase,
    pub(crate) odds: String,
    pub(crate) left: u32,
    pub(crate) stock: u32,
}

pub(crate) fn kind_label(t: &ShopPhrases, kind: PrizeKind) -> Phrase {
    match kind {
        PrizeKind::Text => t.kind_text,
        PrizeKind::Code => t.kind_code,
        PrizeKind::Coupon => t.kind_coupon,
        PrizeKind::Goods => t.kind_goods,
    }
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(crate) struct DrawQuery {
    said: String,
}

/// Newest own plays on the page.
const MAX_OWN_PLAYS: usize = 5;

pub(crate) async fn show(
    State(site): State<Site>,
    visitor: Visitor,
    Id(id): Id<DrawId>,
    StrictQuery(query): StrictQuery<DrawQuery>,
) -> Result<Response, PageError> {
    let (app, Visitor { page, user }) = (&site.app, visitor);
    let view = app.storefront.draw(id.campaign(), user).await?;
    app.meters.visited(id.campaign());
    let own_plays = match user {
        Some(user) => own_plays_in(app, page.t, user, id.campaign()).await?,
        None => Vec::new(),
    };
    let message = message(page.t, &query.said, view.campaign.per_user_limit);
    Ok(render(&DrawPage { own_plays, message, ..of(app, page, &view, user)? }))
}

async fn own_plays_in(
    app: &App,
    t: &ShopPhrases,
    user: UserId,
    draw: CampaignId,
) -> Result<Vec<Row>, PageError> {
    let plays = app.plays.plays_in(user, draw, MAX_OWN_PLAYS).await?;
    Ok(plays.iter().map(|view| row(app, t, view)).collect())
}

fn of(app: &App, page: PageContext, view: &DrawView, user: Option<UserId>) -> Result<DrawPage, PageError> {
    let DrawView { campaign, draw, phase, seats_left, prizes_left, plays_left, commitment } = view;
    let t = page.t;
    let protect = &campaign.protect;
    let deck = draw.strategy == Strategy::Deck;
    let winning: u64 =
        draw.prizes.iter().map(|prize| u64::from(if deck { prize.stock } else { prize.odds })).sum();
    let all = u64::from(if deck { campaign.stock } else { ODDS_TOTAL });
    let rest = u32::try_from(all.saturating_sub(winning)).unwrap_or(0);
    let share = |part: u32| if deck { t.of_seats.with_two(part, campaign.stock) } else { odds(part) };
    let key = random::secret().map_err(|error| tidegate_app::Refusal::Unavailable(error.to_string()))?;
    Ok(DrawPage {
        id: app.print(campaign.id.as_draw()),
        name: draw.name.clone(),
        state: phase_badge(t, *phase),
        view: view_of(*phase, user, *plays_left),
        starts: Timestamp(campaign.window.starts_at),
        ends: Timestamp(campaign.window.ends_at),
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
                kind: kind_label(t, prize.kind),
                odds: share(if deck { prize.stock } else { prize.odds }),
                left: *left,
                stock: prize.stock,
            })
            .collect(),
        no_win: (rest > 0).then(|| share(rest)),
        strategy: match draw.strategy {
            Strategy::Single => t.strategy_single,
            Strategy::Whole => t.strategy_whole,
            Strategy::Deck => t.strategy_deck,
        },
        commitment: hex(commitment),
        slices: slices(draw, always_wins(view, rest), t.no_win.0).filter(|_| !deck),
        challenge: Challenge::as_str(protect.challenge),
        needs_pass: protect.needs_pass(),
        waiting_room: protect.admit_per_s.is_some(),
        own_plays: Vec::new(),
        key: digest::token("page-", &key[..16]),
        message: None,
        messages: all_messages(t, campaign.per_user_limit),
        page,
    })
}

/// Whether every play wins: the odds leave no remainder and the prizes cannot run out.
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

/// Plays without JavaScript.
pub(crate) async fn play(
    State(site): State<Site>,
    visitor: Visitor,
    Id(id): Id<DrawId>,
    headers: HeaderMap,
    form: Form,
) -> Response {
    let at = site.app.print(id);
    let received = ReceivedAt::now(&site.app);
    let request = PlayForm { user: visitor.user, headers: (&headers).into(), form: &form };
    let received = Received { at: received.at, now: received.now };
    let app = &site.app;
    let outcome = app.attempts.attempt(&app.plays, id.campaign(), received, request, ()).await;
    match outcome {
        Ok(played) => redirect(&format!("/plays/{}", site.app.print(played.play.play.id))),
        Err(problem) if problem.code() == ProblemCode::Unauthenticated => {
            redirect(&format!("/sign-in?next=/draws/{at}"))
        }
        Err(problem) => redirect(&format!("/draws/{at}?said={}", problem.code())),
    }
}

/// A play as the page's form sends it.
struct PlayForm<'a> {
    user: Option<UserId>,
    headers: Headers<'a>,
    form: &'a Form,
}

impl PlayForm<'_> {
    fn client_seed(&self) -> String {
        self.form.text("client_seed").chars().take(tidegate_core::limits::MAX_CLIENT_SEED).collect()
    }

    fn form_key(&self) -> Option<IdempotencyKey> {
        self.form.given("key").map(idempotency_key)
    }
}

impl AttemptRequest<Plays> for PlayForm<'_> {
    type Error = Problem;
    /// The form has already been read.
    type Body = ();

    fn pre_read(&self) -> Result<Early<WantedPlay>, Problem> {
        let wanted = WantedPlay { client_seed: self.client_seed(), pass: None };
        Ok(Early::Form(self.user.zip(self.form_key()).map(|(user, key)| (user, key, wanted))))
    }

    fn token(&self) -> Result<Option<&str>, Problem> {
        token(&Method::POST, self.headers)
    }

    fn key(&self) -> Result<Option<IdempotencyKey>, Problem> {
        // The key comes from the form; an invalid header is rejected, as the API does.
        input::idempotency_key(self.headers)?;
        Ok(self.form_key())
    }

    async fn read(&self, (): (), _: Option<(UserId, &Campaign)>) -> Result<WantedPlay, Problem> {
        let pass = self.form.given("pass").map(str::to_owned);
        Ok(WantedPlay { client_seed: self.client_seed(), pass })
    }

    fn code(problem: &Problem) -> ProblemCode {
        problem.code()
    }
}
