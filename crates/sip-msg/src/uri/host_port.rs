//! A host and perhaps a port (RFC 3261 25.1, hostport).

use crate::chars::{HOST, is, part};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A host and perhaps a port; an IPv6 reference keeps its brackets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct HostPort<'a> {
    pub host: &'a [u8],
    pub port: Option<u16>,
}

impl<'a> HostPort<'a> {
    /// Parses `host [":" port]` and nothing else.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (host_port, end) = Self::parse_prefix(bytes)?;
        (end == bytes.len()).then_some(host_port)
    }

    /// The address, where the host is one (`192.0.2.1`, `[2001:db8::1]`).
    pub fn ip(&self) -> Option<IpAddr> {
        host_ip(self.host)
    }

    /// Parses it at the beginning of `bytes`; also returns where it ends. The
    /// port's colon belongs to it: `h:` is refused.
    pub(crate) fn parse_prefix(bytes: &'a [u8]) -> Option<(Self, usize)> {
        let host_end = host_end(bytes, 0)?;
        let host = part(bytes, 0, host_end);
        if bytes.get(host_end) != Some(&b':') {
            return Some((Self { host, port: None }, host_end));
        }
        let end = skip_digits(bytes, host_end + 1);
        let port = port(part(bytes, host_end + 1, end))?;
        Some((
            Self {
                host,
                port: Some(port),
            },
            end,
        ))
    }
}

/// The address that a host is: `192.0.2.1`, `[2001:db8::1]`, and in the
/// `received` parameter an IPv6 address without brackets.
pub(crate) fn host_ip(host: &[u8]) -> Option<IpAddr> {
    match host {
        [b'[', inner @ .., b']'] => ipv6(inner).map(IpAddr::V6),
        _ => match ipv4(host, 0) {
            Some((address, end)) if end == host.len() => Some(IpAddr::V4(address)),
            _ => ipv6(host).map(IpAddr::V6),
        },
    }
}

/// Where the host at `start` ends; `None` where there is no host name, IPv4
/// address or IPv6 reference.
// RFC 3261 19.1.2: "Current implementations MUST NOT attempt to improve robustness by treating received
// escaped characters in the host component as literally equivalent to their unescaped counterpart."
pub(crate) fn host_end(bytes: &[u8], start: usize) -> Option<usize> {
    if bytes.get(start) == Some(&b'[') {
        let length = memchr::memchr(b']', bytes.get(start..)?)?;
        ipv6(part(bytes, start + 1, start + length))?;
        return Some(start + length + 1);
    }
    if let Some((_, end)) = ipv4(bytes, start)
        && !bytes.get(end).is_some_and(|&b| is(b, HOST))
    {
        return Some(end);
    }
    let mut at = start;
    // As if a dot stood before the host: no label is empty, the first included.
    let mut last = b'.';
    let mut label_is_number = true;
    while let Some(&byte) = bytes.get(at) {
        if !is(byte, HOST) {
            break;
        }
        if byte == b'.' {
            if last == b'.' {
                return None;
            }
        } else {
            let was_number = label_is_number || last == b'.';
            label_is_number = was_number && byte.is_ascii_digit();
        }
        last = byte;
        at += 1;
    }
    // RFC 3261 25.1's toplabel begins with a letter, so a last label of digits
    // alone can only be the end of an address.
    (at > start && !label_is_number).then_some(at)
}

/// Past the digits at `at`.
pub(crate) fn skip_digits(bytes: &[u8], mut at: usize) -> usize {
    while bytes.get(at).is_some_and(u8::is_ascii_digit) {
        at += 1;
    }
    at
}

/// Four numbers without leading zeros, which some read as octal; and where they
/// end.
fn ipv4(bytes: &[u8], start: usize) -> Option<(Ipv4Addr, usize)> {
    let digit = |at: usize| {
        let digit = bytes.get(at)?.wrapping_sub(b'0');
        (digit <= 9).then_some(u32::from(digit))
    };
    let (mut at, mut address) = (start, 0);
    for index in 0..4 {
        if index > 0 {
            if bytes.get(at) != Some(&b'.') {
                return None;
            }
            at += 1;
        }
        let mut octet = digit(at)?;
        at += 1;
        while octet > 0
            && octet < 100
            && let Some(next) = digit(at)
        {
            octet = octet * 10 + next;
            at += 1;
        }
        // A digit behind a zero, or behind three.
        if octet > 255 || digit(at).is_some() {
            return None;
        }
        address = address << 8 | octet;
    }
    Some((Ipv4Addr::from_bits(address), at))
}

fn ipv6(text: &[u8]) -> Option<Ipv6Addr> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// A port: 1 to 65535. Nothing listens on port 0.
pub(crate) fn port(digits: &[u8]) -> Option<u16> {
    let number = crate::chars::number(digits)?;
    u16::try_from(number).ok().filter(|&port| port != 0)
}
