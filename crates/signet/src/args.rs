//! The command line.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand};
use signet_serve::ca::KeyKind;
use signet_serve::config::{
    Config, Domain, HopUri, Listen, ListenAt, ListenSecurity, LogLevel, Mode,
};
use signet_serve::{Error, Overrides, Source, TraceOverrides, admin};

use crate::bed::BedCommand;
use crate::load::LoadCommand;
use crate::plan::PlanOptions;
use crate::price::PriceCommand;
use crate::trace::{TraceFlags, TraceOptions};

mod operator;
mod people;

pub(crate) use operator::{
    BansCommand, BindingsCommand, GatewaysCommand, HookCommand, MediaCommand,
};
pub(crate) use people::{AliasCommand, UserChangeOptions};

/// A SIP proxy, registrar and redirect server, secure by default.
#[derive(Debug, Parser)]
#[command(name = "signet", version, arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve: register phones and pass calls on
    ///
    /// Without options it makes a data folder with a private certificate
    /// authority, listens on UDP and TCP 5060 and TLS 5061, and requires
    /// authentication.
    Serve(Box<ServeOptions>),
    /// Add, change, list and remove users
    User {
        #[command(flatten)]
        place: InstanceArgs,
        /// The domain of names that are given without one; the default domain if left out
        #[arg(long, global = true)]
        domain: Option<Domain>,
        #[command(subcommand)]
        command: UserCommand,
    },
    /// Let names and numbers lead to users, groups of users and numbers
    Alias {
        #[command(flatten)]
        place: InstanceArgs,
        /// The domain of names that are given without one; the default domain if left out
        #[arg(long, global = true)]
        domain: Option<Domain>,
        #[command(subcommand)]
        command: AliasCommand,
    },
    /// Add, list and remove domains besides those of the configuration
    Domain {
        #[command(flatten)]
        place: InstanceArgs,
        #[command(subcommand)]
        command: DomainCommand,
    },
    /// Make a certificate authority, issue certificates
    Ca {
        #[command(flatten)]
        place: InstanceArgs,
        #[command(subcommand)]
        command: CaCommand,
    },
    /// Check a configuration file and say what to write instead
    Check {
        /// The file
        file: PathBuf,
        /// Refuse only what keeps a server from starting; warn of the rest (an expired certificate)
        #[arg(long)]
        start: bool,
    },
    /// Show TLS settings and counts: certificates and their expiry, versions, suites, groups, the
    /// share resumed
    ///
    /// It asks the running server at its address for figures (--metrics);
    /// without one it reads the configuration file. Its first line says which.
    Tls {
        #[command(flatten)]
        place: InstanceArgs,
        /// For programs, in JSON
        #[arg(long)]
        json: bool,
        #[command(subcommand)]
        command: Option<TlsCommand>,
    },
    /// Load a server with calls and registrations, and tell what it takes
    Load {
        #[command(subcommand)]
        command: LoadCommand,
    },
    /// Run experiments on SIP servers and compare the results; simulate a distance; profile CPU
    /// time
    Bed {
        #[command(subcommand)]
        command: BedCommand,
    },
    /// Write shell completions to standard output
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the manual pages, one for each command
    Man {
        /// The folder; it is made where it is missing
        folder: PathBuf,
    },
    /// Tell what protections cost and what they are worth, and choose one
    Price {
        #[command(subcommand)]
        command: PriceCommand,
    },
    /// Plan machines for so many subscribers and calls, from what each thing costs here
    ///
    /// Prices come from a profile: `signet plan calibrate` measures one, `signet plan check`
    /// compares its predictions with what mixtures take. It exits with 0 where there is a plan, 1
    /// where it is refused, 2 where a file or a command is wrong.
    Plan(Box<PlanOptions>),
    /// Tell what a running server refused lately, and why
    ///
    /// It keeps the last few thousand refusals, and of each source a few for each
    /// reason; figures count them all.
    Why(WhyOptions),
    /// Show the messages that pass a running server, secrets masked, until Ctrl-C
    ///
    /// What it does not read in time is left out and counted: the server does not wait. At most
    /// four may trace at once.
    Trace(TraceOptions),
    /// List where users are registered: from a running server, else from the database
    Bindings {
        #[command(flatten)]
        place: InstanceArgs,
        /// One user alone: alice or alice@example.com
        user: Option<String>,
        /// For programs, in JSON
        #[arg(long)]
        json: bool,
        #[command(subcommand)]
        command: Option<BindingsCommand>,
    },
    /// List the calls in progress through a running server
    Calls {
        #[command(flatten)]
        place: InstanceArgs,
        /// Those of one user, on either side: alice or alice@example.com
        user: Option<String>,
        /// For programs, in JSON
        #[arg(long)]
        json: bool,
    },
    /// List the gateways of a running server, how they are, and drain them
    Gateways {
        #[command(flatten)]
        place: InstanceArgs,
        /// For programs, in JSON
        #[arg(long)]
        json: bool,
        #[command(subcommand)]
        command: Option<GatewaysCommand>,
    },
    /// Tell a running server what to do with its hook (docs/HOOK.md)
    Hook {
        #[command(flatten)]
        place: InstanceArgs,
        /// For programs, in JSON
        #[arg(long, global = true)]
        json: bool,
        #[command(subcommand)]
        command: HookCommand,
    },
    /// List the trunks of a running server: registrations, and passwords that were refused
    Trunks {
        #[command(flatten)]
        place: InstanceArgs,
        /// For programs, in JSON
        #[arg(long)]
        json: bool,
    },
    /// List the media engines of a running server, how they are, and drain them
    Media {
        #[command(flatten)]
        place: InstanceArgs,
        /// For programs, in JSON
        #[arg(long)]
        json: bool,
        #[command(subcommand)]
        command: Option<MediaCommand>,
    },
    /// List the sources that a running server does not answer
    Bans {
        #[command(flatten)]
        place: InstanceArgs,
        /// For programs, in JSON
        #[arg(long)]
        json: bool,
        #[command(subcommand)]
        command: Option<BansCommand>,
    },
    /// Tell which limits hold at a running server
    Limits {
        #[command(flatten)]
        place: InstanceArgs,
        /// For programs, in JSON
        #[arg(long)]
        json: bool,
    },
    /// Show or set a running server's log level, until it restarts
    LogLevel {
        #[command(flatten)]
        place: InstanceArgs,
        /// error, warn, info or debug; says which it is if left out
        level: Option<LogLevel>,
        /// For programs, in JSON
        #[arg(long)]
        json: bool,
    },
    /// Watch a running server: calls, registrations, refusals, CPU, memory; q quits
    ///
    /// Where the output is no terminal it prints what happened in one second, and ends.
    Top {
        #[command(flatten)]
        place: InstanceArgs,
        /// One second, for programs, in JSON
        #[arg(long)]
        json: bool,
    },
}

