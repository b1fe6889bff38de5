//! The operators' API, under `/v1/admin`.

pub(crate) mod api_keys;
pub(crate) mod deliveries;
pub(crate) mod draws;
pub(crate) mod events;
pub(crate) mod items;
pub(crate) mod json;
pub(crate) mod lifecycle;
pub(crate) mod live;
pub(crate) mod operators;
pub(crate) mod orders;
pub(crate) mod plays;
pub(crate) mod sales;
pub(crate) mod tokens;
pub(crate) mod webhooks;

use tidegate_http::Site;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(crate) fn routes() -> OpenApiRouter<Site> {
    OpenApiRouter::new()
        .merge(sales::routes())
        .merge(draws::routes())
        .merge(orders::routes())
        .merge(deliveries::routes())
        .merge(webhooks::routes())
        .merge(live::routes())
        .merge(operators::routes())
        .merge(api_keys::routes())
        .routes(routes!(plays::plays))
        .routes(routes!(tokens::create_test_buyers))
        .routes(routes!(events::events))
        .routes(routes!(items::create, items::admin_list))
        .routes(routes!(items::update, items::admin_show))
}
