//! Those who mean harm: a neighbour whose domain users call, and a user with
//! credentials of his own. They answer and call like others, keep what passes
//! them, and send it again in every combination that chance has.

mod craft;
mod memory;

use crate::Dice;
use crate::gateway::{Saying, acknowledge};
use crate::server::DOMAIN;
use crate::text::{Dialog, Text};
use crate::warden::{EVIL, MALLORY, Places};
use memory::Memory;
use sip_auth::{Attempt, ClientAuth, RequestParts};
use sip_msg::{Limits, Message};
use std::collections::HashMap;
use std::net::SocketAddr;

/// Requests that wait for a challenge, at most.
const UNANSWERED_MAX: usize = 64;

pub(crate) struct Villain {
    pub(crate) addr: SocketAddr,
    dice: Dice,
    serial: u64,
    transport: &'static str,
    memory: Memory,
    /// His own password, where he has one.
    auth: Option<ClientAuth>,
    /// Requests of his that may be challenged, by Call-ID and CSeq.
    sent: HashMap<(String, u32), String>,
    /// Messages that he has still to make up.
    left: u64,
    /// Names and places that everybody knows.
    users: Vec<String>,
    gateway: SocketAddr,
    server: SocketAddr,
    hosts: Vec<SocketAddr>,
}

impl Villain {
    pub(crate) fn new(
        seed: u64,
        addr: SocketAddr,
        places: &Places,
        users: &[String],
        (uses_streams, messages): (bool, u64),
    ) -> Self {
        let is_user = addr == places.mallory;
        let auth = is_user.then(|| {
            let mut auth = ClientAuth::new();
            auth.add(DOMAIN, MALLORY, "mallory's own");
            auth
        });
        Self {
            addr,
            dice: Dice::new(seed, if is_user { 301 } else { 302 }),
            serial: 0,
            transport: if uses_streams { "TCP" } else { "UDP" },
            memory: Memory::default(),
            auth,
            sent: HashMap::new(),
            left: messages,
            users: users.to_vec(),
            gateway: places.gateway,
            server: places.server,
            hosts: places.hosts.clone(),
        }
    }

    /// His honest name.
    fn own_uri(&self) -> String {
        match self.auth {
            Some(_) => format!("sip:{MALLORY}@{DOMAIN}"),
            None => format!("sip:x@{EVIL}"),
        }
    }

    fn contact(&self) -> String {
        let transport = self.transport.to_ascii_lowercase();
        format!("sip:evil@{};transport={transport}", self.addr)
    }

    fn via(&mut self) -> String {
        self.serial += 1;
        let user = if self.auth.is_some() { "u" } else { "n" };
        format!(
            "SIP/2.0/{} {};branch=z9hG4bKevil{user}{}",
            self.transport, self.addr, self.serial
        )
    }

    /// What he does next by himself, and when he does something again.
    pub(crate) fn act(&mut self) -> Option<(Vec<Saying>, u64)> {
        self.left = self.left.checked_sub(1)?;
        let mut out = Vec::new();
        // Floods come in one go.
        let count = if self.dice.below(12) == 0 { 12 } else { 1 };
        for _ in 0..count {
            let text = self.craft();
            self.note(&text);
            out.push((0, text));
        }
        Some((out, self.dice.between(5, 250)))
    }

    /// An honest registration of his own, as the first thing.
    pub(crate) fn register(&mut self) -> Option<String> {
        self.auth.as_ref()?;
        let (via, contact) = (self.via(), self.contact());
        let text = format!(
            "REGISTER sip:{DOMAIN} SIP/2.0\r\nVia: {via}\r\nMax-Forwards: 70\r\nFrom: <sip:{MALLORY}@{DOMAIN}>;tag=m\r\n\
             To: <sip:{MALLORY}@{DOMAIN}>\r\nCall-ID: mallory-register\r\nCSeq: 1 REGISTER\r\nContact: <{contact}>\r\n\
             Expires: 600\r\nContent-Length: 0\r\n\r\n"
        );
        self.note(&text);
        Some(text)
    }

    /// What he makes of a message.
    pub(crate) fn handle_message(&mut self, bytes: &[u8]) -> Vec<Saying> {
        let text = Text::read(bytes);
        self.memory.keep(bytes, &text);
        if text.is_request() {
            self.handle_request(&text)
        } else {
            self.handle_response(bytes, &text)
        }
    }

