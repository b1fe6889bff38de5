//! An order's changes as server-sent events.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::Stream;
use futures_util::stream::unfold;
use tidegate_core::{OrderId, OrderState, UserId};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Site;
use super::input::{Buyer, Id};
use super::order_shapes::OrderShape;
use super::problem::Problem;
use crate::ops::App;
use crate::ops::watch::Watch;

/// A client keeps its stream no longer than this; browsers come back by themselves.
const LONGEST: Duration = Duration::from_secs(30 * 60);
const HEARTBEAT: Duration = Duration::from_secs(10);
/// Looks again even without being told, should a change go unheard.
const LOOK_EVERY: Duration = Duration::from_secs(5);

pub(super) fn routes() -> OpenApiRouter<Site> {
    OpenApiRouter::new().routes(routes!(stream))
}

/// The order now, and again at every change, as events named `order`. Ends when nothing more can happen to it.
#[utoipa::path(get, path = "/v1/orders/{id}/stream", tag = "buyers", params(("id" = String, Path)),
    security(("bearer" = [])),
    responses((status = 200, content_type = "text/event-stream"), (status = 401, body = Problem),
              (status = 404, body = Problem), (status = 503, body = Problem)))]
async fn stream(
    State(site): State<Site>,
    Buyer(buyer): Buyer,
    Id(id): Id<OrderId>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    site.app.order_of_buyer(buyer, id).await?;
    let too_many = || {
        Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "busy",
            "Too many streams are open; poll the order instead.",
        )
    };
    let watch = site.app.watchers.watch(id).ok_or_else(too_many)?;
    site.app.metrics.streams.inc();
    let follower = Follower { app: site.app.clone(), buyer, id, watch, shown: None, until: None };
    let events =
        unfold(follower, |mut follower| async move { follower.next().await.map(|event| (event, follower)) });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(HEARTBEAT)))
}

struct Follower {
    app: Arc<App>,
    buyer: UserId,
    id: OrderId,
    watch: Watch,
    shown: Option<OrderState>,
    until: Option<tokio::time::Instant>,
}

impl Follower {
    async fn next(&mut self) -> Option<Result<Event, Infallible>> {
        let until = *self.until.get_or_insert_with(|| tokio::time::Instant::now() + LONGEST);
        while !self.shown.is_some_and(OrderState::is_final) {
            let changed = self.watch.changed();
            let order = self.app.order_of_buyer(self.buyer, self.id).await.ok()?;
            if self.shown != Some(order.state) {
                self.shown = Some(order.state);
                let event = Event::default().event("order").json_data(OrderShape::of(&self.app, &order));
                return event.ok().map(Ok);
            }
            tokio::select! {
                () = changed => {}
                () = tokio::time::sleep(LOOK_EVERY) => {}
                () = tokio::time::sleep_until(until) => return None,
                () = self.app.closed() => return None,
            }
        }
        None
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.app.metrics.streams.dec();
    }
}
