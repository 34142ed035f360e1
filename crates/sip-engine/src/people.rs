//! What the operator has written down of names and people: where aliases lead, and what each
//! user may do. Read only: another takes its place as a whole
//! (`docs/decisions/0217-where-people-are-kept.md`).

use std::sync::Arc;

use hashbrown::HashMap;

use crate::numbers::{GroupRules, NumberRules, Permission};

/// How far a call is retargeted by aliases and forwards, here and at servers before this one
/// (`docs/decisions/0218-how-a-call-is-retargeted.md`).
pub const RETARGETS_MAX: u8 = 4;
/// How long a phone rings before its call is taken for unanswered, where nothing is written.
pub const NO_ANSWER_S: u32 = 20;

/// Where an alias leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AliasTarget {
    /// A URI: of a user, an alias or a number of ours, or of anybody elsewhere.
    pub uri: Arc<[u8]>,
    /// Preference in thousandths; those with the same ring together.
    pub q: u16,
}

/// A user, as far as there is anything to say of him.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Person {
    /// His address-of-record, as others see it: `sip:alice@example.org`.
    pub aor: Arc<[u8]>,
    /// His name and realm, by which his calls are counted.
    pub name: Box<[u8]>,
    /// The realm.
    pub realm: Arc<str>,
    /// The group that he is in.
    pub group: Option<Arc<str>>,
    /// How far he may call; without it what his group may.
    pub permission: Option<Permission>,
    /// The number that his calls to the outside show.
    pub caller_id: Option<Arc<str>>,
    /// How many outgoing calls he may have at once; without it what his group may, 0 for no limit.
    pub calls_max: Option<u32>,
    /// Where his calls go.
    pub forwards: Forwards,
}

/// Where a user's calls are forwarded to: URIs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forwards {
    /// All of them, without his phones' ringing.
    pub always: Option<Arc<[u8]>>,
    /// Those that come while his phones are busy.
    pub busy: Option<Arc<[u8]>>,
    /// Those that nobody takes, or that reach no phone.
    pub no_answer: Option<Arc<[u8]>>,
    /// How long his phones ring before that, in seconds; 0 for [`NO_ANSWER_S`].
    pub no_answer_s: u32,
}

/// Why a call is forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// It always is.
    Always,
    /// The phones are busy.
    Busy,
    /// Nobody takes it.
    NoAnswer,
}

impl When {
    /// As it stands in Diversion (RFC 5806).
    pub(crate) const fn reason(self) -> &'static str {
        match self {
            Self::Always => "unconditional",
            Self::Busy => "user-busy",
            Self::NoAnswer => "no-answer",
        }
    }
}

impl Forwards {
    /// Where a call goes then.
    pub fn to(&self, when: When) -> Option<&Arc<[u8]>> {
        match when {
            When::Always => self.always.as_ref(),
            When::Busy => self.busy.as_ref(),
            When::NoAnswer => self.no_answer.as_ref(),
        }
    }

    /// Whether any goes elsewhere after the phones were tried.
    pub(crate) const fn are_later(&self) -> bool {
        self.busy.is_some() || self.no_answer.is_some()
    }

    /// How long the phones ring.
    pub(crate) fn no_answer_ms(&self) -> u64 {
        let seconds = match self.no_answer_s {
            0 => NO_ANSWER_S,
            seconds => seconds,
        };
        u64::from(seconds) * 1_000
    }
}

impl Person {
    /// How far he may call. Whose group does not exist has lost what was written for it: without a
    /// permission of his own he calls our users at most.
    pub fn permission(&self, rules: &NumberRules) -> Permission {
        let group = self.group_rules(rules);
        let of_all = match (&self.group, group) {
            (Some(_), None) => rules.permission.min(Permission::Internal),
            _ => rules.permission,
        };
        let of_group = group.and_then(|group| group.permission);
        self.permission.or(of_group).unwrap_or(of_all)
    }

    /// How many outgoing calls he may have at once; 0 for no limit.
    pub fn calls_max(&self, rules: &NumberRules) -> u32 {
        let of_group = self.group_rules(rules).and_then(|group| group.calls_max);
        self.calls_max.or(of_group).unwrap_or(0)
    }

    fn group_rules<'r>(&self, rules: &'r NumberRules) -> Option<&'r GroupRules> {
        rules.groups.get(self.group.as_deref()?)
    }
}

/// All aliases, and all users of whom there is anything to say.
#[derive(Clone, Debug, Default)]
pub struct Directory {
    /// By `sip:name@domain`.
    aliases: HashMap<Box<[u8]>, Arc<[AliasTarget]>>,
    /// By name and realm, however the name is spelt.
    people: HashMap<Box<[u8]>, Arc<Person>>,
    /// The least that one of them may call.
    least: Option<Permission>,
}

impl Directory {
    /// The most aliases, and the most users, that there may be.
    pub const ENTRIES_MAX: usize = 1_000_000;

