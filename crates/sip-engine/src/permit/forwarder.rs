//! Who forwards his calls answers for where they go: the proof that a user of ours does, and on
//! whose account a call is retargeted.

use std::sync::Arc;

use sip_msg::Uri;

use crate::numbers::{NumberRules, Permission, number_of};
use crate::people::{Person, When};
use crate::{Directory, Settings};

use super::{Permit, Seal};

/// The proof that a user of ours forwards his calls. It is made of what the operator has written
/// down of whoever was called, and comes with the place that stands there: who calls has chosen
/// neither, and what he may do does not count for it.
#[derive(Debug)]
pub struct Forwarder {
    person: Arc<Person>,
    #[allow(dead_code, reason = "it keeps others from making one")]
    seal: Seal,
}

impl Forwarder {
    /// That of a user who is called, and where the call goes; `None` where he does not forward
    /// it then.
    pub(crate) fn of(person: &Arc<Person>, when: When) -> Option<(Self, Arc<[u8]>)> {
        let to = person.forwards.to(when)?;
        let forwarder = Self {
            person: Arc::clone(person),
            seal: Seal(()),
        };
        Some((forwarder, Arc::clone(to)))
    }

    /// Whose account it is.
    pub(crate) fn person(&self) -> &Arc<Person> {
        &self.person
    }
}

impl Permit {
    /// What is written of the user on whose account a request is; `None` where there is nothing,
    /// or no user.
    pub(crate) fn person<'d>(&'d self, people: &'d Directory) -> Option<&'d Arc<Person>> {
        match self {
            Self::Authenticated(user) => people.person(user.bare_name(), user.realm()),
            Self::Forwarder(forwarder) => Some(forwarder.person()),
            Self::Open(_)
            | Self::Peer(_)
            | Self::Dialog(_)
            | Self::Inbound(_)
            | Self::Directed(_)
            | Self::Trunk(_)
            | Self::Emergency(_) => None,
        }
    }

    /// How far whoever has it may call. Of peers, and where nobody proves who he is, nothing is
    /// asked but that they may use the tables ([`Permit::may_use_routes`]); nor of what the
    /// operator's hook sends somewhere, who answers for that himself.
    pub(crate) fn permission(&self, settings: &Settings) -> Permission {
        match self {
            Self::Open(_)
            | Self::Peer(_)
            | Self::Dialog(_)
            | Self::Directed(_)
            | Self::Emergency(_) => Permission::Premium,
            Self::Inbound(_) | Self::Trunk(_) => Permission::Internal,
            Self::Authenticated(_) | Self::Forwarder(_) => {
                let person = self.person(&settings.people);
                let rules = &settings.numbers;
                person.map_or(rules.permission, |person| person.permission(rules))
            }
        }
    }

    /// Whether whoever has it may call emergency numbers, whatever else he may and however many
    /// calls go on: a user, and a peer that the operator has let use the tables. A stranger has a
    /// provider of his own.
    pub(crate) const fn may_call_for_help(&self) -> bool {
        matches!(
            self,
            Self::Authenticated(_) | Self::Peer(_) | Self::Open(_) | Self::Emergency(_)
        )
    }

    /// The permit of a call for help, and the bare number that it is for: it is retargeted wherever the
    /// operator leads that, by aliases and by routes, past every permission. `None` for other calls,
    /// and for who may not.
    pub(crate) fn for_help(&self, rules: &NumberRules, uri: &Uri<'_>) -> Option<(Self, String)> {
        if !self.may_call_for_help() {
            return None;
        }
        let number = number_of(uri).filter(|number| rules.is_emergency(number))?;
        Some((Self::Emergency(Seal(())), number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::people::Forwards;

    #[test]
    fn a_forwarders_permit_comes_with_his_own_place_and_binds_nobody() {
        let person = Arc::new(Person {
            permission: Some(Permission::National),
            forwards: Forwards {
                busy: Some(b"sip:+4930@example.org"[..].into()),
                ..Forwards::default()
            },
            ..Person::default()
        });
        assert!(Forwarder::of(&person, When::Always).is_none());
        assert!(Forwarder::of(&person, When::NoAnswer).is_none());
        let found = Forwarder::of(&person, When::Busy);
        let (forwarder, to) = found.unwrap_or_else(|| panic!("he does"));
        assert_eq!(&*to, b"sip:+4930@example.org");
        let permit = Permit::Forwarder(forwarder);
        assert_eq!(
            permit.permission(&Settings::default()),
            Permission::National
        );
        assert!(permit.may_relay() && permit.may_use_routes());
        assert!(!permit.may_bind(b"sip:alice@example.org") && !permit.may_assert());
        assert!(!permit.may_call_for_help());
    }

    #[test]
    fn help_is_for_whoever_is_known_and_for_the_bare_number() {
        let rules = NumberRules {
            emergency: vec!["112".into()],
            ..NumberRules::default()
        };
        let is_help = |permit: &Permit, uri: &str| {
            let uri = Uri::parse(uri.as_bytes()).unwrap_or_else(|| panic!("{uri}"));
            permit.for_help(&rules, &uri).is_some()
        };
        let peer = Permit::Peer(Seal(()));
        for uri in ["sip:112@example.org", "tel:112", "sip:1-1-2@example.org"] {
            assert!(is_help(&peer, uri), "{uri}");
            for other in [Permit::Inbound(Seal(())), Permit::Trunk(Seal(()))] {
                assert!(!is_help(&other, uri), "{other:?}");
            }
        }
        for uri in ["sip:1120@example.org", "sip:help@example.org"] {
            assert!(!is_help(&peer, uri), "{uri}");
        }
    }
}
