//! Buyers' accounts: codes, registration, sessions.

pub(crate) mod codes;
pub(crate) mod json;
pub(crate) mod login;
pub(crate) mod me;
pub(crate) mod register;

use tidegate_http::Site;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(crate) fn routes() -> OpenApiRouter<Site> {
    OpenApiRouter::new()
        .routes(routes!(codes::codes))
        .routes(routes!(register::register))
        .routes(routes!(login::login))
        .routes(routes!(login::logout))
        .routes(routes!(me::me))
}
