//! A load of registrations over UDP from one socket: open loop at a rate, or
//! closed with a window; and the same as a process that a measurement starts.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use signet_bed::experiment::Transport;
use signet_bed::system::{Signet, Site};
use sip_auth::{Attempt, ClientAuth, RequestParts};
use sip_msg::{ConnId, Limits, ListenerId, Message, Target};
use sip_net::{ListenerConfig, Net, NetConfig, NetEvent, bind};

use crate::Bench;
use crate::calibrate;
use crate::cases::{Case, DIGEST_S};
use crate::contender::{Contender, SERVER_PORT, fresh_data};
use crate::load::{Load, Totals};
use crate::process::LOAD_CORE;
use crate::process::Process;
use crate::report::Measurement;

/// Where server and load share all there is.
const BOTH_CORES: &str = "0,1";

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

/// What the load counted so far; printed as one line of JSON a second, and at the end.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Registered {
    ok: u64,
    failed: u64,
    retransmissions: u64,
    elapsed_s: f64,
}

/// How long a registration may be without an answer before it is sent again, and how often.
const AGAIN: Duration = Duration::from_millis(500);
const SENDS_MAX: u32 = 6;
/// How often that is looked at.
const SWEEP: Duration = Duration::from_millis(100);
/// Registrations that begin in one turn at most.
const TURN_MAX: u64 = 256;

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
    let listener = ListenerConfig::new(
        sip_msg::Transport::Udp,
        SocketAddr::from(([127, 0, 0, 1], 0)),
    );
    let mut sockets = bind(&[listener], 1).map_err(|e| e.to_string())?;
    let mut net =
        Net::new(0, NetConfig::default(), sockets.remove(0)).map_err(|e| e.to_string())?;
    let local = net.local_addr(ListenerId(0)).ok_or("no local address")?;
    let mut registrations = Registrations::new(arguments, local)?;
    let mut message = Message::default();
    let wait = if arguments.rate == 0 {
        Duration::from_millis(10)
    } else {
        Duration::from_millis(1)
    };
    while !registrations.are_over() {
        registrations.tell()?;
        registrations.start_due(&mut net);
        registrations.send_again(&mut net);
        net.flush();
        net.poll(Some(wait), |event| {
            if let NetEvent::Datagram { bytes, .. } = event
                && message.fill(bytes, &Limits::default()).is_ok()
            {
                registrations.handle(&message);
            }
        })
        .map_err(|e| e.to_string())?;
        registrations.answer_challenges(&mut net);
    }
    Ok(registrations.end())
}

/// Registrations under way from one socket.
struct Registrations<'a> {
    arguments: &'a RegisterArguments,
    local: SocketAddr,
    target: Target,
    users: Vec<User>,
    /// Users who were challenged and are to show credentials.
    challenged: Vec<usize>,
    counted: Registered,
    started: u64,
    ended: u64,
    /// Who is next.
    next: usize,
    begin: Instant,
    until: Instant,
    last_sweep: Instant,
    next_tick: Instant,
    next_word: Instant,
}

impl<'a> Registrations<'a> {
    fn new(arguments: &'a RegisterArguments, local: SocketAddr) -> Result<Self, String> {
        if arguments.users == 0 {
            return Err("--users: nobody registers; there must be one at least".to_owned());
        }
        let begin = Instant::now();
        Ok(Self {
            arguments,
            local,
            target: Target {
                transport: sip_msg::Transport::Udp,
                listener: ListenerId(0),
                remote: arguments.to,
                conn: ConnId::NONE,
                may_open: false,
                tls_name: None,
                lane: sip_msg::Lane::Shared,
                local: None,
            },
            users: (0..arguments.users)
                .map(|index| new_user(arguments, index))
                .collect(),
            challenged: Vec::new(),
            counted: Registered::default(),
            started: 0,
            ended: 0,
            next: 0,
            begin,
            until: begin + Duration::from_secs(arguments.seconds),
            last_sweep: begin,
            next_tick: begin,
            next_word: begin + Duration::from_secs(1),
        })
    }

    /// Whether the time is over and all have their answers, or nobody waits for them any more.
    fn are_over(&self) -> bool {
        let now = Instant::now();
        now >= self.until && self.started == self.ended || now > self.until + Duration::from_secs(5)
    }

