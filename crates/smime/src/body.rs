//! Bodies of SIP messages, protected and opened (RFC 3261 23, RFC 8551 3).

use std::sync::Arc;

use aws_lc_rs::rand;

use crate::certificate::{Certificate, Identity};
use crate::content::Cipher;
use crate::der::{Reader, SEQUENCE, context};
use crate::error::{OpenError, SealError};
use crate::mime::{Entity, MediaType, Parts, Transfer, canonical, two_parts};
use crate::signed::{MICALG, SignedData};
use crate::trust::{Keyring, Trust};
use crate::{enveloped, oid, signed};

/// The most bytes of a body that is protected or opened.
pub const BODY_BYTES_MAX: usize = 65_535;

/// The most layers of protection that lie in each other.
pub const LAYERS_MAX: usize = 4;

/// The type of a detached signature.
const SIGNATURE: &str = "application/pkcs7-signature";
/// The type of everything else that CMS has.
const PKCS7: &str = "application/pkcs7-mime";

/// What is done to a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// `multipart/signed` with a detached signature.
    Sign,
    /// `application/pkcs7-mime`, encrypted for the recipient.
    Encrypt,
    /// Encrypted, and what comes of it signed: RFC 3261 23.2 "the UAC SHOULD send the
    /// EnvelopedData message encapsulated within a SignedData message".
    EncryptThenSign,
    /// Signed, and what comes of it encrypted: who signed is hidden too.
    SignThenEncrypt,
}

impl Protection {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Sign,
        Self::Encrypt,
        Self::EncryptThenSign,
        Self::SignThenEncrypt,
    ];

    /// Whether the recipient knows who wrote it.
    pub const fn signs(self) -> bool {
        !matches!(self, Self::Encrypt)
    }

    /// Whether nobody but the recipient can read it.
    pub const fn encrypts(self) -> bool {
        !matches!(self, Self::Sign)
    }

    /// The name as users write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sign => "sign",
            Self::Encrypt => "encrypt",
            Self::EncryptThenSign => "both",
            Self::SignThenEncrypt => "sign-then-encrypt",
        }
    }
}

impl std::str::FromStr for Protection {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == text);
        found.ok_or_else(|| {
            format!("there is no '{text}'; write sign, encrypt, both or sign-then-encrypt")
        })
    }
}

/// A protected body, and the headers that go with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// The value of Content-Type.
    pub content_type: String,
    /// The value of Content-Disposition.
    pub disposition: &'static str,
    /// The value of Content-Transfer-Encoding; none where the body is as SIP has it, binary.
    pub transfer_encoding: Option<&'static str>,
    /// The body.
    pub body: Vec<u8>,
}

/// What was in a protected body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Its type.
    pub content_type: Vec<u8>,
    /// Itself.
    pub body: Vec<u8>,
    /// The certificate of the one who signed it, who is the sender and believed.
    pub signer: Option<Certificate>,
    /// Whether nobody else could read it.
    pub was_encrypted: bool,
}

/// What one user agent does with bodies: how it protects its own, and what it
/// asks of those that come.
#[derive(Clone, Debug, Default)]
pub struct BodySecurity {
    /// What is done to bodies that are sent; nothing where there is none.
    pub protection: Option<Protection>,
    /// Who signs.
    pub identity: Option<Arc<Identity>>,
    /// Whose keys open what is encrypted.
    pub decrypts: Vec<Arc<Identity>>,
    /// For whom bodies can be encrypted.
    pub keyring: Arc<Keyring>,
    /// Who vouches for those who sign.
    pub trust: Arc<Trust>,
    /// The cipher.
    pub cipher: Cipher,
    /// How bytes are written.
    pub transfer: Transfer,
    /// Whether a body that comes must be signed.
    pub wants_signature: bool,
    /// Whether what comes must be signed where it is encrypted too, as
    /// [`Protection::EncryptThenSign`] does it: no key of ours is used for anything whose signer
    /// is not known and believed.
    pub wants_signature_first: bool,
    /// Whether a body that comes must be encrypted.
    pub wants_encryption: bool,
}

