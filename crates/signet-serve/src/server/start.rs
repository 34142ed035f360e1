//! The start: everything that can fail before the first socket answers.

use std::io;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use sip_auth::Authenticator;
use sip_engine::budget::Share;
use sip_engine::shard::Seed;
use sip_engine::{Budget, Location, Settings, Shard, Shared};
use sip_limit::{Guard, Rates};
use sip_media::SharedEngines;
use sip_msg::{ListenerId, Transport};
use sip_net::{
    Aliases, BindError, DnsThread, ListenerConfig, Net, NetConfig, WebSocketListener,
    WorkerSockets, bind, clock,
};
use sip_tls::HandshakePool;
use sip_userdb::Capabilities;

use crate::config::{Config, DigestAlgorithm, Domain};
use crate::data_dir::{DATABASE, DataDir};
use crate::hook::HookDesk;
use crate::metrics::{ShownTls, Sources};
use crate::people::{Hosts, PeopleAsked};
use crate::records::Recorder;
use crate::setup::{self, PlannedListener};
use crate::store_link::Store;
use crate::threads::Threads;
use crate::token_keys::KeptKeys;
use crate::trace::Tracer;
use crate::worker::{
    self, Control, CountedPeers, Mailbox, Parts, Resolver, Severities, Sockets, Waker,
};
use crate::{Error, log, memory, random_bytes, system, userdb};

use super::awaited::Awaited;
use super::identity::{Identity, Material, domains_without_certificate};
use super::tickets::Tickets;
use super::{Server, Source, announce};

/// Neighbours that are reached by connections which they opened.
const ALIASES_MAX: usize = 4_096;

impl Server {
    pub(super) fn start(source: Source, config: Config) -> Result<Self, Error> {
        let open_files = system::raise_open_files()?;
        let data = DataDir::open(&config.data)?;
        let lock = data.lock()?;
        // One that was killed left it: who waits for this server would find that one's ports.
        announce::gone(&data);
        let mut store = store(&config, &data)?;
        for warning in config.lenient_warnings() {
            tracing::warn!("{warning}");
        }
        let domains = domains(&config, &data, &mut store)?;

        let planned = setup::listeners(&config);
        let tickets = Tickets::start(&config.tls, &data)?;
        let material = Material::read(&config, &data, &domains, &planned, &tickets)?;
        let identity = Identity::new(material)?;
        let handshakes =
            HandshakePool::start(setup::handshake_config(&config)).map_err(thread_error)?;

        // The bindings are there before the first socket is: whoever is told
        // that a user is not registered was told the truth.
        let location = Arc::new(Location::new(config.registrar.aors_max, random()?));
        let workers = setup::worker_count(&config);
        let websockets = websockets(&planned, &domains);
        let sockets = bind(&listener_configs(&planned, &identity, &websockets), workers)
            .map_err(|error| bind_error(&error, &source))?;
        let bound = bound_addresses(&planned, &sockets);
        let settings = settings(&config, &domains, &planned, &bound, &mut store)?;
        let settings = Arc::new(settings);
        let bindings = store.load_bindings(&location, &settings)?;
        for warning in domains_without_certificate(&config) {
            tracing::warn!("{warning}");
        }
        say_what_was_read(&mut store, bindings, &config, &data, &source)?;

        let (shared, token_keys) = shared(&config, &data, &location, store.capabilities())?;
        let dns = dns(&config, &planned)?;
        let tracer = Tracer::start(&config.log)?;
        let recorder = Recorder::start(&config.records, &data)?;
        let hook = HookDesk::start(&config.hook, workers)?;
        let control = Arc::new(Control::new(workers));

        let (mut net_config, budget) = bounds(&config, &planned, workers, open_files)?;
        speak_tls(&mut net_config, &config, &identity, &handshakes);
        let peer_names = Arc::new(Mutex::new(Arc::new(setup::peer_names(&config))));
        let nets = nets(&net_config, sockets, &peer_names)?;
        let mailboxes: Vec<Arc<Mailbox>> = nets
            .iter()
            .map(|net| Mailbox::new(config.bounds.handover_max, Waker(net.waker())))
            .collect();
        control.set_mailboxes(mailboxes.clone());

        let engines: Arc<SharedEngines> = Arc::default();
        let shard_key = random()?;
        let common = Common {
            config: &config,
            workers,
            settings: &settings,
            shared: &shared,
            mailboxes: &mailboxes,
            shard_key,
            store: &store,
            dns: &dns,
            hook: &hook,
            engines: &engines,
            control: &control,
            tracer: &tracer,
            recorder: &recorder,
            budget: &budget,
            severities: (0..workers).map(|_| AtomicU32::new(0)).collect(),
        };
        let threads = (nets.into_iter().enumerate())
            .map(|(index, net)| common.start_worker(index, net))
            .collect::<Result<Vec<_>, _>>()?;

        if let Some(first) = domains.first() {
            data.keep_domain(first)?;
        }
        let sources = Arc::new(Sources {
            control: control.clone(),
            handshakes,
            authenticator: shared.authenticator.clone(),
            guard: shared.guard.clone(),
            rates: shared.rates.clone(),
            gateways: shared.gateways.clone(),
            engines,
            location,
            store: store.counters(),
            lookups: store.elsewhere().cloned(),
            budget,
            started_unix_s: clock::unix_ms() / 1_000,
            listeners: listener_names(&planned, &bound),
            tls: Mutex::new(ShownTls::new(
                identity.shown(),
                tickets.reporter(&config.tls, &identity.tickets),
            )),
            client_tls: identity.client.clone(),
            threads: Threads::default(),
            records: recorder.tally(),
            hook: hook.shown().cloned(),
        });
        Ok(Self {
            source,
            config,
            settings,
            data,
            _lock: lock,
            domains,
            planned,
            bound,
            identity,
            tickets,
            token_keys,
            websockets,
            control,
            shard_key,
            peer_names,
            tracer,
            recorder,
            hook,
            dns,
            sources,
            workers: threads,
            store,
            people_asked: PeopleAsked::new(),
            awaited: Awaited::default(),
            is_reload_due: false,
            are_domains_due: false,
        })
    }
}