    /// Prints what was counted so far, once a second.
    fn tell(&mut self) -> Result<(), String> {
        if Instant::now() < self.next_word {
            return Ok(());
        }
        self.next_word += Duration::from_secs(1);
        self.counted.elapsed_s = self.begin.elapsed().as_secs_f64();
        println_json(&self.counted)
    }

    /// How many the schedule wants now, the window and a turn's share aside.
    fn due(&mut self, now: Instant) -> u64 {
        let is_time = now >= self.next_tick;
        if is_time {
            self.next_tick = now + Duration::from_micros(self.arguments.tick_us);
        }
        match self.arguments.rate {
            _ if !is_time || now >= self.until => 0,
            0 => u64::MAX,
            rate => {
                let passed_us = (now - self.begin).as_micros();
                let scheduled = u64::try_from(passed_us).unwrap_or(u64::MAX) * rate / 1_000_000;
                scheduled.saturating_sub(self.started)
            }
        }
    }

    fn start_due(&mut self, net: &mut Net) {
        let now = Instant::now();
        let room = (self.arguments.window).saturating_sub(self.started - self.ended);
        for _ in 0..self.due(now).min(room).min(TURN_MAX) {
            let index = self.next % self.users.len();
            self.next += 1;
            let user = &mut self.users[index];
            if user.sent.is_some() {
                continue;
            }
            user.attempt = Attempt::default();
            user.write(index, &self.arguments.domain, self.local, now);
            self.started += 1;
            net.send(&self.target, &user.request, 0);
        }
    }

    /// Sends again what has waited too long, and gives up what was sent too often.
    fn send_again(&mut self, net: &mut Net) {
        let now = Instant::now();
        if now.duration_since(self.last_sweep) <= SWEEP {
            return;
        }
        self.last_sweep = now;
        for user in &mut self.users {
            let is_late = |sent| now.duration_since(sent) > AGAIN * user.sends;
            if !user.sent.is_some_and(is_late) {
                continue;
            }
            if user.sends == SENDS_MAX {
                user.sent = None;
                self.ended += 1;
                self.counted.failed += 1;
                continue;
            }
            user.sends += 1;
            self.counted.retransmissions += 1;
            net.send(&self.target, &user.request, 0);
        }
    }

    /// An answer came; what it is no answer to is passed over.
    fn handle(&mut self, message: &Message) {
        let (Some(index), Ok(cseq)) = (user_of(message.call_id()), message.cseq()) else {
            return;
        };
        let Some(user) = self.users.get_mut(index) else {
            return;
        };
        let status = message.status();
        if user.cseq != cseq.number || user.sent.is_none() || status < 200 {
            return;
        }
        if status == 401
            && let Some(auth) = &mut user.auth
            && auth.handle_challenge(&mut user.attempt, message).is_ok()
        {
            self.challenged.push(index);
            return;
        }
        user.sent = None;
        self.ended += 1;
        if status == 200 {
            self.counted.ok += 1;
        } else {
            self.counted.failed += 1;
        }
    }

    fn answer_challenges(&mut self, net: &mut Net) {
        let now = Instant::now();
        for index in self.challenged.drain(..) {
            let user = &mut self.users[index];
            user.write(index, &self.arguments.domain, self.local, now);
            net.send(&self.target, &user.request, 0);
        }
    }

    /// What has no answer at the end has failed.
    fn end(mut self) -> Registered {
        self.counted.failed += self.started - self.ended;
        self.counted.elapsed_s = self.begin.elapsed().as_secs_f64();
        self.counted
    }
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

/// A load of registrations under way in a process of its own.
pub(crate) struct Running {
    process: Process,
    log: PathBuf,
}

impl Running {
    /// Starts registrations at a rate, looked at every so many microseconds, until the end is
    /// asked for, at most for `seconds_max`.
    pub(crate) fn start(
        (rate, tick_us): (u64, u64),
        seconds_max: u64,
        out: &Path,
    ) -> Result<Self, String> {
        let words = format!("--rate {rate} --tick-us {tick_us} --seconds {seconds_max}");
        Self::start_with(LOAD_CORE, &words, out)
    }

    fn start_with(core: &str, words: &str, out: &Path) -> Result<Self, String> {
        let this = std::env::current_exe().map_err(|e| e.to_string())?;
        let to = format!("127.0.0.1:{SERVER_PORT}");
        let mut all = vec!["register".to_owned(), "--to".to_owned(), to];
        all.extend(words.split_whitespace().map(str::to_owned));
        let log = out.join("register-load.log");
        let process = Process::start(core, &this.display().to_string(), &all, &log)?;
        Ok(Self { process, log })
    }

