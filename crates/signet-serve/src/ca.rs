//! A private certificate authority: enough for phones to check this server's
//! name with one file, `ca.pem`. Keys are P-256, files with keys have mode 0600.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use rcgen::string::Ia5String;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData as _, SanType,
};
use time::{Duration, OffsetDateTime};
use x509_parser::extensions::GeneralName;
use x509_parser::pem::Pem;

use crate::Error;
use crate::data_dir::{DataDir, refuse_readable_by_others, write_whole};

/// How long an authority lasts.
const CA_DAYS: i64 = 3_650;
/// How long a certificate lasts; phones refuse much more.
const LEAF_DAYS: i64 = 397;
/// A server's own certificate is renewed when it has fewer days left.
const RENEW_DAYS: i64 = 30;

/// What to do where one of an authority's files is missing or damaged.
const PUT_BACK: &str =
    "put the file back from a copy, or move ca.pem and ca.key away and type: signet ca init";

/// The authority of a data folder.
pub struct Ca {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// The kind of key in a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyKind {
    /// ECDSA on P-256.
    #[default]
    P256,
    /// RSA with 2,048 bits, for phones that know nothing else and for suites
    /// that exchange keys by it.
    Rsa2048,
}

impl std::str::FromStr for KeyKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.to_ascii_lowercase().as_str() {
            "p256" | "p-256" => Ok(Self::P256),
            "rsa2048" | "rsa-2048" => Ok(Self::Rsa2048),
            _ => Err(format!("there is no key '{text}'; write p256 or rsa2048")),
        }
    }
}

/// A certificate and its key, as files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issued {
    /// The chain, in PEM.
    pub certificate: PathBuf,
    /// The private key, in PEM.
    pub key: PathBuf,
}

impl Issued {
    /// Writes both, or neither. What was there goes with its other half, so the disk has room for
    /// both new ones before either takes its place.
    fn write(&self, certificate: &str, key: &KeyPair) -> Result<(), Error> {
        let [new_key, new_certificate] =
            [&self.key, &self.certificate].map(|path| with_ending(path, "new"));
        let written = write_whole(&new_key, key.serialize_pem().as_bytes(), 0o600)
            .and_then(|()| write_whole(&new_certificate, certificate.as_bytes(), 0o644))
            .and_then(|()| replace(&new_key, &self.key))
            .and_then(|()| replace(&new_certificate, &self.certificate));
        for left in [new_key, new_certificate] {
            let _ = std::fs::remove_file(left);
        }
        written
    }
}

impl Ca {
    /// The authority of this folder; made where there is none.
    pub fn open_or_init(data: &DataDir) -> Result<Self, Error> {
        if data.file("ca.pem").exists() || data.file("ca.key").exists() {
            Self::open(data)
        } else {
            Self::init(data)
        }
    }

    /// Makes an authority; an old one is never overwritten.
    pub fn init(data: &DataDir) -> Result<Self, Error> {
        for name in ["ca.key", "ca.pem"] {
            let path = data.file(name);
            if path.exists() {
                return Err(Error::new(
                    format!("there is an authority already: {}", path.display()),
                    "phones trust it; to make another, move ca.pem and ca.key away first",
                ));
            }
        }
        let mut tag = [0; 4];
        crate::random_bytes(&mut tag)?;
        let mut params = params_for(CA_DAYS);
        params
            .distinguished_name
            .push(DnType::OrganizationName, "Signet");
        // The name is new each time, so that a certificate tells which
        // authority it is from.
        params.distinguished_name.push(
            DnType::CommonName,
            format!("Signet private CA {:08x}", u32::from_be_bytes(tag)),
        );
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().map_err(|error| made("the authority's key", &error))?;
        let certificate = params
            .self_signed(&key)
            .map_err(|error| made("the authority", &error))?;
        let pem = certificate.pem();
        // One of them alone would keep every start from then on.
        let files = Issued {
            certificate: data.file("ca.pem"),
            key: data.file("ca.key"),
        };
        files.write(&pem, &key)?;
        Ok(Self {
            pem,
            issuer: Issuer::new(params, key),
        })
    }

