//! Messages made up from what was kept, from what everybody knows, and from chance.

use super::Villain;
use crate::server::DOMAIN;
use crate::warden::{EVIL, MALLORY};

const METHODS: [&str; 16] = [
    "INVITE", "INVITE", "INVITE", "INVITE", "BYE", "BYE", "CANCEL", "ACK", "REGISTER", "REGISTER",
    "OPTIONS", "MESSAGE", "REFER", "NOTIFY", "UPDATE", "PRACK",
];
const EXTRAS: [&str; 12] = [
    "",
    "",
    "",
    "Max-Breadth: 4294967295\r\n",
    "Max-Breadth: 1000000\r\n",
    "Expires: 0\r\n",
    "Proxy-Require: nothing\r\n",
    "Require: path, outbound\r\n",
    "Supported: path, outbound, replaces\r\n",
    "Refer-To: <sip:+1900555@sim.test>\r\n",
    "Content-Type: text/plain\r\n",
    "Subject: x\r\n",
];

impl Villain {
    /// A message.
    pub(super) fn craft(&mut self) -> String {
        let text = match self.dice.below(10) {
            0 => self.replay(),
            1 => self.response(),
            2 => self.in_dialog(),
            3 => self.contacts_of_all_kinds(),
            _ => self.request(),
        };
        match self.dice.below(25) {
            0 => self.damage(text),
            _ => text,
        }
    }

    fn of<T: Clone>(&mut self, all: &[T]) -> Option<T> {
        let at = self.dice.below(all.len() as u64) as usize;
        all.get(at).cloned()
    }

    /// One that was kept, or one made up where nothing was.
    fn kept(&mut self, pick: fn(&super::Memory) -> &Vec<String>, other: &str) -> String {
        let at = self.dice.below(pick(&self.memory).len() as u64) as usize;
        pick(&self.memory)
            .get(at)
            .cloned()
            .unwrap_or_else(|| other.to_owned())
    }

    fn token(&mut self) -> String {
        self.kept(|memory| &memory.tokens, "AAAA")
    }

    fn user(&mut self) -> String {
        let users = self.users.clone();
        self.of(&users).unwrap_or_default()
    }

    fn uri(&mut self) -> String {
        let (server, gateway) = (self.server, self.gateway);
        let (token, user) = (self.token(), self.user());
        let host = self.of(&self.hosts.clone()).unwrap_or(server);
        match self.dice.below(24) {
            0..=2 => format!("sip:{user}@{DOMAIN}"),
            3 => format!("sip:{user}@{}", server.ip()),
            4..=5 => format!("sip:+1900555@{DOMAIN}"),
            6 => format!("sip:{token}@{server};lr"),
            7 => format!("sip:{token}@x.invalid;lr"),
            8 => format!("sip:{token}@{DOMAIN};lr"),
            9 => format!("sip:{token}@{};lr", server.ip()),
            10 => format!("sip:{server}"),
            11 => self.kept(|memory| &memory.contacts, "sip:x@y.invalid"),
            12 => format!("sip:0900555@{gateway}"),
            13 => format!("sip:{user}-0@{host}"),
            14 => "sip:root@127.0.0.1:8080".to_owned(),
            15 => format!("sip:x@{EVIL}"),
            16 => format!("sip:x@self.{EVIL}"),
            17 => format!("sip:x@loop.{EVIL}"),
            18 => format!("sip:+1900555@gw.{EVIL}"),
            19 => format!("sip:{MALLORY}@{DOMAIN}"),
            20 => "sip:x@203.0.113.9".to_owned(),
            21 => format!("sip:x@{DOMAIN};maddr={}", gateway.ip()),
            22 => "tel:+1900555".to_owned(),
            _ => format!("sips:{user}@{DOMAIN}"),
        }
    }

    fn routes(&mut self) -> String {
        let mut lines = String::new();
        for _ in 0..self.dice.below(4) {
            let value = match self.dice.below(4) {
                0 => self.kept(|memory| &memory.routes, "<sip:10.0.0.1;lr>"),
                1 => format!("<sip:{}@{};lr>", self.token(), self.server),
                2 => format!("<sip:{};lr>", self.server),
                _ => format!("<{}>", self.uri()),
            };
            lines.push_str(&format!("Route: {value}\r\n"));
        }
        lines
    }

