//! Live figures of campaigns.

pub(crate) mod json;
pub(crate) mod stream;

use tidegate_http::Site;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(crate) fn routes() -> OpenApiRouter<Site> {
    OpenApiRouter::new().routes(routes!(stream::live))
}
