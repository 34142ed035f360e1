//! What cannot be seen in one value alone.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use sip_msg::Transport;
use sip_tls::{RevocationPolicy, TlsEngine};

use super::{Config, Fault, Listen, ListenSecurity, ListenWebSocket, TicketKeysFrom, VERSION};

/// The name of listeners that offer weak suites.
const LEGACY: &str = "legacy";

impl Config {
    /// Everything that is wrong between the parts. A file must give its version.
    pub(super) fn faults(&self, from_file: bool) -> Vec<Fault> {
        let mut faults = Faults::default();
        match self.version {
            Some(VERSION) => {}
            Some(_) => faults.add(
                "version",
                "this version of the format is not known",
                &format!("write `version = {VERSION}`"),
            ),
            None if from_file => faults.add(
                "version",
                "the version of the format is missing",
                &format!("begin the file with `version = {VERSION}`"),
            ),
            None => {}
        }
        self.check_listeners(&mut faults);
        self.check_routes(&mut faults);
        self.check_neighbours(&mut faults);
        self.check_cares(&mut faults);
        self.check_trunks(&mut faults);
        self.check_calls(&mut faults);
        self.check_peers(&mut faults);
        self.check_tls(&mut faults);
        self.check_numbers(&mut faults);
        self.check_lenient(&mut faults);
        self.check_nat(&mut faults);
        self.users.check(&mut faults);
        self.check_texts(&mut faults);
        self.check_records(&mut faults);
        self.check_hook(&mut faults);
        self.check_media(&mut faults);
        faults.found
    }

    fn check_listeners(&self, faults: &mut Faults) {
        let mut seen = BTreeSet::new();
        for (nth, listen) in self.listen.iter().enumerate() {
            let on = listen.on;
            // Port 0 is another port each time; TLS and TCP share the ports.
            let stream = on.transport.is_reliable();
            if on.addr.port() != 0 && !seen.insert((stream, on.addr)) {
                faults.add(
                    &format!("listen.{nth}.on"),
                    &format!("`{on}` is taken by a listener above"),
                    "write another port, or drop one of the two",
                );
            }
            if on.transport.is_secure() {
                let at = format!("listen.{nth}.security");
                if check_engine(listen, &at, faults) {
                    check_security(&listen.security, &at, faults);
                }
            } else if listen.security != ListenSecurity::default() {
                faults.add(
                    &format!("listen.{nth}.security"),
                    &format!(
                        "{} has no certificate and no handshake",
                        on.transport.uri_name()
                    ),
                    "listen on tls:ADDRESS:PORT or wss:ADDRESS:PORT, or drop it",
                );
            }
            if !on.transport.is_websocket() && listen.websocket != ListenWebSocket::default() {
                faults.add(
                    &format!("listen.{nth}.websocket"),
                    &format!("{} is no WebSocket", on.transport.uri_name()),
                    "listen on wss:ADDRESS:PORT or ws:ADDRESS:PORT, or drop it",
                );
            }
        }
        if self.listen.len() > 256 {
            faults.add("listen", "there are more than 256 listeners", "drop some");
        }
        if let Some(figures) = self.metrics.listen
            && let Some(taken) = self
                .listen
                .iter()
                .map(|listen| listen.on)
                .find(|on| on.transport.is_reliable() && is_same_port(on.addr, figures))
        {
            faults.add(
                "metrics.listen",
                &format!("the port of `{figures}` is taken by the listener `{taken}`"),
                "write another port, or drop one of the two",
            );
        }
    }

