//! IP headers: where one ends, and writing what changes.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

/// The longest IP packet, in octets.
pub const BYTES_MAX: usize = 65_535;

pub(crate) const IPV4_BYTES: usize = 20;
pub(crate) const IPV6_BYTES: usize = 40;
/// More extension headers, or longer ones, are not read.
pub(crate) const EXTENSIONS_BYTES_MAX: usize = 512;
const TTL: u8 = 64;
/// The bits of a traffic class that tell of congestion (RFC 3168 5): all of them where it was met,
/// none where the ends do not understand it.
const ECN: u8 = 0b11;

/// Protocol numbers.
pub(crate) mod protocol {
    pub(crate) const HOP_BY_HOP: u8 = 0;
    pub(crate) const IPV4: u8 = 4;
    pub(crate) const IPV6: u8 = 41;
    pub(crate) const ROUTING: u8 = 43;
    pub(crate) const FRAGMENT: u8 = 44;
    pub(crate) const ESP: u8 = 50;
    pub(crate) const AH: u8 = 51;
    pub(crate) const NOTHING: u8 = 59;
    pub(crate) const DESTINATION: u8 = 60;
}

/// What is wrong with an IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketError {
    /// It is of neither version.
    Version,
    /// It is shorter than it says.
    Truncated,
    /// It is a fragment: AH and ESP take whole datagrams (RFC 4303 3.3.4).
    Fragment,
    /// It says by which way it is to go: its destination changes, which AH cannot foretell.
    SourceRoute,
    /// It has more extension headers than are read.
    Extensions,
    /// It carries neither AH nor ESP, or not the one that is asked for.
    Unprotected,
}

impl fmt::Display for PacketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Version => "it is no IPv4 or IPv6 packet",
            Self::Truncated => "the packet is shorter than it says",
            Self::Fragment => "the packet is a fragment",
            Self::SourceRoute => "the packet says by which way it is to go",
            Self::Extensions => "the packet has too many extension headers",
            Self::Unprotected => "the packet does not carry what this association opens",
        })
    }
}

impl std::error::Error for PacketError {}

/// Where a header ends behind which AH or ESP stands, or is to stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) is_v6: bool,
    /// Octets from the beginning to there, extension headers of IPv6 included.
    pub(crate) bytes: usize,
    /// Octets of the whole packet.
    pub(crate) total_bytes: usize,
    /// Where the number of what follows stands.
    pub(crate) next_at: usize,
    /// That number.
    pub(crate) next: u8,
}

/// Where AH or ESP in transport mode goes in: behind IPv4's header, and behind those extension
/// headers of IPv6 that each node reads (RFC 4303 3.1.1).
pub(crate) fn insertion(packet: &[u8]) -> Result<Head, PacketError> {
    let mut walk = Walk::new(packet)?;
    let mut head = walk.head();
    while walk.is_extension() {
        let kind = walk.next;
        walk.step()?;
        if kind != protocol::DESTINATION {
            head = walk.head();
        }
    }
    Ok(head)
}

/// Where AH or ESP stands in a packet that came.
pub(crate) fn arrival(packet: &[u8], wanted: u8) -> Result<Head, PacketError> {
    let mut walk = Walk::new(packet)?;
    while walk.next != wanted {
        if !walk.is_extension() {
            return Err(PacketError::Unprotected);
        }
        walk.step()?;
    }
    Ok(walk.head())
}

struct Walk<'a> {
    packet: &'a [u8],
    is_v6: bool,
    at: usize,
    next_at: usize,
    next: u8,
}

impl<'a> Walk<'a> {
    /// Reads the first header; the packet ends where it says so itself.
    fn new(packet: &'a [u8]) -> Result<Self, PacketError> {
        match packet.first().map(|first| first >> 4) {
            Some(4) => {
                let header_bytes = usize::from(octet(packet, 0)? & 0x0f) * 4;
                let total_bytes = usize::from(pair(packet, 2)?);
                if header_bytes < IPV4_BYTES || total_bytes < header_bytes {
                    return Err(PacketError::Truncated);
                }
                // More fragments, or an offset.
                if pair(packet, 6)? & 0x3fff != 0 {
                    return Err(PacketError::Fragment);
                }
                Ok(Self {
                    packet: packet.get(..total_bytes).ok_or(PacketError::Truncated)?,
                    is_v6: false,
                    at: header_bytes,
                    next_at: 9,
                    next: octet(packet, 9)?,
                })
            }
            Some(6) => {
                let total_bytes = IPV6_BYTES + usize::from(pair(packet, 4)?);
                Ok(Self {
                    packet: packet.get(..total_bytes).ok_or(PacketError::Truncated)?,
                    is_v6: true,
                    at: IPV6_BYTES,
                    next_at: 6,
                    next: octet(packet, 6)?,
                })
            }
            Some(_) => Err(PacketError::Version),
            None => Err(PacketError::Truncated),
        }
    }

