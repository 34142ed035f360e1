//! What nobody thought of: requests, responses, cancellations, failures and
//! answers from outside in any order, many of them broken or about something
//! else. Nothing panics, what is sent can be read, and at the end nothing is
//! left.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Arc;

use crate::common::*;
use sip_auth::Reply;
use sip_engine::settings::WhenGone;
use sip_engine::settings::{AuthSettings, Inbound, MediaSettings, MediaUse, Mode, Settings};
use sip_engine::{Effect, ParkId};
use sip_locate::Hop;
use sip_media::{Answered, Ask, Command, EngineId, Failure, Given};
use sip_msg::HeaderName;

/// A small generator of numbers; each seed replays.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }

    fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

const METHODS: [&str; 9] = [
    "INVITE",
    "INVITE",
    "UPDATE",
    "PRACK",
    "OPTIONS",
    "BYE",
    "CANCEL",
    "ACK",
    "NEWMETHOD",
];
const URIS: [&str; 8] = [
    "sip:bob@example.org",
    "sip:nobody@example.org",
    "sip:carol@example.com",
    "sip:carol@203.0.113.7;transport=tcp",
    "sips:carol@example.com",
    "sip:192.0.2.1:5060;lr",
    "tel:+49123",
    "sip:example.org;maddr=192.0.2.1",
];
const EXTRAS: [&str; 8] = [
    "",
    "",
    "Route: <sip:192.0.2.1;lr>\r\n",
    "Route: <sip:203.0.113.8>, <sip:192.0.2.1;lr>\r\n",
    "Route: <sip:AAAA@192.0.2.1;lr>, <sip:x@203.0.113.9;lr>\r\n",
    "Max-Breadth: 1\r\n",
    "Proxy-Require: x\r\n",
    "Max-Forwards: 1\r\n",
];
const STATUSES: [u16; 12] = [100, 180, 183, 200, 202, 302, 401, 407, 486, 503, 603, 500];

fn settings_of(dice: &mut Dice) -> Settings {
    let mut chosen = match dice.below(3) {
        0 => settings(),
        _ => forwarding(*dice.of(&TRANSPORTS), "203.0.113.9:5070"),
    };
    chosen.mode = *dice.of(&[
        Mode::Stateful,
        Mode::Stateful,
        Mode::Stateful,
        Mode::Stateless,
        Mode::Redirect,
    ]);
    if dice.below(3) == 0 {
        chosen.authenticate = Some(AuthSettings::default());
        chosen.inbound = *dice.of(&[Inbound::Anyone, Inbound::Trusted]);
    }
    if dice.below(2) == 0 {
        chosen.media = Some(Arc::new(MediaSettings {
            listeners: vec![*dice.of(&[MediaUse::Always, MediaUse::Always, MediaUse::Auto]); 4],
            when_gone: *dice.of(&[WhenGone::Refuse, WhenGone::Pass]),
            ..MediaSettings::default()
        }));
    }
    chosen.proxy.branches_max = 1 + dice.below(6);
    chosen.bounds.contexts_max = 1 + dice.below(40);
    chosen.bounds.client_transactions_max = 1 + dice.below(60);
    chosen
}

fn bed_of(dice: &mut Dice) -> Bed {
    let mut bed = Bed::new(settings_of(dice));
    for n in 0..dice.below(5) {
        let transport = *dice.of(&TRANSPORTS);
        let host = *dice.of(&["10.0.0.9", "203.0.113.9", "phone.example.net"]);
        let contact = format!(
            "sip:bob@{host}:{};transport={}",
            5060 + n,
            transport.uri_name()
        );
        let way = flow(transport, &format!("203.0.113.9:{}", 40_000 + n));
        let q = *dice.of(&[1000, 1000, 500]);
        let reg_id = (dice.below(3) == 0).then_some(n as u32 + 1);
        let flow = (dice.below(3) > 0).then_some(way);
        bed.register_with("sip:bob@example.org", &contact, flow, |b| {
            b.q = q;
            b.reg_id = reg_id;
            b.instance = reg_id.map(|_| b"<urn:x>".as_slice().into());
        });
    }
    bed
}

struct Run {
    bed: Bed,
    dice: Dice,
    /// What the server forwarded, to be answered.
    forwarded: Vec<Sent>,
    /// What was received, to be repeated, cancelled or acknowledged.
    received: Vec<Request>,
    /// Final answers.
    finals: usize,
    parks: Vec<(ParkId, bool)>,
    /// What an engine was asked.
    asked: Vec<(ParkId, Box<Ask>)>,
}

