//! The secret that a controller and its workers share, and the TLS made of it.
//!
//! From the token both sides make the key of the same private authority. Each issues
//! itself a certificate from it, for its own side alone, and believes no other
//! authority. So TLS 1.3 proves to each that the other has the token, encrypts what is
//! said with keys that nobody can make again from the token, and reads nothing from
//! anybody else: no byte of the protocol is looked at before the handshake is done.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::Arc;

use aws_lc_rs::hmac;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, SanType,
};
use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

/// The shortest token: 16 random bytes as hexadecimal digits. What is shorter could be
/// guessed by whoever has seen one certificate.
const CHARS_MIN: usize = 32;
/// The longest file that is read as a token.
const BYTES_MAX: u64 = 4_096;
/// The name in the certificate of every worker.
pub(super) const WORKER_NAME: &str = "worker.load.invalid";
/// The name in that of the controller.
const CONTROLLER_NAME: &str = "controller.load.invalid";
/// Mixed into the key: a token that serves elsewhere too makes another key there.
const PURPOSE: &[u8] = b"signet load workers, authority, 1";
/// In front of the 32 bytes of an Ed25519 key in PKCS #8 (RFC 8410 7).
const PKCS8_ED25519: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

/// A token.
pub(super) struct Token(String);

/// Whose certificate it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Worker,
    Controller,
}

/// What one side shows and believes.
struct Side {
    authority: CertificateDer<'static>,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl Token {
    /// Reads a token; nobody but its owner may read the file.
    ///
    /// # Errors
    /// Names the file and the remedy.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let name = path.display();
        let metadata = fs::metadata(path).map_err(|error| {
            format!("{name}: {error}; a worker makes the file: copy it from there")
        })?;
        if metadata.permissions().mode() & 0o077 != 0 {
            return Err(format!(
                "{name}: others may read it; write chmod 600 {name}"
            ));
        }
        if metadata.len() > BYTES_MAX {
            return Err(format!(
                "{name} is no token: it has {} bytes",
                metadata.len()
            ));
        }
        let text = fs::read_to_string(path).map_err(|error| format!("{name}: {error}"))?;
        Self::new(text.trim()).map_err(|error| format!("{name}: {error}"))
    }

    /// Reads it, or makes one where there is none; gives whether it was made.
    ///
    /// # Errors
    /// As [`Token::read`].
    pub(super) fn read_or_make(path: &Path) -> Result<(Self, bool), String> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(|error| format!("no random numbers: {error}"))?;
        let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let made = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .and_then(|mut file| file.write_all(format!("{text}\n").as_bytes()));
        match made {
            Ok(()) => Ok((Self(text), true)),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                Ok((Self::read(path)?, false))
            }
            Err(error) => Err(format!("{}: {error}", path.display())),
        }
    }

    fn new(text: &str) -> Result<Self, String> {
        if text.len() < CHARS_MIN {
            return Err(format!(
                "a token has {CHARS_MIN} characters or more that nobody can guess; remove the file, and a worker makes one"
            ));
        }
        Ok(Self(text.to_owned()))
    }

    /// How a worker accepts a controller.
    pub(super) fn server(&self) -> Result<Arc<ServerConfig>, String> {
        let side = self.side(Role::Worker)?;
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(side.roots()?), provider())
                .build()
                .map_err(|error| cannot(&error))?;
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| cannot(&error))?
            .with_client_cert_verifier(verifier)
            .with_single_cert(side.chain, side.key)
            .map_err(|error| cannot(&error))?;
        config.send_tls13_tickets = 0;
        Ok(Arc::new(config))
    }

    /// How a controller connects to a worker.
    pub(super) fn client(&self) -> Result<(Arc<ClientConfig>, ServerName<'static>), String> {
        let side = self.side(Role::Controller)?;
        let mut config = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| cannot(&error))?
            .with_root_certificates(side.roots()?)
            .with_client_auth_cert(side.chain, side.key)
            .map_err(|error| cannot(&error))?;
        config.resumption = Resumption::disabled();
        let name = ServerName::try_from(WORKER_NAME).map_err(|error| cannot(&error))?;
        Ok((Arc::new(config), name))
    }

    fn side(&self, role: Role) -> Result<Side, String> {
        self.issue(role).map_err(|error| cannot(&error))
    }

    fn issue(&self, role: Role) -> Result<Side, rcgen::Error> {
        let secret = hmac::sign(
            &hmac::Key::new(hmac::HMAC_SHA256, self.0.as_bytes()),
            PURPOSE,
        );
        let pkcs8 = [&PKCS8_ED25519[..], secret.as_ref()].concat();
        let mut params = CertificateParams::default();
        params
            .distinguished_name
            .push(DnType::CommonName, "Signet load workers");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let authority = CertifiedIssuer::self_signed(params, KeyPair::try_from(pkcs8)?)?;
        let (name, usage) = match role {
            Role::Worker => (WORKER_NAME, ExtendedKeyUsagePurpose::ServerAuth),
            Role::Controller => (CONTROLLER_NAME, ExtendedKeyUsagePurpose::ClientAuth),
        };
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.subject_alt_names = vec![SanType::DnsName(name.try_into()?)];
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?;
        let certificate = params.signed_by(&key, &authority)?;
        Ok(Side {
            authority: authority.der().clone(),
            chain: vec![certificate.der().clone()],
            key: key.into(),
        })
    }
}

