//! Orders: the operators' endpoints.

pub(crate) mod json;
pub(crate) mod list;
pub(crate) mod refund;

use tidegate_http::Site;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(crate) fn routes() -> OpenApiRouter<Site> {
    OpenApiRouter::new()
        .routes(routes!(list::list))
        .routes(routes!(list::show))
        .routes(routes!(refund::cancel))
        .routes(routes!(refund::refund))
}
