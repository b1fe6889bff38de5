//! Orders: the buyer's endpoints.

pub(crate) mod cancel;
pub(crate) mod json;
pub(crate) mod list;
pub(crate) mod pay;
pub(crate) mod place;
pub(crate) mod stream;

use tidegate_http::Site;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(crate) fn routes() -> OpenApiRouter<Site> {
    OpenApiRouter::new()
        .routes(routes!(place::place))
        .routes(routes!(list::list))
        .routes(routes!(list::show))
        .routes(routes!(pay::pay))
        .routes(routes!(cancel::cancel))
        .routes(routes!(stream::stream))
}
