//! Tokens in the user part of this server's Record-Route URIs.
//!
//! A request within a dialog comes back with the Record-Route that its sender
//! was given. The token in it is a *grant*: it lets one side of that dialog
//! send to the other without a challenge, and may carry the flow to the phone
//! there (RFC 5626), so that the request finds it behind its NAT.
//!
//! # Who holds which
//! The copy of a request that makes a dialog bears the grant of whom it is
//! for: he may send to whom the request is from, at its Contact. In responses
//! the value that the request left by is rewritten (RFC 3261 16.7 step 8) into
//! the grant of the caller: he may send to whom the response is from, at its
//! Contact. So each side has its own, with its own flow, and neither is good
//! in the hands of the other. That a value may be rewritten it says itself
//! (*offer*); the flow in it is the caller's, not the holder's.
//!
//! # What binds it
//! A token is its payload and the first 96 bits of SipHash-2-4-128 over the payload
//! and over all that the holder's requests will bear anyway: Call-ID, the URIs
//! of both sides, the other side's tag, the holder's own as soon as it is known,
//! and the routes after ours. Parts are canonical ([`canonical`]) and have their
//! length before them, so no two inputs of the MAC read alike. In the payload
//! stand the time of issue, the key's name, and a keyed hash of the target, the
//! Contact that this server saw. It is a hash beside the MAC, and not a part of
//! its input, because a dialog's target may change (`crate::dialogs` remembers
//! to what), and because a response, which has only the answerer's Contact, must
//! be enough to verify the offer in it. 64 bits suffice: who would try targets
//! until one fits has to ask this server each time.
//!
//! The key is one of a ring that outlives the process ([`TokenKeys`]). The name
//! of a connection does not: with it stands the epoch of the process that gave
//! it, and under another epoch that flow is lost.
//!
//! The MAC is compared in constant time, before the payload is believed. A
//! token is no secret: who holds it is, or saw the messages of, a party of that
//! dialog, and can do with it what that party can.
//!
//! Where a media engine leads the dialog's media, the token says which one
//! (`docs/decisions/0226-the-token-says-which-engine.md`), and by which number it knows the call,
//! so that whatever changes or ends the session is asked of the same, and about the same.
//!
//! [`RouteToken`] and [`FlowToken`] have no other makers than the readers here,
//! so to hold one is the proof. Neither reading nor writing allocates.

mod canonical;
mod keys;
mod mark;
mod parties;
mod payload;
#[cfg(test)]
mod tests;

use std::hash::Hasher;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use invariant::broken;
use sha2::Sha256;
use sip_media::EngineId;
use sip_msg::header::NameAddr;
use sip_msg::{Flow, Message, Uri};
use siphasher::sip::SipHasher24;
use siphasher::sip128::{Hasher128, SipHasher24 as SipMac};
use subtle::ConstantTimeEq;

use canonical::Feed;
pub use keys::{TOKEN_KEYS_MAX, TokenKey, TokenKeys};
pub(crate) use mark::{Mark, Marks};
pub(crate) use parties::name_parties;
pub(crate) use payload::begins_offer;
use payload::{GrantPart, Payload, TEXT_MAX};

/// Bytes of the MAC that a token carries.
const MAC_LEN: usize = 12;
/// Seconds in the unit of a token's time of issue. Coarse, so that a request
/// that is repeated gets the same token, but at the turn of a unit.
pub const UNIT_S: u64 = 1_024;

/// Signs and checks tokens; one per shard, all with the same ring of keys.
pub struct Tokens {
    keys: Arc<TokenKeys>,
    version: u64,
    epoch: u32,
    newest: Signer,
    older: Vec<Signer>,
}

/// A key, already mixed in.
struct Signer {
    id: u8,
    mac_key: [u8; 16],
    /// For hashes of targets and instances.
    hash_key: [u8; 16],
}

/// Whose token: who may send with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// Whoever the message's From names.
    Sender,
    /// Whoever its To names.
    Receiver,
}

