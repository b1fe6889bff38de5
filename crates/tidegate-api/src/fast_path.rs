//! The fast path: parses plain requests directly from the socket and answers them without hyper.
//!
//! hyper implements all of HTTP/1.1, which takes a third of an order's time. Invariants: only requests that the strict
//! parser accepts (`PlainRequest`) are answered here, and their responses equal hyper's but for `Date`. Orders and
//! plays bypass the router; pages, assets and everything else go through it, and the connection stays on the fast
//! path. Any other request is handed over to hyper from its first byte, with the rest of its connection.
//!
//! Unlike hyper, a request that was started is finished even if its client hangs up.

mod request;
mod response;

use std::io;
use std::mem::MaybeUninit;
use std::net::IpAddr;
use std::pin::pin;
use std::time::{Duration, Instant};

use axum::http::header;
use bytes::Bytes;
use http_body::Body as _;
use http_body_util::BodyExt;
use tidegate_app::App;
use tidegate_http::headers::Headers;
use tidegate_http::input::RequestBody;
use tidegate_http::request_scope::{ReceivedAt, write_header};
use tokio::io::AsyncReadExt;
use tokio::time::sleep;

use self::request::{MAX_HEADERS, PlainRequest};
use self::response::{BUFFER_BYTES, ResponseWriter};
use super::hot_routes::{HotRoute, HotRoutes};
use super::socket::Socket;

/// Size of a read: about ten times an order, twice a large browser request.
const READ_BYTES: usize = 4 << 10;

/// Why the fast path stopped serving a connection.
#[derive(Debug)]
pub enum End {
    /// The client closed it, was idle for too long, or the server shuts down.
    Closed,
    /// hyper takes over; these bytes were read already.
    HandOver(Bytes),
}

/// Serves a connection until it is closed or handed over. `idle_timeout` limits how long the client may send nothing.
pub async fn serve(
    socket: &mut Socket,
    peer: IpAddr,
    routes: &HotRoutes,
    app: &App,
    idle_timeout: Duration,
) -> End {
    let (mut closed, closing) = (pin!(app.closed()), app.closing());
    let is_closing = || closing.has_changed().unwrap_or(true);
    let mut idle = pin!(sleep(idle_timeout));
    let mut last_response = Instant::now();
    let (mut read, mut buffer) = (Vec::with_capacity(READ_BYTES), Vec::new());
    loop {
        read.clear();
        // Checked for each request: a client that never stops sending must not delay the shutdown.
        if is_closing() {
            return End::Closed;
        }
        tokio::select! {
            biased;
            got = socket.read_buf(&mut read) => if !got.is_ok_and(|bytes| bytes > 0) { return End::Closed },
            () = &mut closed => return End::Closed,
            // The timer is reset when it fires, not with each response: that is much rarer.
            () = &mut idle => {
                if last_response.elapsed() >= idle_timeout {
                    return End::Closed;
                }
                idle.as_mut().reset((last_response + idle_timeout).into());
                continue;
            }
        }
        let received = ReceivedAt::now(app);
        let mut room = [const { MaybeUninit::uninit() }; MAX_HEADERS];
        let Some(request) = PlainRequest::parse(&read, &mut room) else { return End::HandOver(read.into()) };
        let mut out = ResponseWriter { socket, bytes: &mut buffer, is_last: &is_closing };
        match answer(request, routes, peer, received, &mut out).await {
            // The idle time starts with the response, not with the request: a response may take longer than
            // `idle_timeout`.
            Ok(Answered::After(took)) => last_response = received.at + took,
            Ok(Answered::ByHyper) => return End::HandOver(read.into()),
            Err(_) => return End::Closed,
        }
        buffer.clear();
        buffer.shrink_to(BUFFER_BYTES);
    }
}

enum Answered {
    /// Answered here, in this time.
    After(Duration),
    /// Not answered and nothing written: hyper has to answer.
    ByHyper,
}

async fn answer(
    request: PlainRequest<'_>,
    routes: &HotRoutes,
    peer: IpAddr,
    received: ReceivedAt,
    out: &mut ResponseWriter<'_>,
) -> io::Result<Answered> {
    match routes.hot_route(&request.method, request.target) {
        Some(route) => answer_hot_route(route, request, routes, peer, received, out).await,
        // Boxed, so that the future of an order stays small.
        None => Box::pin(answer_by_router(request, routes, peer, received, out)).await,
    }
}

async fn answer_hot_route(
    route: HotRoute,
    request: PlainRequest<'_>,
    routes: &HotRoutes,
    peer: IpAddr,
    received: ReceivedAt,
    out: &mut ResponseWriter<'_>,
) -> io::Result<Answered> {
    let PlainRequest { target, headers, body, .. } = request;
    let (headers, body) = (Headers::Parsed(headers), RequestBody::Complete(body));
    let (response, common) = routes.dispatch(route, peer, target, headers, body, received).await;
    out.begin(response.status);
    response.headers.iter().for_each(|(name, value)| write_header(out.bytes, name, value.as_bytes()));
    let took = common.took;
    common.write(out.bytes);
    out.end_head(response.status, Some(response.body.len() as u64), received.now + took);
    out.bytes.extend_from_slice(&response.body);
    out.send().await?;
    Ok(Answered::After(took))
}

async fn answer_by_router(
    request: PlainRequest<'_>,
    routes: &HotRoutes,
    peer: IpAddr,
    received: ReceivedAt,
    out: &mut ResponseWriter<'_>,
) -> io::Result<Answered> {
    let Some(request) = request.into_request() else { return Ok(Answered::ByHyper) };
    let (parts, mut body) = routes.answer(request, peer).await.into_parts();
    let length = body.size_hint().exact();
    out.begin(parts.status);
    // `end_head` writes the length: the router does not for every response.
    let others = parts.headers.iter().filter(|(name, _)| *name != header::CONTENT_LENGTH);
    others.for_each(|(name, value)| write_header(out.bytes, name, value.as_bytes()));
    out.end_head(parts.status, length, routes.site.app.now());
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(io::Error::other)?.into_data() else { continue };
        out.put(&data, length.is_none()).await?;
    }
    if length.is_none() {
        out.bytes.extend_from_slice(b"0\r\n\r\n");
    }
    out.send().await?;
    Ok(Answered::After(received.at.elapsed()))
}