    fn head(&self) -> Head {
        Head {
            is_v6: self.is_v6,
            bytes: self.at,
            total_bytes: self.packet.len(),
            next_at: self.next_at,
            next: self.next,
        }
    }

    fn is_extension(&self) -> bool {
        use protocol::{DESTINATION, FRAGMENT, HOP_BY_HOP, ROUTING};
        self.is_v6 && matches!(self.next, HOP_BY_HOP | ROUTING | FRAGMENT | DESTINATION)
    }

    /// Goes over the extension header at which it stands.
    fn step(&mut self) -> Result<(), PacketError> {
        let bytes = if self.next == protocol::FRAGMENT {
            // An offset, or more to come; the two bits between are reserved.
            if pair(self.packet, self.at + 2)? & 0xfff9 != 0 {
                return Err(PacketError::Fragment);
            }
            8
        } else {
            8 + usize::from(octet(self.packet, self.at + 1)?) * 8
        };
        self.next_at = self.at;
        self.next = octet(self.packet, self.at)?;
        self.at += bytes;
        if self.at > self.packet.len() {
            return Err(PacketError::Truncated);
        }
        if self.at > IPV6_BYTES + EXTENSIONS_BYTES_MAX {
            return Err(PacketError::Extensions);
        }
        Ok(())
    }
}

fn octet(packet: &[u8], at: usize) -> Result<u8, PacketError> {
    packet.get(at).copied().ok_or(PacketError::Truncated)
}

fn pair(packet: &[u8], at: usize) -> Result<u16, PacketError> {
    let pair = packet.get(at..).and_then(|from| from.first_chunk::<2>());
    pair.map(|pair| u16::from_be_bytes(*pair))
        .ok_or(PacketError::Truncated)
}

/// Writes the length of a packet into its first header, and IPv4's checksum over what is there;
/// `None` where the length does not fit.
pub(crate) fn finish(packet: &mut [u8], head_is_v6: bool, total_bytes: usize) -> Option<()> {
    if head_is_v6 {
        let payload = u16::try_from(total_bytes.checked_sub(IPV6_BYTES)?).ok()?;
        packet
            .get_mut(4..6)?
            .copy_from_slice(&payload.to_be_bytes());
        return Some(());
    }
    let total = u16::try_from(total_bytes).ok()?;
    packet.get_mut(2..4)?.copy_from_slice(&total.to_be_bytes());
    packet.get_mut(10..12)?.fill(0);
    let header_bytes = usize::from(packet.first()? & 0x0f) * 4;
    let sum = checksum(packet.get(..header_bytes)?);
    packet.get_mut(10..12)?.copy_from_slice(&sum.to_be_bytes());
    Some(())
}

