//! Two sets of user agents, or one and a scripted peer, over a virtual wire.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use sip_dialog::{AgentConfig, AgentKey, Config, Credentials, Event, UserAgents};
use sip_msg::write::reason_phrase;
use sip_msg::{
    ConnId, Flow, Limits, ListenerId, Message, Method, Outbox, ResponseWriter, Target, Transport,
};
use std::net::SocketAddr;

/// How long a message travels.
pub const DELAY_MS: u64 = 10;

/// A message under way.
pub struct Packet {
    pub due_ms: u64,
    pub from: SocketAddr,
    pub to: SocketAddr,
    pub bytes: Vec<u8>,
}

/// One end of the wire.
pub struct End {
    pub addr: SocketAddr,
    pub agents: UserAgents,
    pub events: Vec<(u64, Event)>,
}

/// The wire, its clock, and what went over it.
pub struct Wire {
    pub now_ms: u64,
    pub transport: Transport,
    pub ends: Vec<End>,
    pub packets: Vec<Packet>,
    /// Every message that was sent, lost ones too: when, from whom, what.
    pub sent: Vec<(u64, SocketAddr, String)>,
    /// What arrived at an address where no end is.
    pub unclaimed: Vec<Message>,
    pub lose: Box<dyn FnMut(&str) -> bool>,
}

pub fn addr(port: u16) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], port))
}

pub fn target(transport: Transport, remote: SocketAddr) -> Target {
    Target {
        transport,
        listener: ListenerId(0),
        remote,
        conn: if transport.is_reliable() {
            ConnId(7)
        } else {
            ConnId::NONE
        },
        may_open: true,
        tls_name: None,
        lane: sip_msg::Lane::Shared,
        local: None,
    }
}

impl Wire {
    /// Ends at ports 5060, 5061 and so on.
    pub fn new(transport: Transport, ends: u16, change: impl Fn(&mut Config)) -> Self {
        let ends = (0..ends).map(|n| {
            let seed = n as u8 + 1;
            let mut config = Config::new([seed; 16], [seed + 64; 16], [seed + 128; 16]);
            change(&mut config);
            End {
                addr: addr(5060 + n),
                agents: UserAgents::new(config, 1_000),
                events: Vec::new(),
            }
        });
        Self {
            now_ms: 1_000,
            transport,
            ends: ends.collect(),
            packets: Vec::new(),
            sent: Vec::new(),
            unclaimed: Vec::new(),
            lose: Box::new(|_| false),
        }
    }

    /// Adds an agent whose proxy is at port `proxy`.
    pub fn add(&mut self, end: usize, user: &str, proxy: u16) -> AgentKey {
        let at = self.ends[end].addr;
        let config = AgentConfig {
            aor: format!("sip:{user}@example.org"),
            contact: format!("sip:{user}@{at};transport={}", self.transport.uri_name()),
            contact_params: String::new(),
            sent_by: at.to_string(),
            registrar: "sip:example.org".to_owned(),
            credentials: Some(Credentials {
                realm: "example.org".to_owned(),
                user: user.to_owned(),
                password: "secret".to_owned(),
            }),
            proxy: target(self.transport, addr(proxy)),
        };
        self.ends[end]
            .agents
            .add_agent(&config)
            .expect("the agent's strings are good")
    }

    /// Lets the application at one end do something, and sends what follows.
    pub fn act<R>(
        &mut self,
        end: usize,
        act: impl FnOnce(&mut UserAgents, u64, &mut Outbox) -> R,
    ) -> R {
        let mut out = Outbox::default();
        let result = act(&mut self.ends[end].agents, self.now_ms, &mut out);
        self.collect(end, &out);
        result
    }

    fn collect(&mut self, end: usize, out: &Outbox) {
        let from = self.ends[end].addr;
        for send in &out.sends {
            let bytes = out.bytes[send.start..send.end].to_vec();
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let message = Message::parse(&bytes, &Limits::default()).expect("what is sent parses");
            message.validate().expect("what is sent is valid");
            self.sent.push((self.now_ms, from, text.clone()));
            if !(self.lose)(&text) {
                self.packets.push(Packet {
                    due_ms: self.now_ms + DELAY_MS,
                    from,
                    to: send.to.remote,
                    bytes,
                });
            }
        }
        while let Some(event) = self.ends[end].agents.poll_event() {
            self.ends[end].events.push((self.now_ms, event));
        }
    }

