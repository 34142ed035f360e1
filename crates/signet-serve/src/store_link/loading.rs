//! What a start makes of the bindings in the database.

use std::sync::Arc;

use sip_engine::settings::{Listener, is_bound_at};
use sip_engine::{BindingChange, Location, Settings};
use sip_msg::{Flow, ListenerId};
use sip_store::{BindingStore, StoreError};

/// Rows that one transaction deletes.
const DELETED_AT_ONCE_MAX: usize = 5_000;

/// Fills the table of bindings with those that are alive; how many. Where contacts are in memory
/// alone it begins empty, and what the database has is deleted: no removal would reach it, and
/// who was removed would be back at a later start.
pub(super) fn load(
    bindings: &mut impl BindingStore,
    location: &Location,
    settings: &Settings,
    unix_ms: u64,
) -> Result<u64, StoreError> {
    if !settings.registrar.durable {
        let contacts = delete_all(bindings, DELETED_AT_ONCE_MAX)?;
        if contacts > 0 {
            tracing::warn!(
                "registrar.durable is false, so the contacts in the database were deleted, {contacts} in all: nobody is registered until his phone registers again"
            );
        }
        return Ok(0);
    }
    let mut contacts: u64 = 0;
    let loaded = bindings.load(unix_ms, &mut |mut change| {
        if let BindingChange::Put { binding, .. } = &mut change
            && let Some(flow) = binding.flow
        {
            let found = by_listener_now(flow, &settings.listeners);
            contacts += u64::from(found.is_none());
            if found != Some(flow) {
                Arc::make_mut(binding).flow = found;
            }
        }
        location.apply(std::slice::from_ref(&change));
    })?;
    if contacts > 0 {
        tracing::warn!(
            "of the contacts in the database {contacts} were registered by UDP where no listener is now: they are called by their URIs until their phones register again"
        );
    }
    Ok(loaded)
}

/// Deletes all rows, so many at once; how many there were.
fn delete_all(bindings: &mut impl BindingStore, rows_max: usize) -> Result<u64, StoreError> {
    let mut deleted = 0;
    loop {
        // At the end of time all have expired.
        let swept = bindings.delete_expired(u64::MAX, rows_max)?;
        deleted += swept.deleted;
        if swept.is_round {
            return Ok(deleted);
        }
    }
}

/// The flow by the listener that has its address now, whichever number that had before. What
/// comes to an address that one listener is bound to is not the wildcard's.
fn by_listener_now(flow: Flow, listeners: &[Listener]) -> Option<Flow> {
    let listeners = listeners.iter().enumerate();
    let fitting = listeners.filter(|(_, listener)| is_usable(listener, &flow));
    let (nth, _) = fitting.min_by_key(|(_, listener)| listener.bound.ip() != flow.local.ip())?;
    let listener = ListenerId(u16::try_from(nth).ok()?);
    Some(Flow { listener, ..flow })
}

fn is_usable(listener: &Listener, flow: &Flow) -> bool {
    listener.transport == flow.transport && is_bound_at(listener.bound, flow.local)
}

#[cfg(test)]
mod tests {
    use sip_engine::Binding;
    use sip_msg::{ConnId, Transport};
    use sip_store::{Bindings, Database};

    use super::*;
    use crate::testing::{TempDir, logged};

    fn aor(nth: usize) -> Arc<[u8]> {
        format!("sip:user{nth}@example.com").into_bytes().into()
    }

    /// The bindings of a database that has a contact of a user by each of these flows.
    fn stored(folder: &TempDir, flows: &[Flow]) -> Bindings {
        let put = |(nth, flow): (usize, &Flow)| BindingChange::Put {
            aor: aor(nth),
            key: (*b"phone").into(),
            binding: Arc::new(Binding {
                uri: (*b"sip:phone@192.168.0.7").into(),
                q: 1_000,
                expires_unix_ms: 2_000,
                call_id: (*b"c").into(),
                cseq: 1,
                instance: None,
                reg_id: None,
                path: Box::default(),
                flow: Some(*flow),
                user_agent: Box::default(),
                node: "".into(),
                since_unix_ms: 0,
                source: None,
                is_translated: true,
                had_flow: true,
            }),
        };
        let changes: Vec<_> = flows.iter().enumerate().map(put).collect();
        let database = Database::open(&folder.path().join("signet.db")).unwrap();
        let mut bindings = database.bindings().unwrap();
        bindings.save(&mut changes.iter()).unwrap();
        bindings
    }

