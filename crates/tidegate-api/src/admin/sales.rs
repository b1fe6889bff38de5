//! Sales: the operators' endpoints.

pub(crate) mod audit;
pub(crate) mod drafts;
pub(crate) mod json;
pub(crate) mod lifecycle;
pub(crate) mod stock;

use tidegate_http::Site;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(crate) fn routes() -> OpenApiRouter<Site> {
    OpenApiRouter::new()
        .routes(routes!(drafts::create, drafts::list))
        .routes(routes!(drafts::show, drafts::edit))
        .routes(routes!(lifecycle::submit))
        .routes(routes!(lifecycle::approve))
        .routes(routes!(lifecycle::refuse))
        .routes(routes!(lifecycle::publish))
        .routes(routes!(lifecycle::pause))
        .routes(routes!(lifecycle::resume))
        .routes(routes!(lifecycle::close))
        .routes(routes!(lifecycle::reopen))
        .routes(routes!(stock::restock))
        .routes(routes!(stock::admission))
        .routes(routes!(audit::audit))
}