/// RFC 791 3.1.
pub(crate) fn checksum(header: &[u8]) -> u16 {
    let mut sum: u32 = header
        .chunks_exact(2)
        .filter_map(|pair| pair.first_chunk::<2>())
        .map(|pair| u32::from(u16::from_be_bytes(*pair)))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// An outer header of IPv4 for `next`; length and checksum follow. The traffic class and the
/// request not to be fragmented are the inner packet's (RFC 4301 5.1.2.1).
pub(crate) fn outer_v4(from: Ipv4Addr, to: Ipv4Addr, next: u8, inner: &[u8], id: u16) -> [u8; 20] {
    let is_whole = match inner.first().map(|first| first >> 4) {
        Some(4) => inner.get(6).copied().unwrap_or(0) & 0x40,
        _ => 0x40,
    };
    let ([id_high, id_low], class) = (id.to_be_bytes(), class_of(inner));
    let ([s0, s1, s2, s3], [t0, t1, t2, t3]) = (from.octets(), to.octets());
    [
        0x45, class, 0, 0, id_high, id_low, is_whole, 0, TTL, next, 0, 0, s0, s1, s2, s3, t0, t1,
        t2, t3,
    ]
}

/// The same of IPv6.
pub(crate) fn outer_v6(from: Ipv6Addr, to: Ipv6Addr, next: u8, inner: &[u8]) -> [u8; 40] {
    let class = class_of(inner);
    let mut header = [0; IPV6_BYTES];
    let (first, ends) = header.split_at_mut(8);
    first.copy_from_slice(&[0x60 | (class >> 4), class << 4, 0, 0, 0, 0, next, TTL]);
    let (source, target) = ends.split_at_mut(16);
    source.copy_from_slice(&from.octets());
    target.copy_from_slice(&to.octets());
    header
}

/// DSCP and ECN of a packet.
pub(crate) fn class_of(packet: &[u8]) -> u8 {
    let first = packet.first().copied().unwrap_or(0);
    let second = packet.get(1).copied().unwrap_or(0);
    if first >> 4 == 6 {
        (first << 4) | (second >> 4)
    } else {
        second
    }
}

/// Tells the ends of what a tunnel carried that the outer packet met congestion, where they
/// understand it (RFC 4301 5.1.2.1: CE goes in where ECT is).
pub(crate) fn tell_congestion(outer_class: u8, inner: &mut [u8]) {
    let own = class_of(inner) & ECN;
    if outer_class & ECN != ECN || own == 0 || own == ECN {
        return;
    }
    let Some(word) = inner.first_chunk_mut::<2>() else {
        return;
    };
    let before = u16::from_be_bytes(*word);
    let is_v6 = before >> 12 == 6;
    let after = before | u16::from(ECN) << if is_v6 { 4 } else { 0 };
    *word = after.to_be_bytes();
    if is_v6 {
        return;
    }
    // The checksum is changed and not made anew: one that is wrong stays wrong (RFC 1624 3).
    if let Some(sum) = inner
        .get_mut(10..)
        .and_then(|from| from.first_chunk_mut::<2>())
    {
        let was = u16::from_be_bytes(*sum);
        let moved = u32::from(!was) + u32::from(!before) + u32::from(after);
        let moved = (moved & 0xffff) + (moved >> 16);
        let moved = (moved & 0xffff) + (moved >> 16);
        *sum = (!(moved as u16)).to_be_bytes();
    }
}

/// The whole packet that a tunnel carried, as long as it says itself.
pub(crate) fn inner(packet: &[u8], next: u8) -> Option<usize> {
    let bytes = match (next, packet.first()? >> 4) {
        (protocol::IPV4, 4) => {
            let bytes = usize::from(pair(packet, 2).ok()?);
            (bytes >= IPV4_BYTES).then_some(bytes)?
        }
        (protocol::IPV6, 6) => IPV6_BYTES + usize::from(pair(packet, 4).ok()?),
        _ => return None,
    };
    (bytes <= packet.len()).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_of_rfc_3602() {
        let header = [
            0x45, 0, 0, 0x54, 8, 0xf2, 0, 0, 0x40, 1, 0, 0, 0xc0, 0xa8, 0x7b, 3, 0xc0, 0xa8, 0x7b,
            0x64,
        ];
        assert_eq!(checksum(&header), 0xf9fe);
    }

    #[test]
    fn destination_options_stay_behind_unless_a_route_follows() {
        let mut packet = vec![0x60, 0, 0, 0, 0, 32, 60, 64];
        packet.resize(40, 1);
        // Destination options, a routing header, destination options, and UDP.
        packet.extend([43, 0, 1, 4, 0, 0, 0, 0]);
        packet.extend([60, 0, 0, 0, 0, 0, 0, 0]);
        packet.extend([17, 0, 1, 4, 0, 0, 0, 0]);
        packet.extend([9; 8]);
        let head = insertion(&packet).unwrap();
        assert_eq!((head.bytes, head.next_at, head.next), (56, 48, 60));
        assert_eq!(arrival(&packet, 17).unwrap().bytes, 64);
        assert_eq!(arrival(&packet, 50), Err(PacketError::Unprotected));
    }

    #[test]
    fn fragments_and_stumps_are_told() {
        let mut packet = vec![
            0x45, 0, 0, 20, 0, 0, 0x20, 0, 64, 17, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2,
        ];
        assert_eq!(insertion(&packet), Err(PacketError::Fragment));
        packet[6] = 0x40;
        assert!(insertion(&packet).is_ok());
        assert_eq!(insertion(&packet[..19]), Err(PacketError::Truncated));
        assert_eq!(insertion(&[]), Err(PacketError::Truncated));
        assert_eq!(insertion(&[0x75; 40]), Err(PacketError::Version));
    }
}