    /// Reads the authority of this folder.
    pub fn open(data: &DataDir) -> Result<Self, Error> {
        let (pem_path, key_path) = (data.file("ca.pem"), data.file("ca.key"));
        let is_alone = pem_path.exists() != key_path.exists();
        let read = |path: &Path| {
            std::fs::read_to_string(path).map_err(|error| {
                match is_alone && error.kind() == std::io::ErrorKind::NotFound {
                    true => {
                        Error::new(format!("cannot read {}: {error}", path.display()), PUT_BACK)
                    }
                    false => Error::file("read", path, &error),
                }
            })
        };
        let pem = read(&pem_path)?;
        let key = read(&key_path)?;
        refuse_readable_by_others("the key", &key_path)?;
        let spoilt = |path: &Path, error: &rcgen::Error| {
            Error::new(
                format!("{} cannot be used: {error}", path.display()),
                PUT_BACK,
            )
        };
        let key = KeyPair::from_pem(&key).map_err(|error| spoilt(&key_path, &error))?;
        let issuer =
            Issuer::from_ca_cert_pem(&pem, key).map_err(|error| spoilt(&pem_path, &error))?;
        Ok(Self { pem, issuer })
    }

    /// The authority's certificate, in PEM.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// Issues a certificate for these host names, addresses and users (as
    /// `sip:USER@DOMAIN`) to `stem.pem` and `stem.key`.
    pub fn issue(&self, names: &[String], stem: &Path) -> Result<Issued, Error> {
        self.issue_with(names, stem, KeyKind::P256)
    }

    /// The same with this kind of key.
    pub fn issue_with(
        &self,
        names: &[String],
        stem: &Path,
        kind: KeyKind,
    ) -> Result<Issued, Error> {
        let mut seen = BTreeSet::new();
        let names: Vec<String> = names
            .iter()
            .map(|name| canonical_name(name))
            .filter(|name| seen.insert(name.clone()))
            .collect();
        let Some(first) = names.first() else {
            return Err(Error::new(
                "a certificate needs a name",
                "give the host name or the address that its peers will check",
            ));
        };
        let mut params = params_for(LEAF_DAYS);
        params
            .distinguished_name
            .push(DnType::CommonName, first.as_str());
        for name in &names {
            params.subject_alt_names.push(alt_name(name)?);
            // RFC 5922 7.1: a SIP domain is named by a URI as well.
            if name.parse::<IpAddr>().is_err()
                && user_and_domain(name).is_none()
                && let Ok(uri) = Ia5String::try_from(format!("sip:{name}"))
            {
                params.subject_alt_names.push(SanType::URI(uri));
            }
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        if kind == KeyKind::Rsa2048 {
            // RFC 5280 4.2.1.3: asserted when the key "is used for enciphering
            // private or secret keys", as by exchanges of keys by RSA.
            params.key_usages.push(KeyUsagePurpose::KeyEncipherment);
        }
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        params.use_authority_key_identifier_extension = true;
        let key = match kind {
            KeyKind::P256 => KeyPair::generate(),
            KeyKind::Rsa2048 => {
                KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, rcgen::RsaKeySize::_2048)
            }
        };
        let key = key.map_err(|error| made("a key", &error))?;
        let certificate = params
            .signed_by(&key, &self.issuer)
            .map_err(|error| made("a certificate", &error))?;
        let issued = Issued {
            certificate: with_ending(stem, "pem"),
            key: with_ending(stem, "key"),
        };
        issued.write(&certificate.pem(), &key)?;
        Ok(issued)
    }

    /// The server's own certificate, `server.pem` and `server.key` in the
    /// folder: issued anew where it is missing, near its end, by another
    /// authority, without one of `names`, or not of its key. Where that fails, as on a full disk,
    /// one that is good for a while yet goes on.
    pub fn server_certificate(&self, data: &DataDir, names: &[String]) -> Result<Issued, Error> {
        let issued = Issued {
            certificate: data.file("server.pem"),
            key: data.file("server.key"),
        };
        let wanted: BTreeSet<String> = names.iter().map(|name| canonical_name(name)).collect();
        let known = self.known(&issued, &wanted);
        if known != Known::Useless {
            refuse_readable_by_others("the key", &issued.key)?;
        }
        if known == Known::Good {
            return Ok(issued);
        }
        match self.issue(names, &data.file("server")) {
            // It may have failed between the two files.
            Err(error) if self.known(&issued, &wanted) != Known::Useless => {
                tracing::warn!(
                    "the server's own certificate was not issued anew; the old one stays in use: {error}"
                );
                Ok(issued)
            }
            done => done,
        }
    }