impl BodySecurity {
    /// Protects a body for the user at `to`, an address-of-record, at a time in seconds since
    /// 1970. `None` where bodies are sent as they are.
    ///
    /// # Errors
    /// What is missing: a key to sign with, or a certificate of the recipient.
    pub fn seal(
        &self,
        to: &str,
        content_type: &[u8],
        body: &[u8],
        now_unix_s: u64,
    ) -> Result<Option<Sealed>, SealError> {
        let Some(protection) = self.protection else {
            return Ok(None);
        };
        if body.len() > BODY_BYTES_MAX {
            return Err(SealError::TooLarge);
        }
        let media = MediaType::new(content_type);
        let mut entity = Vec::with_capacity(body.len() + 64);
        entity.extend_from_slice(b"Content-Type: ");
        entity.extend_from_slice(content_type);
        entity.extend_from_slice(b"\r\n\r\n");
        entity.extend_from_slice(&canonical(media, body));
        let sealed = match protection {
            Protection::Sign => self.sign(&entity, now_unix_s)?,
            Protection::Encrypt => self.encrypt(&entity, to)?,
            Protection::EncryptThenSign => {
                self.sign(&self.encrypt(&entity, to)?.into_entity(), now_unix_s)?
            }
            Protection::SignThenEncrypt => {
                self.encrypt(&self.sign(&entity, now_unix_s)?.into_entity(), to)?
            }
        };
        if sealed.body.len() > BODY_BYTES_MAX {
            return Err(SealError::TooLarge);
        }
        Ok(Some(sealed))
    }

    fn sign(&self, entity: &[u8], now_unix_s: u64) -> Result<Sealed, SealError> {
        let identity = self.identity.as_deref().ok_or(SealError::NoIdentity)?;
        let signature = signed::sign(entity, identity, now_unix_s)?;
        let mut random = [0; 16];
        rand::fill(&mut random)?;
        let boundary = format!("signed-{:032x}", u128::from_be_bytes(random));
        let transfer = self.transfer;
        let mut body = Vec::with_capacity(entity.len() + signature.len() * 3 / 2 + 384);
        for part in [
            b"--",
            boundary.as_bytes(),
            b"\r\n",
            entity,
            b"\r\n--",
            boundary.as_bytes(),
        ] {
            body.extend_from_slice(part);
        }
        let headers = format!(
            "\r\nContent-Type: {SIGNATURE}; name=smime.p7s\r\nContent-Transfer-Encoding: {}\r\n\
             Content-Disposition: attachment; filename=smime.p7s; handling=required\r\n\r\n",
            transfer.name()
        );
        body.extend_from_slice(headers.as_bytes());
        transfer.write(&mut body, &signature);
        for part in [b"\r\n--", boundary.as_bytes(), b"--\r\n"] {
            body.extend_from_slice(part);
        }
        Ok(Sealed {
            content_type: format!(
                "multipart/signed; protocol=\"{SIGNATURE}\"; micalg={MICALG}; boundary={boundary}"
            ),
            // RFC 3261 23.3: "S/MIME bodies SHOULD have a Content-Disposition header field, and the value
            // of the "handling" parameter SHOULD be "required.""
            disposition: "session;handling=required",
            transfer_encoding: None,
            body,
        })
    }

    fn encrypt(&self, entity: &[u8], to: &str) -> Result<Sealed, SealError> {
        // RFC 3261 23.3: "If a UAC has no certificate on its keyring associated with the
        // address-of-record to which it wants to send a request, it cannot send an encrypted
        // "application/pkcs7-mime" MIME message."
        let recipient = self
            .keyring
            .find(to)
            .ok_or_else(|| SealError::NoRecipient(to.to_owned()))?;
        let der = enveloped::seal(entity, recipient, self.cipher)?;
        let mut body = Vec::new();
        match self.transfer {
            Transfer::Binary => body = der,
            Transfer::Base64 => self.transfer.write(&mut body, &der),
        }
        // RFC 8551 3.2.2.
        let kind = if self.cipher.is_authenticated() {
            "authEnveloped-data"
        } else {
            "enveloped-data"
        };
        Ok(Sealed {
            content_type: format!("{PKCS7}; smime-type={kind}; name=smime.p7m"),
            disposition: "attachment;filename=smime.p7m;handling=required",
            transfer_encoding: (self.transfer != Transfer::Binary).then(|| self.transfer.name()),
            body,
        })
    }

