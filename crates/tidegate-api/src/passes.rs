//! What stands before the gate: a sale's or draw's challenge, and the pass for having solved it.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tidegate_app::challenges::{Offer, Task};
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

/// Something to solve. `pow` comes with an ALTCHA challenge, `image` with a picture.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ChallengeShape {
    id: String,
    /// `pow` or `image`.
    kind: &'static str,
    /// For `pow`: the challenge of the ALTCHA protocol. The answer is its payload, as JSON in base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    challenge: Option<Value>,
    /// For `image`: a data URL. The answer is what it shows, in any case.
    #[serde(skip_serializing_if = "Option::is_none")]
    image: Option<String>,
    expires_at: String,
}

impl ChallengeShape {
    fn of(offer: Offer) -> Self {
        let (kind, challenge, image) = match offer.task {
            Task::Pow(challenge) => ("pow", serde_json::to_value(challenge).ok(), None),
            Task::Image(image) => ("image", None, Some(image)),
        };
        Self { id: offer.id, kind, challenge, image, expires_at: offer.expires_at.to_string() }
    }
}

/// A challenge for this buyer and sale. It can be solved before the sale starts.
#[utoipa::path(get, path = "/v1/sales/{id}/challenge", tag = "buyers", params(("id" = String, Path)),
    security(("bearer" = [])),
    responses((status = 200, body = ChallengeShape), (status = 401, body = Problem), (status = 404, body = Problem),
              (status = 409, body = Problem), (status = 503, body = Problem)))]
pub(crate) async fn challenge(
    State(site): State<Site>,
    Id(id): Id<CampaignId>,
    Buyer(buyer): Buyer,
) -> Result<Json<ChallengeShape>, Problem> {
    offer(&site, id, buyer).await
}

/// A challenge for this player and draw. It can be solved before the draw starts.
#[utoipa::path(get, path = "/v1/draws/{id}/challenge", tag = "buyers", params(("id" = String, Path)),
    security(("bearer" = [])),
    responses((status = 200, body = ChallengeShape), (status = 401, body = Problem), (status = 404, body = Problem),
              (status = 409, body = Problem), (status = 503, body = Problem)))]
pub(crate) async fn challenge_of_draw(
    State(site): State<Site>,
    Id(id): Id<DrawId>,
    Buyer(player): Buyer,
) -> Result<Json<ChallengeShape>, Problem> {
    offer(&site, id.campaign(), player).await
}

pub(crate) async fn offer(
    site: &Site,
    id: CampaignId,
    user: UserId,
) -> Result<Json<ChallengeShape>, Problem> {
    let campaign = site.app.passes.campaign_ahead(id).await?;
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

/// The pass for an answered challenge: one per buyer at a time, for this sale, used once.
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
    issue(&site, id, buyer, &input.value).await
}

/// The pass for an answered challenge: one per player at a time, for this draw, used once.
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
    issue(&site, id.campaign(), player, &input.value).await
}

pub(crate) async fn issue(
    site: &Site,
    id: CampaignId,
    user: UserId,
    input: &PassInput,
) -> Result<(StatusCode, Json<PassShape>), Problem> {
    let campaign = site.app.passes.campaign_ahead(id).await?;
    let answer = input.challenge_id.as_deref().zip(input.answer.as_deref());
    let issued = site.app.passes.issue_pass(user, &campaign, answer).await?;
    let shape = PassShape { pass: issued.pass, expires_at: issued.expires_at.to_string() };
    Ok((StatusCode::CREATED, Json(shape)))
}
