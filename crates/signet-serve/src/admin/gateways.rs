//! `signet gateways`: the next hops of the configuration, and which of them are passed over
//! because they failed lately.

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use sip_engine::Settings;
use sip_engine::routes::NextHop;
use sip_msg::Transport;

use super::ask::{ask_running, tell};
use super::socket::{Admin, Answered, Refused};
use super::{Form, Instance};
use crate::Error;

/// The version of the answer's form.
const VERSION: u32 = 1;

/// Nothing more is to be said.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {}

/// The next hops of the configuration.
#[derive(Serialize, Deserialize)]
pub(super) struct Listed {
    version: u32,
    workers: usize,
    gateways: Vec<Shown>,
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
    /// Where it is; empty before a name was resolved for the first call.
    addresses: Vec<Address>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Address {
    address: SocketAddr,
    /// Workers that pass it over, because it did not answer, or could not be reached, lately.
    passed_over_by_workers: usize,
    /// After how long the last of them tries it again.
    tried_again_in_ms: u64,
}

/// A next hop that a worker passes over, and for how long.
type Dead = (Transport, SocketAddr, u64);

impl Shown {
    fn new(group: &str, hop: &NextHop, (priority, weight): (u16, u16)) -> Self {
        Self {
            group: group.to_owned(),
            host: hop.host.to_string(),
            port: hop.port,
            transport: hop.transport.map(|of| of.uri_name().to_owned()),
            priority,
            weight,
            addresses: Vec::new(),
        }
    }

    /// Takes down what the workers know of its addresses.
    fn know(&mut self, hop: &NextHop, addresses: &[SocketAddr], dead: &[Vec<Dead>]) {
        for address in addresses {
            let fits = |of: &&Dead| {
                of.1.ip().to_canonical() == address.ip().to_canonical()
                    && of.1.port() == address.port()
                    && hop.transport.is_none_or(|transport| transport == of.0)
            };
            let each = dead
                .iter()
                .filter_map(|of_worker| of_worker.iter().find(fits));
            let left_ms: Vec<u64> = each.map(|(_, _, left_ms)| *left_ms).collect();
            self.addresses.push(Address {
                address: *address,
                passed_over_by_workers: left_ms.len(),
                tried_again_in_ms: left_ms.iter().copied().max().unwrap_or(0),
            });
        }
    }

    /// What the next call finds.
    fn state(&self, workers: usize) -> &'static str {
        let mut over = self.addresses.iter().map(|of| of.passed_over_by_workers);
        match over.clone().max() {
            None => "not resolved yet",
            Some(0) => "in use",
            Some(_) if over.all(|count| count >= workers) => "passed over",
            Some(_) => "passed over in part",
        }
    }

    fn write(&self, workers: usize, text: &mut String) {
        let port = self.port.map(|port| format!(":{port}")).unwrap_or_default();
        let by = self.transport.as_deref().map(|of| format!(" by {of}"));
        let host = match self.host.contains(':') {
            true => format!("[{}]", self.host),
            false => self.host.clone(),
        };
        let _ = write!(
            text,
            "{} {host}{port}{}, priority {}, weight {}: {}",
            self.group,
            by.unwrap_or_default(),
            self.priority,
            self.weight,
            self.state(workers)
        );
        for of in &self.addresses {
            let _ = match of.passed_over_by_workers {
                0 => write!(text, "; {}", of.address),
                count => write!(
                    text,
                    "; {} failed, {count} of {workers} workers pass it over for {} s",
                    of.address,
                    of.tried_again_in_ms.div_ceil(1_000)
                ),
            };
        }
        text.push('\n');
    }
}

impl Listed {
    fn text(&self) -> String {
        let mut text = String::new();
        for gateway in &self.gateways {
            gateway.write(self.workers, &mut text);
        }
        if text.is_empty() {
            text.push_str("no gateways are configured\n");
        }
        text
    }
}

/// How many gateways there are, and how many of them no worker uses.
pub(super) async fn counted(admin: &Admin) -> Result<(usize, usize), Refused> {
    let (workers, gateways) = known(admin).await?;
    let out = gateways
        .iter()
        .filter(|of| of.state(workers) == "passed over");
    Ok((gateways.len(), out.count()))
}

/// Answers `/gateways`.
pub(super) async fn listed(
    State(admin): State<Admin>,
    Json(Wanted {}): Json<Wanted>,
) -> Answered<Listed> {
    let (workers, gateways) = known(&admin).await?;
    Ok(Json(Listed {
        version: VERSION,
        workers,
        gateways,
    }))
}

async fn known(admin: &Admin) -> Result<(usize, Vec<Shown>), Refused> {
    let settings: Arc<Settings> = admin.look(0, |shard, _| shard.settings().clone()).await?;
    let workers = admin.workers();
    let mut dead = Vec::new();
    for worker in 0..workers {
        dead.push(
            admin
                .look(worker, |shard, now| shard.dead_hops(now.mono_ms))
                .await?,
        );
    }
    let mut gateways = Vec::new();
    for (group, hop, rank) in hops(&settings) {
        let addresses = match hop.host.parse::<IpAddr>() {
            Ok(ip) => {
                let usual = hop.transport.unwrap_or(Transport::Udp).default_port();
                vec![SocketAddr::new(ip, hop.port.unwrap_or(usual))]
            }
            Err(_) => {
                let name = hop.host.clone();
                let learned = admin.look(0, move |shard, now| {
                    shard.learned_addresses(&name, now.mono_ms)
                });
                learned.await?
            }
        };
        let mut shown = Shown::new(&group, hop, rank);
        shown.know(hop, &addresses, &dead);
        gateways.push(shown);
    }
    Ok((workers, gateways))
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
pub fn gateways(place: &Instance, form: Form) -> Result<(), Error> {
    let otherwise = "signet check FILE says what is wrong in a configuration";
    let listed: Listed = ask_running(place, "/gateways", &Wanted {}, otherwise)?;
    tell(&listed, form, Listed::text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_is_told_with_those_who_pass_it_over() {
        let hop = NextHop {
            host: "gw.example".into(),
            port: None,
            transport: Some(Transport::Tls),
            connections: Default::default(),
        };
        let addr = |n: u8| SocketAddr::from(([192, 0, 2, n], 5061));
        let told = |dead: &[Vec<Dead>], addresses: &[SocketAddr]| {
            let mut shown = Shown::new("provider", &hop, (10, 5));
            shown.know(&hop, addresses, dead);
            let mut text = String::new();
            shown.write(2, &mut text);
            text
        };
        let head = "provider gw.example by tls, priority 10, weight 5: ";
        assert_eq!(told(&[], &[]), format!("{head}not resolved yet\n"));
        let is_dead = |n, left_ms| vec![(Transport::Tls, addr(n), left_ms)];
        let other = vec![(Transport::Udp, addr(1), 9_000)];
        assert_eq!(
            told(&[other, Vec::new()], &[addr(1)]),
            format!("{head}in use; 192.0.2.1:5061\n")
        );
        assert_eq!(
            told(&[is_dead(1, 1_500), Vec::new()], &[addr(1), addr(2)]),
            format!(
                "{head}passed over in part; 192.0.2.1:5061 failed, 1 of 2 workers pass it over \
                 for 2 s; 192.0.2.2:5061\n"
            )
        );
        assert_eq!(
            told(&[is_dead(1, 1_500), is_dead(1, 3_000)], &[addr(1)]),
            format!(
                "{head}passed over; 192.0.2.1:5061 failed, 2 of 2 workers pass it over for 3 s\n"
            )
        );
    }
}
