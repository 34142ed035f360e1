//! SignedData (RFC 5652 5): signatures that do not hold what they sign, as `multipart/signed`
//! has them, and those that do.

use std::borrow::Cow;

use aws_lc_rs::digest::{self, Digest};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::RSA_PKCS1_SHA256;
use rustls_pki_types::{CertificateDer, SignatureVerificationAlgorithm};
use webpki::EndEntityCert;
use webpki::aws_lc_rs as algorithms;

use crate::certificate::{Certificate, Identity, KeyKind, PrivateKey, Unread};
use crate::der::{
    self, Element, GENERALIZED_TIME, INTEGER, Malformed, OCTET_STRING, OID, Reader, SEQUENCE, SET,
    UTC_TIME, context, implicit,
};
use crate::error::{OpenError, SealError};
use crate::oid;

/// The most certificates that are read of one message.
const CERTIFICATES_MAX: usize = 8;

/// The name of the digest, as `multipart/signed` tells it (RFC 8551 3.5.3.2).
pub(crate) const MICALG: &str = "sha-256";

/// Signs a content that stays outside: the DER of a ContentInfo with the signer's
/// certificate and those above it.
pub(crate) fn sign(
    content: &[u8],
    identity: &Identity,
    now_unix_s: u64,
) -> Result<Vec<u8>, SealError> {
    let attributes = attributes(&digest::digest(&digest::SHA256, content), now_unix_s);
    let mut signed = Vec::with_capacity(256);
    der::value(&mut signed, SET, &attributes);
    let (algorithm, signature) = signature(&identity.key, &signed)?;
    let certificate = &identity.certificate;
    let mut out = Vec::with_capacity(1_024 + certificate.der.len());
    der::write(&mut out, SEQUENCE, |out| {
        der::oid(out, oid::SIGNED_DATA);
        der::write(out, context(0), |out| {
            der::write(out, SEQUENCE, |out| {
                // RFC 5652 5.1: version 1 where certificates are plain ones and the content is data.
                der::value(out, INTEGER, &[1]);
                der::write(out, SET, |out| der::algorithm(out, oid::SHA256));
                der::write(out, SEQUENCE, |out| der::oid(out, oid::DATA));
                // RFC 3261 23.2: "Whenever the CMS SignedData message is used in S/MIME for SIP, it MUST
                // contain the certificate bearing the public key necessary to verify the signature."
                der::write(out, context(0), |out| {
                    out.extend_from_slice(&certificate.der);
                    for above in &identity.chain {
                        out.extend_from_slice(above);
                    }
                });
                der::write(out, SET, |out| {
                    der::write(out, SEQUENCE, |out| {
                        der::value(out, INTEGER, &[1]);
                        write_name(out, certificate);
                        der::algorithm(out, oid::SHA256);
                        der::value(out, context(0), &attributes);
                        match algorithm {
                            // RFC 3370 3.2: the parameters of rsaEncryption are NULL.
                            oid::RSA => der::algorithm_null(out, oid::RSA),
                            other => der::algorithm(out, other),
                        }
                        der::value(out, OCTET_STRING, &signature);
                    });
                });
            });
        });
    });
    Ok(out)
}

/// Writes how a certificate is named: by its issuer and its number there.
pub(crate) fn write_name(out: &mut Vec<u8>, certificate: &Certificate) {
    der::write(out, SEQUENCE, |out| {
        out.extend_from_slice(&certificate.issuer);
        der::value(out, INTEGER, &certificate.serial);
    });
}

