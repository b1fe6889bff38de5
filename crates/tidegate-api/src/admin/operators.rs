//! Operators: sign-in, accounts, second factors. The use cases check permissions.

pub(crate) mod accounts;
pub(crate) mod json;
pub(crate) mod login;
pub(crate) mod second_factor;

use tidegate_http::Site;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(crate) fn routes() -> OpenApiRouter<Site> {
    OpenApiRouter::new()
        .routes(routes!(login::login))
        .routes(routes!(login::logout))
        .routes(routes!(login::me))
        .routes(routes!(accounts::create, accounts::list))
        .routes(routes!(accounts::change))
        .routes(routes!(second_factor::begin_totp, second_factor::confirm_totp, second_factor::remove_totp))
}
