//! Tokens in the user part of this server's Record-Route and Path URIs.
//!
//! A request within a dialog comes back with the Record-Route that it was
//! given. The token in it proves that this server let the dialog in (so that
//! its ACK and BYE need no challenge), and may carry the flow to the phone on
//! that side (RFC 5626), so that the request finds it behind its NAT.
//!
//! # Why it cannot be forged
//! A token is its payload and the first 96 bits of HMAC-SHA256 over its kind,
//! its payload and, for a route token, the dialog's Call-ID. The payload's
//! first byte fixes its length, so no two inputs of the MAC read alike. The key
//! is a secret of the process and new in each: a token of an earlier process
//! is refused, and so a connection's name in it is never taken for another's.
//! The MAC is compared in constant time, before the payload is looked at. A
//! token is no secret: who holds it is, or saw the messages of, a party of
//! that dialog, and it is good for that Call-ID only.
//!
//! [`RouteToken`] and [`FlowToken`] have no other makers than the readers here,
//! so to hold one is the proof. Neither reading nor writing allocates.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use sip_msg::{ConnId, Flow, ListenerId, Transport};

/// Bytes of the MAC that a token carries.
const MAC_LEN: usize = 12;
/// Flags, listener, two IPv6 addresses with ports, connection.
const PAYLOAD_MAX: usize = 1 + 2 + 18 + 18 + 8;
const TOKEN_MAX: usize = PAYLOAD_MAX + MAC_LEN;
const TEXT_MAX: usize = TOKEN_MAX.div_ceil(3) * 4;

const TRANSPORT_BITS: u8 = 0b111;
const REMOTE_IS_V6: u8 = 1 << 3;
const LOCAL_IS_V6: u8 = 1 << 4;
const HAS_CONN: u8 = 1 << 5;
const HAS_FLOW: u8 = 1 << 6;
const IS_STRANGER: u8 = 1 << 7;

/// Signs and checks tokens; one per shard, all with the same secret.
pub struct Tokens {
    /// The key, already mixed in.
    mac: Hmac<Sha256>,
}

/// Who let the dialog in for which a token was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A user, a trusted peer, or anybody under `--no-auth`.
    Trusted,
    /// A stranger who called one of our users: the dialog's requests must not
    /// reach the gateways.
    Stranger,
}

/// A token of this server for the dialog of one Call-ID: only
/// [`Tokens::read_route`] makes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteToken {
    flow: Option<Flow>,
    origin: Origin,
}

impl RouteToken {
    /// The flow to the phone on that side, where the token carries one.
    pub fn flow(&self) -> Option<&Flow> {
        self.flow.as_ref()
    }

    /// Who let the dialog in.
    pub fn origin(&self) -> Origin {
        self.origin
    }
}

/// A flow token (RFC 5626 5.1) of this server: only [`Tokens::read_flow`] makes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowToken {
    flow: Flow,
}

impl FlowToken {
    /// The flow that the token names.
    pub fn flow(&self) -> &Flow {
        &self.flow
    }
}

impl Tokens {
    /// Tokens signed with `key`.
    pub fn new(key: &[u8; 32]) -> Self {
        // HMAC pads a key shorter than its block of 64 bytes with zeros.
        let mut block = [0; 64];
        if let Some(place) = block.first_chunk_mut() {
            *place = *key;
        }
        Self {
            mac: Hmac::new(&block.into()),
        }
    }

    /// Appends a token for a Record-Route's user part: bound to the dialog's
    /// Call-ID, with the flow to the phone on that side, where there is one.
    pub fn write_route(
        &self,
        call_id: &[u8],
        origin: Origin,
        flow: Option<&Flow>,
        out: &mut Vec<u8>,
    ) {
        self.write(&Kind::Route { call_id }, origin, flow, out);
    }

    /// Reads a Route's user part; `None` unless this server made it for this Call-ID.
    pub fn read_route(&self, call_id: &[u8], user: &[u8]) -> Option<RouteToken> {
        self.read(&Kind::Route { call_id }, user)
    }