/// What a grant is to say.
#[derive(Clone, Copy, Default)]
pub(crate) struct Grant<'a> {
    pub(crate) unix_ms: u64,
    /// The routes after ours in the holder's requests, in their order.
    pub(crate) behind: &'a [Uri<'a>],
    /// Where he may send to.
    pub(crate) target: Option<&'a Uri<'a>>,
    /// The flow to the phone there.
    pub(crate) flow: Option<&'a Flow>,
    /// The instance of that phone (RFC 5626), by [`Tokens::instance`].
    pub(crate) instance: Option<u32>,
    /// The engine that leads the dialog's media.
    pub(crate) media: Option<Led>,
    /// Whether responses may be given the caller's grant in its place; flow and
    /// instance are then meant for that.
    pub(crate) is_offer: bool,
    /// Whether he may send there what ends something, and nothing else, until the other side has
    /// shown that it is there.
    pub(crate) is_to_end: bool,
    /// Whether an answer brings it to a gateway whose request anybody could have sent: who has it
    /// is there.
    pub(crate) went_to_gateway: bool,
    /// Whether the other side is a gateway: what it has sent came from one.
    pub(crate) leads_to_gateway: bool,
    /// What is to be known of the dialog where it goes by a trunk.
    pub(crate) marks: Option<Marks>,
}

/// The grant of the sender of one request, for the dialog that the request
/// names: only [`Tokens::read_grant`] makes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteToken {
    flow: Option<Flow>,
    is_flow_lost: bool,
    issued: u32,
    target: u64,
    is_to_end: bool,
    went_to_gateway: bool,
    leads_to_gateway: bool,
    is_callees: bool,
    key_id: u8,
    instance: Option<u32>,
    marks: Option<Marks>,
    media: Option<Led>,
}

/// How the media of a dialog is led.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Led {
    /// The engine that leads it.
    pub(crate) engine: EngineId,
    /// What tells the call there from all others with its Call-ID, whoever begins them; none where
    /// nothing but its parties does.
    pub(crate) number: Option<u32>,
}

impl Led {
    fn of((engine, number): (u32, Option<u32>)) -> Self {
        Self {
            engine: EngineId(engine),
            number,
        }
    }
}

impl RouteToken {
    /// What it says of the trunk that its dialog goes by, if it goes by one.
    pub(crate) fn marks(&self) -> Option<Marks> {
        self.marks
    }

    /// The flow to the phone at the other side, where the token carries one
    /// that may still be there.
    pub fn flow(&self) -> Option<&Flow> {
        self.flow.as_ref().filter(|_| !self.is_flow_lost)
    }

    /// The flow that the token names, whether or not it may still be there.
    pub(crate) fn named_flow(&self) -> Option<&Flow> {
        self.flow.as_ref()
    }

    /// Whether there was a flow, to a connection of another process.
    pub(crate) fn is_flow_lost(&self) -> bool {
        self.is_flow_lost
    }

    /// The engine that leads the dialog's media, if one does.
    pub(crate) fn media(&self) -> Option<Led> {
        self.media
    }

    /// Whether it is good for what ends something at its target, and for nothing else until the
    /// other side has shown that it is there.
    pub(crate) fn is_to_end(&self) -> bool {
        self.is_to_end
    }

    /// Whether who has it is a gateway: an answer has brought it there.
    pub(crate) fn went_to_gateway(&self) -> bool {
        self.went_to_gateway
    }

    /// Whether who has it was called: it was written before he had a tag.
    pub(crate) fn is_callees(&self) -> bool {
        self.is_callees
    }

    /// Whether the other side is a gateway.
    pub(crate) fn leads_to_gateway(&self) -> bool {
        self.leads_to_gateway
    }

    /// How old it is at most.
    pub(crate) fn age_s(&self, unix_ms: u64) -> u64 {
        u64::from(unit_of(unix_ms).saturating_sub(self.issued)) * UNIT_S
    }
}

/// What stands ready for the caller: only [`Tokens::read_offer`] makes one that has something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Offer {
    pub(crate) flow: Option<Flow>,
    pub(crate) instance: Option<u32>,
    pub(crate) media: Option<Led>,
}