    /// What it told so far: a line a second, and the last at its end.
    fn told(&self) -> Vec<Registered> {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        text.lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }

    /// Waits until it has told so often.
    fn wait_line(&mut self, line: usize) -> Result<Registered, String> {
        let have = self.told().len();
        let seconds = line.saturating_sub(have) as u64;
        let until = Instant::now() + Duration::from_secs(seconds + 10);
        // Nobody looks before it can be time.
        std::thread::sleep(Duration::from_millis(
            (seconds * 1_000).saturating_sub(1_000),
        ));
        while Instant::now() < until {
            if let Some(told) = self.told().get(line.saturating_sub(1)) {
                return Ok(*told);
            }
            self.process.must_run("the load of registrations")?;
            std::thread::sleep(Duration::from_millis(2));
        }
        Err("the load of registrations tells nothing".to_owned())
    }

    /// Its last word, when it has ended by itself.
    fn last_word(mut self, limit: Duration) -> Result<Registered, String> {
        self.process
            .wait(limit)
            .ok_or("the load of registrations did not end")?;
        self.told()
            .last()
            .copied()
            .ok_or_else(|| format!("no counts in {}", self.log.display()))
    }
}

impl Load for Running {
    fn warm_up(&mut self, seconds: u64) -> Result<(), String> {
        let line = usize::try_from(seconds).unwrap_or(usize::MAX);
        self.wait_line(line.max(1)).map(|_| ())
    }

    fn mark(&mut self, ahead_s: u64) -> Result<f64, String> {
        let line = self.told().len() + usize::try_from(ahead_s).unwrap_or(usize::MAX);
        Ok(self.wait_line(line)?.ok as f64)
    }

    /// Its counts of the last second are enough: nothing waits for its end.
    fn end(self: Box<Self>) -> Result<Totals, String> {
        let last = self.told().last().copied().ok_or("the load told nothing")?;
        Ok(last.totals())
    }
}

impl Registered {
    fn totals(&self) -> Totals {
        Totals {
            completed: self.ok,
            failed: self.failed,
            retransmissions: self.retransmissions,
            scale: 1.0,
            is_doubted: false,
        }
    }
}

/// Registrations with digest, durable, as many as two cores can do: one repeat.
pub(crate) fn measure_digest(
    bench: &Bench<'_>,
    case: &Case,
    contender: &Contender,
) -> Result<Measurement, String> {
    const USERS: u64 = 10_000;
    let out = bench.out;
    let program = contender.signet().ok_or("only Signet has this case")?;
    let signet = Signet::new(&contender.name, program);
    let site = Site::here(out, BOTH_CORES, &[(Transport::Udp, SERVER_PORT)]);
    let text = format!(
        "version = 1\ndata = {:?}\nworkers = 1\ndomains = [\"bench.test\"]\n\n[[listen]]\non = \"udp:127.0.0.1:{SERVER_PORT}\"\n",
        fresh_data(out).display().to_string()
    );
    let config = Signet::configure(&site, text)?;
    let users = (0..USERS).map(|index| (format!("user{index}"), "secret".to_owned()));
    signet.import(&config, users)?;
    let mut process = signet.serve(&site, &config)?.into_process()?;
    let seconds = if bench.sizes.is_quick { 1 } else { DIGEST_S };
    let before = calibrate::measure()?;
    let stretch = process.stretch();
    let load = format!(
        "--rate 0 --window 1024 --users {USERS} --seconds {seconds} --domain bench.test --password secret"
    );
    let counted = Running::start_with(BOTH_CORES, &load, out)?
        .last_word(Duration::from_secs(seconds + 60))?;
    let (spent_ns, _) = stretch.end();
    // One that has ended takes no time for anything.
    process.must_run(&contender.name)?;
    let after = calibrate::measure()?;
    let totals = counted.totals();
    Ok(Measurement {
        case: case.name.to_owned(),
        server: contender.name.clone(),
        cpu_us_per_call: spent_ns as f64 / 1_000.0 / counted.ok.max(1) as f64,
        calls: counted.ok,
        failed: counted.failed,
        failed_share: totals.failed_share(),
        retransmissions: counted.retransmissions,
        rate: (counted.ok as f64 / counted.elapsed_s.max(0.1)) as u64,
        // As many as there can be.
        held_share: 1.0,
        elapsed_s: counted.elapsed_s,
        is_doubted: false,
        before,
        after,
    })
}
