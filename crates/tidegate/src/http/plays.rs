//! Plays, as their players see them.

use std::time::Instant;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use tidegate_core::limits::{MAX_ADDRESS_LINE, MAX_CLIENT_SEED};
use tidegate_core::{CampaignId, DrawId, PlayId, PlayState};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Site;
use super::answer::{Answer, made};
use super::attempt::Attempt;
use super::draw_shapes::PlayShape;
use super::headers::Headers;
use super::input::{Asked, Buyer, Id, Input, PageQuery, Sent, idempotency_key, json, token};
use super::problem::Problem;
use super::shapes::PageShape;
use super::terms::Checks;
use super::visit::Came;
use crate::ops::Refusal;
use crate::ops::live::Attempted;
use crate::ops::plays::{PlayView, Played};

/// Where draws are played.
pub(super) const PATH: &str = "/v1/draws/{id}/plays";

pub(super) fn routes() -> OpenApiRouter<Site> {
    OpenApiRouter::new()
        .routes(routes!(play))
        .routes(routes!(list))
        .routes(routes!(show))
        .routes(routes!(address))
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct PlayInput {
    /// Anything the player likes, up to 64 characters: it is mixed into the outcome, so that nobody can have chosen it
    /// beforehand.
    client_seed: Option<String>,
    /// The draw's one-time permission, where it asks for one.
    pass: Option<String>,
}

impl PlayInput {
    fn client_seed(&self) -> Result<String, Problem> {
        let seed = self.client_seed.clone().unwrap_or_default();
        let mut checks = Checks::default();
        if seed.chars().count() > MAX_CLIENT_SEED {
            checks.wrong("client_seed", format!("must have at most {MAX_CLIENT_SEED} characters"));
        } else if seed.chars().any(char::is_control) {
            checks.wrong("client_seed", "must not contain control characters");
        }
        checks.done(Some(seed))
    }
}

/// A body may be left out.
async fn read(site: &Site, headers: Headers<'_>, sent: Sent<'_>) -> Result<PlayInput, Problem> {
    let is_told = headers.has(&header::CONTENT_TYPE) || headers.has(&header::TRANSFER_ENCODING);
    let empty = !headers.has(&header::CONTENT_LENGTH) || headers.get(&header::CONTENT_LENGTH) == Some("0");
    if !is_told && empty { Ok(PlayInput::default()) } else { json(headers, sent, site.bounds).await }
}

/// Plays a seat of a draw. 201: it is on disk, and this is what it won. 202: it waits, and can be found by its id.
///
/// Repeating a request with the same Idempotency-Key gives the play it made. Without a key, a play of this player that is
/// not finished yet is resumed instead of a second one being made.
#[utoipa::path(post, path = "/v1/draws/{id}/plays", tag = "buyers", request_body = PlayInput,
    params(("id" = String, Path), ("Idempotency-Key" = Option<String>, Header)), security(("bearer" = [])),
    responses((status = 201, body = PlayShape), (status = 202, body = PlayShape), (status = 401, body = Problem),
              (status = 403, body = Problem), (status = 404, body = Problem), (status = 409, body = Problem),
              (status = 422, body = Problem), (status = 503, body = Problem)))]
async fn play(State(site): State<Site>, Id(id): Id<DrawId>, request: Request) -> Response {
    let (Parts { headers, .. }, body) = request.into_parts();
    answer(&site, id, (&headers).into(), Sent::Coming(body), Came::just_now(&site.app)).await.into_response()
}

/// Answers a play, whichever way it came.
pub(super) async fn answer(
    site: &Site,
    id: DrawId,
    headers: Headers<'_>,
    sent: Sent<'_>,
    came: Came,
) -> Answer {
    let outcome = try_play(site, id.campaign(), headers, sent, came).await;
    count(site, id.campaign(), &outcome, came.at);
    let Played { play, replayed } = match outcome {
        Ok(played) => played,
        Err(problem) => return problem.answer(),
    };
    let queued = play.play.state == PlayState::Queued;
    let status = if queued { StatusCode::ACCEPTED } else { StatusCode::CREATED };
    let location = ["/v1/plays/", site.app.text(play.play.id).as_str()].concat();
    let shape = PlayShape::of(&site.app, play);
    // Writing to memory cannot fail.
    let write = |body: &mut Vec<u8>| serde_json::to_writer(body, &shape).unwrap_or_default();
    made(status, location, write, replayed)
}

/// Counts an attempt, from wherever it came.
pub(super) fn count(site: &Site, id: CampaignId, outcome: &Result<Played, Problem>, started: Instant) {
    let (counted, attempted) = match outcome {
        Ok(Played { replayed: true, .. }) => ("replayed", Attempted::Replayed),
        Ok(Played { play, .. }) if play.play.state == PlayState::Queued => ("queued", Attempted::Accepted),
        Ok(Played { play, .. }) if play.play.prize.is_some() => ("won", Attempted::Accepted),
        Ok(_) => ("lost", Attempted::Accepted),
        Err(problem) => (problem.code(), Attempted::Refused(problem.code())),
    };
    site.app.metrics.play(counted);
    site.app.attempted(id, attempted, started.elapsed());
}

