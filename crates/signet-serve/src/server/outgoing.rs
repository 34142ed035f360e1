//! What TLS connections are made from that this server opens: to all, and to
//! the names that have settings of their own.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sip_tls::{ClientTlsConfig, PeerEntry, PeerTls};

use crate::Error;
use crate::config::{CertificatePair, Config, ShownIdentity, TlsPeer};
use crate::read_once::ReadOnce;

use super::identity::{add_crls, add_identity, add_roots};

/// What was read for one set of names, and found good.
pub(super) struct ClientMaterial {
    pub(super) tls: ClientTlsConfig,
    /// A fingerprint of the settings and of the files.
    pub(super) print: u64,
}

/// The names with settings of their own, as they were read.
pub(super) struct ReadPeer {
    names: Vec<String>,
    expect: Option<Arc<str>>,
    read: ClientMaterial,
}

/// For all names that have no settings of their own.
pub(super) fn read_all(
    config: &Config,
    ca_pem: &Path,
    files: &ReadOnce,
) -> Result<ClientMaterial, Error> {
    read(config, &TlsPeer::default(), ca_pem, files)
}

/// For the others.
pub(super) fn read_peers(
    config: &Config,
    ca_pem: &Path,
    files: &ReadOnce,
) -> Result<Vec<ReadPeer>, Error> {
    let peers = config.tls.peer.iter().map(|peer| {
        Ok(ReadPeer {
            names: peer.names.iter().map(ToString::to_string).collect(),
            expect: peer.expect.as_ref().map(|name| name.0.clone()),
            read: read(config, peer, ca_pem, files)?,
        })
    });
    peers.collect()
}

fn read(
    config: &Config,
    peer: &TlsPeer,
    ca_pem: &Path,
    files: &ReadOnce,
) -> Result<ClientMaterial, Error> {
    let all = &config.tls;
    let mut print = DefaultHasher::new();
    let roots: Vec<PathBuf> = if peer.server_roots.is_empty() {
        let own = std::iter::once(ca_pem.to_owned());
        own.chain(all.trust.iter().cloned()).collect()
    } else {
        peer.server_roots.clone()
    };
    let crls = if peer.server_crls.is_empty() {
        &all.crls
    } else {
        &peer.server_crls
    };
    let tls = peer
        .offering(all)
        .key_usage(all.key_usage)
        .revocation(all.revocation);
    let tls = add_roots(tls, &roots, files)?;
    let mut tls = add_crls(tls, crls, files)?;
    let pair: Option<&CertificatePair> = match &peer.identity {
        None => all.identity.as_ref(),
        Some(ShownIdentity::Pair(pair)) => Some(pair),
        Some(ShownIdentity::None) => None,
    };
    if let Some(pair) = pair {
        tls = add_identity(tls, &pair.cert, &pair.key, files)?;
    }
    for file in roots.iter().chain(crls).chain(pair.map(|pair| &pair.cert)) {
        let pem = (files.read(file)).map_err(|error| Error::file("read", file, &error))?;
        pem.as_slice().hash(&mut print);
    }
    format!(
        "{:?} {:?} {:?} {:?} {:?} {:?} {peer:?}",
        all.key_usage, all.revocation, all.versions, all.suites, all.groups, all.chosen
    )
    .hash(&mut print);
    // What cannot be used is to be known before anything is replaced.
    tls.clone().build()?;
    Ok(ClientMaterial {
        tls,
        print: print.finish(),
    })
}

/// The names with settings of their own that are in service.
#[derive(Default)]
pub(super) struct Peers {
    pub(super) tls: PeerTls,
    held: Vec<(u64, PeerEntry)>,
}

impl Peers {
    /// Takes over what was read. Where nothing has changed the sessions stay.
    pub(super) fn replace(&mut self, fresh: Vec<ReadPeer>) -> Result<(), Error> {
        let mut held = Vec::new();
        let mut by_name = Vec::new();
        for peer in fresh {
            let print = peer.read.print;
            let before = self.held.iter().find(|(known, _)| *known == print);
            let tls = match before {
                Some((_, entry)) => Arc::clone(&entry.tls),
                None => Arc::new(peer.read.tls.build()?),
            };
            let entry = PeerEntry {
                tls,
                expect: peer.expect,
            };
            by_name.extend(peer.names.into_iter().map(|name| (name, entry.clone())));
            held.push((print, entry));
        }
        self.tls.replace(by_name);
        self.held = held;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ca::Ca;
    use crate::data_dir::DataDir;
    use crate::testing::TempDir;
    use crate::tls_report::ShownOutgoing;

    #[test]
    fn what_is_built_compared_and_told_is_of_one_reading() {
        let temp = TempDir::new("outgoing-once");
        let data = DataDir::open(temp.path()).unwrap();
        let ca = Ca::init(&data).unwrap();
        let ca_pem = data.file("ca.pem");
        let issue = || {
            ca.issue(&["a.example".to_owned()], &data.file("a"))
                .unwrap()
        };
        let issued = issue();
        let mut config = Config::default();
        config.tls.identity = Some(CertificatePair {
            cert: issued.certificate.clone(),
            key: issued.key.clone(),
        });
        let of = |files: &ReadOnce| {
            let print = read_all(&config, &ca_pem, files).unwrap().print;
            let shown = ShownOutgoing::read(&config.tls, files).unwrap();
            (print, shown.identity.unwrap().der)
        };
        let before = of(&ReadOnce::default());
        let files = ReadOnce::default();
        files.read(&issued.certificate).unwrap();
        files.read(&issued.key).unwrap();
        // Another pair takes their place amid the reading.
        issue();
        assert_eq!(of(&files), before);
        let after = of(&ReadOnce::default());
        assert_ne!(after.0, before.0);
        assert_ne!(after.1, before.1);
    }
}
