//! How much those may begin who are let in.

use serde::Deserialize;
use sip_limit::{Allowance, RateLimits};

use super::values::within;

/// What each user, each peer and each source may begin in a second; 0 is no limit.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rates {
    /// The seconds whose worth may come at once.
    #[serde(deserialize_with = "within::<_, _, 1, 3_600>")]
    pub burst_s: u32,
    /// Calls of a user.
    #[serde(deserialize_with = "within::<_, _, 0, 1_000_000>")]
    pub user_calls_per_s: u32,
    /// Registrations of a user.
    #[serde(deserialize_with = "within::<_, _, 0, 1_000_000>")]
    pub user_registrations_per_s: u32,
    /// Messages of a user.
    #[serde(deserialize_with = "within::<_, _, 0, 1_000_000>")]
    pub user_messages_per_s: u32,
    /// Other requests of a user.
    #[serde(deserialize_with = "within::<_, _, 0, 1_000_000>")]
    pub user_others_per_s: u32,
    /// Bytes of all of them.
    #[serde(deserialize_with = "within::<_, _, 0, 1_000_000_000>")]
    pub user_bytes_per_s: u32,
    /// The same of a peer: calls.
    #[serde(deserialize_with = "within::<_, _, 0, 1_000_000>")]
    pub peer_calls_per_s: u32,
    /// Registrations.
    #[serde(deserialize_with = "within::<_, _, 0, 1_000_000>")]
    pub peer_registrations_per_s: u32,
    /// Messages.
    #[serde(deserialize_with = "within::<_, _, 0, 1_000_000>")]
    pub peer_messages_per_s: u32,
    /// Other requests.
    #[serde(deserialize_with = "within::<_, _, 0, 1_000_000>")]
    pub peer_others_per_s: u32,
    /// Bytes.
    #[serde(deserialize_with = "within::<_, _, 0, 1_000_000_000>")]
    pub peer_bytes_per_s: u32,
    /// The same of a source where nobody has to prove anything: calls.
    #[serde(deserialize_with = "within::<_, _, 0, 1_000_000>")]
    pub source_calls_per_s: u32,
    /// Registrations.
    #[serde(deserialize_with = "within::<_, _, 0, 1_000_000>")]
    pub source_registrations_per_s: u32,
    /// Messages.
    #[serde(deserialize_with = "within::<_, _, 0, 1_000_000>")]
    pub source_messages_per_s: u32,
    /// Other requests.
    #[serde(deserialize_with = "within::<_, _, 0, 1_000_000>")]
    pub source_others_per_s: u32,
    /// Bytes.
    #[serde(deserialize_with = "within::<_, _, 0, 1_000_000_000>")]
    pub source_bytes_per_s: u32,
}

/// The keys of each party, in the order of the fields of an [`Allowance`].
macro_rules! parties {
    ($($party:ident: $calls:ident $registrations:ident $messages:ident $others:ident $bytes:ident;)*) => {
        impl Default for Rates {
            fn default() -> Self {
                let given = RateLimits::default();
                Self {
                    burst_s: given.burst_s,
                    $($calls: given.$party.calls_per_s,
                    $registrations: given.$party.registrations_per_s,
                    $messages: given.$party.messages_per_s,
                    $others: given.$party.others_per_s,
                    $bytes: given.$party.bytes_per_s,)*
                }
            }
        }

        impl Rates {
            /// The same as the engine takes it.
            pub(crate) const fn limits(&self) -> RateLimits {
                RateLimits {
                    burst_s: self.burst_s,
                    $($party: Allowance {
                        calls_per_s: self.$calls,
                        registrations_per_s: self.$registrations,
                        messages_per_s: self.$messages,
                        others_per_s: self.$others,
                        bytes_per_s: self.$bytes,
                    },)*
                }
            }
        }
    };
}

parties! {
    user: user_calls_per_s user_registrations_per_s user_messages_per_s user_others_per_s user_bytes_per_s;
    peer: peer_calls_per_s peer_registrations_per_s peer_messages_per_s peer_others_per_s peer_bytes_per_s;
    source: source_calls_per_s source_registrations_per_s source_messages_per_s source_others_per_s source_bytes_per_s;
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::Config;
    use super::*;

    fn parse(text: &str) -> Result<Config, String> {
        Config::from_text(Path::new("test.toml"), &format!("version = 1\n{text}"))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_not_written_has_its_default_and_each_key_its_place() {
        assert_eq!(Rates::default().limits(), RateLimits::default());
        let text = "[rates]\nburst_s = 1\nuser_calls_per_s = 2\nuser_registrations_per_s = 3\nuser_messages_per_s = 4\n\
             user_others_per_s = 5\nuser_bytes_per_s = 6\npeer_calls_per_s = 7\npeer_registrations_per_s = 8\n\
             peer_messages_per_s = 9\npeer_others_per_s = 10\npeer_bytes_per_s = 11\nsource_calls_per_s = 12\n\
             source_registrations_per_s = 13\nsource_messages_per_s = 14\nsource_others_per_s = 15\nsource_bytes_per_s = 16\n";
        let limits = parse(text).unwrap().rates.limits();
        let of = |first| Allowance {
            calls_per_s: first,
            registrations_per_s: first + 1,
            messages_per_s: first + 2,
            others_per_s: first + 3,
            bytes_per_s: first + 4,
        };
        assert_eq!(limits.burst_s, 1);
        assert_eq!(
            (limits.user, limits.peer, limits.source),
            (of(2), of(7), of(12))
        );
        let one = parse("[rates]\nuser_calls_per_s = 0\n").unwrap().rates;
        let default = RateLimits::default().user;
        assert_eq!(
            one.limits().user,
            Allowance {
                calls_per_s: 0,
                ..default
            }
        );
    }

    #[test]
    fn a_rate_that_makes_no_sense_is_told_with_its_remedy() {
        for (text, told) in [
            ("[rates]\nburst_s = 0\n", "write a number from 1 to 3600"),
            (
                "[rates]\nuser_calls_per_s = -1\n",
                "write a number from 0 to 1000000",
            ),
            ("[rates]\nuser_call_per_s = 1\n", "user_calls_per_s"),
            (
                "[[trusted]]\nnetwork = \"192.0.2.1\"\ncalls_per_s = -5\n",
                "write a number from 0 to 1000000",
            ),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(told), "{told:?} is not in:\n{error}");
        }
    }
}
