//! The configuration: a tree of plain data, from a file in TOML or from the
//! command line. The format has a version, and an unknown key is an error.
//! `etc/signet.toml` shows every key.
//!
//! A configuration is read in three steps, and a server starts, or changes,
//! only when all three succeed: the text becomes a [`Config`], its parts are
//! compared with each other, and [`crate::setup`] turns the whole into what engine
//! and sockets are told, for which certificates are read.

mod care;
mod check;
mod hook;
mod lenient;
mod media;
mod memory;
mod mirror;
mod nat;
mod neighbours;
mod numbers;
mod peers;
mod policy;
mod rates;
mod records;
mod restart;
mod sections;
mod tls;
mod trunks;
mod users;
mod values;
mod warnings;
mod websocket;

use std::path::{Path, PathBuf};

use serde::Deserialize;

pub use care::FailoverAnswer;
pub use diagnose::{ConfigError, Fault};
pub(crate) use hook::hook_name;
pub use hook::{Hook, HookField, HookHeader, HookKind, HookUrl};
pub use lenient::{DigestQop, DigestUri, Lenient};
pub use media::{EngineAt, Media, MediaNetwork};
pub use memory::MemoryMax;
pub use nat::{Nat, NatNetwork};
pub use neighbours::ConnectionUse;
pub use numbers::{CountryCode, Dialled, Numbers, RewriteRule, UserGroup, When, ZoneName};
pub use peers::{PeerSecurity, ShownIdentity, TlsPeer, Trusted};
pub use policy::Chosen;
pub use rates::Rates;
pub use records::{RecordFormat, RecordTable, Records};
pub use sections::{
    Authentication, Bounds, Connections, Dns, Gateway, GatewayGroup, Limits, Listen, Log,
    LogFormat, LogLevel, Metrics, Proxy, Registrar, Route, Sources, Timers,
};
pub use sip_engine::settings::{ContactsFull, Inbound, Mode};
pub use tls::{
    CertificatePair, GroupName, ListenSecurity, SuiteName, TicketKeysFrom, Tls, VersionName,
};
pub use trunks::{
    Digits, E164, Trunk, TrunkFormat, TrunkIdentity, TrunkTrust, UserName, UsersNumber,
};
pub use users::{LookupMode, Lookups, StoreTls, StoreUrl, UserCache, UserLayout, Users};
pub use values::{
    Advertised, DigestAlgorithm, Domain, HopUri, ListenAt, Network, NumberPrefix, SpokenFor,
};
pub use websocket::{ListenWebSocket, PageOrigin, UpgradePath};

use values::{some_within, within};

/// The version of the format that this program reads.
pub const VERSION: u32 = 1;

/// What a command says to do where the file that it was given is not there.
pub(crate) const NAME_ANOTHER: &str = "name a file that is there";

/// A whole configuration.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The version of the format, which a file must give.
    pub version: Option<u32>,
    /// The folder for certificates, secrets and the database.
    pub data: PathBuf,
    /// The domains that this server is responsible for; the first is the
    /// default. When there is none, that of the data folder.
    pub domains: Vec<Domain>,
    /// How requests are treated.
    pub mode: Mode,
    /// Whether calls from elsewhere to our users are let in without proof.
    pub inbound: Inbound,
    /// The next hop of all that is not for a local user.
    pub forward: Option<HopUri>,
    /// Connections to it that calls are spread over.
    #[serde(deserialize_with = "some_within::<_, _, 1, 64>")]
    pub forward_connections: Option<u8>,
    /// Whether calls share connections to it.
    pub forward_connection: Option<ConnectionUse>,
    /// The value of the Server header; empty for none.
    pub server_header: String,
    /// Worker threads; 0 is one for each core.
    #[serde(deserialize_with = "within::<_, _, 0, 255>")]
    pub workers: usize,
    /// Whether each worker is pinned to a core of its own.
    pub pin: bool,
    /// How long transactions may take to end after SIGTERM.
    #[serde(deserialize_with = "within::<_, _, 0, 600_000>")]
    pub drain_timeout_ms: u64,
    /// Where to listen; when there is none, UDP and TCP 5060 and TLS 5061 on
    /// all addresses.
    pub listen: Vec<Listen>,
    /// Digest authentication.
    pub authentication: Authentication,
    /// Where users are kept.
    pub users: Users,
    /// Peers that are trusted by their address or their certificate.
    pub trusted: Vec<Trusted>,
    /// Groups of gateways.
    pub gateway_group: Vec<GatewayGroup>,
    /// Groups that have a provider behind them.
    pub trunk: Vec<Trunk>,
    /// Which numbers and domains go to which group.
    pub route: Vec<Route>,
    /// How telephone numbers are read, and who may call which.
    pub numbers: Numbers,
    /// How they are rewritten.
    pub rewrite: Vec<RewriteRule>,
    /// Groups of users.
    pub user_group: Vec<UserGroup>,
    /// The registrar.
    pub registrar: Registrar,
    /// Where phones behind NAT are reached.
    pub nat: Nat,
    /// Media engines.
    pub media: Media,
    /// The proxy.
    pub proxy: Proxy,
    /// Transaction timers.
    pub timers: Timers,
    /// TLS, as far as it is not a listener's own.
    pub tls: Tls,
    /// Bounds on a message.
    pub limits: Limits,
    /// Bounds on what is under way.
    pub bounds: Bounds,
    /// What strangers of one source are put up with.
    pub sources: Sources,
    /// How much those may begin who are let in.
    pub rates: Rates,
    /// Bounds and deadlines of sockets.
    pub connections: Connections,
    /// The resolver.
    pub dns: Dns,
    /// Figures and health, over HTTP.
    pub metrics: Metrics,
    /// Logs.
    pub log: Log,
    /// Call records.
    pub records: Records,
    /// The operator's hook.
    pub hook: Hook,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            version: None,
            data: PathBuf::from("signet-data"),
            domains: Vec::new(),
            mode: Mode::Stateful,
            inbound: Inbound::Trusted,
            forward: None,
            forward_connections: None,
            forward_connection: None,
            server_header: "Signet".to_owned(),
            workers: 0,
            pin: false,
            drain_timeout_ms: 10_000,
            listen: Vec::new(),
            authentication: Authentication::default(),
            users: Users::default(),
            trusted: Vec::new(),
            gateway_group: Vec::new(),
            trunk: Vec::new(),
            route: Vec::new(),
            numbers: Numbers::default(),
            rewrite: Vec::new(),
            user_group: Vec::new(),
            registrar: Registrar::default(),
            nat: Nat::default(),
            media: Media::default(),
            proxy: Proxy::default(),
            timers: Timers::default(),
            tls: Tls::default(),
            limits: Limits::default(),
            bounds: Bounds::default(),
            sources: Sources::default(),
            rates: Rates::default(),
            connections: Connections::default(),
            dns: Dns::default(),
            metrics: Metrics::default(),
            log: Log::default(),
            records: Records::default(),
            hook: Hook::default(),
        }
    }
}

