//! A computer with phones on it, and the people who use them.

use crate::Dice;
use crate::server::DOMAIN;
use sip_dialog::{
    AgentConfig, AgentKey, CallKey, Cause, Config, Credentials, Event, RequestKey, UserAgents,
};
use sip_msg::{ConnId, ListenerId, Outbox, Target, Transport};
use std::collections::HashSet;
use std::net::SocketAddr;

/// Something that a person decided to do.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    Register(usize),
    Unregister(usize),
    Reconnect(usize),
    Call(usize),
    Ask(usize),
    Ring(CallKey),
    Answer(CallKey),
    Reject(CallKey, u16),
    HangUp(CallKey),
}

/// What came of an act, for the auditor.
pub(crate) enum Made {
    Nothing,
    Call(CallKey),
    Request(RequestKey),
}

/// One phone.
pub(crate) struct Phone {
    pub(crate) key: AgentKey,
    pub(crate) user: usize,
    contact: String,
    /// Whether its password is not its user's.
    is_impostor: bool,
}

pub(crate) struct Host {
    pub(crate) agents: UserAgents,
    pub(crate) phones: Vec<Phone>,
    pub(crate) uses_streams: bool,
    server: SocketAddr,
    addr: SocketAddr,
    dice: Dice,
    /// Whether people still do new things.
    pub(crate) is_busy: bool,
    /// Whether every call that rings is answered, and none is given up.
    is_dutiful: bool,
    /// Whom people call besides each other, and how often in a thousand times.
    pub(crate) strangers: (Vec<String>, u64),
    /// Whether calls to people like themselves must succeed.
    pub(crate) counts_on_friends: bool,
    /// Calls to people like themselves, which must succeed where others mean harm.
    friendly: HashSet<CallKey>,
    /// Calls with a password that is wrong, which nobody may answer.
    impostures: HashSet<CallKey>,
}

/// Acts that are due later.
pub(crate) type Later = Vec<(u64, Act)>;

impl Host {
    pub(crate) fn new(
        seed: u64,
        number: usize,
        addr: SocketAddr,
        server: SocketAddr,
        uses_streams: bool,
        is_dutiful: bool,
    ) -> Self {
        let mut dice = Dice::new(seed, 100 + number as u64);
        let mut config = Config::new(dice.bytes(), dice.bytes(), dice.bytes());
        config.setup_timeout_ms = dice.between(20_000, 60_000);
        config.credentials_first = dice.below(2) == 0;
        config.linger = dice.below(4) > 0;
        Self {
            agents: UserAgents::new(config, 0),
            phones: Vec::new(),
            uses_streams,
            server,
            addr,
            dice,
            is_busy: true,
            is_dutiful,
            strangers: (Vec::new(), 0),
            counts_on_friends: false,
            friendly: HashSet::new(),
            impostures: HashSet::new(),
        }
    }

    /// Whether something has come of a wrong password.
    pub(crate) fn is_let_in_falsely(&mut self, event: &Event) -> bool {
        match *event {
            Event::Registered { agent, .. } => self
                .phones
                .iter()
                .any(|phone| phone.key == agent && phone.is_impostor),
            Event::Answered { call } => self.impostures.contains(&call),
            Event::Failed { call, .. } => {
                self.impostures.remove(&call);
                false
            }
            _ => false,
        }
    }

