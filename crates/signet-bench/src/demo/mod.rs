//! The demonstration: a server of its own, users made through the command line,
//! calls over each transport with and without authentication, and a picture of
//! what each costs the server.

mod report;
mod server;

use std::fmt::Display;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use measure::RunResult;
use report::{Report, Row};
use server::Server;

use signet_bed::generator::Desk;

use crate::process::load_core;
use crate::report::first_line;

/// The domain of the demonstration's users. `.test` is nobody's (RFC 2606).
const DOMAIN: &str = "demo.signet.test";
/// Calls that come from here need no password: the server trusts this network.
const TRUSTED: &str = "127.2.0.0/24";
/// Calls that come from here do.
const STRANGERS: &str = "127.3.0.0/24";
/// Users, each with a password of his own: no more than so many calls are under way.
const USERS: usize = 100;
/// What runs before each case and is not measured: caches fill, buffers grow.
const WARM_UP: &str = "1s";
/// How long a run may take beyond its calls.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(clap::Args)]
pub(crate) struct DemoArguments {
    /// The server's program, which is the load's as well.
    #[arg(long, default_value = "target/release/signet")]
    signet: PathBuf,
    /// Where the data and the results go; its `data` folder is made anew.
    #[arg(long, default_value = "target/demo")]
    dir: PathBuf,
    /// Calls a second.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=5_000))]
    rate: u32,
    /// Seconds of calls in each case.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
}

/// How a caller comes to the server.
struct Leg {
    name: &'static str,
    transport: &'static str,
    /// The transport to the called side: without TLS, so that TLS is counted once.
    onward: &'static str,
    options: &'static [&'static str],
}

const LEGS: [Leg; 5] = [
    Leg {
        name: "UDP",
        transport: "udp",
        onward: "udp",
        options: &[],
    },
    Leg {
        name: "TCP, one connection",
        transport: "tcp",
        onward: "tcp",
        options: &[],
    },
    Leg {
        name: "TLS, one connection",
        transport: "tls",
        onward: "tcp",
        options: &[],
    },
    Leg {
        name: "TLS, a connection per call, resumed",
        transport: "tls",
        onward: "tcp",
        options: &["--connection", "per-call", "--resume", "all"],
    },
    Leg {
        name: "TLS, a connection per call, full handshake",
        transport: "tls",
        onward: "tcp",
        options: &["--connection", "per-call"],
    },
];

/// Who calls.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Caller {
    /// A neighbour, known by its address.
    Trusted,
    /// Users with passwords, who are challenged at each call.
    Users,
    /// The same with wrong ones.
    WrongPasswords,
}

/// Runs it.
pub(crate) fn run(arguments: &DemoArguments) -> Result<(), String> {
    let server = Server::start(&arguments.signet, &arguments.dir, DOMAIN)?;
    say(format!("Signet runs as process {}.", server.pid()));
    let demonstration = Demonstration::new(arguments, server)?;
    say(format!(
        "Added {USERS} users with `signet user import`; a call with a wrong password was refused."
    ));
    let cases = LEGS.len() * 2;
    say(format!(
        "{cases} cases, {} calls a second, {} s each: about {} s.",
        arguments.rate,
        arguments.seconds,
        cases as u32 * (arguments.seconds + 2)
    ));
    let mut rows = Vec::new();
    for leg in &LEGS {
        for caller in [Caller::Trusted, Caller::Users] {
            rows.push(demonstration.measure(leg, caller)?);
        }
    }
    demonstration.server.stop()?;
    let failures: u64 = rows.iter().map(|row| row.failures).sum();
    let report = Report::new(
        rows,
        first_line(&arguments.signet.display().to_string(), &["--version"]),
    );
    let page = report.write(&arguments.dir)?;
    say("");
    say(report.table());
    say(format!("The same as a picture: {}", page.display()));
    say(hints(arguments));
    match failures {
        0 => Ok(()),
        failures => Err(format!("{failures} calls failed; see {}", page.display())),
    }
}

/// A server with users, and the load.
struct Demonstration<'a> {
    arguments: &'a DemoArguments,
    server: Server,
    /// The users, and the same with other passwords.
    users: PathBuf,
    wrong: PathBuf,
}

impl<'a> Demonstration<'a> {
    /// Adds users, and sees a call with a wrong password refused.
    fn new(arguments: &'a DemoArguments, server: Server) -> Result<Self, String> {
        let list = |name: &str, password: &dyn Fn() -> Result<String, String>| {
            let mut text = "user,password\n".to_owned();
            for number in 1..=USERS {
                text += &format!("phone{number},{}\n", password()?);
            }
            let path = arguments.dir.join("data").join(name);
            std::fs::write(&path, text)
                .map(|()| path.clone())
                .map_err(|error| format!("cannot write {}: {error}", path.display()))
        };
        let users = list("users.csv", &random_password)?;
        server.import(&users)?;
        let demonstration = Self {
            users,
            wrong: list("wrong.csv", &|| Ok("not-the-password".to_owned()))?,
            arguments,
            server,
        };
        let [udp, ..] = &LEGS;
        let refused = demonstration.load(udp, Caller::WrongPasswords, &["--count", "1"])?;
        if refused.figures.invites_ok > 0 {
            return Err("the server let a call with a wrong password through".to_owned());
        }
        Ok(demonstration)
    }

