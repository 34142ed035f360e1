//! The client's side: answers to challenges.

use sip_msg::Message;
use sip_msg::header::{AuthParams, AuthValue};
use smallvec::SmallVec;
use zeroize::Zeroizing;

use crate::config::Side;
use crate::hash::{self, Hex};
use crate::server::{ha2, hex};
use crate::{Algorithm, Ha1, Qop, write_quoted};

/// How often one request may be told that its nonce was stale.
const STALE_MAX: u8 = 3;
/// The longest nonce and the longest opaque that are answered, in bytes.
const ECHOED_MAX: usize = 1_024;

const SIDES: [Side; 2] = [Side::Registrar, Side::Proxy];

/// The parts of a request that a digest covers.
#[derive(Clone, Copy, Debug)]
pub struct RequestParts<'a> {
    /// The method's token.
    pub method: &'a [u8],
    /// The Request-URI, byte for byte as it will be sent.
    pub uri: &'a [u8],
    /// The body.
    pub body: &'a [u8],
}

/// What one request has been through: kept with it from its first sending to
/// its final response, so that a server that is never content is given up on.
#[derive(Clone, Debug, Default)]
pub struct Attempt {
    tries: SmallVec<[Try; 2]>,
}

/// What one request has been through with one realm on one side.
#[derive(Clone, Debug)]
struct Try {
    realm_index: usize,
    side: Side,
    /// The nonce that the request bore last.
    nonce_serial: u32,
    /// Whether that nonce had come in a challenge to this very request.
    is_fresh: bool,
    stale: u8,
}

/// Why a challenge is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GiveUp {
    /// There are no credentials for any of its realms.
    ForeignRealm,
    /// It asks for nothing that is supported.
    Unsupported,
    /// It cannot be read, or is no challenge.
    Malformed,
    /// The credentials were refused.
    Rejected,
    /// The nonce was called stale again and again.
    Loop,
}

impl std::fmt::Display for GiveUp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::ForeignRealm => "the server asks for a realm that there are no credentials for",
            Self::Unsupported => {
                "the server asks for a scheme, algorithm or quality that is not supported"
            }
            Self::Malformed => "the server's challenge cannot be read",
            Self::Rejected => "the server refused user and password",
            Self::Loop => "the server calls every nonce stale",
        })
    }
}

impl std::error::Error for GiveUp {}

/// The credentials of a user agent, and the nonces that it was given.
#[derive(Clone, Debug, Default)]
pub struct ClientAuth {
    realms: Vec<Realm>,
    weakest: Option<Algorithm>,
    nonce_serial: u32,
}

#[derive(Clone)]
struct Realm {
    name: Box<str>,
    user: Box<str>,
    password: Zeroizing<String>,
    /// For each of [`SIDES`].
    active: [Option<Active>; 2],
}

/// A challenge that is being answered.
#[derive(Clone)]
struct Active {
    algorithm: Algorithm,
    qop: Option<Qop>,
    /// As it came, backslashes and all.
    nonce: Vec<u8>,
    opaque: Option<Vec<u8>>,
    ha1: Ha1,
    nc: u32,
    serial: u32,
}

/// A challenge that could be answered.
struct Offer<'a> {
    algorithm: Algorithm,
    qop: Option<Qop>,
    nonce: &'a [u8],
    opaque: Option<&'a [u8]>,
    is_stale: bool,
}

impl ClientAuth {
    /// No credentials.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a user and password for one realm, or replaces them. A challenge
    /// for another realm is never answered.
    // RFC 3261 22.3: "These credentials MUST NOT be cached across dialogs; however, if a UA is
    // configured with the realm of its local outbound proxy, when one exists, then the UA MAY cache
    // credentials for that realm across dialogs." Every realm here is such a one.
    pub fn add(&mut self, realm: &str, user: &str, password: &str) {
        self.realms.retain(|r| &*r.name != realm);
        self.realms.push(Realm {
            name: realm.into(),
            user: user.into(),
            password: Zeroizing::new(password.to_owned()),
            active: [None, None],
        });
    }

    /// Answers no challenge with an algorithm weaker than this (RFC 8760 3: an
    /// attacker on the way may strike out the stronger ones).
    pub fn require(&mut self, weakest: Algorithm) {
        self.weakest = Some(weakest);
    }

