//! The questions that a name takes (RFC 3263), and what is made of their answers.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use sip_msg::Transport;

use crate::locate::{First, Hop, Query, Refusal, first};
use crate::order::{Rank, order};
use crate::reach::{Family, Reach};

/// What may be chosen.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// What this server can send by.
    pub reach: Reach,
    /// Places, at most; what is past it is left out.
    pub hops_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            reach: Reach::EVERYWHERE,
            hops_max: 16,
        }
    }
}

/// Why there is nowhere to send to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LocateError {
    /// Nothing can be sent there, whatever DNS says.
    Refused(Refusal),
    /// The name does not exist, or has no address.
    NotFound,
    /// The name servers did not answer in time.
    Timeout,
    /// The name servers answered with a failure.
    Failed,
}

impl std::fmt::Display for LocateError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Refused(refusal) => refusal.fmt(f),
            Self::NotFound => f.write_str("no such name, or no address under it"),
            Self::Timeout => f.write_str("the name servers did not answer in time"),
            Self::Failed => f.write_str("the name servers answered with a failure"),
        }
    }
}

impl std::error::Error for LocateError {}

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
    Done(Result<Vec<Hop>, LocateError>),
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
    trouble: Option<LocateError>,
}

#[derive(Debug)]
enum Stage {
    Start,
    Naptr,
    /// Services asked for, in order of preference.
    Srv {
        services: Vec<Transport>,
        fallback: Option<Transport>,
    },
    /// Hosts asked for, in order: each with one question per address family that is
    /// reached by its transport.
    Addrs {
        hosts: Vec<Host>,
    },
}

#[derive(Debug)]
struct Host {
    /// The transport; `None` for the default of its address.
    transport: Option<Transport>,
    name: Arc<str>,
    /// The port; `None` for that of the transport.
    port: Option<u16>,
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
                Answer::Timeout => Some(LocateError::Timeout),
                Answer::Failed if self.trouble != Some(LocateError::Timeout) => {
                    Some(LocateError::Failed)
                }
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
        let transport = match first(&self.query.destination(), self.options.reach) {
            Ok(First::Hop(hop)) => return Step::Done(Ok(vec![hop])),
            Ok(First::Name { transport, .. }) => transport,
            Err(refusal) => return Step::Done(Err(LocateError::Refused(refusal))),
        };
        let host = Arc::clone(&self.query.host);
        match (transport, self.query.port) {
            // RFC 3263 4.2: with a port the addresses are those of the host itself.
            (transport, Some(port)) => self.ask_addrs(vec![Host {
                transport,
                name: host,
                port: Some(port),
            }]),
            (Some(transport), None) => self.ask_srv(vec![(transport, host)], Some(transport), true),
            (None, None) => {
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
        // RFC 3263 4.1: for a SIPS URI only services of "SIPS" count.
        let usable: Vec<_> = self.options.reach.services(self.query.secure).collect();
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
                    let is_usable = usable.contains(&transport);
                    is_usable.then(|| (order, preference, transport, absolute(&replacement)))
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
            let fallback = services.first().map(|(transport, _)| *transport);
            return self.ask_srv(services, fallback, false);
        }
        // RFC 3263 4.1: "If no NAPTR records are found, the client constructs
        // SRV queries for those transport protocols it supports, and does a
        // query for each." So it is where the question for them fails, as it does at some
        // resolvers for each name: SRV records say what a domain has, TLS first. Without any
        // there is nowhere to go then.
        let host = &self.query.host;
        let services = usable
            .into_iter()
            .map(|transport| (transport, Arc::clone(host)));
        self.ask_srv(services.collect(), None, true)
    }

    /// Asks for the servers of services; `named_after` says that the names
    /// are domains and not the services' own.
    fn ask_srv(
        &mut self,
        services: Vec<(Transport, Arc<str>)>,
        fallback: Option<Transport>,
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
        self.stage = Stage::Srv {
            services: services
                .into_iter()
                .map(|(transport, _)| transport)
                .collect(),
            fallback,
        };
        Step::Ask(questions)
    }