    /// Opens a body from the user at `from`, an address-of-record, at a time in seconds since
    /// 1970. `None` where it is not protected and need not be. `transfer_encoding` is the value of
    /// that header, if there is one.
    ///
    /// # Errors
    /// Why it cannot be opened or is not believed, and whose fault that is.
    pub fn open(
        &self,
        from: &str,
        content_type: &[u8],
        transfer_encoding: Option<&[u8]>,
        body: &[u8],
        now_unix_s: u64,
    ) -> Result<Option<Opened>, OpenError> {
        if !is_protected(content_type) {
            return match (self.wants_signature, self.wants_encryption) {
                (true, _) => Err(OpenError::NotSigned),
                (_, true) => Err(OpenError::NotEncrypted),
                _ => Ok(None),
            };
        }
        if body.len() > BODY_BYTES_MAX {
            return Err(OpenError::TooLarge);
        }
        let mut opening = Opening {
            security: self,
            from,
            now_unix_s,
            signer: None,
            was_encrypted: false,
            was_unauthenticated: false,
        };
        let transfer = Transfer::read(transfer_encoding)?;
        let (content_type, body) = opening.layer(content_type, transfer, body, LAYERS_MAX)?;
        let Opening {
            signer,
            was_encrypted,
            was_unauthenticated,
            ..
        } = opening;
        if self.wants_signature && signer.is_none() {
            // That a signature is missing would tell that all else came out well.
            return Err(match was_unauthenticated {
                true => OpenError::Undecipherable,
                false => OpenError::NotSigned,
            });
        }
        if self.wants_encryption && !was_encrypted {
            return Err(OpenError::NotEncrypted);
        }
        Ok(Some(Opened {
            content_type,
            body,
            signer,
            was_encrypted,
        }))
    }
}

impl Sealed {
    /// It as a part of another body, with headers of its own.
    fn into_entity(self) -> Vec<u8> {
        let encoding = self.transfer_encoding.unwrap_or("binary");
        let mut entity = format!(
            "Content-Type: {}\r\nContent-Transfer-Encoding: {encoding}\r\nContent-Disposition: {}\r\n\r\n",
            self.content_type, self.disposition
        )
        .into_bytes();
        entity.extend_from_slice(&self.body);
        entity
    }
}

/// Whether a body of this type is protected.
pub fn is_protected(content_type: &[u8]) -> bool {
    let media = MediaType::new(content_type);
    media.is("multipart/signed") || is_pkcs7(media)
}

fn is_pkcs7(media: MediaType<'_>) -> bool {
    media.is(PKCS7) || media.is("application/x-pkcs7-mime")
}

/// A body that is being opened.
struct Opening<'a> {
    security: &'a BodySecurity,
    from: &'a str,
    now_unix_s: u64,
    signer: Option<Certificate>,
    was_encrypted: bool,
    /// Whether a layer was opened that anybody could have changed: one in CBC.
    was_unauthenticated: bool,
}

