//! The load generator's ceiling: a server that answers every request with the same bytes.

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};

use crate::requests::ORDER;

const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\nok";
const LISTENER: Token = Token(usize::MAX);

/// Runs until the process is killed.
pub(crate) fn serve() -> anyhow::Result<()> {
    let mut poll = Poll::new()?;
    let mut listener = TcpListener::bind("127.0.0.1:0".parse()?)?;
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    crate::process::announce(listener.local_addr()?);
    let mut events = Events::with_capacity(1024);
    let (mut connections, mut next) = (HashMap::new(), 0);
    loop {
        poll.poll(&mut events, None)?;
        for event in &events {
            if event.token() == LISTENER {
                while let Ok((mut stream, _)) = listener.accept() {
                    stream.set_nodelay(true)?;
                    poll.registry().register(&mut stream, Token(next), Interest::READABLE)?;
                    connections.insert(next, stream);
                    next += 1;
                }
            } else if connections.get_mut(&event.token().0).is_some_and(|stream| answer(stream).is_none()) {
                connections.remove(&event.token().0);
            }
        }
    }
}

/// Answers one request; `None` when the client has closed the connection.
fn answer(stream: &mut TcpStream) -> Option<()> {
    let mut buffer = [0; 4096];
    match stream.read(&mut buffer) {
        Ok(0) => None,
        // Clients do not pipeline, so the buffer holds one request; it is complete when it ends with the body.
        Ok(length) if buffer[..length].ends_with(ORDER.as_bytes()) => stream.write_all(RESPONSE).ok(),
        Ok(_) => None,
        Err(error) if error.kind() == ErrorKind::WouldBlock => Some(()),
        Err(_) => None,
    }
}
