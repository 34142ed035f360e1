//! `signet load`: the command line, turned into settings.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use signet_load::app::{self, Output};
use signet_load::{
    Answering, Flow, KeyKind, Lifetime, Local, Mix, Pattern, Settings, SmimeSettings, Span,
};
use sip_msg::Transport;
use sip_tls::ClientResumption;
use smime::Protection;

mod fleet;
mod peak;
mod result;
mod settings;
mod smime_options;
mod values;

use fleet::{FleetArgs, WorkerArgs};
use peak::PeakOptions;
use result::{ResultArgs, output};
use settings::settings;
use smime_options::SmimeOptions;
use values::{TlsOffer, called_resume_by, lifetime, resume_by, resume_share, time, tls_offer};

/// What to load.
#[derive(Debug, Subcommand)]
pub(crate) enum LoadCommand {
    /// Make calls, INVITE to BYE, or a mix of flows
    #[command(
        override_usage = "signet load call --to <URI> [OPTIONS]\n       signet load call --self [OPTIONS]"
    )]
    Call(Box<CallOptions>),
    /// Register agents, renew or remove their registrations
    #[command(
        override_usage = "signet load register --to <URI> [OPTIONS]\n       signet load register --self [OPTIONS]"
    )]
    Register(Box<RegisterOptions>),
    /// Be the called side: ring, answer, until interrupted
    Answer(Box<AnswerOptions>),
    /// Find the highest rate that the server sustains
    #[command(
        override_usage = "signet load peak --to <URI> [OPTIONS]\n       signet load peak --self [OPTIONS]"
    )]
    Peak(Box<PeakOptions>),
    /// Drive parts of loads for a controller on another machine
    Worker(WorkerArgs),
    /// Run a scenario of SIPp's, with SIPp's options: -sf FILE, -sn uac, ...
    #[command(disable_help_flag = true)]
    Sipp {
        /// As SIPp takes them; -h lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Print a result again, or draw its page
    Report {
        /// A file that --json wrote
        result: PathBuf,
        /// Where the page goes
        #[arg(long, value_name = "FILE")]
        html: Option<PathBuf>,
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
struct PathArgs {
    /// The server: sip:[USER@]HOST:PORT; the host is the domain too, unless --domain says otherwise
    #[arg(long, value_name = "URI", required_unless_present = "straight")]
    to: Option<String>,
    /// No server: straight to a called side in this process
    #[arg(long = "self", conflicts_with = "to")]
    straight: bool,
    /// udp, tcp, tls, ws or wss
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
    /// Connections, except over UDP: one, per-call, per-N-calls, or per-agent
    #[arg(long, value_name = "LIFETIME", default_value = "one", value_parser = lifetime)]
    connection: Lifetime,
    /// Break connections off with a reset instead of closing them
    #[arg(long)]
    abrupt: bool,
    /// Threads that call; one is enough for 20,000 calls a second
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=64))]
    threads: u8,
    /// Extra threads for the expensive part of TLS handshakes; without any the
    /// calling threads do it themselves
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=64))]
    handshake_threads: u8,
    #[command(flatten, next_help_heading = "WebSocket")]
    websocket: WebSocketOptions,
    #[command(flatten, next_help_heading = "TLS")]
    tls: TlsOptions,
    #[command(flatten, next_help_heading = "TLS of the called side here")]
    called_tls: CalledTlsOptions,
    #[command(flatten, next_help_heading = "Times")]
    timing: Timing,
}

/// WebSocket.
#[derive(Debug, Args)]
struct WebSocketOptions {
    /// The path of the server's WebSocket, and of the called side's here
    #[arg(long, value_name = "PATH", default_value = "/")]
    ws_path: String,
    /// The page that the calling side says it is, as browsers do: https://phone.example.com
    #[arg(long, value_name = "ORIGIN")]
    ws_origin: Option<String>,
}

