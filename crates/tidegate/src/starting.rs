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
const PLACES: usize = 256;
/// After an accept that failed, for want of file descriptors for instance.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
const HEADERS_WITHIN: Duration = Duration::from_secs(5);

/// Accepts connections until `end` is called.
#[derive(Debug)]
pub struct Starting {
    why: Arc<Mutex<String>>,
    ended: Arc<Notify>,
    accepting: JoinHandle<TcpListener>,
}

impl Starting {
    pub fn start(listener: TcpListener) -> Self {
        let why = Arc::new(Mutex::new("still starting".to_owned()));
        let ended = Arc::new(Notify::new());
        let accepting = tokio::spawn(accept(listener, why.clone(), ended.clone()));
        Self { why, ended, accepting }
    }

    /// Sets the reason; logs it when it changes.
    pub fn say(&self, why: &str) {
        let mut said = self.why.lock();
        if *said != why {
            tracing::error!(why, "this node cannot start yet, and tries again");
            why.clone_into(&mut said);
        }
    }

    /// Stops accepting and returns the listener for the server itself.
    pub async fn end(self) -> anyhow::Result<TcpListener> {
        self.ended.notify_one();
        self.accepting.await.context("the listener was lost")
    }
}

async fn accept(listener: TcpListener, why: Arc<Mutex<String>>, ended: Arc<Notify>) -> TcpListener {
    let places = Arc::new(Semaphore::new(PLACES));
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => accepted,
            () = ended.notified() => return listener,
        };
        let (Ok((stream, _)), Ok(place)) = (stream, places.clone().try_acquire_owned()) else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let why = why.lock().clone();
        tokio::spawn(async move {
            answer(stream, why).await;
            drop(place);
        });
    }
}

async fn answer(stream: TcpStream, why: String) {
    let respond = service_fn(move |request: Request<Incoming>| {
        let response = respond(request.uri().path(), &why);
        async move { Ok::<_, Infallible>(response) }
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_WITHIN)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), respond);
    if let Err(error) = serving.await {
        tracing::debug!(%error, "a connection ended early");
    }
}

fn respond(path: &str, why: &str) -> Response {
    if path == "/healthz" {
        return "ok".into_response();
    }
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, ProblemCode::NotReady, why.to_owned()).into_response()
}
