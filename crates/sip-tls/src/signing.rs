//! Our private keys, which do not sign in a step that was taken for a resumption.
//!
//! A ticket that opens is no resumption yet: the library passes it over where it was
//! made for another name or suite, and makes a full handshake, signature included.
//! Whoever recorded one hello could have that done at the price of a resumption, as
//! often as he likes (`docs/decisions/0005-handshakes-on-their-own-threads.md`).

use std::sync::Arc;

use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::sign::{Signer, SigningKey};
use rustls::{Error, SignatureAlgorithm, SignatureScheme};

use crate::context::current;

/// A private key.
#[derive(Debug)]
pub(crate) struct OwnKey(pub(crate) Arc<dyn SigningKey>);

impl SigningKey for OwnKey {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let signer = self.0.choose_scheme(offered)?;
        Some(Box::new(OwnSigner(signer)))
    }

    fn public_key(&self) -> Option<SubjectPublicKeyInfoDer<'_>> {
        self.0.public_key()
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        self.0.algorithm()
    }
}

#[derive(Debug)]
struct OwnSigner(Box<dyn Signer>);

impl Signer for OwnSigner {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        let must_not = current(|context| {
            context.was_to_sign |= context.must_not_sign;
            context.must_not_sign
        });
        if must_not {
            return Err(Error::General(
                "what resumes a session signs nothing".into(),
            ));
        }
        self.0.sign(message)
    }

    fn scheme(&self) -> SignatureScheme {
        self.0.scheme()
    }
}