/// The text with a session description, one of a few.
fn described(dice: &mut Dice, text: String) -> String {
    let Some((head, _)) = text.split_once("Content-Length:") else {
        return text;
    };
    let body = format!("v=0\r\ns={}\r\n", dice.below(3));
    format!(
        "{head}Content-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut dice = Dice(seed);
        Self {
            bed: bed_of(&mut dice),
            dice,
            forwarded: Vec::new(),
            received: Vec::new(),
            finals: 0,
            parks: Vec::new(),
            asked: Vec::new(),
        }
    }

    fn step(&mut self) {
        let sent = match self.dice.below(14) {
            0..=3 => self.request(),
            4..=7 => self.respond(),
            8 => self.answer_park(),
            9 => self.fail(),
            10 => {
                let ms = [1, 30, 600, 5_000, 40_000][self.dice.below(5)];
                self.bed.wait(ms)
            }
            11 | 12 => self.answer_media(),
            _ => self.again(),
        };
        self.take(sent);
    }

    fn request(&mut self) -> Vec<Sent> {
        let transport = *self.dice.of(&TRANSPORTS);
        let method = *self.dice.of(&METHODS);
        let uri = *self.dice.of(&URIS);
        let mut request = request(method, uri, transport);
        let extra = *self.dice.of(&EXTRAS);
        if extra.starts_with("Max-F") {
            request.more = extra.into();
        } else {
            request.more.push_str(extra);
        }
        request.call_id = format!("call-{}", self.dice.below(4));
        if self.dice.below(3) == 0 {
            request.to.push_str(";tag=t");
        }
        if self.dice.below(4) == 0 {
            request.from = "<sip:alice@example.org>;tag=a".into();
        }
        if matches!(method, "CANCEL" | "ACK") && !self.received.is_empty() {
            let at = self.dice.below(self.received.len());
            request.via = self.received[at].via.clone();
            request.uri = self.received[at].uri.clone();
        }
        let routes = match self.forwarded.is_empty() || self.dice.below(3) > 0 {
            true => String::new(),
            false => {
                let at = self.dice.below(self.forwarded.len());
                let routes = self.forwarded[at].all(HeaderName::RecordRoute);
                let routes = routes.iter().map(|value| format!("Route: {value}\r\n"));
                routes.collect()
            }
        };
        request.more.push_str(&routes);
        let mut text = request.text();
        if self.dice.below(2) == 0 {
            text = described(&mut self.dice, text);
        }
        let text = self.damage(text);
        self.received.push(request);
        self.bed.receive(&alice(transport), &text)
    }

    fn again(&mut self) -> Vec<Sent> {
        if self.received.is_empty() {
            return Vec::new();
        }
        let at = self.dice.below(self.received.len());
        let text = self.received[at].text();
        let transport = *self.dice.of(&TRANSPORTS);
        self.bed.receive(&alice(transport), &text)
    }

    fn respond(&mut self) -> Vec<Sent> {
        if self.forwarded.is_empty() {
            return Vec::new();
        }
        let at = self.dice.below(self.forwarded.len());
        let status = *self.dice.of(&STATUSES);
        let to = &self.forwarded[at];
        let text = response(to, status, "r", "Contact: <sip:x@203.0.113.1>\r\n");
        let way = answering(to);
        let text = match self.dice.below(2) {
            0 => described(&mut self.dice, text),
            _ => text,
        };
        let text = self.damage(text);
        self.bed.receive(&way, &text)
    }

    /// Now and then a message that somebody has cut or scribbled on.
    fn damage(&mut self, text: String) -> String {
        if self.dice.below(8) > 0 {
            return text;
        }
        let mut bytes = text.into_bytes();
        match self.dice.below(3) {
            0 => bytes.truncate(self.dice.below(bytes.len())),
            1 => {
                let at = self.dice.below(bytes.len());
                bytes[at] = *self.dice.of(b" \r\n;,<>:@\"x0");
            }
            _ => {
                let at = self.dice.below(bytes.len());
                let end = (at + self.dice.below(20)).min(bytes.len());
                bytes.drain(at..end);
            }
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn answer_park(&mut self) -> Vec<Sent> {
        if self.parks.is_empty() {
            return Vec::new();
        }
        let (park, is_credential) = *self.dice.of(&self.parks.clone());
        let hop = |n: u8| Hop {
            transport: TRANSPORTS[usize::from(n) % 3],
            addr: std::net::SocketAddr::from(([203, 0, 113, n], 5060)),
            tls_name: None,
        };
        let hops: Vec<_> = (0..self.dice.below(4)).map(|n| hop(n as u8)).collect();
        let answer = if self.dice.below(2) == 0 {
            Ok(Reply::Unknown)
        } else {
            Err(NO_ANSWER)
        };
        self.bed.act(|shard, now, out| match is_credential {
            true => shard.handle_credential(now, park, answer, out),
            false => shard.handle_resolved(now, park, Ok(hops), out),
        })
    }

    /// An engine answers, perhaps a second time.
    fn answer_media(&mut self) -> Vec<Sent> {
        if self.asked.is_empty() {
            return Vec::new();
        }
        // One of the last, most of which still wait.
        let back = 1 + self.dice.below(self.asked.len().min(3));
        let (park, ask) = self.asked[self.asked.len() - back].clone();
        let engine = EngineId(self.dice.below(3) as u32);
        let given = |sdp: &[u8]| Given {
            engine,
            sdp: Some(sdp.into()),
        };
        let result = match (self.dice.below(8), ask.command) {
            (0, _) => Err(Failure::Gone),
            (1, _) => Err(Failure::Refused("no".into())),
            (2, _) | (_, Command::Choose) => Ok(Given { engine, sdp: None }),
            (3, _) => Ok(given(b"")),
            _ => Ok(given(b"v=0\r\ns=led\r\n")),
        };
        let answered = Answered {
            waiter: park.0,
            ask,
            result,
        };
        self.bed
            .act(|shard, now, out| shard.handle_media(now, answered, out))
    }

    fn fail(&mut self) -> Vec<Sent> {
        let cookie = match self.forwarded.is_empty() || self.dice.below(5) == 0 {
            true => self.dice.below(usize::MAX) as u64,
            false => {
                let at = self.dice.below(self.forwarded.len());
                self.forwarded[at].cookie
            }
        };
        self.bed
            .act(|shard, now, out| shard.handle_send_failed(now, cookie, out))
    }

    /// Looks at what the server sent.
    fn take(&mut self, sent: Vec<Sent>) {
        for message in sent {
            match message.status() {
                0 => {
                    let forwards: u32 = match message.header(HeaderName::MaxForwards) {
                        Some(left) => left.parse().unwrap(),
                        None => panic!("no Max-Forwards:\n{}", message.text),
                    };
                    assert!(forwards <= 70);
                    let branch = message.branch();
                    assert!(branch.starts_with("z9hG4bK"), "{branch}");
                    if message.method() != "ACK" {
                        self.forwarded.push(message);
                    }
                }
                200.. => self.finals += 1,
                _ => {}
            }
        }
        for effect in std::mem::take(&mut self.bed.effects) {
            match effect {
                Effect::FindCredential { park, .. } => self.parks.push((park, true)),
                Effect::Resolve { park, .. } => self.parks.push((park, false)),
                Effect::Media { park, ask } => self.asked.extend(park.map(|park| (park, ask))),
                Effect::SaveBindings { .. } => panic!("nobody registers here"),
                Effect::AskHook { .. } => panic!("there is no hook here"),
                Effect::Close(_)
                | Effect::Removed { .. }
                | Effect::Odd(_)
                | Effect::EndCall(_)
                | Effect::KeepFor { .. }
                | Effect::Proved(_)
                | Effect::Gateway { .. }
                | Effect::FlowEnded { .. }
                | Effect::Limited { .. }
                | Effect::Trunk { .. } => {}
            }
        }
    }
}

#[test]
fn nothing_panics_and_nothing_is_left() {
    let mut forwarded = 0;
    let mut answered = 0;
    let mut led = 0;
    for seed in 0..2_500 {
        let mut run = Run::new(seed);
        for _ in 0..60 {
            run.step();
        }
        let rest = run.bed.wait(500_000);
        run.take(rest);
        assert_eq!(run.bed.shard.in_flight(), 0, "seed {seed}");
        assert_eq!(run.bed.shard.next_deadline_ms(), None, "seed {seed}");
        forwarded += run.forwarded.len();
        let is_led = |of: &&Sent| of.text.ends_with("s=led\r\n");
        led += run.forwarded.iter().filter(is_led).count();
        answered += run.finals;
    }
    // It went somewhere.
    assert!(forwarded > 10_000, "{forwarded}");
    assert!(answered > 10_000, "{answered}");
    assert!(led > 100, "{led}");
}
