//! The keys under which tokens are signed: a small ring, an input to every
//! shard. Where it is kept, and when it is renewed, is not for the engine to
//! know: a file, or a store that several nodes share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Keys in a ring at most: a token names its key in a byte, and a new one is
/// made about daily.
pub const TOKEN_KEYS_MAX: usize = 64;

/// Names that a key may have.
const KEY_NAMES: usize = 1 << u8::BITS;

/// A key of the ring.
#[derive(Clone)]
pub struct TokenKey {
    /// What tokens under it call it.
    pub id: u8,
    /// The secret.
    pub secret: [u8; 32],
    /// When it was made.
    pub created_unix_s: u64,
}

impl std::fmt::Debug for TokenKey {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("TokenKey")
            .field("id", &self.id)
            .field("created_unix_s", &self.created_unix_s)
            .finish_non_exhaustive()
    }
}

/// The ring that the shards of a process share. The newest key signs, all of
/// them verify.
#[derive(Debug)]
pub struct TokenKeys {
    epoch: u32,
    version: AtomicU64,
    keys: Mutex<Ring>,
    /// Until when each key must verify, in seconds since 1970, because of dialogs that live on by
    /// what was answered within them. By the key's name.
    needed_until_s: [AtomicU64; KEY_NAMES],
}

/// A ring is never empty.
#[derive(Clone, Debug)]
pub(super) struct Ring {
    pub(super) newest: TokenKey,
    pub(super) older: Vec<TokenKey>,
}

impl TokenKeys {
    /// A ring of `newest` and the keys before it. `epoch` is drawn by chance in
    /// each process: a connection that is named under another is unknown.
    pub fn new(newest: TokenKey, older: Vec<TokenKey>, epoch: u32) -> Self {
        Self {
            epoch,
            version: AtomicU64::new(0),
            keys: Mutex::new(Ring::new(newest, older)),
            needed_until_s: [const { AtomicU64::new(0) }; KEY_NAMES],
        }
    }

    /// A ring of one key.
    pub fn of(secret: [u8; 32], epoch: u32) -> Self {
        let only = TokenKey {
            id: 0,
            secret,
            created_unix_s: 0,
        };
        Self::new(only, Vec::new(), epoch)
    }

    /// Replaces the whole ring; every shard takes it up with its next message.
    pub fn replace(&self, newest: TokenKey, older: Vec<TokenKey>) {
        *self.lock() = Ring::new(newest, older);
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Until when dialogs that are alive need the key of this name, in seconds since 1970, whatever
    /// its age; 0 where none does. A restart forgets it: whoever keeps the ring says anew that
    /// what it found there is needed ([`TokenKeys::need`]).
    pub fn needed_until_s(&self, id: u8) -> u64 {
        self.needed_until_s[usize::from(id)].load(Ordering::Relaxed)
    }

    /// A dialog with a token under the key of this name may be alive until then.
    pub fn need(&self, id: u8, until_s: u64) {
        self.needed_until_s[usize::from(id)].fetch_max(until_s, Ordering::Relaxed);
    }

    /// Changes with every [`TokenKeys::replace`].
    pub(super) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    pub(super) fn ring(&self) -> Ring {
        self.lock().clone()
    }

    pub(super) fn epoch(&self) -> u32 {
        self.epoch
    }

    fn lock(&self) -> MutexGuard<'_, Ring> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ring {
    fn new(newest: TokenKey, mut older: Vec<TokenKey>) -> Self {
        older.truncate(TOKEN_KEYS_MAX - 1);
        Self { newest, older }
    }
}
