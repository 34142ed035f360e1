//! S/MIME in calls: who signs, for whom is encrypted, and who believes whom.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use smime::make::{Authority, Key, Kind};
use smime::{BodySecurity, Certificate, Cipher, Identity, Keyring, Protection, Transfer, Trust};

/// How bodies are protected. What no file gives is made when the run begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SmimeSettings {
    /// What is done to bodies, and what the called side asks of them.
    pub protection: Protection,
    /// The kind of the keys that are made.
    pub key: Kind,
    /// The cipher.
    pub cipher: Cipher,
    /// How bytes are written.
    pub transfer: Transfer,
    /// Certificate chain and key with which all agents sign. The certificate must name every one
    /// of them.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// The certificate of a called side that is not in this process.
    pub recipient: Option<PathBuf>,
    /// Certificate chain and key of the called side in this process.
    pub called_identity: Option<(PathBuf, PathBuf)>,
    /// Authorities of those who sign, for the called side in this process.
    pub roots: Vec<PathBuf>,
}

impl SmimeSettings {
    /// With this protection and keys that are made.
    pub const fn new(protection: Protection) -> Self {
        Self {
            protection,
            key: Kind::P256,
            cipher: Cipher::Aes256Gcm,
            transfer: Transfer::Binary,
            identity: None,
            recipient: None,
            called_identity: None,
            roots: Vec::new(),
        }
    }

    /// The same, with nothing from files.
    pub(crate) fn without_files(&self) -> Self {
        Self {
            key: self.key,
            cipher: self.cipher,
            transfer: self.transfer,
            ..Self::new(self.protection)
        }
    }
}

/// Keys and certificates of a run.
pub(crate) struct Smime {
    /// What makes certificates for agents, where they have none from files: the authority, the
    /// key that they share, and the first certificate of it.
    maker: Option<(Authority, Key, Identity)>,
    /// What all callers have in common, their own certificate where it is from a file.
    callers: BodySecurity,
    called: Arc<BodySecurity>,
}

impl Smime {
    /// Reads and makes what is needed. `has_called_side` where calls are answered in this
    /// process, `is_pairs` where agents call each other, `calls` the address that is called, if
    /// any is.
    pub(crate) fn new(
        settings: &SmimeSettings,
        has_called_side: bool,
        is_pairs: bool,
        calls: Option<&str>,
    ) -> Result<Self, String> {
        let protection = settings.protection;
        let is_answering = has_called_side || is_pairs;
        let authority = Authority::make().map_err(|error| error.to_string())?;
        let key = || Key::new(settings.key).map_err(|error| error.to_string());
        let maker = if calls.is_some() && settings.identity.is_none() {
            let key = key()?;
            let first = authority.identity(&key, &["sip:load@load.test"]);
            let first = first.map_err(|error| error.to_string())?;
            Some((key, first))
        } else {
            None
        };
        let own = match &settings.called_identity {
            Some((chain, key)) if is_answering => Some(read_identity(chain, key)?),
            None if is_answering && calls.is_some() => {
                let made = authority.identity(&key()?, &["sip:answer@load.test"]);
                Some(made.map_err(|error| error.to_string())?)
            }
            _ => None,
        };
        let own = own.map(Arc::new);
        if own.is_none() && is_answering && protection.encrypts() {
            return Err("what is encrypted needs a key to be opened with; write --smime-cert FILE --smime-key FILE".to_owned());
        }
        let made = maker.as_ref().map(|_| authority.pem());
        if made.is_none() && settings.roots.is_empty() && is_answering && protection.signs() {
            return Err("who vouches for those who sign? write --smime-ca FILE".to_owned());
        }
        let trust = read_roots(made, &settings.roots)?;
        let mut keyring = Keyring::default();
        match (&own, &settings.recipient) {
            (Some(own), _) => keyring.set_for_anybody(Arc::new(own.certificate().clone())),
            (None, Some(file)) => {
                let found = Certificate::from_pem(&read(file)?);
                let found = found.map_err(|error| format!("{}: {error}", file.display()))?;
                if let Some(first) = found.into_iter().next() {
                    keyring.set_for_anybody(Arc::new(first));
                }
            }
            (None, None) if calls.is_some() && protection.encrypts() => {
                return Err("whom to encrypt for? write --smime-to FILE, with the certificate of the called side".to_owned());
            }
            (None, None) => {}
        }
        let called = BodySecurity {
            decrypts: own.into_iter().collect(),
            trust: Arc::new(trust),
            wants_signature: protection.signs(),
            wants_signature_first: protection == Protection::EncryptThenSign,
            wants_encryption: protection.encrypts(),
            ..BodySecurity::default()
        };
        let identity = match &settings.identity {
            Some((chain, key)) => Some(Arc::new(read_identity(chain, key)?)),
            None => None,
        };
        let callers = BodySecurity {
            protection: Some(protection),
            identity,
            keyring: Arc::new(keyring),
            cipher: settings.cipher,
            transfer: settings.transfer,
            // Those who call each other are called as well.
            ..if is_pairs {
                called.clone()
            } else {
                BodySecurity::default()
            }
        };
        let this = Self {
            maker: maker.map(|(key, first)| (authority, key, first)),
            callers,
            called: Arc::new(called),
        };
        if let Some(to) = calls {
            // What cannot be protected is better known before the first call.
            this.of_caller("sip:load@load.test")?
                .seal(to, b"application/sdp", b"v=0\r\n", now_unix_s())
                .map_err(|error| error.to_string())?;
        }
        Ok(this)
    }

