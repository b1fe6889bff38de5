//! The chaos proxy does what its faults say.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use tidegate_testing::chaos_proxy::{ChaosProxy, Fault};

/// Answers every byte with the same byte.
fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || std::io::copy(&mut stream.try_clone().unwrap(), &mut stream));
        }
    });
    address
}

fn connect(proxy: &ChaosProxy) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", proxy.port())).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    stream
}

fn ask(mut stream: &TcpStream, byte: u8) -> Result<u8, ErrorKind> {
    stream.write_all(&[byte]).map_err(|error| error.kind())?;
    let mut answer = [0];
    stream.read_exact(&mut answer).map_err(|error| error.kind())?;
    Ok(answer[0])
}

#[test]
fn a_stall_is_silence_and_what_was_sent_arrives_after_it() {
    let proxy = ChaosProxy::start(echo());
    let stream = connect(&proxy);
    assert_eq!(ask(&stream, 1), Ok(1));
    proxy.set(Fault::Stall);
    assert_eq!(ask(&stream, 2), Err(ErrorKind::WouldBlock), "neither an answer nor an error");
    let new = connect(&proxy);
    assert_eq!(ask(&new, 3), Err(ErrorKind::WouldBlock), "accepted, and silent too");
    proxy.set(Fault::None);
    let mut answer = [0];
    (&stream).read_exact(&mut answer).unwrap();
    assert_eq!(answer, [2]);
    assert_eq!(proxy.accepted(), 2);
}

#[test]
fn open_connections_can_be_stalled_while_new_ones_work() {
    let proxy = ChaosProxy::start(echo());
    let old = connect(&proxy);
    assert_eq!(ask(&old, 1), Ok(1));
    proxy.set_open(Fault::Stall);
    assert_eq!(ask(&old, 2), Err(ErrorKind::WouldBlock));
    assert_eq!(ask(&connect(&proxy), 3), Ok(3));
}

#[test]
fn connections_are_refused_reset_and_delayed() {
    let proxy = ChaosProxy::start(echo());
    let stream = connect(&proxy);
    assert_eq!(ask(&stream, 1), Ok(1));
    proxy.set(Fault::Reset);
    assert_eq!(ask(&stream, 2), Err(ErrorKind::ConnectionReset));
    proxy.set(Fault::Refuse);
    let refused = || TcpStream::connect(("127.0.0.1", proxy.port())).map_err(|error| error.kind());
    tidegate_testing::servers::wait_until("refused", || {
        matches!(refused(), Err(ErrorKind::ConnectionRefused))
    });
    proxy.set(Fault::Delay(Duration::from_millis(100)));
    tidegate_testing::servers::wait_until("accepted again", || refused().is_ok());
    let (stream, begun) = (connect(&proxy), Instant::now());
    assert_eq!(ask(&stream, 4), Ok(4));
    assert!(begun.elapsed() >= Duration::from_millis(200), "delayed in both directions");
}
