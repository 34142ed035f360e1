//! The resolver: RFC 3263 over a real DNS client, on a thread of its own.

mod names;
mod system;
mod zones;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use hickory_resolver::net::{DnsError as HickoryDnsError, NetError};
use hickory_resolver::proto::op::{Query as DnsQuery, ResponseCode};
use hickory_resolver::proto::rr::{Name, RData, RecordType};
use hickory_resolver::{Hosts, Resolver};
use sip_locate::{
    Answer, Hop, Kind, LocateError, Options, Query, Question, Record, Resolution, Step,
};
use tokio::sync::mpsc as tokio_mpsc;
use tokio::task::JoinSet;

use crate::Waker;

pub use system::SystemFiles;

use names::Names;
use zones::ByZone;

/// Bounds and servers of the resolver.
#[derive(Clone, Debug)]
pub struct DnsConfig {
    /// The name servers; empty for those of `/etc/resolv.conf`.
    pub servers: Vec<SocketAddr>,
    /// Where that is, and `/etc/hosts`.
    pub system: SystemFiles,
    /// What may be chosen: transports, address families, and how many places.
    pub options: Options,
    /// How long one question may take before it is repeated.
    pub timeout_ms: u64,
    /// How often a question is asked.
    pub attempts: usize,
    /// How long a whole resolution may take.
    pub deadline_ms: u64,
    /// Resolutions under way; past it new ones are refused.
    pub queries_max: usize,
    /// Seed of the choice among SRV records of one priority.
    pub seed: u64,
}

impl Default for DnsConfig {
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            system: SystemFiles::default(),
            options: Options::default(),
            timeout_ms: 1_000,
            attempts: 2,
            deadline_ms: 4_000,
            queries_max: 1_024,
            seed: 0,
        }
    }
}

/// Why a query was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DnsError {
    /// Too many resolutions are under way.
    Busy,
    /// The thread has ended.
    Ended,
}

impl std::fmt::Display for DnsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Busy => "too many names are being resolved: ask again later",
            Self::Ended => "the thread that resolves has ended: restart the server",
        })
    }
}

impl std::error::Error for DnsError {}

/// The thread that resolves. It ends when it and its clients are dropped.
#[derive(Clone, Debug)]
pub struct DnsThread {
    orders: tokio_mpsc::UnboundedSender<Order>,
    under_way: Arc<AtomicUsize>,
    queries_max: usize,
}

impl DnsThread {
    /// Starts the thread.
    pub fn start(config: DnsConfig) -> io::Result<Self> {
        let (orders, inbox) = tokio_mpsc::unbounded_channel();
        let under_way = Arc::new(AtomicUsize::new(0));
        let queries_max = config.queries_max;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()?;
        // Made before the thread starts, so that a bad configuration says so.
        let names = runtime.block_on(async { Names::new(config) })?;
        thread::Builder::new()
            .name("dns".to_owned())
            .spawn(move || runtime.block_on(serve(inbox, Arc::new(names))))?;
        Ok(Self {
            orders,
            under_way,
            queries_max,
        })
    }

    /// Has the files of the system read again, where they have changed. The thread does so anyway
    /// while names cannot be resolved.
    pub fn read_again(&self) {
        // One that has ended needs no files.
        let _ = self.orders.send(Order::ReadAgain);
    }

    /// A client for one worker, which is woken when an answer is there.
    pub fn client(&self, waker: Waker) -> DnsClient {
        let (reply, answers) = mpsc::channel();
        DnsClient {
            thread: self.clone(),
            waker,
            reply,
            answers,
        }
    }
}

/// One worker's end of the resolver.
#[derive(Debug)]
pub struct DnsClient {
    thread: DnsThread,
    waker: Waker,
    reply: mpsc::Sender<(u64, Result<Vec<Hop>, LocateError>)>,
    answers: mpsc::Receiver<(u64, Result<Vec<Hop>, LocateError>)>,
}

impl DnsClient {
    /// Asks for a name; the answer comes from [`DnsClient::next_answer`] with the
    /// same `id`. A quarter of [`DnsConfig::queries_max`] is for names that the
    /// operator wrote down.
    pub fn ask(&self, id: u64, query: Query) -> Result<(), DnsError> {
        let queries_max = self.thread.queries_max;
        let max = match query.is_configured {
            true => queries_max,
            false => queries_max - queries_max / 4,
        };
        let Some(ticket) = Ticket::take(&self.thread.under_way, max) else {
            return Err(DnsError::Busy);
        };
        let (reply, waker) = (self.reply.clone(), self.waker.clone());
        let request = Request {
            id,
            query,
            reply,
            waker,
            _ticket: ticket,
        };
        self.thread
            .orders
            .send(Order::Resolve(request))
            .map_err(|_| DnsError::Ended)
    }

    /// An answer that has come, in order of preference for failover; never waits.
    pub fn next_answer(&self) -> Option<(u64, Result<Vec<Hop>, LocateError>)> {
        self.answers.try_recv().ok()
    }
}

/// One of the resolutions that may be under way.
#[derive(Debug)]
struct Ticket(Arc<AtomicUsize>);

