//! Certificates of users, and their keys (RFC 3261 23.1, RFC 8550).

use std::sync::Arc;

use aws_lc_rs::agreement;
use aws_lc_rs::rsa;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use sip_msg::Uri;

use crate::der::{
    BIT_STRING, BOOLEAN, INTEGER, Malformed, OCTET_STRING, OID, Reader, SEQUENCE, context, implicit,
};
use crate::error::IdentityError;
use crate::oid;

/// The kind of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// RSA with 2,048 bits or more.
    Rsa,
    /// ECDSA and ECDH on P-256.
    P256,
}

/// The bits of a key's uses (RFC 5280 4.2.1.3), from the first on.
mod usage {
    pub(super) const DIGITAL_SIGNATURE: u8 = 0x80;
    pub(super) const NON_REPUDIATION: u8 = 0x40;
    pub(super) const KEY_ENCIPHERMENT: u8 = 0x20;
    pub(super) const KEY_AGREEMENT: u8 = 0x08;
    pub(super) const KEY_CERT_SIGN: u8 = 0x04;
}

/// Why a certificate was not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    /// It is none.
    Malformed,
    /// Its key is neither RSA nor on P-256.
    OtherKey {
        /// The issuer's name, as an element.
        issuer: Vec<u8>,
        /// The contents of the serial number.
        serial: Vec<u8>,
    },
}

impl From<Malformed> for Unread {
    fn from(_: Malformed) -> Self {
        Self::Malformed
    }
}

/// A user's certificate, read as far as CMS needs it. That it was read says
/// nothing about whether it is to be believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    pub(crate) der: CertificateDer<'static>,
    /// The issuer's name, as an element.
    pub(crate) issuer: Vec<u8>,
    /// The contents of the serial number.
    pub(crate) serial: Vec<u8>,
    /// The subject key identifier; empty for none.
    pub(crate) key_id: Vec<u8>,
    /// SubjectPublicKeyInfo, as an element.
    pub(crate) public_key: Vec<u8>,
    pub(crate) kind: KeyKind,
    /// The URIs in subjectAltName.
    uris: Vec<String>,
    /// The uses of the key; `None` where nothing is said.
    usages: Option<u8>,
    /// Whether it is an authority's (RFC 5280 4.2.1.9).
    is_of_authority: bool,
    /// Whether it says what its key is for, and protecting mail is not among that.
    is_for_others: bool,
}

impl Certificate {
    /// Reads a certificate.
    ///
    /// # Errors
    /// It is none, or its key is neither RSA nor on P-256.
    pub fn from_der(der: &[u8]) -> Result<Self, IdentityError> {
        Self::read(der).map_err(|_| {
            IdentityError::new(
                "this is no certificate with an RSA or P-256 key",
                "make one with such a key",
            )
        })
    }

    /// Reads all certificates of a PEM text, at least one.
    ///
    /// # Errors
    /// It has none, or one that cannot be read.
    pub fn from_pem(pem: &[u8]) -> Result<Vec<Self>, IdentityError> {
        let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
        let none = IdentityError::new(
            "there is no certificate in it",
            "name a PEM file with -----BEGIN CERTIFICATE-----",
        );
        let found = read.map_err(|_| none.clone())?;
        if found.is_empty() {
            return Err(none);
        }
        found.iter().map(|der| Self::from_der(der)).collect()
    }

    pub(crate) fn read(der: &[u8]) -> Result<Self, Unread> {
        let mut outer = Reader::new(der);
        let mut tbs = outer.expect(SEQUENCE)?.inside().expect(SEQUENCE)?.inside();
        outer.end()?;
        tbs.optional(context(0))?;
        let serial = tbs.expect(INTEGER)?.contents.to_vec();
        tbs.expect(SEQUENCE)?;
        let issuer = tbs.expect(SEQUENCE)?.whole.to_vec();
        // Validity and subject.
        tbs.expect(SEQUENCE)?;
        tbs.expect(SEQUENCE)?;
        let public_key = tbs.expect(SEQUENCE)?;
        let Some(kind) = kind_of(public_key.inside())? else {
            return Err(Unread::OtherKey { issuer, serial });
        };
        let mut this = Self {
            der: CertificateDer::from(der.to_vec()),
            issuer,
            serial,
            key_id: Vec::new(),
            public_key: public_key.whole.to_vec(),
            kind,
            uris: Vec::new(),
            usages: None,
            is_of_authority: false,
            is_for_others: false,
        };
        tbs.optional(implicit(1))?;
        tbs.optional(implicit(2))?;
        if let Some(extensions) = tbs.optional(context(3))? {
            this.read_extensions(extensions.inside().expect(SEQUENCE)?.inside())?;
        }
        Ok(this)
    }

