//! Starts a server on a data folder of its own, makes two users through the
//! real command line, registers them and has them call each other over UDP,
//! TCP and TLS, with authentication; then says what it measured.
#![forbid(unsafe_code)]

mod ending;
mod figures;
mod phones;
mod report;
mod server;
mod terminal;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use ending::Ending;
use phones::{Account, Phones};
use report::{Report, Row};
use server::Server;
use sip_msg::Transport;
use terminal::Terminal;

/// The domain of the demonstration's users. `.test` is nobody's (RFC 2606).
const DOMAIN: &str = "demo.signet.test";
const TRANSPORTS: [Transport; 3] = [Transport::Udp, Transport::Tcp, Transport::Tls];
/// Calls before the measurement begins: caches fill, buffers grow.
const WARM_UP: Duration = Duration::from_secs(1);
/// How long the last calls may take to end.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Parser)]
#[command(
    version,
    about = "Real calls through a Signet server of its own, and what they cost"
)]
struct Arguments {
    /// The server's program.
    #[arg(long)]
    signet: PathBuf,
    /// Where the data and the results go; its `data` folder is made anew.
    #[arg(long)]
    dir: PathBuf,
    /// Calls a second.
    #[arg(long, default_value_t = 400, value_parser = clap::value_parser!(u32).range(1..=5_000))]
    rate: u32,
    /// Seconds of calls over each transport.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(2..=600))]
    seconds: u32,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let mut terminal = Terminal::new();
    match run(&arguments, &mut terminal) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(failures) => {
            terminal.say(&format!("{failures} calls failed."));
            ExitCode::FAILURE
        }
        Err(error) => {
            terminal.say(&format!("signet-demo: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Gives back how many calls failed.
fn run(arguments: &Arguments, terminal: &mut Terminal) -> Result<u64, String> {
    let ending = Ending::watch()?;
    let server = Server::start(
        &arguments.signet,
        &arguments.dir,
        DOMAIN,
        arguments.rate,
        &ending,
    )?;
    terminal.say(&format!(
        "Signet runs as process {}, authentication required.",
        server.pid()
    ));
    let accounts = [server.add_user("alice")?, server.add_user("bob")?];
    terminal.say(&format!(
        "Added alice@{DOMAIN} and bob@{DOMAIN} with `signet user add`."
    ));
    let mut rows = Vec::new();
    for transport in TRANSPORTS {
        rows.push(calls(
            arguments, &server, &accounts, transport, terminal, &ending,
        )?);
    }
    let udp_cpu_us = rows.first().map_or(0.0, |row| row.server_cpu_us_per_call);
    for row in &mut rows {
        row.ratio_to_udp = if udp_cpu_us > 0.0 {
            row.server_cpu_us_per_call / udp_cpu_us
        } else {
            0.0
        };
    }
    let failures = rows.iter().map(|row| row.failures).sum();
    let report = Report::new(rows, server.version());
    let page = report.write(&arguments.dir)?;
    server.stop()?;
    terminal.say("");
    terminal.say(&report.table());
    terminal.say(&format!("The same as a picture: {}", page.display()));
    terminal.say(&hints(arguments, &accounts));
    Ok(failures)
}

/// One transport: register, be refused as a stranger, call.
fn calls(
    arguments: &Arguments,
    server: &Server,
    accounts: &[Account; 2],
    transport: Transport,
    terminal: &mut Terminal,
    ending: &Ending,
) -> Result<Row, String> {
    let name = transport.via_name();
    let mut phones = Phones::new(
        transport,
        server.address(transport)?,
        DOMAIN,
        &server.authority(),
        ending,
    )?;
    phones.register(accounts)?;
    phones.be_refused()?;
    terminal.say(&format!(
        "{name}: both registered; a call with a wrong password was refused."
    ));
    let started = Instant::now();
    let wanted = u64::from(arguments.rate) * u64::from(arguments.seconds);
    let mut steady: Option<(u64, u64)> = None;
    let mut shown = Instant::now();
    while phones.calls() < wanted {
        phones.call_for(arguments.rate, started)?;
        if steady.is_none() && started.elapsed() >= WARM_UP {
            steady = Some((server.cpu_ns()?, phones.calls()));
        }
        if shown.elapsed() >= terminal.interval() {
            shown = Instant::now();
            let state = format!(
                "{name}: {} calls, {} failed, {} under way",
                phones.calls(),
                phones.failures(),
                phones.open()
            );
            terminal.progress(&state);
        }
    }
    let (cpu_before_ns, calls_before) = steady.unwrap_or_default();
    let cpu_ns = server.cpu_ns()?.saturating_sub(cpu_before_ns);
    let measured_calls = phones.calls() - calls_before;
    phones.finish(PATIENCE)?;
    let (calls, failures) = (phones.calls(), phones.failures());
    terminal.end_progress(&format!("{name}: {calls} calls, {failures} failed."));
    for (why, count) in phones.causes() {
        terminal.say(&format!("  {count} times: {why}"));
    }
    let delays = phones.delays();
    Ok(Row {
        transport: name.to_owned(),
        calls,
        failures,
        setup_p50_ms: delays.percentile_ms(50.0),
        setup_p99_ms: delays.percentile_ms(99.0),
        server_cpu_us_per_call: cpu_ns as f64 / 1_000.0 / measured_calls.max(1) as f64,
        ratio_to_udp: 0.0,
        rate_per_s: arguments.rate,
    })
}

/// How to go on by hand.
fn hints(arguments: &Arguments, accounts: &[Account; 2]) -> String {
    let [alice, bob] = accounts;
    let (signet, data) = (arguments.signet.display(), arguments.dir.join("data"));
    let data = data.display();
    format!(
        "\nTo keep the server running on the ordinary ports:\n  \
           {signet} serve --data {data} --domain {DOMAIN}\n\n\
         Then give a softphone on this machine:\n  \
           user       {} (or {})\n  \
           password   {} (or {})\n  \
           domain     {DOMAIN}\n  \
           proxy      sip:127.0.0.1:5060;transport=udp, or ;transport=tcp,\n             \
                      or sip:127.0.0.1:5061;transport=tls with the authority {data}/ca.pem\n\n\
         Another user:        {signet} user --data {data} add carol\n\
         From another machine: the same with this one's address; open UDP and TCP 5060 and TCP 5061.",
        alice.user, bob.user, alice.password, bob.password
    )
}
