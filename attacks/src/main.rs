//! `make attacks`: attacks on servers that it starts on this machine.
#![forbid(unsafe_code)]

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use signet_attacks::{Report, Row, RunningServer, Scale, Target};

#[derive(Parser)]
#[command(
    name = "signet-attacks",
    about = "Attacks on a SIP server of your own, on this machine's loopback, and what came of them"
)]
struct Arguments {
    /// The servers that are started: signet, kamailio.
    #[arg(long, value_delimiter = ',', default_value = "signet,kamailio")]
    servers: Vec<String>,
    /// Signet's program.
    #[arg(long, default_value = "target/release/signet")]
    signet: PathBuf,
    /// A server that runs already, instead of those: udp:127.0.0.1:5060, and
    /// tcp: and tls: where it has them.
    #[arg(long = "server", value_name = "TRANSPORT:ADDRESS")]
    running: Vec<String>,
    /// Four of its users: one who calls, one who is called, a third, and one whose credentials are
    /// misused; further ones share the calls beside floods.
    #[arg(long = "user", value_name = "NAME:PASSWORD")]
    users: Vec<String>,
    /// Their domain.
    #[arg(long, default_value = "example.test")]
    domain: String,
    /// Its process, to look at its memory.
    #[arg(long)]
    pid: Option<u32>,
    /// Only the scenarios whose name contains one of these.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Each scenario small; nothing is timed.
    #[arg(long)]
    quick: bool,
    /// Where the table, data and logs go.
    #[arg(long, default_value = "target/attacks")]
    out: PathBuf,
    /// Says what each scenario tries, and ends.
    #[arg(long)]
    list: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.list {
        for (name, tries, through) in signet_attacks::describe() {
            say(&format!("{name}\n    {tries}\n    Gets through: {through}"));
        }
        return ExitCode::SUCCESS;
    }
    match run(&arguments) {
        Ok(code) => code,
        Err(why) => {
            eprintln!("signet-attacks: {why}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    let targets = targets(arguments)?;
    let scale = Scale {
        quick: arguments.quick,
    };
    say(&Report::heading());
    let each = |row: &Row| say(&row.text());
    // Servers look for what is named in their configuration from folders of their own.
    let out = std::path::absolute(&arguments.out).map_err(|e| e.to_string())?;
    let report = signet_attacks::run(&targets, &arguments.only, scale, &out, each);
    report.write(&arguments.out)?;
    say(&format!(
        "written: {}/attacks.json, attacks.html",
        arguments.out.display()
    ));
    if report.rows().is_empty() {
        return Err("no scenario has such a name (--list shows all)".to_owned());
    }
    let judged = targets.iter().filter(|t| !matches!(t, Target::Kamailio));
    let bad: usize = judged.map(|t| report.bad_rows(t.name()).len()).sum();
    if bad > 0 {
        say(&format!("{bad} rows do not hold"));
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

fn targets(arguments: &Arguments) -> Result<Vec<Target>, String> {
    if !arguments.running.is_empty() {
        return Ok(vec![Target::Running(Box::new(running(arguments)?))]);
    }
    let named = |name: &String| match name.as_str() {
        "signet" => Ok(Target::Signet(arguments.signet.clone())),
        "kamailio" => Ok(Target::Kamailio),
        other => Err(format!("no server is called {other}: signet or kamailio")),
    };
    arguments.servers.iter().map(named).collect()
}

fn running(arguments: &Arguments) -> Result<RunningServer, String> {
    let place = |transport: &str| -> Result<Option<SocketAddr>, String> {
        let written = arguments
            .running
            .iter()
            .find_map(|s| s.strip_prefix(transport)?.strip_prefix(':'));
        written
            .map(|text| {
                text.parse()
                    .map_err(|_| format!("{text} is not an address like 127.0.0.1:5060"))
            })
            .transpose()
    };
    let user = |text: &String| {
        text.split_once(':')
            .map(|(name, password)| (name.to_owned(), password.to_owned()))
            .ok_or(format!("{text} is not NAME:PASSWORD"))
    };
    let server = RunningServer {
        udp: place("udp")?.ok_or("give --server udp:ADDRESS")?,
        tcp: place("tcp")?,
        tls: place("tls")?,
        domain: arguments.domain.clone(),
        users: arguments.users.iter().map(user).collect::<Result<_, _>>()?,
        pid: arguments.pid,
    };
    server.check()?;
    Ok(server)
}

fn say(line: &str) {
    // A terminal that went away is no reason to stop measuring.
    let _ = writeln!(std::io::stdout(), "{line}");
}