/// The signed attributes, in the order of DER (X.690 11.6), without what is around them.
fn attributes(digest: &Digest, now_unix_s: u64) -> Vec<u8> {
    let attribute = |name: &[u8], write: &dyn Fn(&mut Vec<u8>)| {
        let mut out = Vec::new();
        der::write(&mut out, SEQUENCE, |out| {
            der::oid(out, name);
            der::write(out, SET, write);
        });
        out
    };
    let mut all = [
        attribute(oid::CONTENT_TYPE, &|out| der::oid(out, oid::DATA)),
        attribute(oid::SIGNING_TIME, &|out| write_time(out, now_unix_s)),
        attribute(oid::MESSAGE_DIGEST, &|out| {
            der::value(out, OCTET_STRING, digest.as_ref());
        }),
        // RFC 3261 23.3: "Senders of S/MIME bodies SHOULD use the "SMIMECapabilities" (see Section
        // 2.5.2 of [24]) attribute to express their capabilities"
        attribute(oid::CAPABILITIES, &|out| {
            der::write(out, SEQUENCE, |out| {
                for cipher in [
                    oid::AES_256_GCM,
                    oid::AES_128_GCM,
                    oid::AES_256_CBC,
                    oid::AES_128_CBC,
                ] {
                    der::algorithm(out, cipher);
                }
            });
        }),
    ];
    all.sort();
    all.concat()
}

/// The identifier of the algorithm, and the signature.
fn signature(key: &PrivateKey, message: &[u8]) -> Result<(&'static [u8], Vec<u8>), SealError> {
    let random = SystemRandom::new();
    match key {
        PrivateKey::Rsa { signs, .. } => {
            let mut signature = vec![0; signs.public_modulus_len()];
            signs.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature)?;
            Ok((oid::RSA, signature))
        }
        PrivateKey::P256 { signs, .. } => {
            let signature = signs.sign(&random, message)?;
            Ok((oid::ECDSA_SHA256, signature.as_ref().to_vec()))
        }
    }
}

/// Writes a time (RFC 5652 11.3): UTCTime up to 2049, GeneralizedTime from then on.
fn write_time(out: &mut Vec<u8>, unix_s: u64) {
    let (day, second) = (unix_s / 86_400, unix_s % 86_400);
    let (year, month, day) = date(day);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    if (1950..2050).contains(&year) {
        let text = format!(
            "{:02}{month:02}{day:02}{hour:02}{minute:02}{second:02}Z",
            year % 100
        );
        der::value(out, UTC_TIME, text.as_bytes());
    } else {
        let text = format!("{year:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}Z");
        der::value(out, GENERALIZED_TIME, text.as_bytes());
    }
}

/// Year, month and day of a day counted from the first of January 1970.
fn date(days: u64) -> (u64, u64, u64) {
    // Counted from the first of March of the year 0, a leap day is the last of its year, and
    // 400 years have 146,097 days.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let (month, next) = if month_from_march < 10 {
        (month_from_march + 3, 0)
    } else {
        (month_from_march - 9, 1)
    };
    (era * 400 + year_of_era + next, month, day)
}

/// A signature that was read and not yet verified.
pub(crate) struct SignedData<'a> {
    /// What it holds, if it holds what it signs.
    pub(crate) content: Option<Cow<'a, [u8]>>,
    certificates: Vec<&'a [u8]>,
    info: SignerInfo<'a>,
}

struct SignerInfo<'a> {
    signer: Name<'a>,
    digest: &'a [u8],
    /// The element of the signed attributes.
    attributes: Element<'a>,
    algorithm: &'a [u8],
    signature: Cow<'a, [u8]>,
}

/// How a certificate is named.
#[derive(Clone, Copy)]
pub(crate) enum Name<'a> {
    /// By its issuer and the number that it has there.
    IssuerAndSerial(&'a [u8], &'a [u8]),
    /// By its subject key identifier.
    KeyId(&'a [u8]),
}

impl<'a> Name<'a> {
    /// Reads it; `key_id` is the tag of a subject key identifier there.
    pub(crate) fn read(reader: &mut Reader<'a>, key_id: u8) -> Result<Self, Malformed> {
        if let Some(id) = reader.optional(key_id)? {
            return Ok(Self::KeyId(id.contents));
        }
        let mut both = reader.expect(SEQUENCE)?.inside();
        let issuer = both.expect(SEQUENCE)?.whole;
        Ok(Self::IssuerAndSerial(
            issuer,
            both.expect(INTEGER)?.contents,
        ))
    }

