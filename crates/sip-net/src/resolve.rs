//! Locating SIP servers (RFC 3263), as a procedure over answers that somebody
//! else gets: [`Resolution::step`] says what to ask until it has the places.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use sip_msg::Transport;

use crate::DnsError;

/// A host to be resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// The host as it stands in the URI: a name, an IPv4 address or an IPv6
    /// address with or without brackets.
    pub host: Arc<str>,
    /// The port, where the URI has one.
    pub port: Option<u16>,
    /// The transport, where the URI or the configuration names one.
    pub transport: Option<Transport>,
    /// Whether only TLS will do (a `sips:` URI).
    pub secure: bool,
}

/// One place to try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The transport to use.
    pub transport: Transport,
    /// The address to send to.
    pub addr: SocketAddr,
    /// The name that its certificate must bear, for TLS: the host that was
    /// asked for, whatever names DNS put in its place (RFC 5922 4).
    pub tls_name: Option<Arc<str>>,
}

/// What may be chosen.
#[derive(Clone, Debug)]
pub struct Options {
    /// The transports that this host can use, the preferred one first; the
    /// preference counts where the domain states none.
    pub transports: Vec<Transport>,
    /// Whether this host can reach IPv4 addresses.
    pub ipv4: bool,
    /// Whether this host can reach IPv6 addresses, which then come first.
    pub ipv6: bool,
    /// Places, at most; what is past it is left out.
    pub hops_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            transports: vec![Transport::Tls, Transport::Udp, Transport::Tcp],
            ipv4: true,
            ipv6: true,
            hops_max: 16,
        }
    }
}

/// The type of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// RFC 3403.
    Naptr,
    /// RFC 2782.
    Srv,
    /// An IPv4 address.
    A,
    /// An IPv6 address.
    Aaaa,
}

/// What is to be asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Question {
    /// The name, absolute, without its final dot.
    pub name: Arc<str>,
    /// The type.
    pub kind: Kind,
}

/// A record of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// RFC 3403.
    Naptr {
        /// The lower is looked at first.
        order: u16,
        /// The lower is preferred among those of one order.
        preference: u16,
        /// `s`: the replacement is the name of an SRV record.
        flags: String,
        /// `SIP+D2U`, `SIP+D2T`, `SIPS+D2T`.
        services: String,
        /// The next name.
        replacement: String,
    },
    /// RFC 2782.
    Srv {
        /// The lower is tried first.
        priority: u16,
        /// The share among those of one priority.
        weight: u16,
        /// The port.
        port: u16,
        /// The host.
        target: String,
    },
    /// A or AAAA.
    Addr(IpAddr),
}

/// What came of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Records; those of other types are passed over.
    Records(Vec<Record>),
    /// There is no such name, or no such record under it.
    Nothing,
    /// Nobody answered in time.
    Timeout,
    /// The name server failed.
    Failed,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Ask these, and come back with their answers in the same order.
    Ask(Vec<Question>),
    /// The places, in the order in which to try them.
    Done(Result<Vec<Hop>, DnsError>),
}

/// Hosts whose addresses are asked for, at most.
const HOSTS_MAX: usize = 16;

/// One resolution under way.
#[derive(Debug)]
pub struct Resolution {
    query: Query,
    options: Options,
    stage: Stage,
    /// The worst that came of a question: what to say when there is no place.
    trouble: Option<DnsError>,
}

#[derive(Debug)]
enum Stage {
    Start,
    Naptr,
    /// Services asked for, in order of preference.
    Srv {
        services: Vec<Transport>,
        fallback: Transport,
    },
    /// Hosts asked for, in order: each with one question per address family.
    Addrs {
        hosts: Vec<Host>,
    },
}

#[derive(Debug)]
struct Host {
    transport: Transport,
    name: Arc<str>,
    port: u16,
}

impl Resolution {
    /// Begins.
    pub fn new(query: Query, options: Options) -> Self {
        Self {
            query,
            options,
            stage: Stage::Start,
            trouble: None,
        }
    }

