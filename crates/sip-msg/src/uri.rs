//! SIP, SIPS and tel URIs (RFC 3261 19.1, RFC 3966).

mod aor;
mod compare;
pub(crate) mod host_port;
pub(crate) mod parts;
#[cfg(test)]
mod tests;

pub use host_port::HostPort;
pub use parts::{Part, Parts};

use crate::Transport;
use crate::chars::{
    PASSWORD, SCHEME, URI_OTHER, USER, USER_PLAIN, all, all_or_escaped, part, rest, skip,
};

/// A URI's scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Scheme {
    Sip,
    Sips,
    Tel,
    Other,
}

/// A parsed URI: slices of the bytes that it came from.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Uri<'a> {
    pub scheme: Scheme,
    /// Escapes are still in it; for `tel:` the number.
    pub user: Option<&'a [u8]>,
    pub password: Option<&'a [u8]>,
    /// Empty for `tel:` and for schemes that this project does not know.
    pub host_port: HostPort<'a>,
    /// From the first `;` on, or empty.
    pub params: &'a [u8],
    /// After the `?`, or empty.
    pub headers: &'a [u8],
    /// The whole of it.
    pub raw: &'a [u8],
}

impl<'a> Uri<'a> {
    /// The most parameters, and the most headers, that a URI may have. Comparing
    /// two URIs takes their product in time.
    pub const PARTS_MAX: usize = 64;

