//! The HTTP side: reads requests, asks the use cases, shapes answers. No rule lives here.

mod accounts;
mod admin;
mod draws;
pub mod fast_path;
mod hot_routes;
mod items;
mod json;
mod orders;
mod passes;
mod plays;
mod sales;
pub mod socket;
mod system;
mod waiting_room;

use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::{Router, middleware};
use tidegate_core::ProblemCode;
use tidegate_http::problem::Problem;
use tidegate_http::{Site, broken, request_scope};
use tower_http::catch_panic::CatchPanicLayer;
use utoipa::OpenApi;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa_axum::router::OpenApiRouter;
use utoipa_swagger_ui::SwaggerUi;

pub use self::hot_routes::HotRoutes;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Tidegate",
        description = "A flash-sale and prize-draw engine: every unit sold exactly once. \
                       Errors are RFC 9457 problems with a stable `code`. Money is in minor units, \
                       times are RFC 3339 in UTC, ids are opaque strings.",
    ),
    tags(
        (name = "buyers", description = "What buyers call, with their bearer token"),
        (name = "operators", description = "What operators call, with the admin key, an API key or their \
            console's token as bearer token. Viewers may look, operators may change things, admins decide who the \
            others are"),
        (name = "system", description = "What machines call"),
    ),
    components(schemas(Problem, admin::live::json::LiveShape))
)]
struct Api;

/// Every route of the API with the document that describes them, and `pages` beside them. `bypass` says whether orders
/// and plays bypass the router.
pub fn hot_routes(site: Site, pages: Router<Site>, bypass: bool) -> HotRoutes {
    let (router, api) = api().split_for_parts();
    let docs: Router<Site> = SwaggerUi::new("/docs").url("/openapi.json", api).into();
    let router = router
        .merge(docs)
        .merge(pages)
        .fallback(async || Problem::new(StatusCode::NOT_FOUND, ProblemCode::NotFound, "Not found."))
        .method_not_allowed_fallback(async || {
            let detail = "This resource does not support this method.";
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, ProblemCode::MethodNotAllowed, detail)
        })
        .layer(CatchPanicLayer::custom(|_| broken().into_response()))
        .layer(middleware::from_fn_with_state(site.clone(), request_scope::layer))
        .with_state(site.clone());
    HotRoutes { site, router, bypass }
}

fn api() -> OpenApiRouter<Site> {
    let mut api = Api::openapi();
    let bearer = SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build());
    if let Some(components) = api.components.as_mut() {
        components.add_security_scheme("bearer", bearer);
    }
    OpenApiRouter::with_openapi(api)
        .merge(accounts::routes())
        .merge(items::routes())
        .merge(sales::routes())
        .merge(orders::routes())
        .merge(draws::routes())
        .merge(plays::routes())
        .merge(passes::routes())
        .merge(waiting_room::routes())
        .merge(admin::routes())
        .merge(system::routes())
}