    /// One case.
    fn measure(&self, leg: &Leg, caller: Caller) -> Result<Row, String> {
        self.load(leg, caller, &["--duration", WARM_UP])?;
        let seconds = format!("{}s", self.arguments.seconds);
        let result = self.load(leg, caller, &["--duration", &seconds])?;
        let cpu_ns: u64 = result.watched.iter().map(|watched| watched.cpu_ns).sum();
        let delay_ms = |percent| result.figures.setup.intended_us(percent) as f64 / 1_000.0;
        let row = Row {
            case: leg.name.to_owned(),
            is_authenticated: caller == Caller::Users,
            calls: result.figures.invites,
            failures: result.causes.total(),
            setup_p50_ms: delay_ms(50.0),
            setup_p99_ms: delay_ms(99.0),
            server_cpu_us_per_call: cpu_ns as f64
                / 1_000.0
                / result.figures.completed.max(1) as f64,
            rate_per_s: self.arguments.rate,
            handshakes_full: result.handshakes.full,
            handshakes_resumed: result.handshakes.resumed,
        };
        say(format!(
            "{}, {}: {} calls, {} failed, {:.0} us of the server's CPU each",
            row.case,
            row.authentication(),
            row.calls,
            row.failures,
            row.server_cpu_us_per_call
        ));
        Ok(row)
    }

    /// Calls from `signet load` through the server to its own called side.
    fn load(&self, leg: &Leg, caller: Caller, more: &[&str]) -> Result<RunResult, String> {
        let mut words = vec!["call".to_owned()];
        let mut add = |name: &str, value: &dyn Display| {
            words.extend([name.to_owned(), value.to_string()]);
        };
        add(
            "--to",
            &format!("sip:{}", self.server.address(leg.transport)?),
        );
        add("--transport", &leg.transport);
        add("--called", &format!("sip:+{}@{DOMAIN}", prefix(leg.onward)));
        add(
            "--answer-here",
            &format!("{}:127.0.0.1:{}", leg.onward, self.server.onward_port()),
        );
        add("--domain", &DOMAIN);
        add("--ca", &self.server.authority().display());
        add("--rate", &self.arguments.rate);
        add("--watch-pid", &self.server.pid());
        match caller {
            Caller::Trusted => add("--local", &TRUSTED),
            Caller::Users | Caller::WrongPasswords => {
                let users = if caller == Caller::Users {
                    &self.users
                } else {
                    &self.wrong
                };
                add("--local", &STRANGERS);
                add("--users", &users.display());
            }
        }
        if caller != Caller::Trusted {
            words.push("--first-unauthenticated".to_owned());
        }
        words.extend(leg.options.iter().chain(more).map(|&word| word.to_owned()));
        let desk = Desk {
            signet: &self.arguments.signet,
            core: load_core(),
            folder: &self.arguments.dir,
        };
        let limit = PATIENCE + Duration::from_secs(u64::from(self.arguments.seconds));
        desk.start("load", &words)?.end(limit)
    }
}

fn random_password() -> Result<String, String> {
    let mut bytes = [0u8; 12];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| "no randomness".to_owned())?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The beginning of the numbers that are reached over a transport.
fn prefix(onward: &str) -> u8 {
    if onward == "udp" { 1 } else { 2 }
}

/// A line for whoever looks on. Nobody may be listening any more; the work goes on.
fn say(line: impl Display) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// How to go on by hand.
fn hints(arguments: &DemoArguments) -> String {
    let (signet, dir) = (arguments.signet.display(), arguments.dir.display());
    format!(
        "\nTo keep a server running on the ordinary ports, and to add a user:\n  \
           {signet} serve --data {dir}/mine --domain {DOMAIN}\n  \
           {signet} user --data {dir}/mine --domain {DOMAIN} add bob\n\n\
         Then give a softphone on this machine:\n  \
           user       bob\n  \
           domain     {DOMAIN}\n  \
           proxy      sip:127.0.0.1:5060;transport=udp, or ;transport=tcp,\n             \
                      or sip:127.0.0.1:5061;transport=tls with the authority {dir}/mine/ca.pem\n\n\
         From another machine: the same with this one's address; open UDP and TCP 5060 and TCP 5061."
    )
}
