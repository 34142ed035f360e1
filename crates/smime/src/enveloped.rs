//! EnvelopedData (RFC 5652 6) and AuthEnvelopedData (RFC 5083): bodies for one
//! recipient, by RSA key transport or by key agreement on P-256 (RFC 5753).

use std::borrow::Cow;

use aws_lc_rs::agreement::{self, UnparsedPublicKey};
use aws_lc_rs::digest;
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::key_wrap::{AES_128, AES_256, AesKek, KeyWrap};
use aws_lc_rs::rsa::{Pkcs1PublicEncryptingKey, PublicEncryptingKey};
use zeroize::Zeroizing;

use crate::certificate::{Certificate, Identity, KeyKind, PrivateKey};
use crate::content::{Cipher, ContentKey, Parameters, encrypt, random_key};
use crate::der::{
    self, BIT_STRING, INTEGER, OCTET_STRING, Reader, SEQUENCE, SET, context, implicit,
};
use crate::error::{OpenError, SealError};
use crate::oid;
use crate::signed::{Name, write_name};

/// The most recipients that are looked at.
const RECIPIENTS_MAX: usize = 64;

/// Encrypts a content for the holder of a certificate: the DER of a ContentInfo.
pub(crate) fn seal(
    content: &[u8],
    recipient: &Certificate,
    cipher: Cipher,
) -> Result<Vec<u8>, SealError> {
    if !recipient.may_decrypt() {
        return Err(SealError::Refused);
    }
    let key = random_key(cipher.key_len())?;
    let encrypted = encrypt(cipher, &key, content)?;
    let mut recipient_info = Vec::with_capacity(512);
    match recipient.kind {
        KeyKind::Rsa => write_transport(&mut recipient_info, recipient, &key)?,
        KeyKind::P256 => write_agreement(&mut recipient_info, recipient, &key)?,
    }
    // RFC 5652 6.1 and RFC 5083 2.1.
    let (kind, version) = match (cipher.is_authenticated(), recipient.kind) {
        (true, _) => (oid::AUTH_ENVELOPED_DATA, 0),
        (false, KeyKind::Rsa) => (oid::ENVELOPED_DATA, 0),
        (false, KeyKind::P256) => (oid::ENVELOPED_DATA, 2),
    };
    let mut out = Vec::with_capacity(content.len() + 640);
    der::write(&mut out, SEQUENCE, |out| {
        der::oid(out, kind);
        der::write(out, context(0), |out| {
            der::write(out, SEQUENCE, |out| {
                der::value(out, INTEGER, &[version]);
                der::value(out, SET, &recipient_info);
                der::write(out, SEQUENCE, |out| {
                    der::oid(out, oid::DATA);
                    out.extend_from_slice(&encrypted.algorithm);
                    der::value(out, implicit(0), &encrypted.text);
                });
                if cipher.is_authenticated() {
                    der::value(out, OCTET_STRING, &encrypted.tag);
                }
            });
        });
    });
    Ok(out)
}

/// KeyTransRecipientInfo (RFC 5652 6.2.1).
fn write_transport(
    out: &mut Vec<u8>,
    recipient: &Certificate,
    key: &ContentKey,
) -> Result<(), Unspecified> {
    let public = PublicEncryptingKey::from_der(&recipient.public_key)?;
    let public = Pkcs1PublicEncryptingKey::new(public)?;
    let mut wrapped = vec![0; public.ciphertext_size()];
    let wrapped = &*public.encrypt(key, &mut wrapped)?;
    der::write(out, SEQUENCE, |out| {
        der::value(out, INTEGER, &[0]);
        write_name(out, recipient);
        der::algorithm_null(out, oid::RSA);
        der::value(out, OCTET_STRING, wrapped);
    });
    Ok(())
}

/// KeyAgreeRecipientInfo (RFC 5652 6.2.2) with a key of the sender's for this message alone.
fn write_agreement(
    out: &mut Vec<u8>,
    recipient: &Certificate,
    key: &ContentKey,
) -> Result<(), Unspecified> {
    let own = agreement::PrivateKey::generate(&agreement::ECDH_P256)?;
    let public = own.compute_public_key()?;
    let wrap = Wrap::for_key_len(key.len());
    let mut info = Vec::new();
    der::algorithm(&mut info, wrap.oid());
    let peer = UnparsedPublicKey::new(&agreement::ECDH_P256, &recipient.public_key);
    let kek = agreement::agree(&own, peer, Unspecified, |secret| {
        Ok(derive(
            &digest::SHA256,
            secret,
            &shared_info(&info, None, wrap.key_len()),
            wrap.key_len(),
        ))
    })?;
    let mut wrapped = vec![0; key.len() + 8];
    let wrapped = &*wrap.kek(&kek)?.wrap(key, &mut wrapped)?;
    der::write(out, context(1), |out| {
        der::value(out, INTEGER, &[3]);
        der::write(out, context(0), |out| {
            der::write(out, context(1), |out| {
                der::write(out, SEQUENCE, |out| {
                    der::oid(out, oid::EC_PUBLIC_KEY);
                    der::oid(out, oid::P256);
                });
                der::write(out, BIT_STRING, |out| {
                    out.push(0);
                    out.extend_from_slice(public.as_ref());
                });
            });
        });
        der::write(out, SEQUENCE, |out| {
            der::oid(out, oid::ECDH_SHA256_KDF);
            out.extend_from_slice(&info);
        });
        der::write(out, SEQUENCE, |out| {
            der::write(out, SEQUENCE, |out| {
                write_name(out, recipient);
                der::value(out, OCTET_STRING, wrapped);
            });
        });
    });
    Ok(())
}

