//! Messages as packets of IP: what Wireshark would have seen on a wire without TLS.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use sip_msg::Transport;
use sip_worker::Direction;

use super::Seen;

/// Streams whose sequence numbers are remembered; past it they begin anew.
const STREAMS_MAX: usize = 65_536;
/// Bytes of a message in one packet: with its headers it fits the 16 bits of IP's length.
const PAYLOAD_MAX: usize = 65_000;

const UDP: u8 = 17;
const TCP: u8 = 6;

/// Makes packets. Those of a stream have sequence numbers that fit each other.
#[derive(Default)]
pub(super) struct Packets {
    /// The next sequence number from and to this server, by the two ends.
    streams: HashMap<(SocketAddr, SocketAddr), [u32; 2]>,
}

/// A packet, and whether the message in it was cut.
pub(super) struct Packet {
    pub(super) bytes: Vec<u8>,
    pub(super) is_cut: bool,
}

impl Packets {
    /// The packets of a message. A message over TCP is in segments of TCP. What was under TLS
    /// or in WebSocket frames is in a datagram, because readers choose what to make of TCP by
    /// its port, and would look for TLS or HTTP there.
    pub(super) fn of(&mut self, seen: &Seen, local: SocketAddr, message: &[u8]) -> Vec<Packet> {
        let (local, remote) = one_family(local, seen.remote);
        let (from, to) = match seen.direction {
            Direction::In => (remote, local),
            Direction::Out => (local, remote),
        };
        if seen.transport == Transport::Tcp {
            return self.segments(seen.direction, (local, remote), (from, to), message);
        }
        let cut = message.get(..PAYLOAD_MAX);
        vec![Packet {
            bytes: datagram(from, to, cut.unwrap_or(message)),
            is_cut: cut.is_some_and(|cut| cut.len() < message.len()),
        }]
    }

    fn segments(
        &mut self,
        direction: Direction,
        ends: (SocketAddr, SocketAddr),
        (from, to): (SocketAddr, SocketAddr),
        message: &[u8],
    ) -> Vec<Packet> {
        if self.streams.len() >= STREAMS_MAX && !self.streams.contains_key(&ends) {
            self.streams.clear();
        }
        let [sent, received] = self.streams.entry(ends).or_insert([1, 1]);
        let (next, other) = match direction {
            Direction::Out => (sent, *received),
            Direction::In => (received, *sent),
        };
        let mut packets = Vec::new();
        for part in message.chunks(PAYLOAD_MAX) {
            packets.push(Packet {
                bytes: segment(from, to, (*next, other), part),
                is_cut: false,
            });
            *next = next.wrapping_add(u32::try_from(part.len()).unwrap_or(0));
        }
        packets
    }
}

/// Both ends in one family: an IPv4 address is not shown in its IPv6 form (RFC 4291 2.5.5.2)
/// unless the other is of IPv6.
fn one_family(local: SocketAddr, remote: SocketAddr) -> (SocketAddr, SocketAddr) {
    let (one, other) = (local.ip().to_canonical(), remote.ip().to_canonical());
    let (one, other) = match (one, other) {
        (IpAddr::V4(one), IpAddr::V6(_)) => (IpAddr::V6(one.to_ipv6_mapped()), other),
        (IpAddr::V6(_), IpAddr::V4(other)) => (one, IpAddr::V6(other.to_ipv6_mapped())),
        same => same,
    };
    (
        SocketAddr::new(one, local.port()),
        SocketAddr::new(other, remote.port()),
    )
}

/// RFC 768.
fn datagram(from: SocketAddr, to: SocketAddr, payload: &[u8]) -> Vec<u8> {
    let mut udp = Vec::with_capacity(8 + payload.len());
    udp.extend_from_slice(&from.port().to_be_bytes());
    udp.extend_from_slice(&to.port().to_be_bytes());
    udp.extend_from_slice(&short(8 + payload.len()));
    udp.extend_from_slice(&[0; 2]);
    udp.extend_from_slice(payload);
    // "If the computed checksum is zero, it is transmitted as all ones".
    let sum = match transport_checksum(from.ip(), to.ip(), UDP, &udp) {
        0 => 0xffff,
        sum => sum,
    };
    put(&mut udp, 6, sum);
    packet(from.ip(), to.ip(), UDP, &udp)
}

/// RFC 9293 3.1: with PSH and ACK, and no options.
fn segment(
    from: SocketAddr,
    to: SocketAddr,
    (sequence, acknowledged): (u32, u32),
    payload: &[u8],
) -> Vec<u8> {
    let mut tcp = Vec::with_capacity(20 + payload.len());
    tcp.extend_from_slice(&from.port().to_be_bytes());
    tcp.extend_from_slice(&to.port().to_be_bytes());
    tcp.extend_from_slice(&sequence.to_be_bytes());
    tcp.extend_from_slice(&acknowledged.to_be_bytes());
    tcp.extend_from_slice(&[0x50, 0x18, 0xff, 0xff, 0, 0, 0, 0]);
    tcp.extend_from_slice(payload);
    let sum = transport_checksum(from.ip(), to.ip(), TCP, &tcp);
    put(&mut tcp, 16, sum);
    packet(from.ip(), to.ip(), TCP, &tcp)
}