impl Ticket {
    fn take(under_way: &Arc<AtomicUsize>, max: usize) -> Option<Self> {
        if under_way.fetch_add(1, Ordering::Relaxed) >= max {
            under_way.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        Some(Self(Arc::clone(under_way)))
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Debug)]
enum Order {
    Resolve(Request),
    ReadAgain,
}

#[derive(Debug)]
struct Request {
    id: u64,
    query: Query,
    reply: mpsc::Sender<(u64, Result<Vec<Hop>, LocateError>)>,
    waker: Waker,
    _ticket: Ticket,
}

/// Takes orders until nobody can give any.
async fn serve(mut inbox: tokio_mpsc::UnboundedReceiver<Order>, names: Arc<Names>) {
    while let Some(order) = inbox.recv().await {
        let request = match order {
            Order::Resolve(request) => request,
            Order::ReadAgain => {
                names.read_again();
                continue;
            }
        };
        let names = Arc::clone(&names);
        tokio::spawn(async move {
            let result = names.resolve(request.query).await;
            // The ticket comes back first, so that who has the answer may ask.
            drop(request._ticket);
            let _ = request.reply.send((request.id, result));
            request.waker.wake();
        });
    }
}

async fn resolve(mut resolution: Resolution, asker: Arc<Asker>) -> Result<Vec<Hop>, LocateError> {
    let mut answers = Vec::new();
    loop {
        let step = resolution.step(std::mem::take(&mut answers), &mut |max| asker.lot(max));
        match step {
            Step::Done(result) => return result,
            Step::Ask(questions) => answers = ask_all(&asker, questions).await,
        }
    }
}

/// Asks all at once; the answers are in the order of the questions.
async fn ask_all(asker: &Arc<Asker>, questions: Vec<Question>) -> Vec<Answer> {
    let mut answers = vec![Answer::Failed; questions.len()];
    let mut tasks = JoinSet::new();
    for (place, question) in questions.into_iter().enumerate() {
        let asker = Arc::clone(asker);
        tasks.spawn(async move { (place, asker.ask(&question).await) });
    }
    while let Some(done) = tasks.join_next().await {
        if let Ok((place, answer)) = done
            && let Some(entry) = answers.get_mut(place)
        {
            *entry = answer;
        }
    }
    answers
}

/// Asks one question at a time.
struct Asker {
    resolver: Resolver<ByZone>,
    servers: Vec<SocketAddr>,
    hosts: Hosts,
    lots: Arc<AtomicU64>,
}

impl Asker {
    async fn ask(&self, question: &Question) -> Answer {
        let Ok(mut name) = Name::from_str(&question.name) else {
            return Answer::Nothing;
        };
        // Absolute: the host's search list has no say.
        name.set_fqdn(true);
        let kind = match question.kind {
            Kind::Naptr => RecordType::NAPTR,
            Kind::Srv => RecordType::SRV,
            Kind::A => RecordType::A,
            Kind::Aaaa => RecordType::AAAA,
        };
        let known = self
            .hosts
            .lookup_static_host(&DnsQuery::query(name.clone(), kind));
        let result = match known {
            Some(lookup) => Ok(lookup),
            None => self.resolver.lookup(name, kind).await,
        };
        match result {
            Ok(lookup) => Answer::Records(
                lookup
                    .answers()
                    .iter()
                    .filter_map(|record| translate(&record.data))
                    .collect(),
            ),
            Err(NetError::Timeout) => Answer::Timeout,
            Err(NetError::Dns(HickoryDnsError::NoRecordsFound(none))) => match none.response_code {
                ResponseCode::NoError | ResponseCode::NXDomain => Answer::Nothing,
                _ => Answer::Failed,
            },
            Err(_) => Answer::Failed,
        }
    }

    /// A number from 0 to `max`, by SplitMix64: the spread of load needs no
    /// more, and a test can repeat it.
    fn lot(&self, max: u32) -> u32 {
        const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
        let mut lot = self
            .lots
            .fetch_add(STEP, Ordering::Relaxed)
            .wrapping_add(STEP);
        lot = (lot ^ (lot >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        lot = (lot ^ (lot >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        lot ^= lot >> 31;
        u32::try_from(lot % (u64::from(max) + 1)).unwrap_or(max)
    }
}

fn translate(data: &RData) -> Option<Record> {
    match data {
        RData::A(ip) => Some(Record::Addr(IpAddr::V4(ip.0))),
        RData::AAAA(ip) => Some(Record::Addr(IpAddr::V6(ip.0))),
        RData::SRV(srv) => Some(Record::Srv {
            priority: srv.priority,
            weight: srv.weight,
            port: srv.port,
            target: srv.target.to_ascii(),
        }),
        RData::NAPTR(naptr) => Some(Record::Naptr {
            order: naptr.order,
            preference: naptr.preference,
            flags: String::from_utf8_lossy(&naptr.flags).into_owned(),
            services: String::from_utf8_lossy(&naptr.services).into_owned(),
            replacement: naptr.replacement.to_ascii(),
        }),
        _ => None,
    }
}