/// TLS.
#[derive(Debug, Args)]
struct TlsOptions {
    /// PEM file with the authority that the server's certificate is from
    #[arg(long, value_name = "FILE")]
    ca: Vec<PathBuf>,
    /// Accept any certificate (insecure)
    #[arg(long, conflicts_with = "ca")]
    trust_anyone: bool,
    /// Certificate chain of the calling side, or of a called side here that has none of its own
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// Its private key
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// A certificate for each agent: 'agents/{n:04}.pem', where {n:04} is its number from 1
    #[arg(long, value_name = "PATTERN", requires = "agent_key", value_parser = Pattern::parse)]
    agent_cert: Option<Pattern>,
    /// Their private keys: 'agents/{n:04}.key'
    #[arg(long, value_name = "PATTERN", requires = "agent_cert", value_parser = Pattern::parse)]
    agent_key: Option<Pattern>,
    /// The key of the certificate that --self makes: p256, rsa2048, rsa3072, ed25519 [default: p256, with --tls legacy rsa2048]
    #[arg(long, value_name = "KIND")]
    key_type: Option<KeyKind>,
    /// Versions: 1.2, 1.3, or both; or legacy, the suites of RFC 3261 in TLS 1.2, to measure with
    #[arg(long, value_name = "VERSION", value_delimiter = ',', value_parser = tls_offer)]
    tls: Vec<TlsOffer>,
    /// Cipher suites by their registered names, the best first; those of RFC 3261 as with --tls legacy
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

/// TLS of the called side, where it is not as that of the calling one.
#[derive(Debug, Args)]
struct CalledTlsOptions {
    /// The called side's certificate chain
    #[arg(long, value_name = "FILE", requires = "answer_key")]
    answer_cert: Option<PathBuf>,
    /// Its private key
    #[arg(long, value_name = "FILE", requires = "answer_cert")]
    answer_key: Option<PathBuf>,
    /// The versions that it takes: 1.2, 1.3, or both; or legacy
    #[arg(long, value_name = "VERSION", value_delimiter = ',', value_parser = tls_offer)]
    answer_tls: Vec<TlsOffer>,
    /// The cipher suites that it takes, the best first
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    answer_suite: Vec<String>,
    /// The key-exchange groups that it takes, the best first
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    answer_group: Vec<String>,
    /// PEM file with the authority of the certificates that it asks for
    #[arg(long, value_name = "FILE")]
    answer_ca: Vec<PathBuf>,
    /// How whoever calls it may resume: any, tickets, ids, none
    #[arg(long, value_name = "HOW", default_value = "any", value_parser = called_resume_by)]
    answer_resume_by: ClientResumption,
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
    /// How long calls may take to end after the last one began; what is not over then is hung up and
    /// has failed. Without it, as long as --hold, --answer-timeout, --connect-timeout and
    /// two transactions allow
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
    /// Their names, as in 'user{n:06}': {n:06} is the number from 1 in six digits
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
    /// Agents set up per second before the run
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
    /// How long; what could not be sent by then is counted and not sent
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time)]
    duration: Duration,
    /// End after so many arrivals
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// Let arrivals come at random, as those of many users do, not evenly
    #[arg(long)]
    poisson: bool,
    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