/// A file that was read; those that it names were not looked at.
pub(crate) struct Written<'p> {
    path: &'p Path,
    text: String,
    config: Config,
}

impl<'p> Written<'p> {
    /// Reads it. Relative paths in it are taken from its folder. `if_missing` is what to do where
    /// there is none.
    pub(crate) fn read(path: &'p Path, if_missing: &str) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| ConfigError::unreadable(path, &error, if_missing))?;
        let mut config = Config::parsed(path, &text)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        for given in config.paths_mut() {
            if given.is_relative() {
                *given = folder.join(&given);
            }
        }
        Ok(Self { path, text, config })
    }

    /// The data folder that it names.
    pub(crate) fn data(&self) -> &Path {
        &self.config.data
    }

    /// Checks it, works out its policies by the prices that it names, and tells of what `more`
    /// finds beside its faults.
    pub(crate) fn checked(
        self,
        more: impl FnOnce(&Config) -> Vec<Fault>,
    ) -> Result<Config, ConfigError> {
        let Self {
            path,
            text,
            mut config,
        } = self;
        let mut faults = config.faults(true);
        if faults.is_empty() {
            faults = config.settle();
        }
        faults.extend(more(&config));
        config.without(path, &text, faults)
    }
}

impl Config {
    /// Reads and checks a file, and works out its policies by the prices that it
    /// names. Relative paths in it are taken from its folder.
    pub fn from_file(path: &Path) -> Result<Self, ConfigError> {
        Self::from_file_or(path, NAME_ANOTHER)
    }

    /// The same, with what to do where there is none.
    pub(crate) fn from_file_or(path: &Path, if_missing: &str) -> Result<Self, ConfigError> {
        Written::read(path, if_missing)?.checked(|_| Vec::new())
    }

    /// Reads and checks a text; `path` is only for the errors.
    pub fn from_text(path: &Path, text: &str) -> Result<Self, ConfigError> {
        let config = Self::parsed(path, text)?;
        let faults = config.faults(true);
        config.without(path, text, faults)
    }

    fn parsed(path: &Path, text: &str) -> Result<Self, ConfigError> {
        fn read(text: &str) -> Result<Config, toml::de::Error> {
            toml::from_str(text)
        }
        match diagnose::read_all(text, "etc/signet.toml", read) {
            (Some(config), problems) if problems.is_empty() => Ok(config),
            (_, problems) => Err(ConfigError::of(path, problems)),
        }
    }

    fn without(self, path: &Path, text: &str, faults: Vec<Fault>) -> Result<Self, ConfigError> {
        match faults.is_empty() {
            true => Ok(self),
            false => Err(ConfigError::faulty(path, text, faults)),
        }
    }

    /// Checks a configuration that came from the command line.
    pub fn check_options(&self) -> Result<(), ConfigError> {
        let faults = self.faults(false);
        if faults.is_empty() {
            Ok(())
        } else {
            Err(ConfigError::faulty(Path::new("options"), "", faults))
        }
    }

    fn paths_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let listen = self.listen.iter_mut();
        std::iter::once(&mut self.data)
            .chain(listen.flat_map(|listen| listen.security.paths_mut()))
            .chain(self.users.paths_mut())
            .chain(self.tls.paths_mut())
            .chain(self.trunk.iter_mut().flat_map(|of| &mut of.password_file))
            .chain(self.log.trace_pcap.as_mut())
            .chain(self.records.paths_mut())
            .chain(self.hook.paths_mut())
    }
}

#[cfg(test)]
mod tests;