    fn check_routes(&self, faults: &mut Faults) {
        let mut groups = BTreeSet::new();
        for (nth, group) in self.gateway_group.iter().enumerate() {
            let at = format!("gateway_group.{nth}");
            if !groups.insert(group.name.as_str()) {
                faults.add(
                    &format!("{at}.name"),
                    &format!("a group named `{}` stands above", group.name),
                    "give each group a name of its own",
                );
            }
            if group.gateways.is_empty() {
                faults.add(
                    &format!("{at}.gateways"),
                    "a group without gateways",
                    "write gateways = [{ uri = \"sip:HOST:PORT\" }]",
                );
            }
            for (member, gateway) in group.gateways.iter().enumerate() {
                if group.security.tls
                    && !matches!(gateway.uri.0.transport, None | Some(Transport::Tls))
                {
                    faults.add(
                        &format!("{at}.gateways.{member}.uri"),
                        "the group wants TLS, and this gateway is reached without it",
                        "write ;transport=tls, or drop security = { tls = true } of the group",
                    );
                }
            }
        }
        let mut rows = BTreeSet::new();
        for (nth, route) in self.route.iter().enumerate() {
            let at = format!("route.{nth}");
            let row = match (&route.domain, &route.prefix) {
                (Some(domain), None) => format!("domain {domain}"),
                (None, Some(prefix)) => format!("prefix {}", prefix.0),
                _ => {
                    faults.add(
                        &at,
                        "a route is for a domain or for a prefix",
                        "write one of the two: domain = \"example.net\" or prefix = \"+49\"",
                    );
                    continue;
                }
            };
            let when = format!("{:?}", route.when);
            if !rows.insert((row.clone(), route.cost, when)) {
                faults.add(
                    &at,
                    &format!("a route for the {row} stands above"),
                    "drop one of the two, or give them costs or hours of their own",
                );
            }
            if !groups.contains(route.group.as_str()) {
                let names: Vec<&str> = groups.iter().copied().collect();
                let remedy = if names.is_empty() {
                    "add a [[gateway_group]] with that name".to_owned()
                } else {
                    format!("write one of: {}", names.join(", "))
                };
                faults.add(
                    &format!("{at}.group"),
                    &format!("there is no group `{}`", route.group),
                    &remedy,
                );
            }
            if let Some(domain) = route
                .domain
                .as_ref()
                .filter(|domain| self.domains.contains(domain))
            {
                faults.add(
                    &format!("{at}.domain"),
                    &format!("`{domain}` is one of our own domains"),
                    "take it out of `domains`, or route by prefix",
                );
            }
        }
    }

    fn check_tls(&self, faults: &mut Faults) {
        if self.tls.revocation == RevocationPolicy::Strict && self.tls.crls.is_empty() {
            faults.add(
                "tls.revocation",
                "without a revocation list no peer can be reached over TLS",
                "name lists: crls = [\"FILE\"], or write revocation = \"lenient\"",
            );
        }
        // Eight secrets are held, of which one may not have settled yet.
        const TICKET_SECRETS: u64 = 6;
        if self.tls.ticket_keys == TicketKeysFrom::Store
            && self.tls.ticket_rotation_s > TICKET_SECRETS * self.tls.ticket_secret_rotation_s
        {
            faults.add(
                "tls.ticket_rotation_s",
                "tickets would be good for longer than the secrets that open them are held",
                "write a number of at most six times ticket_secret_rotation_s",
            );
        }
        self.check_full_handshakes(faults);
        match self.tls.ticket_keys {
            TicketKeysFrom::Store if self.tls.ticket_secret_file.is_some() => faults.add(
                "tls.ticket_secret_file",
                "the secret of session tickets comes from the store, so this file is not read",
                "write ticket_keys = \"file\", or drop it",
            ),
            TicketKeysFrom::File if self.tls.ticket_store.is_some() => faults.add(
                "tls.ticket_store",
                "the secret of session tickets comes from a file, so this database is not read",
                "write ticket_keys = \"store\", or drop it",
            ),
            _ => {}
        }
    }

