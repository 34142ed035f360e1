//! Names that a TLS peer has proved beside the one that it was called by.

use std::net::IpAddr;

use rustls::pki_types::ServerName;
use webpki::EndEntityCert;

use crate::session::Session;
use crate::tls::PeerIdentity;

/// Whether the certificate that the peer of `session` proved bears `name`: a
/// domain that it speaks for (RFC 5922), or an address in it. A session that
/// is not established has proved nothing.
pub(crate) fn bears(session: &Session, name: &str) -> bool {
    let Some(certificate) = session.proven_certificate() else {
        return false;
    };
    let bare = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'))
        .unwrap_or(name);
    match bare.parse::<IpAddr>() {
        Ok(ip) => EndEntityCert::try_from(certificate).is_ok_and(|certificate| {
            let ip = ServerName::IpAddress(ip.into());
            certificate.verify_is_valid_for_subject_name(&ip).is_ok()
        }),
        Err(_) => PeerIdentity::from_der(certificate).is_some_and(|peer| peer.speaks_for(name)),
    }
}