    pub(crate) fn is_of(&self, certificate: &Certificate) -> bool {
        match *self {
            Self::IssuerAndSerial(issuer, serial) => {
                certificate.issuer == issuer && certificate.serial == serial
            }
            Self::KeyId(id) => !id.is_empty() && certificate.key_id == id,
        }
    }

    /// Whether it may be that of a certificate of which only this was read.
    fn may_be(&self, issuer: &[u8], serial: &[u8]) -> bool {
        match *self {
            Self::IssuerAndSerial(by, number) => (by, number) == (issuer, serial),
            Self::KeyId(_) => true,
        }
    }
}

/// Who signed, and what came with it.
pub(crate) struct Signer<'a> {
    pub(crate) certificate: Certificate,
    pub(crate) others: Vec<CertificateDer<'a>>,
}

impl<'a> SignedData<'a> {
    /// Reads what is in the `[0]` of a ContentInfo of type signed-data.
    pub(crate) fn read(mut content: Reader<'a>) -> Result<Self, OpenError> {
        let mut signed = content.expect(SEQUENCE)?.inside();
        signed.expect(INTEGER)?;
        signed.expect(SET)?;
        let mut encapsulated = signed.expect(SEQUENCE)?.inside();
        if encapsulated.expect(OID)?.contents != oid::DATA {
            return Err(OpenError::Unsupported("a signature of something but data"));
        }
        let content = match encapsulated.optional(context(0))? {
            Some(explicit) => explicit.inside().octets(OCTET_STRING)?,
            None => None,
        };
        let mut certificates = Vec::new();
        if let Some(set) = signed.optional(context(0))? {
            let mut set = set.inside();
            while !set.is_empty() {
                let certificate = set.any()?;
                // Other kinds, of attributes and of long ago, have tags of their own.
                if certificate.tag == SEQUENCE {
                    certificates.push(certificate.whole);
                }
                if certificates.len() > CERTIFICATES_MAX {
                    return Err(OpenError::Unsupported("so many certificates"));
                }
            }
        }
        signed.optional(context(1))?;
        let mut infos = signed.expect(SET)?.inside();
        if infos.is_empty() {
            return Err(OpenError::NotSigned);
        }
        let info = SignerInfo::read(infos.expect(SEQUENCE)?.inside())?;
        // RFC 3261 23.3: "Parallel signatures SHOULD NOT be used."
        if !infos.is_empty() {
            return Err(OpenError::Unsupported("parallel signatures"));
        }
        Ok(Self {
            content,
            certificates,
            info,
        })
    }

    /// Verifies that the signer signed this content. Whether he is to be believed is
    /// another matter.
    pub(crate) fn verify(&self, content: &[u8]) -> Result<Signer<'a>, OpenError> {
        let mut found = None;
        let mut missing = OpenError::NoCertificate;
        let mut others = Vec::new();
        for &der in &self.certificates {
            match Certificate::read(der) {
                Ok(read) if found.is_none() && self.info.signer.is_of(&read) => {
                    found = Some(read);
                }
                Err(Unread::OtherKey { issuer, serial })
                    if self.info.signer.may_be(&issuer, &serial) =>
                {
                    missing = OpenError::Unsupported("the kind of the signer's key");
                    others.push(CertificateDer::from(der));
                }
                _ => others.push(CertificateDer::from(der)),
            }
        }
        let certificate = found.ok_or(missing)?;
        let (digest, algorithm) = self.info.algorithms(certificate.kind)?;
        self.info
            .check_attributes(digest::digest(digest, content).as_ref())?;
        // RFC 5652 5.4: what is signed is the encoding as a SET OF, whatever its tag was. It has to be
        // DER, and of DER is known at once that its length is definite.
        let attributes = self.info.attributes;
        if !attributes.is_definite {
            return Err(OpenError::Cms);
        }
        let mut signed = attributes.whole.to_vec();
        if let Some(tag) = signed.first_mut() {
            *tag = SET;
        }
        EndEntityCert::try_from(&certificate.der)
            .map_err(|_| OpenError::Certificate)?
            .verify_signature(algorithm, &signed, &self.info.signature)
            .map_err(|_| OpenError::BadSignature)?;
        Ok(Signer {
            certificate,
            others,
        })
    }
}

