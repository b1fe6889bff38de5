//! Pacing of live-figure streams, for the API and for the console.
//!
//! Invariants: streams are bounded in number and duration; a stream ends at the first session check after its session
//! has ended; an open stream does not extend its session.

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

/// Maximum duration of a stream; browsers reconnect by themselves.
const MAX_DURATION: Duration = Duration::from_secs(30 * 60);
pub const HEARTBEAT: Duration = Duration::from_secs(10);
const TICK: Duration = Duration::from_secs(1);
/// How often the session and role of the operator are checked again.
const SESSION_CHECK_INTERVAL: Duration = Duration::from_secs(10);
/// Timeout of each read for a stream; the next tick tries again.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// One open stream: ticks once per second until it must end.
#[derive(Debug)]
pub struct LiveStream {
    pub app: Arc<App>,
    /// The operator, as of the last session check.
    pub who: OperatorIdentity,
    /// The credential the stream was opened with: a console session token or a key.
    bearer: String,
    looked: tokio::time::Instant,
    ticks: Interval,
    until: tokio::time::Instant,
    _place: OwnedSemaphorePermit,
}

impl LiveStream {
    /// Opens a stream; fails if too many are open.
    pub fn of(site: &Site, who: OperatorIdentity, bearer: String) -> Result<Self, Problem> {
        let too_many = || {
            let detail = "Too many streams of figures are open; close one.";
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, ProblemCode::Busy, detail)
        };
        let place = site.app.live.watch_live().ok_or_else(too_many)?;
        site.app.metrics.streams.inc();
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let looked = tokio::time::Instant::now();
        Ok(Self {
            app: site.app.clone(),
            who,
            bearer,
            looked,
            ticks,
            until: looked + MAX_DURATION,
            _place: place,
        })
    }

    /// Waits for the next tick; `None` when the stream must end.
    pub async fn tick(&mut self) -> Option<()> {
        tokio::select! {
            // Biased: shutdown takes precedence over a tick that is due.
            biased;
            () = self.app.closed() => return None,
            () = tokio::time::sleep_until(self.until) => return None,
            _ = self.ticks.tick() => {}
        }
        if self.looked.elapsed() >= SESSION_CHECK_INTERVAL {
            self.looked = tokio::time::Instant::now();
            let app = self.app.clone();
            match with_timeout_or_shutdown(&app, app.operators.recheck(&self.bearer)).await? {
                Ok(who) => self.who = who,
                Err(Refusal::Rejected(Rejection::Unauthenticated) | Refusal::NotSignedIn { .. }) => {
                    return None;
                }
                // The ledger may be unavailable for a moment: keep the stream until the next check.
                Err(_) => {}
            }
        }
        self.who.may(Role::Viewer).ok()
    }
}

/// Awaits `future` up to a timeout, which yields `Busy`; `None` when the server shuts down.
pub async fn with_timeout_or_shutdown<T>(
    app: &App,
    future: impl Future<Output = Result<T, Refusal>>,
) -> Option<Result<T, Refusal>> {
    tokio::select! {
        biased;
        () = app.closed() => None,
        outcome = tokio::time::timeout(READ_TIMEOUT, future) => Some(outcome.unwrap_or(Err(Rejection::Busy.into()))),
    }
}

impl Drop for LiveStream {
    fn drop(&mut self) {
        self.app.metrics.streams.dec();
    }
}
