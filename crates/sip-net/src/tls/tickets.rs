//! Keys of session tickets that are the same wherever the secret is the same:
//! on all workers, after a restart, on every node of a cluster.
//!
//! Every epoch has a key of its own, derived from the secret and the epoch's
//! number (HKDF, RFC 5869). Tickets are sealed with the key of the epoch that
//! is, and opened with that of the one before and the one after too, since
//! clocks of nodes differ. Who has the secret can read the sessions that were
//! resumed by tickets without a new key exchange, those of TLS 1.2: keep it as
//! the private keys are kept.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};
use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use zeroize::{Zeroize, Zeroizing};

use super::TlsError;

/// Bytes of the name of a key, at the front of each ticket.
const NAME_BYTES: usize = 16;
/// Bytes of the secret.
const SECRET_BYTES: usize = 32;
/// RFC 8446 4.6.1: "Servers MUST NOT use any value greater than 604800 seconds
/// (7 days)."
const LIFETIME_MAX_S: u64 = 604_800;
/// Keys at hand: of the epoch before, of this one and of the one after.
const KEPT: usize = 3;

/// Keys of session tickets. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct TicketKeys {
    inner: Arc<Inner>,
}

struct Inner {
    secret: Zeroizing<[u8; SECRET_BYTES]>,
    epoch_s: u64,
    random: SystemRandom,
    kept: RwLock<Vec<Arc<EpochKey>>>,
}

struct EpochKey {
    epoch: u64,
    name: [u8; NAME_BYTES],
    key: LessSafeKey,
}

impl TicketKeys {
    /// Keys from a secret, a new one every `rotation` (a minute to a week).
    pub fn new(mut secret: [u8; SECRET_BYTES], rotation: Duration) -> Result<Self, TlsError> {
        let epoch_s = rotation.as_secs();
        let kept = Zeroizing::new(secret);
        secret.zeroize();
        if !(60..=LIFETIME_MAX_S).contains(&epoch_s) {
            return Err(TlsError::new(
                None,
                "ticket keys are renewed once a minute at most and once a week at least",
            ));
        }
        Ok(Self {
            inner: Arc::new(Inner {
                secret: kept,
                epoch_s,
                random: SystemRandom::new(),
                kept: RwLock::default(),
            }),
        })
    }

    /// Keys that end with the process, renewed every six hours.
    pub fn random() -> Result<Self, TlsError> {
        let mut secret = [0; SECRET_BYTES];
        SystemRandom::new()
            .fill(&mut secret)
            .map_err(|_| TlsError::new(None, "the system gives no random bytes"))?;
        let keys = Self::new(secret, Duration::from_secs(6 * 3_600));
        secret.zeroize();
        keys
    }

    /// For how long a ticket is good, in seconds.
    pub fn lifetime_s(&self) -> u32 {
        u32::try_from(self.inner.epoch_s).unwrap_or(u32::MAX)
    }

    /// Seals `plain` for `scope`.
    pub(crate) fn seal(&self, now_unix_s: u64, scope: &[u8], plain: &[u8]) -> Option<Vec<u8>> {
        let key = self.key_of(self.epoch(now_unix_s))?;
        let mut nonce = [0; NONCE_LEN];
        self.inner.random.fill(&mut nonce).ok()?;
        let mut out =
            Vec::with_capacity(NAME_BYTES + NONCE_LEN + plain.len() + AES_256_GCM.tag_len());
        out.extend_from_slice(&key.name);
        out.extend_from_slice(&nonce);
        let begin = out.len();
        out.extend_from_slice(plain);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let tag = key
            .key
            .seal_in_place_separate_tag(nonce, Aad::from(scope), out.get_mut(begin..)?)
            .ok()?;
        out.extend_from_slice(tag.as_ref());
        Some(out)
    }

    /// Opens a ticket that was sealed for `scope`.
    pub(crate) fn open(
        &self,
        now_unix_s: u64,
        scope: &[u8],
        ticket: &[u8],
    ) -> Option<Zeroizing<Vec<u8>>> {
        let (name, rest) = ticket.split_first_chunk::<NAME_BYTES>()?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>()?;
        let key = self.key_named(now_unix_s, name)?;
        let mut sealed = Zeroizing::new(sealed.to_vec());
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let len = key
            .key
            .open_in_place(nonce, Aad::from(scope), &mut sealed)
            .ok()?
            .len();
        sealed.truncate(len);
        Some(sealed)
    }

    fn epoch(&self, now_unix_s: u64) -> u64 {
        now_unix_s / self.inner.epoch_s
    }

    /// The key with this name among those that are accepted now. The names are
    /// no secret: they stand at the front of every ticket.
    fn key_named(&self, now_unix_s: u64, name: &[u8; NAME_BYTES]) -> Option<Arc<EpochKey>> {
        let epoch = self.epoch(now_unix_s);
        [epoch, epoch.saturating_sub(1), epoch.saturating_add(1)]
            .into_iter()
            .filter_map(|epoch| self.key_of(epoch))
            .find(|key| key.name == *name)
    }