    fn handle_request(&mut self, text: &Text) -> Vec<Saying> {
        let (contact, tag) = (self.contact(), format!("e{}", self.dice.below(3)));
        let elsewhere = format!("sip:+1900555@{}", self.gateway);
        match text.method() {
            "ACK" => Vec::new(),
            "INVITE" => {
                let dialog = Dialog::of_called(text, &tag);
                let via = self.via();
                let bye = dialog.request("BYE", 71, &via, &contact);
                let after_ms = self.dice.between(300, 3_000);
                self.memory.dialogs.push(dialog);
                match self.dice.below(10) {
                    0 => Vec::new(),
                    1 => vec![(5, text.answer(486, &tag, &contact, ""))],
                    2 => vec![(5, text.answer(302, &tag, &elsewhere, ""))],
                    // Two forks that no one has.
                    3 => vec![
                        (5, text.answer(200, &tag, &contact, "")),
                        (9, text.answer(200, "other", &elsewhere, "")),
                    ],
                    4 => vec![
                        (5, text.answer(180, &tag, &contact, "")),
                        (90, text.answer(200, &tag, &contact, "")),
                    ],
                    _ => vec![(5, text.answer(200, &tag, &contact, "")), (after_ms, bye)],
                }
            }
            _ if self.dice.below(8) == 0 => vec![(5, text.answer(481, &tag, &contact, ""))],
            _ => vec![(5, text.answer(200, &tag, &contact, ""))],
        }
    }

    fn handle_response(&mut self, bytes: &[u8], text: &Text) -> Vec<Saying> {
        if matches!(text.status(), 401 | 407) {
            return self.answer_challenge(bytes, text).into_iter().collect();
        }
        if text.method() != "INVITE" || text.status() < 200 {
            return Vec::new();
        }
        if text.status() >= 300 {
            // He does not always acknowledge.
            if self.dice.below(4) == 0 {
                return Vec::new();
            }
            return vec![(0, acknowledge(text, text.header("via")))];
        }
        let dialog = Dialog::of_caller(text);
        let (ack, bye, contact) = (self.via(), self.via(), self.contact());
        let out = vec![
            (0, dialog.request("ACK", text.cseq(), &ack, &contact)),
            (
                self.dice.between(200, 2_000),
                dialog.request("BYE", text.cseq() + 1, &bye, &contact),
            ),
        ];
        self.memory.dialogs.push(dialog);
        out
    }

    /// The same request with his own credentials, whatever name it has.
    fn answer_challenge(&mut self, bytes: &[u8], text: &Text) -> Option<Saying> {
        let request = self
            .sent
            .remove(&(text.call_id().to_owned(), text.cseq()))?;
        let auth = self.auth.as_mut()?;
        let mut message = Message::default();
        message.fill(bytes, &Limits::default()).ok()?;
        let mut attempt = Attempt::default();
        auth.handle_challenge(&mut attempt, &message).ok()?;
        let read = Text::read(request.as_bytes());
        let parts = RequestParts {
            method: read.method().as_bytes(),
            uri: read.uri().as_bytes(),
            body: b"",
        };
        let mut line = Vec::new();
        auth.write_credentials(&mut attempt, parts, self.dice.throw(), &mut line);
        let line = String::from_utf8_lossy(&line).into_owned();
        self.memory.credentials.push(line.clone());
        // The next number, and a branch of its own.
        let (old, new) = (read.cseq(), read.cseq().wrapping_add(1) & 0x7fff_ffff);
        let method = read.method();
        self.serial += 1;
        let request = request
            .replacen(
                &format!("CSeq: {old} {method}"),
                &format!("CSeq: {new} {method}"),
                1,
            )
            .replacen(
                "branch=z9hG4bK",
                &format!("branch=z9hG4bKa{}", self.serial),
                1,
            )
            .replacen("Max-Forwards:", &format!("{line}Max-Forwards:"), 1);
        Some((1, request))
    }

    fn note(&mut self, request: &str) {
        let read = Text::read(request.as_bytes());
        if self.sent.len() >= UNANSWERED_MAX {
            self.sent.clear();
        }
        let key = (read.call_id().to_owned(), read.cseq());
        self.sent.insert(key, request.to_owned());
    }
}