/// The checks in their published order: the draw, then who asks, then with what.
async fn try_play(
    site: &Site,
    id: CampaignId,
    headers: Headers<'_>,
    sent: Sent<'_>,
    came: Came,
) -> Result<Played, Problem> {
    let app = &site.app;
    let draw = match app.open_campaign(id, came.now).await {
        Ok(draw) => draw,
        Err(refusal) => return Box::pin(replay(site, id, headers, sent, came, refusal)).await,
    };
    let attempt = Attempt::admit(site, &draw, headers, came).await?;
    let input = read(site, headers, sent).await?;
    Ok(app.play(attempt.user, &draw, input.client_seed()?, attempt.key, input.pass.as_deref()).await?)
}

/// A draw that takes no plays still knows those it took: a repeated request gets its play, all others the refusal.
async fn replay(
    site: &Site,
    id: CampaignId,
    headers: Headers<'_>,
    sent: Sent<'_>,
    came: Came,
    refusal: Refusal,
) -> Result<Played, Problem> {
    let Ok(Some(key)) = idempotency_key(headers) else { return Err(refusal.into()) };
    let token = token(&Method::POST, headers)?;
    let Ok(player) = site.app.buyer_at(token, came.now).await else { return Err(refusal.into()) };
    if site.app.holds_nothing(player, id).await {
        return Err(refusal.into());
    }
    let Ok(input) = read(site, headers, sent).await else { return Err(refusal.into()) };
    let Ok(seed) = input.client_seed() else { return Err(refusal.into()) };
    match site.app.replay_play(player, id, &seed, key).await? {
        Some(play) => Ok(Played { play, replayed: true }),
        None => Err(refusal.into()),
    }
}

/// The player's own plays, newest first.
#[utoipa::path(get, path = "/v1/plays", tag = "buyers", params(PageQuery), security(("bearer" = [])),
    responses((status = 200, body = PageShape<PlayShape>), (status = 401, body = Problem)))]
async fn list(
    State(site): State<Site>,
    Buyer(player): Buyer,
    Asked(query): Asked<PageQuery>,
) -> Result<Json<PageShape<PlayShape>>, Problem> {
    let app = &site.app;
    let page = query.page(app, PlayId::raw)?;
    let plays = app.plays_of_player(player, page).await?;
    let cursor = |view: &PlayView| app.print(view.play.id);
    Ok(Json(PageShape::of(plays, page.limit, cursor, |view| PlayShape::of(app, view))))
}

/// One of the player's own plays.
#[utoipa::path(get, path = "/v1/plays/{id}", tag = "buyers", params(("id" = String, Path)), security(("bearer" = [])),
    responses((status = 200, body = PlayShape), (status = 401, body = Problem), (status = 404, body = Problem)))]
async fn show(
    State(site): State<Site>,
    Buyer(player): Buyer,
    Id(id): Id<PlayId>,
) -> Result<Json<PlayShape>, Problem> {
    Ok(Json(PlayShape::of(&site.app, site.app.play_of_player(player, id).await?)))
}

/// Where goods go. Every line is plain text.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AddressInput {
    #[schema(example = "Li Lei")]
    pub(super) name: String,
    #[schema(example = "+8613800138000")]
    pub(super) phone: String,
    /// As on a letter, the street first.
    #[schema(example = json!(["88 Century Avenue", "Pudong, Shanghai"]))]
    pub(super) lines: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "200120")]
    pub(super) postcode: Option<String>,
    /// Two letters, ISO 3166.
    #[schema(example = "CN")]
    pub(super) country: String,
}

const MAX_LINES: usize = 5;

impl AddressInput {
    pub(super) fn check(mut self) -> Result<String, Problem> {
        let mut checks = Checks::default();
        let mut plain = |field: &str, value: &mut String, least: usize, most: usize| {
            *value = value.trim().to_owned();
            checks.plain(field, value, least, most);
        };
        plain("name", &mut self.name, 1, MAX_ADDRESS_LINE);
        for (at, line) in self.lines.iter_mut().enumerate() {
            plain(&format!("lines[{at}]"), line, 1, MAX_ADDRESS_LINE);
        }
        if let Some(postcode) = &mut self.postcode {
            plain("postcode", postcode, 1, 20);
        }
        if !(1..=MAX_LINES).contains(&self.lines.len()) {
            checks.wrong("lines", format!("must be 1 to {MAX_LINES} lines"));
        }
        if self.country.len() != 2 || !self.country.bytes().all(|byte| byte.is_ascii_uppercase()) {
            checks.wrong("country", "must be two capital letters, such as CN");
        }
        if let Some(phone) = checks.phone("phone", &self.phone) {
            self.phone = phone;
        }
        checks.done(serde_json::to_string(&self).ok())
    }
}

/// Says where the goods that a play won are to go. Can be changed until they are on their way.
#[utoipa::path(put, path = "/v1/plays/{id}/address", tag = "buyers", params(("id" = String, Path)),
    request_body = AddressInput, security(("bearer" = [])),
    responses((status = 200, body = PlayShape), (status = 401, body = Problem), (status = 404, body = Problem),
              (status = 409, body = Problem), (status = 422, body = Problem)))]
async fn address(
    State(site): State<Site>,
    Buyer(player): Buyer,
    Id(id): Id<PlayId>,
    input: Input<AddressInput>,
) -> Result<Json<PlayShape>, Problem> {
    let (app, address) = (site.app.clone(), input.value.check()?);
    let view = site.carry_out(async move { app.address(player, id, address).await }).await?;
    Ok(Json(PlayShape::of(&site.app, view)))
}
