//! A load of registrations over UDP from one socket: open loop at a rate, or
//! closed with a window. And what they cost the servers.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use sip_auth::{Attempt, ClientAuth, RequestParts};
use sip_msg::{ConnId, Limits, ListenerId, Message, Target, Transport};
use sip_net::{ListenerConfig, Net, NetConfig, NetEvent, bind};

use crate::ServeArguments;
use crate::calls::{LOAD_CORE, SERVER_CORE, SERVER_PORT, kamailio_config, start_kamailio};
use crate::process::Process;
use crate::report::{Measurement, Results};

#[derive(clap::Args)]
pub(crate) struct RegisterArguments {
    /// The registrar.
    #[arg(long)]
    to: SocketAddr,
    /// The domain of the users.
    #[arg(long, default_value = "127.0.0.1")]
    domain: String,
    /// How many users there are: `user0`, `user1`, ...
    #[arg(long, default_value_t = 10_000)]
    users: u64,
    /// Registrations a second; 0 for as many as the window allows.
    #[arg(long, default_value_t = 8_000)]
    rate: u64,
    /// Registrations under way at most.
    #[arg(long, default_value_t = 2_000)]
    window: u64,
    /// Microseconds between two looks at the schedule; what is due then is sent
    /// in one go. 0 looks whenever an answer arrives as well.
    #[arg(long, default_value_t = 0)]
    tick_us: u64,
    /// Seconds to run.
    #[arg(long, default_value_t = 8)]
    seconds: u64,
    /// The password of all users; without it challenges count as failures.
    #[arg(long)]
    password: Option<String>,
}

/// What the load counted; printed as one line of JSON.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Registered {
    ok: u64,
    failed: u64,
    retransmissions: u64,
    elapsed_s: f64,
}

/// How long a registration may be without an answer before it is sent again, and how often.
const AGAIN: Duration = Duration::from_millis(500);
const SENDS_MAX: u32 = 6;

/// One user's registration.
#[derive(Default)]
struct User {
    cseq: u32,
    sends: u32,
    sent: Option<Instant>,
    auth: Option<ClientAuth>,
    attempt: Attempt,
    request: Vec<u8>,
}

/// Runs the load and prints what it counted.
pub(crate) fn run(arguments: &RegisterArguments) -> Result<(), String> {
    let counted = load(arguments)?;
    println_json(&counted)
}

fn println_json(counted: &Registered) -> Result<(), String> {
    use std::io::Write;
    let text = serde_json::to_string(counted).map_err(|e| e.to_string())?;
    writeln!(std::io::stdout(), "{text}").map_err(|e| e.to_string())
}

