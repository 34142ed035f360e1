//! Credentials as they came: whether they are good in themselves.

use std::net::IpAddr;
use std::sync::Arc;

use sip_msg::header::AuthValue;
use sip_msg::{Message, Uri};
use smallvec::SmallVec;

use super::{Authenticator, Pending, body_digest, ha2};
use crate::credentials::{CNONCE_MAX, Credentials, Malformed, USERNAME_MAX};
use crate::hash::{self, Raw};
use crate::key::{CredentialKey, UserName};
use crate::nonce::Nonce;
use crate::{Algorithm, DigestRequest, Failure, Lenient, Qop};

/// Why credentials are no good in themselves.
pub(super) enum Bad {
    /// They can be read: who sent them is asked again.
    Refused(Failure),
    /// They cannot, or are for another request.
    Malformed(Malformed),
}

impl Bad {
    /// What is told of several: that only a nonce was too old, which nobody need know of but
    /// the phone, then the first that could be read, then the first of all.
    pub(super) fn or_before(self, before: Option<Self>) -> Self {
        match (before, self) {
            (None, this) => this,
            (Some(Self::Refused(before)), Self::Refused(this)) if this.is_stale() => {
                Self::Refused(if before.is_stale() { before } else { this })
            }
            (Some(Self::Malformed(_)), this @ Self::Refused(_)) => this,
            (Some(before), _) => before,
        }
    }
}

const fn malformed(reason: &'static str) -> Bad {
    Bad::Malformed(Malformed { reason })
}

impl Authenticator {
    /// What is asked of the phone that gives that name, where that is less than of all.
    fn lenient(&self, source: Option<IpAddr>, name: Option<AuthValue<'_>>) -> Option<&Lenient> {
        if self.config.lenient.is_empty() {
            return None;
        }
        // What is longer than a name may be is refused, whoever gives it.
        let bytes = name.iter().flat_map(AuthValue::bytes);
        let user: UserName = bytes.take(USERNAME_MAX).collect();
        self.config.lenient_for(source, &user)
    }

    /// Judges credentials by themselves.
    pub(super) fn read(
        &self,
        unix_ms: u64,
        message: &Message,
        realm: &Arc<str>,
        source: Option<IpAddr>,
        credentials: &Credentials<'_>,
    ) -> Result<Pending, Bad> {
        let lenient = self.lenient(source, credentials.username);
        let algorithm = self.accepted(credentials, lenient)?;
        let username = credentials
            .username
            .ok_or(malformed("Digest Username Missing"))?;
        let nonce_text = credentials.nonce.ok_or(malformed("Digest Nonce Missing"))?;
        let uri = credentials.uri.ok_or(malformed("Digest URI Missing"))?;
        let response_text = credentials
            .response
            .ok_or(malformed("Digest Response Missing"))?;
        if credentials
            .userhash
            .is_some_and(|hashed| hashed.raw.eq_ignore_ascii_case(b"true"))
        {
            return Err(malformed("Digest Userhash Was Not Offered"));
        }
        let counted = self.counted(credentials, lenient)?;
        let response = response_of(algorithm, response_text.raw)?;
        // The bound is on the name: the backslashes before quotes in it do not count.
        if username.raw.len() > USERNAME_MAX && username.bytes().nth(USERNAME_MAX).is_some() {
            return Err(malformed("Digest Username Too Long"));
        }
        // RFC 7616 3.4.6: the uri and the Request-URI must name the same
        // resource, or credentials for one request would serve for another.
        let by_host = lenient.is_some_and(|entry| entry.uri_by_host);
        let is_for_this =
            is_same_uri(uri.raw, message) || (by_host && has_same_host(uri.raw, message));
        if !is_for_this {
            return Err(malformed("Digest URI Is Not The Request-URI"));
        }
        let Some(nonce) = self.key.verify(nonce_text.raw, realm) else {
            return Err(Bad::Refused(Failure::ForgedNonce));
        };
        if !self.is_fresh(unix_ms, &nonce) {
            return Err(Bad::Refused(Failure::Stale));
        }
        let given = Given {
            username,
            nonce: nonce_text.raw,
            uri: uri.raw,
            counted,
            algorithm,
            response: response_text.raw,
        };
        Ok(self.pending(message, realm, nonce, response, &given))
    }

    /// What waits for the store.
    fn pending(
        &self,
        message: &Message,
        realm: &Arc<str>,
        nonce: Nonce,
        response: Raw,
        given: &Given<'_>,
    ) -> Pending {
        let (algorithm, qop) = (given.algorithm, given.counted.map(|counted| counted.qop));
        let a2 = |method: &[u8], body: &[u8]| {
            ha2(algorithm, qop.unwrap_or(Qop::Auth), method, given.uri, body)
        };
        // Who does not know the secret cannot sign an answer.
        let is_signed =
            self.config.authentication_info && !self.config.store_verifies && qop.is_some();
        Pending {
            key: CredentialKey {
                user: given.username.bytes().collect(),
                realm: realm.clone(),
                algorithm,
            },
            nonce,
            // Without counts the first use is the last: it leaves none.
            nc: given.counted.map_or(u32::MAX, |counted| counted.nc),
            qop,
            between: given.between(),
            ha2: a2(message.method_token(), message.body()),
            answer_ha2: is_signed.then(|| a2(b"", b"")),
            response,
            digest: given
                .counted
                .filter(|_| self.config.store_verifies)
                .map(|counted| Box::new(given.to_digest(message, realm, counted))),
        }
    }

