//! What a server says of itself at `/metrics`.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(2);
/// No page is longer.
const PAGE_BYTES_MAX: u64 = 1 << 22;

/// A page of figures.
#[derive(Debug)]
pub(super) struct Figures(measure::Figures);

impl Figures {
    /// Asks a server for its page.
    pub(super) fn ask(address: SocketAddr) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("the server's figures at {address}: {error}");
        let mut stream = TcpStream::connect_timeout(&address, PATIENCE).map_err(failed)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        stream
            .write_all(b"GET /metrics HTTP/1.1\r\nHost: plan\r\nConnection: close\r\n\r\n")
            .map_err(failed)?;
        let mut page = Vec::new();
        stream
            .take(PAGE_BYTES_MAX)
            .read_to_end(&mut page)
            .map_err(failed)?;
        let page = String::from_utf8_lossy(&page).into_owned();
        Ok(Self(measure::Figures::new(page)))
    }

    /// The sum of a family over all its labels; 0 of one that is not there.
    pub(super) fn sum(&self, name: &str) -> f64 {
        self.0.sum(name)
    }

    /// SIP bytes in and out so far.
    pub(super) fn bytes(&self) -> f64 {
        self.sum("signet_received_bytes_total") + self.sum("signet_sent_bytes_total")
    }
}