fn load(arguments: &RegisterArguments) -> Result<Registered, String> {
    let listener = ListenerConfig::new(Transport::Udp, SocketAddr::from(([127, 0, 0, 1], 0)));
    let mut sockets = bind(&[listener], 1).map_err(|e| e.to_string())?;
    let mut net =
        Net::new(0, NetConfig::default(), sockets.remove(0)).map_err(|e| e.to_string())?;
    let local = net.local_addr(ListenerId(0)).ok_or("no local address")?;
    let target = Target {
        transport: Transport::Udp,
        listener: ListenerId(0),
        remote: arguments.to,
        conn: ConnId::NONE,
        may_open: false,
        tls_name: None,
        lane: sip_msg::Lane::Shared,
    };
    let mut users: Vec<User> = (0..arguments.users)
        .map(|index| new_user(arguments, index))
        .collect();
    let mut counted = Registered::default();
    let mut message = Message::default();
    let mut answers: Vec<(usize, u32, u16)> = Vec::new();
    let mut challenged: Vec<usize> = Vec::new();
    let (mut started, mut ended, mut next) = (0_u64, 0_u64, 0_usize);
    let begin = Instant::now();
    let until = begin + Duration::from_secs(arguments.seconds);
    let mut last_sweep = begin;
    let mut next_tick = begin;
    loop {
        let now = Instant::now();
        let running = now < until;
        if !running && started == ended || now > until + Duration::from_secs(5) {
            break;
        }
        let due = if !running || now < next_tick {
            0
        } else if arguments.rate == 0 {
            u64::MAX
        } else {
            let scheduled = u64::try_from((now - begin).as_micros()).unwrap_or(u64::MAX)
                * arguments.rate
                / 1_000_000;
            scheduled.saturating_sub(started)
        };
        if now >= next_tick {
            next_tick = now + Duration::from_micros(arguments.tick_us);
        }
        let count = due
            .min(arguments.window.saturating_sub(started - ended))
            .min(256);
        for _ in 0..count {
            let index = next % users.len();
            next += 1;
            let Some(user) = users.get_mut(index) else {
                continue;
            };
            if user.sent.is_some() {
                continue;
            }
            user.attempt = Attempt::default();
            user.write(index, &arguments.domain, local, now);
            started += 1;
            net.send(&target, &user.request, 0);
        }
        if now.duration_since(last_sweep) > Duration::from_millis(100) {
            last_sweep = now;
            for user in &mut users {
                if user
                    .sent
                    .is_some_and(|sent| now.duration_since(sent) > AGAIN * user.sends)
                {
                    if user.sends == SENDS_MAX {
                        user.sent = None;
                        ended += 1;
                        counted.failed += 1;
                        continue;
                    }
                    user.sends += 1;
                    counted.retransmissions += 1;
                    net.send(&target, &user.request, 0);
                }
            }
        }
        net.flush();
        let wait = if arguments.rate == 0 {
            Duration::from_millis(10)
        } else {
            Duration::from_millis(1)
        };
        net.poll(Some(wait), |event| {
            if let NetEvent::Datagram { bytes, .. } = event
                && message.fill(bytes, &Limits::default()).is_ok()
                && let Some(index) = user_of(message.call_id())
                && let Some(user) = users.get_mut(index)
                && let Ok(cseq) = message.cseq()
            {
                if message.status() == 401
                    && user.cseq == cseq.number
                    && user.sent.is_some()
                    && let Some(auth) = &mut user.auth
                    && auth.handle_challenge(&mut user.attempt, &message).is_ok()
                {
                    challenged.push(index);
                } else {
                    answers.push((index, cseq.number, message.status()));
                }
            }
        })
        .map_err(|e| e.to_string())?;
        for index in challenged.drain(..) {
            if let Some(user) = users.get_mut(index) {
                user.write(index, &arguments.domain, local, now);
                net.send(&target, &user.request, 0);
            }
        }
        for (index, cseq, status) in answers.drain(..) {
            let Some(user) = users.get_mut(index) else {
                continue;
            };
            if user.cseq != cseq || user.sent.is_none() || status < 200 {
                continue;
            }
            user.sent = None;
            ended += 1;
            if status == 200 {
                counted.ok += 1;
            } else {
                counted.failed += 1;
            }
        }
    }
    counted.failed += started - ended;
    counted.elapsed_s = begin.elapsed().as_secs_f64();
    Ok(counted)
}

/// The user whose registration has that Call-ID (`17@bench`).
fn user_of(call_id: &[u8]) -> Option<usize> {
    let end = call_id.iter().position(|&b| b == b'@')?;
    std::str::from_utf8(call_id.get(..end)?).ok()?.parse().ok()
}

fn new_user(arguments: &RegisterArguments, index: u64) -> User {
    let auth = arguments.password.as_deref().map(|password| {
        let mut auth = ClientAuth::new();
        auth.add(&arguments.domain, &format!("user{index}"), password);
        auth
    });
    User {
        auth,
        ..User::default()
    }
}

