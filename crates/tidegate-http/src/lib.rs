//! What the API and the pages share: the site they serve, requests and their limits, problems, and checked inputs.
//!
//! No rule of a sale lives here: a request is read strictly, the use case is called, its answer is passed on.

pub mod browser;
pub mod event_shape;
pub mod headers;
pub mod input;
pub mod inputs;
pub mod limits;
pub mod live_stream;
pub mod problem;
pub mod request_scope;
pub mod response;

use std::sync::Arc;

use axum::http::StatusCode;
use axum::http::request;
use axum::response::Response;
use tidegate_app::{App, Refusal};
use tidegate_core::{ProblemCode, Rejection};
use tokio::sync::Semaphore;

use self::input::Bounds;
use self::limits::Limits;
use self::problem::Problem;

/// Shows a person at a browser a page instead of the problem that a program is told.
pub type ErrorPage = fn(&request::Parts, Response) -> Response;

/// What every handler works with. Every layer takes a copy for every request, so that one is a single count.
#[derive(Clone, Debug)]
pub struct Site(Arc<Parts>);

#[derive(Debug)]
pub struct Parts {
    pub app: Arc<App>,
    pub bounds: Bounds,
    changes: Arc<Semaphore>,
    /// Proofs being written out.
    pub proofs: Arc<Semaphore>,
    /// Lists being written out for operators.
    pub exports: Arc<Semaphore>,
    pub limits: Limits,
    error_page: ErrorPage,
}

impl std::ops::Deref for Site {
    type Target = Parts;
    fn deref(&self) -> &Parts {
        &self.0
    }
}

/// Proofs of closed draws written out at a time: each can be long.
const MAX_PROOFS: usize = 32;
/// The same for operators' lists.
const MAX_EXPORTS: usize = 8;
/// Changes being carried out at a time.
const MAX_CHANGES: usize = 4096;

/// What a site is told by the configuration.
#[derive(Debug)]
pub struct Settings {
    pub bounds: Bounds,
    pub limits: Limits,
}

impl Site {
    pub fn new(app: Arc<App>, settings: Settings, error_page: ErrorPage) -> Self {
        Self(Arc::new(Parts {
            app,
            bounds: settings.bounds,
            changes: Arc::new(Semaphore::new(MAX_CHANGES)),
            proofs: Arc::new(Semaphore::new(MAX_PROOFS)),
            exports: Arc::new(Semaphore::new(MAX_EXPORTS)),
            limits: settings.limits,
            error_page,
        }))
    }

    /// Carries a change out to its end, even if the client hangs up in the middle.
    pub async fn carry_out<T: Send + 'static>(
        &self,
        change: impl Future<Output = Result<T, Refusal>> + Send + 'static,
    ) -> Result<T, Problem> {
        let place = self.changes.clone().try_acquire_owned().map_err(|_| Rejection::Busy)?;
        let done = tokio::spawn(async move {
            let _place = place;
            change.await
        });
        Ok(done.await.unwrap_or_else(|panic| Err(Refusal::Unknown(panic.to_string())))?)
    }
}

/// The problem that a panicked handler is answered with.
pub fn broken() -> Problem {
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, ProblemCode::Internal, "Internal server error.")
}
