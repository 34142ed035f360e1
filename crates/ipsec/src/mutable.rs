//! What AH leaves out of the ICV because it changes on the way (RFC 4302 3.3.3.1, Appendix A).

use crate::ip::{EXTENSIONS_BYTES_MAX, IPV4_BYTES, IPV6_BYTES, PacketError, protocol};

/// The longest header before AH.
pub(crate) const HEAD_BYTES_MAX: usize = IPV6_BYTES + EXTENSIONS_BYTES_MAX;

/// A header as the ICV is computed over it.
pub(crate) struct Zeroed {
    octets: [u8; HEAD_BYTES_MAX],
    bytes: usize,
}

impl Zeroed {
    /// Of a header, up to where AH begins.
    pub(crate) fn of(head: &[u8], is_v6: bool) -> Result<Self, PacketError> {
        let mut zeroed = Self {
            octets: [0; HEAD_BYTES_MAX],
            bytes: head.len(),
        };
        let octets = zeroed.octets.get_mut(..head.len());
        let octets = octets.ok_or(PacketError::Extensions)?;
        octets.copy_from_slice(head);
        if is_v6 {
            zero_v6(octets)?;
        } else {
            zero_v4(octets)?;
        }
        Ok(zeroed)
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        self.octets.get(..self.bytes).unwrap_or(&[])
    }
}

/// RFC 4302 3.3.3.1.1: DSCP and ECN, flags, fragment offset, TTL and checksum; and options
/// that are not listed as immutable.
fn zero_v4(head: &mut [u8]) -> Result<(), PacketError> {
    let (fixed, mut options) = head
        .split_at_mut_checked(IPV4_BYTES)
        .ok_or(PacketError::Truncated)?;
    for at in [1, 6, 7, 8, 10, 11] {
        if let Some(octet) = fixed.get_mut(at) {
            *octet = 0;
        }
    }
    loop {
        let bytes = match &*options {
            [] | [0, ..] => return Ok(()),
            [1, ..] => 1,
            [_, bytes, ..] if *bytes >= 2 => usize::from(*bytes),
            _ => return Err(PacketError::Truncated),
        };
        let (option, rest) = options
            .split_at_mut_checked(bytes)
            .ok_or(PacketError::Truncated)?;
        match option.first() {
            // Loose and strict source route.
            Some(131 | 137) => return Err(PacketError::SourceRoute),
            // RFC 4302 A1: no operation, three sorts of security, router alert, and multicast to
            // some.
            Some(1 | 130 | 133 | 134 | 148 | 149) => {}
            _ => option.fill(0),
        }
        options = rest;
    }
}

/// RFC 4302 3.3.3.1.2: DSCP, ECN, flow label and hop limit; and the data of options that say
/// that they change.
fn zero_v6(head: &mut [u8]) -> Result<(), PacketError> {
    let (fixed, mut rest) = head
        .split_at_mut_checked(IPV6_BYTES)
        .ok_or(PacketError::Truncated)?;
    let [first, class_and_label @ .., _, _, kind, hop_limit] =
        fixed.first_chunk_mut::<8>().ok_or(PacketError::Truncated)?;
    *first = 0x60;
    class_and_label.fill(0);
    *hop_limit = 0;
    let mut kind = *kind;
    while !rest.is_empty() {
        let bytes = match (kind, &*rest) {
            (protocol::FRAGMENT, _) => 8,
            (_, [_, units, ..]) => 8 + usize::from(*units) * 8,
            _ => return Err(PacketError::Truncated),
        };
        let (extension, behind) = rest
            .split_at_mut_checked(bytes)
            .ok_or(PacketError::Truncated)?;
        let next = extension.first().copied().unwrap_or(protocol::NOTHING);
        match kind {
            protocol::HOP_BY_HOP | protocol::DESTINATION => zero_options(extension)?,
            protocol::ROUTING => return Err(PacketError::SourceRoute),
            // One that holds a whole datagram, or it would have been refused.
            protocol::FRAGMENT => {}
            _ => return Err(PacketError::Extensions),
        }
        kind = next;
        rest = behind;
    }
    Ok(())
}

/// RFC 4302 3.3.3.1.2.1: the third-highest bit of an option's type says that its data may
/// change on the way.
fn zero_options(extension: &mut [u8]) -> Result<(), PacketError> {
    let mut options = extension.get_mut(2..).ok_or(PacketError::Truncated)?;
    loop {
        let (kind, bytes) = match &*options {
            [] => return Ok(()),
            [0, ..] => (0, 1),
            [kind, bytes, ..] => (*kind, 2 + usize::from(*bytes)),
            _ => return Err(PacketError::Truncated),
        };
        let (option, rest) = options
            .split_at_mut_checked(bytes)
            .ok_or(PacketError::Truncated)?;
        if kind & 0x20 != 0
            && let Some(data) = option.get_mut(2..)
        {
            data.fill(0);
        }
        options = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zeroed(head: &[u8], is_v6: bool) -> Result<Vec<u8>, PacketError> {
        Zeroed::of(head, is_v6).map(|zeroed| zeroed.as_slice().to_vec())
    }

    #[test]
    fn ipv4_keeps_what_stays() {
        let head = [
            0x46, 0xb8, 1, 2, 3, 4, 0x40, 0, 63, 51, 0xaa, 0xbb, 10, 0, 0, 1, 10, 0, 0, 2, 148, 4,
            7, 7,
        ];
        let wanted = [
            0x46, 0, 1, 2, 3, 4, 0, 0, 0, 51, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 148, 4, 7, 7,
        ];
        assert_eq!(zeroed(&head, false).unwrap(), wanted);
    }

    #[test]
    fn options_that_change_are_zeroed_and_source_routes_refused() {
        let mut head = vec![0x48, 0, 0, 0, 0, 0, 0, 0, 0, 51];
        head.resize(20, 0);
        // No operation, a timestamp, and the end with a rest that is kept.
        head.extend([1, 68, 5, 9, 9, 9, 0, 8]);
        assert_eq!(
            zeroed(&head, false).unwrap()[20..],
            [1, 0, 0, 0, 0, 0, 0, 8]
        );
        head[21] = 131;
        assert_eq!(zeroed(&head, false), Err(PacketError::SourceRoute));
        head[22] = 1;
        assert_eq!(zeroed(&head, false), Err(PacketError::Truncated));
    }

    #[test]
    fn ipv6_keeps_what_stays() {
        let mut head = vec![0x6b, 0x81, 2, 3, 0, 99, 0, 64];
        head.resize(40, 5);
        // Hop by hop: an option that changes, one that does not, and padding.
        head.extend([51, 1, 0x3e, 4, 1, 2, 3, 4, 0x1e, 2, 5, 6, 1, 2, 0, 0]);
        let got = zeroed(&head, true).unwrap();
        assert_eq!(got[..8], [0x60, 0, 0, 0, 0, 99, 0, 0]);
        assert_eq!(
            got[40..],
            [51, 1, 0x3e, 4, 0, 0, 0, 0, 0x1e, 2, 5, 6, 1, 2, 0, 0]
        );
        head[6] = 43;
        assert_eq!(zeroed(&head, true), Err(PacketError::SourceRoute));
    }
}