impl User {
    /// Writes the next request of this user, with credentials once there is a nonce.
    fn write(&mut self, index: usize, domain: &str, local: SocketAddr, now: Instant) {
        use std::io::Write;
        self.cseq += 1;
        self.sends = 1;
        self.sent = Some(now);
        let (cseq, text) = (self.cseq, &mut self.request);
        text.clear();
        let _ = write!(
            text,
            "REGISTER sip:{domain} SIP/2.0\r\n\
             Via: SIP/2.0/UDP {local};branch=z9hG4bK{index}-{cseq}\r\n\
             Max-Forwards: 70\r\n\
             From: <sip:user{index}@{domain}>;tag=t{index}\r\n\
             To: <sip:user{index}@{domain}>\r\n\
             Call-ID: {index}@bench\r\n\
             CSeq: {cseq} REGISTER\r\n\
             Contact: <sip:user{index}@{local}>\r\n\
             Expires: 3600\r\n\
             User-Agent: bench\r\n"
        );
        if let Some(auth) = &mut self.auth {
            let uri = format!("sip:{domain}");
            let parts = RequestParts {
                method: b"REGISTER",
                uri: uri.as_bytes(),
                body: b"",
            };
            auth.write_credentials(
                &mut self.attempt,
                parts,
                u64::from(cseq) << 32 | index as u64,
                text,
            );
        }
        text.extend_from_slice(b"Content-Length: 0\r\n\r\n");
    }
}

/// Registrations in memory beside Kamailio's, at the same rate; then with
/// digest and durable, as many as two cores can do.
pub(crate) fn compare(
    arguments: &ServeArguments,
    wanted: &dyn Fn(&str) -> bool,
    results: &mut Results,
) -> Result<(), String> {
    const RATE: u64 = 8_000;
    // Every millisecond what is due, as SIPp sends; and each by itself, when a
    // server wakes up for every one.
    for (pace, tick_us) in [("ticks", 1_000), ("smooth", 0)] {
        let case = format!("register-memory-{RATE}-{pace}");
        for repeat in 0..if wanted(&case) { arguments.repeats } else { 0 } {
            let mut order = ["kamailio", "signet"];
            if repeat % 2 == 1 {
                order.reverse();
            }
            for server in order.into_iter().filter(|s| arguments.wants(s)) {
                let row = measure_memory(arguments, &case, server, (RATE, tick_us))?;
                print_row(&row);
                results.add(row);
            }
        }
    }
    if wanted("register-digest-durable") && arguments.wants("signet") {
        for _ in 0..arguments.repeats {
            let row = measure_digest(arguments)?;
            print_row(&row);
            results.add(row);
        }
    }
    Ok(())
}

fn print_row(row: &Measurement) {
    eprintln!(
        "{} {}: {:.1} us of CPU each, {:.0} a second, {} ok, {} failed, {} retransmissions",
        row.case,
        row.server,
        row.cpu_us_per_call,
        row.calls as f64 / row.elapsed_s,
        row.calls,
        row.failed,
        row.retransmissions
    );
}

fn measure_memory(
    arguments: &ServeArguments,
    case: &str,
    server: &str,
    (rate, tick_us): (u64, u64),
) -> Result<Measurement, String> {
    let out = arguments.out.as_path();
    let log = out.join(format!("{server}-register.log"));
    let process = if server == "kamailio" {
        start_kamailio(&kamailio_config("kamailio-register.cfg", out, &[])?, &log)?
    } else {
        let data = out.join("signet-data");
        let _ = std::fs::remove_dir_all(&data);
        let config = out.join("register.toml");
        let text = format!(
            "version = 1\ndata = {:?}\nworkers = 1\ndomains = [\"127.0.0.1\"]\n\n[[listen]]\non = \"udp:127.0.0.1:{SERVER_PORT}\"\n\n[authentication]\nrequired = false\n\n[registrar]\ndurable = false\n",
            data.display().to_string()
        );
        std::fs::write(&config, text).map_err(|e| e.to_string())?;
        let words = ["serve", "--config", &config.display().to_string()].map(str::to_owned);
        Process::start(
            SERVER_CORE,
            &arguments.signet.display().to_string(),
            &words,
            &log,
        )?
    };
    std::thread::sleep(Duration::from_millis(800));
    // Long enough for as many transactions to end in a second as begin.
    let warm_s = if server == "signet" { 36 } else { 4 };
    let seconds = warm_s + arguments.seconds + 2;
    let load = format!("--rate {rate} --tick-us {tick_us} --seconds {seconds}");
    let mut load = start_load(LOAD_CORE, &load, out)?;
    std::thread::sleep(Duration::from_secs(warm_s));
    let (begun, before_ns) = (Instant::now(), process.cpu_ns());
    std::thread::sleep(Duration::from_secs(arguments.seconds));
    let spent_ns = process.cpu_ns() - before_ns;
    let elapsed_s = begun.elapsed().as_secs_f64();
    let whole = end_load(&mut load, out)?;
    // The rate is the schedule's: it was held if nothing failed and all came.
    let ok = (whole.ok as f64 / whole.elapsed_s * elapsed_s) as u64;
    let counted = Registered {
        ok,
        elapsed_s,
        ..whole
    };
    Ok(row(case, server, rate, spent_ns, &counted))
}