/// A flow token (RFC 5626 5.1) of this process: only [`Tokens::read_flow`] makes one.
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
    /// Tokens signed with the newest key of a ring.
    pub fn new(keys: Arc<TokenKeys>) -> Self {
        let (version, ring) = (keys.version(), keys.ring());
        Self {
            version,
            epoch: keys.epoch(),
            newest: Signer::new(&ring.newest),
            older: ring.older.iter().map(Signer::new).collect(),
            keys,
        }
    }

    /// Takes the ring up, if it was replaced.
    pub(crate) fn refresh(&mut self) {
        if self.keys.version() != self.version {
            *self = Self::new(Arc::clone(&self.keys));
        }
    }

    /// Appends a token for a Record-Route's user part.
    pub(crate) fn write_grant(
        &self,
        sides: &Sides<'_>,
        holder: Holder,
        grant: &Grant<'_>,
        out: &mut Vec<u8>,
    ) {
        if sides.is_one() {
            return;
        }
        let parties = sides.seen_by(holder);
        let signer = &self.newest;
        let payload = Payload {
            key_id: signer.id,
            flow: grant.flow.copied(),
            epoch: self.epoch,
            grant: Some(GrantPart {
                issued: unit_of(grant.unix_ms),
                target: signer.target(grant.target),
                knows_holder: parties.holder.tag.is_some(),
                is_offer: grant.is_offer,
                is_to_end: grant.is_to_end,
                went_to_gateway: grant.went_to_gateway,
                leads_to_gateway: grant.leads_to_gateway,
                instance: grant.instance,
                marks: grant.marks,
                media: grant.media.map(|led| (led.engine.0, led.number)),
            }),
        };
        let mut bytes = payload.write();
        let mac = signer.sign_grant(bytes.get(), &parties, grant.behind);
        bytes.put(&mac);
        write_text(bytes.get(), out);
    }

    /// Has the key of a token verify until then at least: its dialog is alive.
    pub(crate) fn need_key(&self, token: &RouteToken, until_s: u64) {
        self.keys.need(token.key_id, until_s);
    }

    /// Reads the token of a request within a dialog; `None` unless this server
    /// made it for whom the request is from, in the dialog that it names, with
    /// the routes `behind` ours, all of them. Whether its target and its time are good is
    /// for [`crate::dialogs`] to say.
    pub(crate) fn read_grant(
        &self,
        user: &[u8],
        request: &Message,
        behind: &[Uri<'_>],
    ) -> Option<RouteToken> {
        let decoded = Decoded::of(user)?;
        let sides = Sides::of(request)?;
        let part = self.read(&decoded, &sides, Holder::Sender, behind)?;
        let payload = &decoded.payload;
        let flow = payload.flow.filter(|_| !part.is_offer);
        Some(RouteToken {
            flow,
            is_flow_lost: flow.is_some_and(|flow| self.is_lost(&flow, payload.epoch)),
            issued: part.issued,
            target: part.target,
            is_to_end: part.is_to_end,
            went_to_gateway: part.went_to_gateway,
            leads_to_gateway: part.leads_to_gateway,
            is_callees: !part.knows_holder,
            key_id: payload.key_id,
            instance: part.instance.filter(|_| !part.is_offer),
            marks: part.marks,
            media: part.media.map(Led::of),
        })
    }

    /// Reads in a response what was offered in its request; `behind` are the routes
    /// behind ours as its receiver sees them.
    pub(crate) fn read_offer(
        &self,
        decoded: &Decoded,
        sides: &Sides<'_>,
        behind: &[Uri<'_>],
    ) -> Option<Offer> {
        let part = self.read(decoded, sides, Holder::Receiver, behind)?;
        let payload = &decoded.payload;
        let flow = payload
            .flow
            .filter(|flow| !self.is_lost(flow, payload.epoch));
        part.is_offer.then_some(Offer {
            flow,
            instance: part.instance,
            media: part.media.map(Led::of),
        })
    }

    /// A user part that looks like an offer. Nothing of it is verified.
    pub(crate) fn decode_offer(user: &[u8]) -> Option<Decoded> {
        if !begins_offer(user) {
            return None;
        }
        let decoded = Decoded::of(user)?;
        let grant = decoded.payload.grant.as_ref();
        grant.is_some_and(|grant| grant.is_offer).then_some(decoded)
    }

    /// Whether a user part looks like the token of a dialog. Nothing of it is verified.
    pub(crate) fn looks_granted(user: &[u8]) -> bool {
        Decoded::of(user).is_some_and(|decoded| decoded.payload.grant.is_some())
    }

    /// Whether a URI is the target that a token was made for.
    pub(crate) fn is_target(&self, token: &RouteToken, uri: &Uri<'_>) -> bool {
        self.signer(token.key_id)
            .is_some_and(|signer| signer.target(Some(uri)) == token.target)
    }

    /// What a token says of a phone's instance.
    pub(crate) fn instance(&self, instance: &[u8]) -> u32 {
        self.newest.instance(instance)
    }

    /// Whether an instance is the one that a token speaks of.
    pub(crate) fn is_instance(&self, token: &RouteToken, instance: &[u8]) -> bool {
        self.signer(token.key_id)
            .is_some_and(|signer| token.instance == Some(signer.instance(instance)))
    }

    /// What a mark says of a trunk.
    pub(crate) fn trunk(&self, name: &str) -> u32 {
        self.newest.trunk(name)
    }

    /// Whether a trunk is the one that a mark of a token speaks of.
    pub(crate) fn is_trunk(&self, token: &RouteToken, mark: Mark, name: &str) -> bool {
        self.signer(token.key_id)
            .is_some_and(|signer| mark.trunk == signer.trunk(name))
    }

    /// Whether a token speaks of an instance.
    pub(crate) fn has_instance(token: &RouteToken) -> bool {
        token.instance.is_some()
    }

    /// Appends a flow token, good for this process.
    pub fn write_flow(&self, flow: &Flow, out: &mut Vec<u8>) {
        // RFC 5626 5.1 wants a flow token that nobody else can make: see above.
        let payload = Payload {
            key_id: self.newest.id,
            flow: Some(*flow),
            epoch: self.epoch,
            grant: None,
        };
        let mut bytes = payload.write();
        let mac = self.newest.sign_flow(bytes.get());
        bytes.put(&mac);
        write_text(bytes.get(), out);
    }

    /// Reads a flow token.
    pub fn read_flow(&self, user: &[u8]) -> Option<FlowToken> {
        let decoded = Decoded::of(user)?;
        let payload = &decoded.payload;
        let (bytes, mac) = decoded.signed()?;
        let flow = payload.flow.filter(|_| payload.grant.is_none())?;
        let right = self.signer(payload.key_id)?.sign_flow(bytes);
        if !bool::from(right.ct_eq(mac)) {
            return None;
        }
        (!self.is_lost(&flow, payload.epoch)).then_some(FlowToken { flow })
    }

    fn read(
        &self,
        decoded: &Decoded,
        sides: &Sides<'_>,
        holder: Holder,
        behind: &[Uri<'_>],
    ) -> Option<GrantPart> {
        let (bytes, mac) = decoded.signed()?;
        let part = decoded.payload.grant?;
        if sides.is_one() {
            return None;
        }
        let mut parties = sides.seen_by(holder);
        if !part.knows_holder {
            parties.holder_tag = None;
        }
        let signer = self.signer(decoded.payload.key_id)?;
        let right = signer.sign_grant(bytes, &parties, behind);
        bool::from(right.ct_eq(mac)).then_some(part)
    }

    /// A connection that another process named is not ours.
    fn is_lost(&self, flow: &Flow, epoch: u32) -> bool {
        flow.conn.is_some() && epoch != self.epoch
    }

    fn signer(&self, id: u8) -> Option<&Signer> {
        if self.newest.id == id {
            return Some(&self.newest);
        }
        self.older.iter().find(|signer| signer.id == id)
    }
}

impl Signer {
    fn new(key: &TokenKey) -> Self {
        // HMAC pads a key shorter than its block of 64 bytes with zeros.
        let mut block = [0; 64];
        if let Some(place) = block.first_chunk_mut() {
            *place = key.secret;
        }
        let secret = <Hmac<Sha256> as KeyInit>::new(&block.into());
        let derive = |purpose: &[u8]| {
            let derived = secret.clone().chain_update(purpose).finalize().into_bytes();
            derived.first_chunk().copied().unwrap_or_default()
        };
        Self {
            id: key.id,
            mac_key: derive(b"tokens"),
            hash_key: derive(b"hashes"),
        }
    }

    fn sign_grant(
        &self,
        payload: &[u8],
        parties: &Parties<'_, '_>,
        behind: &[Uri<'_>],
    ) -> [u8; MAC_LEN] {
        let mut mac = SipMac::new_with_key(&self.mac_key);
        let mut feed = Feed::new(&mut mac);
        feed.bytes(b"grant");
        feed.part(payload);
        feed.part(parties.call_id);
        feed.party(&parties.holder.uri);
        feed.optional(parties.holder_tag);
        feed.party(&parties.peer.uri);
        feed.optional(parties.peer.tag);
        // All of them: the next one may well be a proxy that sends on to whatever comes behind it.
        // Whoever has none says so.
        if behind.is_empty() {
            feed.bytes(&[0]);
        }
        for hop in behind {
            // Without `lr` it becomes the Request-URI: all of it says whom the next hop calls.
            match hop.has_param("lr") {
                true => {
                    feed.bytes(&[1]);
                    feed.hop(hop);
                }
                false => {
                    feed.bytes(&[2]);
                    feed.target(hop);
                }
            }
        }
        feed.finish();
        first_bytes(&mac)
    }

    fn sign_flow(&self, payload: &[u8]) -> [u8; MAC_LEN] {
        let mut mac = SipMac::new_with_key(&self.mac_key);
        mac.write(b"flow ");
        mac.write(payload);
        first_bytes(&mac)
    }

    /// A hash of where a URI leads; of no URI one that no URI has.
    fn target(&self, uri: Option<&Uri<'_>>) -> u64 {
        let mut hasher = SipHasher24::new_with_key(&self.hash_key);
        if let Some(uri) = uri {
            let mut feed = Feed::new(&mut hasher);
            feed.bytes(b"target");
            feed.target(uri);
            feed.finish();
        }
        hasher.finish()
    }

    fn instance(&self, instance: &[u8]) -> u32 {
        let mut hasher = SipHasher24::new_with_key(&self.hash_key);
        hasher.write(b"instance");
        hasher.write(unquoted(instance));
        hasher.finish() as u32
    }

    fn trunk(&self, name: &str) -> u32 {
        let mut hasher = SipHasher24::new_with_key(&self.hash_key);
        hasher.write(b"trunk");
        hasher.write(name.as_bytes());
        hasher.finish() as u32
    }
}

/// The two sides of the dialog that a message names.
pub(crate) struct Sides<'m> {
    call_id: &'m [u8],
    from: Party<'m>,
    to: Party<'m>,
}

/// The same, as a token sees them.
struct Parties<'a, 'm> {
    call_id: &'m [u8],
    holder: &'a Party<'m>,
    /// Of the holder, where the token knows it.
    holder_tag: Option<&'m [u8]>,
    peer: &'a Party<'m>,
}

struct Party<'m> {
    uri: Uri<'m>,
    tag: Option<&'m [u8]>,
}

impl<'m> Sides<'m> {
    /// `None` where From or To cannot be read.
    pub(crate) fn of(message: &'m Message) -> Option<Self> {
        Some(Self {
            call_id: message.call_id(),
            from: Party::of(message.from().ok()?)?,
            to: Party::of(message.to().ok()?)?,
        })
    }

    /// The same with other values of From and To, where they are given: as whoever gets the
    /// message sees them.
    pub(crate) fn seen_with(
        message: &'m Message,
        from: Option<&'m [u8]>,
        to: Option<&'m [u8]>,
    ) -> Option<Self> {
        let from = match from {
            Some(value) => NameAddr::parse(value)?,
            None => message.from().ok()?,
        };
        let to = match to {
            Some(value) => NameAddr::parse(value)?,
            None => message.to().ok()?,
        };
        Some(Self {
            call_id: message.call_id(),
            from: Party::of(from)?,
            to: Party::of(to)?,
        })
    }

    /// Whether To has a tag.
    pub(crate) fn is_answered(&self) -> bool {
        self.to.tag.is_some()
    }

    /// Whether both have the same tag.
    // RFC 3261 12: "The dialog ID at each UA involved in the dialog is not the same." Its
    // sides are told apart by their tags: who answers with the caller's would speak, and
    // show his places, for both.
    fn is_one(&self) -> bool {
        self.from.tag.is_some() && self.from.tag == self.to.tag
    }

    fn seen_by(&self, holder: Holder) -> Parties<'_, 'm> {
        let (holder, peer) = match holder {
            Holder::Sender => (&self.from, &self.to),
            Holder::Receiver => (&self.to, &self.from),
        };
        Parties {
            call_id: self.call_id,
            holder,
            holder_tag: holder.tag,
            peer,
        }
    }
}

impl<'m> Party<'m> {
    fn of(address: NameAddr<'m>) -> Option<Self> {
        Some(Self {
            uri: address.uri()?,
            tag: address.tag(),
        })
    }
}

/// A hash of the tag of a side, for tables in memory.
pub(crate) fn hash_tag(key: &[u8; 16], tag: &[u8]) -> u64 {
    let mut hasher = SipHasher24::new_with_key(key);
    hasher.write(b"tag");
    hasher.write(tag);
    hasher.finish()
}

/// A hash of a URI with what belongs to it, for tables in memory.
pub(crate) fn hash_target(key: &[u8; 16], uri: &Uri<'_>, tag: &[u8]) -> u64 {
    let mut hasher = SipHasher24::new_with_key(key);
    let mut feed = Feed::new(&mut hasher);
    feed.part(tag);
    feed.target(uri);
    feed.finish();
    hasher.finish()
}

/// A hash of what a response has in common with its request: Call-ID, From
/// with its tag, To, and To's tag where `has_tag`.
pub(crate) fn hash_identity(key: &[u8; 16], sides: &Sides<'_>, has_tag: bool) -> Option<u64> {
    if sides.is_one() {
        return None;
    }
    let mut hasher = SipHasher24::new_with_key(key);
    let mut feed = Feed::new(&mut hasher);
    feed.part(sides.call_id);
    feed.party(&sides.from.uri);
    feed.optional(sides.from.tag);
    feed.party(&sides.to.uri);
    feed.optional(sides.to.tag.filter(|_| has_tag));
    feed.finish();
    Some(hasher.finish())
}

fn unquoted(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"\"")
        .and_then(|text| text.strip_suffix(b"\""))
        .unwrap_or(text)
}

