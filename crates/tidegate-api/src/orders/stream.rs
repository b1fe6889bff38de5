//! An order's changes as server-sent events.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::Stream;
use futures_util::stream::unfold;
use tidegate_app::App;
use tidegate_app::watch::Watch;
use tidegate_core::{OrderId, OrderState, ProblemCode, UserId};
use tidegate_http::Site;
use tidegate_http::input::{Buyer, Id};
use tidegate_http::problem::Problem;

use crate::orders::json::OrderShape;

/// A client keeps its stream no longer than this; browsers come back by themselves.
pub(crate) const LONGEST: Duration = Duration::from_secs(30 * 60);

pub(crate) const HEARTBEAT: Duration = Duration::from_secs(10);

/// Looks again even without being told, should a change go unheard.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(5);

/// The order now, and again at every change, as events named `order`. Ends when nothing more can happen to it.
#[utoipa::path(get, path = "/v1/orders/{id}/stream", tag = "buyers", params(("id" = String, Path)),
    security(("bearer" = [])),
    responses((status = 200, content_type = "text/event-stream"), (status = 401, body = Problem),
              (status = 404, body = Problem), (status = 503, body = Problem)))]
pub(crate) async fn stream(
    State(site): State<Site>,
    Buyer(buyer): Buyer,
    Id(id): Id<OrderId>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    site.app.ordering.order_of_buyer(buyer, id).await?;
    let too_many = || {
        Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            ProblemCode::Busy,
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

pub(crate) struct Follower {
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
            let order = self.app.ordering.order_of_buyer(self.buyer, self.id).await.ok()?;
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