    fn name(&mut self) -> String {
        let (user, own) = (self.user(), self.own_uri());
        match self.dice.below(12) {
            0..=4 => format!("<{own}>"),
            5 => format!("<sip:{user}@{DOMAIN}>"),
            6 => format!("\"Boss\" <sip:{user}@{}:5060>", self.server.ip()),
            7 => format!("<sip:ceo@{DOMAIN}>"),
            8 => format!("<sip:{user}@{EVIL}>"),
            9 => "<sip:anonymous@anonymous.invalid>".to_owned(),
            10 => format!("<sip:+4930777@{}>", self.gateway.ip()),
            _ => "<tel:+4930777>".to_owned(),
        }
    }

    fn identity(&mut self) -> String {
        let user = self.user();
        let uri = match self.dice.below(3) {
            0 => format!("sip:x@{EVIL}"),
            _ => format!("sip:{user}@{DOMAIN}"),
        };
        match self.dice.below(12) {
            0 => format!("P-Asserted-Identity: <{uri}>\r\n"),
            1 => format!("Remote-Party-ID: <{uri}>;party=calling\r\n"),
            2 => format!("P-Charge-Info: <{uri}>\r\n"),
            3 => format!("P-Preferred-Identity: <{uri}>\r\n"),
            _ => String::new(),
        }
    }

    fn vias(&mut self) -> String {
        let own = self.via();
        let (server, gateway) = (self.server, self.gateway);
        let below = match self.dice.below(6) {
            0 => self.kept(|memory| &memory.vias, "SIP/2.0/UDP x;branch=z9hG4bKx"),
            1 => format!("SIP/2.0/UDP {gateway};branch=z9hG4bKb"),
            2 => format!("SIP/2.0/UDP {server};branch=z9hG4bKb"),
            _ => String::new(),
        };
        let params = [
            "",
            ";rport",
            ";maddr=239.1.1.1",
            ";maddr=10.0.2.1",
            ";received=10.0.2.1",
        ];
        let params = self.of(&params).unwrap_or("");
        let own = match self.dice.below(4) {
            0 => format!("{own}{params}"),
            _ => own,
        };
        if below.is_empty() {
            format!("Via: {own}\r\n")
        } else {
            format!("Via: {own}\r\nVia: {below}\r\n")
        }
    }

