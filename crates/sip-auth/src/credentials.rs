//! What an Authorization or Proxy-Authorization header says, before anything
//! of it is believed.

use sip_msg::Message;
use sip_msg::header::{AuthParams, AuthValue};
use sip_msg::{HeaderName, Span};

use crate::config::Side;

/// The longest user name, in bytes.
pub const USERNAME_MAX: usize = 255;
/// The longest cnonce, in bytes.
pub const CNONCE_MAX: usize = 256;
/// Credentials of one request that are judged; those past it are not looked at. Phones
/// answer each challenge, and there are as many as there are algorithms.
pub const JUDGED_MAX: usize = 4;

/// Why credentials are answered 400.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// The reason phrase to answer with, for the person who must mend it.
    pub reason: &'static str,
}

/// The parameters of Digest credentials, each there at most once. Those with
/// no field here are ignored, as RFC 7616 3.4 asks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Credentials<'a> {
    pub(crate) username: Option<AuthValue<'a>>,
    pub(crate) realm: Option<AuthValue<'a>>,
    pub(crate) nonce: Option<AuthValue<'a>>,
    pub(crate) uri: Option<AuthValue<'a>>,
    pub(crate) response: Option<AuthValue<'a>>,
    pub(crate) algorithm: Option<AuthValue<'a>>,
    pub(crate) cnonce: Option<AuthValue<'a>>,
    pub(crate) qop: Option<AuthValue<'a>>,
    pub(crate) nc: Option<AuthValue<'a>>,
    pub(crate) userhash: Option<AuthValue<'a>>,
}

impl<'a> Credentials<'a> {
    /// Reads a Digest header's parameters. Twice the same is malformed: which
    /// of the two another element would believe is anybody's guess.
    pub(crate) fn read(params: &AuthParams<'a>) -> Result<Self, Malformed> {
        let mut read = Self::default();
        for param in params.iter() {
            let Some(slot) = read.slot(param.name) else {
                continue;
            };
            if slot.replace(param.value).is_some() {
                return Err(Malformed {
                    reason: "Digest Parameter Given Twice",
                });
            }
        }
        Ok(read)
    }

    fn slot(&mut self, name: &[u8]) -> Option<&mut Option<AuthValue<'a>>> {
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        Some(match name.len() {
            2 if is("nc") => &mut self.nc,
            3 if is("uri") => &mut self.uri,
            3 if is("qop") => &mut self.qop,
            5 if is("realm") => &mut self.realm,
            5 if is("nonce") => &mut self.nonce,
            6 if is("cnonce") => &mut self.cnonce,
            8 if is("username") => &mut self.username,
            8 if is("response") => &mut self.response,
            8 if is("userhash") => &mut self.userhash,
            9 if is("algorithm") => &mut self.algorithm,
            _ => return None,
        })
    }
}

/// The Digest credentials for realms that are ours, in order; an error for each that might be
/// some and cannot be read. Each line is read once, however many realms are ours.
pub(crate) fn all<'m>(
    message: &'m Message,
    side: Side,
    is_ours: impl Fn(AuthValue<'m>) -> bool,
) -> impl Iterator<Item = Result<Credentials<'m>, Malformed>> {
    // RFC 3261 22: "Servers MUST NOT accept credentials using the "Basic" authorization scheme"
    // RFC 3261 22.4: "Note, however, that SIP servers MUST NOT accept or request Basic
    // authentication."
    let fields = message.fields_of(side.credentials_header());
    let digests = fields.filter(|field| is_digest(field.value));
    digests.filter_map(move |field| {
        let Some(params) = AuthParams::parse(field.value) else {
            return Some(Err(unreadable(side)));
        };
        match Credentials::read(&params) {
            // RFC 3261 22.3: "When multiple proxies are used in a chain, a Proxy-Authorization header
            // field value MUST NOT be consumed by any proxy whose realm does not match the "realm"
            // parameter specified in that value."
            Ok(read) => match read.realm {
                Some(given) => is_ours(given).then_some(Ok(read)),
                None => Some(Err(Malformed {
                    reason: "Digest Realm Missing",
                })),
            },
            Err(malformed) => Some(Err(malformed)),
        }
    })
}

/// Whom credentials name, whether that is true or not.
#[derive(Clone, Copy, Debug)]
pub struct Claimed<'m> {
    /// The realm, which is one of ours.
    pub realm: AuthValue<'m>,
    user: AuthValue<'m>,
}

impl Claimed<'_> {
    /// The user, unescaped.
    pub fn user(&self) -> Vec<u8> {
        self.user.bytes().take(USERNAME_MAX).collect()
    }
}

/// The user whom a request's credentials for our realms name first. For what is told of a failure,
/// and of who hides.
pub fn claimed<'m>(
    message: &'m Message,
    side: Side,
    is_ours: impl Fn(AuthValue<'m>) -> bool,
) -> Option<Claimed<'m>> {
    if !message.has(side.credentials_header()) {
        return None;
    }
    let mut judged = all(message, side, is_ours).take(JUDGED_MAX);
    judged.find_map(|credentials| {
        let read = credentials.ok()?;
        let user = read.username.filter(|name| !name.raw.is_empty())?;
        let realm = read.realm?;
        Some(Claimed { realm, user })
    })
}

/// The lines of a request that hold Digest credentials for realms that are ours: what a
/// proxy cuts before it forwards, so that nobody behind it can try them.
/// Those for other realms are somebody else's. Each line is read once, however many realms are ours.
pub fn credential_lines_of<'m>(
    message: &'m Message,
    side: Side,
    is_ours: impl Fn(AuthValue<'m>) -> bool + 'm,
) -> impl Iterator<Item = Span> + 'm {
    message
        .fields_of(side.credentials_header())
        .filter_map(move |field| {
            let params = AuthParams::parse(field.value)?;
            let mut realms = params
                .iter()
                .filter(|param| param.name.eq_ignore_ascii_case(b"realm"));
            let is_for_us = params.is_scheme("Digest") && realms.any(|realm| is_ours(realm.value));
            is_for_us.then_some(field.line_span)
        })
}

/// The same for one realm.
pub fn credential_lines<'m>(
    message: &'m Message,
    side: Side,
    realm: &'m str,
) -> impl Iterator<Item = Span> + 'm {
    credential_lines_of(message, side, move |given| given.is(realm.as_bytes()))
}

fn is_digest(value: &[u8]) -> bool {
    let (Some(scheme), after) = (value.get(..6), value.get(6)) else {
        return false;
    };
    scheme.eq_ignore_ascii_case(b"Digest") && after.is_none_or(|b| b" \t\r\n".contains(b))
}

fn unreadable(side: Side) -> Malformed {
    match side.credentials_header() {
        HeaderName::Authorization => Malformed {
            reason: "Malformed Authorization",
        },
        _ => Malformed {
            reason: "Malformed Proxy-Authorization",
        },
    }
}