/// How a content's key is wrapped after a key agreement.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wrap {
    Aes128,
    Aes256,
}

impl Wrap {
    /// RFC 5753 7.2: no weaker than the content's cipher.
    const fn for_key_len(length: usize) -> Self {
        if length <= 16 {
            Self::Aes128
        } else {
            Self::Aes256
        }
    }

    const fn oid(self) -> &'static [u8] {
        match self {
            Self::Aes128 => oid::AES_128_WRAP,
            Self::Aes256 => oid::AES_256_WRAP,
        }
    }

    const fn key_len(self) -> usize {
        match self {
            Self::Aes128 => 16,
            Self::Aes256 => 32,
        }
    }

    fn kek(self, key: &[u8]) -> Result<AesKek, Unspecified> {
        match self {
            Self::Aes128 => AesKek::new(&AES_128, key),
            Self::Aes256 => AesKek::new(&AES_256, key),
        }
    }
}

/// ECC-CMS-SharedInfo (RFC 5753 7.2). `wrap` is the algorithm of the wrapping, as it stands in
/// the message.
fn shared_info(wrap: &[u8], user_material: Option<&[u8]>, key_len: usize) -> Vec<u8> {
    let mut out = Vec::new();
    // A key has 128 or 256 bits.
    let bits = (key_len as u32) * 8;
    der::write(&mut out, SEQUENCE, |out| {
        out.extend_from_slice(wrap);
        if let Some(material) = user_material {
            der::write(out, context(0), |out| {
                der::value(out, OCTET_STRING, material)
            });
        }
        der::write(out, context(2), |out| {
            der::value(out, OCTET_STRING, &bits.to_be_bytes());
        });
    });
    out
}

/// The key derivation of ANSI X9.63 (SEC 1 3.6.1).
fn derive(
    hash: &'static digest::Algorithm,
    secret: &[u8],
    info: &[u8],
    key_len: usize,
) -> Zeroizing<Vec<u8>> {
    let mut key = Zeroizing::new(Vec::with_capacity(key_len + 32));
    for counter in 1_u32.. {
        if key.len() >= key_len {
            break;
        }
        let mut context = digest::Context::new(hash);
        context.update(secret);
        context.update(&counter.to_be_bytes());
        context.update(info);
        key.extend_from_slice(context.finish().as_ref());
    }
    key.truncate(key_len);
    key
}

/// Opens what is in the `[0]` of a ContentInfo of type enveloped-data or, where
/// `is_authenticated`, authEnveloped-data.
pub(crate) fn open<'i>(
    mut content: Reader<'_>,
    is_authenticated: bool,
    identities: impl Iterator<Item = &'i Identity> + Clone,
) -> Result<Vec<u8>, OpenError> {
    let mut enveloped = content.expect(SEQUENCE)?.inside();
    enveloped.expect(INTEGER)?;
    enveloped.optional(context(0))?;
    let recipients = enveloped.expect(SET)?.inside();
    let mut encrypted = enveloped.expect(SEQUENCE)?.inside();
    // Its type is not authenticated, and said to be data.
    encrypted.any()?;
    let parameters = Parameters::read(&mut encrypted)?;
    if parameters.cipher.is_authenticated() != is_authenticated {
        return Err(OpenError::Cms);
    }
    let text = encrypted.octets(implicit(0))?.ok_or(OpenError::Cms)?;
    let (mut attributes, mut tag) = (Vec::new(), Cow::Borrowed(&[][..]));
    if is_authenticated {
        if let Some(found) = enveloped.optional(context(1))? {
            // RFC 5083 2.2: they are covered as a SET OF.
            attributes = found.whole.to_vec();
            if let Some(tag) = attributes.first_mut() {
                *tag = SET;
            }
        }
        tag = enveloped.octets(OCTET_STRING)?.ok_or(OpenError::Cms)?;
    }
    let key = content_key(recipients, parameters.cipher.key_len(), identities)?;
    parameters
        .decrypt(&key, text.into_owned(), &attributes, &tag)
        .map_err(|_| OpenError::Undecipherable)
}