    fn flow(listener: u16, local: &str) -> Flow {
        Flow {
            transport: Transport::Udp,
            listener: ListenerId(listener),
            local: local.parse().unwrap(),
            remote: match local.starts_with('[') {
                true => "[2001:db8::7]:40000".parse().unwrap(),
                false => "203.0.113.7:40000".parse().unwrap(),
            },
            conn: ConnId::NONE,
        }
    }

    fn settings(is_durable: bool, listeners: &[(Transport, &str)]) -> Settings {
        let listener = |(transport, bound): &(Transport, &str)| Listener {
            transport: *transport,
            bound: bound.parse().unwrap(),
            advertised_host: None,
            advertised_port: 5060,
            certificates_authenticate: false,
        };
        let mut settings = Settings {
            listeners: listeners.iter().map(listener).collect(),
            ..Settings::default()
        };
        settings.registrar.durable = is_durable;
        settings
    }

    #[test]
    fn a_flow_goes_by_the_listener_that_has_its_address_now() {
        let folder = TempDir::new("loading-listeners");
        let cases = [
            (flow(0, "192.0.2.1:5060"), Some(2)),
            (flow(2, "192.0.2.1:5060"), Some(2)),
            (flow(7, "192.0.2.1:5060"), Some(2)),
            (flow(0, "192.0.2.2:5060"), Some(3)),
            (flow(0, "[2001:db8::1]:5060"), Some(4)),
            (flow(0, "192.0.2.1:5070"), None),
        ];
        let mut bindings = stored(&folder, &cases.map(|(flow, _)| flow));
        let settings = settings(
            true,
            &[
                (Transport::Wss, "0.0.0.0:8443"),
                (Transport::Tcp, "0.0.0.0:5060"),
                (Transport::Udp, "0.0.0.0:5060"),
                (Transport::Udp, "192.0.2.2:5060"),
                (Transport::Udp, "[::]:5060"),
            ],
        );
        let location = Location::new(100, [0; 16]);
        let log = logged(|| {
            let loaded = load(&mut bindings, &location, &settings, 1_000);
            assert_eq!(loaded.unwrap(), cases.len() as u64);
        });
        for (nth, (before, listener)) in cases.into_iter().enumerate() {
            let mut found = Vec::new();
            location.find(&aor(nth), 1_000, &mut found);
            let now = found.first().unwrap().flow;
            let expected = listener.map(|listener| Flow {
                listener: ListenerId(listener),
                ..before
            });
            assert_eq!(now, expected, "{before:?}");
        }
        assert!(
            log.contains("database 1 were registered by UDP where no listener is now"),
            "{log}"
        );
    }

    #[test]
    fn where_contacts_are_in_memory_alone_none_is_left_in_the_database() {
        let folder = TempDir::new("loading-memory");
        let mut bindings = stored(&folder, &[flow(0, "192.0.2.1:5060"); 3]);
        let listeners = [(Transport::Udp, "0.0.0.0:5060")];
        let (durable, in_memory) = (settings(true, &listeners), settings(false, &listeners));
        let location = Location::new(100, [0; 16]);
        let log = logged(|| {
            let loaded = load(&mut bindings, &location, &in_memory, 1_000);
            assert_eq!(loaded.unwrap(), 0);
        });
        assert_eq!(location.bindings(), 0);
        assert!(log.contains("were deleted, 3 in all"), "{log}");

        let later = load(&mut bindings, &location, &durable, 1_000);
        assert_eq!((later.unwrap(), location.bindings()), (0, 0));
    }

    #[test]
    fn all_rows_are_deleted_in_steps() {
        for rows in 0..6 {
            let folder = TempDir::new(&format!("loading-steps-{rows}"));
            let mut bindings = stored(&folder, &vec![flow(0, "192.0.2.1:5060"); rows]);
            assert_eq!(delete_all(&mut bindings, 2).unwrap(), rows as u64);
            let left = bindings.load(0, &mut |_| {});
            assert_eq!(left.unwrap(), 0);
        }
    }
}
