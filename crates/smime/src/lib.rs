#![doc = include_str!("../README.md")]
//!
//! # What is read and what is written
//!
//! | | written | read as well |
//! |---|---|---|
//! | signature | SHA-256, RSA (PKCS #1 v1.5) or ECDSA on P-256, detached | SHA-512; with the content inside |
//! | content | AES-128 and AES-256, in CBC or GCM | |
//! | its key | RSA (PKCS #1 v1.5); ECDH on P-256 with SHA-256, AES key wrap | ECDH with SHA-1 |
//! | encoding | DER, binary or base64 | BER of indefinite length |
//!
//! # Why an answer tells so little
//!
//! Encryption without a signature does not say who wrote a body, and in CBC not even that it
//! came as it was sent. Who sends such a body again and again with changes could learn from the
//! answers what is in it. So in CBC what fails after a key was applied is one error,
//! [`OpenError::Undecipherable`], whatever failed: the padding of the key (RFC 3218), that of the
//! content, the MIME entity in it, or that it bears no signature and one is asked for. And the
//! header that says that there is a signature inside can be changed away: only
//! [`BodySecurity::wants_signature`] makes sure of one.
//!
//! That a body in CBC is taken tells that it could be read, and no error can hide that. With
//! [`BodySecurity::wants_signature_first`] those alone learn it whose signature is believed.
#![forbid(unsafe_code)]

mod body;
mod certificate;
mod content;
mod der;
mod enveloped;
mod error;
#[cfg(any(test, feature = "make"))]
pub mod make;
mod mime;
mod oid;
mod signed;
mod trust;

pub use body::{
    BODY_BYTES_MAX, BodySecurity, LAYERS_MAX, Opened, Protection, Sealed, is_protected,
};
pub use certificate::{Certificate, Identity, KeyKind};
pub use content::Cipher;
pub use error::{Culprit, IdentityError, OpenError, SealError};
pub use mime::Transfer;
pub use trust::{Keyring, Trust};