    /// Who comes last of all that may wait must have his turn while his handshake lasts: else a
    /// full queue serves nobody in time.
    fn check_full_handshakes(&self, faults: &mut Faults) {
        let tls = &self.tls;
        let per_s = u64::from(tls.full_per_s_max);
        let waiting = tls.full_waiting_max as u64;
        let in_time = per_s * tls.handshake_timeout_ms;
        if per_s == 0 || waiting * 1_000 < in_time {
            return;
        }
        let most = in_time.saturating_sub(1) / 1_000;
        let remedy = match most {
            0 => "write a larger full_per_s_max, or a longer handshake_timeout_ms".to_owned(),
            _ => format!("write {most} or less, or a larger full_per_s_max"),
        };
        // At the key that was changed, if one was.
        let is_default = tls.full_waiting_max == super::Tls::default().full_waiting_max;
        let (key, remedy) = match is_default {
            false => ("full_waiting_max", remedy),
            true if most == 0 => ("full_per_s_max", remedy),
            true => (
                "full_per_s_max",
                format!("write a larger number, or full_waiting_max = {most}"),
            ),
        };
        faults.add(
            &format!("tls.{key}"),
            &format!(
                "{waiting} handshakes that wait, {per_s} of them begun in a second, take longer than handshake_timeout_ms"
            ),
            &remedy,
        );
    }

    fn check_numbers(&self, faults: &mut Faults) {
        self.check_expiry(faults);
        if self.authentication.algorithms.is_empty() {
            faults.add(
                "authentication.algorithms",
                "without an algorithm nobody can prove who he is",
                "write algorithms = [\"SHA-512-256\", \"SHA-256\", \"MD5\"]",
            );
        }
        if self.timers.t1_ms > self.timers.t2_ms {
            faults.add(
                "timers.t1_ms",
                "T1 is longer than T2",
                "write a smaller t1_ms; RFC 3261 has 500 and 4000",
            );
        }
        if self.limits.body_bytes > self.limits.message_bytes {
            faults.add(
                "limits.body_bytes",
                "a body cannot be longer than the whole message",
                "write a smaller body_bytes or a larger message_bytes",
            );
        }
        if self.connections.write_queue_bytes_max < self.limits.message_bytes {
            faults.add(
                "connections.write_queue_bytes_max",
                "a message of `limits.message_bytes` does not fit the queue",
                "write a larger write_queue_bytes_max",
            );
        }
    }

    /// Points at the key that was changed, if one was: the others have their defaults.
    fn check_expiry(&self, faults: &mut Faults) {
        let registrar = &self.registrar;
        let (min, max) = (registrar.expires_min_s, registrar.expires_max_s);
        let usual = registrar.expires_default_s;
        if (min..=max).contains(&usual) {
            return;
        }
        let defaults = super::Registrar::default();
        let is_default = usual == defaults.expires_default_s;
        // The minimum is bounded by the default, so it is the maximum.
        let (key, what, remedy) = match is_default {
            true => (
                "expires_max_s",
                format!("{max} is below expires_default_s, which is {usual}"),
                format!("write a number from {usual} on, or a smaller expires_default_s"),
            ),
            false => (
                "expires_default_s",
                format!("{usual} is not from expires_min_s to expires_max_s"),
                format!("write a number from {min} to {max}"),
            ),
        };
        faults.add(&format!("registrar.{key}"), &what, &remedy);
    }

    fn check_texts(&self, faults: &mut Faults) {
        if self
            .server_header
            .bytes()
            .any(|byte| !(0x20..0x7f).contains(&byte))
            || self.server_header.len() > 128
        {
            faults.add(
                "server_header",
                "a Server header is one short line of plain text",
                "write up to 128 printable characters, or \"\" for none",
            );
        }
        for (nth, route) in self.registrar.service_route.iter().enumerate() {
            let uri = route.trim_start_matches('<').trim_end_matches('>');
            let is_route = (uri.starts_with("sip:") || uri.starts_with("sips:"))
                && uri.split(';').any(|param| param.eq_ignore_ascii_case("lr"))
                && uri.bytes().all(|byte| {
                    (0x21..0x7f).contains(&byte) && byte != b'<' && byte != b'>' && byte != b','
                });
            if !is_route {
                faults.add(
                    &format!("registrar.service_route.{nth}"),
                    &format!("`{route}` is no route"),
                    "write a URI with the parameter lr, for example \"sip:sip.example.com;lr\"",
                );
            }
        }
    }
}