    // RFC 3263 4.1 has one transport chosen. Here those of one kind follow each other, under TLS or
    // in the clear, by preference: whoever keeps the servers under TLS from answering gets no call
    // in the clear. And where nobody knows whether there are such servers, because the question was
    // not answered, those in the clear that come after it are not taken.
    /// RFC 3263 4.2: the servers' names and ports.
    fn take_srv(
        &mut self,
        services: &[Transport],
        fallback: Option<Transport>,
        answers: Vec<Answer>,
        random: &mut dyn FnMut(u32) -> u32,
    ) -> Step {
        let mut hosts: Vec<Host> = Vec::new();
        let mut declined = false;
        // Whether the servers are those under TLS; `None` as long as either may be.
        let mut secure = None;
        for (transport, answer) in services.iter().zip(answers) {
            if secure.is_some_and(|secure| secure != transport.is_secure()) {
                continue;
            }
            let is_silent = matches!(answer, Answer::Timeout | Answer::Failed);
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
                            rank: Rank { priority, weight },
                            port,
                            target: absolute(&target),
                        });
                    }
                }
            }
            if !servers.is_empty() || (is_silent && transport.is_secure()) {
                secure = Some(transport.is_secure());
            }
            order(&mut servers, HOSTS_MAX, |server| server.rank, random);
            hosts.extend(servers.into_iter().take(HOSTS_MAX).map(|server| Host {
                transport: Some(*transport),
                name: server.target,
                port: Some(server.port),
            }));
        }
        if hosts.is_empty() {
            // A question that failed has found nothing and ruled out nothing: the address of the
            // domain may be that of its web server, and a transport in the clear not its wish.
            if let Some(trouble) = self.trouble {
                return Step::Done(Err(trouble));
            }
            if declined {
                return Step::Done(Err(LocateError::NotFound));
            }
            // RFC 3263 4.2: "If no SRV records were found, the client performs
            // an A or AAAA record lookup of the domain name."
            hosts.push(Host {
                transport: fallback,
                name: absolute(&self.query.host),
                port: None,
            });
        }
        self.ask_addrs(hosts)
    }

    fn ask_addrs(&mut self, mut hosts: Vec<Host>) -> Step {
        hosts.truncate(HOSTS_MAX);
        let mut questions = Vec::new();
        for host in &hosts {
            for family in self.families(host) {
                questions.push(Question {
                    name: absolute(&host.name),
                    kind: match family {
                        Family::V4 => Kind::A,
                        Family::V6 => Kind::Aaaa,
                    },
                });
            }
        }
        if questions.is_empty() {
            return Step::Done(Err(LocateError::Refused(Refusal::NoListener)));
        }
        self.stage = Stage::Addrs { hosts };
        Step::Ask(questions)
    }

    fn take_addrs(&mut self, hosts: &[Host], answers: Vec<Answer>) -> Step {
        let mut answers = answers.into_iter();
        let mut hops: Vec<Hop> = Vec::new();
        for host in hosts {
            let asked = self.families(host).count();
            for record in records(answers.by_ref().take(asked).collect()) {
                if let Record::Addr(ip) = record
                    && let Some(hop) = self.hop(host, ip)
                    && hops.len() < self.options.hops_max
                    && !hops.contains(&hop)
                {
                    hops.push(hop);
                }
            }
        }
        Step::Done(if hops.is_empty() {
            Err(self.trouble.unwrap_or(LocateError::NotFound))
        } else {
            Ok(hops)
        })
    }

    /// The families in which a host's addresses are of use.
    fn families(&self, host: &Host) -> impl Iterator<Item = Family> + use<> {
        let Options { reach, .. } = self.options;
        reach.families(host.transport, self.query.secure)
    }

    fn hop(&self, host: &Host, ip: IpAddr) -> Option<Hop> {
        let Options { reach, .. } = self.options;
        let transport = reach.choose(host.transport, self.query.secure, Family::of(ip))?;
        let port = host.port.unwrap_or(transport.default_port());
        Some(Hop {
            transport,
            addr: SocketAddr::new(ip, port),
            tls_name: transport.is_secure().then(|| Arc::clone(&self.query.host)),
        })
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
    rank: Rank,
    port: u16,
    target: Arc<str>,
}

#[cfg(test)]
mod tests;
