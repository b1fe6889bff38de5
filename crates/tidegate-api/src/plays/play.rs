//! Playing a draw.

use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use tidegate_app::ordering::attempt::{AttemptRequest, Received, WantedPlay};
use tidegate_app::plays::{Played, Plays};
use tidegate_core::limits::MAX_CLIENT_SEED;
use tidegate_core::{Campaign, DrawId, IdempotencyKey, PlayState, ProblemCode, UserId};
use tidegate_http::Site;
use tidegate_http::headers::Headers;
use tidegate_http::input::{Id, RequestBody, idempotency_key, json, token};
use tidegate_http::inputs::Checks;
use tidegate_http::problem::Problem;
use tidegate_http::request_scope::ReceivedAt;
use tidegate_http::response::{PlainResponse, created};
use utoipa::ToSchema;

use crate::plays::json::PlayShape;

/// Where draws are played.
pub(crate) const PATH: &str = "/v1/draws/{id}/plays";

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PlayInput {
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
async fn read(site: &Site, headers: Headers<'_>, body: RequestBody<'_>) -> Result<PlayInput, Problem> {
    let is_told = headers.has(&header::CONTENT_TYPE) || headers.has(&header::TRANSFER_ENCODING);
    let empty = !headers.has(&header::CONTENT_LENGTH) || headers.get(&header::CONTENT_LENGTH) == Some("0");
    if !is_told && empty { Ok(PlayInput::default()) } else { json(headers, body, site.bounds).await }
}

/// Plays a seat of a draw. 201: it is on disk, and this is what it won. 202: it waits, and can be found by its id.
///
/// Repeating a request with the same Idempotency-Key gives the play it made. Without a key, a play of this player that
/// is not finished yet is resumed instead of a second one being made.
#[utoipa::path(post, path = "/v1/draws/{id}/plays", tag = "buyers", request_body = PlayInput,
    params(("id" = String, Path), ("Idempotency-Key" = Option<String>, Header)), security(("bearer" = [])),
    responses((status = 201, body = PlayShape), (status = 202, body = PlayShape), (status = 401, body = Problem),
              (status = 403, body = Problem), (status = 404, body = Problem), (status = 409, body = Problem),
              (status = 422, body = Problem), (status = 503, body = Problem)))]
pub(crate) async fn play(State(site): State<Site>, Id(id): Id<DrawId>, request: Request) -> Response {
    let (Parts { headers, .. }, body) = request.into_parts();
    answer(&site, id, (&headers).into(), RequestBody::Incoming(body), ReceivedAt::now(&site.app))
        .await
        .into_response()
}

/// Answers a play, whichever way it came.
pub(crate) async fn answer(
    site: &Site,
    id: DrawId,
    headers: Headers<'_>,
    body: RequestBody<'_>,
    received: ReceivedAt,
) -> PlainResponse {
    let request = PlayRequest { site, headers };
    let received = Received { at: received.at, now: received.now };
    let app = &site.app;
    let outcome = app.attempts.attempt(&app.plays, id.campaign(), received, request, body).await;
    let Played { play, replayed } = match outcome {
        Ok(played) => played,
        Err(problem) => return problem.into_plain(),
    };
    let queued = play.play.state == PlayState::Queued;
    let status = if queued { StatusCode::ACCEPTED } else { StatusCode::CREATED };
    let location = ["/v1/plays/", site.app.text(play.play.id).as_str()].concat();
    let shape = PlayShape::of(&site.app, play);
    // Writing to memory cannot fail.
    let write = |body: &mut Vec<u8>| serde_json::to_writer(body, &shape).unwrap_or_default();
    created(status, location, write, replayed)
}

/// A play as it comes: its body is read once everything before it is checked.
struct PlayRequest<'a> {
    site: &'a Site,
    headers: Headers<'a>,
}

impl<'a> AttemptRequest<Plays> for PlayRequest<'a> {
    type Error = Problem;
    type Body = RequestBody<'a>;

    fn token(&self) -> Result<Option<&str>, Problem> {
        token(&Method::POST, self.headers)
    }

    fn key(&self) -> Result<Option<IdempotencyKey>, Problem> {
        idempotency_key(self.headers)
    }

    async fn read(
        &self,
        body: RequestBody<'a>,
        _: Option<(UserId, &Campaign)>,
    ) -> Result<WantedPlay, Problem> {
        let input = read(self.site, self.headers, body).await?;
        Ok(WantedPlay { client_seed: input.client_seed()?, pass: input.pass })
    }

    fn code(problem: &Problem) -> ProblemCode {
        problem.code()
    }
}