    /// Takes up the challenges of a 401 or 407 to a request. `Ok` means: send
    /// the request again, with a higher CSeq, with new credentials.
    pub fn handle_challenge(
        &mut self,
        attempt: &mut Attempt,
        response: &Message,
    ) -> Result<(), GiveUp> {
        self.take_up(attempt, response, &SIDES)
    }

    /// The same of those in one side's header alone: what a response says in the other's is
    /// left alone.
    pub fn handle_challenge_by(
        &mut self,
        side: Side,
        attempt: &mut Attempt,
        response: &Message,
    ) -> Result<(), GiveUp> {
        self.take_up(attempt, response, &[side])
    }

    fn take_up(
        &mut self,
        attempt: &mut Attempt,
        response: &Message,
        sides: &[Side],
    ) -> Result<(), GiveUp> {
        if !matches!(response.status(), 401 | 407) {
            return Err(GiveUp::Malformed);
        }
        let mut answered = None;
        for realm_index in 0..self.realms.len() {
            for &side in sides {
                let Some(realm) = self.realms.get_mut(realm_index) else {
                    continue;
                };
                let Some(offer) = strongest(response, side, &realm.name, self.weakest) else {
                    continue;
                };
                self.nonce_serial = self.nonce_serial.wrapping_add(1);
                attempt.note(
                    realm_index,
                    side,
                    realm.active(side),
                    &offer,
                    self.nonce_serial,
                )?;
                realm.take_up(side, &offer, self.nonce_serial);
                answered = Some(());
            }
        }
        answered.ok_or_else(|| self.why_not(response))
    }

    /// Appends a header line (`Authorization: Digest ...`, with its line end)
    /// for each realm of which there is a nonce; each call counts nc up.
    /// Writes nothing before the first challenge. `cnonce` is random.
    pub fn write_credentials(
        &mut self,
        attempt: &mut Attempt,
        request: RequestParts<'_>,
        cnonce: u64,
        out: &mut Vec<u8>,
    ) {
        for (realm_index, realm) in self.realms.iter_mut().enumerate() {
            for (side, active) in SIDES.into_iter().zip(&mut realm.active) {
                let Some(active) = active else { continue };
                attempt.bears(realm_index, side, active.serial);
                active.nc = active.nc.saturating_add(1);
                // RFC 3261 20.7: "Although not a comma-separated list, this header field name may be
                // present multiple times, and MUST NOT be combined into a single header line using the
                // usual rules described in Section 7.3." Each is a line of its own.
                // RFC 3261 20.28: "Although not a comma-separated list, this header field name may be
                // present multiple times, and MUST NOT be combined into a single header line using the
                // usual rules described in Section 7.3.1."
                // RFC 3261 7.3.1: "Multiple header field rows with these names MAY be present in a
                // message, but since their grammar does not follow the general form listed in Section
                // 7.3, they MUST NOT be combined into a single header field row."
                active.write(side, &realm.name, &realm.user, request, cnonce, out);
            }
        }
    }

    /// Whether the nonces at hand may be used for another request: each came with `qop`, so
    /// that its uses have a count. One that came without would be used twice alike, which
    /// servers take for a replay.
    pub fn may_reuse_nonces(&self) -> bool {
        let active = self.realms.iter().flat_map(|realm| &realm.active);
        active.flatten().all(|active| active.qop.is_some())
    }

    /// Forgets the nonces and keeps the credentials.
    pub fn forget_nonces(&mut self) {
        for realm in &mut self.realms {
            realm.active = [None, None];
        }
    }

    /// Why none of the challenges can be answered.
    fn why_not(&self, response: &Message) -> GiveUp {
        let mut why = GiveUp::Malformed;
        for field in SIDES
            .into_iter()
            .flat_map(|side| response.fields_of(side.challenge_header()))
        {
            let Some(params) = AuthParams::parse(field.value) else {
                continue;
            };
            let is_known = params
                .get("realm")
                .is_some_and(|r| self.realms.iter().any(|k| r.is(k.name.as_bytes())));
            if is_known {
                return GiveUp::Unsupported;
            }
            why = if params.is_scheme("Digest") {
                GiveUp::ForeignRealm
            } else {
                GiveUp::Unsupported
            };
        }
        why
    }
}

impl std::fmt::Debug for Realm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Realm({} in {}, ***)", self.user, self.name)
    }
}

