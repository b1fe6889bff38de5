//! Live dashboard updates: server-sent events that carry the live part of the page, once a second.
//!
//! Invariant: `LiveStream` bounds streams in number and duration and ends them with the session.

use std::convert::Infallible;

use askama::Template as _;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::Stream;
use futures_util::stream::unfold;
use tidegate_app::Refusal;
use tidegate_app::draws::OperatedDraw;
use tidegate_core::{CampaignId, Rejection};
use tidegate_http::Site;
use tidegate_http::browser::console_token;
use tidegate_http::live_stream::{HEARTBEAT, LiveStream, with_timeout_or_shutdown};

use super::super::CampaignPath;
use super::{Dashboard, LiveFragment};
use crate::console::{ConsoleContext, OperatorSession};
use crate::i18n::phrases::dashboard::DashboardPhrases;
use crate::page::PageError;

/// Seconds between two counts of a draw's prizes and deliveries.
const COUNT_EVERY: u64 = 3;

pub(crate) async fn live(
    State(site): State<Site>,
    session: OperatorSession,
    target: CampaignPath,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, PageError> {
    if !target.campaign.is_published() {
        return Err(Rejection::NotFound.into());
    }
    let token = console_token(&headers).ok_or(Rejection::Unauthenticated)?.to_owned();
    let stream = DashboardStream {
        live: LiveStream::of(&site, session.operator, token)?,
        ctx: session.ctx,
        id: target.campaign.id,
        path: target.path,
        draw: None,
        seconds: 0,
    };
    let events = unfold(stream, |mut stream| async move {
        let event = stream.next().await?;
        Some((Ok(event), stream))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(HEARTBEAT)))
}

/// State of one open dashboard.
struct DashboardStream {
    live: LiveStream,
    ctx: ConsoleContext,
    id: CampaignId,
    path: String,
    draw: Option<OperatedDraw>,
    seconds: u64,
}

impl DashboardStream {
    async fn next(&mut self) -> Option<Event> {
        loop {
            self.live.tick().await?;
            self.ctx.operator = Some(self.live.who.clone());
            let app = self.live.app.clone();
            let fragment = with_timeout_or_shutdown(&app, self.fragment()).await?;
            self.seconds += 1;
            // If the ledger does not answer, skip this second and try again in the next one.
            if let Ok(text) = fragment {
                return Some(Event::default().event("live").data(text));
            }
        }
    }

    /// The live part of the page, rendered with current figures.
    async fn fragment(&mut self) -> Result<String, Refusal> {
        let app = &self.live.app;
        let campaign = app.campaigns.find(self.id).await?;
        let figures = app.live.figures(self.id).await?;
        if campaign.draw().is_some() && self.seconds.is_multiple_of(COUNT_EVERY) {
            self.draw = Some(app.campaigns.operated_draw(campaign.clone()).await?);
        }
        let lang = self.ctx.lang;
        let fragment = LiveFragment {
            ctx: &self.ctx,
            t: DashboardPhrases::of(lang),
            path: &self.path,
            dashboard: Dashboard::of(lang, &campaign, &figures, self.draw.as_ref()),
        };
        // Server-sent events treat a carriage return as the end of a line.
        fragment
            .render()
            .map(|text| text.replace('\r', ""))
            .map_err(|error| Refusal::Unavailable(error.to_string()))
    }
}
