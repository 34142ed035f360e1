//! `signet load`: the command line, turned into settings.

use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use measure::{Schedule, SearchConfig, Threshold};
use signet_load::app::{self, Output, PeakSettings};
use signet_load::{
    Answering, Called, Close, Flow, KeyKind, Lifetime, Local, Mix, Pattern, Server, Settings, Span,
    TlsSettings, Users,
};
use sip_msg::Transport;
use sip_net::{ClientResumption, TlsVersion};

/// What to load.
#[derive(Debug, Subcommand)]
pub(crate) enum LoadCommand {
    /// Make calls, INVITE to BYE, or a mix of flows
    Call(Box<CallOptions>),
    /// Register agents, renew or remove their registrations
    Register(Box<RegisterOptions>),
    /// Be the called side: ring, answer, until interrupted
    Answer(Box<AnswerOptions>),
    /// Search the largest rate that is held
    Peak(Box<PeakOptions>),
    /// Run a scenario of SIPp's, with SIPp's options: -sf FILE, -sn uac, ...
    #[command(disable_help_flag = true)]
    Sipp {
        /// As SIPp takes them; -h lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Compare two results and tell noise from change
    Compare {
        /// The earlier one
        a: PathBuf,
        /// The later one
        b: PathBuf,
    },
}

/// Where the load goes and how it gets there.
#[derive(Debug, Args)]
struct Path {
    /// The server: sip:[USER@]HOST:PORT; the host is the domain too, unless --domain says otherwise
    #[arg(long, value_name = "URI", required_unless_present = "straight")]
    to: Option<String>,
    /// No server: straight to a called side in this process
    #[arg(long = "self", conflicts_with = "to")]
    straight: bool,
    /// udp, tcp or tls
    #[arg(long, value_name = "T", value_parser = signet_load::transport)]
    transport: Option<Transport>,
    /// Whom to call; the user of --to if left out
    #[arg(long, value_name = "URI", conflicts_with = "pairs")]
    called: Option<String>,
    /// Let agents call each other through the server: ring or random
    #[arg(long, value_name = "HOW")]
    pairs: Option<Pairs>,
    /// The called side in this process: udp:ADDR:PORT, several times if you like
    #[arg(long, value_name = "TRANSPORT:ADDR:PORT", value_parser = signet_load::listen_at, num_args = 0..=1, default_missing_value = "udp:127.0.0.1:0", conflicts_with = "straight")]
    answer_here: Vec<(Transport, SocketAddr)>,
    /// Send ACK and BYE where routes and contacts lead, not always to the server
    #[arg(long)]
    follow_routes: bool,
    /// Where the load comes from: an address or a range [default: towards this machine 127.0.0.1,
    /// with many connections 127.1.0.0/16; else the address that leads to the server]
    #[arg(long, value_name = "ADDR")]
    local: Option<Local>,
    /// UDP ports: shared by all agents of a thread, or own ones
    #[arg(long, value_name = "HOW", default_value = "shared")]
    ports: Ports,
    /// TCP and TLS: one connection, per-call, per-N-calls, or per-agent
    #[arg(long, value_name = "LIFETIME", default_value = "one", value_parser = lifetime)]
    connection: Lifetime,
    /// Break connections off with a reset instead of closing them
    #[arg(long)]
    abrupt: bool,
    /// Threads that call; one is enough for 20,000 calls a second
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=64))]
    threads: u8,
    /// Further threads for what is dear in TLS handshakes; without any the
    /// threads that call do it themselves
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=64))]
    handshake_threads: u8,
    #[command(flatten)]
    tls: TlsOptions,
    #[command(flatten)]
    timing: Timing,
}

