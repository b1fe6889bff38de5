//! A player's own plays.

use axum::Json;
use axum::extract::State;
use tidegate_app::plays::PlayView;
use tidegate_core::PlayId;
use tidegate_http::Site;
use tidegate_http::input::{Buyer, Id, PageQuery, StrictQuery};
use tidegate_http::problem::Problem;

use crate::json::PageShape;
use crate::plays::json::PlayShape;

/// List the player's plays, newest first.
#[utoipa::path(get, path = "/v1/plays", tag = "buyers", params(PageQuery), security(("bearer" = [])),
    responses((status = 200, body = PageShape<PlayShape>), (status = 401, body = Problem)))]
pub(crate) async fn list(
    State(site): State<Site>,
    Buyer(player): Buyer,
    StrictQuery(query): StrictQuery<PageQuery>,
) -> Result<Json<PageShape<PlayShape>>, Problem> {
    let app = &site.app;
    let page = query.page(app, PlayId::raw)?;
    let plays = app.plays.plays_of_player(player, page).await?;
    let cursor = |view: &PlayView| app.print(view.play.id);
    Ok(Json(PageShape::of(plays, page.limit, cursor, |view| PlayShape::of(app, view))))
}

/// Get one of the player's plays.
#[utoipa::path(get, path = "/v1/plays/{id}", tag = "buyers", params(("id" = String, Path)), security(("bearer" = [])),
    responses((status = 200, body = PlayShape), (status = 401, body = Problem), (status = 404, body = Problem)))]
pub(crate) async fn show(
    State(site): State<Site>,
    Buyer(player): Buyer,
    Id(id): Id<PlayId>,
) -> Result<Json<PlayShape>, Problem> {
    Ok(Json(PlayShape::of(&site.app, site.app.plays.play_of_player(player, id).await?)))
}