    /// Parses a URI.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        // RFC 3261 8.1.1.2: "All SIP implementations MUST support the SIP URI scheme." and "Any
        // implementation that supports TLS MUST support the SIPS URI scheme."
        if let Some(tail) = bytes.strip_prefix(b"sip:") {
            return Self::parse_sip(Scheme::Sip, bytes, tail);
        }
        let colon = memchr::memchr(b':', bytes)?;
        let scheme = part(bytes, 0, colon);
        let tail = rest(bytes, colon + 1);
        if !scheme.first()?.is_ascii_alphabetic() || !all(scheme, SCHEME) {
            return None;
        }
        if scheme.eq_ignore_ascii_case(b"sip") {
            Self::parse_sip(Scheme::Sip, bytes, tail)
        // RFC 3261 26.3.1: "All SIP elements that support TLS MUST also support the SIPS URI scheme."
        } else if scheme.eq_ignore_ascii_case(b"sips") {
            Self::parse_sip(Scheme::Sips, bytes, tail)
        } else if scheme.eq_ignore_ascii_case(b"tel") {
            Self::parse_tel(bytes, tail)
        } else {
            let opaque = !tail.is_empty() && all_or_escaped(tail, URI_OTHER);
            opaque.then(|| Self::opaque(Scheme::Other, bytes))
        }
    }

    /// A URI parameter's value; `Some(b"")` for one without a value.
    pub fn param(&self, name: &str) -> Option<&'a [u8]> {
        let found = self.params().find(|param| param.is_named(name))?;
        Some(found.value)
    }

    /// The parameters in order.
    pub fn params(&self) -> Parts<'a> {
        Parts::params(self.params)
    }

    /// Whether a parameter of that name is there.
    // RFC 3261 19.1.1: "Since the uri-parameter mechanism is extensible, SIP elements MUST silently
    // ignore any uri-parameters that they do not understand." Nobody asks for those.
    pub fn has_param(&self, name: &str) -> bool {
        self.param(name).is_some()
    }

    /// The `transport` parameter: `Some(None)` for one that this project does
    /// not know.
    pub fn transport(&self) -> Option<Option<Transport>> {
        self.param("transport").map(Transport::from_token)
    }

    /// Whether the scheme is `sip` or `sips`.
    pub fn is_sip(&self) -> bool {
        matches!(self.scheme, Scheme::Sip | Scheme::Sips)
    }

    /// Writes it without what may not stand in a Request-URI (RFC 3261 19.1.1,
    /// table 1): the `method` parameter and headers.
    // RFC 3261 19.1.5: "An implementation MUST include any provided transport, maddr, ttl, or user
    // parameter in the Request-URI of the formed request." and "The method parameter MUST NOT be placed
    // in the Request-URI." and "Unknown URI parameters MUST be placed in the message's Request-URI."
    pub fn write_request_uri(&self, text: &mut Vec<u8>) {
        let headers = match self.headers.len() {
            0 => 0,
            bytes => bytes + 1,
        };
        let end = self.raw.len().saturating_sub(headers);
        let base = end.saturating_sub(self.params.len());
        text.extend_from_slice(part(self.raw, 0, base));
        for param in self.params().filter(|param| !param.is_named("method")) {
            text.push(b';');
            param.write(text);
        }
    }

    fn opaque(scheme: Scheme, raw: &'a [u8]) -> Self {
        Self {
            scheme,
            user: None,
            password: None,
            host_port: HostPort {
                host: &[],
                port: None,
            },
            params: &[],
            headers: &[],
            raw,
        }
    }

    fn parse_sip(scheme: Scheme, raw: &'a [u8], tail: &'a [u8]) -> Option<Self> {
        let mut uri = Self::opaque(scheme, raw);
        let user_end = skip(tail, 0, USER_PLAIN);
        let address = match tail.get(user_end) {
            // As almost everybody's: a name without escapes and without a password.
            Some(b'@') if user_end > 0 => {
                uri.user = Some(part(tail, 0, user_end));
                rest(tail, user_end + 1)
            }
            _ => uri.take_userinfo(tail)?,
        };
        let (host_port, end) = HostPort::parse_prefix(address)?;
        uri.host_port = host_port;
        let mut tail = rest(address, end);
        if tail.is_empty() {
            return Some(uri);
        }
        if Parts::are_plain_params(tail) {
            uri.params = tail;
            return Some(uri);
        }
        if let Some(question) = memchr::memchr(b'?', tail) {
            uri.headers = rest(tail, question + 1);
            if uri.headers.is_empty() || !Parts::headers(uri.headers).are_well_formed() {
                return None;
            }
            tail = part(tail, 0, question);
        }
        uri.params = tail;
        Parts::params(tail).are_well_formed().then_some(uri)
    }

    /// Takes the user and the password, where there are any; what stands behind them.
    fn take_userinfo(&mut self, tail: &'a [u8]) -> Option<&'a [u8]> {
        // No part of the grammar but the end of userinfo holds a bare '@'.
        let Some(at) = memchr::memchr(b'@', tail) else {
            return Some(tail);
        };
        let userinfo = part(tail, 0, at);
        let user = match memchr::memchr(b':', userinfo) {
            None => userinfo,
            Some(colon) => {
                let password = rest(userinfo, colon + 1);
                if !all_or_escaped(password, PASSWORD) {
                    return None;
                }
                self.password = Some(password);
                part(userinfo, 0, colon)
            }
        };
        // RFC 3261 19.1.1: "If the @ sign is present in a SIP or SIPS URI, the user field MUST NOT be
        // empty."
        if user.is_empty() || !all_or_escaped(user, USER) {
            return None;
        }
        self.user = Some(user);
        Some(rest(tail, at + 1))
    }

    /// RFC 3966: the number, then parameters.
    fn parse_tel(raw: &'a [u8], tail: &'a [u8]) -> Option<Self> {
        let mut uri = Self::opaque(Scheme::Tel, raw);
        let end = memchr::memchr(b';', tail).unwrap_or(tail.len());
        let number = part(tail, 0, end);
        let digits = number.strip_prefix(b"+").unwrap_or(number);
        let is_phone = |b: &u8| b.is_ascii_hexdigit() || b"*#-.()".contains(b);
        let has_digit = digits
            .iter()
            .any(|b| b.is_ascii_hexdigit() || b"*#".contains(b));
        if !has_digit || !digits.iter().all(is_phone) {
            return None;
        }
        uri.user = Some(number);
        uri.params = rest(tail, end);
        Parts::params(uri.params).are_well_formed().then_some(uri)
    }
}
