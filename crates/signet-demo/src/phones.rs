//! Two phones and a stranger's, on real sockets: registrations and calls at a
//! rate that does not depend on how fast the server is.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sip_dialog::{AgentConfig, AgentKey, CallKey, Cause, Config, Credentials, Event, UserAgents};
use sip_msg::{ConnId, Limits, ListenerId, Outbox, Target, Transport};
use sip_net::{ListenerConfig, Net, NetConfig, NetEvent, bind, clock};
use sip_tls::{ClientTls, HandshakeConfig, HandshakePool};

use crate::ending::Ending;
use crate::figures::Delays;

/// How long a registration, a connection or a refusal may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest wait for the network: Ctrl-C is looked for as often.
const TICK: Duration = Duration::from_millis(20);
/// Alice, Bob and the stranger.
const PHONES: u16 = 3;

/// A user of the server's.
pub(crate) struct Account {
    pub(crate) user: String,
    pub(crate) password: String,
}

/// A call under way.
#[derive(Clone, Copy)]
enum Side {
    /// We call; the first INVITE went out then.
    Caller(Instant),
    Callee,
}

pub(crate) struct Phones<'e> {
    net: Net,
    agents: UserAgents,
    outbox: Outbox,
    transport: Transport,
    server: SocketAddr,
    domain: String,
    ending: &'e Ending,
    /// What each connection's own end is, once it is up.
    opened: BTreeMap<u64, SocketAddr>,
    keys: Vec<AgentKey>,
    open: Vec<Option<(CallKey, Side)>>,
    open_count: u64,
    events: Vec<Event>,
    calls: u64,
    failures: u64,
    causes: BTreeMap<String, u64>,
    delays: Delays,
}

impl<'e> Phones<'e> {
    pub(crate) fn new(
        transport: Transport,
        server: SocketAddr,
        domain: &str,
        authority: &Path,
        ending: &'e Ending,
    ) -> Result<Self, String> {
        let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
        // Over UDP each phone has a port of its own; over TCP and TLS a
        // connection of its own.
        let listeners: Vec<ListenerConfig> = match transport {
            Transport::Udp => (0..PHONES)
                .map(|_| ListenerConfig::new(transport, any_port))
                .collect(),
            _ => vec![ListenerConfig::outbound(transport, any_port)],
        };
        let sockets = bind(&listeners, 1)
            .map_err(|error| error.to_string())?
            .pop()
            .ok_or("no sockets")?;
        let tls = ClientTls::from_pem_files(&[authority]).map_err(|error| error.to_string())?;
        let config = NetConfig {
            client_tls: Some(Arc::new(tls)),
            handshakes: Some(
                HandshakePool::start(HandshakeConfig::default())
                    .map_err(|error| error.to_string())?,
            ),
            ..NetConfig::default()
        };
        let net = Net::new(0, config, sockets).map_err(|error| error.to_string())?;
        let mut config = Config::new(random()?, random()?, random()?);
        // Every call is challenged, as a phone's first call is.
        config.credentials_first = false;
        config.user_agent = "signet-demo".to_owned();
        Ok(Self {
            net,
            agents: UserAgents::new(config, clock::now_ms()),
            outbox: Outbox::default(),
            transport,
            server,
            domain: domain.to_owned(),
            ending,
            opened: BTreeMap::new(),
            keys: Vec::new(),
            open: Vec::new(),
            open_count: 0,
            events: Vec::new(),
            calls: 0,
            failures: 0,
            causes: BTreeMap::new(),
            delays: Delays::default(),
        })
    }

    /// Connects all phones, and registers the accounts.
    pub(crate) fn register(&mut self, accounts: &[Account; 2]) -> Result<(), String> {
        let stranger = Account {
            user: "alice".to_owned(),
            password: "a wrong password".to_owned(),
        };
        for (number, account) in (0u16..).zip(accounts.iter().chain([&stranger])) {
            self.add_phone(number, account)?;
        }
        let keys: Vec<AgentKey> = self.keys.iter().copied().take(accounts.len()).collect();
        let now_ms = clock::now_ms();
        for key in &keys {
            self.agents
                .register(now_ms, *key, 3_600, &mut self.outbox)
                .ok_or("no room to register")?;
        }
        let mut waiting = keys.len();
        self.wait_for("the registrations", |event| {
            match event {
                Event::Registered { .. } => waiting -= 1,
                Event::RegisterFailed { cause, .. } => {
                    return Err(format!("a registration failed: {cause:?}"));
                }
                _ => {}
            }
            Ok(waiting == 0)
        })
    }

