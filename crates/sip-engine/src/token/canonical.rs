//! What is signed and hashed: URIs in a form that does not depend on how they
//! are spelled, each part with its length before it, so that no two inputs
//! read alike.

use std::hash::Hasher;

use sip_msg::Uri;
use sip_msg::uri::Scheme;

/// Parameters by which gateways choose a carrier or a trunk (RFC 4694, RFC 4904, RFC 3966, and what
/// some call it besides).
const ROUTES_OF_NUMBERS: [&str; 12] = [
    "cic",
    "cic-context",
    "dtg",
    "ext",
    "isub",
    "npdi",
    "otg",
    "phone-context",
    "rn",
    "rn-context",
    "tgrp",
    "trunk-context",
];

/// Gathers small parts, because a hash prefers them together.
pub(super) struct Feed<'s, S: Hasher> {
    hasher: &'s mut S,
    gathered: [u8; 256],
    len: usize,
}

impl<'s, S: Hasher> Feed<'s, S> {
    pub(super) fn new(hasher: &'s mut S) -> Self {
        Self {
            hasher,
            gathered: [0; 256],
            len: 0,
        }
    }

    /// Gives what was gathered to the hasher.
    pub(super) fn finish(mut self) {
        self.flush();
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        if let Some(place) = self.gathered.get_mut(self.len..self.len + bytes.len()) {
            place.copy_from_slice(bytes);
            self.len += bytes.len();
            return;
        }
        self.flush();
        self.hasher.write(bytes);
    }

    /// Bytes with their number before them.
    pub(super) fn part(&mut self, part: &[u8]) {
        self.number(part.len());
        self.bytes(part);
    }

    /// A part that may be absent, which is not the same as empty.
    pub(super) fn optional(&mut self, part: Option<&[u8]>) {
        match part {
            Some(part) => self.part(part),
            None => self.bytes(&u32::MAX.to_be_bytes()),
        }
    }

    /// Whom a URI names: `sips` is the same user, parameters tell nothing.
    pub(super) fn party(&mut self, uri: &Uri<'_>) {
        match uri.scheme {
            Scheme::Sip | Scheme::Sips => {
                self.bytes(b"s");
                self.user(uri);
                self.host_and_port(uri);
            }
            Scheme::Tel => {
                self.bytes(b"t");
                self.optional(uri.user);
            }
            Scheme::Other => {
                self.bytes(b"o");
                self.part(uri.raw);
            }
        }
    }

    /// Where a URI leads, and to whom there.
    pub(super) fn target(&mut self, uri: &Uri<'_>) {
        self.bytes(match uri.scheme {
            Scheme::Sip => b"s",
            Scheme::Sips => b"S",
            Scheme::Tel => b"t",
            Scheme::Other => b"o",
        });
        if uri.is_sip() {
            self.user(uri);
            self.hop(uri);
            self.route_of_number(uri);
        } else {
            self.part(uri.raw);
        }
    }

    /// What says by which carrier or trunk a gateway is to reach a number. It is the last part,
    /// and there only where the URI has any of it. Other parameters tell nothing: some phones lose
    /// those that they do not know.
    fn route_of_number(&mut self, uri: &Uri<'_>) {
        if let Some(password) = uri.password {
            self.bytes(b"p");
            self.part(password);
        }
        if uri.params.is_empty() {
            return;
        }
        // In whatever order they are (RFC 3261 19.1.4).
        for name in ROUTES_OF_NUMBERS {
            for param in uri.params().filter(|param| param.is_named(name)) {
                self.part(name.as_bytes());
                self.lower(param.value);
            }
        }
    }

    /// Where a route leads.
    pub(super) fn hop(&mut self, uri: &Uri<'_>) {
        self.host_and_port(uri);
        for name in ["transport", "maddr"] {
            let value = match uri.params.is_empty() {
                true => None,
                false => uri.param(name),
            };
            match value {
                Some(value) => self.lower(value),
                None => self.optional(None),
            }
        }
    }

    /// Host and port.
    fn host_and_port(&mut self, uri: &Uri<'_>) {
        let host = uri.host_port.host;
        self.lower(host.strip_suffix(b".").unwrap_or(host));
        self.bytes(&uri.host_port.port.unwrap_or(0).to_be_bytes());
    }

    fn user(&mut self, uri: &Uri<'_>) {
        match uri.user {
            Some(user) if user.contains(&b'%') => {
                self.number(uri.user_bytes().count());
                for byte in uri.user_bytes() {
                    self.bytes(&[byte]);
                }
            }
            user => self.optional(user),
        }
    }

    fn lower(&mut self, text: &[u8]) {
        self.number(text.len());
        for chunk in text.chunks(64) {
            let mut lowered = [0; 64];
            let lowered = &mut lowered[..chunk.len()];
            lowered.copy_from_slice(chunk);
            lowered.make_ascii_lowercase();
            self.bytes(lowered);
        }
    }

    fn number(&mut self, number: usize) {
        // A message is far shorter than 4 GiB.
        self.bytes(&(number as u32).to_be_bytes());
    }

    fn flush(&mut self) {
        self.hasher
            .write(self.gathered.get(..self.len).unwrap_or_default());
        self.len = 0;
    }
}
