//! Managing webhooks.

pub(crate) mod json;
pub(crate) mod manage;
pub(crate) mod replay;

use tidegate_http::Site;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(crate) fn routes() -> OpenApiRouter<Site> {
    OpenApiRouter::new()
        .routes(routes!(manage::create, manage::list))
        .routes(routes!(manage::show, manage::delete))
        .routes(routes!(manage::rotate))
        .routes(routes!(manage::enable))
        .routes(routes!(replay::replay))
}