/// TLS.
#[derive(Debug, Args)]
struct TlsOptions {
    /// PEM file with the authority that the server's certificate is from
    #[arg(long, value_name = "FILE")]
    ca: Vec<PathBuf>,
    /// Believe any certificate: for servers whose authority is not at hand
    #[arg(long, conflicts_with = "ca")]
    trust_anyone: bool,
    /// Certificate chain: the client's, or the called side's
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// Its private key
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// A certificate for each agent: 'agents/{n}.pem'
    #[arg(long, value_name = "PATTERN", requires = "agent_key", value_parser = Pattern::parse)]
    agent_cert: Option<Pattern>,
    /// Their private keys: 'agents/{n}.key'
    #[arg(long, value_name = "PATTERN", requires = "agent_cert", value_parser = Pattern::parse)]
    agent_key: Option<Pattern>,
    /// The key of the certificate that --self makes: p256, rsa2048, rsa3072, ed25519
    #[arg(long, value_name = "KIND", default_value = "p256")]
    key_type: KeyKind,
    /// Versions: 1.2, 1.3, or both
    #[arg(long, value_name = "VERSION", value_delimiter = ',', value_parser = tls_version)]
    tls: Vec<TlsVersion>,
    /// Cipher suites by their registered names, the best first
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    suite: Vec<String>,
    /// Key-exchange groups, the best first: X25519, P-256, P-384, X25519MLKEM768
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    group: Vec<String>,
    /// Connections that resume an earlier session: none, all, or a share, 0.5
    #[arg(long, value_name = "SHARE", default_value = "none", value_parser = resume_share)]
    resume: f64,
    /// How they resume: any, tickets, ids
    #[arg(long, value_name = "HOW", default_value = "any", value_parser = resume_by)]
    resume_by: ClientResumption,
}

/// Timers and bounds.
#[derive(Debug, Args)]
struct Timing {
    /// T1 of RFC 3261; a request without an answer fails after 64 times T1
    #[arg(long, value_name = "MS", default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    t1_ms: u64,
    /// How long a call may ring before it is cancelled
    #[arg(long, value_name = "TIME", default_value = "180s", value_parser = time)]
    answer_timeout: Duration,
    /// How long a connection may take to be opened
    #[arg(long, value_name = "TIME", default_value = "4s", value_parser = time)]
    connect_timeout: Duration,
    /// How long a TLS handshake may take
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time)]
    handshake_timeout: Duration,
    /// How long calls may take to end after the last one began
    #[arg(long, value_name = "TIME", value_parser = time)]
    drain_timeout: Option<Duration>,
    /// The kernel's buffers of a UDP socket
    #[arg(long, value_name = "BYTES", default_value_t = 8 * 1024 * 1024)]
    udp_buffer: usize,
}

/// Who the agents are.
#[derive(Debug, Args)]
struct Who {
    /// How many agents
    #[arg(long, value_name = "N")]
    agents: Option<usize>,
    /// Their names; {n} is the number from 1, {n:06} with six digits
    #[arg(long, value_name = "PATTERN", conflicts_with = "users")]
    user: Option<String>,
    /// Their passwords
    #[arg(long, value_name = "PATTERN", requires = "user")]
    password: Option<String>,
    /// A CSV file in their place; its first line is user,password
    #[arg(long, value_name = "FILE")]
    users: Option<PathBuf>,
    /// The domain of their addresses
    #[arg(long, value_name = "NAME")]
    domain: Option<String>,
    /// The realm whose challenges they answer; the domain if left out
    #[arg(long, value_name = "NAME")]
    realm: Option<String>,
    /// Register all agents before the run, and keep them registered
    #[arg(long)]
    register_first: bool,
    /// Agents brought up a second before the run
    #[arg(long, value_name = "N", default_value_t = 2_000.0)]
    setup_rate: f64,
    /// What a REGISTER asks for
    #[arg(long, value_name = "SECONDS", default_value_t = 3_600)]
    expires: u32,
    /// Try every request without credentials first, instead of using a nonce again
    #[arg(long)]
    first_unauthenticated: bool,
}

