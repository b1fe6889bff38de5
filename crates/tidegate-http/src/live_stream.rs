//! What paces a stream of live figures, for the API and for the console.
//!
//! What always holds: streams are bounded in number and in time, and none outlives the session it was opened with by
//! more than a look; watching makes no session last longer.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use tidegate_app::operators::OperatorIdentity;
use tidegate_app::{App, Refusal};
use tidegate_core::{ProblemCode, Rejection, Role};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Interval, MissedTickBehavior};

use crate::Site;
use crate::problem::Problem;

/// A client keeps its stream no longer than this; browsers come back by themselves.
const LONGEST: Duration = Duration::from_secs(30 * 60);
pub const HEARTBEAT: Duration = Duration::from_secs(10);
const EVERY: Duration = Duration::from_secs(1);
/// Who watches is looked at again after this.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// What takes longer than this is not told; the next second may be better.
const PATIENCE: Duration = Duration::from_secs(5);

/// What paces a stream of figures, as long as it may last.
#[derive(Debug)]
pub struct Watch {
    pub app: Arc<App>,
    /// Who watches, as they were at the last look.
    pub who: OperatorIdentity,
    /// What they have shown: the token of a console, or a key.
    bearer: String,
    looked: tokio::time::Instant,
    ticks: Interval,
    until: tokio::time::Instant,
    _place: OwnedSemaphorePermit,
}

impl Watch {
    /// A place for one more; a refusal where there are too many.
    pub fn of(site: &Site, who: OperatorIdentity, bearer: String) -> Result<Self, Problem> {
        let too_many = || {
            let detail = "Too many streams of figures are open; close one.";
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, ProblemCode::Busy, detail)
        };
        let place = site.app.live.watch_live().ok_or_else(too_many)?;
        site.app.metrics.streams.inc();
        let mut ticks = tokio::time::interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let looked = tokio::time::Instant::now();
        Ok(Self { app: site.app.clone(), who, bearer, looked, ticks, until: looked + LONGEST, _place: place })
    }

    /// Waits for the next second; `None` when the stream is over.
    pub async fn tick(&mut self) -> Option<()> {
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
            match told(&app, app.operators.recheck(&self.bearer)).await? {
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
pub async fn told<T>(
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
