//! The bytes of a token before its MAC.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use invariant::broken;
use sip_msg::{ConnId, Flow, ListenerId, Transport};

use super::MAC_LEN;
use super::mark::Marks;

/// Two bytes of flags, key, time, target, listener, two IPv6 addresses with
/// ports, connection, epoch, instance, marks, media engine and the call's number there.
const PAYLOAD_MAX: usize = 2 + 1 + 3 + 8 + 2 + 18 + 18 + 8 + 4 + 4 + Marks::LEN_MAX + 4 + 4;
pub(super) const TOKEN_MAX: usize = PAYLOAD_MAX + MAC_LEN;
pub(super) const TEXT_MAX: usize = TOKEN_MAX.div_ceil(3) * 4;

const TRANSPORT_BITS: u8 = 0b111;
const REMOTE_IS_V6: u8 = 1 << 3;
const LOCAL_IS_V6: u8 = 1 << 4;
const HAS_CONN: u8 = 1 << 5;
const HAS_FLOW: u8 = 1 << 6;
/// A dialog's token; else a flow token.
const IS_GRANT: u8 = 1 << 7;

const KNOWS_HOLDER: u8 = 1;
const IS_OFFER: u8 = 1 << 1;
const HAS_INSTANCE: u8 = 1 << 2;
const HAS_MARK: u8 = 1 << 3;
const HAS_MEDIA: u8 = 1 << 4;
const IS_TO_END: u8 = 1 << 5;
const WENT_TO_GATEWAY: u8 = 1 << 6;
const LEADS_TO_GATEWAY: u8 = 1 << 7;

/// What a token says. What of it is true, its MAC tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Payload {
    pub(super) key_id: u8,
    pub(super) flow: Option<Flow>,
    /// The process that named the flow's connection; 0 without one.
    pub(super) epoch: u32,
    /// `None` for a flow token.
    pub(super) grant: Option<GrantPart>,
}

/// What the token of a dialog says beside its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GrantPart {
    /// In units of [`super::UNIT_S`], 24 bits.
    pub(super) issued: u32,
    pub(super) target: u64,
    pub(super) knows_holder: bool,
    pub(super) is_offer: bool,
    pub(super) is_to_end: bool,
    pub(super) went_to_gateway: bool,
    pub(super) leads_to_gateway: bool,
    pub(super) instance: Option<u32>,
    pub(super) marks: Option<Marks>,
    /// What the engine is called that leads the dialog's media, and by which number it knows the
    /// call.
    pub(super) media: Option<(u32, Option<u32>)>,
}

/// A token's bytes, on the stack.
pub(super) struct Bytes {
    bytes: [u8; TOKEN_MAX],
    len: usize,
}

impl Bytes {
    pub(super) fn get(&self) -> &[u8] {
        let token = self.bytes.get(..self.len);
        token.unwrap_or_else(|| broken!("a token is no longer than TOKEN_MAX", b""))
    }

    pub(super) fn put(&mut self, bytes: &[u8]) {
        let Some(place) = self.bytes.get_mut(self.len..self.len + bytes.len()) else {
            return broken!("a token is no longer than TOKEN_MAX");
        };
        place.copy_from_slice(bytes);
        self.len += bytes.len();
    }

    fn put_addr(&mut self, addr: &SocketAddr) {
        self.put(&addr.port().to_be_bytes());
        match addr.ip() {
            IpAddr::V4(ip) => self.put(&ip.octets()),
            IpAddr::V6(ip) => self.put(&ip.octets()),
        }
    }
}

/// Whether the first bytes of a user part are those of an offer: a glance, since most
/// that are asked are none.
pub(crate) fn begins_offer(user: &[u8]) -> bool {
    let mut flags = [0; 3];
    let head = user.get(..4).unwrap_or_default();
    URL_SAFE_NO_PAD.decode_slice(head, &mut flags) == Ok(3)
        && flags[0] & IS_GRANT != 0
        && flags[1] & IS_OFFER != 0
}

impl Payload {
    pub(super) fn write(&self) -> Bytes {
        let mut out = Bytes {
            bytes: [0; TOKEN_MAX],
            len: 0,
        };
        out.put(&self.flags());
        out.put(&[self.key_id]);
        if let Some(grant) = &self.grant {
            let [_, issued @ ..] = grant.issued.to_be_bytes();
            out.put(&issued);
            out.put(&grant.target.to_be_bytes());
        }
        if let Some(flow) = &self.flow {
            out.put(&flow.listener.0.to_be_bytes());
            out.put_addr(&flow.remote);
            out.put_addr(&flow.local);
            if flow.conn.is_some() {
                out.put(&flow.conn.0.to_be_bytes());
                out.put(&self.epoch.to_be_bytes());
            }
        }
        let Some(grant) = &self.grant else {
            return out;
        };
        if let Some(instance) = grant.instance {
            out.put(&instance.to_be_bytes());
        }
        if let Some(marks) = grant.marks {
            marks.write(|mark| out.put(mark));
        }
        // The last of all: by its length it shows whether there is a number.
        if let Some((engine, number)) = grant.media {
            out.put(&engine.to_be_bytes());
            if let Some(number) = number {
                out.put(&number.to_be_bytes());
            }
        }
        out
    }