/// The content's key, from the first recipient that is one of us.
fn content_key<'i>(
    mut recipients: Reader<'_>,
    key_len: usize,
    identities: impl Iterator<Item = &'i Identity> + Clone,
) -> Result<ContentKey, OpenError> {
    for _ in 0..RECIPIENTS_MAX {
        if recipients.is_empty() {
            break;
        }
        let recipient = recipients.any()?;
        let opened = match recipient.tag {
            SEQUENCE => open_transport(recipient.inside(), key_len, identities.clone())?,
            tag if tag == context(1) => open_agreement(recipient.inside(), identities.clone())?,
            // A password, a key that was shared before: neither is known here.
            _ => None,
        };
        if let Some(key) = opened {
            return Ok(key);
        }
    }
    Err(OpenError::NotForUs)
}

/// `None` where it is for somebody else.
fn open_transport<'i>(
    mut info: Reader<'_>,
    key_len: usize,
    mut identities: impl Iterator<Item = &'i Identity>,
) -> Result<Option<ContentKey>, OpenError> {
    info.expect(INTEGER)?;
    let name = Name::read(&mut info, implicit(0))?;
    let Some(identity) = identities.find(|identity| name.is_of(&identity.certificate)) else {
        return Ok(None);
    };
    let PrivateKey::Rsa { decrypts, .. } = &*identity.key else {
        return Err(OpenError::Cms);
    };
    let (algorithm, _) = info.algorithm()?;
    if algorithm != oid::RSA {
        return Err(OpenError::Unsupported("this transport of a key"));
    }
    let wrapped = info.octets(OCTET_STRING)?.ok_or(OpenError::Cms)?;
    // RFC 3218 2.3: a key that does not come out is replaced by a random one, so that whoever
    // sends many such bodies learns nothing about the padding from the answers.
    let mut key = random_key(key_len).map_err(|_| OpenError::Undecipherable)?;
    let mut plain = Zeroizing::new(vec![0; decrypts.min_output_size()]);
    if let Ok(found) = decrypts.decrypt(&wrapped, &mut plain)
        && found.len() == key_len
    {
        key.copy_from_slice(found);
    }
    Ok(Some(key))
}

/// `None` where it is for somebody else.
fn open_agreement<'i>(
    mut info: Reader<'_>,
    identities: impl Iterator<Item = &'i Identity> + Clone,
) -> Result<Option<ContentKey>, OpenError> {
    info.expect(INTEGER)?;
    let mut originator = info.expect(context(0))?.inside();
    let public = originator.any()?;
    let material = match info.optional(context(1))? {
        Some(explicit) => explicit.inside().octets(OCTET_STRING)?,
        None => None,
    };
    let (algorithm, mut wrap_info) = info.algorithm()?;
    let mut keys = info.expect(SEQUENCE)?.inside();
    for _ in 0..RECIPIENTS_MAX {
        if keys.is_empty() {
            break;
        }
        let mut entry = keys.expect(SEQUENCE)?.inside();
        let name = match entry.optional(context(0))? {
            // RecipientKeyIdentifier; a date and other things may follow.
            Some(by_id) => Name::KeyId(by_id.inside().expect(OCTET_STRING)?.contents),
            None => Name::read(&mut entry, implicit(0))?,
        };
        let wrapped = entry.octets(OCTET_STRING)?.ok_or(OpenError::Cms)?;
        let mut identities = identities.clone();
        let Some(identity) = identities.find(|identity| name.is_of(&identity.certificate)) else {
            continue;
        };
        let PrivateKey::P256 { agrees, .. } = &*identity.key else {
            return Err(OpenError::Cms);
        };
        // RFC 5753 3.1.1: the originator is a key of his, made for this message.
        if public.tag != context(1) {
            return Err(OpenError::Unsupported(
                "a sender's key that is not in the body",
            ));
        }
        let mut public = public.inside();
        public.expect(SEQUENCE)?;
        let point = public.expect(BIT_STRING)?.contents;
        let point = point.split_first().map_or(&[][..], |(_, point)| point);
        let hash = match algorithm {
            oid::ECDH_SHA256_KDF => &digest::SHA256,
            oid::ECDH_SHA1_KDF => &digest::SHA1_FOR_LEGACY_USE_ONLY,
            _ => return Err(OpenError::Unsupported("this agreement of a key")),
        };
        let wrap_element = wrap_info.expect(SEQUENCE)?;
        let wrap = match wrap_element.inside().expect(der::OID)?.contents {
            oid::AES_128_WRAP => Wrap::Aes128,
            oid::AES_256_WRAP => Wrap::Aes256,
            _ => return Err(OpenError::Unsupported("this wrapping of a key")),
        };
        let shared = shared_info(wrap_element.whole, material.as_deref(), wrap.key_len());
        let peer = UnparsedPublicKey::new(&agreement::ECDH_P256, point);
        let opened = agreement::agree(agrees, peer, Unspecified, |secret| {
            let kek = derive(hash, secret, &shared, wrap.key_len());
            let mut key = Zeroizing::new(vec![0; wrapped.len()]);
            let length = wrap.kek(&kek)?.unwrap(&wrapped, &mut key)?.len();
            key.truncate(length);
            Ok(key)
        });
        return opened.map(Some).map_err(|_| OpenError::Undecipherable);
    }
    Ok(None)
}
