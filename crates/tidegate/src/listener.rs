//! The accept loop: a bounded number of connections, each with timeouts, and a graceful shutdown.
//!
//! Replaces `axum::serve`, which installs no timer, so that hyper's header timeout would have no effect.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use axum::body::Body;
use axum::http::StatusCode;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tidegate_api::HotRoutes;
use tidegate_api::fast_path;
use tidegate_api::socket::Socket;
use tidegate_app::App;
use tidegate_core::ProblemCode;
use tidegate_http::problem::Problem;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Semaphore;

use crate::config::Http;

/// Limit for the headers of a request.
const HEADER_BYTES: usize = 32 << 10;
/// Pause after a failed accept, for example when file descriptors are exhausted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The response to a connection beyond the limit; rendered once, because a flood causes many of them.
static FULL: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let problem = Problem::new(
        StatusCode::SERVICE_UNAVAILABLE,
        ProblemCode::Busy,
        "Too many connections; try again in a moment.",
    );
    let body = serde_json::to_string(&problem).unwrap_or_default();
    let head = "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\nretry-after: 1";
    format!("{head}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
});

/// Length of the kernel's accept queue. Thousands of clients connect at the same instant, and a client whose SYN is
/// dropped retries only after a second. `net.core.somaxconn` is an upper bound.
const BACKLOG: u32 = 65_535;

/// Binds the listening socket with a long accept queue.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A restart can bind while old connections are still in TIME_WAIT.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Serves until the app closes, then waits for requests in flight, up to a timeout.
pub async fn serve(listener: TcpListener, routes: HotRoutes, app: Arc<App>, settings: Http) {
    let places = Arc::new(Semaphore::new(settings.max_connections));
    let mut closed = pin!(app.closed());
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut closed => break,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "failed to accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Ok(place) = places.clone().try_acquire_owned() else {
            app.metrics.refused_connections.inc();
            tokio::spawn(refuse(stream));
            continue;
        };
        let (routes, app, settings) = (routes.clone(), app.clone(), settings.clone());
        tokio::spawn(async move {
            app.metrics.connections.inc();
            connection(stream, peer.ip(), routes, &app, &settings).await;
            app.metrics.connections.dec();
            drop(place);
        });
    }
    drop(listener);
    let all = u32::try_from(settings.max_connections).unwrap_or(u32::MAX);
    let drained =
        tokio::time::timeout(Duration::from_millis(settings.drain_timeout_ms), places.acquire_many(all));
    if drained.await.is_err() {
        tracing::warn!("some requests did not finish before the drain timeout");
    }
}

async fn connection(stream: TcpStream, peer: IpAddr, routes: HotRoutes, app: &App, settings: &Http) {
    // Sends small responses without delay. A socket on which this fails is about to fail anyway.
    let _ = stream.set_nodelay(true);
    let mut socket = Socket::new(stream, Duration::from_millis(settings.write_timeout_ms));
    let header_timeout = Duration::from_millis(settings.header_timeout_ms);
    if settings.fast_path {
        match fast_path::serve(&mut socket, peer, &routes, app, header_timeout).await {
            fast_path::End::Closed => return,
            fast_path::End::HandOver(read) => {
                app.metrics.handed_over_connections.inc();
                socket.put_back(read);
            }
        }
    }
    let answer = |request: Request<Incoming>| {
        let routes = routes.clone();
        async move { Ok::<_, Infallible>(routes.answer(request.map(Body::new), peer).await) }
    };
    let mut serving = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(header_timeout)
            .max_buf_size(HEADER_BYTES)
            .serve_connection(TokioIo::new(socket), service_fn(answer))
    );
    let result = tokio::select! {
        result = &mut serving => result,
        () = app.closed() => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = result {
        tracing::debug!(%error, "a connection ended early");
    }
}

async fn refuse(mut stream: TcpStream) {
    // The client may be gone already.
    let _ = stream.write_all(&FULL).await;
    let _ = stream.shutdown().await;
}
