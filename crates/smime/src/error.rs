//! What can go wrong, and whose fault it is.

use std::fmt;

use crate::der::Malformed;

/// Who has to do something about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Culprit {
    /// Whoever made the body, or changed it on its way.
    Sender,
    /// Whoever was to read it: a key or an authority is missing here.
    Recipient,
}

/// Why a body was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OpenError {
    /// It is larger than [`BODY_BYTES_MAX`](crate::BODY_BYTES_MAX).
    TooLarge,
    /// More layers lie in each other than [`LAYERS_MAX`](crate::LAYERS_MAX).
    TooDeep,
    /// It is no MIME entity of the type that it says it is.
    Mime(&'static str),
    /// It is no CMS message (RFC 5652).
    Cms,
    /// It asks for something that is not supported here.
    Unsupported(&'static str),
    /// The certificate of the signer is not in it.
    NoCertificate,
    /// A certificate in it cannot be read.
    Certificate,
    /// The signature does not fit what was signed.
    BadSignature,
    /// The signer's certificate does not lead to an authority that is trusted here, or
    /// not at this time.
    Untrusted,
    /// The signer's certificate is for another use of its key.
    WrongUse,
    /// The signer's certificate names somebody else than the sender.
    WrongSigner,
    /// No key of ours opens it.
    NotForUs,
    /// Our key opened it, and what came out is nothing: damaged, or made up. Also where a
    /// signature is asked for and missing, and what was opened could have been changed.
    Undecipherable,
    /// It bears no signature, and one is asked for here.
    NotSigned,
    /// It is not encrypted, and that is asked for here.
    NotEncrypted,
}

impl OpenError {
    /// Who has to do something about it.
    pub const fn culprit(self) -> Culprit {
        match self {
            Self::Untrusted | Self::NotForUs | Self::Unsupported(_) => Culprit::Recipient,
            _ => Culprit::Sender,
        }
    }

    /// The status that refuses a request with such a body.
    ///
    /// Of a body in CBC nothing tells apart how decryption failed, nor that it went well and a
    /// signature is missing: who sends a body again with changes must not learn from refusals what
    /// was in it.
    pub const fn status(self) -> u16 {
        match self {
            Self::TooLarge => 413,
            // RFC 3261 23.2: "If a UA receives an S/MIME body that has been encrypted with a public key
            // unknown to the recipient, it MUST reject the request with a 493 (Undecipherable) response."
            Self::NotForUs | Self::Undecipherable => 493,
            // RFC 3261 23.2: "MUST reject the request with a 415 Unsupported Media Type response if the MIME
            // type is not understood"
            Self::Unsupported(_) => 415,
            Self::TooDeep | Self::Mime(_) | Self::Cms | Self::Certificate => 400,
            _ => 403,
        }
    }

    /// A few words for a list of causes.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TooLarge => "smime: too large",
            Self::TooDeep => "smime: too deep",
            Self::Mime(_) => "smime: mime malformed",
            Self::Cms => "smime: cms malformed",
            Self::Unsupported(_) => "smime: unsupported",
            Self::NoCertificate => "smime: no certificate",
            Self::Certificate => "smime: certificate malformed",
            Self::BadSignature => "smime: bad signature",
            Self::Untrusted => "smime: unknown authority",
            Self::WrongUse => "smime: certificate for another use",
            Self::WrongSigner => "smime: signed by another",
            Self::NotForUs => "smime: not for us",
            Self::Undecipherable => "smime: undecipherable",
            Self::NotSigned => "smime: not signed",
            Self::NotEncrypted => "smime: not encrypted",
        }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLarge => "the body is too large",
            Self::TooDeep => "too many layers of protection lie in each other",
            Self::Mime(what) => return write!(f, "the body is no such MIME entity: {what}"),
            Self::Cms => "the body is no CMS message",
            Self::Unsupported(what) => return write!(f, "not supported here: {what}"),
            Self::NoCertificate => "the signer's certificate is not in the body",
            Self::Certificate => "a certificate in the body cannot be read",
            Self::BadSignature => "the signature does not fit the body",
            Self::Untrusted => "no authority that is trusted here vouches for the signer",
            Self::WrongUse => "the signer's certificate is not for signing",
            Self::WrongSigner => "the signer's certificate does not name the sender in From",
            Self::NotForUs => "no key here opens the body",
            Self::Undecipherable => "the body cannot be deciphered",
            Self::NotSigned => "the body is not signed, and must be here",
            Self::NotEncrypted => "the body is not encrypted, and must be here",
        })
    }
}

impl std::error::Error for OpenError {}

impl From<Malformed> for OpenError {
    fn from(_: Malformed) -> Self {
        Self::Cms
    }
}

/// Why a body could not be protected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SealError {
    /// There is no certificate for this address: RFC 3261 23.3 lets nobody encrypt for one whose
    /// key is not known.
    NoRecipient(String),
    /// There is no key of our own to sign with.
    NoIdentity,
    /// The body is larger than [`BODY_BYTES_MAX`](crate::BODY_BYTES_MAX).
    TooLarge,
    /// The library refused: a key of a kind or size that it does not take.
    Refused,
}

impl fmt::Display for SealError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRecipient(address) => {
                write!(f, "there is no certificate of {address} to encrypt for")
            }
            Self::NoIdentity => f.write_str("there is no key to sign with"),
            Self::TooLarge => f.write_str("the body is too large"),
            Self::Refused => f.write_str("a key was refused"),
        }
    }
}

impl std::error::Error for SealError {}

impl From<aws_lc_rs::error::Unspecified> for SealError {
    fn from(_: aws_lc_rs::error::Unspecified) -> Self {
        Self::Refused
    }
}

/// Why a certificate or a key cannot be used, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityError {
    /// What is wrong.
    pub what: &'static str,
    /// What to do.
    pub remedy: &'static str,
}

impl IdentityError {
    pub(crate) const fn new(what: &'static str, remedy: &'static str) -> Self {
        Self { what, remedy }
    }
}

impl fmt::Display for IdentityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.what, self.remedy)
    }
}

impl std::error::Error for IdentityError {}