    /// What the pair that is there is good for.
    fn known(&self, issued: &Issued, wanted: &BTreeSet<String>) -> Known {
        let (Ok(pem), Ok(key)) = (
            std::fs::read(&issued.certificate),
            std::fs::read_to_string(&issued.key).map(zeroize::Zeroizing::new),
        ) else {
            return Known::Useless;
        };
        let (Some(leaf), Some(ca)) = (first_pem(&pem), first_pem(self.pem.as_bytes())) else {
            return Known::Useless;
        };
        let (Ok(leaf), Ok(ca), Ok(key)) =
            (leaf.parse_x509(), ca.parse_x509(), KeyPair::from_pem(&key))
        else {
            return Known::Useless;
        };
        let ends = leaf.validity().not_after.timestamp();
        // Issued while the clock was ahead: nobody would take it until it is so late.
        let begins = leaf.validity().not_before.timestamp();
        let now = OffsetDateTime::now_utc();
        // A process that ended between the two files leaves another's certificate.
        let is_pair = leaf.public_key().raw == key.subject_public_key_info();
        let is_ours = leaf.issuer() == ca.subject();
        if !is_pair || !is_ours || begins > now.unix_timestamp() || ends <= now.unix_timestamp() {
            return Known::Useless;
        }
        let names: BTreeSet<String> = match leaf.subject_alternative_name() {
            Ok(Some(alt)) => alt
                .value
                .general_names
                .iter()
                .filter_map(general_name)
                .collect(),
            _ => BTreeSet::new(),
        };
        let renew_at = now + Duration::days(RENEW_DAYS);
        match ends > renew_at.unix_timestamp() && wanted.is_subset(&names) {
            true => Known::Good,
            false => Known::Usable,
        }
    }
}

/// What a certificate and its key are good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// Nothing.
    Useless,
    /// They can be shown, but others should be.
    Usable,
    /// All that is wanted.
    Good,
}

/// Gives a file the name of another, on disk before this returns.
fn replace(new: &Path, old: &Path) -> Result<(), Error> {
    let in_folder = old.parent().filter(|folder| !folder.as_os_str().is_empty());
    std::fs::rename(new, old)
        .and_then(|()| std::fs::File::open(in_folder.unwrap_or(Path::new("."))))
        .and_then(|folder| folder.sync_all())
        .map_err(|error| Error::file("write", old, &error))
}

/// The names under which this machine is reached: its host name and the
/// addresses of its interfaces.
pub fn machine_names() -> Vec<String> {
    let mut names = vec!["localhost".to_owned()];
    names.extend(
        nix::unistd::gethostname()
            .ok()
            .and_then(|name| name.into_string().ok()),
    );
    names.extend(machine_addresses().iter().map(IpAddr::to_string));
    names
}

/// The addresses of this machine's interfaces, those of other machines' use first.
pub fn machine_addresses() -> Vec<IpAddr> {
    let mut addresses: Vec<IpAddr> = nix::ifaddrs::getifaddrs()
        .into_iter()
        .flatten()
        .filter_map(|interface| {
            let address = interface.address?;
            let v4 = address.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
            v4.or_else(|| address.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip())))
        })
        // A link-local address is nothing without its interface.
        .filter(|ip| !matches!(ip, IpAddr::V6(v6) if v6.is_unicast_link_local()))
        .collect();
    addresses.sort_by_key(|ip| (ip.is_loopback(), ip.is_ipv6(), *ip));
    addresses.dedup();
    addresses
}

fn params_for(days: i64) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    let now = OffsetDateTime::now_utc();
    // Phones' clocks are not exact.
    params.not_before = now - Duration::days(1);
    params.not_after = now + Duration::days(days);
    params
}

fn alt_name(name: &str) -> Result<SanType, Error> {
    if let Ok(ip) = name.parse::<IpAddr>() {
        return Ok(SanType::IpAddress(ip));
    }
    if let Some((user, domain)) = user_and_domain(name) {
        // What RFC 3261 25.1 has as unreserved, or lets stand in a user.
        let is_user = !user.is_empty()
            && user
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_.!~*'()&=+$,".contains(&byte));
        let is_domain = domain.parse::<crate::config::Domain>().is_ok();
        return match Ia5String::try_from(name) {
            Ok(uri) if is_user && is_domain => Ok(SanType::URI(uri)),
            _ => Err(Error::new(
                format!("`{name}` names no user"),
                "write it as sip:USER@DOMAIN, for example sip:alice@example.com",
            )),
        };
    }
    let domain: Result<crate::config::Domain, String> = name.parse();
    match domain
        .ok()
        .and_then(|domain| Ia5String::try_from(domain.to_string()).ok())
    {
        Some(name) => Ok(SanType::DnsName(name)),
        None => Err(Error::new(
            format!("`{name}` is neither a host name nor an address"),
            "write it as peers check it, for example sip.example.com",
        )),
    }
}

