//! The certificates of the listeners: the operator's own, or the data
//! folder's authority's.

use std::path::Path;
use std::sync::Arc;

use sip_msg::Transport;
use sip_net::{ClientTls, ServerTls, TlsError};
use zeroize::Zeroizing;

use crate::Error;
use crate::ca::{Ca, machine_names};
use crate::config::{Config, Domain, Fault};
use crate::data_dir::{DataDir, refuse_readable_by_others};
use crate::plan::PlannedListener;

/// One certificate for each listener; none where it has no TLS.
pub(super) struct Identity {
    pub(super) listeners: Vec<Option<Certificate>>,
}

/// A certificate that was read and found good, and what it was read from.
pub(super) struct Certificate {
    chain: Vec<u8>,
    key: Zeroizing<Vec<u8>>,
    pub(super) tls: Arc<ServerTls>,
}

impl Identity {
    /// Reads every certificate and key, or fails as a whole.
    pub(super) fn load(
        data: &DataDir,
        domains: &[Domain],
        planned: &[PlannedListener],
    ) -> Result<Self, Error> {
        let ca = Ca::open_or_init(data)?;
        let own = ca.server_certificate(data, &names(domains, planned))?;
        let listeners = planned
            .iter()
            .map(|listener| {
                if listener.at.transport != Transport::Tls {
                    return Ok(None);
                }
                let security = &listener.security;
                match (&security.certificate, &security.key) {
                    (Some(certificate), Some(key)) => Certificate::read(certificate, key).map(Some),
                    _ => Certificate::read(&own.certificate, &own.key).map(Some),
                }
            })
            .collect::<Result<_, Error>>()?;
        Ok(Self { listeners })
    }

    /// Shows the certificates of `fresh` in the handshakes to come. They were
    /// found good as they were read, and are not read again.
    pub(super) fn replace(&mut self, fresh: Self) -> Result<(), TlsError> {
        for (held, fresh) in self.listeners.iter_mut().zip(fresh.listeners) {
            if let (Some(held), Some(fresh)) = (held, fresh) {
                held.tls.reload_pem(&[(&fresh.chain, &fresh.key)])?;
            }
        }
        Ok(())
    }
}

impl Certificate {
    fn read(chain_path: &Path, key_path: &Path) -> Result<Self, Error> {
        let read =
            |path: &Path| std::fs::read(path).map_err(|error| Error::file("read", path, &error));
        let chain = read(chain_path)?;
        let key = Zeroizing::new(read(key_path)?);
        refuse_readable_by_others(key_path)?;
        let tls = ServerTls::from_pem(&[(&chain, &key)]).map_err(|error| {
            Error::new(
                format!(
                    "the certificate {} with the key {} cannot be used: {error}",
                    chain_path.display(),
                    key_path.display()
                ),
                "both are PEM files; the certificate is the chain, the server's own first, and the key is its key",
            )
        })?;
        Ok(Self {
            chain,
            key,
            tls: Arc::new(tls),
        })
    }
}

/// What is wrong with the certificates, keys and authorities that a
/// configuration names.
pub(crate) fn faults_of_files(config: &Config) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (nth, listen) in config.listen.iter().enumerate() {
        if let (Some(chain), Some(key)) = (&listen.security.certificate, &listen.security.key)
            && let Err(error) = Certificate::read(chain, key)
        {
            faults.push(Fault {
                at: format!("listen.{nth}.security"),
                what: error.what().to_owned(),
                remedy: error.remedy().to_owned(),
            });
        }
    }
    for (nth, roots) in config.tls.trust.iter().enumerate() {
        if let Err(error) = ClientTls::from_pem_files(&[roots]) {
            faults.push(Fault {
                at: format!("tls.trust.{nth}"),
                what: error.to_string(),
                remedy: "name a PEM file with the certificates of authorities".to_owned(),
            });
        }
    }
    faults
}

/// Every name under which a phone may reach this server.
fn names(domains: &[Domain], planned: &[PlannedListener]) -> Vec<String> {
    let advertised = planned
        .iter()
        .filter_map(|listener| listener.advertise.as_ref());
    let bound = planned.iter().map(|listener| listener.at.addr.ip());
    let mut names: Vec<String> = domains.iter().map(Domain::to_string).collect();
    names.extend(advertised.map(|advertise| advertise.host.to_string()));
    names.extend(
        bound
            .filter(|ip| !ip.is_unspecified())
            .map(|ip| ip.to_string()),
    );
    names.extend(machine_names());
    names
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::config::{ListenAt, ListenSecurity};
    use crate::testing::TempDir;

    fn tls_listener(security: ListenSecurity) -> [PlannedListener; 1] {
        let at: ListenAt = "tls:127.0.0.1:5061".parse().unwrap();
        [PlannedListener {
            at,
            advertise: None,
            security,
            accept: true,
        }]
    }

    #[test]
    fn a_key_that_does_not_fit_is_refused_with_both_names() {
        let temp = TempDir::new("identity-misfit");
        let data = DataDir::open(temp.path()).unwrap();
        let ca = Ca::init(&data).unwrap();
        let a = ca
            .issue(&["a.example".to_owned()], &data.file("a"))
            .unwrap();
        let b = ca
            .issue(&["b.example".to_owned()], &data.file("b"))
            .unwrap();
        let security = |certificate: &Path, key: &Path| ListenSecurity {
            certificate: Some(certificate.to_owned()),
            key: Some(key.to_owned()),
        };
        let good = security(&a.certificate, &a.key);
        let mut held = Identity::load(&data, &[], &tls_listener(good)).unwrap();

        let misfit = security(&a.certificate, &b.key);
        let error = Identity::load(&data, &[], &tls_listener(misfit))
            .err()
            .unwrap()
            .to_string();
        assert!(
            error.contains("a.pem") && error.contains("b.key"),
            "{error}"
        );

        let fresh =
            Identity::load(&data, &[], &tls_listener(security(&b.certificate, &b.key))).unwrap();
        held.replace(fresh).unwrap();

        std::fs::set_permissions(&a.key, Permissions::from_mode(0o644)).unwrap();
        let open = security(&a.certificate, &a.key);
        let error = Identity::load(&data, &[], &tls_listener(open))
            .err()
            .unwrap();
        assert!(error.remedy().contains("chmod 600"), "{error}");
    }
}
