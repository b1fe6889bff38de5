//! A dashboard's figures, second by second: server-sent events that carry the live part of the page as it looks now.
//!
//! What always holds: streams are bounded in number and in time, and end with the session, as `Watch` sees to.

use std::convert::Infallible;

use askama::Template as _;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::Stream;
use futures_util::stream::unfold;
use tidegate_core::{CampaignId, Rejection};

use super::super::super::Site;
use super::super::super::browser::console_token;
use super::super::super::live::{HEARTBEAT, Watch, told};
use super::super::super::pages::Trouble;
use super::super::super::pages::phrases::boards::Boards;
use super::super::super::pages::phrases::campaigns::Campaigns;
use super::super::{AtDesk, Desk};
use super::Named;
use super::board::{Board, LivePart};
use crate::ops::Refusal;
use crate::ops::draws::OperatedDraw;

/// Seconds after which a draw's prizes and deliveries are counted again.
const COUNT_EVERY: u64 = 3;

pub(super) async fn live(
    State(site): State<Site>,
    at: AtDesk,
    named: Named,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Trouble> {
    if !named.campaign.is_published() {
        return Err(Rejection::NotFound.into());
    }
    let token = console_token(&headers).ok_or(Rejection::Unauthenticated)?.to_owned();
    let watching = Watching {
        watch: Watch::of(&site, at.who, token)?,
        desk: at.desk,
        id: named.campaign.id,
        path: named.path,
        draw: None,
        seconds: 0,
    };
    let events = unfold(watching, |mut watching| async move {
        let event = watching.next().await?;
        Some((Ok(event), watching))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(HEARTBEAT)))
}

/// One operator in front of one dashboard.
struct Watching {
    watch: Watch,
    desk: Desk,
    id: CampaignId,
    path: String,
    draw: Option<OperatedDraw>,
    seconds: u64,
}

impl Watching {
    async fn next(&mut self) -> Option<Event> {
        loop {
            self.watch.tick().await?;
            self.desk.who = Some(self.watch.who.clone());
            let app = self.watch.app.clone();
            let part = told(&app, self.part()).await?;
            self.seconds += 1;
            // In a second in which the ledger does not answer nothing is told; the next may be better.
            if let Ok(text) = part {
                return Some(Event::default().event("live").data(text));
            }
        }
    }

    /// The live part of the page as it looks now.
    async fn part(&mut self) -> Result<String, Refusal> {
        let app = &self.watch.app;
        let campaign = app.campaign(self.id).await?;
        let figures = app.live(self.id).await?;
        if campaign.draw().is_some() && self.seconds.is_multiple_of(COUNT_EVERY) {
            self.draw = Some(app.operated_draw(campaign.clone()).await?);
        }
        let lang = self.desk.lang;
        let part = LivePart {
            desk: &self.desk,
            w: Campaigns::of(lang),
            b: Boards::of(lang),
            path: &self.path,
            board: Board::of(lang, &campaign, &figures, self.draw.as_ref()),
        };
        // An event's lines cannot contain this one.
        part.render()
            .map(|text| text.replace('\r', ""))
            .map_err(|error| Refusal::Unavailable(error.to_string()))
    }
}
