//! Who asks over HTTP takes a seat on the admin thread, and for so long: whoever hangs, or means
//! harm, holds few descriptors. What he takes beyond them would be missing for SIP.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep};

/// Connections of a listener at a time; the next waits until one has ended.
const CONNECTIONS_MAX: usize = 32;
/// How long the other end of a connection may say nothing at first.
const SILENCE_MAX: Duration = Duration::from_secs(2);
/// How long a connection may last after that, whatever its other end does.
const CONNECTION_MAX: Duration = Duration::from_secs(10);

/// Accepts no more connections than there are seats.
pub(crate) struct Bounded<L> {
    listener: L,
    seats: Arc<Semaphore>,
}

impl<L: Listener> Bounded<L> {
    pub(crate) fn new(listener: L) -> Self {
        Self {
            listener,
            seats: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
        }
    }
}

impl<L: Listener> Listener for Bounded<L> {
    type Io = Seated<L::Io>;
    type Addr = L::Addr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        let seat = match Arc::clone(&self.seats).acquire_owned().await {
            Ok(seat) => seat,
            // Nobody closes the semaphore.
            Err(_) => std::future::pending().await,
        };
        let (stream, addr) = self.listener.accept().await;
        let io = Seated {
            stream,
            end: Box::pin(sleep(SILENCE_MAX)),
            is_silent: true,
            _seat: seat,
        };
        (io, addr)
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

/// A connection with its seat and its end.
pub(crate) struct Seated<S> {
    stream: S,
    end: Pin<Box<Sleep>>,
    /// Whether nothing has come yet.
    is_silent: bool,
    _seat: OwnedSemaphorePermit,
}

impl<S> Seated<S> {
    /// An error once its time is up, which ends the connection.
    fn poll_end(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        match self.end.as_mut().poll(context) {
            Poll::Ready(()) => Err(io::ErrorKind::TimedOut.into()),
            Poll::Pending => Ok(()),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Seated<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.poll_end(context)?;
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if read.is_ready() && std::mem::replace(&mut self.is_silent, false) {
            self.end.as_mut().reset(Instant::now() + CONNECTION_MAX);
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Seated<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_end(context)?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_end(context)?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TempDir;
    use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

    /// A connection on which nothing is said has the only seat until its time is up.
    async fn hold_and_lose<L: Listener>(listener: L) {
        let seats = Arc::new(Semaphore::new(1));
        let mut bounded = Bounded {
            listener,
            seats: seats.clone(),
        };
        let (mut io, _) = bounded.accept().await;
        assert_eq!(seats.available_permits(), 0);
        // Its time is up: a read that would wait fails, and the seat is free with it.
        io.end.as_mut().reset(Instant::now());
        let mut byte = [0];
        let mut buffer = ReadBuf::new(&mut byte);
        let read =
            std::future::poll_fn(|context| Pin::new(&mut io).poll_read(context, &mut buffer)).await;
        assert_eq!(read.unwrap_err().kind(), io::ErrorKind::TimedOut);
        drop(io);
        assert_eq!(seats.available_permits(), 1);
    }

    #[tokio::test]
    async fn who_hangs_holds_one_seat_and_not_for_long() {
        let folder = TempDir::new("seats");
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let _silent = UnixStream::connect(&path).await.unwrap();
        hold_and_lose(listener).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let _silent = TcpStream::connect(at).await.unwrap();
        hold_and_lose(listener).await;
    }
}
