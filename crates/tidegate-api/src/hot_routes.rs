//! Orders and plays bypass the router; everything else goes through it.
//!
//! A router with its layers costs an allocation or two per layer, and a rush consists of orders and plays. Invariant:
//! both ways apply the same limits, headers and metrics (`RequestScope`) and call the same handlers.

use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::pin::pin;

use axum::Router;
use axum::extract::Request;
use axum::http::Method;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use tidegate_core::{CampaignId, DrawId};
use tidegate_http::Site;
use tidegate_http::headers::Headers;
use tidegate_http::input::{Peer, RequestBody};
use tidegate_http::request_scope::{CommonHeaders, ReceivedAt, RequestScope};
use tidegate_http::response::PlainResponse;
use tower::ServiceExt;

use super::{broken, orders, plays};

/// All routes of the site; cheap to clone.
#[derive(Clone, Debug)]
pub struct HotRoutes {
    pub(super) site: Site,
    pub(super) router: Router,
    /// Whether orders and plays bypass the router.
    pub(super) bypass: bool,
}

/// A route that bypasses the router.
#[derive(Clone, Copy)]
pub(super) enum HotRoute {
    Order(CampaignId),
    Play(DrawId),
}

impl HotRoutes {
    pub async fn answer(&self, mut request: Request, peer: IpAddr) -> Response {
        let Some(route) = self.hot_route(request.method(), request.uri().path()) else {
            request.extensions_mut().insert(Peer(peer));
            let answered = self.router.clone().oneshot(request).await;
            return answered.unwrap_or_else(|never| match never {});
        };
        let (parts, body) = request.into_parts();
        let (path, headers) = (parts.uri.path(), (&parts.headers).into());
        let (body, received) = (RequestBody::Incoming(body), ReceivedAt::now(&self.site.app));
        let (response, common) = self.dispatch(route, peer, path, headers, body, received).await;
        let mut response = response.into_response();
        common.apply(&mut response);
        response
    }

    /// `None` also for a path that only resembles one: the router answers what is wrong with it.
    pub(super) fn hot_route(&self, method: &Method, path: &str) -> Option<HotRoute> {
        if !self.bypass || method != Method::POST {
            return None;
        }
        if let Some(rest) = path.strip_prefix("/v1/sales/") {
            return self.site.app.parse(rest.strip_suffix("/orders")?).map(HotRoute::Order);
        }
        let rest = path.strip_prefix("/v1/draws/")?;
        self.site.app.parse(rest.strip_suffix("/plays")?).map(HotRoute::Play)
    }

    pub(super) async fn dispatch(
        &self,
        route: HotRoute,
        peer: IpAddr,
        path: &str,
        headers: Headers<'_>,
        body: RequestBody<'_>,
        received: ReceivedAt,
    ) -> (PlainResponse, CommonHeaders) {
        let site = &self.site;
        let pattern = match route {
            HotRoute::Order(_) => orders::place::PATH,
            HotRoute::Play(_) => plays::play::PATH,
        };
        let client = site.limits.client(Peer(peer), headers);
        let (scope, admitted) =
            RequestScope::begin(site, pattern, &Method::POST, path, Some(client), received.at);
        let response = async {
            match (admitted, route) {
                (Err(refusal), _) => refusal.into_response_parts(),
                (Ok(()), HotRoute::Order(sale)) => {
                    orders::place::answer(site, sale, headers, body, received).await
                }
                // Boxed, so that the future of an order, which is moved, stays small.
                (Ok(()), HotRoute::Play(draw)) => {
                    Box::pin(plays::play::answer(site, draw, headers, body, received)).await
                }
            }
        };
        // Pinned here, so that it is not moved into `catch_unwind`.
        let response = AssertUnwindSafe(pin!(response)).catch_unwind().await;
        let response = response.unwrap_or_else(|_| broken().into_response_parts());
        let common = scope.end(response.status);
        (response, common)
    }
}