/// What every worker is given its part of.
struct Common<'a> {
    config: &'a Config,
    workers: usize,
    settings: &'a Arc<Settings>,
    shared: &'a Arc<Shared>,
    mailboxes: &'a [Arc<Mailbox>],
    shard_key: [u8; 16],
    store: &'a Store,
    dns: &'a DnsThread,
    hook: &'a HookDesk,
    engines: &'a Arc<SharedEngines>,
    control: &'a Arc<Control>,
    tracer: &'a Tracer,
    recorder: &'a Recorder,
    budget: &'a Arc<Budget>,
    severities: Severities,
}

impl Common<'_> {
    fn start_worker(&self, index: usize, net: Sockets) -> Result<JoinHandle<()>, Error> {
        let (settings, shared) = (self.settings, self.shared);
        let parts = Parts {
            index,
            shard: Shard::new(settings.clone(), shared.clone(), Seed(random()?)),
            limits: settings.limits,
            mailboxes: self.mailboxes.to_vec(),
            shard_key: self.shard_key,
            store: self.store.client(net.waker())?,
            resolver: Resolver(self.dns.client(net.waker())),
            hook: self.hook.client(net.waker()),
            media: media_client(settings, self.engines, index, self.workers)?,
            control: self.control.clone(),
            trace: self.tracer.for_worker(),
            records: self.recorder.for_worker(),
            memory: Share::new(self.budget.clone()),
            uses_aliases: self.config.connections.alias,
            queue_ms_max: self.config.bounds.queue_ms_max,
            severities: self.severities.clone(),
            guard: shared.guard.clone(),
        };
        spawn(net, parts, self.config.pin)
    }
}

/// The store, for the digests that are asked for.
fn store(config: &Config, data: &DataDir) -> Result<Store, Error> {
    let wanted: Vec<DigestAlgorithm> = setup::auth_config(config)
        .accepted()
        .map(DigestAlgorithm)
        .collect();
    let gather = Duration::from_micros(config.connections.gather_us);
    Store::start(data, &config.users, &wanted, gather)
}

/// What the engine goes by under a configuration: all of it, with what stands elsewhere, the
/// passwords of trunks and what is written of people.
pub(super) fn settings(
    config: &Config,
    domains: &[Domain],
    planned: &[PlannedListener],
    bound: &[std::net::SocketAddr],
    store: &mut Store,
) -> Result<Settings, Error> {
    let mut settings = setup::settings(config, domains, planned, bound);
    userdb::fit_settings(&mut settings, store.capabilities(), store.cache().is_some())?;
    if let Some(auth) = &mut settings.authenticate {
        auth.knows_all_domains = store.foreign_domains().are_known();
    }
    crate::trunks::fit_settings(&mut settings, config)?;
    let hosts = Hosts::of(config, domains);
    settings.people = Arc::new(store.people(&settings.numbers, hosts)?);
    Ok(settings)
}

/// Says how much the database has, and where nobody can register.
fn say_what_was_read(
    store: &mut Store,
    bindings: u64,
    config: &Config,
    data: &DataDir,
    source: &Source,
) -> Result<(), Error> {
    match store.elsewhere() {
        None => {
            let users = store.user_count()?;
            tracing::info!(bindings, users, "read the database");
            if users == 0 && config.authentication.required {
                warn_of_no_users(data, source);
            }
        }
        Some(_) => tracing::info!(bindings, "read the database; users are in stores elsewhere"),
    }
    Ok(())
}

