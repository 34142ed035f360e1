//! Connections to stores: plain or under TLS, counted byte by byte.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::resolver::Resolver;
use crate::tls::{self, TlsClient};
use crate::url::{Host, Url};
use crate::{Error, Options};

/// The idle time after which the kernel asks whether the other end is still there, and the
/// time between two such questions.
const KEEPALIVE: Duration = Duration::from_secs(10);

/// How long an address is waited for before the next one is tried beside it (RFC 8305 5).
const NEXT_AFTER: Duration = Duration::from_millis(250);

/// Bytes on the wire over all connections to one store, TLS records included.
#[derive(Clone, Debug, Default)]
pub(crate) struct Traffic(Rc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    sent: Cell<u64>,
    received: Cell<u64>,
}

impl Traffic {
    /// Sent and received.
    pub(crate) fn so_far(&self) -> (u64, u64) {
        (self.0.sent.get(), self.0.received.get())
    }

    /// Counts what has not gone through a [`Stream`]: a datagram, say.
    pub(crate) fn add(&self, sent: usize, received: usize) {
        let add = |to: &Cell<u64>, bytes: usize| {
            to.set(to.get().saturating_add(bytes as u64));
        };
        add(&self.0.sent, sent);
        add(&self.0.received, received);
    }
}

/// Since when one connection has been waiting for the other end: the earliest write that
/// nothing was read after.
#[derive(Clone, Debug, Default)]
pub(crate) struct Silence(Rc<Cell<Option<Instant>>>);

impl Silence {
    /// How long nothing has come although something was sent.
    pub(crate) fn lasts(&self) -> Duration {
        self.0.get().map_or(Duration::ZERO, |since| since.elapsed())
    }
}

/// How connections to one store are made.
#[derive(Clone)]
pub(crate) struct Connector {
    place: StoreAddress,
    tls: Option<TlsClient>,
    timeout: Duration,
    traffic: Traffic,
}

#[derive(Clone)]
enum StoreAddress {
    /// A name that is resolved each time, and a port.
    Name(Resolver),
    /// `localhost` is the loopback, whatever a resolver says (RFC 6761 6.3).
    Loopback(u16),
    Socket(PathBuf),
}

impl Connector {
    /// Reads from the configuration where the store is and whether it is spoken to by TLS.
    /// Nothing is connected yet.
    pub(crate) fn new(url: &Url, options: &Options) -> Result<Self, Error> {
        let place = match &url.host {
            Host::Socket(path) => StoreAddress::Socket(path.clone()),
            Host::Name(name) if name.eq_ignore_ascii_case("localhost") => {
                StoreAddress::Loopback(url.port)
            }
            Host::Name(name) => StoreAddress::Name(Resolver::new(name, url.port)),
        };
        Ok(Self {
            place,
            tls: tls::client(url, options)?,
            timeout: Duration::from_millis(options.connect_timeout_ms),
            traffic: Traffic::default(),
        })
    }

    /// What all connections made here have moved.
    pub(crate) fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// Whether [`Self::upgrade`] is due: at once for a protocol that begins with TLS, after
    /// its own question for MySQL, PostgreSQL and StartTLS.
    pub(crate) fn wants_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Whether a password may be sent as it is: under TLS, or where no network carries it.
    pub(crate) fn is_private(&self) -> bool {
        self.wants_tls() || matches!(self.place, StoreAddress::Socket(_))
    }

