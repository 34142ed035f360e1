//! A gateway: it answers what reaches it, and calls users at times.

use crate::Dice;
use crate::server::DOMAIN;
use crate::text::{Dialog, Text, inner};
use std::net::SocketAddr;

/// What somebody sends, and after how long.
pub(crate) type Saying = (u64, String);

pub(crate) struct Gateway {
    addr: SocketAddr,
    dice: Dice,
    serial: u64,
}

impl Gateway {
    pub(crate) fn new(seed: u64, addr: SocketAddr) -> Self {
        Self {
            addr,
            dice: Dice::new(seed, 300),
            serial: 0,
        }
    }

    /// Where requests within its dialogs go.
    pub(crate) fn contact(&self) -> String {
        format!("sip:gw@{}", self.addr)
    }

    /// Calls a user.
    pub(crate) fn call(&mut self, user: &str) -> String {
        let via = self.via();
        let serial = self.serial;
        format!(
            "INVITE sip:{user}@{DOMAIN} SIP/2.0\r\nVia: {via}\r\nMax-Forwards: 70\r\nFrom: <sip:+4930777@{}>;tag=g{serial}\r\n\
             To: <sip:{user}@{DOMAIN}>\r\nCall-ID: gateway-{serial}\r\nCSeq: 1 INVITE\r\nContact: <{}>\r\nContent-Length: 0\r\n\r\n",
            self.addr.ip(),
            self.contact()
        )
    }

    /// What it makes of a message.
    pub(crate) fn handle_message(&mut self, bytes: &[u8]) -> Vec<Saying> {
        let text = Text::read(bytes);
        let contact = self.contact();
        if text.is_request() {
            return match text.method() {
                "ACK" => Vec::new(),
                "INVITE" => vec![
                    (10, text.answer(180, "gateway", &contact, "")),
                    (
                        self.dice.between(20, 60),
                        text.answer(200, "gateway", &contact, ""),
                    ),
                ],
                _ => vec![(5, text.answer(200, "gateway", &contact, ""))],
            };
        }
        if text.method() != "INVITE" || text.status() < 200 {
            return Vec::new();
        }
        if text.status() >= 300 {
            let via = text.header("via").to_owned();
            return vec![(0, acknowledge(&text, &via))];
        }
        let dialog = Dialog::of_caller(&text);
        let (ack, bye) = (self.via(), self.via());
        vec![
            (0, dialog.request("ACK", text.cseq(), &ack, &contact)),
            (
                self.dice.between(500, 3_000),
                dialog.request("BYE", text.cseq() + 1, &bye, &contact),
            ),
        ]
    }

    fn via(&mut self) -> String {
        self.serial += 1;
        format!("SIP/2.0/UDP {};branch=z9hG4bKgw{}", self.addr, self.serial)
    }
}

/// The ACK to a final answer that is no 2xx: it has the branch of its INVITE. Its
/// Request-URI is that of the user who was called, which is enough to be absorbed.
pub(crate) fn acknowledge(answer: &Text, via: &str) -> String {
    format!(
        "ACK {} SIP/2.0\r\nVia: {via}\r\nMax-Forwards: 70\r\nFrom: {}\r\nTo: {}\r\nCall-ID: {}\r\nCSeq: {} ACK\r\nContent-Length: 0\r\n\r\n",
        inner(answer.header("to")),
        answer.header("from"),
        answer.header("to"),
        answer.call_id(),
        answer.cseq()
    )
}