/// When calls come.
#[derive(Debug, Args)]
struct When {
    /// Arrivals a second, or phases: 'ramp 100..2000/s over 60s', 'steps 100,200/s each 10s'
    #[arg(long, value_name = "RATE", default_value = "10")]
    rate: String,
    /// How long
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time)]
    duration: Duration,
    /// End after so many
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// Let them come as those of many users do, not evenly
    #[arg(long)]
    poisson: bool,
    /// Repeat every choice that is drawn
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// What becomes of the result.
#[derive(Debug, Args)]
struct Result {
    /// Write the result as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the run second by second as CSV
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Print the result only
    #[arg(long, short)]
    quiet: bool,
    /// Exit with 1 when this is true: 'srd_p99 > 200ms', 'failed > 1%'; several times if you like
    #[arg(long, value_name = "CONDITION", value_parser = threshold)]
    fail_if: Vec<Threshold>,
    /// How many arrivals may fail: 0, 4%
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = share)]
    failures_max: f64,
    /// Watch a process and its children: CPU time and memory; several times if you like
    #[arg(long, value_name = "PID")]
    watch_pid: Vec<u32>,
    /// Do not first drive the same load straight to a called side here
    #[arg(long)]
    no_check_self: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CallOptions {
    #[command(flatten)]
    path: Path,
    #[command(flatten)]
    who: Who,
    #[command(flatten)]
    when: When,
    /// How long calls are held: 0, 2s, uniform:1s..5s, exp:3s
    #[arg(long, value_name = "TIME", default_value = "0")]
    hold: Span,
    /// How long the called side here rings
    #[arg(long, value_name = "TIME", default_value = "0")]
    ring: Span,
    /// Flows and their weights: call=8,register=1,options=1
    #[arg(long, value_name = "MIX", default_value = "call")]
    mix: Mix,
    #[command(flatten)]
    result: Result,
}

#[derive(Debug, Args)]
pub(crate) struct RegisterOptions {
    #[command(flatten)]
    path: Path,
    #[command(flatten)]
    who: Who,
    #[command(flatten)]
    when: When,
    /// Renew registrations: all agents are registered before the run
    #[arg(long, conflicts_with = "remove")]
    again: bool,
    /// Remove registrations: all agents are registered before the run
    #[arg(long)]
    remove: bool,
    /// So long after the beginning all agents break off their connections at once and open
    /// them anew; the counters storm_* of the result tell how they came back
    #[arg(long, value_name = "TIME", value_parser = time)]
    storm_at: Option<Duration>,
    #[command(flatten)]
    result: Result,
}