impl Realm {
    fn active(&self, side: Side) -> Option<&Active> {
        let [registrar, proxy] = &self.active;
        match side {
            Side::Registrar => registrar.as_ref(),
            Side::Proxy => proxy.as_ref(),
        }
    }

    fn take_up(&mut self, side: Side, offer: &Offer<'_>, serial: u32) {
        let known = self
            .active
            .iter()
            .flatten()
            .find(|a| a.algorithm == offer.algorithm)
            .map(|a| a.ha1.clone());
        let ha1 = known.unwrap_or_else(|| {
            let (user, realm, password) = (
                self.user.as_bytes(),
                self.name.as_bytes(),
                self.password.as_bytes(),
            );
            Ha1::compute(offer.algorithm, user, realm, password)
        });
        let [registrar, proxy] = &mut self.active;
        let slot = match side {
            Side::Registrar => registrar,
            Side::Proxy => proxy,
        };
        *slot = Some(Active {
            algorithm: offer.algorithm,
            qop: offer.qop,
            nonce: offer.nonce.to_vec(),
            opaque: offer.opaque.map(<[u8]>::to_vec),
            ha1,
            nc: 0,
            serial,
        });
    }
}

impl Attempt {
    /// Whether the request has answered a challenge of that side to itself.
    pub fn has_answered(&self, side: Side) -> bool {
        self.tries.iter().any(|of| of.side == side && of.is_fresh)
    }

    /// Whether a challenge may be answered once more.
    fn note(
        &mut self,
        realm_index: usize,
        side: Side,
        active: Option<&Active>,
        offer: &Offer<'_>,
        serial: u32,
    ) -> Result<(), GiveUp> {
        let Some(made) = self.find(realm_index, side) else {
            // The request bore no credentials for this realm.
            self.tries.push(Try {
                realm_index,
                side,
                nonce_serial: serial,
                is_fresh: true,
                stale: 0,
            });
            return Ok(());
        };
        let is_same_nonce =
            active.is_some_and(|a| a.serial == made.nonce_serial && a.nonce == offer.nonce);
        if offer.is_stale && !is_same_nonce {
            made.stale += 1;
            if made.stale >= STALE_MAX {
                return Err(GiveUp::Loop);
            }
        } else if made.is_fresh || is_same_nonce {
            // RFC 3261 22.1: "A UAC MUST NOT re-attempt requests with the credentials that have just been
            // rejected (though the request may be retried if the nonce was stale)."
            return Err(GiveUp::Rejected);
        }
        // Refused with a nonce from an earlier request: that server may have
        // been restarted since, so the credentials get one chance with a new one.
        made.nonce_serial = serial;
        made.is_fresh = true;
        Ok(())
    }

    /// The request goes out with that nonce.
    fn bears(&mut self, realm_index: usize, side: Side, serial: u32) {
        match self.find(realm_index, side) {
            Some(made) if made.nonce_serial == serial => {}
            Some(made) => (made.nonce_serial, made.is_fresh) = (serial, false),
            None => self.tries.push(Try {
                realm_index,
                side,
                nonce_serial: serial,
                is_fresh: false,
                stale: 0,
            }),
        }
    }

    fn find(&mut self, realm_index: usize, side: Side) -> Option<&mut Try> {
        self.tries
            .iter_mut()
            .find(|t| t.realm_index == realm_index && t.side == side)
    }
}