    /// Appends a flow token for a Path's user part.
    pub fn write_flow(&self, flow: &Flow, out: &mut Vec<u8>) {
        // RFC 5626 5.1 wants a flow token that nobody else can make: see above.
        self.write(&Kind::Flow, Origin::Trusted, Some(flow), out);
    }

    /// Reads a flow token.
    pub fn read_flow(&self, user: &[u8]) -> Option<FlowToken> {
        let token = self.read(&Kind::Flow, user)?;
        token.flow.map(|flow| FlowToken { flow })
    }

    fn write(&self, kind: &Kind<'_>, origin: Origin, flow: Option<&Flow>, out: &mut Vec<u8>) {
        let mut token = Payload::default();
        token.put_payload(origin, flow);
        let mac = self.sign(kind, token.bytes()).finalize().into_bytes();
        token.put(mac.get(..MAC_LEN).unwrap_or_default());
        let mut text = [0; TEXT_MAX];
        // Cannot fail: TEXT_MAX holds the longest token.
        if let Ok(len) = URL_SAFE_NO_PAD.encode_slice(token.bytes(), &mut text) {
            out.extend_from_slice(text.get(..len).unwrap_or_default());
        }
    }

    fn read(&self, kind: &Kind<'_>, user: &[u8]) -> Option<RouteToken> {
        if user.len() > TEXT_MAX {
            return None;
        }
        // The decoder's buffer must hold what it may need in the worst case.
        let mut token = [0; TEXT_MAX];
        let len = URL_SAFE_NO_PAD.decode_slice(user, &mut token).ok()?;
        let (payload, mac) = token.get(..len)?.split_last_chunk::<MAC_LEN>()?;
        self.sign(kind, payload).verify_truncated_left(mac).ok()?;
        read_payload(payload)
    }

    fn sign(&self, kind: &Kind<'_>, payload: &[u8]) -> Hmac<Sha256> {
        let mut mac = self.mac.clone();
        match kind {
            Kind::Route { call_id } => {
                mac.update(b"route");
                mac.update(payload);
                mac.update(call_id);
            }
            Kind::Flow => {
                mac.update(b"flow ");
                mac.update(payload);
            }
        }
        mac
    }
}

/// What a token is for: one kind is never taken for the other.
enum Kind<'a> {
    Route { call_id: &'a [u8] },
    Flow,
}

/// A token's bytes, on the stack.
struct Payload {
    bytes: [u8; TOKEN_MAX],
    len: usize,
}

impl Default for Payload {
    fn default() -> Self {
        Self {
            bytes: [0; TOKEN_MAX],
            len: 0,
        }
    }
}

impl Payload {
    fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    fn put(&mut self, bytes: &[u8]) {
        if let Some(place) = self.bytes.get_mut(self.len..self.len + bytes.len()) {
            place.copy_from_slice(bytes);
            self.len += bytes.len();
        }
    }

    fn put_payload(&mut self, origin: Origin, flow: Option<&Flow>) {
        let stranger = if origin == Origin::Stranger {
            IS_STRANGER
        } else {
            0
        };
        let Some(flow) = flow else {
            self.put(&[stranger]);
            return;
        };
        let flag = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        self.put(&[stranger
            | HAS_FLOW
            | transport_code(flow.transport)
            | flag(flow.remote.is_ipv6(), REMOTE_IS_V6)
            | flag(flow.local.is_ipv6(), LOCAL_IS_V6)
            | flag(flow.conn.is_some(), HAS_CONN)]);
        self.put(&flow.listener.0.to_be_bytes());
        self.put_addr(&flow.remote);
        self.put_addr(&flow.local);
        if flow.conn.is_some() {
            self.put(&flow.conn.0.to_be_bytes());
        }
    }

    fn put_addr(&mut self, addr: &SocketAddr) {
        self.put(&addr.port().to_be_bytes());
        match addr.ip() {
            IpAddr::V4(ip) => self.put(&ip.octets()),
            IpAddr::V6(ip) => self.put(&ip.octets()),
        }
    }
}