#[derive(Debug, Args)]
pub(crate) struct AnswerOptions {
    /// Where: udp:ADDR:PORT, tcp:ADDR:PORT, tls:ADDR:PORT, several times if you like
    #[arg(long, value_name = "TRANSPORT:ADDR:PORT", value_parser = signet_load::listen_at, required = true)]
    listen: Vec<(Transport, SocketAddr)>,
    /// How long it rings: 0, 2s, uniform:1s..5s, exp:3s
    #[arg(long, value_name = "TIME", default_value = "0")]
    ring: Span,
    /// Refuse with this status instead
    #[arg(long, value_name = "STATUS", value_parser = clap::value_parser!(u16).range(300..=699))]
    reject: Option<u16>,
    /// Take REGISTER too, and keep nothing
    #[arg(long)]
    registrar: bool,
    /// Certificate chain, for TLS
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// Its private key
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Threads
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=64))]
    threads: u8,
    /// End after so long; when interrupted if left out
    #[arg(long, value_name = "TIME", value_parser = time)]
    duration: Option<Duration>,
    /// Write the result as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Print the result only
    #[arg(long, short)]
    quiet: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PeakOptions {
    #[command(flatten)]
    path: Path,
    #[command(flatten)]
    who: Who,
    /// How long calls are held
    #[arg(long, value_name = "TIME", default_value = "0")]
    hold: Span,
    /// How long the called side here rings
    #[arg(long, value_name = "TIME", default_value = "0")]
    ring: Span,
    /// Flows and their weights
    #[arg(long, value_name = "MIX", default_value = "call")]
    mix: Mix,
    /// Where to begin
    #[arg(long, value_name = "RATE", default_value_t = 100.0)]
    start: f64,
    /// The lowest rate to try; a sixteenth of --start if left out
    #[arg(long, value_name = "RATE")]
    rate_min: Option<f64>,
    /// The highest rate to try
    #[arg(long, value_name = "RATE", default_value_t = 200_000.0)]
    rate_max: f64,
    /// How many arrivals may fail: 0, 1%, 4%
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = share)]
    failures_max: f64,
    /// The longest set-up delay
    #[arg(long, value_name = "TIME", value_parser = time)]
    delay_max: Option<Duration>,
    /// Which percentile of the delay is held against it
    #[arg(long, value_name = "PERCENT", default_value_t = 99.0)]
    delay_percent: f64,
    /// How long each try lasts
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time)]
    try_time: Duration,
    /// How long to rest after a try that was not held
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = time)]
    rest: Duration,
    /// How often the whole search is done
    #[arg(long, value_name = "N", default_value_t = 3)]
    repeats: u32,
    /// Most tries of all repeats together
    #[arg(long, value_name = "N", default_value_t = 200)]
    tries_max: u32,
    /// How close the search comes, as a share of the rate
    #[arg(long, value_name = "SHARE", default_value = "2%", value_parser = share)]
    precision: f64,
    /// RFC 7502's algorithm after it, with so many attempts a try
    #[arg(long, value_name = "ATTEMPTS", num_args = 0..=1, default_missing_value = "50000")]
    rfc7502: Option<u64>,
    /// Write the result as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Print the result only
    #[arg(long, short)]
    quiet: bool,
    /// Do not first look for the generator's own peak
    #[arg(long)]
    no_check_self: bool,
}

/// Who calls whom.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Pairs {
    Ring,
    Random,
}

/// Whose UDP ports they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Ports {
    Shared,
    Own,
}

/// Runs it; gives the exit code.
pub(crate) fn run(command: LoadCommand) -> u8 {
    let outcome = match command {
        LoadCommand::Call(options) => options.run(),
        LoadCommand::Register(options) => options.run(),
        LoadCommand::Answer(options) => options.run(),
        LoadCommand::Peak(options) => options.run(),
        LoadCommand::Sipp { arguments } => Ok(signet_sipp::run(arguments)),
        LoadCommand::Compare { a, b } => Ok(app::compare(&a, &b)),
    };
    outcome.unwrap_or_else(|error| {
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), "signet load: {error}");
        app::EXIT_USAGE
    })
}

impl CallOptions {
    fn run(self) -> std::result::Result<u8, String> {
        let mut settings = settings(self.mix, self.path, self.who)?;
        settings.schedule = Some(self.when.schedule()?);
        settings.seed = self.when.seed;
        settings.hold = self.hold;
        settings.answering.ring = self.ring;
        Ok(app::drive(settings, &self.result.output()))
    }
}

impl RegisterOptions {
    fn run(self) -> std::result::Result<u8, String> {
        let flow = match (self.again, self.remove) {
            (true, _) => Flow::Reregister,
            (_, true) => Flow::Deregister,
            _ => Flow::Register,
        };
        let mut settings = settings(Mix::only(flow), self.path, self.who)?;
        settings.register_first |= flow.needs_registration();
        settings.storm_at = self.storm_at;
        settings.schedule = Some(self.when.schedule()?);
        settings.seed = self.when.seed;
        Ok(app::drive(settings, &self.result.output()))
    }
}