    /// Goes on with the answers to what the last step asked; `random` gives a
    /// number from 0 up to and including its argument.
    pub fn step(&mut self, answers: Vec<Answer>, random: &mut dyn FnMut(u32) -> u32) -> Step {
        for answer in &answers {
            self.trouble = match answer {
                Answer::Timeout => Some(DnsError::Timeout),
                Answer::Failed if self.trouble != Some(DnsError::Timeout) => Some(DnsError::Failed),
                _ => self.trouble,
            };
        }
        match std::mem::replace(&mut self.stage, Stage::Start) {
            Stage::Start => self.start(),
            Stage::Naptr => self.take_naptr(answers),
            Stage::Srv { services, fallback } => {
                self.take_srv(&services, fallback, answers, random)
            }
            Stage::Addrs { hosts } => self.take_addrs(&hosts, answers),
        }
    }

    /// RFC 3263 4.1: which transport.
    fn start(&mut self) -> Step {
        let numeric = numeric(&self.query.host);
        let transport = match self.query.transport {
            // RFC 3263 4.1: "If the URI specifies a transport protocol in the
            // transport parameter, that transport protocol SHOULD be used."
            Some(transport) => match secured(transport, self.query.secure) {
                Some(transport) => Some(transport),
                None => return Step::Done(Err(DnsError::Unsupported)),
            },
            // RFC 3263 4.1: "Otherwise, if no transport protocol is specified,
            // but the TARGET is a numeric IP address, the client SHOULD use
            // UDP for a SIP URI, and TCP for a SIPS URI. Similarly, if no
            // transport protocol is specified, and the TARGET is not numeric,
            // but an explicit port is provided, the client SHOULD use UDP for
            // a SIP URI, and TCP for a SIPS URI."
            None if numeric.is_some() || self.query.port.is_some() => {
                Some(self.default_transport())
            }
            None => None,
        };
        if let Some(transport) = transport
            && !self.options.transports.contains(&transport)
        {
            return Step::Done(Err(DnsError::Unsupported));
        }
        let host = Arc::clone(&self.query.host);
        match (numeric, transport, self.query.port) {
            (Some(ip), transport, port) => {
                let transport = transport.unwrap_or_else(|| self.default_transport());
                let port = port.unwrap_or(transport.default_port());
                Step::Done(Ok(vec![self.hop(transport, SocketAddr::new(ip, port))]))
            }
            _ if !is_host_name(&host) => Step::Done(Err(DnsError::Unsupported)),
            // RFC 3263 4.2: with a port the addresses are those of the host itself.
            (None, Some(transport), Some(port)) => self.ask_addrs(vec![Host {
                transport,
                name: host,
                port,
            }]),
            (None, Some(transport), None) => match service_name(transport, &host) {
                Some(_) => self.ask_srv(vec![(transport, host)], transport, true),
                None => {
                    let port = transport.default_port();
                    self.ask_addrs(vec![Host {
                        transport,
                        name: host,
                        port,
                    }])
                }
            },
            (None, None, _) => {
                self.stage = Stage::Naptr;
                Step::Ask(vec![Question {
                    name: absolute(&host),
                    kind: Kind::Naptr,
                }])
            }
        }
    }

    /// RFC 3263 4.1: the services that the domain offers, by its preference.
    fn take_naptr(&mut self, answers: Vec<Answer>) -> Step {
        let mut offers: Vec<(u16, u16, Transport, Arc<str>)> = records(answers)
            .filter_map(|record| match record {
                Record::Naptr {
                    order,
                    preference,
                    flags,
                    services,
                    replacement,
                } if flags.eq_ignore_ascii_case("s") && !replacement.is_empty() => {
                    let transport = service_transport(&services)?;
                    let usable = self.options.transports.contains(&transport);
                    // RFC 3263 4.1: for a SIPS URI only services of "SIPS" count.
                    let usable = usable && (!self.query.secure || transport.is_secure());
                    usable.then(|| (order, preference, transport, absolute(&replacement)))
                }
                _ => None,
            })
            .collect();
        offers.sort_by_key(|(order, preference, ..)| (*order, *preference));
        offers.truncate(HOSTS_MAX);
        if !offers.is_empty() {
            let services: Vec<_> = offers
                .into_iter()
                .map(|(_, _, transport, name)| (transport, name))
                .collect();
            let fallback = services
                .first()
                .map_or(self.default_transport(), |(transport, _)| *transport);
            return self.ask_srv(services, fallback, false);
        }
        // RFC 3263 4.1: "If no NAPTR records are found, the client constructs
        // SRV queries for those transport protocols it supports, and does a
        // query for each."
        let secure = self.query.secure;
        let host = Arc::clone(&self.query.host);
        let transports = self.options.transports.iter().copied();
        let services: Vec<_> = transports
            .filter(|transport| !secure || transport.is_secure())
            .filter(|transport| service_name(*transport, &host).is_some())
            .map(|transport| (transport, Arc::clone(&host)))
            .collect();
        self.ask_srv(services, self.default_transport(), true)
    }