    /// How long a connection may take to be made, log-in included.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Does what takes part in making a connection, within the time for that.
    pub(crate) async fn in_time<T, E: From<io::Error>>(
        &self,
        steps: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        match tokio::time::timeout(self.timeout, steps).await {
            Ok(done) => done,
            Err(_) => Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!(
                    "no connection to {} within {} ms",
                    self.place,
                    self.timeout.as_millis()
                ),
            )
            .into()),
        }
    }

    /// A connection that has said nothing yet, in plain text.
    pub(crate) async fn open(&self) -> io::Result<Stream> {
        let opened = match &self.place {
            StoreAddress::Socket(path) => UnixStream::connect(path).await.map(Socket::Unix),
            StoreAddress::Name(resolver) => match resolver.addresses().await {
                Ok(at) => connect_to_first(&at).await.map(Socket::Tcp),
                Err(error) => Err(error),
            },
            StoreAddress::Loopback(port) => {
                let at = [
                    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), *port),
                    SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), *port),
                ];
                connect_to_first(&at).await.map(Socket::Tcp)
            }
        };
        let socket = opened.map_err(|error| self.blame(&error))?;
        if let Socket::Tcp(tcp) = &socket {
            tcp.set_nodelay(true)?;
            // What is sent and never acknowledged ends the connection, so that a store that
            // vanished is not waited for; keepalive finds it where nothing is sent.
            let tcp = socket2::SockRef::from(tcp);
            let keepalive = socket2::TcpKeepalive::new()
                .with_time(KEEPALIVE)
                .with_interval(KEEPALIVE);
            tcp.set_tcp_keepalive(&keepalive)?;
            #[cfg(target_os = "linux")]
            tcp.set_tcp_user_timeout(Some(self.timeout.max(KEEPALIVE)))?;
        }
        Ok(Stream::Plain(Counted {
            socket,
            traffic: self.traffic.clone(),
            silence: Silence::default(),
        }))
    }

    /// Puts a connection under TLS; the certificate is verified.
    pub(crate) async fn upgrade(&self, stream: Stream) -> io::Result<Stream> {
        let (Some(tls), Stream::Plain(plain)) = (&self.tls, stream) else {
            return Err(io::Error::other(
                "a connection is put under TLS twice, or unasked",
            ));
        };
        let connector = TlsConnector::from(std::sync::Arc::clone(&tls.config));
        let stream = connector
            .connect(tls.name.clone(), plain)
            .await
            .map_err(|error| {
                io::Error::new(
                    error.kind(),
                    format!("TLS with {} failed: {error}", self.place),
                )
            })?;
        Ok(Stream::Tls(Box::new(stream)))
    }

    /// [`Self::open`], then [`Self::upgrade`] where TLS is wanted: for protocols that begin
    /// with it. Within the time for making a connection.
    pub(crate) async fn connect(&self) -> io::Result<Stream> {
        self.in_time(async {
            let stream = self.open().await?;
            if self.wants_tls() {
                self.upgrade(stream).await
            } else {
                Ok(stream)
            }
        })
        .await
    }

    fn blame(&self, error: &io::Error) -> io::Error {
        io::Error::new(
            error.kind(),
            format!("no connection to {}: {error}", self.place),
        )
    }
}

/// Connects to the first of these addresses that takes it. One that says nothing keeps the others
/// from being tried for a moment only, and none of them ends the time of another.
async fn connect_to_first(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "its name has no address");
    let mut left = addresses.iter();
    let mut next = left.next();
    let mut under_way = FuturesUnordered::new();
    loop {
        if let Some(at) = next.take() {
            under_way.push(TcpStream::connect(*at));
        }
        let has_more = !left.as_slice().is_empty();
        tokio::select! {
            Some(connected) = under_way.next() => match connected {
                Ok(connected) => return Ok(connected),
                Err(error) => {
                    failed = error;
                    next = left.next();
                }
            },
            () = tokio::time::sleep(NEXT_AFTER), if has_more => next = left.next(),
            else => return Err(failed),
        }
    }
}

impl std::fmt::Display for Connector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.place.fmt(f)
    }
}

impl std::fmt::Display for StoreAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Name(name) => name.fmt(f),
            Self::Loopback(port) => write!(f, "localhost:{port}"),
            Self::Socket(path) => write!(f, "{}", path.display()),
        }
    }
}

/// A connection to a store.
pub(crate) enum Stream {
    /// In plain text.
    Plain(Counted),
    /// Under TLS.
    Tls(Box<TlsStream<Counted>>),
}

impl Stream {
    /// Watches how long the other end keeps this connection waiting.
    pub(crate) fn silence(&self) -> Silence {
        match self {
            Self::Plain(plain) => plain.silence.clone(),
            Self::Tls(tls) => tls.get_ref().0.silence.clone(),
        }
    }

    /// The certificate that the other end has proved, in DER.
    pub(crate) fn peer_certificate(&self) -> Option<&[u8]> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(tls) => Some(tls.get_ref().1.peer_certificates()?.first()?),
        }
    }
}

/// A socket whose bytes are counted.
pub(crate) struct Counted {
    socket: Socket,
    traffic: Traffic,
    silence: Silence,
}

enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// Calls a method of whichever stream it is.
macro_rules! pinned {
    ($self:expr, $kind:ident { $($variant:ident),* }, $stream:ident => $does:expr) => {
        match $self {
            $($kind::$variant($stream) => {
                let $stream = Pin::new($stream);
                $does
            })*
        }
    };
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = pinned!(&mut self.socket, Socket { Tcp, Unix }, socket => {
            socket.poll_read(context, buffer)
        });
        let read = buffer.filled().len() - before;
        if read > 0 {
            self.traffic.add(0, read);
            self.silence.0.set(None);
        }
        polled
    }
}

impl Counted {
    fn wrote(&self, polled: &Poll<io::Result<usize>>) {
        if let Poll::Ready(Ok(written)) = polled {
            self.traffic.add(*written, 0);
            if self.silence.0.get().is_none() {
                self.silence.0.set(Some(Instant::now()));
            }
        }
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = pinned!(&mut self.socket, Socket { Tcp, Unix }, socket => {
            socket.poll_write(context, bytes)
        });
        self.wrote(&polled);
        polled
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = pinned!(&mut self.socket, Socket { Tcp, Unix }, socket => {
            socket.poll_write_vectored(context, slices)
        });
        self.wrote(&polled);
        polled
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        pinned!(&mut self.socket, Socket { Tcp, Unix }, socket => socket.poll_flush(context))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        pinned!(&mut self.socket, Socket { Tcp, Unix }, socket => socket.poll_shutdown(context))
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        pinned!(self.get_mut(), Stream { Plain, Tls }, stream => stream.poll_read(context, buffer))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        pinned!(self.get_mut(), Stream { Plain, Tls }, stream => stream.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        pinned!(self.get_mut(), Stream { Plain, Tls }, stream => {
            stream.poll_write_vectored(context, slices)
        })
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        pinned!(self.get_mut(), Stream { Plain, Tls }, stream => stream.poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        pinned!(self.get_mut(), Stream { Plain, Tls }, stream => stream.poll_shutdown(context))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// A listener at that port of 127.0.0.2 that answers nobody any more, and what keeps it from
    /// that: the kernel says nothing to who comes when nobody else can wait.
    fn silent_at(port: u16) -> (socket2::Socket, Vec<TcpStream>) {
        let at = SocketAddr::from(([127, 0, 0, 2], port));
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
        let socket = socket.unwrap();
        socket.bind(&at.into()).unwrap();
        socket.listen(0).unwrap();
        let mut waiting = Vec::new();
        while let Ok(stream) = TcpStream::connect_timeout(&at, Duration::from_millis(300)) {
            waiting.push(stream);
        }
        (socket, waiting)
    }

    /// Connects to what the name stands for.
    fn connected(name: Resolver, timeout: Duration) -> io::Result<()> {
        let connector = Connector {
            place: StoreAddress::Name(name),
            tls: None,
            timeout,
            traffic: Traffic::default(),
        };
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().unwrap();
        runtime.block_on(connector.connect()).map(drop)
    }

    #[test]
    fn behind_an_address_that_is_silent_the_next_one_is_tried() {
        let good = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = good.local_addr().unwrap().port();
        let _silent = silent_at(port);
        let both = Resolver::by("db.example.com", port, |_, port| {
            let at = |last: u8| SocketAddr::from(([127, 0, 0, last], port));
            Ok(vec![at(2), at(1)])
        });
        assert!(connected(both, Duration::from_secs(3)).is_ok());
        let none = Resolver::by("db.example.com", port, |_, _| Ok(Vec::new()));
        let error = connected(none, Duration::from_secs(3)).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("has no address"), "{error}");
    }

    #[test]
    fn an_address_that_is_slow_keeps_its_time_while_the_others_are_tried() {
        let here = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = here.local_addr().unwrap().port();
        let (slow, _waiting) = silent_at(port);
        // Its kernel answers when it is asked again after a second.
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(400));
            let mut taken = Vec::new();
            while let Ok(one) = slow.accept() {
                taken.push(one);
            }
        });
        // Nobody is at the other nine.
        let ten = Resolver::by("db.example.com", port, |_, port| {
            let at = |last: u8| SocketAddr::from(([127, 0, 0, last], port));
            Ok((2..12).map(at).collect())
        });
        assert!(connected(ten, Duration::from_secs(8)).is_ok());
    }
}