impl AnswerOptions {
    fn run(self) -> std::result::Result<u8, String> {
        let settings = Settings {
            answering: Answering {
                listen: self.listen,
                ring: self.ring,
                reject: self.reject,
                is_registrar: self.registrar,
            },
            tls: TlsSettings {
                identity: self.cert.zip(self.key),
                ..TlsSettings::default()
            },
            threads: usize::from(self.threads),
            answer_for: self.duration,
            ..Settings::new(Mix::only(Flow::Call))
        };
        let output = Output {
            json: self.json,
            quiet: self.quiet,
            ..output()
        };
        Ok(app::drive(settings, &output))
    }
}

impl PeakOptions {
    fn run(self) -> std::result::Result<u8, String> {
        let mut settings = settings(self.mix, self.path, self.who)?;
        settings.hold = self.hold;
        settings.answering.ring = self.ring;
        // What it is replaced by for each try.
        settings.schedule = Some(Schedule::constant(self.start, 1_000_000_000));
        let options = PeakSettings {
            search: SearchConfig {
                start_per_s: self.start,
                failures_max: self.failures_max,
                delay_max_ns: self.delay_max.map_or(u64::MAX, nanoseconds),
                repeats: self.repeats,
                precision: self.precision,
                try_ns: nanoseconds(self.try_time),
                rest_ns: nanoseconds(self.rest),
                rate_min_per_s: self.rate_min.unwrap_or(self.start / 16.0),
                rate_max_per_s: self.rate_max,
                tries_max: self.tries_max,
                ..SearchConfig::default()
            },
            delay_percent: self.delay_percent,
            rfc7502: self.rfc7502,
        };
        let output = Output {
            json: self.json,
            quiet: self.quiet,
            check_self: !self.no_check_self,
            ..output()
        };
        Ok(app::peak(settings, &options, &output))
    }
}

/// What all loads have in common.
fn settings(mix: Mix, path: Path, who: Who) -> std::result::Result<Settings, String> {
    let direct = path
        .straight
        .then_some(path.transport.unwrap_or(Transport::Udp));
    let server = match &path.to {
        Some(to) => Some(Server::parse(to, path.transport)?),
        None => None,
    };
    let host = server
        .as_ref()
        .map_or("load.test", |server| server.host.as_str());
    let domain = who.domain.clone().unwrap_or_else(|| host.to_owned());
    let called = match (path.called, path.pairs) {
        (Some(called), _) => Called::Uri(called),
        (None, Some(Pairs::Ring)) => Called::Ring,
        (None, Some(Pairs::Random)) => Called::Random,
        (None, None) => {
            let user = server.as_ref().and_then(|server| server.user.clone());
            Called::Uri(format!(
                "sip:{}@{domain}",
                user.unwrap_or_else(|| "service".to_owned())
            ))
        }
    };
    let pairs = called.is_pairs();
    let mut settings = Settings::new(mix);
    settings.users = who.users()?;
    settings.realm = who.realm.unwrap_or_else(|| domain.clone());
    settings.domain = domain;
    settings.register_first = who.register_first || pairs;
    settings.setup_rate_per_s = who.setup_rate;
    settings.expires_s = who.expires;
    settings.credentials_first = !who.first_unauthenticated;
    settings.server = server;
    settings.direct = direct;
    settings.called = called;
    settings.answering.listen = path.answer_here;
    settings.answering.is_registrar = direct.is_some();
    settings.follow_routes = path.follow_routes;
    settings.own_ports = path.ports == Ports::Own;
    settings.lifetime = path.connection;
    settings.close = if path.abrupt {
        Close::Abrupt
    } else {
        Close::Clean
    };
    settings.threads = usize::from(path.threads);
    settings.handshake_threads = usize::from(path.handshake_threads);
    settings.tls = TlsSettings {
        roots: path.tls.ca,
        trust_anyone: path.tls.trust_anyone,
        identity: path.tls.cert.zip(path.tls.key),
        agent_identity: path.tls.agent_cert.zip(path.tls.agent_key),
        key: path.tls.key_type,
        versions: path.tls.tls,
        suites: path.tls.suite,
        groups: path.tls.group,
        resume_share: path.tls.resume,
        resume_by: path.tls.resume_by,
    };
    settings.timers.t1_ms = path.timing.t1_ms;
    settings.answer_timeout = path.timing.answer_timeout;
    settings.connect_timeout = path.timing.connect_timeout;
    settings.handshake_timeout = path.timing.handshake_timeout;
    settings.drain_timeout = path.timing.drain_timeout;
    settings.udp_buffer_bytes = path.timing.udp_buffer;
    settings.local = path.local.unwrap_or_else(|| local_for(&settings));
    Ok(settings)
}

