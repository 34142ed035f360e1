//! The server's own certificate, which is renewed while the server runs. Nothing that the
//! operator names is read for that: what a reload has yet to take over stays out of service.

use sip_tls::ServerTlsConfig;

use super::{Identity, add_pair, names};
use crate::Error;
use crate::ca::{Ca, Issued};
use crate::config::Domain;
use crate::data_dir::DataDir;
use crate::read_once::ReadOnce;
use crate::setup::PlannedListener;
use crate::tls_report::ShownCertificate;

/// The certificate, and the listeners that show it.
pub(super) struct Own {
    /// The authority that it is by, in PEM.
    authority: String,
    /// The certificate in DER.
    certificate: Vec<u8>,
    /// Of each listener that shows it all else that its handshakes are made from.
    rules: Vec<Option<ServerTlsConfig>>,
}

impl Own {
    pub(super) fn read(
        ca: &Ca,
        issued: &Issued,
        rules: Vec<Option<ServerTlsConfig>>,
        files: &ReadOnce,
    ) -> Result<Self, Error> {
        Ok(Self {
            authority: ca.pem().to_owned(),
            certificate: ShownCertificate::read(&issued.certificate, files)?.der,
            rules,
        })
    }
}

impl Identity {
    /// Has the server's own certificate issued anew where that is due, and shows it; whether
    /// another is shown now.
    pub(in crate::server) fn renew_own(
        &mut self,
        data: &DataDir,
        domains: &[Domain],
        planned: &[PlannedListener],
    ) -> Result<bool, Error> {
        let ca = Ca::open(data)?;
        // Clients that trust the one before would refuse what this one issues.
        if ca.pem() != self.own.authority {
            let file = data.file("ca.pem");
            return Err(Error::new(
                format!("{} is not the authority in service", file.display()),
                "reload the server to take it over, or put the one before back",
            ));
        }
        let issued = ca.server_certificate(data, &names(domains, planned))?;
        let files = ReadOnce::default();
        let certificate = ShownCertificate::read(&issued.certificate, &files)?;
        if certificate.der == self.own.certificate {
            return Ok(false);
        }
        let rules = self.own.rules.iter();
        let fresh = rules.map(|rules| {
            let shows = |rules| add(rules, &issued, &files);
            rules.clone().map(shows).transpose()
        });
        let fresh: Vec<_> = fresh.collect::<Result<_, _>>()?;
        // What cannot be used is to be known before anything is replaced.
        for tls in fresh.iter().flatten() {
            tls.clone().build()?;
        }
        let held = self.listeners.iter().zip(&mut self.shown);
        for ((held, shown), fresh) in held.zip(fresh) {
            if let (Some(held), Some(shown), Some(fresh)) = (held, shown, fresh) {
                held.reload(fresh)?;
                shown.certificates = vec![certificate.clone()];
            }
        }
        self.own.certificate = certificate.der;
        Ok(true)
    }
}