    /// Asks for the servers of services; `named_after` says that the names
    /// are domains and not the services' own.
    fn ask_srv(
        &mut self,
        services: Vec<(Transport, Arc<str>)>,
        fallback: Transport,
        named_after: bool,
    ) -> Step {
        let questions: Vec<Question> = services
            .iter()
            .filter_map(|(transport, name)| {
                let name = if named_after {
                    service_name(*transport, name)?.into()
                } else {
                    Arc::clone(name)
                };
                Some(Question {
                    name,
                    kind: Kind::Srv,
                })
            })
            .collect();
        if questions.is_empty() {
            return Step::Done(Err(DnsError::Unsupported));
        }
        self.stage = Stage::Srv {
            services: services
                .into_iter()
                .map(|(transport, _)| transport)
                .collect(),
            fallback,
        };
        Step::Ask(questions)
    }

    /// RFC 3263 4.2: the servers' names and ports.
    fn take_srv(
        &mut self,
        services: &[Transport],
        fallback: Transport,
        answers: Vec<Answer>,
        random: &mut dyn FnMut(u32) -> u32,
    ) -> Step {
        let mut hosts = Vec::new();
        let mut declined = false;
        for (transport, answer) in services.iter().zip(answers) {
            let mut servers = Vec::new();
            for record in records(vec![answer]) {
                if let Record::Srv {
                    priority,
                    weight,
                    port,
                    target,
                } = record
                {
                    // RFC 2782: "A Target of "." means that the service is
                    // decidedly not available at this domain."
                    if target.is_empty() || target == "." {
                        declined = true;
                    } else {
                        servers.push(Server {
                            priority,
                            weight,
                            port,
                            target: absolute(&target),
                        });
                    }
                }
            }
            for server in in_order(servers, random) {
                hosts.push(Host {
                    transport: *transport,
                    name: server.target,
                    port: server.port,
                });
            }
        }
        if hosts.is_empty() && declined {
            return Step::Done(Err(DnsError::NotFound));
        }
        if hosts.is_empty() {
            // RFC 3263 4.2: "If no SRV records were found, the client performs
            // an A or AAAA record lookup of the domain name."
            if !self.options.transports.contains(&fallback) {
                return Step::Done(Err(DnsError::Unsupported));
            }
            let name = absolute(&self.query.host);
            hosts.push(Host {
                transport: fallback,
                name,
                port: fallback.default_port(),
            });
        }
        self.ask_addrs(hosts)
    }

    fn ask_addrs(&mut self, mut hosts: Vec<Host>) -> Step {
        hosts.truncate(HOSTS_MAX);
        let mut questions = Vec::new();
        for host in &hosts {
            for kind in self.families() {
                questions.push(Question {
                    name: absolute(&host.name),
                    kind,
                });
            }
        }
        if questions.is_empty() {
            return Step::Done(Err(DnsError::Unsupported));
        }
        self.stage = Stage::Addrs { hosts };
        Step::Ask(questions)
    }

    fn take_addrs(&mut self, hosts: &[Host], answers: Vec<Answer>) -> Step {
        let per_host = self.families().count().max(1);
        let mut answers = answers.into_iter();
        let mut hops: Vec<Hop> = Vec::new();
        for host in hosts {
            for record in records(answers.by_ref().take(per_host).collect()) {
                if let Record::Addr(ip) = record {
                    let hop = self.hop(host.transport, SocketAddr::new(ip, host.port));
                    if hops.len() < self.options.hops_max && !hops.contains(&hop) {
                        hops.push(hop);
                    }
                }
            }
        }
        Step::Done(if hops.is_empty() {
            Err(self.trouble.unwrap_or(DnsError::NotFound))
        } else {
            Ok(hops)
        })
    }