#[derive(Debug, Args)]
pub(crate) struct CallOptions {
    #[command(flatten, next_help_heading = "Server and connections")]
    path: PathArgs,
    #[command(flatten, next_help_heading = "Agents")]
    who: Who,
    #[command(flatten, next_help_heading = "Load")]
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
    #[command(flatten, next_help_heading = "S/MIME")]
    smime: SmimeOptions,
    #[command(flatten, next_help_heading = "Workers")]
    fleet: FleetArgs,
    #[command(flatten, next_help_heading = "Result")]
    result: ResultArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RegisterOptions {
    #[command(flatten, next_help_heading = "Server and connections")]
    path: PathArgs,
    #[command(flatten, next_help_heading = "Agents")]
    who: Who,
    #[command(flatten, next_help_heading = "Load")]
    when: When,
    /// Renew registrations: all agents are registered before the run
    #[arg(long, conflicts_with = "remove")]
    again: bool,
    /// Remove registrations: all agents are registered before the run
    #[arg(long)]
    remove: bool,
    /// How long after the start all agents drop their connections at once and reopen them; the
    /// counters storm_* of the result tell how they came back
    #[arg(long, value_name = "TIME", value_parser = time)]
    storm_at: Option<Duration>,
    #[command(flatten, next_help_heading = "Workers")]
    fleet: FleetArgs,
    #[command(flatten, next_help_heading = "Result")]
    result: ResultArgs,
}

#[derive(Debug, Args)]
pub(crate) struct AnswerOptions {
    /// Where: udp:ADDR:PORT, or tcp, tls, ws, wss in the place of udp; several times if you like
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
    /// The versions that are taken: 1.2, 1.3, or both; or legacy, the suites of RFC 3261, to
    /// measure with
    #[arg(long, value_name = "VERSION", value_delimiter = ',', value_parser = tls_offer)]
    tls: Vec<TlsOffer>,
    /// The cipher suites that are taken, the best first
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    suite: Vec<String>,
    /// The key-exchange groups that are taken, the best first
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    group: Vec<String>,
    /// PEM file with the authority of the certificates that are asked for
    #[arg(long, value_name = "FILE")]
    ca: Vec<PathBuf>,
    /// How sessions may resume: any, tickets, ids, none
    #[arg(long, value_name = "HOW", default_value = "any", value_parser = called_resume_by)]
    resume_by: ClientResumption,
    /// What is asked of bodies: sign, encrypt, both
    #[arg(long, value_name = "HOW")]
    smime: Option<Protection>,
    /// Certificate chain of the key that opens what is encrypted
    #[arg(long, value_name = "FILE", requires = "smime_key")]
    smime_cert: Option<PathBuf>,
    /// Its private key, in PKCS#8
    #[arg(long, value_name = "FILE", requires = "smime_cert")]
    smime_key: Option<PathBuf>,
    /// Who vouches for those who sign
    #[arg(long, value_name = "FILE")]
    smime_ca: Vec<PathBuf>,
    /// Threads
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=64))]
    threads: u8,
    /// End after this time; on interrupt if left out
    #[arg(long, value_name = "TIME", value_parser = time)]
    duration: Option<Duration>,
    /// Write the result as JSON; - for the standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Print the result only
    #[arg(long, short)]
    quiet: bool,
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
        LoadCommand::Worker(options) => Ok(options.run()),
        LoadCommand::Sipp { arguments } => Ok(signet_sipp::run(arguments)),
        LoadCommand::Report { result, html } => Ok(app::report(&result, html.as_deref())),
        LoadCommand::Compare { a, b } => Ok(app::compare(&a, &b)),
    };
    outcome.unwrap_or_else(|error| {
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), "signet load: {error}");
        app::EXIT_USAGE
    })
}

impl CallOptions {
    fn run(self) -> Result<u8, String> {
        let local = self.path.local;
        let mut settings = settings(self.mix, self.path, self.who)?;
        settings.schedule = Some(self.when.schedule()?);
        settings.seed = self.when.seed;
        settings.hold = self.hold;
        settings.answering.ring = self.ring;
        settings.smime = self.smime.settings();
        Ok(self.fleet.drive(settings, local, &self.result.output()))
    }
}

impl RegisterOptions {
    fn run(self) -> Result<u8, String> {
        let flow = match (self.again, self.remove) {
            (true, _) => Flow::Reregister,
            (_, true) => Flow::Deregister,
            _ => Flow::Register,
        };
        let local = self.path.local;
        let mut settings = settings(Mix::only(flow), self.path, self.who)?;
        settings.register_first |= flow.needs_registration();
        settings.storm_at = self.storm_at;
        settings.schedule = Some(self.when.schedule()?);
        settings.seed = self.when.seed;
        Ok(self.fleet.drive(settings, local, &self.result.output()))
    }
}

impl AnswerOptions {
    fn run(self) -> Result<u8, String> {
        let tls = CalledTlsOptions {
            answer_cert: self.cert,
            answer_key: self.key,
            answer_tls: self.tls,
            answer_suite: self.suite,
            answer_group: self.group,
            answer_ca: self.ca,
            answer_resume_by: self.resume_by,
        };
        let settings = Settings {
            answering: Answering {
                listen: self.listen,
                ring: self.ring,
                reject: self.reject,
                is_registrar: self.registrar,
                tls: tls.settings()?,
            },
            threads: usize::from(self.threads),
            answer_for: self.duration,
            smime: self.smime.map(|protection| SmimeSettings {
                called_identity: self.smime_cert.zip(self.smime_key),
                roots: self.smime_ca,
                ..SmimeSettings::new(protection)
            }),
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