/// The unit of time that holds a moment.
fn unit_of(unix_ms: u64) -> u32 {
    (unix_ms / 1_000 / UNIT_S) as u32 & 0x00ff_ffff
}

fn first_bytes(mac: &SipMac) -> [u8; MAC_LEN] {
    let mac = mac.finish128().as_bytes();
    mac.first_chunk().copied().unwrap_or_default()
}

fn write_text(token: &[u8], out: &mut Vec<u8>) {
    let mut text = [0; TEXT_MAX];
    match URL_SAFE_NO_PAD.encode_slice(token, &mut text) {
        Ok(len) => out.extend_from_slice(text.get(..len).unwrap_or_default()),
        Err(_) => broken!("TEXT_MAX holds the longest token"),
    }
}

/// What a user part says, before its MAC was looked at.
pub(crate) struct Decoded {
    bytes: [u8; TEXT_MAX],
    len: usize,
    payload: Payload,
}

impl Decoded {
    fn of(user: &[u8]) -> Option<Self> {
        if user.len() > TEXT_MAX {
            return None;
        }
        // The decoder's buffer must hold what it may need in the worst case.
        let mut bytes = [0; TEXT_MAX];
        let len = URL_SAFE_NO_PAD.decode_slice(user, &mut bytes).ok()?;
        let (payload, _) = bytes.get(..len)?.split_last_chunk::<MAC_LEN>()?;
        let payload = Payload::read(payload)?;
        Some(Self {
            bytes,
            len,
            payload,
        })
    }

    /// Whether it names a flow.
    pub(crate) fn has_flow(&self) -> bool {
        self.payload.flow.is_some()
    }

    /// Whether it names an engine.
    pub(crate) fn has_media(&self) -> bool {
        let grant = self.payload.grant.as_ref();
        grant.is_some_and(|grant| grant.media.is_some())
    }

    /// What is signed, and the MAC on it.
    fn signed(&self) -> Option<(&[u8], &[u8; MAC_LEN])> {
        self.bytes.get(..self.len)?.split_last_chunk()
    }
}
