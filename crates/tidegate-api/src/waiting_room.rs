//! Waiting rooms of sales and draws.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use tidegate_app::waiting_rooms::WaitingPlace;
use tidegate_core::{CampaignId, DrawId, UserId};
use tidegate_http::Site;
use tidegate_http::input::{Buyer, Id, Input};
use tidegate_http::problem::Problem;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(crate) fn routes() -> OpenApiRouter<Site> {
    OpenApiRouter::new().routes(routes!(join, place)).routes(routes!(join_draw, place_in_draw))
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct JoinInput {
    /// Required, with `answer`, if the campaign has a challenge.
    challenge_id: Option<String>,
    answer: Option<String>,
}

/// A place in the waiting room. It belongs to the account, not to a browser.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct QueueShape {
    /// `waiting`, `admitted` (`pass` is present) or `hopeless` (`chance` is below 1 %).
    state: &'static str,
    /// From 1. Null before the start: the order is drawn at the start.
    position: Option<usize>,
    ahead: Option<usize>,
    /// Number of accounts in the waiting room.
    waiting: usize,
    /// Estimated probability, 0 to 1, that a unit is left when it is this account's turn.
    chance: f64,
    eta_s: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pass: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pass_expires_at: Option<String>,
}

impl From<WaitingPlace> for QueueShape {
    fn from(place: WaitingPlace) -> Self {
        let (pass, pass_expires_at) = place.pass.map(|pass| (pass.pass, pass.expires_at.to_string())).unzip();
        Self {
            state: place.state.as_str(),
            position: place.position,
            ahead: place.ahead,
            waiting: place.waiting,
            chance: place.chance,
            eta_s: place.eta.as_secs(),
            pass,
            pass_expires_at,
        }
    }
}

/// Join the waiting room of a sale.
///
/// Returns the account's existing place, if it has one.
#[utoipa::path(post, path = "/v1/sales/{id}/queue", tag = "buyers", params(("id" = String, Path)),
    request_body = JoinInput, security(("bearer" = [])),
    responses((status = 200, body = QueueShape), (status = 401, body = Problem), (status = 403, body = Problem),
              (status = 404, body = Problem), (status = 409, body = Problem), (status = 503, body = Problem)))]
pub(crate) async fn join(
    State(site): State<Site>,
    Id(id): Id<CampaignId>,
    Buyer(buyer): Buyer,
    input: Input<JoinInput>,
) -> Result<Json<QueueShape>, Problem> {
    join_campaign(&site, id, buyer, input.value).await
}

/// Join the waiting room of a draw.
///
/// Returns the account's existing place, if it has one.
#[utoipa::path(post, path = "/v1/draws/{id}/queue", tag = "buyers", params(("id" = String, Path)),
    request_body = JoinInput, security(("bearer" = [])),
    responses((status = 200, body = QueueShape), (status = 401, body = Problem), (status = 403, body = Problem),
              (status = 404, body = Problem), (status = 409, body = Problem), (status = 503, body = Problem)))]
pub(crate) async fn join_draw(
    State(site): State<Site>,
    Id(id): Id<DrawId>,
    Buyer(player): Buyer,
    input: Input<JoinInput>,
) -> Result<Json<QueueShape>, Problem> {
    join_campaign(&site, id.campaign(), player, input.value).await
}

pub(crate) async fn join_campaign(
    site: &Site,
    id: CampaignId,
    user: UserId,
    input: JoinInput,
) -> Result<Json<QueueShape>, Problem> {
    let campaign = site.app.passes.campaign_open_or_upcoming(id).await?;
    let app = site.app.clone();
    let change = async move {
        let answer = input.challenge_id.as_deref().zip(input.answer.as_deref());
        app.waiting_rooms.join(user, &campaign, answer).await
    };
    Ok(Json(site.run_to_completion(change).await?.into()))
}

/// Get the account's place in the waiting room of a sale.
///
/// Poll at least every two minutes to keep the place.
#[utoipa::path(get, path = "/v1/sales/{id}/queue", tag = "buyers", params(("id" = String, Path)),
    security(("bearer" = [])),
    responses((status = 200, body = QueueShape), (status = 401, body = Problem), (status = 403, body = Problem),
              (status = 404, body = Problem)))]
pub(crate) async fn place(
    State(site): State<Site>,
    Id(id): Id<CampaignId>,
    Buyer(buyer): Buyer,
) -> Result<Json<QueueShape>, Problem> {
    let sale = site.app.passes.campaign_open_or_upcoming(id).await?;
    Ok(Json(site.app.waiting_rooms.place_of(buyer, &sale).await?.into()))
}

/// Get the account's place in the waiting room of a draw.
///
/// Poll at least every two minutes to keep the place.
#[utoipa::path(get, path = "/v1/draws/{id}/queue", tag = "buyers", params(("id" = String, Path)),
    security(("bearer" = [])),
    responses((status = 200, body = QueueShape), (status = 401, body = Problem), (status = 403, body = Problem),
              (status = 404, body = Problem)))]
pub(crate) async fn place_in_draw(
    State(site): State<Site>,
    Id(id): Id<DrawId>,
    Buyer(player): Buyer,
) -> Result<Json<QueueShape>, Problem> {
    let draw = site.app.passes.campaign_open_or_upcoming(id.campaign()).await?;
    Ok(Json(site.app.waiting_rooms.place_of(player, &draw).await?.into()))
}