    fn flags(&self) -> [u8; 2] {
        let flag = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        let mut flags = flag(self.grant.is_some(), IS_GRANT);
        if let Some(flow) = &self.flow {
            flags |= HAS_FLOW
                | transport_code(flow.transport)
                | flag(flow.remote.is_ipv6(), REMOTE_IS_V6)
                | flag(flow.local.is_ipv6(), LOCAL_IS_V6)
                | flag(flow.conn.is_some(), HAS_CONN);
        }
        let more = self.grant.map_or(0, |grant| {
            flag(grant.knows_holder, KNOWS_HOLDER)
                | flag(grant.is_offer, IS_OFFER)
                | flag(grant.instance.is_some(), HAS_INSTANCE)
                | flag(grant.marks.is_some(), HAS_MARK)
                | flag(grant.media.is_some(), HAS_MEDIA)
                | flag(grant.is_to_end, IS_TO_END)
                | flag(grant.went_to_gateway, WENT_TO_GATEWAY)
                | flag(grant.leads_to_gateway, LEADS_TO_GATEWAY)
        });
        [flags, more]
    }

    /// Reads what [`Payload::write`] wrote: nothing else has a reading.
    pub(super) fn read(mut rest: &[u8]) -> Option<Self> {
        let rest = &mut rest;
        let [flags, more] = take::<2>(rest)?;
        let [key_id] = take::<1>(rest)?;
        let mut grant = None;
        if flags & IS_GRANT != 0 {
            let [a, b, c] = take::<3>(rest)?;
            grant = Some(GrantPart {
                issued: u32::from_be_bytes([0, a, b, c]),
                target: u64::from_be_bytes(take(rest)?),
                knows_holder: more & KNOWS_HOLDER != 0,
                is_offer: more & IS_OFFER != 0,
                is_to_end: more & IS_TO_END != 0,
                went_to_gateway: more & WENT_TO_GATEWAY != 0,
                leads_to_gateway: more & LEADS_TO_GATEWAY != 0,
                instance: None,
                marks: None,
                media: None,
            });
        }
        // All flags of a dialog's token have a meaning.
        if grant.is_none() && more != 0 {
            return None;
        }
        let (mut flow, mut epoch) = (None, 0);
        if flags & HAS_FLOW != 0 {
            (flow, epoch) = take_flow(rest, flags).map(|(flow, epoch)| (Some(flow), epoch))?;
        } else if flags & !IS_GRANT != 0 {
            return None;
        }
        if more & HAS_INSTANCE != 0 {
            let instance = u32::from_be_bytes(take(rest)?);
            grant = grant.map(|grant| GrantPart {
                instance: Some(instance),
                ..grant
            });
        }
        if more & HAS_MARK != 0 {
            let marks = Marks::read(rest)?;
            grant = grant.map(|grant| GrantPart {
                marks: Some(marks),
                ..grant
            });
        }
        if more & HAS_MEDIA != 0 {
            let engine = u32::from_be_bytes(take(rest)?);
            let number = match rest.is_empty() {
                true => None,
                false => Some(u32::from_be_bytes(take(rest)?)),
            };
            grant = grant.map(|grant| GrantPart {
                media: Some((engine, number)),
                ..grant
            });
        }
        rest.is_empty().then_some(Self {
            key_id,
            flow,
            epoch,
            grant,
        })
    }
}

fn take_flow(rest: &mut &[u8], flags: u8) -> Option<(Flow, u32)> {
    let transport = transport_of(flags & TRANSPORT_BITS)?;
    let listener = ListenerId(u16::from_be_bytes(take(rest)?));
    let remote = take_addr(rest, flags & REMOTE_IS_V6 != 0)?;
    let local = take_addr(rest, flags & LOCAL_IS_V6 != 0)?;
    let (mut conn, mut epoch) = (ConnId::NONE, 0);
    if flags & HAS_CONN != 0 {
        conn = ConnId(u64::from_be_bytes(take(rest)?));
        epoch = u32::from_be_bytes(take(rest)?);
    }
    let flow = Flow {
        transport,
        listener,
        local,
        remote,
        conn,
    };
    Some((flow, epoch))
}

pub(super) fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
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
    match code {
        0 => Some(Transport::Udp),
        1 => Some(Transport::Tcp),
        2 => Some(Transport::Tls),
        3 => Some(Transport::Ws),
        4 => Some(Transport::Wss),
        _ => None,
    }
}
