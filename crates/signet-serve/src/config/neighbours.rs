//! Over which connections neighbours are reached.

use std::num::NonZeroU8;

use serde::Deserialize;
use sip_engine::routes::Connections;
use sip_msg::Transport;

use super::Config;
use super::check::Faults;
use super::sections::{Gateway, GatewayGroup};
use super::values::HopUri;

/// Over which connections a next hop is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConnectionUse {
    /// Connections that all calls share.
    Shared,
    /// One for each call.
    PerCall,
}

/// The two keys about it, as they stand at one place.
#[derive(Clone, Copy)]
struct Given {
    connections: Option<u8>,
    connection: Option<ConnectionUse>,
}

impl Given {
    /// What they mean; `None` where neither stands there.
    fn meant(self) -> Option<Connections> {
        match (self.connection, self.connections) {
            (Some(ConnectionUse::PerCall), _) => Some(Connections::PerCall),
            (_, Some(count)) => NonZeroU8::new(count).map(Connections::Kept),
            (Some(ConnectionUse::Shared), None) => Some(Connections::default()),
            (None, None) => None,
        }
    }
}

impl Gateway {
    /// Over which connections it is reached.
    pub(crate) fn reached_over(&self, group: &GatewayGroup) -> Connections {
        self.given()
            .meant()
            .or(group.given().meant())
            .unwrap_or_default()
    }

    const fn given(&self) -> Given {
        Given {
            connections: self.connections,
            connection: self.connection,
        }
    }
}

impl GatewayGroup {
    const fn given(&self) -> Given {
        Given {
            connections: self.connections,
            connection: self.connection,
        }
    }
}

impl Config {
    /// Over which connections `forward` is reached.
    pub(crate) fn forward_reached_over(&self) -> Connections {
        self.forward_given().meant().unwrap_or_default()
    }

    const fn forward_given(&self) -> Given {
        Given {
            connections: self.forward_connections,
            connection: self.forward_connection,
        }
    }

    pub(super) fn check_neighbours(&self, faults: &mut Faults) {
        let given = self.forward_given();
        check(given, self.forward.as_ref(), "", "forward_", faults);
        if given.meant().is_some() && self.forward.is_none() {
            let key = if given.connections.is_some() {
                "forward_connections"
            } else {
                "forward_connection"
            };
            faults.add(
                key,
                "without `forward` there is no next hop that it is about",
                "write forward = \"sip:HOST:PORT;transport=tcp\", or drop it",
            );
        }
        for (nth, group) in self.gateway_group.iter().enumerate() {
            check(
                group.given(),
                None,
                &format!("gateway_group.{nth}."),
                "",
                faults,
            );
            for (member, gateway) in group.gateways.iter().enumerate() {
                let at = format!("gateway_group.{nth}.gateways.{member}.");
                check(gateway.given(), Some(&gateway.uri), &at, "", faults);
            }
        }
    }
}

fn check(given: Given, hop: Option<&HopUri>, at: &str, key: &str, faults: &mut Faults) {
    let is_per_call = given.connection == Some(ConnectionUse::PerCall);
    if is_per_call && given.connections.is_some() {
        faults.add(
            &format!("{at}{key}connections"),
            "each call has a connection of its own, so their number is that of the calls",
            &format!("drop {key}connections, or write {key}connection = \"shared\""),
        );
    }
    let is_many = is_per_call || given.connections.is_some_and(|count| count > 1);
    if is_many && hop.is_some_and(|hop| hop.0.transport == Some(Transport::Udp)) {
        let name = if is_per_call {
            "connection"
        } else {
            "connections"
        };
        faults.add(
            &format!("{at}{key}{name}"),
            "this next hop is reached over UDP, which has no connections",
            "write ;transport=tcp or ;transport=tls into its URI, or drop it",
        );
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn parse(text: &str) -> Result<Config, String> {
        let text = format!("version = 1\n{text}");
        Config::from_text(Path::new("t.toml"), &text).map_err(|error| error.to_string())
    }

    #[test]
    fn a_gateway_says_or_its_group_does() {
        let config = parse(
            "forward = \"sip:192.0.2.1;transport=tcp\"\nforward_connections = 2\n\
             [[gateway_group]]\nname = \"g\"\nconnection = \"per-call\"\n\
             gateways = [{ uri = \"sip:a;transport=tcp\" }, { uri = \"sip:b\", connections = 3 }, \
             { uri = \"sip:c\", connection = \"shared\" }]\n",
        )
        .unwrap();
        let kept = |count| Connections::Kept(NonZeroU8::new(count).unwrap());
        let group = &config.gateway_group[0];
        let reached: Vec<_> = group
            .gateways
            .iter()
            .map(|gateway| gateway.reached_over(group))
            .collect();
        assert_eq!(reached, [Connections::PerCall, kept(3), kept(1)]);
        assert_eq!(config.forward_reached_over(), kept(2));
        assert_eq!(Config::default().forward_reached_over(), kept(1));
    }

    #[test]
    fn what_contradicts_itself_is_named_with_its_line_and_its_remedy() {
        let group = |keys: &str| {
            format!(
                "[[gateway_group]]\nname = \"g\"\ngateways = [{{ uri = \"sip:a;transport=udp\", {keys} }}]\n"
            )
        };
        for (text, line, remedy) in [
            ("forward_connections = 2\n".to_owned(), 2, "forward = "),
            (group("connections = 0"), 4, "from 1 to 64"),
            (group("connections = 65"), 4, "from 1 to 64"),
            (group("connections = 2"), 4, ";transport=tcp"),
            (group("connection = \"per-call\""), 4, ";transport=tcp"),
            (group("connection = \"many\""), 4, "per-call"),
            (
                "forward = \"sip:a;transport=tcp\"\nforward_connections = 2\nforward_connection = \"per-call\"\n"
                    .to_owned(),
                3,
                "drop forward_connections",
            ),
        ] {
            let error = parse(&text).unwrap_err();
            assert!(error.contains(&format!("t.toml:{line}")), "{text}{error}");
            assert!(error.contains(remedy), "{text}{error}");
        }
    }
}
