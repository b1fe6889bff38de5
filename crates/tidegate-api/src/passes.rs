//! Challenges of sales and draws, and the passes issued for solving them.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tidegate_app::challenges::{IssuedChallenge, Task};
use tidegate_core::{CampaignId, DrawId, UserId};
use tidegate_http::Site;
use tidegate_http::input::{Buyer, Id, Input};
use tidegate_http::problem::Problem;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(crate) fn routes() -> OpenApiRouter<Site> {
    OpenApiRouter::new()
        .routes(routes!(challenge))
        .routes(routes!(pass))
        .routes(routes!(challenge_of_draw))
        .routes(routes!(pass_of_draw))
}

/// A challenge to solve before ordering or playing: a proof of work (ALTCHA) or a picture.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ChallengeShape {
    id: String,
    /// `pow` or `image`.
    kind: &'static str,
    /// For `pow`: an ALTCHA challenge. The answer is the ALTCHA payload, as JSON in base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    challenge: Option<Value>,
    /// For `image`: a data URL. The answer is the text in the picture, in upper or lower case.
    #[serde(skip_serializing_if = "Option::is_none")]
    image: Option<String>,
    expires_at: String,
}

impl ChallengeShape {
    fn of(offer: IssuedChallenge) -> Self {
        let (kind, challenge, image) = match offer.task {
            Task::Pow(challenge) => ("pow", serde_json::to_value(challenge).ok(), None),
            Task::Image(image) => ("image", None, Some(image)),
        };
        Self { id: offer.id, kind, challenge, image, expires_at: offer.expires_at.to_string() }
    }
}

/// Get a challenge for a sale.
///
/// It is valid for this buyer and this sale only, and can be solved before the sale starts.
#[utoipa::path(get, path = "/v1/sales/{id}/challenge", tag = "buyers", params(("id" = String, Path)),
    security(("bearer" = [])),
    responses((status = 200, body = ChallengeShape), (status = 401, body = Problem), (status = 404, body = Problem),
              (status = 409, body = Problem), (status = 503, body = Problem)))]
pub(crate) async fn challenge(
    State(site): State<Site>,
    Id(id): Id<CampaignId>,
    Buyer(buyer): Buyer,
) -> Result<Json<ChallengeShape>, Problem> {
    issue_challenge(&site, id, buyer).await
}

/// Get a challenge for a draw.
///
/// It is valid for this player and this draw only, and can be solved before the draw starts.
#[utoipa::path(get, path = "/v1/draws/{id}/challenge", tag = "buyers", params(("id" = String, Path)),
    security(("bearer" = [])),
    responses((status = 200, body = ChallengeShape), (status = 401, body = Problem), (status = 404, body = Problem),
              (status = 409, body = Problem), (status = 503, body = Problem)))]
pub(crate) async fn challenge_of_draw(
    State(site): State<Site>,
    Id(id): Id<DrawId>,
    Buyer(player): Buyer,
) -> Result<Json<ChallengeShape>, Problem> {
    issue_challenge(&site, id.campaign(), player).await
}

pub(crate) async fn issue_challenge(
    site: &Site,
    id: CampaignId,
    user: UserId,
) -> Result<Json<ChallengeShape>, Problem> {
    let campaign = site.app.passes.campaign_open_or_upcoming(id).await?;
    Ok(Json(ChallengeShape::of(site.app.challenges.issue(user, &campaign).await?)))
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PassInput {
    challenge_id: Option<String>,
    answer: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PassShape {
    pass: String,
    expires_at: String,
}

/// Get a pass for a sale.
///
/// Requires the answer to the challenge, if the sale has one. A pass is valid for one order of this buyer in this
/// sale; a buyer has at most one unused pass at a time.
#[utoipa::path(post, path = "/v1/sales/{id}/passes", tag = "buyers", params(("id" = String, Path)),
    request_body = PassInput, security(("bearer" = [])),
    responses((status = 201, body = PassShape), (status = 401, body = Problem), (status = 403, body = Problem),
              (status = 404, body = Problem), (status = 409, body = Problem), (status = 503, body = Problem)))]
pub(crate) async fn pass(
    State(site): State<Site>,
    Id(id): Id<CampaignId>,
    Buyer(buyer): Buyer,
    input: Input<PassInput>,
) -> Result<(StatusCode, Json<PassShape>), Problem> {
    issue_pass(&site, id, buyer, &input.value).await
}

/// Get a pass for a draw.
///
/// Requires the answer to the challenge, if the draw has one. A pass is valid for one play of this player in this
/// draw; a player has at most one unused pass at a time.
#[utoipa::path(post, path = "/v1/draws/{id}/passes", tag = "buyers", params(("id" = String, Path)),
    request_body = PassInput, security(("bearer" = [])),
    responses((status = 201, body = PassShape), (status = 401, body = Problem), (status = 403, body = Problem),
              (status = 404, body = Problem), (status = 409, body = Problem), (status = 503, body = Problem)))]
pub(crate) async fn pass_of_draw(
    State(site): State<Site>,
    Id(id): Id<DrawId>,
    Buyer(player): Buyer,
    input: Input<PassInput>,
) -> Result<(StatusCode, Json<PassShape>), Problem> {
    issue_pass(&site, id.campaign(), player, &input.value).await
}

pub(crate) async fn issue_pass(
    site: &Site,
    id: CampaignId,
    user: UserId,
    input: &PassInput,
) -> Result<(StatusCode, Json<PassShape>), Problem> {
    let campaign = site.app.passes.campaign_open_or_upcoming(id).await?;
    let answer = input.challenge_id.as_deref().zip(input.answer.as_deref());
    let issued = site.app.passes.issue_pass(user, &campaign, answer).await?;
    let shape = PassShape { pass: issued.pass, expires_at: issued.expires_at.to_string() };
    Ok((StatusCode::CREATED, Json(shape)))
}
