//! `signet gateways`: the next hops of the configuration, how each of their addresses is, and
//! which of them are drained.

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use sip_engine::Settings;
use sip_engine::gateways::{Shown as Health, Why};
use sip_engine::routes::NextHop;
use sip_msg::Transport;
use sip_net::clock;

use super::ask::{Nothing, ask_running, tell};
use super::socket::{Admin, Answered, Refused};
use super::{Form, Instance, lasting, say};
use crate::Error;

/// The version of the answers' form.
const VERSION: u32 = 2;
/// What is said where no server runs.
const OTHERWISE: &str = "signet check FILE says what is wrong in a configuration";

/// The next hops of the configuration.
#[derive(Serialize, Deserialize)]
pub(super) struct Listed {
    version: u32,
    gateways: Vec<Shown>,
}

/// What is drained, or is not any more.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Drain {
    /// A host, a host with its port, or a group.
    name: String,
    is_drained: bool,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Drained {
    version: u32,
    /// Those of that name, and whether each was otherwise before.
    gateways: Vec<(String, bool)>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Shown {
    /// The group's name; `forward` for the next hop of that key.
    group: String,
    host: String,
    port: Option<u16>,
    transport: Option<String>,
    priority: u16,
    weight: u16,
    /// Whether it gets nothing that begins.
    is_drained: bool,
    /// Where it is; empty before a name was resolved for the first call.
    addresses: Vec<Address>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Address {
    address: SocketAddr,
    /// By which it is known; `None` where nothing is known of it.
    transport: Option<String>,
    is_passed_over: bool,
    /// What is held against it: `silent`, `unreachable`, `busy`, `retry_after`, `probes`.
    why: Option<String>,
    /// For how long something has been.
    since_s: u64,
    /// After how long a call tries it again, at the latest.
    tried_again_in_ms: u64,
    last_status: Option<u16>,
    last_answer_s: Option<u64>,
    probes_good: u64,
    probes_failed: u64,
    times_passed_over: u64,
}

impl Address {
    /// One of which nothing is known.
    fn new(address: SocketAddr) -> Self {
        Self {
            address,
            transport: None,
            is_passed_over: false,
            why: None,
            since_s: 0,
            tried_again_in_ms: 0,
            last_status: None,
            last_answer_s: None,
            probes_good: 0,
            probes_failed: 0,
            times_passed_over: 0,
        }
    }

    fn known(address: SocketAddr, transport: Transport, health: &Health) -> Self {
        Self {
            transport: Some(transport.uri_name().to_owned()),
            is_passed_over: health.out_for_ms > 0,
            why: health.why.map(|why| why.name().to_owned()),
            since_s: health.age_ms / 1_000,
            tried_again_in_ms: health.out_for_ms,
            last_status: health.last_answer.map(|(status, _)| status),
            last_answer_s: health.last_answer.map(|(_, age_ms)| age_ms / 1_000),
            probes_good: health.probes_good,
            probes_failed: health.probes_failed,
            times_passed_over: health.times_passed_over,
            ..Self::new(address)
        }
    }

    fn write(&self, text: &mut String) {
        let _ = write!(text, "; {}", self.address);
        if let Some(why) = self.why.as_deref() {
            let means = Why::by_name(why).map_or(why, |known| known.text());
            let since = lasting(self.since_s);
            let _ = match self.tried_again_in_ms {
                0 => write!(text, " {means} ({since} ago), the next call tries it"),
                left_ms => write!(
                    text,
                    " {means} (since {since}), tried again in {} at the latest",
                    lasting(left_ms.div_ceil(1_000))
                ),
            };
        }
        if let (Some(status), Some(age_s)) = (self.last_status, self.last_answer_s) {
            let _ = write!(text, ", last answer {status} {} ago", lasting(age_s));
        }
        if self.probes_good + self.probes_failed > 0 {
            let (good, failed) = (self.probes_good, self.probes_failed);
            let _ = write!(text, ", probes: {good} good, {failed} failed");
        }
    }
}

impl Shown {
    fn new(group: &str, hop: &NextHop, (priority, weight): (u16, u16)) -> Self {
        Self {
            group: group.to_owned(),
            host: hop.host.to_string(),
            port: hop.port,
            transport: hop.transport.map(|of| of.uri_name().to_owned()),
            priority,
            weight,
            is_drained: false,
            addresses: Vec::new(),
        }
    }

    /// Takes down what is known of its addresses.
    fn know(
        &mut self,
        hop: &NextHop,
        addresses: &[SocketAddr],
        known: &[(Transport, SocketAddr, Health)],
    ) {
        for address in addresses {
            let fits = |of: &&(Transport, SocketAddr, Health)| {
                of.1.ip().to_canonical() == address.ip().to_canonical()
                    && of.1.port() == address.port()
                    && hop.transport.is_none_or(|transport| transport == of.0)
            };
            let before = self.addresses.len();
            let of_it = known.iter().filter(fits);
            self.addresses.extend(
                of_it.map(|(transport, _, health)| Address::known(*address, *transport, health)),
            );
            if self.addresses.len() == before {
                self.addresses.push(Address::new(*address));
            }
        }
    }

    /// What the next call finds.
    fn state(&self) -> &'static str {
        let mut over = self.addresses.iter().map(|of| of.is_passed_over);
        match (self.is_drained, self.addresses.is_empty()) {
            (true, _) => "drained",
            (_, true) => "not resolved yet",
            _ if over.clone().all(|is_over| is_over) => "passed over",
            _ if over.any(|is_over| is_over) => "passed over in part",
            _ => "in use",
        }
    }

    fn write(&self, text: &mut String) {
        let by = self.transport.as_deref().map(|of| format!(" by {of}"));
        let _ = write!(
            text,
            "{} {}{}, priority {}, weight {}: {}",
            self.group,
            host_and_port(&self.host, self.port),
            by.unwrap_or_default(),
            self.priority,
            self.weight,
            self.state()
        );
        self.addresses.iter().for_each(|of| of.write(text));
        text.push('\n');
    }
}

impl Listed {
    fn text(&self) -> String {
        let mut text = String::new();
        self.gateways.iter().for_each(|of| of.write(&mut text));
        if text.is_empty() {
            text.push_str("no gateways are configured\n");
        }
        text
    }
}

/// A host and its port as they are written.
fn host_and_port(host: &str, port: Option<u16>) -> String {
    let port = port.map(|port| format!(":{port}")).unwrap_or_default();
    match host.contains(':') {
        true => format!("[{host}]{port}"),
        false => format!("{host}{port}"),
    }
}

/// How many gateways there are, and how many of them are passed over.
pub(super) async fn counted(admin: &Admin) -> Result<(u64, u64), Refused> {
    let gateways = known(admin).await?;
    let out = gateways.iter().filter(|of| of.state() == "passed over");
    Ok((gateways.len() as u64, out.count() as u64))
}

/// Answers `/gateways`.
pub(super) async fn listed(
    State(admin): State<Admin>,
    Json(Nothing {}): Json<Nothing>,
) -> Answered<Listed> {
    Ok(Json(Listed {
        version: VERSION,
        gateways: known(&admin).await?,
    }))
}

/// Answers `/gateways/drain`.
pub(super) async fn drained(
    State(admin): State<Admin>,
    Json(wanted): Json<Drain>,
) -> Answered<Drained> {
    let settings = settings(&admin).await?;
    let all = hops(&settings);
    let meant = all.iter().filter(|(group, hop, _)| {
        let is_host = |name: &str| name.eq_ignore_ascii_case(&wanted.name);
        **group == *wanted.name
            || is_host(&hop.host)
            || is_host(&host_and_port(&hop.host, None))
            || is_host(&host_and_port(&hop.host, hop.port))
    });
    let mut gateways = Vec::new();
    for (group, hop, _) in meant {
        let has_changed = admin.sources.gateways.drain(hop, wanted.is_drained);
        let name = format!("{group} {}", host_and_port(&hop.host, hop.port));
        let told = match wanted.is_drained {
            true => "gets no new calls",
            false => "gets new calls again",
        };
        tracing::info!(gateway = %name, "the gateway {told}, by the operator");
        gateways.push((name, has_changed));
    }
    if gateways.is_empty() {
        return Err(Refused::new(
            format!("no gateway and no group is called {}", wanted.name),
            "`signet gateways` shows them: type a group, a host or host:port",
        ));
    }
    Ok(Json(Drained {
        version: VERSION,
        gateways,
    }))
}

async fn settings(admin: &Admin) -> Result<Arc<Settings>, Refused> {
    admin.look(0, |shard, _| shard.settings().clone()).await
}

async fn known(admin: &Admin) -> Result<Vec<Shown>, Refused> {
    let settings = settings(admin).await?;
    let (shared, now_ms) = (&admin.sources.gateways, clock::now_ms());
    let health = shared.health(now_ms);
    let hops = hops(&settings).into_iter();
    let shown = hops.map(|(group, hop, rank)| {
        let addresses = match hop.host.parse::<IpAddr>() {
            Ok(ip) => {
                let usual = hop.transport.unwrap_or(Transport::Udp).default_port();
                vec![SocketAddr::new(ip, hop.port.unwrap_or(usual))]
            }
            Err(_) => shared.addresses(&hop.host, now_ms),
        };
        let mut shown = Shown::new(&group, hop, rank);
        shown.is_drained = shared.is_drained(hop);
        shown.know(hop, &addresses, &health);
        shown
    });
    Ok(shown.collect())
}

/// All configured next hops with their group, priority and weight.
fn hops(settings: &Settings) -> Vec<(Arc<str>, &NextHop, (u16, u16))> {
    let groups = settings.routes.groups.iter();
    let members = groups.flat_map(|group| {
        let gateways = group.gateways.iter();
        gateways.map(|of| (group.name.clone(), &of.next_hop, (of.priority, of.weight)))
    });
    let forward = settings.forward.iter();
    let forward = forward.map(|hop| ("forward".into(), hop, (0, 1)));
    members.chain(forward).collect()
}

/// Prints the gateways and how they are.
pub fn gateways(instance: &Instance, form: Form) -> Result<(), Error> {
    let listed: Listed = ask_running(instance, "/gateways", &Nothing {}, OTHERWISE)?;
    tell(&listed, form, Listed::text)
}

/// Has a gateway, or all of a group, begin nothing new, or ends that.
pub fn gateways_drain(instance: &Instance, name: &str, is_drained: bool) -> Result<(), Error> {
    let wanted = Drain {
        name: name.to_owned(),
        is_drained,
    };
    let drained: Drained = ask_running(instance, "/gateways/drain", &wanted, OTHERWISE)?;
    let lines = drained.gateways.iter().map(|(name, has_changed)| {
        let told = match (is_drained, has_changed) {
            (true, true) => "is drained: it gets no new calls, and those in progress go on",
            (true, false) => "was drained before",
            (false, true) => "gets new calls again",
            (false, false) => "was not drained",
        };
        format!("{name} {told}\n")
    });
    say(&lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn health(why: Option<Why>, out_for_ms: u64) -> Health {
        Health {
            name: "gw.example".into(),
            why,
            out_for_ms,
            age_ms: if why.is_some() { 8_000 } else { 0 },
            last_answer: None,
            probes_good: 0,
            probes_failed: 0,
            times_passed_over: 0,
        }
    }

    #[test]
    fn a_gateway_is_told_with_what_is_held_against_it() {
        let hop = NextHop {
            host: "gw.example".into(),
            port: None,
            transport: Some(Transport::Tls),
            connections: Default::default(),
        };
        let addr = |n: u8| SocketAddr::from(([192, 0, 2, n], 5061));
        let told = |known: &[(Transport, SocketAddr, Health)], addresses: &[SocketAddr]| {
            let mut shown = Shown::new("provider", &hop, (10, 5));
            shown.know(&hop, addresses, known);
            let mut text = String::new();
            shown.write(&mut text);
            text
        };
        let head = "provider gw.example by tls, priority 10, weight 5: ";
        assert_eq!(told(&[], &[]), format!("{head}not resolved yet\n"));
        let tls = |n, health| (Transport::Tls, addr(n), health);
        // What is known of another transport is not its own.
        let other = (Transport::Udp, addr(1), health(Some(Why::Silent), 9_000));
        assert_eq!(
            told(&[other], &[addr(1)]),
            format!("{head}in use; 192.0.2.1:5061\n")
        );
        let silent = tls(1, health(Some(Why::Silent), 1_500));
        assert_eq!(
            told(std::slice::from_ref(&silent), &[addr(1), addr(2)]),
            format!(
                "{head}passed over in part; 192.0.2.1:5061 it gave no answer (since 8 s), tried \
                 again in 2 s at the latest; 192.0.2.2:5061\n"
            )
        );
        let probed = Health {
            last_answer: Some((503, 4_200)),
            probes_good: 7,
            probes_failed: 3,
            ..health(Some(Why::Probes), 30_000)
        };
        assert_eq!(
            told(&[tls(1, probed)], &[addr(1)]),
            format!(
                "{head}passed over; 192.0.2.1:5061 its probes fail (since 8 s), tried again in 30 s \
                 at the latest, last answer 503 4 s ago, probes: 7 good, 3 failed\n"
            )
        );
        let on_trial = tls(1, health(Some(Why::Busy), 0));
        assert_eq!(
            told(&[on_trial], &[addr(1)]),
            format!(
                "{head}in use; 192.0.2.1:5061 it answered 503 (8 s ago), the next call tries it\n"
            )
        );
        let mut shown = Shown::new("provider", &hop, (10, 5));
        shown.know(&hop, &[addr(1)], &[silent]);
        shown.is_drained = true;
        assert_eq!(shown.state(), "drained");
        assert_eq!(host_and_port("::1", Some(5_070)), "[::1]:5070");
    }
}
