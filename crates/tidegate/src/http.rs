//! The HTTP side: reads requests, asks the use cases, shapes answers. No rule lives here.

mod accounts;
mod admin_draws;
mod admin_orders;
mod admin_sales;
mod answer;
mod api_keys;
mod attempt;
mod browser;
mod console;
mod deliveries;
mod delivery_shapes;
mod doors;
mod draw_shapes;
mod draw_terms;
mod draws;
mod headers;
mod input;
mod items;
mod limits;
mod listener;
mod live;
mod live_shapes;
mod operators;
mod order_shapes;
mod orders;
mod pages;
mod passes;
mod plays;
mod problem;
mod queue;
mod sales;
mod shapes;
mod short_way;
mod socket;
mod steps;
mod stream;
mod system;
mod terms;
mod visit;
mod waiting;
mod webhooks;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::middleware;
use axum::response::IntoResponse;
use tidegate_core::Rejection;
use tokio::sync::Semaphore;
use tower_http::catch_panic::CatchPanicLayer;
use utoipa::OpenApi;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa_axum::router::OpenApiRouter;
use utoipa_swagger_ui::SwaggerUi;

use self::attempt::Places;
pub use self::doors::Doors;
use self::input::Bounds;
use self::limits::Limits;
pub use self::listener::{listen, serve};
use self::problem::Problem;
pub use self::waiting::Waiting;
use crate::config::Config;
use crate::ops::{App, Refusal};

/// What every handler works with. Every layer takes a copy for every request, so that one is a single count.
#[derive(Clone, Debug)]
pub struct Site(Arc<Parts>);

#[derive(Debug)]
pub struct Parts {
    app: Arc<App>,
    bounds: Bounds,
    changes: Arc<Semaphore>,
    /// Orders and plays being decided.
    orders: Places,
    /// Proofs being written out.
    proofs: Arc<Semaphore>,
    /// Lists being written out for operators.
    exports: Arc<Semaphore>,
    limits: Arc<Limits>,
}

impl std::ops::Deref for Site {
    type Target = Parts;
    fn deref(&self) -> &Parts {
        &self.0
    }
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Tidegate",
        description = "A flash-sale and prize-draw engine: every unit sold exactly once. Errors are RFC 9457 problems with a stable \
                       `code`. Money is in minor units, times are RFC 3339 in UTC, ids are opaque strings.",
    ),
    tags(
        (name = "buyers", description = "What buyers call, with their bearer token"),
        (name = "operators", description = "What operators call, with the admin key, an API key or their console's token as bearer token. Viewers may look, \
                                           operators may change things, admins decide who the others are"),
        (name = "system", description = "What machines call"),
    ),
    components(schemas(Problem, live_shapes::LiveShape))
)]
struct Api;

/// Every route, with the document that describes them.
pub fn doors(app: Arc<App>, config: &Config) -> Doors {
    let settings = &config.http;
    let bounds = Bounds {
        max_body_bytes: settings.max_body_bytes,
        max_draw_bytes: settings.max_draw_bytes,
        body_timeout: Duration::from_millis(settings.body_timeout_ms),
    };
    let site = Site(Arc::new(Parts {
        app,
        bounds,
        changes: Arc::new(Semaphore::new(MAX_CHANGES)),
        orders: Places::new(settings.max_orders_in_flight),
        proofs: Arc::new(Semaphore::new(MAX_PROOFS)),
        exports: Arc::new(Semaphore::new(MAX_EXPORTS)),
        limits: Limits::new(config),
    }));
    let (router, api) = api().split_for_parts();
    let docs: Router<Site> = SwaggerUi::new("/docs").url("/openapi.json", api).into();
    let router = router
        .merge(docs)
        .merge(pages::routes())
        .merge(console::routes())
        .fallback(async || Problem::new(StatusCode::NOT_FOUND, "not_found", "There is no such address."))
        .method_not_allowed_fallback(async || {
            let detail = "This address does not take this method.";
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail)
        })
        .layer(CatchPanicLayer::custom(|_| broken().into_response()))
        .layer(middleware::from_fn_with_state(site.clone(), visit::by_router))
        .with_state(site.clone());
    Doors { site, router }
}

/// What is answered where a handler panicked.
fn broken() -> Problem {
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "Something broke here.")
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
        .merge(queue::routes())
        .merge(stream::routes())
        .merge(admin_sales::routes())
        .merge(admin_orders::routes())
        .merge(admin_draws::routes())
        .merge(deliveries::routes())
        .merge(webhooks::routes())
        .merge(live::routes())
        .merge(operators::routes())
        .merge(api_keys::routes())
        .merge(system::routes())
}

/// Proofs of closed draws written out at a time: each can be long.
const MAX_PROOFS: usize = 32;
/// The same for operators' lists.
const MAX_EXPORTS: usize = 8;
/// Changes being carried out at a time.
const MAX_CHANGES: usize = 4096;

impl Site {
    /// Carries a change out to its end, even if the client hangs up in the middle.
    async fn carry_out<T: Send + 'static>(
        &self,
        change: impl Future<Output = Result<T, Refusal>> + Send + 'static,
    ) -> Result<T, Problem> {
        let place = self.changes.clone().try_acquire_owned().map_err(|_| Rejection::Busy)?;
        let done = tokio::spawn(async move {
            let _place = place;
            change.await
        });
        Ok(done.await.unwrap_or_else(|panic| Err(Refusal::Unknown(panic.to_string())))?)
    }
}
