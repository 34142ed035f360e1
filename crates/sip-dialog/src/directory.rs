//! Finds agents by the Request-URI and by their connection, and calls by what
//! makes a request a merged one.

use crate::agent::{Agent, NOBODY, Text};
use crate::random::Random;
use crate::slots::{Key, Slots};
use hashbrown::HashTable;
use invariant::broken;
use sip_msg::{ConnId, Uri};

/// The tables. They hold slots only; the strings are the agents'.
pub(crate) struct Directory {
    contacts: HashTable<(u64, u32)>,
    aors: HashTable<(u64, u32)>,
    conns: HashTable<(u64, ConnId, u32)>,
    invites: HashTable<(u64, Key)>,
}

impl Directory {
    pub(crate) fn new() -> Self {
        Self {
            contacts: HashTable::new(),
            aors: HashTable::new(),
            conns: HashTable::new(),
            invites: HashTable::new(),
        }
    }

    pub(crate) fn add(&mut self, agents: &Slots<Agent>, slot: u32, random: &Random) {
        let Some(agent) = agents.at(slot) else {
            return broken!("an agent is in the table from its adding to its removal");
        };
        for (table, text) in [
            (&mut self.contacts, Text::Contact),
            (&mut self.aors, Text::Aor),
        ] {
            let Some(hash) = hash_of(agent.text(text), random) else {
                return broken!("an agent's URIs were parsed when it was added");
            };
            table.insert_unique(hash, (hash, slot), |entry| entry.0);
        }
    }

    pub(crate) fn remove(&mut self, agents: &Slots<Agent>, slot: u32, random: &Random) {
        let Some(agent) = agents.at(slot) else {
            return broken!("an agent is in the table from its adding to its removal");
        };
        for (table, text) in [
            (&mut self.contacts, Text::Contact),
            (&mut self.aors, Text::Aor),
        ] {
            let hash = hash_of(agent.text(text), random);
            let found = hash.map(|hash| table.find_entry(hash, |entry| *entry == (hash, slot)));
            let Some(Ok(entry)) = found else {
                return broken!("an agent is found by its URIs until it is removed");
            };
            entry.remove();
        }
    }

    /// The agent that a Request-URI means: by its contact, else by its
    /// address-of-record.
    pub(crate) fn find(&self, agents: &Slots<Agent>, uri: &[u8], random: &Random) -> Option<Key> {
        let wanted = parts(uri)?;
        let hash = hash_of(uri, random)?;
        for (table, text) in [(&self.contacts, Text::Contact), (&self.aors, Text::Aor)] {
            let found = table.find(hash, |&(other, slot)| {
                let agent = agents.at(slot);
                other == hash
                    && agent
                        .and_then(|a| parts(a.text(text)))
                        .is_some_and(|p| p.equals(&wanted))
            });
            if let Some(&(_, slot)) = found {
                return agents.key_of(slot);
            }
        }
        None
    }

    /// Puts an agent into the list of those that use its connection.
    pub(crate) fn join_conn(&mut self, agents: &mut Slots<Agent>, key: Key, random: &Random) {
        let Some(conn) = agents
            .get(key)
            .map(|a| a.proxy.conn)
            .filter(|c| c.is_some())
        else {
            return;
        };
        let hash = random.of(&[&conn.0.to_le_bytes()]);
        let mut next = NOBODY;
        match self.conns.find_mut(hash, |entry| entry.1 == conn) {
            Some(entry) => next = std::mem::replace(&mut entry.2, key.slot),
            None => {
                self.conns
                    .insert_unique(hash, (hash, conn, key.slot), |entry| entry.0);
            }
        }
        if let Some(agent) = agents.get_mut(key) {
            agent.conn_next = next;
            agent.conn_previous = NOBODY;
        }
        if let Some(agent) = agents.neighbour_mut(next) {
            agent.conn_previous = key.slot;
        }
    }

    /// Takes an agent out of the list of those that use its connection.
    pub(crate) fn leave_conn(&mut self, agents: &mut Slots<Agent>, key: Key, random: &Random) {
        let Some(agent) = agents.get_mut(key) else {
            return;
        };
        let conn = agent.proxy.conn;
        let next = std::mem::replace(&mut agent.conn_next, NOBODY);
        let previous = std::mem::replace(&mut agent.conn_previous, NOBODY);
        if !conn.is_some() {
            return;
        }
        if let Some(agent) = agents.neighbour_mut(next) {
            agent.conn_previous = previous;
        }
        if let Some(agent) = agents.neighbour_mut(previous) {
            agent.conn_next = next;
            return;
        }
        let hash = random.of(&[&conn.0.to_le_bytes()]);
        let Ok(mut entry) = self
            .conns
            .find_entry(hash, |entry| entry.1 == conn && entry.2 == key.slot)
        else {
            return broken!("the first agent of a connection is found by it");
        };
        if next == NOBODY {
            entry.remove();
        } else {
            entry.get_mut().2 = next;
        }
    }

    /// The first agent that uses a connection.
    pub(crate) fn first_on_conn(
        &self,
        agents: &Slots<Agent>,
        conn: ConnId,
        random: &Random,
    ) -> Option<Key> {
        let hash = random.of(&[&conn.0.to_le_bytes()]);
        let entry = self.conns.find(hash, |entry| entry.1 == conn)?;
        let first = agents.key_of(entry.2);
        first.or_else(|| broken!("a connection names only live agents", None))
    }

    /// Remembers an INVITE by its agent, Call-ID, From tag and CSeq.
    pub(crate) fn add_invite(&mut self, hash: u64, call: Key) {
        self.invites
            .insert_unique(hash, (hash, call), |entry| entry.0);
    }

    /// The calls whose INVITE has this hash. 64 bits under a secret key are
    /// as good as the strings themselves.
    pub(crate) fn has_invite(&self, hash: u64) -> bool {
        self.invites.find(hash, |entry| entry.0 == hash).is_some()
    }

    pub(crate) fn remove_invite(&mut self, hash: u64, call: Key) {
        if let Ok(entry) = self
            .invites
            .find_entry(hash, |entry| *entry == (hash, call))
        {
            entry.remove();
        }
    }
}

/// The hash by which a merged INVITE is found.
pub(crate) fn invite_hash(
    agent: Key,
    call_id: &[u8],
    from_tag: &[u8],
    cseq: u32,
    random: &Random,
) -> u64 {
    random.of(&[
        &agent.slot.to_le_bytes(),
        call_id,
        from_tag,
        &cseq.to_le_bytes(),
    ])
}

/// What of a URI names an agent.
struct Parts<'a> {
    user: &'a [u8],
    host: &'a [u8],
    port: u16,
}

impl Parts<'_> {
    fn equals(&self, other: &Parts<'_>) -> bool {
        self.user == other.user
            && self.host.eq_ignore_ascii_case(other.host)
            && self.port == other.port
    }
}

fn parts(uri: &[u8]) -> Option<Parts<'_>> {
    let uri = Uri::parse(uri)?;
    Some(Parts {
        user: uri.user.unwrap_or_default(),
        host: uri.host_port.host,
        port: uri.host_port.port.unwrap_or(0),
    })
}

fn hash_of(uri: &[u8], random: &Random) -> Option<u64> {
    let parts = parts(uri)?;
    let mut host = [0u8; 64];
    for (lower, byte) in host.iter_mut().zip(parts.host) {
        *lower = byte.to_ascii_lowercase();
    }
    Some(random.of(&[parts.user, &host, &parts.port.to_le_bytes()]))
}