/// A packet of IPv4 (RFC 791) or IPv6 (RFC 8200).
fn packet(from: IpAddr, to: IpAddr, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = Vec::with_capacity(40 + payload.len());
    if let (IpAddr::V4(from), IpAddr::V4(to)) = (from, to) {
        packet.extend_from_slice(&[0x45, 0]);
        packet.extend_from_slice(&short(20 + payload.len()));
        packet.extend_from_slice(&[0, 0, 0x40, 0, 64, protocol, 0, 0]);
        packet.extend_from_slice(&from.octets());
        packet.extend_from_slice(&to.octets());
        let sum = checksum(&[&packet]);
        put(&mut packet, 10, sum);
    } else {
        packet.extend_from_slice(&[0x60, 0, 0, 0]);
        packet.extend_from_slice(&short(payload.len()));
        packet.extend_from_slice(&[protocol, 64]);
        packet.extend_from_slice(&sixteen(from));
        packet.extend_from_slice(&sixteen(to));
    }
    packet.extend_from_slice(payload);
    packet
}

fn sixteen(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => Ipv6Addr::octets(&ip),
    }
}

/// Over the pseudo header and the segment.
fn transport_checksum(from: IpAddr, to: IpAddr, protocol: u8, segment: &[u8]) -> u16 {
    let mut pseudo = Vec::with_capacity(40);
    if let (IpAddr::V4(from), IpAddr::V4(to)) = (from, to) {
        pseudo.extend_from_slice(&from.octets());
        pseudo.extend_from_slice(&to.octets());
    } else {
        pseudo.extend_from_slice(&sixteen(from));
        pseudo.extend_from_slice(&sixteen(to));
    }
    pseudo.extend_from_slice(&[0, protocol]);
    pseudo.extend_from_slice(&short(segment.len()));
    checksum(&[&pseudo, segment])
}

/// RFC 1071. All parts but the last have an even length.
fn checksum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0_u32;
    for pair in parts.iter().flat_map(|part| part.chunks(2)) {
        let high = pair.first().copied().unwrap_or(0);
        let low = pair.get(1).copied().unwrap_or(0);
        sum += u32::from(u16::from_be_bytes([high, low]));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).unwrap_or(0)
}

/// A length in two bytes.
fn short(length: usize) -> [u8; 2] {
    u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes()
}

fn put(bytes: &mut [u8], at: usize, value: u16) {
    if let Some(place) = bytes.get_mut(at..at + 2) {
        place.copy_from_slice(&value.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(direction: Direction, transport: Transport, remote: &str) -> Seen {
        Seen {
            at_unix_us: 0,
            direction,
            transport,
            local: None,
            remote: remote.parse().unwrap(),
            bytes: Vec::new(),
        }
    }

    /// Of a packet that is sound: that sum is all ones.
    fn is_sound(packet: &[u8]) -> bool {
        let (header, addresses) = match packet[0] >> 4 {
            4 => (20, packet[12..20].to_vec()),
            _ => (40, packet[8..40].to_vec()),
        };
        let protocol = if header == 20 { packet[9] } else { packet[6] };
        let body = &packet[header..];
        let mut pseudo = addresses;
        pseudo.extend_from_slice(&[0, protocol]);
        pseudo.extend_from_slice(&short(body.len()));
        (header == 40 || checksum(&[&packet[..20]]) == 0) && checksum(&[&pseudo, body]) == 0
    }

    #[test]
    fn packets_are_sound_in_both_families() {
        let mut packets = Packets::default();
        for (local, remote) in [
            ("192.0.2.1:5060", "192.0.2.2:5061"),
            ("[2001:db8::1]:5060", "[2001:db8::2]:5060"),
            ("[::ffff:192.0.2.1]:5060", "[::ffff:192.0.2.2]:9"),
            ("192.0.2.1:5060", "[2001:db8::2]:5060"),
        ] {
            for transport in [Transport::Udp, Transport::Tcp, Transport::Wss] {
                for message in [&b""[..], b"x", b"even", b"\xff\xff"] {
                    let seen = seen(Direction::In, transport, remote);
                    for packet in packets.of(&seen, local.parse().unwrap(), message) {
                        assert!(is_sound(&packet.bytes), "{local} {transport:?} {message:?}");
                        assert!(packet.bytes.ends_with(message) && !packet.is_cut);
                    }
                }
            }
        }
    }

    #[test]
    fn a_stream_counts_its_bytes_in_both_directions() {
        let mut packets = Packets::default();
        let local = "192.0.2.1:5060".parse().unwrap();
        let mut numbers = |direction, message: &[u8]| {
            let seen = seen(direction, Transport::Tcp, "192.0.2.2:4000");
            let made = packets.of(&seen, local, message);
            let number = |packet: &Packet, at: usize| {
                u32::from_be_bytes(packet.bytes[at..at + 4].try_into().unwrap())
            };
            let made = made.iter();
            made.map(|packet| (number(packet, 24), number(packet, 28)))
                .collect::<Vec<_>>()
        };
        assert_eq!(numbers(Direction::In, b"12345"), [(1, 1)]);
        assert_eq!(numbers(Direction::Out, b"123"), [(1, 6)]);
        assert_eq!(numbers(Direction::In, b"1"), [(6, 4)]);
        let long = vec![b'x'; PAYLOAD_MAX + 10];
        assert_eq!(numbers(Direction::In, &long), [(7, 4), (65_007, 4)]);
        assert_eq!(numbers(Direction::Out, b"1"), [(4, 65_017)]);
    }

    #[test]
    fn a_datagram_that_is_too_long_is_cut_and_says_so() {
        let mut packets = Packets::default();
        let seen = seen(Direction::Out, Transport::Tls, "192.0.2.2:5061");
        let long = vec![b'x'; PAYLOAD_MAX + 1];
        let made = packets.of(&seen, "192.0.2.1:5060".parse().unwrap(), &long);
        assert_eq!(made.len(), 1);
        assert!(made[0].is_cut && made[0].bytes.len() == 28 + PAYLOAD_MAX);
        assert!(is_sound(&made[0].bytes));
    }
}
