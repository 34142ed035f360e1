//! Phones that cannot do what is asked of all.

use std::net::IpAddr;

use sip_msg::network::{IpNet, is_in};

use crate::Algorithm;

/// What is asked of some phones in the place of what is asked of all: of those in some
/// networks, of those of some users, or of those of some users in some networks. An entry
/// without networks and without users is for nobody.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lenient {
    /// Where they are; without any, anywhere.
    pub networks: Vec<IpNet>,
    /// Whose they are, by the user's name without a domain; without any, anybody's.
    pub users: Vec<String>,
    /// The algorithms that they are offered, most preferred first, and that are accepted
    /// from them beside those of all; without any, those of all.
    pub algorithms: Vec<Algorithm>,
    /// Whether a digest without `qop` is accepted, as RFC 2069 has it: once for each nonce.
    pub qop_optional: bool,
    /// Whether it is enough that `uri` has the host of the Request-URI.
    pub uri_by_host: bool,
}

/// Who is to prove himself, as far as it is known before he has.
#[derive(Clone, Copy, Debug, Default)]
pub struct Claimant<'a> {
    /// Where his request comes from.
    pub source: Option<IpAddr>,
    /// The user whom his request names, unescaped; empty where it names none.
    pub user: &'a [u8],
    /// The value of User-Agent; empty where there is none.
    pub user_agent: &'a [u8],
}

impl Lenient {
    /// Whether it is for a phone at that address that gives that user's name, with or
    /// without a domain behind it.
    pub fn is_for(&self, source: Option<IpAddr>, user: &[u8]) -> bool {
        let is_there = |ip| self.networks.iter().any(|network| is_in(*network, ip));
        let at = user.iter().rposition(|byte| *byte == b'@');
        let bare = at.and_then(|at| user.get(..at)).unwrap_or(user);
        let is_his = |name: &String| name.as_bytes() == bare || name.as_bytes() == user;
        match (self.networks.is_empty(), self.users.is_empty()) {
            (true, true) => false,
            (false, true) => source.is_some_and(is_there),
            (true, false) => self.users.iter().any(is_his),
            (false, false) => source.is_some_and(is_there) && self.users.iter().any(is_his),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_for_its_networks_and_its_users_and_for_nobody_else() {
        let entry = |networks: &[&str], users: &[&str]| Lenient {
            networks: networks.iter().map(|text| text.parse().unwrap()).collect(),
            users: users.iter().map(|name| (*name).to_owned()).collect(),
            ..Lenient::default()
        };
        for (networks, users, source, user, is_for) in [
            (&["10.1.0.0/16"][..], &[][..], Some("10.1.2.3"), "bob", true),
            (&["10.1.0.0/16"], &[], Some("::ffff:10.1.2.3"), "bob", true),
            (&["10.1.0.0/16"], &[], Some("10.2.0.1"), "bob", false),
            (&["10.1.0.0/16"], &[], None, "bob", false),
            (&[], &["alice"], None, "alice", true),
            (&[], &["alice"], Some("192.0.2.1"), "alice@a.example", true),
            (&[], &["alice"], None, "Alice", false),
            (&[], &["alice"], None, "alice@", true),
            (&[], &["alice"], None, "alic", false),
            (
                &["10.1.0.0/16"],
                &["alice"],
                Some("10.1.0.1"),
                "alice",
                true,
            ),
            (&["10.1.0.0/16"], &["alice"], Some("10.1.0.1"), "bob", false),
            (
                &["10.1.0.0/16"],
                &["alice"],
                Some("10.9.0.1"),
                "alice",
                false,
            ),
            (&[], &[], Some("10.1.0.1"), "alice", false),
        ] {
            let source = source.map(|text| text.parse().unwrap());
            let entry = entry(networks, users);
            assert_eq!(
                entry.is_for(source, user.as_bytes()),
                is_for,
                "{entry:?} {user}"
            );
        }
    }
}
