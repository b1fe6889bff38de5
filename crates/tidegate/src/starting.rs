//! The listener of a node that is still starting, because it cannot reach its database or its Redis yet: `/healthz` is
//! 200, everything else 503 with the reason.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use tidegate_core::ProblemCode;
use tidegate_http::problem::Problem;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinHandle;

/// Concurrent connections: only health checks are expected.
const MAX_CONNECTIONS: usize = 256;
/// Pause after a failed accept, for example when file descriptors are exhausted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);

/// Accepts connections until `end` is called.
#[derive(Debug)]
pub struct Starting {
    reason: Arc<Mutex<String>>,
    ended: Arc<Notify>,
    accepting: JoinHandle<TcpListener>,
}

impl Starting {
    pub fn start(listener: TcpListener) -> Self {
        let reason = Arc::new(Mutex::new("still starting".to_owned()));
        let ended = Arc::new(Notify::new());
        let accepting = tokio::spawn(accept(listener, reason.clone(), ended.clone()));
        Self { reason, ended, accepting }
    }

    /// Sets the reason; logs it when it changes.
    pub fn set_reason(&self, reason: &str) {
        let mut current = self.reason.lock();
        if *current != reason {
            tracing::error!(why = reason, "this node cannot start yet; retrying");
            reason.clone_into(&mut current);
        }
    }

    /// Stops accepting and returns the listener, for the real server.
    pub async fn end(self) -> anyhow::Result<TcpListener> {
        self.ended.notify_one();
        self.accepting.await.context("the accept task ended unexpectedly")
    }
}

async fn accept(listener: TcpListener, reason: Arc<Mutex<String>>, ended: Arc<Notify>) -> TcpListener {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => accepted,
            () = ended.notified() => return listener,
        };
        let (Ok((stream, _)), Ok(place)) = (stream, places.clone().try_acquire_owned()) else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let reason = reason.lock().clone();
        tokio::spawn(async move {
            answer(stream, reason).await;
            drop(place);
        });
    }
}

async fn answer(stream: TcpStream, reason: String) {
    let respond = service_fn(move |request: Request<Incoming>| {
        let response = respond(request.uri().path(), &reason);
        async move { Ok::<_, Infallible>(response) }
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), respond);
    if let Err(error) = serving.await {
        tracing::debug!(%error, "a connection ended early");
    }
}

fn respond(path: &str, reason: &str) -> Response {
    if path == "/healthz" {
        return "ok".into_response();
    }
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, ProblemCode::NotReady, reason.to_owned()).into_response()
}
