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

pub(crate) const PATH: &str = "/v1/draws/{id}/plays";

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PlayInput {
    /// Any text of up to 64 characters. It is mixed into the outcome, so that the operator cannot choose the outcome in
    /// advance.
    client_seed: Option<String>,
    /// Required if the draw's `protect.pass` is true.
    pass: Option<String>,
}

impl PlayInput {
    fn client_seed(&self) -> Result<String, Problem> {
        let seed = self.client_seed.clone().unwrap_or_default();
        let mut checks = Checks::default();
        if seed.chars().count() > MAX_CLIENT_SEED {
            checks.error("client_seed", format!("must have at most {MAX_CLIENT_SEED} characters"));
        } else if seed.chars().any(char::is_control) {
            checks.error("client_seed", "must not contain control characters");
        }
        checks.finish(Some(seed))
    }
}

/// Parses the body, which is optional.
async fn read(site: &Site, headers: Headers<'_>, body: RequestBody<'_>) -> Result<PlayInput, Problem> {
    let announces_body = headers.has(&header::CONTENT_TYPE) || headers.has(&header::TRANSFER_ENCODING);
    let empty = !headers.has(&header::CONTENT_LENGTH) || headers.get(&header::CONTENT_LENGTH) == Some("0");
    if !announces_body && empty { Ok(PlayInput::default()) } else { json(headers, body, site.bounds).await }
}

/// Play a draw.
///
/// `201`: the play is durable, and the response contains its outcome. `202`: the play is accepted but not yet durable;
/// poll it by its id until its state is no longer `queued`.
///
/// A request repeated with the same `Idempotency-Key` returns the play that the first one created. Without a key, a
/// request resumes an unfinished play of this player instead of creating a second one.
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

/// Answers a play from the router or from a hot route.
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
        Err(problem) => return problem.into_response_parts(),
    };
    let queued = play.play.state == PlayState::Queued;
    let status = if queued { StatusCode::ACCEPTED } else { StatusCode::CREATED };
    let location = ["/v1/plays/", site.app.text(play.play.id).as_str()].concat();
    let shape = PlayShape::of(&site.app, play);
    // Writing to memory cannot fail.
    let write = |body: &mut Vec<u8>| serde_json::to_writer(body, &shape).unwrap_or_default();
    created(status, location, write, replayed)
}

/// A play whose body has not been read yet: the cheaper checks come first.
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