/// Where a load comes from that says nothing of it.
fn local_for(settings: &Settings) -> Local {
    let loopback = Local::one(IpAddr::from([127, 0, 0, 1]));
    let Some(server) = settings.server.as_ref().map(|server| server.addr) else {
        return many_connections(settings).unwrap_or(loopback);
    };
    match (server.ip().is_loopback(), server.is_ipv4()) {
        (true, true) => many_connections(settings).unwrap_or(loopback),
        (true, false) => Local::one(std::net::Ipv6Addr::LOCALHOST.into()),
        (false, _) => Local::one(route_to(server).unwrap_or(server.ip())),
    }
}

/// One address has 28,000 ports, and each is kept for a minute after its use:
/// a connection per call needs more.
fn many_connections(settings: &Settings) -> Option<Local> {
    let is_stream = settings.transport() != Some(Transport::Udp);
    (is_stream && settings.lifetime != Lifetime::One)
        .then(|| "127.1.0.0/16".parse().ok())
        .flatten()
}

/// The address that this machine has towards a server elsewhere.
fn route_to(remote: SocketAddr) -> Option<IpAddr> {
    let any: SocketAddr = if remote.is_ipv4() {
        ([0, 0, 0, 0], 0).into()
    } else {
        (std::net::Ipv6Addr::UNSPECIFIED, 0).into()
    };
    // Connecting a datagram socket sends nothing.
    let socket = std::net::UdpSocket::bind(any).ok()?;
    socket.connect(remote).ok()?;
    socket.local_addr().ok().map(|local| local.ip())
}

impl Who {
    fn users(&self) -> std::result::Result<Users, String> {
        if let Some(file) = &self.users {
            let mut users = Users::from_file(file)?;
            if let Some(agents) = self.agents {
                if agents > users.count() {
                    return Err(format!(
                        "{} has {} users, fewer than --agents {agents}",
                        file.display(),
                        users.count()
                    ));
                }
                users.truncate(agents);
            }
            return Ok(users);
        }
        match (&self.user, self.agents) {
            (None, None) => Ok(Users::default()),
            (user, agents) => Users::from_pattern(
                user.as_deref().unwrap_or("user{n}"),
                self.password.as_deref(),
                agents.unwrap_or(1),
            ),
        }
    }
}

impl When {
    fn schedule(&self) -> std::result::Result<Schedule, String> {
        let bare = self.rate.trim().trim_end_matches("/s").trim();
        let mut schedule = match bare.parse::<f64>() {
            Ok(rate) if rate > 0.0 && rate.is_finite() => {
                Schedule::constant(rate, nanoseconds(self.duration))
            }
            Ok(_) => return Err(format!("--rate {}: write a rate above 0", self.rate)),
            Err(_) => Schedule::parse(&self.rate).map_err(|error| format!("--rate: {error}"))?,
        };
        if self.poisson {
            schedule = schedule.poisson(self.seed);
        }
        if let Some(count) = self.count {
            schedule = schedule.limit(count);
        }
        Ok(schedule)
    }
}

