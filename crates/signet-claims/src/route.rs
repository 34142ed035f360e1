//! Whom a stranger reaches who holds the tokens of a dialog.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU8;

use sip_engine::routes::{Connections, Gateway, GatewayGroup, NextHop, Routes};
use sip_engine::settings::{Inbound, Mode, Settings, TrustedPeer};
use sip_msg::header::NameAddr;
use sip_msg::{HeaderName, Message, Transport};

use crate::world::{DOMAIN, Sent, World, answer, flow, settings};
use crate::{parts, replaced};

const ALICE: ([u8; 4], u16) = ([198, 51, 100, 1], 5060);
const BOB: ([u8; 4], u16) = ([198, 51, 100, 20], 5060);
const MALLORY: ([u8; 4], u16) = ([198, 51, 100, 66], 5060);
const STRANGER: ([u8; 4], u16) = ([198, 51, 100, 99], 5060);
const GATEWAY: ([u8; 4], u16) = ([203, 0, 113, 9], 5060);

/// Messages of one input at most.
const MESSAGES_MAX: usize = 6;
/// Tokens that the stranger remembers.
const TOKENS_MAX: usize = 10;

/// Nothing reaches the gateway, another user or a third party without proof.
///
/// alice has called mallory, who is outside, and mallory has answered: so there
/// is a dialog, and mallory has seen its tokens. The input is what he and other
/// strangers send, one message after the other. Its first byte is a digit whose
/// bits say whether strangers may call users, whether alice is behind a TCP
/// connection, and whether the server keeps state; the first byte of each
/// message says who sends it. `T0` to `T9` stand for the tokens that strangers
/// have seen so far, `BRANCH` for the branch of alice's INVITE.
///
/// A request that such a message leads to goes to alice or to mallory, the
/// dialog's two ends, or to bob where strangers may call him; and it comes in
/// nobody's name who is a user. No name is resolved, no binding changes. A
/// response goes back to its sender, or to alice, who asked.
pub fn route(data: &[u8]) {
    let Some((mode, rest)) = data.split_first() else {
        return;
    };
    let mode = mode.wrapping_sub(b'0');
    let mut play = Play::new(mode & 1 != 0, mode & 2 != 0, mode & 4 != 0);
    for part in parts(rest).take(MESSAGES_MAX) {
        play.attack(part);
    }
}

struct Play {
    world: World,
    open_inbound: bool,
    branch: Vec<u8>,
    tokens: Vec<Vec<u8>>,
    /// Who has sent something: an answer may be repeated after others have spoken.
    asked: Vec<IpAddr>,
}

fn server(open_inbound: bool, is_stateless: bool) -> Settings {
    let gateway: SocketAddr = GATEWAY.into();
    let next_hop = NextHop {
        host: gateway.ip().to_string().into(),
        port: Some(gateway.port()),
        transport: Some(Transport::Udp),
        connections: Connections::Kept(NonZeroU8::MIN),
    };
    let group = GatewayGroup {
        name: "pstn".into(),
        gateways: vec![Gateway {
            next_hop,
            priority: 1,
            weight: 1,
        }],
        ..GatewayGroup::default()
    };
    Settings {
        authenticate: Some(Default::default()),
        inbound: if open_inbound {
            Inbound::Anyone
        } else {
            Inbound::Trusted
        },
        trusted: vec![TrustedPeer::at(gateway.ip(), 32)],
        mode: if is_stateless {
            Mode::Stateless
        } else {
            Mode::Stateful
        },
        routes: Routes {
            groups: vec![group],
            domains: BTreeMap::from([("pstn.example".into(), 0)]),
            prefixes: BTreeMap::from([("+".into(), 0), ("0".into(), 0)]),
            ..Routes::default()
        },
        ..settings()
    }
}

impl Play {
    fn new(open_inbound: bool, over_tcp: bool, is_stateless: bool) -> Self {
        let mut world = World::new(server(open_inbound, is_stateless));
        let transport = if over_tcp {
            Transport::Tcp
        } else {
            Transport::Udp
        };
        let alice = flow(transport, ALICE.into());
        world.register(
            "alice",
            "sip:alice@198.51.100.1:5060",
            over_tcp.then_some(alice),
        );
        world.register("bob", "sip:bob@198.51.100.20:5060", None);
        let invite = format!(
            "INVITE sip:mallory@198.51.100.66:5060 SIP/2.0\r\nVia: SIP/2.0/{} 198.51.100.1:5060;branch=z9hG4bKa\r\n\
             Max-Forwards: 70\r\nFrom: <sip:alice@{DOMAIN}>;tag=a\r\nTo: <sip:mallory@198.51.100.66>\r\n\
             Call-ID: call-1\r\nCSeq: 1 INVITE\r\nContact: <sip:alice@198.51.100.1:5060>\r\nContent-Length: 0\r\n\r\n",
            transport.via_name()
        );
        let sent = world.send_as("alice", &alice, &invite);
        let copy = sent
            .iter()
            .find(|sent| sent.message.method_token() == b"INVITE")
            .expect("alice may call whom she likes");
        let mut play = Self {
            open_inbound,
            branch: copy
                .message
                .top_via()
                .map_or(Vec::new(), |via| via.branch.to_vec()),
            tokens: Vec::new(),
            asked: vec![ALICE.0.into(), BOB.0.into()],
            world,
        };
        play.remember(&copy.message);
        let ok = answer(
            &copy.message,
            "200 OK",
            "m",
            "sip:mallory@198.51.100.66:5060",
        );
        let forwarded = play
            .world
            .receive(&flow(Transport::Udp, MALLORY.into()), &ok);
        assert!(
            forwarded.iter().any(|sent| sent.message.status() == 200),
            "alice hears the answer"
        );
        play
    }