    /// Calls with a wrong password: that must not get through.
    pub(crate) fn be_refused(&mut self) -> Result<(), String> {
        let key = self.keys.last().copied().ok_or("no phone")?;
        let to = format!("sip:bob@{}", self.domain);
        let now_ms = clock::now_ms();
        let call = self
            .agents
            .invite(now_ms, key, &to, None, &mut self.outbox)
            .ok_or("no room to call")?;
        self.wait_for("the refusal", |event| match event {
            Event::Failed {
                call: failed,
                cause: Cause::Status(401 | 403 | 407),
            } if *failed == call => Ok(true),
            Event::Incoming { .. } => Err("a call with a wrong password got through".to_owned()),
            Event::Failed {
                call: failed,
                cause,
            } if *failed == call => Err(format!(
                "a call with a wrong password ended with {cause:?}, not with a challenge"
            )),
            _ => Ok(false),
        })
    }

    /// Makes the calls that are due by now and serves the network a while.
    pub(crate) fn call_for(&mut self, rate: u32, started: Instant) -> Result<(), String> {
        let due = (started.elapsed().as_secs_f64() * f64::from(rate)) as u64;
        while self.calls < due {
            self.call()?;
        }
        let next = Duration::from_secs_f64((self.calls + 1) as f64 / f64::from(rate));
        self.serve(next.saturating_sub(started.elapsed()))
    }

    /// Serves the network until no call is under way.
    pub(crate) fn finish(&mut self, patience: Duration) -> Result<(), String> {
        let until = Instant::now() + patience;
        while self.open_count > 0 && Instant::now() < until {
            self.serve(TICK)?;
        }
        for (_, side) in std::mem::take(&mut self.open).into_iter().flatten() {
            if matches!(side, Side::Caller(_)) {
                self.failed("no end within the time allowed");
            }
        }
        Ok(())
    }

    pub(crate) fn calls(&self) -> u64 {
        self.calls
    }

    pub(crate) fn failures(&self) -> u64 {
        self.failures
    }

    /// Calls under way, each counted once.
    pub(crate) fn open(&self) -> u64 {
        self.open_count
    }

    /// Why calls failed, and how often.
    pub(crate) fn causes(&self) -> impl Iterator<Item = (&str, u64)> {
        self.causes
            .iter()
            .map(|(why, count)| (why.as_str(), *count))
    }

    pub(crate) fn delays(&self) -> &Delays {
        &self.delays
    }

    fn add_phone(&mut self, number: u16, account: &Account) -> Result<(), String> {
        let listener = ListenerId(if self.transport == Transport::Udp {
            number
        } else {
            0
        });
        let mut proxy = Target {
            transport: self.transport,
            listener,
            remote: self.server,
            conn: ConnId::NONE,
            may_open: true,
            tls_name: (self.transport == Transport::Tls).then(|| self.domain.as_str().into()),
            lane: sip_msg::Lane::Shared,
            local: None,
        };
        let local = if self.transport == Transport::Udp {
            self.net.local_addr(listener).ok_or("no local address")?
        } else {
            proxy.conn = self
                .net
                .open(&proxy)
                .map_err(|error| format!("cannot connect: {error:?}"))?;
            self.wait_for_connection(proxy.conn)?
        };
        let user = &account.user;
        let config = AgentConfig {
            aor: format!("sip:{user}@{}", self.domain),
            contact: format!("sip:{user}@{local};transport={}", self.transport.uri_name()),
            contact_params: String::new(),
            sent_by: local.to_string(),
            registrar: format!("sip:{}", self.domain),
            credentials: Some(Credentials {
                realm: self.domain.clone(),
                user: user.clone(),
                password: account.password.clone(),
            }),
            proxy,
        };
        let key = self
            .agents
            .add_agent(&config)
            .ok_or("the phone's addresses are no SIP URIs")?;
        self.keys.push(key);
        Ok(())
    }