    /// Runs until nothing is due before `until_ms`.
    pub fn run_until(&mut self, until_ms: u64) {
        loop {
            let packet = self.packets.iter().map(|p| p.due_ms).min();
            let timer = self
                .ends
                .iter()
                .filter_map(|e| e.agents.next_deadline_ms())
                .min();
            let Some(next) = packet
                .into_iter()
                .chain(timer)
                .min()
                .filter(|&next| next <= until_ms)
            else {
                break;
            };
            self.now_ms = self.now_ms.max(next);
            let now_ms = self.now_ms;
            for end in 0..self.ends.len() {
                self.act(end, |agents, now_ms, out| agents.handle_timers(now_ms, out));
            }
            while let Some(at) = self.packets.iter().position(|p| p.due_ms <= now_ms) {
                let packet = self.packets.remove(at);
                self.deliver(&packet);
            }
        }
        self.now_ms = self.now_ms.max(until_ms);
    }

    pub fn run_for(&mut self, ms: u64) {
        self.run_until(self.now_ms + ms);
    }

    pub fn deliver(&mut self, packet: &Packet) {
        let Some(end) = self.ends.iter().position(|e| e.addr == packet.to) else {
            let message =
                Message::parse(&packet.bytes, &Limits::default()).expect("what is sent parses");
            self.unclaimed.push(message);
            return;
        };
        let flow = Flow {
            transport: self.transport,
            listener: ListenerId(0),
            local: packet.to,
            remote: packet.from,
            conn: if self.transport.is_reliable() {
                ConnId(7)
            } else {
                ConnId::NONE
            },
        };
        self.act(end, |agents, now_ms, out| {
            let mut message = agents.spare_message();
            message
                .fill(&packet.bytes, &Limits::default())
                .expect("what is delivered parses");
            agents.handle_message(now_ms, &flow, message, out);
        });
    }

    /// Delivers a message of the script's own.
    pub fn inject(&mut self, end: usize, from: u16, text: &str) {
        let packet = Packet {
            due_ms: self.now_ms,
            from: addr(from),
            to: self.ends[end].addr,
            bytes: text.as_bytes().to_vec(),
        };
        self.deliver(&packet);
    }

    /// Delivers a response to a request that the script got.
    pub fn respond(
        &mut self,
        end: usize,
        from: u16,
        request: &Message,
        status: u16,
        tag: &str,
        lines: &[&str],
    ) {
        let mut bytes = Vec::new();
        let mut writer = ResponseWriter::begin(
            &mut bytes,
            request,
            status,
            reason_phrase(status),
            tag.as_bytes(),
        );
        for line in lines {
            let (name, value) = line.split_once(": ").expect("a header line");
            writer.header(name, value.as_bytes());
        }
        writer.finish(b"");
        self.inject(end, from, &String::from_utf8(bytes).expect("text"));
    }

    /// The oldest message that arrived where no end is.
    pub fn next_unclaimed(&mut self) -> Message {
        self.run_for(DELAY_MS);
        assert!(!self.unclaimed.is_empty(), "nothing came");
        self.unclaimed.remove(0)
    }

    /// The same, and it has that method.
    pub fn expect(&mut self, method: Method) -> Message {
        let message = self.next_unclaimed();
        assert_eq!(
            message.method(),
            method,
            "{}",
            String::from_utf8_lossy(message.bytes())
        );
        message
    }

    /// Start lines of everything that was sent, without their times.
    pub fn start_lines(&self) -> Vec<String> {
        let short = |text: &str| {
            let line = text.lines().next().unwrap_or_default();
            match line.strip_prefix("SIP/2.0 ") {
                Some(status) => status[..3].to_owned(),
                None => line.split(' ').next().unwrap_or_default().to_owned(),
            }
        };
        self.sent.iter().map(|(_, _, text)| short(text)).collect()
    }

    pub fn events(&self, end: usize) -> Vec<Event> {
        self.ends[end]
            .events
            .iter()
            .map(|(_, event)| *event)
            .collect()
    }

    /// Takes the events so far.
    pub fn take_events(&mut self, end: usize) -> Vec<Event> {
        self.ends[end]
            .events
            .drain(..)
            .map(|(_, event)| event)
            .collect()
    }

    /// Nothing is left anywhere, after all timers ran out.
    pub fn assert_empty(&mut self) {
        self.run_for(300_000);
        for end in &self.ends {
            let live = end.agents.live();
            assert_eq!(
                (live.calls, live.requests, live.transactions),
                (0, 0, 0),
                "{live:?}"
            );
            assert_eq!(end.agents.next_deadline_ms(), None);
            assert_eq!(end.agents.counters().malformed, 0);
        }
    }
}