    fn families(&self) -> impl Iterator<Item = Kind> + use<> {
        let ipv6 = self.options.ipv6.then_some(Kind::Aaaa);
        ipv6.into_iter().chain(self.options.ipv4.then_some(Kind::A))
    }

    fn default_transport(&self) -> Transport {
        if self.query.secure {
            Transport::Tls
        } else {
            Transport::Udp
        }
    }

    fn hop(&self, transport: Transport, addr: SocketAddr) -> Hop {
        let tls_name = transport.is_secure().then(|| Arc::clone(&self.query.host));
        Hop {
            transport,
            addr,
            tls_name,
        }
    }
}

/// The transport that a `sips:` URI makes of the one it names (RFC 3261 26.2.2:
/// TLS over that transport).
fn secured(transport: Transport, secure: bool) -> Option<Transport> {
    match (transport, secure) {
        (transport, false) => Some(transport),
        (Transport::Tcp | Transport::Tls, true) => Some(Transport::Tls),
        (Transport::Ws | Transport::Wss, true) => Some(Transport::Wss),
        (Transport::Udp, true) => None,
    }
}

/// The transport of a NAPTR record's service.
fn service_transport(services: &str) -> Option<Transport> {
    [
        ("SIP+D2U", Transport::Udp),
        ("SIP+D2T", Transport::Tcp),
        ("SIPS+D2T", Transport::Tls),
    ]
    .into_iter()
    .find(|(name, _)| services.eq_ignore_ascii_case(name))
    .map(|(_, transport)| transport)
}

/// The name of a domain's SRV records for a transport that has such.
fn service_name(transport: Transport, domain: &str) -> Option<String> {
    let prefix = match transport {
        Transport::Udp => "_sip._udp",
        Transport::Tcp => "_sip._tcp",
        Transport::Tls => "_sips._tcp",
        Transport::Ws | Transport::Wss => return None,
    };
    Some(format!("{prefix}.{}", absolute(domain)))
}

fn numeric(host: &str) -> Option<IpAddr> {
    let inner = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    match inner {
        Some(ip) => ip.parse().ok().filter(IpAddr::is_ipv6),
        None => host.parse().ok(),
    }
}

/// Whether DNS may be asked for it: RFC 1123's letters, and lengths.
fn is_host_name(host: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host);
    let fits = |label: &str| {
        (1..=63).contains(&label.len())
            && label
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    host.len() <= 253 && host.split('.').all(fits)
}

/// A name without its final dot.
fn absolute(name: &str) -> Arc<str> {
    name.strip_suffix('.').unwrap_or(name).into()
}

fn records(answers: Vec<Answer>) -> impl Iterator<Item = Record> {
    answers.into_iter().flat_map(|answer| match answer {
        Answer::Records(records) => records,
        Answer::Nothing | Answer::Timeout | Answer::Failed => Vec::new(),
    })
}

struct Server {
    priority: u16,
    weight: u16,
    port: u16,
    target: Arc<str>,
}

/// The order of RFC 2782: by priority, and among those of one priority by lot,
/// each with the chance of its weight.
fn in_order(mut servers: Vec<Server>, random: &mut dyn FnMut(u32) -> u32) -> Vec<Server> {
    // RFC 2782: "arrange all SRV RRs (that have not been ordered yet) in any
    // order, except that all those with weight 0 are placed at the beginning of
    // the list."
    servers.sort_by_key(|server| (server.priority, server.weight));
    let mut ordered = Vec::with_capacity(servers.len());
    while let Some(first) = servers.first() {
        let priority = first.priority;
        let group = servers
            .iter()
            .take_while(|server| server.priority == priority);
        let sum: u32 = group.map(|server| u32::from(server.weight)).sum();
        let lot = random(sum).min(sum);
        let mut running = 0;
        let drawn = servers.iter().position(|server| {
            running += u32::from(server.weight);
            running >= lot
        });
        ordered.push(servers.remove(drawn.unwrap_or(0)));
    }
    ordered
}

#[cfg(test)]
mod tests;
