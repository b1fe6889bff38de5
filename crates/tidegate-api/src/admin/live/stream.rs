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
use tidegate_http::live_stream::{HEARTBEAT, LiveStream, with_timeout_or_shutdown};
use tidegate_http::problem::Problem;
use utoipa::IntoParams;

use crate::admin::live::json::{LiveShape, OverviewShape};

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct LiveQuery {
    /// All figures of this sale, instead of a summary of every campaign.
    sale_id: Option<String>,
    /// All figures of this draw, instead of a summary of every campaign.
    draw_id: Option<String>,
    /// Include the time series since the start in every event; for a single campaign only.
    #[param(value_type = Option<bool>)]
    series: Option<String>,
}

/// The subject of a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StreamSubject {
    All,
    One { id: CampaignId, series: bool },
}

impl LiveQuery {
    fn check(&self, app: &App) -> Result<StreamSubject, Problem> {
        let mut checks = Checks::default();
        let sale = self.sale_id.as_deref().map(|text| app.parse::<CampaignId>(text));
        let draw = self.draw_id.as_deref().map(|text| app.parse::<DrawId>(text).map(DrawId::campaign));
        if sale == Some(None) {
            checks.error("sale_id", "is not the id of a sale");
        }
        if draw == Some(None) {
            checks.error("draw_id", "is not the id of a draw");
        }
        if sale.is_some() && draw.is_some() {
            checks.error("draw_id", "cannot be given together with sale_id");
        }
        let series = self.series.as_deref().unwrap_or("false").parse();
        if series.is_err() {
            checks.error("series", "must be true or false");
        }
        let id = sale.or(draw).flatten();
        checks.finish(Some(
            id.map_or(StreamSubject::All, |id| StreamSubject::One { id, series: series.unwrap_or(false) }),
        ))
    }
}

/// Stream live figures.
///
/// Server-sent events named `live`, once a second: a summary of all running campaigns, or all figures of one campaign.
#[utoipa::path(get, path = "/v1/admin/live", tag = "operators", params(LiveQuery), security(("bearer" = [])),
    responses((status = 200, content_type = "text/event-stream", body = OverviewShape,
               description = "`LiveShape` if one campaign was requested"),
              (status = 401, body = Problem), (status = 403, body = Problem), (status = 404, body = Problem),
              (status = 422, body = Problem), (status = 503, body = Problem)))]
pub(crate) async fn live(
    State(site): State<Site>,
    Operator(who): Operator,
    headers: HeaderMap,
    StrictQuery(query): StrictQuery<LiveQuery>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    let subject = query.check(&site.app)?;
    if let StreamSubject::One { id, .. } = subject {
        site.app.live.figures(id).await?;
    }
    let shown = bearer(&headers).or(console_token(&headers)).unwrap_or_default().to_owned();
    let stream = FiguresStream { live: LiveStream::of(&site, who, shown)?, subject };
    let events =
        unfold(stream, |mut stream| async move { stream.next().await.map(|event| (Ok(event), stream)) });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(HEARTBEAT)))
}

/// State of one stream.
pub(crate) struct FiguresStream {
    live: LiveStream,
    subject: StreamSubject,
}

impl FiguresStream {
    async fn next(&mut self) -> Option<Event> {
        loop {
            self.live.tick().await?;
            // If the ledger does not answer, skip this second and try again in the next one.
            if let Ok(event) = with_timeout_or_shutdown(&self.live.app, self.event()).await? {
                return Some(event);
            }
        }
    }

    async fn event(&self) -> Result<Event, Refusal> {
        let (app, event) = (&self.live.app, Event::default().event("live"));
        let event = match self.subject {
            StreamSubject::All => event.json_data(OverviewShape::of(app, app.live.overview().await?)),
            StreamSubject::One { id, series } => {
                event.json_data(LiveShape::of(app, &app.live.figures(id).await?, series))
            }
        };
        event.map_err(|error| Refusal::Unavailable(error.to_string()))
    }
}
