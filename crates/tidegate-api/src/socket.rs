//! A client's connection with a write timeout.
//!
//! Reads of headers and bodies have their own limits. Without a limit on writes, a client that stops reading would keep
//! its connection forever.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

#[derive(Debug)]
pub struct Socket {
    stream: TcpStream,
    timeout: Duration,
    /// Bytes that were put back and are read again before the stream.
    put_back_bytes: Bytes,
    /// The timeout of the pending write, if any.
    write_timeout: Option<Pin<Box<Sleep>>>,
}

impl Socket {
    pub fn new(stream: TcpStream, timeout: Duration) -> Self {
        Self { stream, timeout, put_back_bytes: Bytes::new(), write_timeout: None }
    }

    /// Puts bytes back: they are read again before anything else.
    pub fn put_back(&mut self, bytes: Bytes) {
        self.put_back_bytes = bytes;
    }

    fn with_write_timeout<T>(
        &mut self,
        context: &mut Context<'_>,
        write: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if write.is_ready() {
            self.write_timeout = None;
            return write;
        }
        let timeout = self.timeout;
        let write_timeout = self.write_timeout.get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
        ready!(write_timeout.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.put_back_bytes.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        let fits = self.put_back_bytes.len().min(buffer.remaining());
        buffer.put_slice(&self.put_back_bytes.split_to(fits));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let write = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.with_write_timeout(context, write)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let write = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.with_write_timeout(context, write)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flush = Pin::new(&mut self.stream).poll_flush(context);
        self.with_write_timeout(context, flush)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shutdown = Pin::new(&mut self.stream).poll_shutdown(context);
        self.with_write_timeout(context, shutdown)
    }
}