impl<'a> SignerInfo<'a> {
    fn read(mut info: Reader<'a>) -> Result<Self, OpenError> {
        info.expect(INTEGER)?;
        let signer = Name::read(&mut info, implicit(0))?;
        let (digest, _) = info.algorithm()?;
        // Without them, somebody could pass attributes off as a content that was signed.
        let attributes = info
            .optional(context(0))?
            .ok_or(OpenError::Unsupported("a signature without attributes"))?;
        let (algorithm, _) = info.algorithm()?;
        let signature = info.octets(OCTET_STRING)?.ok_or(Malformed)?;
        Ok(Self {
            signer,
            digest,
            attributes,
            algorithm,
            signature,
        })
    }

    /// How the content is digested, and how the signature is verified.
    fn algorithms(
        &self,
        kind: KeyKind,
    ) -> Result<
        (
            &'static digest::Algorithm,
            &'static dyn SignatureVerificationAlgorithm,
        ),
        OpenError,
    > {
        use KeyKind::{P256, Rsa};
        Ok(match (kind, self.digest, self.algorithm) {
            (Rsa, oid::SHA256, oid::RSA | oid::RSA_SHA256) => {
                (&digest::SHA256, algorithms::RSA_PKCS1_2048_8192_SHA256)
            }
            (Rsa, oid::SHA512, oid::RSA | oid::RSA_SHA512) => {
                (&digest::SHA512, algorithms::RSA_PKCS1_2048_8192_SHA512)
            }
            (P256, oid::SHA256, oid::ECDSA_SHA256) => {
                (&digest::SHA256, algorithms::ECDSA_P256_SHA256)
            }
            (P256, oid::SHA512, oid::ECDSA_SHA512) => {
                (&digest::SHA512, algorithms::ECDSA_P256_SHA512)
            }
            _ => return Err(OpenError::Unsupported("this algorithm of a signature")),
        })
    }

    /// RFC 5652 11.1 and 11.2: content type and digest are there, each once, and fit.
    fn check_attributes(&self, digest: &[u8]) -> Result<(), OpenError> {
        let mut attributes = self.attributes.inside();
        let (mut types, mut digests) = (0, 0);
        while !attributes.is_empty() {
            let mut attribute = attributes.expect(SEQUENCE)?.inside();
            let name = attribute.expect(OID)?.contents;
            let mut values = attribute.expect(SET)?.inside();
            if name == oid::CONTENT_TYPE {
                types += 1;
                if values.expect(OID)?.contents != oid::DATA {
                    return Err(OpenError::BadSignature);
                }
            } else if name == oid::MESSAGE_DIGEST {
                digests += 1;
                if values.expect(OCTET_STRING)?.contents != digest {
                    return Err(OpenError::BadSignature);
                }
            }
        }
        if (types, digests) == (1, 1) {
            Ok(())
        } else {
            Err(OpenError::Cms)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (unix_s, text) in [
            (0, "700101000000Z"),
            (951_782_399, "000228235959Z"),
            (951_782_400, "000229000000Z"),
            (951_868_800, "000301000000Z"),
            (1_793_464_207, "261031163007Z"),
            (2_524_607_999, "491231235959Z"),
            (2_524_608_000, "20500101000000Z"),
            (4_107_542_400, "21000301000000Z"),
        ] {
            let mut out = Vec::new();
            write_time(&mut out, unix_s);
            assert_eq!(std::str::from_utf8(&out[2..]).unwrap(), text, "{unix_s}");
        }
    }

    #[test]
    fn attributes_stand_in_the_order_of_der() {
        let all = attributes(&digest::digest(&digest::SHA256, b""), 1_800_000_000);
        let mut reader = Reader::new(&all);
        let mut before: &[u8] = &[];
        let mut count = 0;
        while !reader.is_empty() {
            let attribute = reader.expect(SEQUENCE).unwrap().whole;
            assert!(before < attribute);
            before = attribute;
            count += 1;
        }
        assert_eq!(count, 4);
    }
}
