//! Round trips of small messages of our own, one after the other, and what sends them back.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use measure::statistics::quantile;
use serde::{Deserialize, Serialize};
use signet_bed::Error;

/// Bytes of a message: those of a small packet of voice, or of an acknowledgement.
pub const MESSAGE_BYTES: usize = 64;
/// The most round trips of which the times are kept: evenly over the whole of the time.
const KEPT_MAX: usize = 20_000;
/// A message that has not come back by then is lost.
const LOST: Duration = Duration::from_millis(500);
/// The pause before the next attempt to get through.
const PAUSE: Duration = Duration::from_millis(50);
/// Connections at once.
const CONNECTIONS_MAX: usize = 16;

/// What messages travel in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// A datagram each.
    Udp,
    /// One connection.
    Tcp,
}

/// What round trips took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RoundTrips {
    /// How many came back.
    pub count: u64,
    /// How many did not.
    pub lost: u64,
    /// Half of them took at most so long, in microseconds.
    pub p50_us: f64,
    /// 99%.
    pub p99_us: f64,
}

/// Sends back whatever comes to an address over UDP and TCP, for good.
///
/// # Errors
/// An address that is not to be had.
pub fn echo(at: SocketAddr) -> Result<(), Error> {
    let failed = |error: std::io::Error| {
        Error::new(
            format!("cannot listen at {at}: {error}"),
            "end what has that port, or name another",
        )
    };
    let listener = TcpListener::bind(at).map_err(failed)?;
    let socket = UdpSocket::bind(at).map_err(failed)?;
    std::thread::spawn(move || echo_streams(&listener));
    let mut buffer = [0; 2_048];
    loop {
        // An error is of a peer that is gone; the next message may be of another.
        if let Ok((length, from)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(buffer.get(..length).unwrap_or_default(), from);
        }
    }
}

fn echo_streams(listener: &TcpListener) {
    let mut under_way: Vec<std::thread::JoinHandle<()>> = Vec::new();
    for stream in listener.incoming().flatten() {
        under_way.retain(|one| !one.is_finished());
        if under_way.len() < CONNECTIONS_MAX {
            under_way.push(std::thread::spawn(move || echo_stream(stream)));
        }
    }
}

fn echo_stream(mut stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    let mut buffer = [0; 2_048];
    while let Ok(length) = stream.read(&mut buffer) {
        let came = buffer.get(..length).unwrap_or_default();
        if came.is_empty() || stream.write_all(came).is_err() {
            return;
        }
    }
}

/// Waits until a message comes back, at most so long, then takes the time of one after the other.
///
/// # Errors
/// That nothing came back.
pub fn probe(
    carrier: Carrier,
    to: SocketAddr,
    wait: Duration,
    duration: Duration,
) -> Result<RoundTrips, Error> {
    let until = Instant::now() + wait;
    let mut path = loop {
        match EchoPath::open(carrier, to).and_then(|mut path| path.exchange(0).map(|_| path)) {
            Ok(path) => break path,
            Err(error) if Instant::now() >= until => {
                return Err(Error::new(
                    format!("nothing comes back from {to}: {error}"),
                    "see that `signet price echo` runs there and the path lets it through",
                ));
            }
            Err(_) => std::thread::sleep(PAUSE),
        }
    };
    let mut kept = Kept::default();
    let mut lost = 0;
    let end = Instant::now() + duration;
    let mut number = 0;
    while Instant::now() < end {
        number += 1;
        match path.exchange(number) {
            Ok(took) => kept.add(took.as_secs_f64() * 1e6),
            // A stream that is broken stays so; a datagram may be lost.
            Err(_) if carrier == Carrier::Udp => lost += 1,
            Err(error) => {
                return Err(Error::new(
                    format!("the connection to {to} broke: {error}"),
                    "see what the tunnel says",
                ));
            }
        }
    }
    Ok(kept.told(lost))
}

/// Times of round trips, thinned as there come to be many: every one, then every second, every
/// fourth.
#[derive(Default)]
struct Kept {
    count: u64,
    /// How often the times were thinned.
    halved: u32,
    took_us: Vec<f64>,
}

