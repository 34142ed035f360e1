//! What is allowed and may still not be meant: `signet check` says so.

use std::net::{IpAddr, SocketAddr};

use sip_engine::routes::NextHop;
use sip_msg::network::is_in;

use super::{Config, UserLayout};

impl Config {
    /// What the operator should look at again, a sentence each.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        self.warn_of_own_addresses(&mut warnings);
        self.warn_of_denied_networks(&mut warnings);
        self.warn_of_policies(&mut warnings);
        self.warn_of_cares(&mut warnings);
        self.warn_of_trunks(&mut warnings);
        self.warn_of_numbers(&mut warnings);
        warnings.extend(self.lenient_warnings());
        self.warn_of_records(&mut warnings);
        self.warn_of_hook(&mut warnings);
        self.warn_of_media(&mut warnings);
        if self.users.query.is_some() && self.users.layout != UserLayout::Query {
            warnings.push("users.query: it counts only with layout = \"query\"".to_owned());
        }
        if self.users.password_file.is_some() && self.users.password_env.is_some() {
            warnings.push(
                "users.password_env: it is not read, because password_file is there".to_owned(),
            );
        }
        warnings
    }

    fn warn_of_own_addresses(&self, warnings: &mut Vec<String>) {
        for (nth, peer) in self.trusted.iter().enumerate() {
            let Some(network) = peer.network else {
                continue;
            };
            let covered = self.listen.iter().find(|listen| {
                let ip = listen.on.addr.ip();
                !ip.is_unspecified() && is_in(network.0, ip)
            });
            if let Some(listen) = covered {
                warnings.push(format!(
                    "trusted.{nth}.network: {} has the listener {} in it, which is never trusted; name the peers alone",
                    network.0, listen.on
                ));
            }
        }
        for (place, hop) in self.next_hops() {
            let Some(addr) = literal(hop) else { continue };
            if self.listen.iter().any(|listen| listen.on.addr == addr) {
                warnings.push(format!(
                    "{place}: {addr} is a listener of this server: what is sent there is refused as a loop (482)"
                ));
            }
        }
    }

    fn warn_of_denied_networks(&self, warnings: &mut Vec<String>) {
        let denied = &self.proxy.relay_denied;
        if denied.is_empty() && self.authentication.required {
            warnings.push(
                "proxy.relay_denied: it is empty, so users reach services of this machine and its link by naming them"
                    .to_owned(),
            );
        }
        for network in denied.iter().filter(|network| network.prefix_len() == 0) {
            warnings.push(format!(
                "proxy.relay_denied: {network} is every address: only phones with a flow, gateways and `forward` are reached"
            ));
        }
        // They are reached by the tables; other hosts of theirs, and their users, are not.
        for (place, hop) in self.next_hops() {
            let Some(addr) = literal(hop) else { continue };
            let is_trusted = || {
                let mut networks = self.trusted.iter().filter_map(|peer| peer.network);
                networks.any(|network| is_in(network.0, addr.ip()))
            };
            let found = denied.iter().find(|network| is_in(**network, addr.ip()));
            if let Some(network) = found
                && !is_trusted()
            {
                warnings.push(format!(
                    "{place}: {addr} is in {network} of proxy.relay_denied: within dialogs only this address is reached there; add it to [[trusted]] if its calls go on at others"
                ));
            }
        }
    }

    /// The operator's next hops, and where each is written.
    fn next_hops(&self) -> impl Iterator<Item = (String, &NextHop)> {
        let groups = self.gateway_group.iter().enumerate();
        let gateways = groups.flat_map(|(nth, group)| {
            let members = group.gateways.iter().enumerate();
            members.map(move |(member, gateway)| {
                (
                    format!("gateway_group.{nth}.gateways.{member}"),
                    &gateway.uri.0,
                )
            })
        });
        let forward = self.forward.iter();
        gateways.chain(forward.map(|hop| ("forward".to_owned(), &hop.0)))
    }
}

/// The address of a next hop that is written as one.
fn literal(hop: &NextHop) -> Option<SocketAddr> {
    let transport = hop.transport.unwrap_or(sip_msg::Transport::Udp);
    let ip: IpAddr = hop.host.parse().ok()?;
    Some(SocketAddr::new(
        ip,
        hop.port.unwrap_or(transport.default_port()),
    ))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn warnings(text: &str) -> Vec<String> {
        let text = format!("version = 1\n{text}");
        let config = Config::from_text(Path::new("test.toml"), &text);
        config.unwrap_or_else(|error| panic!("{error}")).warnings()
    }

    #[test]
    fn what_is_said_of_a_configuration_that_may_not_be_meant() {
        assert_eq!(warnings(""), [""; 0]);
        for (text, told) in [
            (
                "[[listen]]\non = \"udp:10.0.0.5:5060\"\n[[trusted]]\nnetwork = \"10.0.0.0/24\"\n",
                "trusted.0.network: 10.0.0.0/24 has the listener udp:10.0.0.5:5060 in it",
            ),
            (
                "forward = \"sip:10.0.0.5:5060\"\n[[listen]]\non = \"udp:10.0.0.5:5060\"\n",
                "forward: 10.0.0.5:5060 is a listener of this server",
            ),
            ("[proxy]\nrelay_denied = []\n", "it is empty"),
            (
                "[proxy]\nrelay_denied = [\"0.0.0.0/0\"]\n",
                "0.0.0.0/0 is every address",
            ),
            (
                "[[gateway_group]]\nname = \"g\"\ngateways = [{ uri = \"sip:127.0.0.1:5070\" }]\n",
                "gateway_group.0.gateways.0: 127.0.0.1:5070 is in 127.0.0.0/8",
            ),
        ] {
            let warnings = warnings(text);
            assert_eq!(warnings.len(), 1, "{warnings:?}");
            assert!(warnings.iter().any(|w| w.contains(told)), "{warnings:?}");
        }
        let meant = "[[trusted]]\nnetwork = \"127.0.0.1\"\n\
            [[gateway_group]]\nname = \"g\"\ngateways = [{ uri = \"sip:127.0.0.1:5070\" }]\n";
        assert_eq!(warnings(meant), [""; 0]);
    }

    #[test]
    fn networks_are_read_and_nonsense_is_told() {
        let read = |text: &str| Config::from_text(Path::new("test.toml"), text);
        let config = read("version = 1\n[proxy]\nrelay_denied = [\"10.0.0.0/8\"]\n").unwrap();
        assert_eq!(config.proxy.relay_denied.len(), 1);
        let error = read("version = 1\n[proxy]\nrelay_denied = [\"ten\"]\n").unwrap_err();
        assert!(error.to_string().contains("is no network"), "{error}");
    }
}
