//! Keys of session tickets that are the same wherever the secret is the same:
//! on all workers, after a restart, on every node of a cluster.
//!
//! There may be several secrets, where one has followed another: the newest
//! seals, each opens what it sealed until its end.
//!
//! Every epoch has a key of its own, derived from the secret and the epoch's
//! number (HKDF, RFC 5869). Tickets are sealed with the key of the epoch that
//! is, and opened with that of the one before and the one after too, since
//! clocks of nodes differ. Who has the secret can read the sessions that were
//! resumed by tickets without a new key exchange, those of TLS 1.2: keep it as
//! the private keys are kept.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use zeroize::{Zeroize, Zeroizing};

use crate::error::TlsError;

/// Bytes of the name of a key, at the front of each ticket.
const NAME_BYTES: usize = 16;
/// Bytes of the secret.
const SECRET_BYTES: usize = 32;
/// RFC 8446 4.6.1: "Servers MUST NOT use any value greater than 604800 seconds
/// (7 days)."
const LIFETIME_MAX_S: u64 = 604_800;
/// Keys at hand: of the epoch before, of this one and of the one after.
const KEPT: usize = 3;

/// Secrets held at once; past it the oldest is no more accepted.
const SECRETS_MAX: usize = 8;

/// A secret from which the keys of tickets are derived.
#[derive(Clone)]
pub struct TicketSecret {
    /// Its name, which is no secret.
    pub id: String,
    /// The secret itself.
    pub secret: Zeroizing<[u8; SECRET_BYTES]>,
    /// When it was made, in seconds since 1970.
    pub created_unix_s: u64,
    /// When it ceases to open tickets; `None` while no other has followed it.
    pub not_after_unix_s: Option<u64>,
}

// The secret is inside: it is not shown.
impl std::fmt::Debug for TicketSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TicketSecret")
            .field("id", &self.id)
            .field("created_unix_s", &self.created_unix_s)
            .field("not_after_unix_s", &self.not_after_unix_s)
            .finish_non_exhaustive()
    }
}

/// Keys of session tickets. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct TicketKeys {
    inner: Arc<Inner>,
}

struct Inner {
    random: SystemRandom,
    ring: RwLock<Ring>,
}

/// The secrets that are accepted.
#[derive(Clone)]
struct Ring {
    epoch_s: u64,
    /// A secret seals tickets when it is this old, where there is an older one.
    settle_s: u64,
    /// The newest first.
    secrets: Arc<[Arc<Secret>]>,
}

struct Secret {
    from: TicketSecret,
    kept: RwLock<Vec<Arc<EpochKey>>>,
}

struct EpochKey {
    epoch: u64,
    name: [u8; NAME_BYTES],
    key: LessSafeKey,
}

impl TicketKeys {
    /// Keys from a secret, a new one every `rotation` (a minute to a week). Its name is derived
    /// from it, so that nodes can be compared.
    pub fn new(mut secret: [u8; SECRET_BYTES], rotation: Duration) -> Result<Self, TlsError> {
        let kept = Zeroizing::new(secret);
        secret.zeroize();
        let id = public_name(&kept);
        let only = TicketSecret {
            id: id.ok_or_else(|| TlsError::new(None, "the secret of tickets gives no name"))?,
            secret: kept,
            created_unix_s: 0,
            not_after_unix_s: None,
        };
        Self::from_secrets(vec![only], rotation, Duration::ZERO)
    }

    /// Keys from several secrets, of which the newest seals and all open what
    /// was sealed. Nodes learn of a new one at different times: it seals when
    /// it is as old as `settle`, unless it is the only one.
    pub fn from_secrets(
        secrets: Vec<TicketSecret>,
        rotation: Duration,
        settle: Duration,
    ) -> Result<Self, TlsError> {
        let ring = Ring::new(secrets, rotation, settle, &[])?;
        Ok(Self {
            inner: Arc::new(Inner {
                random: SystemRandom::new(),
                ring: RwLock::new(ring),
            }),
        })
    }

    /// Takes other secrets into service, for all clones; on an error nothing
    /// changes.
    pub fn replace(
        &self,
        secrets: Vec<TicketSecret>,
        rotation: Duration,
        settle: Duration,
    ) -> Result<(), TlsError> {
        let held = self.ring();
        let ring = Ring::new(secrets, rotation, settle, &held.secrets)?;
        *self
            .inner
            .ring
            .write()
            .unwrap_or_else(PoisonError::into_inner) = ring;
        Ok(())
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
        u32::try_from(self.ring().epoch_s).unwrap_or(u32::MAX)
    }

    /// The names of the secrets, the newest first. They are no secrets.
    pub fn ids(&self) -> Vec<String> {
        let secrets = &self.ring().secrets;
        secrets
            .iter()
            .map(|secret| secret.from.id.clone())
            .collect()
    }