/// The parts of `sip:USER@DOMAIN`.
fn user_and_domain(name: &str) -> Option<(&str, &str)> {
    name.strip_prefix("sip:")?.rsplit_once('@')
}

/// Lower case, but for users; and an address without brackets and in its
/// shortest form.
fn canonical_name(name: &str) -> String {
    if let Some((user, domain)) = user_and_domain(name) {
        return format!("sip:{user}@{}", domain.to_ascii_lowercase());
    }
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    bare.parse::<IpAddr>().map_or_else(
        |_| bare.trim_end_matches('.').to_ascii_lowercase(),
        |ip| ip.to_string(),
    )
}

pub(crate) fn general_name(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
        GeneralName::IPAddress(bytes) => match bytes.len() {
            4 => <[u8; 4]>::try_from(*bytes)
                .ok()
                .map(|octets| IpAddr::from(octets).to_string()),
            16 => <[u8; 16]>::try_from(*bytes)
                .ok()
                .map(|octets| IpAddr::from(octets).to_string()),
            _ => None,
        },
        _ => None,
    }
}

pub(crate) fn first_pem(bytes: &[u8]) -> Option<Pem> {
    Pem::iter_from_buffer(bytes).next()?.ok()
}

fn with_ending(stem: &Path, ending: &str) -> PathBuf {
    let mut name = stem.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    PathBuf::from(name)
}

