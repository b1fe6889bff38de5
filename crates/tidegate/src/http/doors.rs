//! The way in: orders by a door of their own, everything else by the router.
//!
//! A router with its layers costs an allocation or two for each, and an order is what a rush is made of. What always holds:
//! both doors lead past the same limits, headers and counts (`around`), and to the same handler.

use std::panic::AssertUnwindSafe;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::Method;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use hyper::body::Incoming;
use tidegate_core::CampaignId;
use tower::ServiceExt;

use super::input::Id;
use super::{Site, around, broken, orders};
use crate::metrics::Route;

/// Every way into the site; cheap to clone.
#[derive(Clone, Debug)]
pub struct Doors {
    pub(super) site: Site,
    pub(super) router: Router,
}

impl Doors {
    pub(super) async fn answer(&self, request: hyper::Request<Incoming>) -> Response {
        let Some(sale) = self.ordered_from(request.method(), request.uri().path()) else {
            let answered = self.router.clone().oneshot(request).await;
            return answered.unwrap_or_else(|never| match never {});
        };
        let site = self.site.clone();
        let place = async move |request: Request| {
            let placed = AssertUnwindSafe(orders::place(State(site), Id(sale), request)).catch_unwind().await;
            placed.map_or_else(|_| broken(), IntoResponse::into_response)
        };
        around(&self.site, request.map(Body::new), Route::Known(orders::PATH), place).await
    }

    /// The sale that a request orders from. What is not quite that goes to the router, which says why.
    fn ordered_from(&self, method: &Method, path: &str) -> Option<CampaignId> {
        let sale = path.strip_prefix("/v1/sales/")?.strip_suffix("/orders")?;
        if method == Method::POST { self.site.app.parse(sale) } else { None }
    }
}