    /// What an agent does that calls as this address-of-record.
    pub(crate) fn of_caller(&self, address_of_record: &str) -> Result<Arc<BodySecurity>, String> {
        let mut own = self.callers.clone();
        if let Some((authority, key, first)) = &self.maker {
            let chain = authority.certify(key, &[address_of_record]);
            let chain = chain.map_err(|error| error.to_string())?;
            let identity = first.with_certificate(chain.as_bytes());
            own.identity = Some(Arc::new(identity.map_err(|error| error.to_string())?));
        }
        Ok(Arc::new(own))
    }

    /// What the called side does.
    pub(crate) fn of_called(&self) -> Arc<BodySecurity> {
        Arc::clone(&self.called)
    }
}

/// What time it is, in seconds since 1970.
pub(crate) fn now_unix_s() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

fn read(file: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(file).map_err(|error| format!("{}: {error}", file.display()))
}

fn read_identity(chain: &Path, key: &Path) -> Result<Identity, String> {
    Identity::from_pem(&read(chain)?, &read(key)?)
        .map_err(|error| format!("{} and {}: {error}", chain.display(), key.display()))
}

fn read_roots(made: Option<String>, files: &[PathBuf]) -> Result<Trust, String> {
    let mut all = made.unwrap_or_default().into_bytes();
    for file in files {
        all.extend(read(file)?);
        all.push(b'\n');
    }
    if all.is_empty() {
        return Ok(Trust::default());
    }
    Trust::from_pem(&all).map_err(|error| format!("--smime-ca: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALICE: &str = "sip:alice@example.org";
    const BOB: &str = "sip:bob@example.org";

    #[test]
    fn callers_are_believed_by_the_called_side_that_was_made_with_them() {
        for key in [Kind::P256, Kind::Rsa2048] {
            for protection in Protection::ALL {
                let settings = SmimeSettings {
                    key,
                    ..SmimeSettings::new(protection)
                };
                let smime = Smime::new(&settings, true, false, Some(BOB)).unwrap();
                let alice = smime.of_caller(ALICE).unwrap();
                let now = now_unix_s();
                let sealed = alice.seal(BOB, b"application/sdp", b"v=0\r\n", now);
                let sealed = sealed.unwrap().unwrap();
                let open = |from: &str| {
                    let kind = sealed.content_type.as_bytes();
                    smime.of_called().open(from, kind, None, &sealed.body, now)
                };
                assert_eq!(open(ALICE).unwrap().unwrap().body, b"v=0\r\n");
                assert_eq!(open(BOB).is_err(), protection.signs());
            }
        }
    }

    #[test]
    fn what_is_missing_is_named_with_its_option() {
        let missing = |protection, has_called_side, calls| {
            let settings = SmimeSettings::new(protection);
            Smime::new(&settings, has_called_side, false, calls).map(|_| ())
        };
        use Protection::{Encrypt, Sign};
        assert_eq!(missing(Sign, false, Some(BOB)), Ok(()));
        for (told, option) in [
            (missing(Encrypt, false, Some(BOB)), "--smime-to"),
            (missing(Encrypt, true, None), "--smime-cert"),
            (missing(Sign, true, None), "--smime-ca"),
        ] {
            assert!(told.unwrap_err().contains(option), "{option}");
        }
        let settings = SmimeSettings {
            roots: vec!["/nowhere/ca.pem".into()],
            ..SmimeSettings::new(Sign)
        };
        let told = Smime::new(&settings, true, false, None).map(|_| ());
        assert!(told.unwrap_err().contains("/nowhere/ca.pem"));
    }
}