    /// The users who have a phone here, and its contact.
    pub(crate) fn contacts(&self) -> impl Iterator<Item = (usize, String)> + '_ {
        self.phones
            .iter()
            .map(|phone| (phone.user, phone.contact.clone()))
    }

    /// The cause, where a call that had to succeed has failed.
    pub(crate) fn is_let_down(&mut self, event: &Event) -> Option<Cause> {
        match *event {
            Event::Failed { call, cause } => self.friendly.remove(&call).then_some(cause),
            Event::Ended { call, .. } => {
                self.friendly.remove(&call);
                None
            }
            _ => None,
        }
    }

    /// Gives a user a phone here.
    pub(crate) fn add_phone(&mut self, user: usize, name: &str, conn: ConnId) {
        self.add(user, name, conn, "secret");
    }

    /// Gives somebody a phone here who would like to be that user.
    pub(crate) fn add_impostor(&mut self, user: usize, name: &str, conn: ConnId) {
        self.add(user, name, conn, "guess");
    }

    fn add(&mut self, user: usize, name: &str, conn: ConnId, password: &str) {
        let transport = self.transport();
        // Two phones of a user on one host differ by their contacts.
        let line = self.phones.len();
        let q = ["", ";q=0.5", ";q=1"][self.dice.below(3) as usize];
        let contact = format!(
            "sip:{name}-{line}@{};transport={}",
            self.addr,
            transport.uri_name()
        );
        let config = AgentConfig {
            aor: format!("sip:{name}@{DOMAIN}"),
            contact,
            contact_params: q.to_owned(),
            sent_by: self.addr.to_string(),
            registrar: format!("sip:{DOMAIN}"),
            credentials: Some(Credentials {
                realm: DOMAIN.to_owned(),
                user: name.to_owned(),
                password: password.to_owned(),
            }),
            proxy: self.proxy(conn),
        };
        if let Some(key) = self.agents.add_agent(&config) {
            let contact = config.contact;
            self.phones.push(Phone {
                key,
                user,
                contact,
                is_impostor: password != "secret",
            });
        }
    }

    /// Gives a phone a new stream.
    pub(crate) fn connect(&mut self, phone: usize, conn: ConnId) {
        let proxy = self.proxy(conn);
        if let Some(phone) = self.phones.get(phone) {
            self.agents.set_proxy(phone.key, proxy);
        }
    }

    /// Does what somebody decided to do.
    pub(crate) fn act(
        &mut self,
        now_ms: u64,
        act: Act,
        users: &[String],
        out: &mut Outbox,
        later: &mut Later,
    ) -> Made {
        match act {
            Act::Register(phone) => {
                let expires_s = self.dice.between(60, 600) as u32;
                return self.register(now_ms, phone, expires_s, out);
            }
            Act::Unregister(phone) => return self.register(now_ms, phone, 0, out),
            Act::Reconnect(_) => {}
            Act::Call(phone) => {
                if let Some((key, to)) = self.someone_else(phone, users) {
                    let made = self.agents.invite(now_ms, key, &to, None, out);
                    if let Some(call) = made {
                        if self.phones.get(phone).is_some_and(|of| of.is_impostor) {
                            self.impostures.insert(call);
                        }
                        if self.counts_on_friends && !self.strangers.0.contains(&to) {
                            self.friendly.insert(call);
                        }
                        if !self.is_dutiful && self.dice.thousandths(200) {
                            later.push((now_ms + self.dice.between(0, 6_000), Act::HangUp(call)));
                        }
                        return Made::Call(call);
                    }
                }
            }
            Act::Ask(phone) => {
                if let Some((key, to)) = self.someone_else(phone, users) {
                    let made = if self.dice.below(2) == 0 {
                        self.agents.options(now_ms, key, &to, out)
                    } else {
                        self.agents
                            .message(now_ms, key, &to, b"text/plain", b"hello", out)
                    };
                    return made.map_or(Made::Nothing, Made::Request);
                }
            }
            Act::Ring(call) => _ = self.agents.ring(now_ms, call, out),
            Act::Answer(call) => _ = self.agents.answer(now_ms, call, None, out),
            Act::Reject(call, status) => _ = self.agents.reject(now_ms, call, status, out),
            Act::HangUp(call) => _ = self.agents.hang_up(now_ms, call, out),
        }
        Made::Nothing
    }

    /// What people make of what they hear.
    pub(crate) fn handle_event(&mut self, now_ms: u64, event: &Event, later: &mut Later) {
        let dice = &mut self.dice;
        match *event {
            Event::Incoming { call, .. } => {
                let mut at_ms = now_ms + dice.between(0, 300);
                if dice.below(5) > 0 {
                    later.push((at_ms, Act::Ring(call)));
                    at_ms += dice.between(0, 4_000);
                }
                let mood = if self.is_dutiful { 0 } else { dice.below(100) };
                match mood {
                    0..70 => later.push((at_ms, Act::Answer(call))),
                    70..85 => {
                        let status = [486, 480, 603, 302, 404, 500][dice.below(6) as usize];
                        later.push((at_ms, Act::Reject(call, status)));
                    }
                    _ => {}
                }
                // Nobody lets a phone ring for ever, not even when the CANCEL was lost.
                later.push((at_ms + 90_000, Act::Reject(call, 480)));
            }
            Event::Answered { call } => {
                later.push((now_ms + dice.between(0, 8_000), Act::HangUp(call)));
            }
            Event::Established { call } => {
                if dice.thousandths(300) {
                    later.push((now_ms + dice.between(0, 8_000), Act::HangUp(call)));
                } else {
                    // The other side should hang up; if it never does, it is gone.
                    later.push((now_ms + 60_000, Act::HangUp(call)));
                }
            }
            Event::Registered {
                agent, expires_s, ..
            } => {
                let Some(at) = self.phone_of(agent) else {
                    return;
                };
                let dice = &mut self.dice;
                let act = match expires_s {
                    0 => (now_ms + dice.between(0, 2_000), Act::Register(at)),
                    _ if !self.is_dutiful && dice.below(10) == 0 => {
                        (now_ms + dice.between(1_000, 30_000), Act::Unregister(at))
                    }
                    _ => (
                        now_ms + u64::from(expires_s) * dice.between(300, 900),
                        Act::Register(at),
                    ),
                };
                later.push(act);
            }
            Event::RegisterFailed { agent, .. } => {
                if let Some(at) = self.phone_of(agent) {
                    later.push((now_ms + self.dice.between(500, 5_000), Act::Register(at)));
                }
            }
            Event::Disconnected { agent, .. } => {
                if let Some(at) = self.phone_of(agent) {
                    later.push((now_ms + self.dice.between(0, 1_000), Act::Reconnect(at)));
                }
            }
            Event::Provisional { .. }
            | Event::BodyRefused { .. }
            | Event::Ended { .. }
            | Event::Failed { .. }
            | Event::Replied { .. }
            | Event::Received { .. } => {}
        }
    }

    fn register(&mut self, now_ms: u64, phone: usize, expires_s: u32, out: &mut Outbox) -> Made {
        let Some(phone) = self.phones.get(phone) else {
            return Made::Nothing;
        };
        let made = self.agents.register(now_ms, phone.key, expires_s, out);
        made.map_or(Made::Nothing, Made::Request)
    }

    fn phone_of(&self, agent: AgentKey) -> Option<usize> {
        self.phones.iter().position(|phone| phone.key == agent)
    }

    /// Who is called: any user but the phone's own, or at times nobody at all.
    fn someone_else(&mut self, phone: usize, users: &[String]) -> Option<(AgentKey, String)> {
        let phone = self.phones.get(phone)?;
        if !self.is_dutiful && self.dice.below(50) == 0 {
            return Some((phone.key, format!("sip:nobody@{DOMAIN}")));
        }
        let (strangers, often) = &self.strangers;
        if self.dice.thousandths(*often) {
            let at = self.dice.below(strangers.len() as u64) as usize;
            return Some((phone.key, strangers.get(at)?.clone()));
        }
        let other = self.dice.below(users.len() as u64 - 1) as usize;
        let other = if other >= phone.user {
            other + 1
        } else {
            other
        };
        Some((phone.key, format!("sip:{}@{DOMAIN}", users.get(other)?)))
    }

    fn transport(&self) -> Transport {
        if self.uses_streams {
            Transport::Tcp
        } else {
            Transport::Udp
        }
    }

    fn proxy(&self, conn: ConnId) -> Target {
        Target {
            transport: self.transport(),
            listener: ListenerId(0),
            remote: self.server,
            conn,
            may_open: true,
            tls_name: None,
            lane: sip_msg::Lane::Shared,
            local: None,
        }
    }
}