    /// The parts of a request, each from anywhere.
    fn request(&mut self) -> String {
        let method = self.of(&METHODS).unwrap_or("INVITE");
        let (uri, vias, routes) = (self.uri(), self.vias(), self.routes());
        let (mut from, mut to) = (self.name(), format!("<{}>", self.uri()));
        let own_tag = self.serial;
        let tag = self.kept(|memory| &memory.tags, "none");
        if !from.contains(";tag=") {
            from = match self.dice.below(3) {
                0 => format!("{from};tag={tag}"),
                _ => format!("{from};tag=v{own_tag}"),
            };
        }
        if self.dice.below(4) == 0 {
            to = self.kept(|memory| &memory.names, &to);
        } else if self.dice.below(3) == 0 {
            to = format!("{to};tag={tag}");
        }
        let fresh = format!("{}-{}", self.addr.ip(), self.serial);
        let call_id = match self.dice.below(3) {
            0 => fresh,
            _ => self.kept(|memory| &memory.call_ids, &fresh),
        };
        let number = self.of(&self.memory.cseqs.clone()).unwrap_or(1);
        let cseq = match self.dice.below(4) {
            0 => number,
            1 => number.wrapping_add(1),
            _ => 1_000 + (self.serial as u32),
        };
        let (contact, identity) = (self.contact(), self.identity());
        let contact = match self.dice.below(4) {
            0 => self.uri(),
            _ => contact,
        };
        let extra = self.of(&EXTRAS).unwrap_or("");
        let credentials = match self.dice.below(10) {
            0 => self.kept(|memory| &memory.credentials, ""),
            _ => String::new(),
        };
        let hops = self.of(&[70, 70, 70, 255, 1, 0]).unwrap_or(70);
        let body = "x".repeat(self.of(&[0, 0, 0, 1_500, 20_000]).unwrap_or(0));
        format!(
            "{method} {uri} SIP/2.0\r\n{vias}{routes}{credentials}Max-Forwards: {hops}\r\nFrom: {from}\r\nTo: {to}\r\n\
             Call-ID: {call_id}\r\nCSeq: {cseq} {method}\r\nContact: <{contact}>\r\n{identity}{extra}Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
    }

    /// A message that was kept, or its request with one part from elsewhere.
    fn replay(&mut self) -> String {
        let Some(text) = self.of(&self.memory.messages.clone()) else {
            return self.request();
        };
        let (uri, routes, via) = (self.uri(), self.routes(), self.via());
        match self.dice.below(4) {
            0 => text,
            1 => text.replacen(
                "SIP/2.0\r\n",
                &format!("SIP/2.0\r\nVia: {via}\r\n{routes}"),
                1,
            ),
            2 => match text.split_once(' ').and_then(|(method, rest)| {
                let (_, rest) = rest.split_once(' ')?;
                Some(format!("{method} {uri} {rest}"))
            }) {
                Some(changed) => changed.replacen("Via:", &format!("Via: {via}\r\nVia:"), 1),
                None => text,
            },
            _ => text.replacen("Via:", &format!("Via: {via}\r\nVia:"), 1),
        }
    }

    /// A response to nothing, along Vias that lead elsewhere.
    fn response(&mut self) -> String {
        let status = self.of(&[100, 180, 200, 202, 302, 401, 407, 486, 503, 603]);
        let via = self.kept(
            |memory| &memory.vias,
            "SIP/2.0/UDP 10.0.0.1:5060;branch=z9hG4bKz",
        );
        let (from, to) = (self.name(), self.name());
        let call_id = self.kept(|memory| &memory.call_ids, "none");
        let uri = self.uri();
        let routes = self.kept(|memory| &memory.routes, "<sip:10.0.0.1;lr>");
        let method = self.of(&METHODS).unwrap_or("INVITE");
        format!(
            "SIP/2.0 {} x\r\nVia: SIP/2.0/UDP {};branch=z9hG4bKq\r\nVia: {via}\r\nVia: SIP/2.0/UDP {};branch=z9hG4bKr\r\n\
             From: {from};tag=a\r\nTo: {to};tag=b\r\nCall-ID: {call_id}\r\nCSeq: 1 {method}\r\nContact: <{uri}>\r\n\
             Record-Route: {routes}\r\nContent-Length: 0\r\n\r\n",
            status.unwrap_or(200),
            self.server,
            self.gateway
        )
    }

    /// A request within a dialog that he has or had, changed in one place.
    fn in_dialog(&mut self) -> String {
        let Some(mut dialog) = self.of(&self.memory.dialogs.clone()) else {
            return self.request();
        };
        let method = self.of(&METHODS).unwrap_or("BYE");
        match self.dice.below(7) {
            0 => dialog.target = self.uri(),
            1 => dialog.local = format!("{};tag=z", self.name()),
            2 => dialog.remote = format!("{};tag=z", self.name()),
            3 => dialog.routes.reverse(),
            4 => dialog.routes.push(format!("<{}>", self.uri())),
            5 => std::mem::swap(&mut dialog.local, &mut dialog.remote),
            _ => {}
        }
        let (via, contact) = (self.via(), self.contact());
        let cseq = 200 + self.serial as u32;
        dialog.request(method, cseq, &via, &contact)
    }

    /// A registration of his own name with contacts that lead everywhere.
    fn contacts_of_all_kinds(&mut self) -> String {
        let (via, own) = (self.via(), self.contact());
        let number = self.serial;
        let mut contacts = format!("<{own}>");
        let spiral = self.dice.below(3) == 0;
        for at in 0..self.dice.below(9) {
            let uri = match spiral {
                true => format!("sip:{MALLORY}@{};v={at}", self.server),
                false => self.uri(),
            };
            contacts.push_str(&format!(", <{uri}>"));
        }
        let path = match self.dice.below(5) {
            0 => format!("Path: <sip:{};lr>\r\nSupported: path\r\n", self.gateway),
            1 => format!("Path: <{}>\r\nSupported: path\r\n", self.uri()),
            _ => String::new(),
        };
        let expires = self.of(&[0, 60, 600, 4_294_967_295_u64]).unwrap_or(0);
        format!(
            "REGISTER sip:{DOMAIN} SIP/2.0\r\nVia: {via}\r\nMax-Forwards: 70\r\nFrom: <sip:{MALLORY}@{DOMAIN}>;tag=m\r\n\
             To: <sip:{MALLORY}@{DOMAIN}>\r\nCall-ID: mallory-register\r\nCSeq: {number} REGISTER\r\nContact: {contacts}\r\n\
             {path}Expires: {expires}\r\nContent-Length: 0\r\n\r\n"
        )
    }

    fn damage(&mut self, text: String) -> String {
        let mut text: Vec<char> = text.chars().collect();
        let at = self.dice.below(text.len() as u64) as usize;
        match self.dice.below(3) {
            0 => text.truncate(at),
            1 => text.insert(at, '\r'),
            _ => {
                if let Some(place) = text.get_mut(at) {
                    *place = self
                        .of(&['<', ';', ',', '"', '@', '\0', ' '])
                        .unwrap_or('x');
                }
            }
        }
        text.into_iter().collect()
    }
}