impl Result {
    fn output(self) -> Output {
        Output {
            json: self.json,
            csv: self.csv,
            quiet: self.quiet,
            thresholds: self.fail_if,
            failures_max: self.failures_max,
            watch_pids: self.watch_pid,
            check_self: !self.no_check_self,
            ..output()
        }
    }
}

fn output() -> Output {
    let command: Vec<String> = std::env::args().collect();
    Output {
        command: masked(command).join(" "),
        program_version: env!("CARGO_PKG_VERSION").to_owned(),
        ..Output::default()
    }
}

/// The command line without its passwords.
fn masked(mut command: Vec<String>) -> Vec<String> {
    let mut is_secret = false;
    for word in &mut command {
        if is_secret {
            *word = "***".to_owned();
        } else if let Some((name, _)) = word
            .split_once('=')
            .filter(|(name, _)| *name == "--password")
        {
            *word = format!("{name}=***");
        }
        is_secret = word == "--password";
    }
    command
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn time(text: &str) -> std::result::Result<Duration, String> {
    signet_load::duration(text)
        .ok_or_else(|| format!("'{text}' is no time; write 500ms, 30s or 2m"))
}

fn share(text: &str) -> std::result::Result<f64, String> {
    let (number, of) = text
        .strip_suffix('%')
        .map_or((text, 1.0), |number| (number, 100.0));
    number
        .trim()
        .parse::<f64>()
        .ok()
        .map(|number| number / of)
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| format!("'{text}' is no share; write 0, 4% or 0.04"))
}

fn resume_share(text: &str) -> std::result::Result<f64, String> {
    match text {
        "none" => Ok(0.0),
        "all" => Ok(1.0),
        other => share(other).map_err(|_| format!("'{text}' is no share; write none, all or 0.5")),
    }
}

fn resume_by(text: &str) -> std::result::Result<ClientResumption, String> {
    match text {
        "any" => Ok(ClientResumption::Any),
        "tickets" => Ok(ClientResumption::Tickets),
        "ids" => Ok(ClientResumption::SessionIds),
        _ => Err(format!(
            "'{text}' is no way to resume; write any, tickets or ids"
        )),
    }
}

fn lifetime(text: &str) -> std::result::Result<Lifetime, String> {
    match text {
        "one" => Ok(Lifetime::One),
        "per-call" => Ok(Lifetime::Calls(1)),
        "per-agent" => Ok(Lifetime::Agent),
        other => other
            .strip_prefix("per-")
            .and_then(|rest| rest.strip_suffix("-calls"))
            .and_then(|number| number.parse().ok())
            .filter(|calls| *calls > 0)
            .map(Lifetime::Calls)
            .ok_or_else(|| {
                format!("'{text}' is no lifetime; write one, per-call, per-10-calls or per-agent")
            }),
    }
}

fn tls_version(text: &str) -> std::result::Result<TlsVersion, String> {
    TlsVersion::by_name(text).map_err(|error| error.to_string())
}

fn threshold(text: &str) -> std::result::Result<Threshold, String> {
    Threshold::parse(text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_recorded() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(
            masked(words("signet load call --password pw{n} --user u")).join(" "),
            "signet load call --password *** --user u"
        );
        assert_eq!(
            masked(words("x --password=pw")).join(" "),
            "x --password=***"
        );
    }

    #[test]
    fn shares_and_lifetimes() {
        assert_eq!(
            (share("4%"), share("0.04"), share("0")),
            (Ok(0.04), Ok(0.04), Ok(0.0))
        );
        assert!(share("101%").is_err() && share("x").is_err());
        assert_eq!(
            (resume_share("all"), resume_share("50%")),
            (Ok(1.0), Ok(0.5))
        );
        assert_eq!(lifetime("per-10-calls"), Ok(Lifetime::Calls(10)));
        assert_eq!(lifetime("per-call"), Ok(Lifetime::Calls(1)));
        assert!(lifetime("per-0-calls").is_err());
    }
}
