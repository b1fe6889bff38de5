//! The shipping address of a prize.

use axum::Json;
use axum::extract::State;
use tidegate_core::PlayId;
use tidegate_http::Site;
use tidegate_http::input::{Buyer, Id, Input};
use tidegate_http::inputs::addresses::AddressInput;
use tidegate_http::problem::Problem;

use crate::plays::json::PlayShape;

/// Set the shipping address of a prize.
///
/// The address can be changed until the goods are on their way.
#[utoipa::path(put, path = "/v1/plays/{id}/address", tag = "buyers", params(("id" = String, Path)),
    request_body = AddressInput, security(("bearer" = [])),
    responses((status = 200, body = PlayShape), (status = 401, body = Problem), (status = 404, body = Problem),
              (status = 409, body = Problem), (status = 422, body = Problem)))]
pub(crate) async fn address(
    State(site): State<Site>,
    Buyer(player): Buyer,
    Id(id): Id<PlayId>,
    input: Input<AddressInput>,
) -> Result<Json<PlayShape>, Problem> {
    let (app, address) = (site.app.clone(), input.value.check()?);
    let view = site.run_to_completion(async move { app.plays.address(player, id, address).await }).await?;
    Ok(Json(PlayShape::of(&site.app, view)))
}
