//! Name servers on a link: their addresses mean something together with an interface, of which
//! the library that asks them knows nothing.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hickory_resolver::net::runtime::{DnsUdpSocket, RuntimeProvider, TokioRuntimeProvider};

type Tokio = TokioRuntimeProvider;
type Soon<T> = Pin<Box<dyn Send + Future<Output = io::Result<T>>>>;

/// Tokio's sockets, which send to each name server by its interface.
#[derive(Clone)]
pub(super) struct ByZone {
    tokio: Tokio,
    servers: Arc<[SocketAddr]>,
}

impl ByZone {
    pub(super) fn new(servers: &[SocketAddr]) -> Self {
        Self {
            tokio: Tokio::default(),
            servers: servers.into(),
        }
    }
}

/// The address of a server with its interface.
fn with_zone(servers: &[SocketAddr], to: SocketAddr) -> SocketAddr {
    let is_it = |server: &&SocketAddr| server.ip() == to.ip() && server.port() == to.port();
    servers.iter().find(is_it).copied().unwrap_or(to)
}

impl RuntimeProvider for ByZone {
    type Handle = <Tokio as RuntimeProvider>::Handle;
    type Timer = <Tokio as RuntimeProvider>::Timer;
    type Udp = UdpByZone;
    type Tcp = <Tokio as RuntimeProvider>::Tcp;

    fn create_handle(&self) -> Self::Handle {
        self.tokio.create_handle()
    }

    fn connect_tcp(
        &self,
        server: SocketAddr,
        from: Option<SocketAddr>,
        timeout: Option<Duration>,
    ) -> Soon<Self::Tcp> {
        let server = with_zone(&self.servers, server);
        self.tokio.connect_tcp(server, from, timeout)
    }

    fn bind_udp(&self, from: SocketAddr, server: SocketAddr) -> Soon<Self::Udp> {
        let bound = self.tokio.bind_udp(from, server);
        let servers = Arc::clone(&self.servers);
        Box::pin(async move {
            Ok(UdpByZone {
                socket: bound.await?,
                servers,
            })
        })
    }
}

/// A socket that adds the interface.
pub(super) struct UdpByZone {
    socket: <Tokio as RuntimeProvider>::Udp,
    servers: Arc<[SocketAddr]>,
}

impl DnsUdpSocket for UdpByZone {
    type Time = <<Tokio as RuntimeProvider>::Udp as DnsUdpSocket>::Time;

    fn poll_recv_from(
        &self,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<(usize, SocketAddr)>> {
        DnsUdpSocket::poll_recv_from(&self.socket, cx, buffer)
    }

    fn poll_send_to(
        &self,
        cx: &mut Context<'_>,
        bytes: &[u8],
        to: SocketAddr,
    ) -> Poll<io::Result<usize>> {
        DnsUdpSocket::poll_send_to(&self.socket, cx, bytes, with_zone(&self.servers, to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_on_a_link_is_reached_by_its_interface() {
        let servers = ["[fe80::1%7]:53", "192.0.2.53:53"].map(|text| text.parse().unwrap());
        let to = |text: &str| with_zone(&servers, text.parse().unwrap()).to_string();
        assert_eq!(to("[fe80::1]:53"), "[fe80::1%7]:53");
        assert_eq!(to("[fe80::1]:54"), "[fe80::1]:54");
        assert_eq!(to("192.0.2.53:53"), "192.0.2.53:53");
    }
}
