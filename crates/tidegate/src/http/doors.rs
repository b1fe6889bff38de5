//! The way in: what a crowd asks for by a door of its own, everything else by the router.
//!
//! A router with its layers costs an allocation or two for each, and orders and plays are what a rush is made of. What always
//! holds: both doors lead past the same limits, headers and counts (`visit`), and to the same answers.

use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::pin::pin;

use axum::Router;
use axum::extract::Request;
use axum::http::Method;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use tidegate_core::{CampaignId, DrawId};
use tower::ServiceExt;

use super::answer::Answer;
use super::headers::Headers;
use super::input::{Peer, Sent};
use super::visit::{Came, Dress, Visit};
use super::{Site, broken, orders, plays};
use crate::metrics::Route;

/// Every way into the site; cheap to clone.
#[derive(Clone, Debug)]
pub struct Doors {
    pub(super) site: Site,
    pub(super) router: Router,
}

/// What a crowd asks for.
#[derive(Clone, Copy)]
pub(super) enum Wish {
    Order(CampaignId),
    Play(DrawId),
}

impl Doors {
    pub(super) async fn answer(&self, mut request: Request, from: IpAddr) -> Response {
        let Some(wish) = self.wish(request.method(), request.uri().path()) else {
            request.extensions_mut().insert(Peer(from));
            let answered = self.router.clone().oneshot(request).await;
            return answered.unwrap_or_else(|never| match never {});
        };
        let (parts, body) = request.into_parts();
        let headers = (&parts.headers).into();
        let (path, sent, came) = (parts.uri.path(), Sent::Coming(body), Came::just_now(&self.site.app));
        let (answer, dress) = self.grant(wish, from, path, headers, sent, came).await;
        let mut response = answer.into_response();
        dress.put_on(&mut response);
        response
    }

    /// What is not quite one goes to the router, which says why.
    pub(super) fn wish(&self, method: &Method, path: &str) -> Option<Wish> {
        if method != Method::POST {
            return None;
        }
        if let Some(rest) = path.strip_prefix("/v1/sales/") {
            return self.site.app.parse(rest.strip_suffix("/orders")?).map(Wish::Order);
        }
        let rest = path.strip_prefix("/v1/draws/")?;
        self.site.app.parse(rest.strip_suffix("/plays")?).map(Wish::Play)
    }

    /// `came` is when it was read.
    pub(super) async fn grant(
        &self,
        wish: Wish,
        from: IpAddr,
        path: &str,
        headers: Headers<'_>,
        sent: Sent<'_>,
        came: Came,
    ) -> (Answer, Dress) {
        let site = &self.site;
        let route = match wish {
            Wish::Order(_) => orders::PATH,
            Wish::Play(_) => plays::PATH,
        };
        let asker = site.limits.asker(Peer(from), headers);
        let (visit, may_ask) =
            Visit::begin(site, Route::Known(route), &Method::POST, path, Some(asker), came.at);
        let answer = async {
            match (may_ask, wish) {
                (Err(refusal), _) => refusal.answer(),
                (Ok(()), Wish::Order(sale)) => orders::answer(site, sale, headers, sent, came).await,
                // Boxed: every order carries the room this needs about with it, and moves it.
                (Ok(()), Wish::Play(draw)) => Box::pin(plays::answer(site, draw, headers, sent, came)).await,
            }
        };
        // Pinned first, so that it is not moved.
        let answered = AssertUnwindSafe(pin!(answer)).catch_unwind().await;
        let answer = answered.unwrap_or_else(|_| broken().answer());
        let dress = visit.end(answer.status);
        (answer, dress)
    }
}