/// Whether two sockets cannot both be bound. Port 0 is another port each time.
fn is_same_port(one: SocketAddr, other: SocketAddr) -> bool {
    let (ip, other_ip) = (one.ip(), other.ip());
    let is_any =
        ip.is_ipv4() == other_ip.is_ipv4() && (ip.is_unspecified() || other_ip.is_unspecified());
    one.port() != 0 && one.port() == other.port() && (ip == other_ip || is_any)
}

/// Weak suites are offered by name only, and only by a build that has them.
/// Gives whether the rest is to be looked at.
fn check_engine(listen: &Listen, at: &str, faults: &mut Faults) -> bool {
    if listen.security.tls_engine() == TlsEngine::Modern {
        return true;
    }
    let key = if listen.security.engine == TlsEngine::Legacy {
        "engine"
    } else {
        "suites"
    };
    let at = format!("{at}.{key}");
    if listen.name.as_deref() != Some(LEGACY) {
        faults.add(
            &at,
            &format!(
                "only a listener named `{LEGACY}` may have this: {}",
                sip_tls::LEGACY_WARNING
            ),
            "drop it; or, to measure, write name = \"legacy\" beside `on`",
        );
    }
    if !TlsEngine::Legacy.is_here() {
        faults.add(
            &at,
            "this build has no legacy TLS, only one with the feature `legacy-tls`",
            "drop it; or, to measure, build with: cargo build --release -p signet --features legacy-tls",
        );
        return false;
    }
    true
}

fn check_security(security: &ListenSecurity, at: &str, faults: &mut Faults) {
    if security.certificate.is_some() != security.key.is_some() {
        faults.add(
            at,
            "a certificate needs its key, and a key its certificate",
            "write both: security = { certificate = \"FILE\", key = \"FILE\" }; or neither, to use the data folder's own",
        );
    }
    if let Err(error) = security.check_algorithms() {
        let (what, remedy) = error.reason.split_once("; ").unwrap_or((&error.reason, ""));
        let key = if security.versions.is_empty()
            || what.starts_with("no cipher suite fits")
            || what.starts_with("the legacy suites are suites of")
        {
            "versions"
        } else if security.suites.as_ref().is_some_and(Vec::is_empty)
            || security.tls_engine() == TlsEngine::Legacy
        {
            "suites"
        } else {
            "groups"
        };
        faults.add(&format!("{at}.{key}"), what, remedy);
    }
    if !security.asks_for_certificates() {
        let idle = [
            ("client_roots", security.client_roots.is_empty()),
            ("crls", security.crls.is_empty()),
            (
                "client_certificates_authenticate",
                !security.client_certificates_authenticate,
            ),
        ];
        for (key, is_empty) in idle {
            if !is_empty {
                faults.add(
                    &format!("{at}.{key}"),
                    "clients are not asked for certificates, so nothing is checked by it",
                    "write client_certificates = \"optional\" or \"required\", or drop it",
                );
            }
        }
    } else if security.revocation == RevocationPolicy::Strict && security.crls.is_empty() {
        faults.add(
            &format!("{at}.revocation"),
            "without a revocation list no client can be let in",
            "name lists: crls = [\"FILE\"], or write revocation = \"lenient\"",
        );
    }
}

#[derive(Default)]
pub(super) struct Faults {
    found: Vec<Fault>,
}

impl Faults {
    pub(super) fn add(&mut self, at: &str, what: &str, remedy: &str) {
        self.found.push(Fault {
            at: at.to_owned(),
            what: what.to_owned(),
            remedy: remedy.to_owned(),
        });
    }
}