/// Shows that certificate.
pub(super) fn add(
    rules: ServerTlsConfig,
    own: &Issued,
    files: &ReadOnce,
) -> Result<ServerTlsConfig, Error> {
    add_pair(rules, &own.certificate, &own.key, files)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::net::SocketAddr;
    use std::sync::Arc;

    use sip_tls::{ClientAuth, ClientTlsConfig, Handshake, Side};

    use super::super::{Material, Tickets};
    use super::*;
    use crate::config::{Config, ListenSecurity};
    use crate::testing::TempDir;

    fn listener(security: ListenSecurity) -> PlannedListener {
        PlannedListener {
            at: "tls:127.0.0.1:5061".parse().unwrap(),
            advertise: None,
            nat: Default::default(),
            media: Default::default(),
            security,
            websocket: Default::default(),
            accept: true,
        }
    }

    fn identity(data: &DataDir, listeners: &[PlannedListener]) -> Identity {
        let tickets = Tickets::File;
        let read = Material::read(&Config::default(), data, &[], listeners, &tickets);
        Identity::new(read.unwrap()).unwrap()
    }

    /// The certificate that a client of each listener is shown.
    fn shown(held: &Identity) -> Vec<Vec<u8>> {
        let remote: SocketAddr = "127.0.0.1:40000".parse().unwrap();
        let listeners = held.listeners.iter().flatten();
        let of_listener = |tls: &Arc<sip_tls::ServerTls>| {
            let client = ClientTlsConfig::new().trust_anyone_insecurely();
            let client = Arc::new(client.build().unwrap());
            let side = Side::client(client, Some("a.example"), remote.ip()).unwrap();
            let mut client = Handshake::new(side, remote);
            let mut server = Handshake::new(Side::Server(tls.clone()), remote);
            while !client.established {
                client.step().0.unwrap();
                server.input.append(&mut client.output);
                server.step().0.unwrap();
                client.input.append(&mut server.output);
            }
            let (session, _) = client.finish().unwrap();
            let chain = session.peer_certificates().unwrap();
            chain.first().unwrap().to_vec()
        };
        listeners.map(of_listener).collect()
    }

    #[test]
    fn a_renewal_takes_over_nothing_but_the_servers_own_certificate() {
        let temp = TempDir::new("identity-renewal");
        let data = DataDir::open(temp.path()).unwrap();
        let ca = Ca::init(&data).unwrap();
        let issue = || ca.issue(&["a.example".to_owned()], &data.file("given"));
        let (given, roots) = (issue().unwrap(), data.file("roots.pem"));
        fs::copy(data.file("ca.pem"), &roots).unwrap();
        let listeners = [
            listener(ListenSecurity {
                certificate: Some(given.certificate.clone()),
                key: Some(given.key.clone()),
                ..ListenSecurity::default()
            }),
            listener(ListenSecurity {
                client_certificates: ClientAuth::Optional,
                client_roots: vec![roots.clone()],
                ..ListenSecurity::default()
            }),
        ];
        let mut held = identity(&data, &listeners);
        let before = shown(&held);

        // What the operator puts there waits for a reload, whole or not.
        issue().unwrap();
        assert!(!held.renew_own(&data, &[], &listeners).unwrap());
        assert_eq!(shown(&held), before);
        fs::remove_file(&given.key).unwrap();
        fs::write(&roots, "nothing").unwrap();
        fs::remove_file(data.file("server.pem")).unwrap();
        assert!(held.renew_own(&data, &[], &listeners).unwrap());
        let own = ShownCertificate::read(&data.file("server.pem"), &ReadOnce::default()).unwrap();
        let [of_operator, own_before]: [Vec<u8>; 2] = before.try_into().unwrap();
        assert_ne!(own.der, own_before);
        assert_eq!(shown(&held), [of_operator, own.der.clone()]);
        let told = held.shown().0.into_iter().flatten();
        let told = told.map(|listener| listener.certificates.into_iter().map(|of| of.der));
        assert_eq!(told.flatten().last(), Some(own.der));
        assert!(!held.renew_own(&data, &[], &listeners).unwrap());
    }

    #[test]
    fn another_authority_waits_for_a_reload() {
        let temp = TempDir::new("identity-authority");
        let data = DataDir::open(temp.path()).unwrap();
        let listeners = [listener(ListenSecurity::default())];
        let mut held = identity(&data, &listeners);
        let before = shown(&held);
        for name in ["ca.pem", "ca.key"] {
            fs::rename(data.file(name), data.file(&format!("{name}.old"))).unwrap();
        }
        Ca::init(&data).unwrap();
        let error = held.renew_own(&data, &[], &listeners).unwrap_err();
        assert!(error.what().contains("ca.pem"), "{error}");
        assert_eq!(shown(&held), before);

        let fresh = Material::read(&Config::default(), &data, &[], &listeners, &Tickets::File);
        held.replace(fresh.unwrap()).unwrap();
        assert!(!held.renew_own(&data, &[], &listeners).unwrap());
        assert_ne!(shown(&held), before);
    }
}