impl Active {
    fn write(
        &self,
        side: Side,
        realm: &str,
        user: &str,
        request: RequestParts<'_>,
        cnonce: u64,
        out: &mut Vec<u8>,
    ) {
        let RequestParts { method, uri, body } = request;
        let ha1 = self.ha1.hex();
        let cnonce = Hex::new(&cnonce.to_be_bytes());
        let nc = Hex::new(&self.nc.to_be_bytes());
        let ha2 = hex(
            self.algorithm,
            &ha2(
                self.algorithm,
                self.qop.unwrap_or(Qop::Auth),
                method,
                uri,
                body,
            ),
        );
        let response = match self.qop {
            None => hash::joined(
                self.algorithm,
                &[ha1.as_bytes(), &self.nonce, ha2.as_bytes()],
            ),
            Some(qop) => {
                let (nc, cnonce, qop) = (nc.as_bytes(), cnonce.as_bytes(), qop.as_str().as_bytes());
                hash::joined(
                    self.algorithm,
                    &[ha1.as_bytes(), &self.nonce, nc, cnonce, qop, ha2.as_bytes()],
                )
            }
        };
        let mut put = |text: &[u8]| out.extend_from_slice(text);
        put(side.credentials_header().as_str().as_bytes());
        put(b": Digest username=\"");
        write_quoted(user.as_bytes(), out);
        out.extend_from_slice(b"\", realm=\"");
        write_quoted(realm.as_bytes(), out);
        let mut put = |text: &[u8]| out.extend_from_slice(text);
        put(b"\", nonce=\"");
        put(&self.nonce);
        // RFC 3261 22.4: "For SIP, the 'uri' MUST be enclosed in quotation marks."
        put(b"\", uri=\"");
        put(uri);
        put(b"\", response=\"");
        put(hex(self.algorithm, &response).as_bytes());
        put(b"\", algorithm=");
        put(self.algorithm.as_str().as_bytes());
        // RFC 3261 22.4: "RFC 2617 notes that a cnonce value MUST NOT be sent in an Authorization (and
        // by extension Proxy-Authorization) header field if no qop directive has been sent." and "If a
        // client receives a "qop" parameter in a challenge header field, it MUST send the "qop"
        // parameter in any resulting authorization header field."
        if let Some(qop) = self.qop {
            put(b", cnonce=\"");
            put(cnonce.as_bytes());
            put(b"\", qop=");
            put(qop.as_str().as_bytes());
            put(b", nc=");
            put(nc.as_bytes());
        }
        if let Some(opaque) = &self.opaque {
            put(b", opaque=\"");
            put(opaque);
            put(b"\"");
        }
        put(b"\r\n");
    }
}

/// The best of a response's challenges for `realm`.
fn strongest<'m>(
    response: &'m Message,
    side: Side,
    realm: &str,
    weakest: Option<Algorithm>,
) -> Option<Offer<'m>> {
    let mut best = None::<Offer<'m>>;
    for field in response.fields_of(side.challenge_header()) {
        let Some(offer) = AuthParams::parse(field.value).and_then(|params| offer(&params, realm))
        else {
            continue;
        };
        let is_enough = weakest.is_none_or(|weakest| offer.algorithm >= weakest);
        if is_enough
            && best
                .as_ref()
                .is_none_or(|best| offer.algorithm > best.algorithm)
        {
            best = Some(offer);
        }
    }
    best
}

/// A challenge that can be answered for `realm`.
fn offer<'m>(params: &AuthParams<'m>, realm: &str) -> Option<Offer<'m>> {
    if !params.is_scheme("Digest") || !params.get("realm")?.is(realm.as_bytes()) {
        return None;
    }
    let algorithm = match params.get("algorithm") {
        None if params.has("algorithm") => return None,
        None => Algorithm::Md5,
        Some(token) => Algorithm::from_token(token.raw)?,
    };
    let qop = match params.get("qop") {
        None if params.has("qop") => return None,
        None => None,
        Some(list) => Some(best_qop(list)?),
    };
    let echoed = |value: AuthValue<'m>| {
        // It is written back as it came, so it must not end the line.
        let is_one_line = !value.raw.iter().any(|b| b.is_ascii_control());
        (is_one_line && value.raw.len() <= ECHOED_MAX).then_some(value.raw)
    };
    let opaque = match params.get("opaque") {
        None => None,
        Some(opaque) => Some(echoed(opaque)?),
    };
    let nonce = echoed(params.get("nonce")?)?;
    let is_stale = params
        .get("stale")
        .is_some_and(|s| s.raw.eq_ignore_ascii_case(b"true"));
    Some(Offer {
        algorithm,
        qop,
        nonce,
        opaque,
        is_stale,
    })
}

/// `auth` where it is offered: `auth-int` breaks at every server on the way
/// that edits the body.
fn best_qop(list: AuthValue<'_>) -> Option<Qop> {
    let has = |qop: Qop| {
        list.raw.split(|&b| b == b',').any(|token| {
            token
                .trim_ascii()
                .eq_ignore_ascii_case(qop.as_str().as_bytes())
        })
    };
    [Qop::Auth, Qop::AuthInt].into_iter().find(|&qop| has(qop))
}

#[cfg(test)]
mod tests;