fn read_payload(payload: &[u8]) -> Option<RouteToken> {
    let (&[flags], mut rest) = payload.split_first_chunk()?;
    let origin = if flags & IS_STRANGER == 0 {
        Origin::Trusted
    } else {
        Origin::Stranger
    };
    if flags & HAS_FLOW == 0 {
        return rest.is_empty().then_some(RouteToken { flow: None, origin });
    }
    let transport = transport_of(flags & TRANSPORT_BITS)?;
    let listener = ListenerId(u16::from_be_bytes(take(&mut rest)?));
    let remote = take_addr(&mut rest, flags & REMOTE_IS_V6 != 0)?;
    let local = take_addr(&mut rest, flags & LOCAL_IS_V6 != 0)?;
    let conn = if flags & HAS_CONN == 0 {
        ConnId::NONE
    } else {
        ConnId(u64::from_be_bytes(take(&mut rest)?))
    };
    let flow = Flow {
        transport,
        listener,
        local,
        remote,
        conn,
    };
    rest.is_empty().then_some(RouteToken {
        flow: Some(flow),
        origin,
    })
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, left) = rest.split_first_chunk()?;
    *rest = left;
    Some(*taken)
}

fn take_addr(rest: &mut &[u8], is_v6: bool) -> Option<SocketAddr> {
    let port = u16::from_be_bytes(take(rest)?);
    let ip = if is_v6 {
        IpAddr::V6(Ipv6Addr::from(take::<16>(rest)?))
    } else {
        IpAddr::V4(Ipv4Addr::from(take::<4>(rest)?))
    };
    Some(SocketAddr::new(ip, port))
}

const fn transport_code(transport: Transport) -> u8 {
    match transport {
        Transport::Udp => 0,
        Transport::Tcp => 1,
        Transport::Tls => 2,
        Transport::Ws => 3,
        Transport::Wss => 4,
    }
}

