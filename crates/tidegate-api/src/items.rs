//! The catalogue of items.

pub(crate) mod json;
pub(crate) mod list;

use tidegate_http::Site;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(crate) fn routes() -> OpenApiRouter<Site> {
    OpenApiRouter::new().routes(routes!(list::list)).routes(routes!(list::show))
}
