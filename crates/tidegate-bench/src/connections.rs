//! The load generator's connections: many non-blocking sockets on one thread, for closed and open loops.
//!
//! Invariants: a connection has at most one request in flight; a request is written with one call, since it is far
//! smaller than the socket's buffer, and a partial write is an error.

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};

use crate::requests::Requests;
use crate::response;

/// Larger than any response. All connections share one, since most responses arrive in one piece.
const BUFFER: usize = 64 * 1024;
const EVENTS: usize = 1024;
/// Pause before the first request, so that the server has accepted all connections and is idle.
const SETTLE_PAUSE: Duration = Duration::from_millis(200);

struct Connection {
    stream: TcpStream,
    request: Vec<u8>,
    /// The beginning of an incomplete response.
    part: Vec<u8>,
    /// When the request in flight was sent or, in an open loop, was due.
    since: Instant,
}

/// A complete response.
pub(crate) struct ReceivedResponse<'a> {
    pub(crate) status: u16,
    pub(crate) body: &'a [u8],
    pub(crate) took: Duration,
}

pub(crate) struct ConnectionSet {
    poll: Poll,
    connections: Vec<Connection>,
    buffer: Vec<u8>,
}

impl ConnectionSet {
    pub(crate) fn connect(to: SocketAddr, count: usize) -> anyhow::Result<Self> {
        let poll = Poll::new()?;
        let mut connections = Vec::with_capacity(count);
        for number in 0..count {
            let stream = std::net::TcpStream::connect(to).with_context(|| format!("connecting to {to}"))?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            let mut stream = TcpStream::from_std(stream);
            poll.registry().register(&mut stream, Token(number), Interest::READABLE)?;
            let since = Instant::now();
            connections.push(Connection { stream, request: Vec::new(), part: Vec::new(), since });
        }
        std::thread::sleep(SETTLE_PAUSE);
        Ok(Self { poll, connections, buffer: vec![0; BUFFER] })
    }

    pub(crate) fn events() -> Events {
        Events::with_capacity(EVENTS)
    }

    /// Waits for responses, up to a timeout.
    pub(crate) fn wait(&mut self, events: &mut Events, at_most: Duration) -> anyhow::Result<()> {
        loop {
            match self.poll.poll(events, Some(at_most)) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                other => return Ok(other?),
            }
        }
    }

    /// Sends the request with this number; its latency counts from `since`.
    pub(crate) fn send(
        &mut self,
        at: usize,
        requests: &Requests,
        number: usize,
        since: Instant,
    ) -> anyhow::Result<()> {
        let connection = &mut self.connections[at];
        requests.write(number, &mut connection.request);
        connection.since = since;
        let sent = connection.stream.write(&connection.request).context("sending")?;
        ensure!(sent == connection.request.len(), "partial write of a request");
        Ok(())
    }

    /// Reads from a connection; `None` while its response is incomplete.
    pub(crate) fn receive(&mut self, at: usize) -> anyhow::Result<Option<ReceivedResponse<'_>>> {
        let connection = &mut self.connections[at];
        loop {
            match connection.stream.read(&mut self.buffer) {
                Ok(0) => bail!("the server closed a connection"),
                // The usual case: the response arrives in one piece and is not copied.
                Ok(length) if length < self.buffer.len() && connection.part.is_empty() => {
                    let Some(response) = response::parse(&self.buffer[..length])? else {
                        connection.part.extend_from_slice(&self.buffer[..length]);
                        return Ok(None);
                    };
                    ensure!(response.body.end == length, "unexpected data after a response");
                    let took = connection.since.elapsed();
                    return Ok(Some(ReceivedResponse {
                        status: response.status,
                        body: &self.buffer[response.body],
                        took,
                    }));
                }
                Ok(length) => connection.part.extend_from_slice(&self.buffer[..length]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error).context("receiving"),
            }
        }
        let Some(response) = response::parse(&connection.part)? else { return Ok(None) };
        ensure!(response.body.end == connection.part.len(), "unexpected data after a response");
        self.buffer[..response.body.len()].copy_from_slice(&connection.part[response.body.clone()]);
        connection.part.clear();
        let took = connection.since.elapsed();
        Ok(Some(ReceivedResponse {
            status: response.status,
            body: &self.buffer[..response.body.len()],
            took,
        }))
    }
}