    fn read_extensions(&mut self, mut extensions: Reader<'_>) -> Result<(), Malformed> {
        while !extensions.is_empty() {
            let mut extension = extensions.expect(SEQUENCE)?.inside();
            let name = extension.expect(OID)?.contents;
            extension.optional(BOOLEAN)?;
            let mut value = extension.expect(OCTET_STRING)?.inside();
            match name {
                oid::KEY_ID => self.key_id = value.expect(OCTET_STRING)?.contents.to_vec(),
                oid::KEY_USAGE => {
                    // How many bits are unused, and the bits.
                    let bits = value.expect(BIT_STRING)?.contents;
                    self.usages = Some(bits.get(1).copied().unwrap_or(0));
                }
                oid::BASIC_CONSTRAINTS => {
                    let is_ca = value.expect(SEQUENCE)?.inside().optional(BOOLEAN)?;
                    self.is_of_authority = is_ca.is_some_and(|is_ca| is_ca.contents != [0]);
                }
                oid::PURPOSES => {
                    let mut purposes = value.expect(SEQUENCE)?.inside();
                    self.is_for_others = true;
                    while !purposes.is_empty() {
                        let purpose = purposes.expect(OID)?.contents;
                        self.is_for_others &= purpose != oid::EMAIL_PROTECTION;
                    }
                }
                oid::ALT_NAME => {
                    let mut names = value.expect(SEQUENCE)?.inside();
                    while !names.is_empty() {
                        let name = names.any()?;
                        // RFC 5280 4.2.1.6: uniformResourceIdentifier is [6].
                        if name.tag == implicit(6)
                            && let Ok(uri) = std::str::from_utf8(name.contents)
                        {
                            self.uris.push(uri.to_owned());
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The certificate itself.
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    /// The kind of its key.
    pub const fn kind(&self) -> KeyKind {
        self.kind
    }

    /// The URIs in subjectAltName.
    pub fn uris(&self) -> impl Iterator<Item = &str> {
        self.uris.iter().map(String::as_str)
    }

    /// Whether one of its URIs is this address-of-record.
    ///
    /// RFC 3261 23.1: "This address is composed of the concatenation of the "userinfo" "@" and
    /// "domainname" portions of a SIP or SIPS URI". Scheme, port and parameters do not count.
    pub fn speaks_for(&self, address_of_record: &str) -> bool {
        let Some(wanted) = address(address_of_record) else {
            return false;
        };
        self.uris
            .iter()
            .any(|uri| address(uri).as_ref() == Some(&wanted))
    }

    /// Whether its key may sign bodies.
    pub(crate) fn may_sign(&self) -> bool {
        self.may(usage::DIGITAL_SIGNATURE | usage::NON_REPUDIATION)
    }

    /// Whether its key may protect mail, which a body counts as (RFC 8550 4.4.4).
    pub(crate) const fn may_protect_mail(&self) -> bool {
        !self.is_for_others
    }

    /// Whether its key may vouch for others' certificates.
    pub(crate) fn may_certify(&self) -> bool {
        self.is_of_authority && self.may(usage::KEY_CERT_SIGN)
    }

    /// Whether bodies may be encrypted for its key.
    pub(crate) fn may_decrypt(&self) -> bool {
        self.may(match self.kind {
            KeyKind::Rsa => usage::KEY_ENCIPHERMENT,
            KeyKind::P256 => usage::KEY_AGREEMENT,
        })
    }

    fn may(&self, bits: u8) -> bool {
        self.usages.is_none_or(|usages| usages & bits != 0)
    }
}

/// The kind of a key, from SubjectPublicKeyInfo; `None` for one that is not known here.
fn kind_of(mut key: Reader<'_>) -> Result<Option<KeyKind>, Malformed> {
    let (algorithm, mut parameters) = key.algorithm()?;
    key.expect(BIT_STRING)?;
    Ok(match algorithm {
        oid::RSA => Some(KeyKind::Rsa),
        oid::EC_PUBLIC_KEY if parameters.expect(OID)?.contents == oid::P256 => Some(KeyKind::P256),
        _ => None,
    })
}

/// `user@domain` of a SIP or SIPS URI, without escapes and with the domain in lower
/// case; `None` for other URIs.
pub(crate) fn address(uri: &str) -> Option<Vec<u8>> {
    let uri = Uri::parse(uri.as_bytes()).filter(Uri::is_sip)?;
    let mut address = unescaped(uri.user?);
    address.push(b'@');
    address.extend(uri.host_port.host.iter().map(u8::to_ascii_lowercase));
    Some(address)
}

/// RFC 3261 19.1.4: "Characters other than those in the "reserved" set (see RFC 2396 [5]) are
/// equivalent to their ""%" HEX HEX" encoding."
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte == b'%'
            && let Some((digits, behind)) = after.split_at_checked(2)
            && let Some(byte) = hex(digits)
        {
            out.push(byte);
            rest = behind;
        } else {
            out.push(byte);
        }
    }
    out
}

fn hex(digits: &[u8]) -> Option<u8> {
    let text = std::str::from_utf8(digits).ok()?;
    u8::from_str_radix(text, 16).ok()
}

/// A private key, for what its kind can do.
pub(crate) enum PrivateKey {
    Rsa {
        signs: Box<rsa::KeyPair>,
        decrypts: rsa::Pkcs1PrivateDecryptingKey,
    },
    P256 {
        signs: Box<EcdsaKeyPair>,
        agrees: agreement::PrivateKey,
    },
}

/// A user's certificate, the chain above it, and the private key.
pub struct Identity {
    pub(crate) certificate: Certificate,
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: Arc<PrivateKey>,
}

// A key is inside.
impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity")
            .field("kind", &self.certificate.kind)
            .field("uris", &self.certificate.uris)
            .finish_non_exhaustive()
    }
}

impl Identity {
    /// From PEM texts: the user's certificate, and those above it where there are any; and
    /// its key in PKCS#8.
    ///
    /// # Errors
    /// What cannot be read, or does not belong together, and what to do.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, IdentityError> {
        let mut certificates = Certificate::from_pem(chain)?.into_iter();
        let Some(certificate) = certificates.next() else {
            return Err(IdentityError::new(
                "there is no certificate in it",
                "name a PEM file",
            ));
        };
        let key = PrivatePkcs8KeyDer::from_pem_slice(key).map_err(|_| {
            IdentityError::new(
                "there is no private key in PKCS#8 (-----BEGIN PRIVATE KEY-----)",
                "write it so with: openssl pkcs8 -topk8 -nodes -in KEY",
            )
        })?;
        let key = PrivateKey::new(&certificate, key.secret_pkcs8_der())?;
        Ok(Self {
            certificate,
            chain: certificates.map(|above| above.der).collect(),
            key: Arc::new(key),
        })
    }

    /// The same key with another certificate for it: reading a key takes longer than reading a
    /// certificate.
    ///
    /// # Errors
    /// The text has no certificate, or one of another key.
    pub fn with_certificate(&self, chain: &[u8]) -> Result<Self, IdentityError> {
        let mut certificates = Certificate::from_pem(chain)?.into_iter();
        let certificate = certificates
            .next()
            .filter(|other| other.public_key == self.certificate.public_key);
        let Some(certificate) = certificate else {
            return Err(IdentityError::new(
                "the certificate is of another key",
                "name one of the same key",
            ));
        };
        Ok(Self {
            certificate,
            chain: certificates.map(|above| above.der).collect(),
            key: Arc::clone(&self.key),
        })
    }

    /// The user's certificate.
    pub const fn certificate(&self) -> &Certificate {
        &self.certificate
    }
}

impl PrivateKey {
    fn new(certificate: &Certificate, pkcs8: &[u8]) -> Result<Self, IdentityError> {
        let refused = IdentityError::new(
            "the private key is of another kind than the certificate's, or too short",
            "name the key that the certificate was made for: RSA with 2,048 bits or more, or P-256",
        );
        let (key, public) = match certificate.kind {
            KeyKind::Rsa => {
                use aws_lc_rs::signature::KeyPair as _;
                let signs = rsa::KeyPair::from_pkcs8(pkcs8).map_err(|_| refused.clone())?;
                let public = signs.public_key().as_ref().to_vec();
                let decrypts = rsa::PrivateDecryptingKey::from_pkcs8(pkcs8)
                    .map_err(|_| refused.clone())
                    .and_then(|key| {
                        rsa::Pkcs1PrivateDecryptingKey::new(key).map_err(|_| refused.clone())
                    })?;
                let signs = Box::new(signs);
                (Self::Rsa { signs, decrypts }, public)
            }
            KeyKind::P256 => {
                use aws_lc_rs::signature::KeyPair as _;
                let signs = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, pkcs8)
                    .map_err(|_| refused.clone())?;
                let public = signs.public_key().as_ref().to_vec();
                let agrees =
                    agreement::PrivateKey::from_private_key_der(&agreement::ECDH_P256, pkcs8)
                        .map_err(|_| refused)?;
                let signs = Box::new(signs);
                (Self::P256 { signs, agrees }, public)
            }
        };
        // The key itself stands last in SubjectPublicKeyInfo.
        if !certificate.public_key.ends_with(&public) {
            return Err(IdentityError::new(
                "the private key is not the certificate's",
                "name the key that the certificate was made for",
            ));
        }
        Ok(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::make::{Authority, Kind};

    #[test]
    fn a_certificate_speaks_for_the_addresses_in_it() {
        let made = Authority::new().issue(
            Kind::P256,
            &["sip:alice@Example.org", "sips:bob%40home@example.net:5061"],
        );
        let certificate = made.certificate();
        assert_eq!(certificate.kind(), KeyKind::P256);
        assert_eq!(certificate.uris().count(), 2);
        for (aor, expected) in [
            ("sip:alice@example.org", true),
            ("sips:alice@EXAMPLE.org;transport=tls", true),
            ("sip:%61lice@example.org", true),
            ("sip:Alice@example.org", false),
            ("sip:alice@example.com", false),
            ("sip:example.org", false),
            ("sip:bob%40home@example.net", true),
            ("tel:+1234", false),
            ("", false),
        ] {
            assert_eq!(certificate.speaks_for(aor), expected, "{aor}");
        }
    }

    #[test]
    fn a_key_of_another_certificate_is_refused() {
        let authority = Authority::new();
        let (chain, _) = authority.issue_pem(Kind::P256, &["sip:a@b"]);
        let (rsa_chain, rsa_key) = authority.issue_pem(Kind::Rsa2048, &["sip:a@b"]);
        let (_, other) = authority.issue_pem(Kind::P256, &["sip:a@b"]);
        let refused = |chain: &str, key: &str| {
            Identity::from_pem(chain.as_bytes(), key.as_bytes())
                .unwrap_err()
                .what
        };
        assert!(refused(&chain, &other).contains("not the certificate's"));
        assert!(refused(&chain, &rsa_key).contains("another kind"));
        assert!(refused(&rsa_chain, &other).contains("another kind"));
        assert!(refused(&chain, "nothing").contains("PKCS#8"));
        assert!(refused("nothing", &other).contains("no certificate"));
        assert!(Identity::from_pem(rsa_chain.as_bytes(), rsa_key.as_bytes()).is_ok());
    }

    #[test]
    fn no_cut_of_a_certificate_is_one() {
        let made = Authority::new().issue(Kind::P256, &["sip:alice@example.org"]);
        let der = made.certificate().der();
        for cut in 0..der.len() {
            assert!(Certificate::from_der(&der[..cut]).is_err(), "{cut}");
        }
        assert!(Certificate::from_der(&[der, b"\0"].concat()).is_err());
    }
}
