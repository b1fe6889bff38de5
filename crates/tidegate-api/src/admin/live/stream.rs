//! The live figures of campaigns, as server-sent events.

use std::convert::Infallible;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::Stream;
use futures_util::stream::unfold;
use serde::Deserialize;
use tidegate_app::{App, Refusal};
use tidegate_core::{CampaignId, DrawId};
use tidegate_http::Site;
use tidegate_http::browser::console_token;
use tidegate_http::input::{Operator, StrictQuery, bearer};
use tidegate_http::inputs::Checks;
use tidegate_http::live_stream::{HEARTBEAT, Watch, told};
use tidegate_http::problem::Problem;
use utoipa::IntoParams;

use crate::admin::live::json::{LiveShape, OverviewShape};

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct LiveQuery {
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
pub(crate) enum About {
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
pub(crate) async fn live(
    State(site): State<Site>,
    Operator(who): Operator,
    headers: HeaderMap,
    StrictQuery(query): StrictQuery<LiveQuery>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    let about = query.check(&site.app)?;
    if let About::One { id, .. } = about {
        site.app.live.figures(id).await?;
    }
    let shown = bearer(&headers).or(console_token(&headers)).unwrap_or_default().to_owned();
    let board = Board { watch: Watch::of(&site, who, shown)?, about };
    let events = unfold(board, |mut board| async move { board.next().await.map(|event| (Ok(event), board)) });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(HEARTBEAT)))
}

/// One stream of figures.
pub(crate) struct Board {
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
            About::All => event.json_data(OverviewShape::of(app, app.live.overview().await?)),
            About::One { id, series } => {
                event.json_data(LiveShape::of(app, &app.live.figures(id).await?, series))
            }
        };
        told.map_err(|error| Refusal::Unavailable(error.to_string()))
    }
}