const fn transport_of(code: u8) -> Option<Transport> {
    Some(match code {
        0 => Transport::Udp,
        1 => Transport::Tcp,
        2 => Transport::Tls,
        3 => Transport::Ws,
        4 => Transport::Wss,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALL_ID: &[u8] = b"a84b4c76e66710@pc33";

    fn tokens() -> Tokens {
        Tokens::new(&[7; 32])
    }

    fn flow(transport: Transport, remote: &str, local: &str, conn: u64) -> Flow {
        Flow {
            transport,
            listener: ListenerId(3),
            local: local.parse().unwrap(),
            remote: remote.parse().unwrap(),
            conn: ConnId(conn),
        }
    }

    fn flows() -> Vec<Flow> {
        let mut flows = Vec::new();
        for transport in [
            Transport::Udp,
            Transport::Tcp,
            Transport::Tls,
            Transport::Ws,
            Transport::Wss,
        ] {
            flows.push(flow(transport, "192.0.2.7:40000", "192.0.2.1:5060", 0));
            flows.push(flow(
                transport,
                "[2001:db8::7]:1",
                "[2001:db8::1]:65535",
                u64::MAX,
            ));
            flows.push(flow(
                transport,
                "192.0.2.7:40000",
                "[::ffff:192.0.2.1]:5060",
                1 << 56,
            ));
        }
        flows
    }

    fn route(call_id: &[u8], origin: Origin, flow: Option<&Flow>) -> Vec<u8> {
        let mut text = Vec::new();
        tokens().write_route(call_id, origin, flow, &mut text);
        text
    }

    #[test]
    fn what_was_written_is_read() {
        for origin in [Origin::Trusted, Origin::Stranger] {
            let text = route(CALL_ID, origin, None);
            assert_eq!(text.len(), 18);
            assert_eq!(
                tokens().read_route(CALL_ID, &text),
                Some(RouteToken { flow: None, origin })
            );
            for flow in flows() {
                let text = route(CALL_ID, origin, Some(&flow));
                let read = tokens().read_route(CALL_ID, &text).unwrap();
                assert_eq!((read.flow(), read.origin()), (Some(&flow), origin));
            }
        }
        for flow in flows() {
            let mut text = Vec::new();
            tokens().write_flow(&flow, &mut text);
            assert_eq!(tokens().read_flow(&text).unwrap().flow(), &flow);
        }
    }

    #[test]
    fn a_token_is_legal_in_a_user_part() {
        for flow in flows() {
            let text = route(CALL_ID, Origin::Stranger, Some(&flow));
            assert!(text.len() <= TEXT_MAX);
            // RFC 3261 25.1: a user is made of unreserved characters, among which are letters, digits, "-"
            // and "_".
            assert!(
                text.iter()
                    .all(|b| b.is_ascii_alphanumeric() || b"-_".contains(b))
            );
            let uri = [b"sip:", &text[..], b"@192.0.2.1;lr"].concat();
            assert_eq!(sip_msg::Uri::parse(&uri).unwrap().user, Some(&text[..]));
        }
    }

    #[test]
    fn every_flipped_bit_is_refused() {
        for flow in [
            None,
            Some(flow(Transport::Tls, "192.0.2.7:40000", "192.0.2.1:5061", 9)),
        ] {
            let text = route(CALL_ID, Origin::Stranger, flow.as_ref());
            for at in 0..text.len() {
                for bit in 0..8 {
                    let mut forged = text.clone();
                    forged[at] ^= 1 << bit;
                    assert_eq!(
                        tokens().read_route(CALL_ID, &forged),
                        None,
                        "byte {at} bit {bit}"
                    );
                }
            }
            let raw = URL_SAFE_NO_PAD.decode(&text).unwrap();
            for at in 0..raw.len() * 8 {
                let mut forged = raw.clone();
                forged[at / 8] ^= 1 << (at % 8);
                let forged = URL_SAFE_NO_PAD.encode(forged);
                assert_eq!(
                    tokens().read_route(CALL_ID, forged.as_bytes()),
                    None,
                    "bit {at}"
                );
            }
        }
    }

    #[test]
    fn cut_lengthened_and_strange_ones_are_refused() {
        let flow = flow(Transport::Tcp, "192.0.2.7:40000", "192.0.2.1:5060", 9);
        let text = route(CALL_ID, Origin::Trusted, Some(&flow));
        for len in 0..text.len() {
            assert_eq!(tokens().read_route(CALL_ID, &text[..len]), None, "{len}");
            assert_eq!(
                tokens().read_route(CALL_ID, &text[len + 1..]),
                None,
                "{len}"
            );
        }
        for tail in ["A", "AA", "AAAA", "=", "%41", "==", " "] {
            let long = [&text, tail.as_bytes()].concat();
            assert_eq!(tokens().read_route(CALL_ID, &long), None, "{tail}");
        }
        for strange in [
            &b"alice"[..],
            b"",
            &[b'A'; 4096],
            &[0xff; 40],
            &[b'A'; TEXT_MAX],
        ] {
            assert_eq!(tokens().read_route(CALL_ID, strange), None);
        }
    }

    #[test]
    fn another_call_another_key_and_another_kind_are_refused() {
        let flow = flow(Transport::Tcp, "192.0.2.7:40000", "192.0.2.1:5060", 9);
        let text = route(CALL_ID, Origin::Trusted, Some(&flow));
        assert_eq!(tokens().read_route(b"b84b4c76e66710@pc33", &text), None);
        assert_eq!(
            tokens().read_route(&CALL_ID[..CALL_ID.len() - 1], &text),
            None
        );
        assert_eq!(tokens().read_route(b"", &text), None);
        assert_eq!(Tokens::new(&[8; 32]).read_route(CALL_ID, &text), None);
        assert_eq!(tokens().read_flow(&text), None);
        assert_eq!(
            tokens().read_flow(&route(b"", Origin::Trusted, Some(&flow))),
            None
        );
        let mut text = Vec::new();
        tokens().write_flow(&flow, &mut text);
        assert_eq!(tokens().read_route(b"", &text), None);
        // A Call-ID that begins with what another token's payload ends with makes no second reading.
        let shifted = route(b"xx", Origin::Trusted, None);
        assert_eq!(tokens().read_route(b"x", &shifted), None);
    }
}
