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
use tidegate_app::order_watchers::Watch;
use tidegate_core::{OrderId, OrderState, ProblemCode, UserId};
use tidegate_http::Site;
use tidegate_http::input::{Buyer, Id};
use tidegate_http::problem::Problem;

use crate::orders::json::OrderShape;

/// Longest duration of a stream; browsers reconnect by themselves.
pub(crate) const MAX_STREAM_DURATION: Duration = Duration::from_secs(30 * 60);

pub(crate) const HEARTBEAT: Duration = Duration::from_secs(10);

/// Polling interval, in case the notification of a change is lost.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// Stream the state of an order.
///
/// Server-sent events named `order`: the current order, then the order after each change of its state. The stream ends
/// when the state is final.
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
    let stream = OrderStream { app: site.app.clone(), buyer, id, watch, last_state: None, deadline: None };
    let events = unfold(stream, |mut stream| async move { stream.next().await.map(|event| (event, stream)) });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(HEARTBEAT)))
}

pub(crate) struct OrderStream {
    app: Arc<App>,
    buyer: UserId,
    id: OrderId,
    watch: Watch,
    last_state: Option<OrderState>,
    deadline: Option<tokio::time::Instant>,
}

impl OrderStream {
    async fn next(&mut self) -> Option<Result<Event, Infallible>> {
        let deadline =
            *self.deadline.get_or_insert_with(|| tokio::time::Instant::now() + MAX_STREAM_DURATION);
        while !self.last_state.is_some_and(OrderState::is_final) {
            let changed = self.watch.changed();
            let order = self.app.ordering.order_of_buyer(self.buyer, self.id).await.ok()?;
            if self.last_state != Some(order.state) {
                self.last_state = Some(order.state);
                let event = Event::default().event("order").json_data(OrderShape::of(&self.app, &order));
                return event.ok().map(Ok);
            }
            tokio::select! {
                () = changed => {}
                () = tokio::time::sleep(POLL_INTERVAL) => {}
                () = tokio::time::sleep_until(deadline) => return None,
                () = self.app.closed() => return None,
            }
        }
        None
    }
}

impl Drop for OrderStream {
    fn drop(&mut self) {
        self.app.metrics.streams.dec();
    }
}