    /// Adds an alias: `sip:name@domain` in the registrar's form, and where it leads. A number is
    /// found by every spelling that the rules can tell.
    pub fn add_alias(&mut self, aor: &[u8], targets: Vec<AliasTarget>, rules: &NumberRules) {
        let targets: Arc<[AliasTarget]> = targets.into();
        if let Some(global) = global_aor(aor, rules)
            && *global != *aor
        {
            let other = self.aliases.entry(global.into_boxed_slice());
            other.or_insert_with(|| Arc::clone(&targets));
        }
        self.aliases.insert(aor.into(), targets);
    }

    /// Adds a user, with the rules by which he may call.
    pub fn add_person(&mut self, person: Person, rules: &NumberRules) {
        let reach = person.permission(rules);
        self.least = Some(self.least.map_or(reach, |least| least.min(reach)));
        let key = key_of(&person.name, &person.realm);
        self.people.insert(key.into_boxed_slice(), Arc::new(person));
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.aliases.is_empty() && self.people.is_empty()
    }

    /// How far somebody may call of whom only that is known that he is one of ours: no farther
    /// than any of whom there is anything to say, but as far as a stranger.
    pub(crate) fn least(&self, rules: &NumberRules) -> Permission {
        let general = rules.permission;
        let least = self.least.map_or(general, |least| least.min(general));
        least.max(Permission::Internal)
    }

    /// Where an alias leads, by its address-of-record.
    pub fn alias(&self, aor: &[u8]) -> Option<&Arc<[AliasTarget]>> {
        match self.aliases.is_empty() {
            true => None,
            false => self.aliases.get(aor),
        }
    }

    /// A user of whom there is anything to say.
    pub fn person(&self, name: &[u8], realm: &str) -> Option<&Arc<Person>> {
        match self.people.is_empty() {
            true => None,
            false => self.people.get(&*key_of(name, realm)),
        }
    }
}

/// The address-of-record of a number with its country's code, where it has one.
fn global_aor(aor: &[u8], rules: &NumberRules) -> Option<Vec<u8>> {
    let text = str::from_utf8(aor).ok()?;
    let (user, domain) = text.strip_prefix("sip:")?.rsplit_once('@')?;
    let number = rules.global(user)?;
    Some(format!("sip:{number}@{domain}").into_bytes())
}

/// A store may take two spellings for one name: what he may do is then the same for both.
fn key_of(name: &[u8], realm: &str) -> Vec<u8> {
    let name = String::from_utf8_lossy(name.trim_ascii()).to_lowercase();
    let mut key = name.into_bytes();
    key.push(0);
    key.extend_from_slice(realm.as_bytes());
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    fn person(name: &str, permission: Option<Permission>, group: Option<&str>) -> Person {
        Person {
            name: name.as_bytes().into(),
            realm: "example.org".into(),
            permission,
            group: group.map(Into::into),
            ..Person::default()
        }
    }

    #[test]
    fn another_spelling_is_the_same_person_and_another_realm_is_not() {
        let mut directory = Directory::default();
        assert!(directory.person(b"alice", "example.org").is_none());
        let rules = NumberRules::default();
        directory.add_person(person("Alice", Some(Permission::None), None), &rules);
        for name in ["alice", "ALICE", " alice "] {
            assert!(directory.person(name.as_bytes(), "example.org").is_some());
        }
        assert!(directory.person(b"alice", "example.net").is_none());
        assert!(directory.person(b"alicee", "xample.org").is_none());
    }

    #[test]
    fn his_own_word_counts_before_his_groups_and_that_before_all_others() {
        let staff = GroupRules {
            permission: Some(Permission::National),
            calls_max: Some(3),
        };
        let rules = NumberRules {
            permission: Permission::International,
            groups: [("staff".into(), staff)].into(),
            ..NumberRules::default()
        };
        let own = person("a", Some(Permission::Premium), Some("staff"));
        assert_eq!(own.permission(&rules), Permission::Premium);
        let of_group = person("b", None, Some("staff"));
        assert_eq!(of_group.permission(&rules), Permission::National);
        assert_eq!(of_group.calls_max(&rules), 3);
        let of_none = person("d", None, None);
        assert_eq!(of_none.permission(&rules), Permission::International);
        let of_unknown = person("c", None, Some("gone"));
        assert_eq!(of_unknown.permission(&rules), Permission::Internal);
        assert_eq!(of_unknown.calls_max(&rules), 0);
    }

    #[test]
    fn a_number_is_found_with_its_country() {
        let rules = NumberRules {
            country_code: "49".into(),
            ..NumberRules::default()
        };
        let target = AliasTarget {
            uri: b"sip:alice@example.org"[..].into(),
            q: 1_000,
        };
        let mut directory = Directory::default();
        directory.add_alias(b"sip:030123@example.org", vec![target], &rules);
        for known in ["sip:030123@example.org", "sip:+4930123@example.org"] {
            assert!(directory.alias(known.as_bytes()).is_some(), "{known}");
        }
        assert!(directory.alias(b"sip:+4930123@example.net").is_none());
    }
}
