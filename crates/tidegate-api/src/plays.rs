//! Plays: the player's endpoints.

pub(crate) mod address;
pub(crate) mod json;
pub(crate) mod list;
pub(crate) mod play;

use tidegate_http::Site;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(crate) fn routes() -> OpenApiRouter<Site> {
    OpenApiRouter::new()
        .routes(routes!(play::play))
        .routes(routes!(list::list))
        .routes(routes!(list::show))
        .routes(routes!(address::address))
}
