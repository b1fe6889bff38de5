//! A TCP proxy that injects network faults between a program and a server: stalled, refused, reset and delayed
//! connections.
//!
//! Invariants: what a fault holds back is kept in order and forwarded when the fault ends, as by a network; a stalled
//! proxy goes on reading, so that its peers' TCP sees everything acknowledged and nothing answered. It runs on a thread
//! of its own, so a test that blocks its runtime does not block it.

#![expect(clippy::unwrap_used, reason = "a proxy that cannot start fails the test")]

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::servers::free_port;

const READ_SIZE: usize = 16 << 10;
/// Most bytes that one direction holds back; beyond it the proxy stops reading.
const MAX_HELD: usize = 64 << 20;

/// What the proxy does with connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    /// Forwards everything.
    #[default]
    None,
    /// Accepts, reads and acknowledges, but forwards nothing in either direction: a half-open connection.
    Stall,
    /// New connections are refused, open ones are reset.
    Refuse,
    /// New connections are accepted and reset, open ones are reset.
    Reset,
    /// Forwards everything this much later.
    Delay(Duration),
}

/// A proxy on a port of the loopback address. Its connections end when it is dropped.
#[derive(Debug)]
pub struct ChaosProxy {
    address: SocketAddr,
    fault: watch::Sender<Fault>,
    open: Connections,
    accepted: Arc<AtomicUsize>,
    runtime: Option<Runtime>,
}

/// The fault of each connection that was opened.
type Connections = Arc<Mutex<Vec<watch::Sender<Fault>>>>;

impl ChaosProxy {
    /// Starts on a free port.
    pub fn start(upstream: SocketAddr) -> Self {
        Self::start_on(free_port(), upstream)
    }

    /// Starts a proxy for a server on this port of the loopback address.
    pub fn to_port(port: u16) -> Self {
        Self::start(([127, 0, 0, 1], port).into())
    }

    pub fn start_on(port: u16, upstream: SocketAddr) -> Self {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = std::net::TcpListener::bind(address).unwrap();
        listener.set_nonblocking(true).unwrap();
        let (fault, faults) = watch::channel(Fault::None);
        let (open, accepted) = (Connections::default(), Arc::<AtomicUsize>::default());
        let proxy = Listening { address, upstream, faults, open: open.clone(), accepted: accepted.clone() };
        runtime.spawn(async move { proxy.accept(TcpListener::from_std(listener).unwrap()).await });
        Self { address, fault, open, accepted, runtime: Some(runtime) }
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Sets the fault of all connections, open and new.
    pub fn set(&self, fault: Fault) {
        // Under the lock, so that no connection is accepted in between with the fault before.
        let mut open = lock(&self.open);
        self.fault.send_replace(fault);
        open.retain(|connection| connection.send(fault).is_ok());
    }

    /// Sets the fault of the connections that are open now. New ones keep the fault of the last `set`.
    pub fn set_open(&self, fault: Fault) {
        lock(&self.open).retain(|connection| connection.send(fault).is_ok());
    }

    /// How many connections were accepted so far.
    pub fn accepted(&self) -> usize {
        self.accepted.load(Ordering::Acquire)
    }
}

impl Drop for ChaosProxy {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Waiting for its tasks is not allowed inside of another runtime.
            runtime.shutdown_background();
        }
    }
}

fn lock(open: &Connections) -> MutexGuard<'_, Vec<watch::Sender<Fault>>> {
    open.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Listening {
    address: SocketAddr,
    upstream: SocketAddr,
    faults: watch::Receiver<Fault>,
    open: Connections,
    accepted: Arc<AtomicUsize>,
}

impl Listening {
    async fn accept(mut self, listener: TcpListener) {
        let mut listener = Some(listener);
        loop {
            let fault = *self.faults.borrow_and_update();
            if fault == Fault::Refuse {
                listener = None;
                if self.faults.wait_for(|fault| *fault != Fault::Refuse).await.is_err() {
                    return;
                }
                continue;
            }
            if listener.is_none() {
                listener = Some(TcpListener::bind(self.address).await.unwrap());
            }
            let Some(listening) = &listener else { continue };
            let accepted = tokio::select! {
                accepted = listening.accept() => accepted,
                changed = self.faults.changed() => match changed {
                    Ok(()) => continue,
                    Err(_) => return,
                },
            };
            let Ok((client, _)) = accepted else { continue };
            self.accepted.fetch_add(1, Ordering::AcqRel);
            let receiver = {
                let mut open = lock(&self.open);
                let (sender, receiver) = watch::channel(*self.faults.borrow());
                open.push(sender);
                receiver
            };
            tokio::spawn(connect(client, self.upstream, receiver));
        }
    }
}

async fn connect(mut client: TcpStream, upstream: SocketAddr, mut fault: watch::Receiver<Fault>) {
    let Ok(mut server) = TcpStream::connect(upstream).await else { return };
    // Errors mean that the connection has ended.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        let mut there = std::pin::pin!(forward(from_client, to_server, fault.clone()));
        let mut back = std::pin::pin!(forward(from_server, to_client, fault.clone()));
        // One direction may be closed before the other; if one is broken, so is the other.
        tokio::select! {
            ended = &mut there => if ended == End::Closed { back.await; },
            ended = &mut back => if ended == End::Closed { there.await; },
        }
    }
    if matches!(*fault.borrow_and_update(), Fault::Refuse | Fault::Reset) {
        let _ = (client.set_zero_linger(), server.set_zero_linger());
    }
}

/// How a direction ended.
#[derive(PartialEq, Eq)]
enum End {
    /// Its sender has closed it, and all was forwarded.
    Closed,
    Broken,
}

/// One direction of a connection: what was read, with the time it was read.
async fn forward(mut from: ReadHalf<'_>, mut to: WriteHalf<'_>, mut fault: watch::Receiver<Fault>) -> End {
    let mut held: VecDeque<(Instant, Vec<u8>)> = VecDeque::new();
    let (mut held_bytes, mut is_read_up) = (0, false);
    loop {
        let now = *fault.borrow_and_update();
        let delay = match now {
            Fault::Refuse | Fault::Reset => return End::Broken,
            Fault::None => Some(Duration::ZERO),
            Fault::Delay(delay) => Some(delay),
            Fault::Stall => None,
        };
        if is_read_up && held.is_empty() && delay.is_some() {
            return if to.shutdown().await.is_ok() { End::Closed } else { End::Broken };
        }
        let due = delay.and_then(|delay| held.front().map(|(read, _)| *read + delay));
        let mut buffer = Vec::with_capacity(READ_SIZE);
        tokio::select! {
            changed = fault.changed() => if changed.is_err() { return End::Broken },
            () = async { tokio::time::sleep_until(due.unwrap_or_else(Instant::now)).await }, if due.is_some() => {
                let Some((_, bytes)) = held.pop_front() else { continue };
                held_bytes -= bytes.len();
                if to.write_all(&bytes).await.is_err() {
                    return End::Broken;
                }
            }
            read = from.read_buf(&mut buffer), if !is_read_up && held_bytes < MAX_HELD => match read {
                Ok(0) => is_read_up = true,
                Ok(read) => {
                    held_bytes += read;
                    held.push_back((Instant::now(), buffer));
                }
                Err(_) => return End::Broken,
            },
        }
    }
}
