//! The generator's ceiling: a process that answers everything with the same bytes and does nothing else.

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};

use crate::requests::ORDER;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\nok";
const DOOR: Token = Token(usize::MAX);

/// Runs until it is killed.
pub(crate) fn serve() -> anyhow::Result<()> {
    let mut poll = Poll::new()?;
    let mut door = TcpListener::bind("127.0.0.1:0".parse()?)?;
    poll.registry().register(&mut door, DOOR, Interest::READABLE)?;
    crate::process::announce(door.local_addr()?);
    let mut events = Events::with_capacity(1024);
    let (mut connections, mut next) = (HashMap::new(), 0);
    loop {
        poll.poll(&mut events, None)?;
        for event in &events {
            if event.token() == DOOR {
                while let Ok((mut stream, _)) = door.accept() {
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

/// One request, one answer; `None` when the client has gone.
fn answer(stream: &mut TcpStream) -> Option<()> {
    let mut buffer = [0; 4096];
    match stream.read(&mut buffer) {
        Ok(0) => None,
        // A client waits for its answer, so there is never more than one; it has come when its body has.
        Ok(length) if buffer[..length].ends_with(ORDER.as_bytes()) => stream.write_all(ANSWER).ok(),
        Ok(_) => None,
        Err(error) if error.kind() == ErrorKind::WouldBlock => Some(()),
        Err(_) => None,
    }
}