/// For whom an answer is.
pub(crate) const fn form(json: bool) -> admin::Form {
    match json {
        true => admin::Form::Json,
        false => admin::Form::Text,
    }
}

#[derive(Debug, ClapArgs)]
pub(crate) struct WhyOptions {
    #[command(flatten)]
    place: InstanceArgs,
    /// Those of a user: alice or alice@example.com
    #[arg(long)]
    user: Option<String>,
    /// Those of a call: the beginning of its Call-ID
    #[arg(long, value_name = "CALL-ID")]
    call: Option<String>,
    /// Those from an address
    #[arg(long, value_name = "ADDRESS")]
    source: Option<IpAddr>,
    /// Only the latest N
    #[arg(long, value_name = "N", default_value = "20")]
    last: usize,
    /// For programs, in JSON
    #[arg(long)]
    json: bool,
}

impl WhyOptions {
    pub(crate) fn ask(self) -> Result<(), Error> {
        let wanted = admin::Wanted {
            user: self.user,
            call: self.call,
            source: self.source,
            last: Some(self.last),
        };
        admin::why(&self.place.into(), &wanted, form(self.json))
    }
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ServeOptions {
    /// Configuration file (see etc/signet.toml); options marked with * are used without one
    #[arg(long, value_name = "FILE", conflicts_with_all = ["data", "listen", "domain", "no_auth", "forward", "stateless", "redirect"])]
    config: Option<PathBuf>,
    /// * Folder for certificates, secrets and the database
    #[arg(long, value_name = "DIR", default_value = "signet-data")]
    data: PathBuf,
    /// * Where to listen, several times if you like; TRANSPORT is udp, tcp, tls, wss or ws
    #[arg(long, value_name = "TRANSPORT:ADDR:PORT")]
    listen: Vec<ListenAt>,
    /// * A domain to be responsible for, several times if you like; the first is the default
    #[arg(long, value_name = "NAME")]
    domain: Vec<Domain>,
    /// * Let anybody register and call
    #[arg(long)]
    no_auth: bool,
    /// * Send everything that is not for a local user there: 'sip:HOST:PORT;transport=T'
    #[arg(long, value_name = "URI")]
    forward: Option<HopUri>,
    /// * Forward without transactions
    #[arg(long, conflicts_with = "redirect")]
    stateless: bool,
    /// * Answer 302 with the user's contacts
    #[arg(long)]
    redirect: bool,
    /// Worker threads; if left out as the configuration file says, else one for each core
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    workers: Option<u8>,
    /// Keep each worker on a core of its own
    #[arg(long)]
    pin: bool,
    /// Serve figures for Prometheus, /health and /ready there
    #[arg(long, value_name = "ADDR:PORT", value_parser = metrics_address)]
    metrics: Option<SocketAddr>,
    #[command(flatten)]
    trace: TraceFlags,
}

#[derive(Debug, Subcommand)]
pub(crate) enum UserCommand {
    /// Add a user
    Add {
        /// alice or alice@example.com
        name: String,
        #[command(flatten)]
        password: PasswordOptions,
    },
    /// Change a user's password
    Passwd {
        /// alice or alice@example.com
        name: String,
        #[command(flatten)]
        password: PasswordOptions,
    },
    /// List the users
    List,
    /// Set how far a user may call, their caller ID, and where their calls are forwarded
    ///
    /// What is not given stays as it is; the value - resets a setting. A running server has
    /// applied it when the command returns.
    Set {
        /// alice or alice@example.com
        name: String,
        #[command(flatten)]
        changes: UserChangeOptions,
    },
    /// Show a user's settings
    Show {
        /// alice or alice@example.com
        name: String,
    },
    /// Remove a user
    Remove {
        /// alice or alice@example.com
        name: String,
    },
    /// Add or change users from a CSV file; one bad line, and none is taken
    ///
    /// The first line names the columns: user (or username), realm or domain (optional), and
    /// password, or ha1_md5 (or ha1), ha1_sha256, ha1_sha512_256 as `export` writes them.
    Import {
        /// The file; - for the standard input
        file: PathBuf,
    },
    /// Write the users to a CSV file; it is as secret as the passwords
    Export {
        /// The file, made with mode 0600; the standard output if left out
        file: Option<PathBuf>,
    },
}

/// Where a password comes from; without either it is asked for at the
/// terminal, or made where there is none.
#[derive(Debug, ClapArgs)]
pub(crate) struct PasswordOptions {
    /// Read the password from the first line of the standard input
    #[arg(long, conflicts_with = "generate")]
    password_stdin: bool,
    /// Make a password and show it once
    #[arg(long)]
    generate: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DomainCommand {
    /// Add a domain
    Add {
        /// example.com
        domain: Domain,
    },
    /// List the domains
    List,
    /// Remove a domain; its users stay
    Remove {
        /// example.com
        domain: Domain,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum TlsCommand {
    /// Make a new secret for session tickets
    ///
    /// Nodes that share the store take it up by themselves; the old one still opens the tickets
    /// that it sealed until they expire.
    RotateSecret {
        /// Accept no tickets of earlier secrets: for one that has leaked
        #[arg(long)]
        forget_old: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum CaCommand {
    /// Make the authority: ca.pem, which phones trust, and ca.key
    Init,
    /// Issue a certificate
    Issue {
        /// Host names and addresses that it is to bear; or a user: sip:USER@DOMAIN
        #[arg(required = true)]
        names: Vec<String>,
        /// Where to write: OUT.pem and OUT.key; the first name if left out
        #[arg(long, value_name = "OUT")]
        out: Option<PathBuf>,
        /// Its key: p256 or rsa2048
        #[arg(long, value_name = "KIND", default_value = "p256")]
        key_type: KeyKind,
    },
}

/// Which server's data is meant.
#[derive(Debug, ClapArgs)]
pub(crate) struct InstanceArgs {
    /// The configuration file that the server is started with
    #[arg(long, value_name = "FILE", global = true, conflicts_with = "data")]
    config: Option<PathBuf>,
    /// The server's data folder [default: signet-data]
    #[arg(long, value_name = "DIR", global = true)]
    data: Option<PathBuf>,
}

impl ServeOptions {
    pub(crate) fn source(self) -> Source {
        let workers = self.workers.map(usize::from);
        if let Some(path) = self.config {
            let overrides = Overrides {
                workers,
                metrics: self.metrics,
                trace: self.trace.into(),
                pin: self.pin,
            };
            return Source::File { path, overrides };
        }
        let mut config = Config {
            data: self.data,
            domains: self.domain,
            forward: self.forward,
            workers: workers.unwrap_or(0),
            pin: self.pin,
            ..Config::default()
        };
        config.mode = match (self.stateless, self.redirect) {
            (true, _) => Mode::Stateless,
            (_, true) => Mode::Redirect,
            _ => Mode::Stateful,
        };
        config.listen = self
            .listen
            .into_iter()
            .map(|on| Listen {
                on,
                name: None,
                advertise: None,
                nat: Default::default(),
                media: Default::default(),
                security: ListenSecurity::default(),
                websocket: Default::default(),
            })
            .collect();
        config.authentication.required = !self.no_auth;
        config.metrics.listen = self.metrics;
        TraceOverrides::from(self.trace).apply(&mut config.log);
        Source::Options(Box::new(config))
    }
}

impl From<InstanceArgs> for admin::Instance {
    fn from(place: InstanceArgs) -> Self {
        match (place.config, place.data) {
            (Some(config), _) => Self::Config(config),
            (None, data) => Self::Data(data.unwrap_or_else(|| PathBuf::from("signet-data"))),
        }
    }
}

impl From<PasswordOptions> for admin::PasswordFrom {
    fn from(options: PasswordOptions) -> Self {
        match (options.password_stdin, options.generate) {
            (true, _) => Self::Stdin,
            (_, true) => Self::Generated,
            _ => Self::Terminal,
        }
    }
}

/// An address and a port, or a port alone, which is on the loopback address:
/// figures have no password.
fn metrics_address(text: &str) -> Result<SocketAddr, String> {
    let bare = text.trim_start_matches(':');
    bare.parse::<u16>()
        .map(|port| SocketAddr::from(([127, 0, 0, 1], port)))
        .or_else(|_| text.parse())
        .map_err(|_| "write ADDRESS:PORT, for example 127.0.0.1:9060".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn serve(line: &str) -> Source {
        match Args::try_parse_from(line.split(' ')).unwrap().command {
            Command::Serve(options) => options.source(),
            _ => panic!("not serve"),
        }
    }

    #[test]
    fn the_command_line_is_sound() {
        Args::command().debug_assert();
    }

    #[test]
    fn who_names_a_server_without_its_option_is_told_of_it() {
        for job in ["call", "register", "peak"] {
            let parsed = Args::try_parse_from(["signet", "load", job, "192.0.2.1"]);
            let error = parsed.err().map(|error| error.to_string());
            let usage = format!("Usage: signet load {job} --to <URI> ");
            assert!(error.is_some_and(|error| error.contains(&usage)), "{job}");
        }
    }

    #[test]
    fn the_options_of_a_load_stand_under_headings() {
        for job in ["call", "register", "peak"] {
            let parsed = Args::try_parse_from(["signet", "load", job, "--help"]);
            let help = parsed
                .err()
                .map_or(String::new(), |error| error.to_string());
            let (_, bare) = help.split_once("\nOptions:\n").unwrap_or_default();
            let bare = bare.split("\n\n").next().unwrap_or_default();
            assert!(bare.trim_start().starts_with("-h, --help"), "{help}");
        }
    }

    #[test]
    fn no_help_has_what_the_reader_of_arguments_takes_for_a_line_break() {
        fn look_at(command: &clap::Command) -> usize {
            let helps = command.get_arguments().flat_map(|arg| {
                let help = arg.get_help().map(ToString::to_string);
                let long = arg.get_long_help().map(ToString::to_string);
                help.into_iter().chain(long)
            });
            let own = helps
                .inspect(|help| assert!(!help.contains("{n}"), "{help}"))
                .count();
            own + command.get_subcommands().map(look_at).sum::<usize>()
        }
        assert!(look_at(&Args::command()) > 100);
    }

    #[test]
    fn bare_serve_is_the_secure_default() {
        let Source::Options(config) = serve("signet serve") else {
            panic!()
        };
        assert_eq!(*config, Config::default());
        assert!(config.authentication.required);
    }

    #[test]
    fn options_reach_the_configuration() {
        let Source::Options(config) = serve(
            "signet serve --no-auth --listen udp:127.0.0.1:5060 --listen tls:[::1]:5061 --forward sip:127.0.0.1:5070;transport=udp \
             --domain Example.com --workers 2 --metrics 9060 --trace-sip --stateless --data d",
        ) else {
            panic!()
        };
        assert!(!config.authentication.required && config.log.trace_sip);
        assert_eq!(config.listen.len(), 2);
        assert_eq!(config.mode, Mode::Stateless);
        assert_eq!(config.domains, ["example.com".parse().unwrap()]);
        assert_eq!(
            config.metrics.listen,
            Some("127.0.0.1:9060".parse().unwrap())
        );
        assert_eq!((config.workers, config.data), (2, PathBuf::from("d")));
        assert!(config.forward.is_some());
    }

    #[test]
    fn a_file_stands_alone() {
        assert!(Args::try_parse_from(["signet", "serve", "--config", "f", "--no-auth"]).is_err());
        assert!(Args::try_parse_from(["signet", "serve", "--config", "f", "--data", "d"]).is_err());
        let Source::File { overrides, .. } =
            serve("signet serve --config f --workers 3 --trace-sip")
        else {
            panic!()
        };
        assert_eq!(overrides.workers, Some(3));
        assert!(overrides.trace.sip);
    }

    #[test]
    fn what_is_traced_is_said_beside_a_file_and_without_one() {
        let line = "--trace-pcap t --trace-user alice --trace-address 192.0.2.0/24 --trace-call x";
        let Source::Options(config) = serve(&format!("signet serve {line}")) else {
            panic!()
        };
        let mut log = config.log.clone();
        assert!(!log.trace_sip);
        assert_eq!(log.trace_pcap, Some(PathBuf::from("t")));
        assert_eq!(log.trace_user.as_deref(), Some("alice"));
        assert_eq!(log.trace_address, Some("192.0.2.0/24".parse().unwrap()));
        assert_eq!(log.trace_call.as_deref(), Some("x"));
        let Source::File { overrides, .. } = serve("signet serve --config f --trace-user bob")
        else {
            panic!()
        };
        overrides.trace.apply(&mut log);
        assert_eq!(log.trace_user.as_deref(), Some("bob"));
        assert_eq!(log.trace_call.as_deref(), Some("x"), "that of the file");
    }

    #[test]
    fn a_password_is_never_an_argument() {
        assert!(Args::try_parse_from(["signet", "user", "add", "alice", "secret"]).is_err());
        assert!(
            Args::try_parse_from(["signet", "user", "add", "alice", "--password", "secret"])
                .is_err()
        );
        assert!(
            Args::try_parse_from(["signet", "user", "add", "alice", "--password-stdin"]).is_ok()
        );
    }

    #[test]
    fn a_ban_is_lifted_by_what_is_shown_of_it() {
        let lifted = |source: &str| {
            let line = ["signet", "bans", "lift", source];
            match Args::try_parse_from(line).ok()?.command {
                Command::Bans {
                    command: Some(BansCommand::Lift { source }),
                    ..
                } => Some(source.to_string()),
                _ => None,
            }
        };
        for (shown, source) in [
            ("192.0.2.7", Some("192.0.2.7")),
            ("2001:db8::", Some("2001:db8::")),
            ("2001:db8::/64", Some("2001:db8::")),
            ("192.0.2.7/64", None),
            ("2001:db8::/32", None),
            ("gw.example.net", None),
        ] {
            assert_eq!(lifted(shown).as_deref(), source, "{shown}");
        }
    }

    #[test]
    fn the_place_may_stand_before_or_behind() {
        for line in [
            "signet user --data d add alice",
            "signet user add alice --data d",
        ] {
            let Command::User { place, .. } =
                Args::try_parse_from(line.split(' ')).unwrap().command
            else {
                panic!()
            };
            assert_eq!(place.data, Some(PathBuf::from("d")));
        }
    }
}
