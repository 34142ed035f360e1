//! `-rtp_echo`: what comes to the media ports goes back to its sender.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};

/// The longest datagram.
const DATAGRAM_MAX: usize = 65_536;

/// Starts a thread for each of the two ports; they end with the process.
pub(crate) fn start(ip: IpAddr, port: u16) -> io::Result<()> {
    for port in [port, port.saturating_add(2)] {
        let socket = UdpSocket::bind(SocketAddr::new(ip, port))?;
        std::thread::Builder::new()
            .name("echo".to_owned())
            .spawn(move || echo(&socket))?;
    }
    Ok(())
}

fn echo(socket: &UdpSocket) {
    let mut bytes = vec![0; DATAGRAM_MAX];
    loop {
        // What a refused packet of before left behind is no reason to end.
        let Ok((len, from)) = socket.recv_from(&mut bytes) else {
            continue;
        };
        let _ = socket.send_to(bytes.get(..len).unwrap_or_default(), from);
    }
}
