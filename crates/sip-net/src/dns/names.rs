//! By whom names are resolved, and when the files that say so are read again.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hickory_resolver::Resolver;
use hickory_resolver::config::{
    ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts,
    ServerOrderingStrategy,
};
use sip_locate::{Hop, LocateError, Query, Resolution};
use tokio::time::Instant;

use super::system::{self, Print};
use super::zones::ByZone;
use super::{Asker, DnsConfig};

/// How often the files of the system are looked at while names cannot be resolved.
const LOOKED_AT: Duration = Duration::from_secs(3);

/// By whom names are resolved. Name servers come and go with leases and links: the files that name
/// them are read again, by the thread that resolves and nobody else.
pub(super) struct Names {
    config: DnsConfig,
    held: Mutex<Held>,
}

struct Held {
    asker: Arc<Asker>,
    /// Of the files that the asker was made of; of none where they are to be read again.
    prints: Option<Prints>,
    looked: Instant,
    /// Whether the last resolution failed.
    is_failing: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Prints {
    /// None where the configuration names the servers.
    resolv_conf: Option<Print>,
    hosts: Print,
}

impl Names {
    pub(super) fn new(config: DnsConfig) -> io::Result<Self> {
        let prints = Prints::of(&config);
        let (servers, is_whole) = servers(&config);
        tracing::info!(servers = %list(&servers), "names are asked of these name servers");
        let asker = Asker {
            resolver: resolver(&config, &servers)?,
            servers,
            hosts: system::hosts(&config.system.hosts),
            lots: Arc::new(AtomicU64::new(config.seed)),
        };
        let held = Mutex::new(Held {
            asker: Arc::new(asker),
            prints: is_whole.then_some(prints),
            looked: Instant::now(),
            is_failing: false,
        });
        Ok(Self { config, held })
    }

    pub(super) async fn resolve(&self, query: Query) -> Result<Vec<Hop>, LocateError> {
        let until = Instant::now() + Duration::from_millis(self.config.deadline_ms);
        let mut asker = self.asker();
        loop {
            let resolution = Resolution::new(query.clone(), self.config.options);
            let result = super::resolve(resolution, Arc::clone(&asker));
            let result = tokio::time::timeout_at(until, result).await;
            let result = result.unwrap_or(Err(LocateError::Timeout));
            // By others than have failed, if there are any by now.
            match self.next_asker(&result, &asker) {
                Some(other) if Instant::now() < until => asker = other,
                _ => return result,
            }
        }
    }

    fn asker(&self) -> Arc<Asker> {
        let mut held = self.held();
        if held.is_failing {
            self.look(&mut held);
        }
        Arc::clone(&held.asker)
    }

    /// Whom to ask after this result: nobody after a good one.
    fn next_asker(
        &self,
        result: &Result<Vec<Hop>, LocateError>,
        asked: &Arc<Asker>,
    ) -> Option<Arc<Asker>> {
        let mut held = self.held();
        held.is_failing = result.is_err();
        if result.is_ok() {
            return None;
        }
        self.look(&mut held);
        (!Arc::ptr_eq(&held.asker, asked)).then(|| Arc::clone(&held.asker))
    }

    /// Reads the files where they have changed, and were not looked at just before.
    fn look(&self, held: &mut Held) {
        if held.looked.elapsed() >= LOOKED_AT {
            self.read(held);
        }
    }

    pub(super) fn read_again(&self) {
        self.read(&mut self.held());
    }

    fn read(&self, held: &mut Held) {
        held.looked = Instant::now();
        let prints = Prints::of(&self.config);
        if held.prints == Some(prints) {
            return;
        }
        let (servers, is_whole) = servers(&self.config);
        // What is remembered of names stays where the same servers are asked.
        let resolver = match servers == held.asker.servers {
            true => Ok(held.asker.resolver.clone()),
            false => resolver(&self.config, &servers),
        };
        let resolver = match resolver {
            Ok(resolver) => resolver,
            Err(error) => {
                tracing::error!("the name servers stay as they were: {error}");
                return;
            }
        };
        if servers != held.asker.servers {
            tracing::info!(
                servers = %list(&servers),
                "the name servers have changed, and names are asked of these"
            );
        }
        held.asker = Arc::new(Asker {
            resolver,
            servers,
            hosts: system::hosts(&self.config.system.hosts),
            lots: Arc::clone(&held.asker.lots),
        });
        held.prints = is_whole.then_some(prints);
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        // Each change is whole by itself.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Prints {
    fn of(config: &DnsConfig) -> Self {
        let uses_system = config.servers.is_empty();
        Self {
            resolv_conf: uses_system.then(|| Print::of(&config.system.resolv_conf)),
            hosts: Print::of(&config.system.hosts),
        }
    }
}

/// The name servers, and whether all that are named can be asked.
fn servers(config: &DnsConfig) -> (Vec<SocketAddr>, bool) {
    match config.servers.is_empty() {
        true => {
            let servers = system::servers(&config.system);
            (servers.found, !servers.is_any_out_of_reach)
        }
        false => (config.servers.clone(), true),
    }
}

fn list(servers: &[SocketAddr]) -> String {
    let servers: Vec<String> = servers.iter().map(ToString::to_string).collect();
    servers.join(", ")
}

/// What asks these servers.
fn resolver(config: &DnsConfig, servers: &[SocketAddr]) -> io::Result<Resolver<ByZone>> {
    let by_zone = ByZone::new(servers);
    let servers = servers.iter().map(|server| {
        let connections =
            [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(|mut connection| {
                connection.port = server.port();
                connection
            });
        NameServerConfig::new(server.ip(), true, connections.into())
    });
    let resolver_config = ResolverConfig::from_parts(None, Vec::new(), servers.collect());
    let mut options = ResolverOpts::default();
    options.timeout = Duration::from_millis(config.timeout_ms);
    options.attempts = config.attempts.max(1);
    options.server_ordering_strategy = ServerOrderingStrategy::UserProvidedOrder;
    options.use_hosts_file = ResolveHosts::Never;
    options.negative_max_ttl = Some(Duration::from_secs(30));
    Resolver::builder_with_config(resolver_config, by_zone)
        .with_options(options)
        .build()
        .map_err(io::Error::other)
}
