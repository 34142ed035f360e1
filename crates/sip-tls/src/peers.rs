//! Settings of connections that are opened, by the name that is called.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use crate::client::ClientTls;

/// How the connections to one name are opened.
#[derive(Clone, Debug)]
pub struct PeerEntry {
    /// What is offered, shown and believed.
    pub tls: Arc<ClientTls>,
    /// The name that the certificate must bear, where it is not the one that is
    /// called (RFC 5922 7.3).
    pub expect: Option<Arc<str>>,
}

/// Names with settings of their own; connections to any other name are opened
/// by [`crate::NetConfig::client_tls`]. Cheap to clone; all clones are one.
#[derive(Clone, Debug, Default)]
pub struct PeerTls {
    by_name: Arc<RwLock<HashMap<String, PeerEntry>>>,
}

impl PeerTls {
    /// Without any.
    pub fn new() -> Self {
        Self::default()
    }

    /// Replaces all of them for connections to come. Names count whatever their
    /// case; an address stands for itself.
    pub fn replace(&self, entries: impl IntoIterator<Item = (String, PeerEntry)>) {
        let entries = entries
            .into_iter()
            .map(|(name, entry)| (bare(&name), entry))
            .collect();
        *self.by_name.write().unwrap_or_else(PoisonError::into_inner) = entries;
    }

    /// How a connection to this name is opened, if not as all are.
    pub fn find(&self, name: &str) -> Option<PeerEntry> {
        let by_name = self.by_name.read().unwrap_or_else(PoisonError::into_inner);
        if by_name.is_empty() {
            return None;
        }
        by_name.get(&bare(name)).cloned()
    }
}

fn bare(name: &str) -> String {
    let inner = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'))
        .unwrap_or(name);
    inner
        .strip_suffix('.')
        .unwrap_or(inner)
        .to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_whatever_its_form_and_no_other_is() {
        let peers = PeerTls::new();
        assert!(peers.find("example.net").is_none());
        let tls = Arc::new(ClientTls::from_pem(&[]).unwrap());
        let entry = |expect: &str| PeerEntry {
            tls: Arc::clone(&tls),
            expect: Some(expect.into()),
        };
        peers.replace([
            ("Example.NET".to_owned(), entry("a")),
            ("[2001:db8::1]".to_owned(), entry("b")),
        ]);
        let expect = |name: &str| peers.find(name).and_then(|entry| entry.expect);
        assert_eq!(expect("example.net.").as_deref(), Some("a"));
        assert_eq!(expect("2001:db8::1").as_deref(), Some("b"));
        assert_eq!(expect("sip.example.net"), None);
        peers.replace([]);
        assert_eq!(expect("example.net"), None);
    }
}