    /// The algorithm of credentials, where it is accepted from their phone.
    fn accepted(
        &self,
        credentials: &Credentials<'_>,
        lenient: Option<&Lenient>,
    ) -> Result<Algorithm, Bad> {
        let algorithm = match credentials.algorithm {
            // RFC 7616 3.3: a challenge, and so an answer, without one means MD5.
            None => Some(Algorithm::Md5),
            Some(token) => Algorithm::from_token(token.raw),
        };
        let is_accepted = |of: &Algorithm| {
            self.config.algorithms.contains(of)
                || lenient.is_some_and(|entry| entry.algorithms.contains(of))
        };
        algorithm
            .filter(is_accepted)
            .ok_or(Bad::Refused(Failure::NotOffered))
    }

    /// The quality of protection and what comes with it; `None` for the form of RFC 2069,
    /// where that is accepted from their phone.
    fn counted<'m>(
        &self,
        credentials: &Credentials<'m>,
        lenient: Option<&Lenient>,
    ) -> Result<Option<Counted<'m>>, Bad> {
        let Some(qop) = credentials.qop else {
            // RFC 3261 22.4: "These mechanisms MUST be used by a server to determine if the client
            // supports the new mechanisms in RFC 2617 that were not specified in RFC 2069."
            // Without qop there is no nonce count, and so no guard against replay but to
            // take each nonce once; a store that verifies is asked for nothing of the kind.
            let is_taken = lenient.is_some_and(|entry| entry.qop_optional);
            return match is_taken && !self.config.store_verifies {
                true => Ok(None),
                false => Err(Bad::Refused(Failure::NotOffered)),
            };
        };
        let qop =
            Qop::from_token(qop.raw).ok_or(malformed("Digest Quality Of Protection Unknown"))?;
        let nonce_count = credentials
            .nc
            .ok_or(malformed("Digest Nonce Count Missing"))?;
        let cnonce = credentials
            .cnonce
            .ok_or(malformed("Digest Client Nonce Missing"))?;
        let nc =
            hash::unhex_u32(nonce_count.raw).ok_or(malformed("Digest Nonce Count Malformed"))?;
        if cnonce.raw.len() > CNONCE_MAX {
            return Err(malformed("Digest Client Nonce Too Long"));
        }
        Ok(Some(Counted {
            qop,
            nc,
            nonce_count: nonce_count.raw,
            cnonce: cnonce.raw,
        }))
    }
}

/// Credentials as they came.
struct Given<'m> {
    username: AuthValue<'m>,
    nonce: &'m [u8],
    uri: &'m [u8],
    counted: Option<Counted<'m>>,
    algorithm: Algorithm,
    response: &'m [u8],
}

/// What came with RFC 2617.
#[derive(Clone, Copy)]
struct Counted<'m> {
    qop: Qop,
    nc: u32,
    nonce_count: &'m [u8],
    cnonce: &'m [u8],
}

impl Given<'_> {
    /// `nonce:nc:cnonce:qop`, or `nonce`.
    fn between(&self) -> SmallVec<[u8; 128]> {
        let mut between = SmallVec::from_slice(self.nonce);
        if let Some(counted) = self.counted {
            let qop = counted.qop.as_str().as_bytes();
            for part in [counted.nonce_count, counted.cnonce, qop] {
                between.push(b':');
                between.extend_from_slice(part);
            }
        }
        between
    }

    fn to_digest(
        &self,
        message: &Message,
        realm: &Arc<str>,
        counted: Counted<'_>,
    ) -> DigestRequest {
        let body_digest = (counted.qop == Qop::AuthInt).then(|| {
            body_digest(self.algorithm, message.body())
                .as_bytes()
                .to_vec()
        });
        DigestRequest {
            user: self.username.bytes().collect(),
            realm: realm.clone(),
            nonce: self.nonce.to_vec(),
            method: message.method_token().to_vec(),
            uri: self.uri.to_vec(),
            qop: counted.qop,
            algorithm: self.algorithm,
            cnonce: counted.cnonce.to_vec(),
            nonce_count: counted.nonce_count.to_vec(),
            response: self.response.to_vec(),
            body_digest,
        }
    }
}

/// Reads a digest. One that is as long as another algorithm's can be read, and is not what
/// it is called.
fn response_of(algorithm: Algorithm, digits: &[u8]) -> Result<Raw, Bad> {
    if let Some(response) = hash::unhex(digits, algorithm.digest_len()) {
        return Ok(response);
    }
    let mut others = Algorithm::ALL.into_iter();
    match others.any(|other| hash::unhex(digits, other.digest_len()).is_some()) {
        true => Err(Bad::Refused(Failure::OtherAlgorithm)),
        false => Err(malformed("Digest Response Malformed")),
    }
}

fn is_same_uri(given: &[u8], message: &Message) -> bool {
    if given == message.request_uri() {
        return true;
    }
    match (Uri::parse(given), message.uri()) {
        (Some(given), Ok(uri)) => given.equals(&uri),
        _ => false,
    }
}

fn has_same_host(given: &[u8], message: &Message) -> bool {
    match (Uri::parse(given), message.uri()) {
        (Some(given), Ok(uri)) => {
            let (host, asked) = (given.host_port.host, uri.host_port.host);
            given.is_sip() && uri.is_sip() && host.eq_ignore_ascii_case(asked)
        }
        _ => false,
    }
}