    /// The tokens in what a stranger got.
    fn remember(&mut self, message: &Message) {
        for (value, _) in message.values(HeaderName::RecordRoute) {
            let uri = NameAddr::parse(value).and_then(|addr| addr.uri());
            if let Some(user) = uri.and_then(|uri| uri.user)
                && self.tokens.len() < TOKENS_MAX
                && !self.tokens.iter().any(|token| token == user)
            {
                self.tokens.push(user.to_vec());
            }
        }
    }

    /// Sends a stranger's message, and judges what comes of it; how many requests
    /// went to alice.
    fn attack(&mut self, part: &[u8]) -> usize {
        let Some((who, text)) = part.split_first() else {
            return 0;
        };
        let flow = match who {
            b's' => flow(Transport::Udp, STRANGER.into()),
            b't' => flow(Transport::Tcp, MALLORY.into()),
            b'u' => flow(Transport::Tcp, STRANGER.into()),
            _ => flow(Transport::Udp, MALLORY.into()),
        };
        self.asked.push(flow.remote.ip().to_canonical());
        let mut text = replaced(text, b"BRANCH", &self.branch);
        for (number, token) in self.tokens.iter().enumerate() {
            text = replaced(&text, format!("T{number}").as_bytes(), token);
        }
        let mut sent = self.world.receive(&flow, &text);
        sent.extend(self.world.wait());
        let reached = |sent: &&Sent| is(sent.to.ip(), ALICE) && sent.message.is_request();
        let reached = sent.iter().filter(reached).count();
        for _ in 0..4 {
            let mut next = Vec::new();
            for sent in &sent {
                self.judge(sent);
                if is(sent.to.ip(), BOB) && sent.message.is_request() {
                    let contact = "sip:bob@198.51.100.20:5060";
                    let ok = answer(&sent.message, "200 OK", "b", contact);
                    let bob = crate::world::flow(Transport::Udp, BOB.into());
                    next.extend(self.world.receive(&bob, &ok));
                } else if is(sent.to.ip(), MALLORY) || is(sent.to.ip(), STRANGER) {
                    self.remember(&sent.message);
                }
            }
            if next.is_empty() {
                break;
            }
            sent = next;
        }
        assert_eq!(self.world.saved, 0, "a binding was changed without proof");
        assert!(
            self.world.resolved.is_empty(),
            "a stranger had names resolved: {:?}",
            self.world.resolved
        );
        reached
    }

    fn judge(&self, sent: &Sent) {
        let (to, message) = (sent.to.ip(), &sent.message);
        let text = || String::from_utf8_lossy(&sent.bytes).into_owned();
        if !message.is_request() {
            assert!(
                self.asked.contains(&to.to_canonical()),
                "a response to a third party, {to}:\n{}",
                text()
            );
            return;
        }
        let is_end = is(to, ALICE) || is(to, MALLORY);
        let is_called = self.open_inbound && is(to, BOB);
        assert!(
            is_end || is_called,
            "{to} was reached without proof:\n{}",
            text()
        );
        if is(to, MALLORY) {
            return;
        }
        let host = message
            .from()
            .ok()
            .and_then(|from| from.uri())
            .map(|uri| uri.host_port.host);
        let is_ours = host.is_some_and(|host| {
            host.eq_ignore_ascii_case(DOMAIN.as_bytes()) || host == b"192.0.2.1"
        });
        assert!(!is_ours, "{to} was reached in a user's name:\n{}", text());
        assert!(
            !message.has(HeaderName::PAssertedIdentity),
            "a stranger's word for an identity:\n{}",
            text()
        );
    }
}

fn is(ip: IpAddr, whom: ([u8; 4], u16)) -> bool {
    ip.to_canonical() == IpAddr::from(whom.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request of mallory's in the dialog, with a token.
    fn bye(token: &str) -> Vec<u8> {
        format!(
            "mBYE sip:alice@198.51.100.1:5060 SIP/2.0\r\nVia: SIP/2.0/UDP 198.51.100.66:5060;branch=z9hG4bKm\r\n\
             Max-Forwards: 70\r\nRoute: <sip:{token}@192.0.2.1:5060;lr>\r\nFrom: <sip:mallory@198.51.100.66>;tag=m\r\n\
             To: <sip:alice@{DOMAIN}>;tag=a\r\nCall-ID: call-1\r\nCSeq: 1 BYE\r\nContent-Length: 0\r\n\r\n"
        )
        .into_bytes()
    }

    #[test]
    fn the_dialogs_own_request_reaches_its_other_end() {
        for is_stateless in [false, true] {
            let reached = |token| {
                let mut play = Play::new(false, false, is_stateless);
                assert!(!play.tokens.is_empty());
                play.attack(&bye(token))
            };
            let with: usize = ["T0", "T1"].map(reached).iter().sum();
            assert!(with > 0, "stateless: {is_stateless}");
            assert_eq!(reached("none"), 0, "without a token");
        }
    }
}