    fn key_of(&self, epoch: u64) -> Option<Arc<EpochKey>> {
        {
            let kept = self
                .inner
                .kept
                .read()
                .unwrap_or_else(PoisonError::into_inner);
            if let Some(key) = kept.iter().find(|key| key.epoch == epoch) {
                return Some(Arc::clone(key));
            }
        }
        let key = Arc::new(self.derive(epoch)?);
        let mut kept = self
            .inner
            .kept
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        if kept.iter().all(|other| other.epoch != epoch) {
            if kept.len() >= KEPT
                && let Some(oldest) =
                    (0..kept.len()).min_by_key(|place| kept.get(*place).map(|key| key.epoch))
            {
                kept.swap_remove(oldest);
            }
            kept.push(Arc::clone(&key));
        }
        Some(key)
    }

    fn derive(&self, epoch: u64) -> Option<EpochKey> {
        let root = Salt::new(HKDF_SHA256, b"signet session tickets").extract(&*self.inner.secret);
        let number = epoch.to_be_bytes();
        let mut name = [0; NAME_BYTES];
        root.expand(&[b"name", &number], Len(NAME_BYTES))
            .ok()?
            .fill(&mut name)
            .ok()?;
        let mut key = Zeroizing::new([0; 32]);
        root.expand(&[b"key", &number], Len(32))
            .ok()?
            .fill(&mut *key)
            .ok()?;
        let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &*key).ok()?);
        Some(EpochKey { epoch, name, key })
    }
}

/// How many bytes are derived.
struct Len(usize);

impl KeyType for Len {
    fn len(&self) -> usize {
        self.0
    }
}

// Keys are inside: nothing of them is shown.
impl std::fmt::Debug for TicketKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TicketKeys")
            .field("rotation_s", &self.inner.epoch_s)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600;
    const NOW: u64 = 500_000 * HOUR + 1_800;

    fn keys(secret: u8) -> TicketKeys {
        TicketKeys::new([secret; 32], Duration::from_secs(HOUR)).unwrap()
    }

    fn opened(keys: &TicketKeys, now: u64, ticket: &[u8]) -> Option<Vec<u8>> {
        keys.open(now, b"scope", ticket).map(|plain| plain.to_vec())
    }

    #[test]
    fn who_has_the_secret_opens_what_another_sealed() {
        let ticket = keys(1).seal(NOW, b"scope", b"session").unwrap();
        assert_eq!(opened(&keys(1), NOW, &ticket).unwrap(), b"session");
        assert_eq!(opened(&keys(2), NOW, &ticket), None);
        assert!(keys(1).open(NOW, b"another", &ticket).is_none());
        assert!(!ticket.windows(7).any(|window| window == b"session"));
    }

    #[test]
    fn the_epoch_before_and_the_one_after_are_accepted_and_no_other() {
        let keys = keys(1);
        let ticket = keys.seal(NOW, b"scope", b"session").unwrap();
        for (now, fits) in [
            (NOW - 2 * HOUR, false),
            (NOW - HOUR, true),
            (NOW + HOUR, true),
            (NOW + 2 * HOUR, false),
            // And once more, when other keys have been at hand.
            (NOW, true),
        ] {
            assert_eq!(opened(&keys, now, &ticket).is_some(), fits, "{now}");
        }
        assert!(keys.inner.kept.read().unwrap().len() <= KEPT);
        let next = keys.seal(NOW + HOUR, b"scope", b"session").unwrap();
        assert_ne!(next[..NAME_BYTES], ticket[..NAME_BYTES]);
    }

    #[test]
    fn every_bit_counts_and_nothing_is_sealed_alike_twice() {
        let keys = keys(1);
        let ticket = keys.seal(NOW, b"scope", b"session").unwrap();
        assert_ne!(keys.seal(NOW, b"scope", b"session").unwrap(), ticket);
        for bit in 0..ticket.len() * 8 {
            let mut spoiled = ticket.clone();
            spoiled[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(opened(&keys, NOW, &spoiled), None, "{bit}");
        }
        for len in 0..ticket.len() {
            assert_eq!(opened(&keys, NOW, &ticket[..len]), None, "{len}");
        }
    }

    #[test]
    fn the_secret_is_not_shown() {
        let shown = format!("{:?}", keys(0xab));
        assert!(!shown.contains("171") && !shown.contains("ab,"), "{shown}");
        assert!(TicketKeys::new([0; 32], Duration::from_secs(1)).is_err());
        assert!(TicketKeys::new([0; 32], Duration::from_secs(700_000)).is_err());
        assert_eq!(TicketKeys::random().unwrap().lifetime_s(), 6 * 3_600);
    }
}