fn made(what: &str, error: &rcgen::Error) -> Error {
    Error::new(
        format!("cannot make {what}: {error}"),
        "look whether its names can stand in a certificate: host names, addresses, sip:USER@DOMAIN",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TempDir;
    use std::os::unix::fs::MetadataExt;

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(|name| (*name).to_owned()).collect()
    }

    fn leaf_names(issued: &Issued) -> BTreeSet<String> {
        let pem = first_pem(&std::fs::read(&issued.certificate).unwrap()).unwrap();
        let leaf = pem.parse_x509().unwrap();
        let alt = leaf.subject_alternative_name().unwrap().unwrap();
        alt.value
            .general_names
            .iter()
            .filter_map(general_name)
            .collect()
    }

    #[test]
    fn an_authority_is_made_once_and_read_again() {
        let temp = TempDir::new("ca-once");
        let data = DataDir::open(temp.path()).unwrap();
        let made = Ca::open_or_init(&data).unwrap();
        assert_eq!(
            data.file("ca.key").metadata().unwrap().mode() & 0o777,
            0o600
        );
        let read = Ca::open_or_init(&data).unwrap();
        assert_eq!(made.pem(), read.pem());
        let error = Ca::init(&data).err().unwrap();
        assert!(
            error.what().contains("there is an authority already"),
            "{error}"
        );
    }

    #[test]
    fn one_file_of_an_authority_alone_is_told_with_its_remedy() {
        for missing in ["ca.key", "ca.pem"] {
            let temp = TempDir::new("ca-alone");
            let data = DataDir::open(temp.path()).unwrap();
            Ca::init(&data).unwrap();
            std::fs::remove_file(data.file(missing)).unwrap();
            let error = Ca::open_or_init(&data).err().unwrap();
            assert!(error.what().contains(missing), "{error}");
            assert_eq!(error.remedy(), PUT_BACK);
        }
        // Without either no copy can be missing.
        let temp = TempDir::new("ca-none");
        let data = DataDir::open(temp.path()).unwrap();
        let error = Ca::open(&data).err().unwrap();
        assert_eq!(error.remedy(), "look whether the path is right");
    }

    #[test]
    fn an_authority_that_the_disk_does_not_take_leaves_no_half() {
        let temp = TempDir::new("ca-half");
        let data = DataDir::open(temp.path()).unwrap();
        // Nothing can be written where a folder stands in the way.
        let in_the_way = ["ca.pem", "ca.pem.new"]
            .map(|name| data.file(&format!("{name}.{}.new", std::process::id())));
        for folder in &in_the_way {
            std::fs::create_dir(folder).unwrap();
        }
        assert!(Ca::init(&data).is_err());
        for folder in &in_the_way {
            std::fs::remove_dir(folder).unwrap();
        }
        // With room again the next start makes one.
        Ca::open_or_init(&data).unwrap();
        let left = std::fs::read_dir(data.path()).unwrap();
        let mut left: Vec<String> = left
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(left, ["ca.key", "ca.pem"]);
    }

    #[test]
    fn a_certificate_bears_its_names_and_its_key_is_secret() {
        let temp = TempDir::new("ca-names");
        let data = DataDir::open(temp.path()).unwrap();
        let ca = Ca::init(&data).unwrap();
        let issued = ca
            .issue(
                &names(&["Example.COM", "192.0.2.1", "[2001:db8::1]"]),
                &data.file("phone"),
            )
            .unwrap();
        assert_eq!(
            leaf_names(&issued),
            names(&["192.0.2.1", "2001:db8::1", "example.com"])
                .into_iter()
                .collect()
        );
        assert_eq!(issued.key.metadata().unwrap().mode() & 0o777, 0o600);
        assert!(ca.issue(&[], &data.file("none")).is_err());
        assert!(
            ca.issue(&names(&["not a name"]), &data.file("none"))
                .is_err()
        );
    }

    #[test]
    fn a_users_certificate_bears_his_uri_and_no_domain() {
        let temp = TempDir::new("ca-user");
        let data = DataDir::open(temp.path()).unwrap();
        let ca = Ca::init(&data).unwrap();
        let stem = data.file("alice");
        let issued = ca.issue(&names(&["sip:Alice@Example.COM"]), &stem).unwrap();
        let pem = std::fs::read(&issued.certificate).unwrap();
        let leaf = first_pem(&pem).unwrap();
        let peer = sip_tls::PeerIdentity::from_der(&leaf.contents).unwrap();
        assert_eq!(*peer.uris, ["sip:Alice@example.com".into()]);
        assert!(peer.domains.is_empty());
        for bad in [
            "sip:@example.com",
            "sip:a b@example.com",
            "sip:a@b@c.com",
            "sip:a@",
        ] {
            assert!(ca.issue(&names(&[bad]), &stem).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_servers_certificate_is_kept_until_a_name_is_missing() {
        // RFC 3261 26.3.2.1: "the site identified by the certificate MUST correspond with the domain in
        // which the UA intends to register"
        let temp = TempDir::new("ca-kept");
        let data = DataDir::open(temp.path()).unwrap();
        let ca = Ca::init(&data).unwrap();
        let read = || std::fs::read(data.file("server.pem")).unwrap();
        ca.server_certificate(&data, &names(&["a.example", "b.example"]))
            .unwrap();
        let first = read();
        ca.server_certificate(&data, &names(&["a.example"]))
            .unwrap();
        assert_eq!(read(), first);
        ca.server_certificate(&data, &names(&["a.example", "c.example"]))
            .unwrap();
        assert_ne!(read(), first);
        // Another authority: its certificates are others.
        let second = read();
        std::fs::remove_file(data.file("ca.key")).unwrap();
        std::fs::remove_file(data.file("ca.pem")).unwrap();
        Ca::init(&data)
            .unwrap()
            .server_certificate(&data, &names(&["a.example"]))
            .unwrap();
        assert_ne!(read(), second);
    }

    #[test]
    fn a_certificate_of_another_key_is_issued_anew() {
        let temp = TempDir::new("ca-pair");
        let data = DataDir::open(temp.path()).unwrap();
        let ca = Ca::init(&data).unwrap();
        let wanted = names(&["a.example"]);
        let issued = ca.server_certificate(&data, &wanted).unwrap();
        // The process ended between the two files.
        let other = ca.issue(&wanted, &data.file("other")).unwrap();
        std::fs::copy(&other.key, &issued.key).unwrap();
        let before = std::fs::read(&issued.certificate).unwrap();
        ca.server_certificate(&data, &wanted).unwrap();
        assert_ne!(std::fs::read(&issued.certificate).unwrap(), before);
        let all = wanted.iter().cloned().collect();
        assert_eq!(ca.known(&issued, &all), Known::Good);
    }

    #[test]
    fn where_none_can_be_issued_the_one_before_goes_on() {
        let temp = TempDir::new("ca-full");
        let data = DataDir::open(temp.path()).unwrap();
        let ca = Ca::init(&data).unwrap();
        let issued = ca
            .server_certificate(&data, &names(&["a.example"]))
            .unwrap();
        let read = || [&issued.key, &issued.certificate].map(|path| std::fs::read(path).unwrap());
        let before = read();
        // Nothing can be written where a folder stands in the way.
        let beside = format!("server.pem.new.{}.new", std::process::id());
        std::fs::create_dir(data.file(&beside)).unwrap();
        let more = names(&["a.example", "b.example"]);
        assert_eq!(ca.server_certificate(&data, &more).unwrap(), issued);
        assert_eq!(read(), before);
        assert!(!data.file("server.key.new").exists());
        // Without one that can be shown it is an error.
        std::fs::remove_file(&issued.certificate).unwrap();
        assert!(ca.server_certificate(&data, &more).is_err());
    }
}