    fn wait_for_connection(&mut self, conn: ConnId) -> Result<SocketAddr, String> {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            self.serve(TICK)?;
            if let Some(local) = self.opened.get(&conn.0) {
                return Ok(*local);
            }
        }
        Err(format!(
            "no {} connection to the server",
            self.transport.via_name()
        ))
    }

    /// Serves the network until `is_it` says so of an event.
    fn wait_for(
        &mut self,
        what: &str,
        mut is_it: impl FnMut(&Event) -> Result<bool, String>,
    ) -> Result<(), String> {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            self.exchange(TICK)?;
            let events = std::mem::take(&mut self.events);
            for event in &events {
                if is_it(event)? {
                    return Ok(());
                }
            }
        }
        Err(format!("{what} took more than {} s", PATIENCE.as_secs()))
    }

    fn call(&mut self) -> Result<(), String> {
        let key = self.keys.first().copied().ok_or("no phone")?;
        let to = format!("sip:bob@{}", self.domain);
        self.calls += 1;
        match self
            .agents
            .invite(clock::now_ms(), key, &to, None, &mut self.outbox)
        {
            Some(call) => {
                self.open_count += 1;
                self.keep(call, Side::Caller(Instant::now()));
            }
            None => self.failed("no room for another call"),
        }
        Ok(())
    }

    /// Serves the network, at most so long, and does what the phones' users do:
    /// ring, answer, hang up.
    fn serve(&mut self, patience: Duration) -> Result<(), String> {
        self.exchange(patience)?;
        let mut events = std::mem::take(&mut self.events);
        for event in events.drain(..) {
            self.hear(&event);
        }
        self.events = events;
        Ok(())
    }

    /// Sends what is to be sent, waits, takes what came.
    fn exchange(&mut self, patience: Duration) -> Result<(), String> {
        self.ending.check()?;
        self.send();
        let deadline = self
            .agents
            .next_deadline_ms()
            .map(|at_ms| at_ms.saturating_sub(clock::now_ms()));
        let wait = deadline
            .map_or(TICK, Duration::from_millis)
            .min(patience)
            .min(TICK);
        let (agents, outbox, opened) = (&mut self.agents, &mut self.outbox, &mut self.opened);
        self.net
            .poll(Some(wait), |event| {
                let now_ms = clock::now_ms();
                match event {
                    NetEvent::Datagram { flow, bytes } | NetEvent::Message { flow, bytes } => {
                        let mut message = agents.spare_message();
                        if message.fill(bytes, &Limits::default()).is_ok() {
                            agents.handle_message(now_ms, &flow, message, outbox);
                        }
                    }
                    NetEvent::Opened { flow } => _ = opened.insert(flow.conn.0, flow.local),
                    NetEvent::Closed { conn, .. } => agents.handle_closed(now_ms, conn, outbox),
                    NetEvent::SendFailed { cookie, .. } => {
                        agents.handle_send_failed(now_ms, cookie, outbox)
                    }
                    _ => {}
                }
            })
            .map_err(|error| format!("the network failed: {error}"))?;
        self.agents.handle_timers(clock::now_ms(), &mut self.outbox);
        while let Some(event) = self.agents.poll_event() {
            self.events.push(event);
        }
        self.send();
        Ok(())
    }

    fn send(&mut self) {
        self.net.send_outbox(&self.outbox);
        self.net.flush();
        self.outbox.clear();
    }

    fn hear(&mut self, event: &Event) {
        let now_ms = clock::now_ms();
        match *event {
            Event::Incoming { call, .. } => {
                self.keep(call, Side::Callee);
                self.agents.ring(now_ms, call, &mut self.outbox);
                self.agents.answer(now_ms, call, None, &mut self.outbox);
            }
            Event::Answered { call } => {
                if let Some((_, Side::Caller(since))) = self.kept(call) {
                    self.delays.add(since.elapsed());
                }
                self.agents.hang_up(now_ms, call, &mut self.outbox);
            }
            Event::Ended { call, cause } => self.ended(call, cause, cause == Cause::HungUp),
            Event::Failed { call, cause } => self.ended(call, cause, false),
            Event::Disconnected { .. } => {
                *self
                    .causes
                    .entry("a connection was lost".to_owned())
                    .or_default() += 1;
            }
            _ => {}
        }
    }

    fn ended(&mut self, call: CallKey, cause: Cause, is_good: bool) {
        let Some((_, side)) = self.kept(call) else {
            return;
        };
        if let Some(slot) = self.open.get_mut(call.index()) {
            *slot = None;
        }
        if matches!(side, Side::Caller(_)) {
            self.open_count -= 1;
            if !is_good {
                self.failed(&format!("{cause:?}"));
            }
        }
    }

    fn failed(&mut self, why: &str) {
        self.failures += 1;
        *self.causes.entry(why.to_owned()).or_default() += 1;
    }

    fn keep(&mut self, call: CallKey, side: Side) {
        if self.open.len() <= call.index() {
            self.open.resize(call.index() + 1, None);
        }
        if let Some(slot) = self.open.get_mut(call.index()) {
            *slot = Some((call, side));
        }
    }

    fn kept(&self, call: CallKey) -> Option<(CallKey, Side)> {
        self.open
            .get(call.index())
            .copied()
            .flatten()
            .filter(|kept| kept.0 == call)
    }
}

fn random() -> Result<[u8; 16], String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| format!("no randomness: {error}"))?;
    Ok(bytes)
}