impl Side {
    fn roots(&self) -> Result<RootCertStore, String> {
        let mut roots = RootCertStore::empty();
        roots
            .add(self.authority.clone())
            .map_err(|error| cannot(&error))?;
        Ok(roots)
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

fn cannot(error: &dyn std::fmt::Display) -> String {
    format!("cannot make TLS of the token: {error}")
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::{ClientConnection, Connection, ServerConnection};

    const ONE: &str = "0123456789abcdef0123456789abcdef";

    /// Moves bytes between the two until neither has any; whether both are done.
    fn shake(client: ClientConnection, server: ServerConnection) -> Result<(), rustls::Error> {
        let (mut client, mut server) = (Connection::from(client), Connection::from(server));
        for _ in 0..10 {
            let sides = [(&mut client, &mut server)];
            for (from, to) in sides {
                carry(from, to)?;
                carry(to, from)?;
            }
        }
        assert!(!client.is_handshaking() && !server.is_handshaking());
        Ok(())
    }

    fn carry(from: &mut Connection, to: &mut Connection) -> Result<(), rustls::Error> {
        let mut bytes = Vec::new();
        while from.wants_write() {
            from.write_tls(&mut bytes).unwrap();
        }
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            to.read_tls(&mut rest).unwrap();
            to.process_new_packets()?;
        }
        Ok(())
    }

    fn between(client: &Token, server: &Token) -> Result<(), rustls::Error> {
        let (config, name) = client.client().unwrap();
        shake(
            ClientConnection::new(config, name).unwrap(),
            ServerConnection::new(server.server().unwrap()).unwrap(),
        )
    }

    #[test]
    fn who_has_the_token_is_let_in_and_nobody_else() {
        let (one, same) = (Token::new(ONE).unwrap(), Token::new(ONE).unwrap());
        between(&one, &same).unwrap();
        let other = Token::new(&ONE.replace('0', "1")).unwrap();
        assert!(between(&other, &one).is_err());
        assert!(between(&one, &other).is_err());
    }

    #[test]
    fn who_shows_no_certificate_or_a_workers_is_not_let_in() {
        let token = Token::new(ONE).unwrap();
        let side = token.side(Role::Worker).unwrap();
        let builder = || {
            ClientConfig::builder_with_provider(provider())
                .with_protocol_versions(&[&rustls::version::TLS13])
                .unwrap()
                .with_root_certificates(side.roots().unwrap())
        };
        let of_worker = builder()
            .with_client_auth_cert(side.chain.clone(), side.key.clone_key())
            .unwrap();
        for config in [builder().with_no_client_auth(), of_worker] {
            let name = ServerName::try_from(WORKER_NAME).unwrap();
            let client = ClientConnection::new(Arc::new(config), name).unwrap();
            let server = ServerConnection::new(token.server().unwrap()).unwrap();
            assert!(shake(client, server).is_err());
        }
    }

    #[test]
    fn a_token_is_made_once_and_for_its_owner_alone() {
        let path = std::env::temp_dir().join(format!("signet-token-{}", std::process::id()));
        let _ = fs::remove_file(&path);
        let error = Token::read(&path).unwrap_err();
        assert!(error.contains("copy it from there"), "{error}");
        let (made, is_new) = Token::read_or_make(&path).unwrap();
        assert!(is_new && made.0.len() == 64);
        let (again, is_new) = Token::read_or_make(&path).unwrap();
        assert!(!is_new && again.0 == made.0);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let error = Token::read(&path).unwrap_err();
        assert!(error.contains("chmod 600"), "{error}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, "secret\n").unwrap();
        let error = Token::read_or_make(&path).unwrap_err();
        assert!(error.contains("32 characters"), "{error}");
        fs::remove_file(&path).unwrap();
        assert_eq!(format!("{made:?}"), "Token");
    }
}
