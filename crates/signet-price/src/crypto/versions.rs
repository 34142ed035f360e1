//! Who does the work, in which version.

use std::io::Read;

use aws_lc_rs::digest;
use ipsec::primitive::Provider;

use super::speed;

/// The libraries that do the work, as they are built in; a test holds them to the lock file.
const LIBRARIES: [(&str, &str); 14] = [
    ("aes", "0.9.4"),
    ("aes-gcm", "0.11.1"),
    ("aws-lc-rs", "1.19.0"),
    ("aws-lc-sys", "0.47.0"),
    ("blowfish", "0.10.0"),
    ("cbc", "0.2.1"),
    ("chacha20poly1305", "0.11.0"),
    ("des", "0.9.0"),
    ("hmac", "0.13.0"),
    ("md-5", "0.11.0"),
    ("rustls", "0.23.46"),
    ("rustls-webpki", "0.103.16"),
    ("sha1", "0.11.0"),
    ("sha2", "0.11.1"),
];

/// The versions of who does the work, and which build of this program it is: two builds of one
/// version may have been made otherwise.
pub fn versions() -> Vec<(String, String)> {
    let mut versions = vec![("signet".to_owned(), env!("CARGO_PKG_VERSION").to_owned())];
    versions.extend(build().map(|build| ("signet build".to_owned(), build)));
    versions.extend(
        LIBRARIES
            .iter()
            .map(|(name, version)| ((*name).to_owned(), (*version).to_owned())),
    );
    versions.extend(Provider::ALL.iter().filter_map(|provider| {
        let version = provider.version()?;
        Some((provider.name().to_owned(), version.to_owned()))
    }));
    versions.extend(speed::version().map(|version| ("openssl speed".to_owned(), version)));
    versions
}

/// The first digits of SHA-256 over this program's file; `None` where it cannot be read.
fn build() -> Option<String> {
    let mut file = std::fs::File::open(std::env::current_exe().ok()?).ok()?;
    let mut hash = digest::Context::new(&digest::SHA256);
    let mut part = vec![0; 1 << 16];
    loop {
        let length = file.read(&mut part).ok()?;
        if length == 0 {
            break;
        }
        hash.update(part.get(..length)?);
    }
    let digest = hash.finish();
    let first = digest.as_ref().first_chunk::<8>()?;
    Some(format!("{:016x}", u64::from_be_bytes(*first)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_have_the_versions_of_the_lock_file() {
        let lock = include_str!("../../../../Cargo.lock");
        for (name, version) in LIBRARIES {
            let named = format!("\nname = \"{name}\"\n");
            assert_eq!(lock.matches(&named).count(), 1, "which {name}?");
            let whole = format!("{named}version = \"{version}\"\n");
            assert!(lock.contains(&whole), "{name} is no longer {version}");
        }
    }

    #[test]
    fn every_crate_of_a_primitive_is_named() {
        let manifest = include_str!("../../../ipsec/Cargo.toml");
        let (_, rest) = manifest.split_once("\n[dependencies]\n").unwrap();
        let lines = rest.split("\n[").next().unwrap().lines();
        let names: Vec<&str> = lines
            .filter_map(|line| line.split(['.', ' ']).next())
            .collect();
        assert!(
            names.contains(&"aes") && names.contains(&"hmac"),
            "{names:?}"
        );
        // OpenSSL says its version itself.
        let others = ["", "invariant", "subtle", "zeroize", "openssl"];
        for name in names.iter().filter(|name| !others.contains(name)) {
            assert!(LIBRARIES.iter().any(|(known, _)| known == name), "{name}");
        }
    }

    #[test]
    fn a_build_has_a_name() {
        let found = versions();
        let mut builds = found.iter().filter(|(name, _)| name == "signet build");
        let (_, build) = builds.next().unwrap();
        assert_eq!(build.len(), 16, "{build}");
    }
}