impl Kept {
    fn add(&mut self, us: f64) {
        if self.count.is_multiple_of(1 << self.halved) {
            if self.took_us.len() == KEPT_MAX {
                // Those that stay are as far apart as those that come from now on.
                let mut nth = 0;
                self.took_us.retain(|_| {
                    nth += 1;
                    nth % 2 == 1
                });
                self.halved += 1;
            }
            self.took_us.push(us);
        }
        self.count += 1;
    }

    fn told(mut self, lost: u64) -> RoundTrips {
        self.took_us.sort_by(f64::total_cmp);
        RoundTrips {
            count: self.count,
            lost,
            p50_us: quantile(&self.took_us, 0.5),
            p99_us: quantile(&self.took_us, 0.99),
        }
    }
}

/// An open path to what sends messages back.
enum EchoPath {
    Udp(UdpSocket),
    Tcp(TcpStream),
}

impl EchoPath {
    fn open(carrier: Carrier, to: SocketAddr) -> std::io::Result<Self> {
        match carrier {
            Carrier::Udp => {
                let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
                let socket = UdpSocket::bind(any)?;
                socket.connect(to)?;
                socket.set_read_timeout(Some(LOST))?;
                Ok(Self::Udp(socket))
            }
            Carrier::Tcp => {
                let stream = TcpStream::connect_timeout(&to, LOST)?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(LOST))?;
                Ok(Self::Tcp(stream))
            }
        }
    }

    /// Sends a message and waits for it.
    fn exchange(&mut self, number: u64) -> std::io::Result<Duration> {
        let mut message = [7; MESSAGE_BYTES];
        for (to, from) in message.iter_mut().zip(number.to_be_bytes()) {
            *to = from;
        }
        let mut back = [0; MESSAGE_BYTES];
        let begun = Instant::now();
        match self {
            Self::Udp(socket) => {
                socket.send(&message)?;
                // One that was given up may come before it.
                while back != message {
                    if begun.elapsed() > LOST {
                        return Err(ErrorKind::TimedOut.into());
                    }
                    match socket.recv(&mut back) {
                        // A machine that was halted interrupts who waits for a limited time
                        // (signal(7)).
                        Err(error) if error.kind() == ErrorKind::Interrupted => {}
                        came => _ = came?,
                    }
                }
            }
            Self::Tcp(stream) => {
                stream.write_all(&message)?;
                stream.read_exact(&mut back)?;
            }
        }
        Ok(begun.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_back_over_both() {
        let at = {
            let free = TcpListener::bind("127.0.0.1:0").unwrap();
            free.local_addr().unwrap()
        };
        std::thread::spawn(move || echo(at));
        let patience = Duration::from_secs(20);
        for carrier in [Carrier::Tcp, Carrier::Udp] {
            let found = probe(carrier, at, patience, Duration::from_millis(50)).unwrap();
            assert!(found.count > 0, "{carrier:?}: {found:?}");
            assert!(found.p50_us <= found.p99_us, "{carrier:?}: {found:?}");
        }
    }

    #[test]
    fn the_whole_of_a_long_time_counts() {
        let mut kept = Kept::default();
        // Slower and slower: what came first alone would be far too fast.
        let count = 10 * KEPT_MAX as u64 + 17;
        for nth in 0..count {
            kept.add(nth as f64);
        }
        assert!(kept.took_us.len() <= KEPT_MAX);
        let step = 1 << kept.halved;
        let mut apart = kept.took_us.windows(2).map(|pair| pair[1] - pair[0]);
        assert!(apart.all(|distance| distance == f64::from(step)));
        let told = kept.told(3);
        assert_eq!((told.count, told.lost), (count, 3));
        let off = told.p50_us / (count as f64 * 0.5) - 1.0;
        assert!(off.abs() < 0.01, "{told:?}");
    }

    #[test]
    fn where_nothing_comes_back_it_is_said() {
        let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
        let at = silent.local_addr().unwrap();
        let error = probe(Carrier::Udp, at, Duration::ZERO, Duration::ZERO).unwrap_err();
        assert!(error.to_string().contains("nothing comes back"), "{error}");
    }
}