/// What the workers share of the protocol, and the keys of tokens that are kept for it.
fn shared(
    config: &Config,
    data: &DataDir,
    location: &Arc<Location>,
    capabilities: Option<&Capabilities>,
) -> Result<(Arc<Shared>, KeptKeys), Error> {
    let lifetime_s = config.proxy.dialog_token_lifetime_s;
    let token_keys = KeptKeys::open(data, lifetime_s, clock::unix_ms() / 1_000)?;
    let mut auth = setup::auth_config(config);
    userdb::fit_auth(&mut auth, capabilities)?;
    let authenticator =
        Authenticator::new(auth, &*data.node_secret()?, u32::from_be_bytes(random()?));
    let shared = Shared {
        location: location.clone(),
        authenticator: Arc::new(authenticator),
        guard: Arc::new(Guard::new(random()?, setup::guard_limits(config))),
        rates: Arc::new(Rates::new(random()?)),
        token_keys: token_keys.shared(),
        gateways: Arc::default(),
    };
    Ok((Arc::new(shared), token_keys))
}

/// The thread that asks for names.
fn dns(config: &Config, planned: &[PlannedListener]) -> Result<DnsThread, Error> {
    let seed = u64::from_be_bytes(random()?);
    DnsThread::start(setup::dns_config(config, planned, seed)).map_err(thread_error)
}

/// What each worker's sockets may hold, and what messages may, by what this machine has.
fn bounds(
    config: &Config,
    planned: &[PlannedListener],
    workers: usize,
    open_files: u64,
) -> Result<(NetConfig, Arc<Budget>), Error> {
    let room = setup::connections_room(config, planned, workers, open_files);
    let mut net_config = setup::net_config(config, room);
    if let Some(asked) = config.connections.connections_max.filter(|max| *max > room) {
        tracing::warn!(
            "connections.connections_max is {asked}, and {open_files} open files leave room for {room} of each worker: raise the limit (ulimit -n, or LimitNOFILE in systemd), or write a smaller number"
        );
    }
    let (memory_bytes, memory_limit_bytes) = memory::budget_bytes(config.bounds.memory_max)?;
    let budget = Arc::new(Budget::new(memory_bytes));
    setup::bound_sockets(&mut net_config, memory_bytes, workers);
    tracing::info!(
        workers,
        open_files,
        memory_bytes,
        memory_limit_bytes,
        connections_per_worker_max = net_config.connections_max,
        "bounds"
    );
    Ok((net_config, budget))
}

/// Gives the sockets what TLS needs, and a memory of the connections that are used again.
fn speak_tls(
    net: &mut NetConfig,
    config: &Config,
    identity: &Identity,
    handshakes: &HandshakePool,
) {
    let peers = &identity.peers.tls;
    net.client_tls = Some(identity.client.clone());
    net.peers = Some(peers.clone());
    net.handshakes = Some(handshakes.clone());
    let aliases = || Arc::new(Aliases::new(ALIASES_MAX, peers.clone()));
    net.aliases = config.connections.alias.then(aliases);
}

/// The sockets of each worker.
fn nets(
    config: &NetConfig,
    sockets: Vec<WorkerSockets>,
    peer_names: &CountedPeers,
) -> Result<Vec<Sockets>, Error> {
    let mut nets = Vec::with_capacity(sockets.len());
    for (index, sockets) in sockets.into_iter().enumerate() {
        let net = Net::new(index, config.clone(), sockets).map_err(thread_error)?;
        let aliases = config.aliases.clone();
        nets.push(Sockets::new(net, aliases, peer_names.clone()));
    }
    Ok(nets)
}

/// A worker's end of the media engines.
fn media_client(
    settings: &Settings,
    engines: &Arc<SharedEngines>,
    index: usize,
    clients: usize,
) -> Result<sip_media::Client, Error> {
    let config = (settings.media.as_ref())
        .map(|media| media.client.clone())
        .unwrap_or_default();
    let place = sip_media::ClientNumber { index, clients };
    let (now_ms, key) = (clock::now_ms(), random()?);
    let engines = engines.clone();
    Ok(sip_media::Client::new(now_ms, key, place, engines, config))
}

fn spawn(net: Sockets, parts: Parts, pin: bool) -> Result<JoinHandle<()>, Error> {
    let index = parts.index;
    std::thread::Builder::new()
        .name(format!("worker-{index}"))
        .spawn(move || {
            if pin && let Err(error) = system::pin_to_core(index) {
                tracing::warn!("{error}");
            }
            if let Err(error) = worker::run(net, parts) {
                log::end_on_fault(&format!("the sockets of worker {index} failed: {error}"));
            }
        })
        .map_err(thread_error)
}

