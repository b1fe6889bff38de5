//! Many connections of one thread: what closed and open loops send over, and read from.
//!
//! What always holds: a connection has at most one request under way. A request that does not go into the socket at
//! once is an error, since requests are far smaller than a socket's buffer.

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};

use crate::answer;
use crate::requests::Requests;

/// Larger than any answer; one is enough, since most answers come whole.
const BUFFER: usize = 64 * 1024;
const EVENTS: usize = 1024;
/// Before the first request: the server has taken all connections by then, and has nothing else to do.
const REST: Duration = Duration::from_millis(200);

struct Connection {
    stream: TcpStream,
    request: Vec<u8>,
    /// An answer that came in part.
    part: Vec<u8>,
    /// When the request under way was sent, or would have been if there had been time.
    since: Instant,
}

/// An answer that has come.
pub(crate) struct Answered<'a> {
    pub(crate) status: u16,
    pub(crate) body: &'a [u8],
    pub(crate) took: Duration,
}

pub(crate) struct Crowd {
    poll: Poll,
    connections: Vec<Connection>,
    buffer: Vec<u8>,
}

impl Crowd {
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
        std::thread::sleep(REST);
        Ok(Self { poll, connections, buffer: vec![0; BUFFER] })
    }

    pub(crate) fn events() -> Events {
        Events::with_capacity(EVENTS)
    }

    /// Waits for answers, at most this long.
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
        ensure!(sent == connection.request.len(), "a request did not go into the socket at once");
        Ok(())
    }

    /// What a connection has to say; `None` if its answer is not all there.
    pub(crate) fn receive(&mut self, at: usize) -> anyhow::Result<Option<Answered<'_>>> {
        let connection = &mut self.connections[at];
        loop {
            match connection.stream.read(&mut self.buffer) {
                Ok(0) => bail!("the server closed a connection"),
                // The usual case: all of the answer at once, and nothing is copied.
                Ok(length) if length < self.buffer.len() && connection.part.is_empty() => {
                    let Some(answer) = answer::parse(&self.buffer[..length])? else {
                        connection.part.extend_from_slice(&self.buffer[..length]);
                        return Ok(None);
                    };
                    ensure!(answer.body.end == length, "an answer that nobody asked for");
                    let took = connection.since.elapsed();
                    return Ok(Some(Answered {
                        status: answer.status,
                        body: &self.buffer[answer.body],
                        took,
                    }));
                }
                Ok(length) => connection.part.extend_from_slice(&self.buffer[..length]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error).context("receiving"),
            }
        }
        let Some(answer) = answer::parse(&connection.part)? else { return Ok(None) };
        ensure!(answer.body.end == connection.part.len(), "an answer that nobody asked for");
        self.buffer[..answer.body.len()].copy_from_slice(&connection.part[answer.body.clone()]);
        connection.part.clear();
        let took = connection.since.elapsed();
        Ok(Some(Answered { status: answer.status, body: &self.buffer[..answer.body.len()], took }))
    }
}
