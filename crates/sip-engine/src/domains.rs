//! The domains of this server and the realms that it challenges in, found by their names however
//! many there are.

use std::sync::Arc;

use hashbrown::HashMap;
use sip_msg::header::AuthValue;
use smallvec::SmallVec;

use crate::Settings;

/// So many are found sooner one after the other than by a hash.
const FEW: usize = 8;
/// The realm of a server that was given neither realm nor domain.
const DEFAULT_REALM: &str = "signet";

/// The domains.
pub(crate) struct Domains {
    list: Vec<Arc<str>>,
    /// By their names in lower case; empty where they are few.
    by_name: HashMap<Box<str>, Arc<str>>,
    /// How often a realm was asked for.
    #[cfg(test)]
    pub(crate) asked: std::sync::atomic::AtomicUsize,
}

impl Domains {
    pub(crate) fn new(settings: &Settings) -> Self {
        let named = |domain: &Arc<str>| (Box::from(domain.to_ascii_lowercase()), domain.clone());
        let is_many = settings.domains.len() > FEW;
        // Of names that differ in case alone the first counts, as in the list.
        let many = settings.domains.iter().rev().filter(|_| is_many);
        Self {
            by_name: many.map(named).collect(),
            list: settings.domains.clone(),
            #[cfg(test)]
            asked: std::sync::atomic::AtomicUsize::new(0),
        }
    }

    /// The domain that `host` is.
    pub(crate) fn find(&self, host: &[u8]) -> Option<&Arc<str>> {
        let host = host.strip_suffix(b".").unwrap_or(host);
        if self.by_name.is_empty() {
            return self.list.iter().find(|domain| is_same_name(domain, host));
        }
        let name: SmallVec<[u8; 64]> = host.iter().map(u8::to_ascii_lowercase).collect();
        self.by_name.get(str::from_utf8(&name).ok()?)
    }

    /// The realm that credentials are for, where it is one that this server challenges in.
    pub(crate) fn realm(&self, settings: &Settings, given: &AuthValue<'_>) -> Option<Arc<str>> {
        #[cfg(test)]
        self.asked
            .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let realm = match &settings.authenticate.as_ref()?.realm {
            Some(realm) => realm.clone(),
            None if settings.domains.is_empty() => DEFAULT_REALM.into(),
            None => {
                let name: SmallVec<[u8; 64]> = given.bytes().collect();
                self.find(&name)?.clone()
            }
        };
        given.is(realm.as_bytes()).then_some(realm)
    }

    /// The realm of the users of a host.
    pub(crate) fn realm_of(&self, settings: &Settings, host: &[u8]) -> Arc<str> {
        let configured = settings.authenticate.as_ref();
        let configured = configured.and_then(|auth| auth.realm.as_ref());
        let realm = configured
            .or_else(|| self.find(host))
            .or(settings.domains.first());
        realm.map_or_else(|| DEFAULT_REALM.into(), Arc::clone)
    }
}

/// Whether a host is that name; mostly it is so to the letter.
pub(crate) fn is_same_name(name: &str, host: &[u8]) -> bool {
    let name = name.as_bytes();
    name == host || name.eq_ignore_ascii_case(host)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::AuthSettings;

    fn domains(count: usize) -> (Settings, Domains) {
        let names = (0..count).map(|n| format!("d{n}.example").into());
        let settings = Settings {
            domains: names.collect(),
            ..Settings::default()
        };
        let domains = Domains::new(&settings);
        (settings, domains)
    }

    fn value(raw: &str) -> AuthValue<'_> {
        AuthValue {
            raw: raw.as_bytes(),
            is_quoted: true,
        }
    }

    #[test]
    fn a_domain_is_found_whatever_their_number() {
        for count in [1, FEW, FEW + 1, 10_000] {
            let (_, domains) = domains(count);
            let last = format!("d{}.example", count - 1);
            for spelling in [last.clone(), last.to_uppercase(), format!("{last}.")] {
                let found = domains.find(spelling.as_bytes());
                assert_eq!(found.map(|of| &**of), Some(&*last), "{count}");
            }
            for other in [
                &b"d.example"[..],
                b"",
                b".",
                b"d0.example..",
                b"d0.example\xff",
            ] {
                assert_eq!(domains.find(other), None, "{count}");
            }
        }
    }

    #[test]
    fn of_two_spellings_the_first_counts_whatever_their_number() {
        for count in [1, FEW + 1] {
            let (mut settings, _) = domains(count);
            settings.domains.insert(0, "Twice.example".into());
            settings.domains.push("twice.example".into());
            let found = Domains::new(&settings);
            let found = found.find(b"twice.example").map(|domain| &**domain);
            assert_eq!(found, Some("Twice.example"), "{count}");
        }
    }

    #[test]
    fn a_realm_is_ours_to_the_letter() {
        for count in [1, FEW + 1] {
            let (mut settings, domains) = domains(count);
            let ours = |settings: &Settings, raw| domains.realm(settings, &value(raw)).is_some();
            assert!(ours(&settings, "d0.example") && ours(&settings, "d0.ex\\ample"));
            for other in ["D0.example", "d0.example.", "signet", "elsewhere", ""] {
                assert!(!ours(&settings, other), "{other}");
            }
            settings.authenticate = Some(AuthSettings {
                realm: Some("all".into()),
                ..AuthSettings::default()
            });
            assert!(ours(&settings, "all") && !ours(&settings, "d0.example"));
            settings.authenticate = None;
            assert!(!ours(&settings, "all") && !ours(&settings, "d0.example"));
        }
        let (settings, domains) = domains(0);
        assert!(domains.realm(&settings, &value("signet")).is_some());
    }
}