fn measure_digest(arguments: &ServeArguments) -> Result<Measurement, String> {
    const USERS: u64 = 10_000;
    let out = arguments.out.as_path();
    let data = out.join("signet-data");
    let _ = std::fs::remove_dir_all(&data);
    let users = out.join("users.csv");
    let mut text = String::from("user,domain,password\n");
    for index in 0..USERS {
        text.push_str(&format!("user{index},bench.test,secret\n"));
    }
    std::fs::write(&users, text).map_err(|e| e.to_string())?;
    let signet = arguments.signet.display().to_string();
    let imported = std::process::Command::new(&signet)
        .args(["user", "import"])
        .arg(&users)
        .arg("--data")
        .arg(&data)
        .output()
        .map_err(|e| e.to_string())?;
    if !imported.status.success() {
        return Err(format!(
            "signet user import: {}",
            String::from_utf8_lossy(&imported.stderr)
        ));
    }
    let words = vec![
        "serve".to_owned(),
        "--data".to_owned(),
        data.display().to_string(),
        "--listen".to_owned(),
        format!("udp:127.0.0.1:{SERVER_PORT}"),
        "--domain".to_owned(),
        "bench.test".to_owned(),
        "--workers".to_owned(),
        "1".to_owned(),
    ];
    let process = Process::start("0,1", &signet, &words, &out.join("signet-digest.log"))?;
    std::thread::sleep(Duration::from_millis(800));
    let before_ns = process.cpu_ns();
    let load = format!(
        "--rate 0 --window 1024 --users {USERS} --seconds 8 --domain bench.test --password secret"
    );
    let counted = run_load("0,1", &load, out)?;
    Ok(row(
        "register-digest-durable",
        "signet",
        0,
        process.cpu_ns() - before_ns,
        &counted,
    ))
}

fn row(case: &str, server: &str, rate: u64, spent_ns: u64, counted: &Registered) -> Measurement {
    Measurement {
        case: case.to_owned(),
        server: server.to_owned(),
        cpu_us_per_call: spent_ns as f64 / 1_000.0 / counted.ok.max(1) as f64,
        calls: counted.ok,
        failed: counted.failed,
        retransmissions: counted.retransmissions,
        rate,
        elapsed_s: counted.elapsed_s,
    }
}

/// Runs the load as a process of its own, on its own core.
fn run_load(core: &str, arguments: &str, out: &Path) -> Result<Registered, String> {
    end_load(&mut start_load(core, arguments, out)?, out)
}

fn start_load(core: &str, arguments: &str, out: &Path) -> Result<Process, String> {
    let this = std::env::current_exe().map_err(|e| e.to_string())?;
    let to = format!("127.0.0.1:{SERVER_PORT}");
    let mut words = vec!["register".to_owned(), "--to".to_owned(), to];
    words.extend(arguments.split_whitespace().map(str::to_owned));
    let log = out.join("register-load.log");
    Process::start(core, &this.display().to_string(), &words, &log)
}

fn end_load(process: &mut Process, out: &Path) -> Result<Registered, String> {
    process
        .wait(Duration::from_secs(90))
        .ok_or("the load of registrations did not end")?;
    let text = std::fs::read_to_string(out.join("register-load.log")).map_err(|e| e.to_string())?;
    let line = text
        .lines()
        .rfind(|l| l.starts_with('{'))
        .ok_or_else(|| format!("the load said: {text}"))?;
    serde_json::from_str(line).map_err(|e| e.to_string())
}
