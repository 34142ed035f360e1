//! Ports of 127.0.0.1 for programs that tests start.
#![allow(clippy::panic)]

use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, Ordering};

/// Below those that the kernel gives to whoever asks for any.
const FIRST: u16 = 20_000;
const RANGES: u16 = 40;
/// Ports of a range.
const RANGE: u16 = 300;

/// So many ports in a row that are free for UDP and TCP at 127.0.0.1; the first of them. They
/// are of a range that no other process has meanwhile, and come round again late.
pub fn free_ports(count: u16) -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // The first is the mark.
    let (first, all) = (range() + 1, RANGE - 1);
    for _ in 0..2 * RANGE {
        let step = NEXT.fetch_add(count, Ordering::Relaxed) % all;
        let ports = first + step..first + step + count;
        if step + count <= all && ports.clone().all(is_free) {
            return ports.start;
        }
    }
    panic!("no {count} ports in a row are free from {first} on");
}

/// The first port of this process's range, which has a socket on it as long as the process lives.
fn range() -> u16 {
    static OWN: OnceLock<(u16, UdpSocket)> = OnceLock::new();
    let take = || {
        // Mostly they begin where nobody is.
        let begin = u16::try_from(std::process::id() % u32::from(RANGES)).unwrap_or(0);
        let mut ranges = (0..RANGES).map(|step| FIRST + (begin + step) % RANGES * RANGE);
        ranges
            .find_map(|port| Some((port, UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).ok()?)))
            .expect("a range of ports that no other process has")
    };
    OWN.get_or_init(take).0
}

fn is_free(port: u16) -> bool {
    let at = (Ipv4Addr::LOCALHOST, port);
    UdpSocket::bind(at).is_ok() && TcpListener::bind(at).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_given_out_once_and_are_free() {
        let one = free_ports(2);
        let _taken = UdpSocket::bind((Ipv4Addr::LOCALHOST, one)).unwrap();
        let mut all: Vec<u16> = (0..RANGE).map(|_| free_ports(2)).collect();
        assert!(!all.contains(&one) && !all.contains(&range()));
        all.sort_unstable();
        all.dedup();
        assert!(all.len() > 100, "{}", all.len());
        assert!(
            all.iter()
                .all(|port| (range()..range() + RANGE - 1).contains(port))
        );
    }
}