impl Opening<'_> {
    /// Opens a layer and those in it: the type and the bytes of what is inside of all.
    fn layer(
        &mut self,
        content_type: &[u8],
        transfer: Transfer,
        body: &[u8],
        layers: usize,
    ) -> Result<(Vec<u8>, Vec<u8>), OpenError> {
        let media = MediaType::new(content_type);
        let is_multipart = media.is("multipart/signed");
        if !is_multipart && !is_pkcs7(media) {
            let body = transfer.decode(body)?;
            return Ok((content_type.to_vec(), body.into_owned()));
        }
        if layers == 0 {
            return Err(OpenError::TooDeep);
        }
        if is_multipart {
            return self.multipart(media, body, layers);
        }
        let der = transfer.decode(body)?;
        let mut outer = Reader::new(&der);
        let mut info = outer.expect(SEQUENCE)?.inside();
        outer.end()?;
        let kind = info.expect(crate::der::OID)?.contents;
        let content = info.expect(context(0))?.inside();
        let inner = match kind {
            oid::SIGNED_DATA => {
                let signed = SignedData::read(content)?;
                let content = signed.content.as_deref();
                let content = content.ok_or(OpenError::Mime("the signed part is not in it"))?;
                self.verify(&signed, content)?;
                content.to_vec()
            }
            oid::ENVELOPED_DATA | oid::AUTH_ENVELOPED_DATA => {
                if self.security.wants_signature_first && self.signer.is_none() {
                    return Err(OpenError::NotSigned);
                }
                let identities = self.security.decrypts.iter().map(Arc::as_ref);
                let is_authenticated = kind == oid::AUTH_ENVELOPED_DATA;
                self.was_encrypted = true;
                self.was_unauthenticated |= !is_authenticated;
                enveloped::open(content, is_authenticated, identities)?
            }
            _ => return Err(OpenError::Unsupported("this type of a CMS message")),
        };
        let opened = self.entity(&inner, layers - 1);
        if kind != oid::ENVELOPED_DATA {
            return opened;
        }
        // Whoever changes what is encrypted must not be told what that made of it. The three that
        // stay come after a signature that is good.
        opened.map_err(|error| match error {
            OpenError::Untrusted | OpenError::WrongUse | OpenError::WrongSigner => error,
            _ => OpenError::Undecipherable,
        })
    }

    fn entity(&mut self, bytes: &[u8], layers: usize) -> Result<(Vec<u8>, Vec<u8>), OpenError> {
        let entity = Entity::read(bytes)?;
        let transfer = entity.transfer()?;
        self.layer(entity.content_type(), transfer, entity.body, layers)
    }

    fn multipart(
        &mut self,
        media: MediaType<'_>,
        body: &[u8],
        layers: usize,
    ) -> Result<(Vec<u8>, Vec<u8>), OpenError> {
        let boundary = media
            .param("boundary")
            .ok_or(OpenError::Mime("it names no boundary"))?;
        let Parts {
            signed: first,
            signature: second,
            epilogue,
        } = two_parts(body, boundary)?;
        // Nobody signed it. In CBC it would be the place for blocks from elsewhere, of which the
        // answer would tell whether they end in a padding.
        if self.was_unauthenticated && !epilogue.trim_ascii().is_empty() {
            return Err(OpenError::Mime("something follows the last part"));
        }
        let signature = Entity::read(second)?;
        let kind = MediaType::new(signature.content_type());
        if !kind.is(SIGNATURE) && !kind.is("application/x-pkcs7-signature") {
            return Err(OpenError::Unsupported("a signature that is not CMS"));
        }
        let der = signature.transfer()?.decode(signature.body)?;
        let mut outer = Reader::new(&der);
        let mut info = outer.expect(SEQUENCE)?.inside();
        outer.end()?;
        if info.expect(crate::der::OID)?.contents != oid::SIGNED_DATA {
            return Err(OpenError::Cms);
        }
        let signed = SignedData::read(info.expect(context(0))?.inside())?;
        // RFC 3261 23.3: ""multipart/signed" MUST be used only with CMS detached signatures."
        if signed.content.is_some() {
            return Err(OpenError::Mime("the signature is not detached"));
        }
        self.verify(&signed, first)?;
        self.entity(first, layers - 1)
    }

    /// Verifies a signature, and that its signer is the sender and believed.
    fn verify(&mut self, signed: &SignedData<'_>, content: &[u8]) -> Result<(), OpenError> {
        let signer = signed.verify(content)?;
        let certificate = signer.certificate;
        // RFC 3261 23.2: "the UAS SHOULD first validate the certificate, if possible, with any
        // available root certificates for certificate authorities.  The UAS SHOULD also determine the
        // subject of the certificate (for S/MIME, the SubjectAltName will contain the appropriate
        // identity) and compare this value to the From header field of the request."
        self.security
            .trust
            .check(&certificate, &signer.others, self.now_unix_s)?;
        if !certificate.speaks_for(self.from) {
            return Err(OpenError::WrongSigner);
        }
        // RFC 3261 23.3: "If a UA receives a message with multiple signatures, the outermost
        // signature should be treated as the single certificate for this body."
        self.signer.get_or_insert(certificate);
        Ok(())
    }
}
