//! The figures of running campaigns as server-sent events, for operators.
//!
//! What always holds: streams are bounded in number and in time, and none outlives the session it was opened with by more
//! than a look; watching makes no session last longer.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::Stream;
use futures_util::stream::unfold;
use serde::Deserialize;
use tidegate_core::{CampaignId, DrawId, Rejection, Role};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Interval, MissedTickBehavior};
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Site;
use super::browser::console_token;
use super::input::{Asked, Operator, bearer};
use super::live_shapes::{LiveShape, OverviewShape};
use super::problem::Problem;
use super::terms::Checks;
use crate::ops::operators::Operating;
use crate::ops::{App, Refusal};

/// A client keeps its stream no longer than this; browsers come back by themselves.
const LONGEST: Duration = Duration::from_secs(30 * 60);
pub(super) const HEARTBEAT: Duration = Duration::from_secs(10);
const EVERY: Duration = Duration::from_secs(1);
/// Who watches is looked at again after this.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// What takes longer than this is not told; the next second may be better.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) fn routes() -> OpenApiRouter<Site> {
    OpenApiRouter::new().routes(routes!(live))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct LiveQuery {
    /// All figures of this sale instead of everything in short.
    sale_id: Option<String>,
    /// All figures of this draw instead of everything in short.
    draw_id: Option<String>,
    /// Whether its figures since the start come with every event.
    #[param(value_type = Option<bool>)]
    series: Option<String>,
}

/// What a stream tells of.
#[derive(Clone, Copy, Debug)]
enum About {
    All,
    One { id: CampaignId, series: bool },
}

impl LiveQuery {
    fn check(&self, app: &App) -> Result<About, Problem> {
        let mut checks = Checks::default();
        let sale = self.sale_id.as_deref().map(|text| app.parse::<CampaignId>(text));
        let draw = self.draw_id.as_deref().map(|text| app.parse::<DrawId>(text).map(DrawId::campaign));
        if sale == Some(None) {
            checks.wrong("sale_id", "is not the id of a sale");
        }
        if draw == Some(None) {
            checks.wrong("draw_id", "is not the id of a draw");
        }
        if sale.is_some() && draw.is_some() {
            checks.wrong("draw_id", "cannot be given together with sale_id");
        }
        let series = self.series.as_deref().unwrap_or("false").parse();
        if series.is_err() {
            checks.wrong("series", "must be true or false");
        }
        let id = sale.or(draw).flatten();
        checks.done(Some(id.map_or(About::All, |id| About::One { id, series: series.unwrap_or(false) })))
    }
}

/// The figures now and every second, as events named `live`: all running campaigns in short, or one with everything.
#[utoipa::path(get, path = "/v1/admin/live", tag = "operators", params(LiveQuery), security(("bearer" = [])),
    responses((status = 200, content_type = "text/event-stream", body = OverviewShape,
               description = "`LiveShape` where one campaign was asked for"),
              (status = 401, body = Problem), (status = 403, body = Problem), (status = 404, body = Problem),
              (status = 422, body = Problem), (status = 503, body = Problem)))]
async fn live(
    State(site): State<Site>,
    Operator(who): Operator,
    headers: HeaderMap,
    Asked(query): Asked<LiveQuery>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    let about = query.check(&site.app)?;
    if let About::One { id, .. } = about {
        site.app.live(id).await?;
    }
    let shown = bearer(&headers).or(console_token(&headers)).unwrap_or_default().to_owned();
    let board = Board { watch: Watch::of(&site, who, shown)?, about };
    let events = unfold(board, |mut board| async move { board.next().await.map(|event| (Ok(event), board)) });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(HEARTBEAT)))
}

/// What paces a stream of figures, as long as it may last.
pub(super) struct Watch {
    pub(super) app: Arc<App>,
    /// Who watches, as they were at the last look.
    pub(super) who: Operating,
    /// What they have shown: the token of a console, or a key.
    bearer: String,
    looked: tokio::time::Instant,
    ticks: Interval,
    until: tokio::time::Instant,
    _place: OwnedSemaphorePermit,
}

impl Watch {
    /// A place for one more; a refusal where there are too many.
    pub(super) fn of(site: &Site, who: Operating, bearer: String) -> Result<Self, Problem> {
        let too_many = || {
            let detail = "Too many streams of figures are open; close one.";
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "busy", detail)
        };
        let place = site.app.watch_live().ok_or_else(too_many)?;
        site.app.metrics.streams.inc();
        let mut ticks = tokio::time::interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let looked = tokio::time::Instant::now();
        Ok(Self { app: site.app.clone(), who, bearer, looked, ticks, until: looked + LONGEST, _place: place })
    }

    /// Waits for the next second; `None` when the stream is over.
    pub(super) async fn tick(&mut self) -> Option<()> {
        tokio::select! {
            // A server that stops tells nothing more.
            biased;
            () = self.app.closed() => return None,
            () = tokio::time::sleep_until(self.until) => return None,
            _ = self.ticks.tick() => {}
        }
        if self.looked.elapsed() >= LOOK_EVERY {
            self.looked = tokio::time::Instant::now();
            let app = self.app.clone();
            match told(&app, app.still_operator(&self.bearer)).await? {
                Ok(who) => self.who = who,
                Err(Refusal::Rejected(Rejection::Unauthenticated) | Refusal::NotSignedIn { .. }) => {
                    return None;
                }
                // The ledger does not answer; at the next look it may.
                Err(_) => {}
            }
        }
        self.who.may(Role::Viewer).ok()
    }
}

/// Waits for what is to be told, though not for long; `None` when the server stops.
pub(super) async fn told<T>(
    app: &App,
    telling: impl Future<Output = Result<T, Refusal>>,
) -> Option<Result<T, Refusal>> {
    tokio::select! {
        biased;
        () = app.closed() => None,
        outcome = tokio::time::timeout(PATIENCE, telling) => Some(outcome.unwrap_or(Err(Rejection::Busy.into()))),
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.app.metrics.streams.dec();
    }
}

/// One stream of figures.
struct Board {
    watch: Watch,
    about: About,
}

impl Board {
    async fn next(&mut self) -> Option<Event> {
        loop {
            self.watch.tick().await?;
            // In a second in which the ledger does not answer nothing is told; the next may be better.
            if let Ok(event) = told(&self.watch.app, self.event()).await? {
                return Some(event);
            }
        }
    }

    async fn event(&self) -> Result<Event, Refusal> {
        let (app, event) = (&self.watch.app, Event::default().event("live"));
        let told = match self.about {
            About::All => event.json_data(OverviewShape::of(app, app.live_overview().await?)),
            About::One { id, series } => event.json_data(LiveShape::of(app, &app.live(id).await?, series)),
        };
        told.map_err(|error| Refusal::Unavailable(error.to_string()))
    }
}
