//! HTTP layer shared by the API and the pages: request scope, rate limits, problems, input validation.
//!
//! No business rules: handlers parse a request strictly, call the use case and return its result.

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

/// Turns a problem response into an error page if the client is a browser.
pub type ErrorPage = fn(&request::Parts, Response) -> Response;

/// State shared by all handlers. Each layer clones it for each request, so it is a single `Arc`.
#[derive(Clone, Debug)]
pub struct Site(Arc<Parts>);

#[derive(Debug)]
pub struct Parts {
    pub app: Arc<App>,
    pub bounds: Bounds,
    changes: Arc<Semaphore>,
    /// Bounds the draw proofs being streamed concurrently.
    pub proofs: Arc<Semaphore>,
    /// Bounds the operators' exports being streamed concurrently.
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

/// Draw proofs streamed concurrently: each can be long.
const MAX_PROOFS: usize = 32;
/// Operators' exports streamed concurrently.
const MAX_EXPORTS: usize = 8;
/// Changes running concurrently.
const MAX_CHANGES: usize = 4096;

/// The part of the configuration that a site needs.
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

    /// Runs a change in its own task, so that it completes even if the client disconnects.
    pub async fn run_to_completion<T: Send + 'static>(
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

/// The response to a request whose handler panicked.
pub fn broken() -> Problem {
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, ProblemCode::Internal, "Internal server error.")
}