    /// Seals `plain` for `scope`.
    pub(crate) fn seal(&self, now_unix_s: u64, scope: &[u8], plain: &[u8]) -> Option<Vec<u8>> {
        let ring = self.ring();
        let key = ring.sealing(now_unix_s)?.key_of(ring.epoch(now_unix_s))?;
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
        let key = self.ring().key_named(now_unix_s, name)?;
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

    fn ring(&self) -> Ring {
        self.inner
            .ring
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Ring {
    /// Checks and orders the secrets; those in `held` keep their keys.
    fn new(
        mut secrets: Vec<TicketSecret>,
        rotation: Duration,
        settle: Duration,
        held: &[Arc<Secret>],
    ) -> Result<Self, TlsError> {
        let epoch_s = rotation.as_secs();
        if !(60..=LIFETIME_MAX_S).contains(&epoch_s) {
            return Err(TlsError::new(
                None,
                "ticket keys are renewed once a minute at most and once a week at least",
            ));
        }
        if secrets.is_empty() {
            return Err(TlsError::new(None, "ticket keys need a secret"));
        }
        // What another has followed is before it, though a clock that was ahead made it.
        let age =
            |secret: &TicketSecret| (secret.not_after_unix_s.is_none(), secret.created_unix_s);
        secrets.sort_by(|one, two| (age(two), &two.id).cmp(&(age(one), &one.id)));
        secrets.truncate(SECRETS_MAX);
        let secrets = secrets.into_iter().map(|from| {
            let before = held
                .iter()
                .find(|held| held.from.secret == from.secret && held.from.id == from.id);
            let kept = before.map_or_else(Vec::new, |before| before.kept().clone());
            Arc::new(Secret {
                from,
                kept: RwLock::new(kept),
            })
        });
        Ok(Self {
            epoch_s,
            settle_s: settle.as_secs(),
            secrets: secrets.collect(),
        })
    }

    fn epoch(&self, now_unix_s: u64) -> u64 {
        now_unix_s / self.epoch_s
    }

    /// The newest secret that other nodes have too by now, or else the oldest
    /// that is left.
    fn sealing(&self, now_unix_s: u64) -> Option<&Arc<Secret>> {
        let is_settled = |secret: &&Arc<Secret>| {
            secret.from.created_unix_s.saturating_add(self.settle_s) <= now_unix_s
        };
        self.secrets
            .iter()
            .find(is_settled)
            .or_else(|| self.secrets.iter().rfind(|secret| secret.opens(now_unix_s)))
            .or_else(|| self.secrets.first())
    }

    /// The key with this name among those that are accepted now. The names are
    /// no secret: they stand at the front of every ticket.
    fn key_named(&self, now_unix_s: u64, name: &[u8; NAME_BYTES]) -> Option<Arc<EpochKey>> {
        let epoch = self.epoch(now_unix_s);
        self.secrets
            .iter()
            .filter(|secret| secret.opens(now_unix_s))
            .flat_map(|secret| {
                [epoch, epoch.saturating_sub(1), epoch.saturating_add(1)]
                    .into_iter()
                    .filter_map(|epoch| secret.key_of(epoch))
            })
            .find(|key| key.name == *name)
    }
}

impl Secret {
    fn opens(&self, now_unix_s: u64) -> bool {
        self.from
            .not_after_unix_s
            .is_none_or(|end| now_unix_s < end)
    }

    fn kept(&self) -> RwLockReadGuard<'_, Vec<Arc<EpochKey>>> {
        self.kept.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn key_of(&self, epoch: u64) -> Option<Arc<EpochKey>> {
        if let Some(key) = self.kept().iter().find(|key| key.epoch == epoch) {
            return Some(Arc::clone(key));
        }
        let key = Arc::new(self.derive(epoch)?);
        let mut kept = self.kept.write().unwrap_or_else(PoisonError::into_inner);
        if kept.iter().all(|other| other.epoch != epoch) {
            if kept.len() >= KEPT
                && let Some(farthest) = (0..kept.len())
                    .max_by_key(|place| kept.get(*place).map(|key| key.epoch.abs_diff(epoch)))
            {
                // Not the oldest: with epochs of another length, or a clock that was set
                // back, those that went before have the higher numbers.
                kept.swap_remove(farthest);
            }
            kept.push(Arc::clone(&key));
        }
        Some(key)
    }

    fn derive(&self, epoch: u64) -> Option<EpochKey> {
        let root = root_of(&self.from.secret);
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

/// What all is derived from that comes of a secret.
fn root_of(secret: &[u8; SECRET_BYTES]) -> Prk {
    Salt::new(HKDF_SHA256, b"signet session tickets").extract(secret)
}

/// A name for a secret that came with none. It says no more of it than the name of a key does,
/// which stands at the front of every ticket.
fn public_name(secret: &[u8; SECRET_BYTES]) -> Option<String> {
    let mut name = [0; 4];
    root_of(secret)
        .expand(&[b"public name"], Len(name.len()))
        .ok()?
        .fill(&mut name)
        .ok()?;
    Some(format!("{:08x}", u32::from_be_bytes(name)))
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
            .field("rotation_s", &self.lifetime_s())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