/// The domains that are served: those of the configuration or, without any,
/// the data folder's own; and those that the operator added to the database.
pub(super) fn domains(
    config: &Config,
    data: &DataDir,
    store: &mut Store,
) -> Result<Vec<Domain>, Error> {
    let first = data.default_domain(config.domains.first())?;
    let mut domains = if config.domains.is_empty() {
        vec![first]
    } else {
        config.domains.clone()
    };
    for added in store.domains()? {
        if let Ok(added) = added.parse()
            && !domains.contains(&added)
        {
            domains.push(added);
        }
    }
    Ok(domains)
}

/// What the figures call the listeners: their transports and real addresses.
fn listener_names(planned: &[PlannedListener], bound: &[std::net::SocketAddr]) -> Vec<String> {
    planned
        .iter()
        .zip(bound)
        .map(|(listener, bound)| format!("{}:{bound}", listener.at.transport.uri_name()))
        .collect()
}

/// The rules of the listeners that take WebSockets.
fn websockets(
    planned: &[PlannedListener],
    domains: &[Domain],
) -> Vec<Option<Arc<WebSocketListener>>> {
    let rules = |listener| WebSocketListener::new(setup::websocket_rules(listener, domains));
    planned
        .iter()
        .map(|listener| {
            let is_websocket = listener.at.transport.is_websocket();
            is_websocket.then(|| Arc::new(rules(listener)))
        })
        .collect()
}

fn listener_configs(
    planned: &[PlannedListener],
    identity: &Identity,
    websockets: &[Option<Arc<WebSocketListener>>],
) -> Vec<ListenerConfig> {
    planned
        .iter()
        .zip(&identity.listeners)
        .zip(websockets)
        .map(|((listener, tls), websocket)| {
            let mut config = ListenerConfig::new(listener.at.transport, listener.at.addr);
            config.tls = tls.clone();
            config.websocket = websocket.clone();
            config.accept = listener.accept;
            config
        })
        .collect()
}

/// The real addresses; port 0 became one that was free.
fn bound_addresses(
    planned: &[PlannedListener],
    sockets: &[WorkerSockets],
) -> Vec<std::net::SocketAddr> {
    planned
        .iter()
        .enumerate()
        .map(|(nth, listener)| {
            let id = ListenerId(u16::try_from(nth).unwrap_or(u16::MAX));
            sockets
                .first()
                .and_then(|sockets| sockets.local_addr(id))
                .unwrap_or(listener.at.addr)
        })
        .collect()
}

/// Nobody can register: perhaps the users are in another folder.
fn warn_of_no_users(data: &DataDir, source: &Source) {
    let usual = std::path::Path::new("signet-data");
    let is_elsewhere = usual.join(DATABASE).exists()
        && usual.canonicalize().ok() != data.path().canonicalize().ok();
    let place = match source {
        Source::File { path, .. } => format!("--config {}", path.display()),
        Source::Options(_) => format!("--data {}", data.path().display()),
    };
    let beside = match is_elsewhere {
        true => {
            "; there is another server's data in signet-data, to which commands without --config or --data add"
        }
        false => "",
    };
    tracing::warn!(
        "there are no users in {}, so nobody can register: signet user add NAME {place}{beside}",
        data.path().display()
    );
}

fn bind_error(error: &BindError, source: &Source) -> Error {
    let place = format!("{}:{}", error.transport.uri_name(), error.addr);
    let remedy = match error.error.kind() {
        io::ErrorKind::AddrInUse => {
            let kind = if error.transport == Transport::Udp {
                "u"
            } else {
                "t"
            };
            let port = error.addr.port();
            let another =
                std::net::SocketAddr::new(error.addr.ip(), port.checked_add(10).unwrap_or(5070));
            let elsewhere = format!("{}:{another}", error.transport.uri_name());
            let elsewhere = match source {
                Source::File { path, .. } => format!("on = \"{elsewhere}\" in {}", path.display()),
                Source::Options(_) => format!("--listen {elsewhere}"),
            };
            format!(
                "another program has that port. Which one: ss -l{kind}np 'sport = :{port}'; or listen elsewhere: {elsewhere}"
            )
        }
        io::ErrorKind::PermissionDenied => {
            "ports below 1024 are for root alone: take 5060, or grant CAP_NET_BIND_SERVICE"
                .to_owned()
        }
        io::ErrorKind::AddrNotAvailable => {
            "this machine has no such address; its own are listed by: ip address".to_owned()
        }
        _ => "look whether the address is right".to_owned(),
    };
    Error::new(format!("cannot listen on {place}: {}", error.error), remedy)
}

fn thread_error(error: io::Error) -> Error {
    Error::new(
        format!("cannot start a thread: {error}"),
        "look at the limits of processes and open files: ulimit -a",
    )
}

fn random<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    random_bytes(&mut bytes)?;
    Ok(bytes)
}
