//! The sessions that a client remembers, so that its next connection to the
//! same peer resumes.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::NamedGroup;
use rustls::client::{ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::pki_types::{ServerName, UnixTime};

use crate::context::current;
use crate::legacy::Resumable;
use crate::resumption::Resumption;

/// Tickets of TLS 1.3 kept for one peer, unless told otherwise; each serves
/// once.
pub(crate) const TICKETS_MAX: usize = 4;

/// Whose session with whom: the number of our identity, the name that the peer
/// proved, and its address.
pub(crate) type Key = (u64, ServerName<'static>, SocketAddr);

#[derive(Default)]
struct Peer {
    group: Option<NamedGroup>,
    tls12: Option<Tls12ClientSessionValue>,
    tls13: VecDeque<Tls13ClientSessionValue>,
    legacy: Option<Resumable>,
    /// When the first certificate of the peer's chain ends that does, in
    /// seconds since 1970: a session is no proof past it. A reload forgets all,
    /// and what time changes beside that is asked when one is resumed.
    ends_unix_s: Option<u64>,
    /// Whether it was of use since it was last looked at to be forgotten.
    used: bool,
}

impl Peer {
    fn is_resumable(&self) -> bool {
        self.tls12.is_some() || !self.tls13.is_empty() || self.legacy.is_some()
    }

    fn is_good(&self, now_unix_s: u64) -> bool {
        self.ends_unix_s.is_none_or(|end| now_unix_s <= end)
    }
}

#[derive(Default)]
struct Table {
    peers: HashMap<Key, Peer>,
    /// In the order in which they were first met, or last spared.
    order: VecDeque<Key>,
}

impl Table {
    /// Forgets the oldest that was of no use lately: a neighbour is called every
    /// minute and must not go for a phone that is called once.
    fn forget_one(&mut self) {
        for _ in 0..=self.order.len() {
            let Some(oldest) = self.order.pop_front() else {
                return;
            };
            match self.peers.get_mut(&oldest) {
                Some(peer) if peer.used => {
                    peer.used = false;
                    self.order.push_back(oldest);
                }
                _ => {
                    self.peers.remove(&oldest);
                    return;
                }
            }
        }
    }
}

/// The sessions of all identities that were made from one configuration.
pub(crate) struct ClientSessions {
    table: Mutex<Table>,
    peers_max: usize,
    tickets_max: usize,
}

impl ClientSessions {
    pub(crate) fn new(peers_max: usize, tickets_max: usize) -> Arc<Self> {
        Arc::new(Self {
            table: Mutex::default(),
            peers_max: peers_max.max(1),
            tickets_max: tickets_max.max(1),
        })
    }

    /// With how many peers a connection could be resumed.
    pub(crate) fn resumable_count(&self) -> usize {
        let table = self.table();
        let peers = table.peers.values();
        peers.filter(|peer| peer.is_resumable()).count()
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.table().peers.len()
    }

    pub(crate) fn clear(&self) {
        *self.table() = Table::default();
    }

    pub(crate) fn end_at(&self, key: Key, unix_s: u64) {
        self.change(key, |peer| peer.ends_unix_s = Some(unix_s));
    }

    /// Forgets all sessions with this peer.
    pub(crate) fn forget(&self, key: &Key) {
        self.read(key, |peer| Some(std::mem::take(peer)));
    }

    pub(crate) fn forget_tls12(&self, key: &Key) {
        self.read(key, |peer| peer.tls12.take());
    }

    /// Keeps a session of the second engine.
    pub(crate) fn keep_legacy(&self, key: Key, session: Resumable) {
        self.change(key, |peer| peer.legacy = Some(session));
    }

    /// The session of the second engine with this peer.
    pub(crate) fn legacy(&self, key: &Key) -> Option<Resumable> {
        let now = UnixTime::now().as_secs();
        self.read(key, |peer| {
            peer.legacy.clone().filter(|_| peer.is_good(now))
        })
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, key: Key, change: impl FnOnce(&mut Peer)) {
        let mut table = self.table();
        if !table.peers.contains_key(&key) {
            if table.peers.len() >= self.peers_max {
                table.forget_one();
            }
            table.order.push_back(key.clone());
        }
        change(table.peers.entry(key).or_default());
    }

    fn read<R>(&self, key: &Key, read: impl FnOnce(&mut Peer) -> Option<R>) -> Option<R> {
        self.table().peers.get_mut(key).and_then(read)
    }
}

/// The sessions of one identity with the peers at one address.
pub(crate) struct AddressedSessions {
    pub(crate) all: Arc<ClientSessions>,
    pub(crate) identity: u64,
    pub(crate) addr: SocketAddr,
    /// Whether tickets of TLS 1.3 are kept.
    pub(crate) keeps_tls13: bool,
}

impl AddressedSessions {
    fn key(&self, name: &ServerName<'_>) -> Key {
        (self.identity, name.to_owned(), self.addr)
    }
}

impl ClientSessionStore for AddressedSessions {
    fn set_kx_hint(&self, name: ServerName<'static>, group: NamedGroup) {
        let key = (self.identity, name, self.addr);
        self.all.change(key, |peer| peer.group = Some(group));
    }

    fn kx_hint(&self, name: &ServerName<'_>) -> Option<NamedGroup> {
        self.all.read(&self.key(name), |peer| peer.group)
    }

    fn set_tls12_session(&self, name: ServerName<'static>, value: Tls12ClientSessionValue) {
        let key = (self.identity, name, self.addr);
        self.all.change(key, |peer| peer.tls12 = Some(value));
    }

    fn tls12_session(&self, name: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        let now = UnixTime::now().as_secs();
        let (session, end) = self.all.read(&self.key(name), |peer| {
            peer.used = true;
            let session = peer.tls12.clone().filter(|_| peer.is_good(now))?;
            Some((session, peer.ends_unix_s))
        })?;
        current(|context| {
            context.found = Some(Resumption::SessionId);
            context.not_after_unix_s = end;
        });
        Some(session)
    }

    fn remove_tls12_session(&self, name: &ServerName<'static>) {
        self.all.read(&self.key(name), |peer| peer.tls12.take());
    }

    fn insert_tls13_ticket(&self, name: ServerName<'static>, value: Tls13ClientSessionValue) {
        if self.keeps_tls13 {
            let key = (self.identity, name, self.addr);
            let tickets_max = self.all.tickets_max;
            self.all.change(key, |peer| {
                if peer.tls13.len() >= tickets_max {
                    peer.tls13.pop_front();
                }
                peer.tls13.push_back(value);
            });
        }
    }

    fn take_tls13_ticket(&self, name: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        // The latest: the server is the likeliest to have its key still.
        let now = UnixTime::now().as_secs();
        let (ticket, end) = self.all.read(&self.key(name), |peer| {
            peer.used = true;
            let ticket = peer.tls13.pop_back().filter(|_| peer.is_good(now))?;
            Some((ticket, peer.ends_unix_s))
        })?;
        current(|context| {
            context.found = Some(Resumption::Psk);
            context.not_after_unix_s = end;
        });
        Some(ticket)
    }
}

// Secrets are inside: nothing of them is shown.
impl std::fmt::Debug for AddressedSessions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AddressedSessions")
            .field("addr", &self.addr)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(all: &Arc<ClientSessions>, identity: u64, port: u16) -> AddressedSessions {
        AddressedSessions {
            all: Arc::clone(all),
            identity,
            addr: SocketAddr::from(([127, 0, 0, 1], port)),
            keeps_tls13: true,
        }
    }

    #[test]
    fn what_is_remembered_belongs_to_identity_name_and_address() {
        let all = ClientSessions::new(10, TICKETS_MAX);
        let name = |name: &'static str| ServerName::try_from(name).unwrap();
        at(&all, 1, 5061).set_kx_hint(name("a.example"), NamedGroup::X25519);
        let hint = |identity, host, port| at(&all, identity, port).kx_hint(&name(host));
        assert_eq!(hint(1, "a.example", 5061), Some(NamedGroup::X25519));
        assert_eq!(hint(2, "a.example", 5061), None);
        assert_eq!(hint(1, "b.example", 5061), None);
        assert_eq!(hint(1, "a.example", 5062), None);
    }

    #[test]
    fn a_session_is_a_proof_up_to_the_end_of_the_certificate() {
        let ending = |ends_unix_s| Peer {
            ends_unix_s,
            ..Peer::default()
        };
        // RFC 5280 4.1.2.5: a certificate is valid up to notAfter, inclusive.
        assert!(ending(Some(1_000)).is_good(1_000));
        assert!(!ending(Some(1_000)).is_good(1_001));
        assert!(ending(None).is_good(u64::MAX));
    }

    #[test]
    fn the_oldest_peer_is_forgotten_for_a_new_one() {
        let all = ClientSessions::new(3, TICKETS_MAX);
        let name = ServerName::try_from("example.com").unwrap();
        for port in 1..=5 {
            at(&all, 1, port).set_kx_hint(name.clone(), NamedGroup::X25519);
            assert!(all.len() <= 3);
        }
        let known: Vec<u16> = (1..=5)
            .filter(|port| at(&all, 1, *port).kx_hint(&name).is_some())
            .collect();
        assert_eq!(known, [3, 4, 5]);
        all.clear();
        assert_eq!(all.len(), 0);
    }

    #[test]
    fn a_peer_that_is_called_again_and_again_is_kept() {
        let all = ClientSessions::new(3, TICKETS_MAX);
        let name = ServerName::try_from("example.com").unwrap();
        at(&all, 1, 1).set_kx_hint(name.clone(), NamedGroup::X25519);
        for port in 2..=20 {
            // Whether there is a session yet or not, it was asked for.
            assert!(at(&all, 1, 1).tls12_session(&name).is_none());
            at(&all, 1, port).set_kx_hint(name.clone(), NamedGroup::X25519);
            assert!(at(&all, 1, 1).kx_hint(&name).is_some(), "{port}");
            assert!(all.len() <= 3);
        }
        // When all are of use, one of them goes all the same.
        for port in 1..=20 {
            let _ = at(&all, 1, port).tls12_session(&name);
        }
        at(&all, 1, 30).set_kx_hint(name.clone(), NamedGroup::X25519);
        assert_eq!(all.len(), 3);
    }
}
