//! What a TLS peer has proved, as a value that only a handshake can make.

use std::net::IpAddr;

use rustls::pki_types::{CertificateDer, ServerName};
use webpki::EndEntityCert;

use crate::identity::PeerIdentity;
use crate::session::Session;

/// Proof that the peer of a connection has the private key of this certificate,
/// and that its chain was verified. There is no other way to one than
/// [`Proven::by`].
#[derive(Debug)]
pub struct Proven {
    certificate: CertificateDer<'static>,
    /// Its domains are in order, each once.
    identity: PeerIdentity,
}

impl Proven {
    /// What the peer of `session` has proved; `None` until its handshake is
    /// done, and where it showed no certificate.
    pub fn by(session: &Session) -> Option<Self> {
        let certificate = session.proven_certificate()?.clone();
        let mut identity = PeerIdentity::from_der(&certificate)?;
        identity.domains.sort_unstable();
        identity.domains.dedup();
        Some(Self {
            certificate,
            identity,
        })
    }

    /// Whether the certificate bears `name`: a domain that its owner speaks for
    /// (RFC 5922), or an address in it.
    pub fn bears(&self, name: &str) -> bool {
        match host_address(name) {
            Some(ip) => self.bears_address(ip),
            None => self.identity.speaks_for(name),
        }
    }

    /// Whether the certificate bears anything by which a peer at this address may be called: a
    /// domain, or that address.
    pub fn is_somebody_at(&self, ip: IpAddr) -> bool {
        !self.identity.domains.is_empty() || self.bears_address(ip)
    }

    /// Whether a peer at this address may be called by the same names by both.
    pub fn bears_the_same_at(&self, ip: IpAddr, other: &Self) -> bool {
        self.identity.domains == other.identity.domains
            && self.bears_address(ip) == other.bears_address(ip)
    }

    fn bears_address(&self, ip: IpAddr) -> bool {
        EndEntityCert::try_from(&self.certificate).is_ok_and(|certificate| {
            let ip = ServerName::IpAddress(ip.to_canonical().into());
            certificate.verify_is_valid_for_subject_name(&ip).is_ok()
        })
    }

    /// Whether the certificate is still good then.
    pub const fn is_good_at(&self, unix_s: u64) -> bool {
        unix_s <= self.identity.not_after_unix_s
    }
}

/// The address that a host in a URI or a Via is, with brackets or without.
pub fn host_address(host: &str) -> Option<IpAddr> {
    host.strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .unwrap_or(host)
        .parse()
        .ok()
}
