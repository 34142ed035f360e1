//! A phone made of text: it registers and calls over a datagram socket or a
//! WebSocket, with digest by MD5, and follows the routes that it is given.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use md5::{Digest, Md5};
use sip_net::testing::{Received, WebSocketClient, uninterrupted, upgrade_request};

use super::{phone_socket, unique};

/// How long anything may take on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a phone sends and receives by.
pub trait Link {
    fn send(&mut self, message: &str);
    /// The next message; `None` when there is none for a second or so.
    fn receive(&mut self) -> Option<String>;
}

impl Link for UdpSocket {
    fn send(&mut self, message: &str) {
        UdpSocket::send(self, message.as_bytes()).unwrap();
    }

    fn receive(&mut self) -> Option<String> {
        let mut buffer = [0; 65_535];
        let len = uninterrupted(|| self.recv(&mut buffer)).ok()?;
        Some(String::from_utf8_lossy(&buffer[..len]).into_owned())
    }
}

impl<S: Read + Write> Link for WebSocketClient<S> {
    fn send(&mut self, message: &str) {
        WebSocketClient::send(self, message.as_bytes());
    }

    fn receive(&mut self) -> Option<String> {
        match WebSocketClient::receive(self) {
            Received::Message(message, _) => Some(String::from_utf8(message).unwrap()),
            Received::Ping(_) | Received::Pong | Received::End => None,
            Received::Close(code) => panic!("the server closed: {code:?}"),
        }
    }
}

/// A phone of a user.
pub struct Phone {
    link: Box<dyn Link>,
    /// As it stands in Via: `UDP`, `WS`, `WSS`.
    transport: &'static str,
    user: String,
    password: String,
    domain: String,
    /// What it calls itself in Via and Contact.
    host: String,
    contact: String,
    /// What it offers, and answers.
    sdp: String,
    cseq: u32,
    /// The INVITE that it sent last.
    invited: String,
}

/// A request that came, and the tag with which it is answered.
pub struct Incoming {
    /// The request.
    pub text: String,
    tag: String,
}

/// One end of a call.
pub struct Dialog {
    call_id: String,
    /// From and To of the requests that this end sends.
    from: String,
    to: String,
    target: String,
    routes: Vec<String>,
    cseq: u32,
}

impl Phone {
    /// A phone on a datagram socket of its own.
    pub fn udp(server: SocketAddr, user: &str, domain: &str) -> Self {
        Self::udp_at("127.0.0.1", server, user, domain)
    }

    /// The same at that address of this host.
    pub fn udp_at(ip: &str, server: SocketAddr, user: &str, domain: &str) -> Self {
        let socket = phone_socket(ip);
        socket.connect(server).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(1)))
            .unwrap();
        let host = socket.local_addr().unwrap().to_string();
        let contact = format!("sip:{user}@{host}");
        Self::new(Box::new(socket), "UDP", host, contact, user, domain)
    }

    /// A phone on a WebSocket, which has no address that anybody could resolve.
    pub fn websocket(server: SocketAddr, user: &str, domain: &str) -> Self {
        let stream = TcpStream::connect(server).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(1)))
            .unwrap();
        Self::on_stream(stream, "WS", user, domain)
    }

    /// The same on a stream that is open already.
    pub fn on_stream(
        stream: impl Read + Write + 'static,
        transport: &'static str,
        user: &str,
        domain: &str,
    ) -> Self {
        let request = upgrade_request(domain, "/", "");
        let client = WebSocketClient::open(stream, &request).unwrap();
        let host = format!("{}.invalid", unique());
        let contact = format!("sip:{user}@{host};transport=ws");
        Self::new(Box::new(client), transport, host, contact, user, domain)
    }

    fn new(
        link: Box<dyn Link>,
        transport: &'static str,
        host: String,
        contact: String,
        user: &str,
        domain: &str,
    ) -> Self {
        Self {
            link,
            transport,
            user: user.to_owned(),
            password: format!("{user}-secret"),
            domain: domain.to_owned(),
            host,
            contact,
            sdp: SDP.to_owned(),
            cseq: 0,
            invited: String::new(),
        }
    }

    fn own_uri(&self) -> String {
        format!("sip:{}@{}", self.user, self.domain)
    }

    /// From here on it gives another password.
    pub fn set_password(&mut self, password: &str) {
        password.clone_into(&mut self.password);
    }

    /// From here on it has another session description.
    pub fn set_sdp(&mut self, sdp: &str) {
        sdp.clone_into(&mut self.sdp);
    }

    /// Registers, with a password; the 200.
    pub fn register(&mut self) -> String {
        let answer = self.try_register();
        assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
        assert!(answer.contains(&format!("<{}>", self.contact)), "{answer}");
        answer
    }

    /// Registers, with a password; the answer to that.
    pub fn try_register(&mut self) -> String {
        let uri = format!("sip:{}", self.domain);
        let own = self.own_uri();
        let (call_id, from) = (unique(), format!("<{own}>;tag={}", unique()));
        let more = format!("Contact: <{}>\r\nExpires: 600\r\n", self.contact);
        let (challenged, cseq) = self.request("REGISTER", &uri, &call_id, &from, &own, &more, "");
        let answer = self.response(cseq, "REGISTER");
        assert!(answer.starts_with("SIP/2.0 401 "), "{challenged}{answer}");
        let proof = self.proof(&answer, "REGISTER", &uri);
        let more = more + &proof;
        let (_, cseq) = self.request("REGISTER", &uri, &call_id, &from, &own, &more, "");
        self.response(cseq, "REGISTER")
    }

    /// Calls, with a password. The INVITE that was let in is under way then.
    pub fn invite(&mut self, user: &str) -> Dialog {
        let uri = format!("sip:{user}@{}", self.domain);
        let (call_id, from) = (unique(), format!("<{}>;tag={}", self.own_uri(), unique()));
        let more = format!(
            "Contact: <{}>\r\nContent-Type: application/sdp\r\n",
            self.contact
        );
        let sdp = self.sdp.clone();
        let (sent, cseq) = self.request("INVITE", &uri, &call_id, &from, &uri, &more, &sdp);
        let answer = self.response(cseq, "INVITE");
        assert!(answer.starts_with("SIP/2.0 407 "), "{answer}");
        let ack = format!(
            "ACK {uri} SIP/2.0\r\nVia: {}\r\nMax-Forwards: 70\r\nFrom: {from}\r\nTo: {}\r\nCall-ID: {call_id}\r\n\
             CSeq: {cseq} ACK\r\nContent-Length: 0\r\n\r\n",
            field(&sent, "Via"),
            field(&answer, "To"),
        );
        self.link.send(&ack);
        let more = more + &self.proof(&answer, "INVITE", &uri);
        let (sent, cseq) = self.request("INVITE", &uri, &call_id, &from, &uri, &more, &sdp);
        self.invited = sent;
        Dialog {
            call_id,
            from,
            to: String::new(),
            target: uri,
            routes: Vec::new(),
            cseq,
        }
    }

    /// Cancels the call that it began last; the answer to the CANCEL.
    // RFC 3261 9.1: "The Request-URI, Call-ID, To, the numeric part of CSeq, and From header
    // fields in the CANCEL request MUST be identical to those in the request being cancelled,
    // including tags."
    pub fn cancel(&mut self, dialog: &Dialog) -> String {
        let same = |name: &str| format!("{name}: {}\r\n", field(&self.invited, name));
        let head: String = ["Via", "From", "To", "Call-ID"].map(same).concat();
        let (uri, cseq) = (&dialog.target, dialog.cseq);
        self.link.send(&format!(
            "CANCEL {uri} SIP/2.0\r\n{head}Max-Forwards: 70\r\nCSeq: {cseq} CANCEL\r\nContent-Length: 0\r\n\r\n"
        ));
        self.response(cseq, "CANCEL")
    }

    /// Waits for the 200 to an INVITE and acknowledges it; the 200.
    pub fn established(&mut self, dialog: &mut Dialog) -> String {
        let answer = self.accepted(dialog);
        self.acknowledge(dialog);
        answer
    }

    /// Waits for the 200 to an INVITE; the 200.
    pub fn accepted(&mut self, dialog: &mut Dialog) -> String {
        let answer = self.response(dialog.cseq, "INVITE");
        assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
        dialog.to = field(&answer, "To");
        dialog.target = contact_of(&answer);
        // RFC 3261 12.1.2: "The route set MUST be set to the list of URIs in the
        // Record-Route header field from the response, taken in reverse order".
        // In a later one it stays (12.2.1.2).
        if dialog.routes.is_empty() {
            dialog.routes = fields(&answer, "Record-Route");
            dialog.routes.reverse();
        }
        answer
    }

    /// Waits for the answer to an INVITE that nobody accepts, and acknowledges it; the answer.
    pub fn refused(&mut self, dialog: &Dialog) -> String {
        let answer = self.response(dialog.cseq, "INVITE");
        assert!(!answer.starts_with("SIP/2.0 2"), "{answer}");
        // RFC 3261 17.1.1.3: one Via, "equal to the top Via header field of the original request".
        let ack = format!(
            "ACK {} SIP/2.0\r\nVia: {}\r\nMax-Forwards: 70\r\nFrom: {}\r\nTo: {}\r\nCall-ID: {}\r\n\
             CSeq: {} ACK\r\nContent-Length: 0\r\n\r\n",
            dialog.target,
            field(&answer, "Via"),
            dialog.from,
            field(&answer, "To"),
            dialog.call_id,
            dialog.cseq,
        );
        self.link.send(&ack);
        answer
    }

    /// Acknowledges the 200 to an INVITE.
    pub fn acknowledge(&mut self, dialog: &mut Dialog) {
        self.within("ACK", dialog);
    }

    /// Sends an INVITE within a call.
    pub fn invite_again(&mut self, dialog: &mut Dialog) {
        self.within("INVITE", dialog);
    }

    /// Waits for an INVITE within a call, and accepts it.
    pub fn accept_again(&mut self, dialog: &Dialog) {
        let call_id = format!("Call-ID: {}\r\n", dialog.call_id);
        let invite =
            self.heard(|message| message.starts_with("INVITE ") && message.contains(&call_id));
        let copied: String = invite
            .lines()
            .filter(|line| {
                ["Via:", "Record-Route:", "From:", "To:", "Call-ID:", "CSeq:"]
                    .iter()
                    .any(|name| line.starts_with(name))
            })
            .map(|line| format!("{line}\r\n"))
            .collect();
        self.link.send(&format!(
            "SIP/2.0 200 OK\r\n{copied}Contact: <{}>\r\nContent-Length: 0\r\n\r\n",
            self.contact
        ));
    }

    /// Waits for a request of that method.
    pub fn incoming(&mut self, method: &str) -> Incoming {
        let start = format!("{method} ");
        Incoming {
            text: self.heard(|message| message.starts_with(&start)),
            tag: unique(),
        }
    }

    /// Responds to a request; with its session description, if that is wanted.
    pub fn reply(&mut self, to: &Incoming, status: &str, has_sdp: bool) {
        let copied = |line: &&str| {
            let names = ["Via:", "Record-Route:", "From:", "Call-ID:", "CSeq:"];
            names.iter().any(|name| line.starts_with(name))
        };
        let copied = to.text.lines().filter(copied);
        let copied: String = copied.map(|line| format!("{line}\r\n")).collect();
        let party = match field(&to.text, "To") {
            party if party.contains(";tag=") => party,
            party => format!("{party};tag={}", to.tag),
        };
        let (kind, sdp) = match has_sdp {
            true => ("Content-Type: application/sdp\r\n", self.sdp.as_str()),
            false => ("", ""),
        };
        let text = format!(
            "SIP/2.0 {status}\r\n{copied}To: {party}\r\nContact: <{}>\r\n{kind}Content-Length: {}\r\n\r\n{sdp}",
            self.contact,
            sdp.len()
        );
        self.link.send(&text);
    }

    /// This phone's end of the call that such a request has begun.
    pub fn end_of(&self, invite: &Incoming) -> Dialog {
        Dialog {
            call_id: field(&invite.text, "Call-ID"),
            from: format!("{};tag={}", field(&invite.text, "To"), invite.tag),
            to: field(&invite.text, "From"),
            target: contact_of(&invite.text),
            routes: fields(&invite.text, "Record-Route"),
            cseq: 0,
        }
    }

    /// Sends a request within a call, with that session description; empty for none.
    pub fn send_within(&mut self, method: &str, dialog: &mut Dialog, sdp: &str) {
        self.within_with(method, dialog, sdp);
    }

    /// The dialog that a provisional response has begun (RFC 3261 12.1.2).
    pub fn early(&self, dialog: &Dialog, progress: &str) -> Dialog {
        let mut routes = fields(progress, "Record-Route");
        routes.reverse();
        Dialog {
            call_id: dialog.call_id.clone(),
            from: dialog.from.clone(),
            to: field(progress, "To"),
            target: contact_of(progress),
            routes,
            cseq: dialog.cseq,
        }
    }

    /// Waits for the final response to what was sent last within a call.
    pub fn answered(&mut self, dialog: &Dialog, method: &str) -> String {
        self.response(dialog.cseq, method)
    }

    /// Waits for a provisional response of that status.
    pub fn progress(&mut self, dialog: &Dialog, status: u16) -> String {
        let start = format!("SIP/2.0 {status} ");
        let cseq = format!("CSeq: {} INVITE\r\n", dialog.cseq);
        self.heard(|message| message.starts_with(&start) && message.contains(&cseq))
    }

    /// The same phone on a new WebSocket, because the server was gone.
    pub fn reconnect(&mut self, server: SocketAddr) {
        let stream = TcpStream::connect(server).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(1)))
            .unwrap();
        let request = upgrade_request(&self.domain, "/", "");
        self.link = Box::new(WebSocketClient::open(stream, &request).unwrap());
    }

    /// Waits for a call, rings and answers it; the INVITE.
    pub fn answer(&mut self) -> (Dialog, String) {
        let invite = self.heard(|message| message.starts_with("INVITE "));
        let tag = unique();
        let reply = |status: &str, more: &str, body: &str| {
            let copied: String = invite
                .lines()
                .filter(|line| {
                    ["Via:", "Record-Route:", "From:", "Call-ID:", "CSeq:"]
                        .iter()
                        .any(|name| line.starts_with(name))
                })
                .map(|line| format!("{line}\r\n"))
                .collect();
            format!(
                "SIP/2.0 {status}\r\n{copied}To: {};tag={tag}\r\n{more}Content-Length: {}\r\n\r\n{body}",
                field(&invite, "To"),
                body.len()
            )
        };
        let contact = format!("Contact: <{}>\r\n", self.contact);
        self.link.send(&reply("180 Ringing", &contact, ""));
        let more = contact + "Content-Type: application/sdp\r\n";
        self.link.send(&reply("200 OK", &more, &self.sdp));
        let dialog = Dialog {
            call_id: field(&invite, "Call-ID"),
            from: format!("{};tag={tag}", field(&invite, "To")),
            to: field(&invite, "From"),
            target: contact_of(&invite),
            // RFC 3261 12.1.1: "The route set MUST be set to the list of URIs in
            // the Record-Route header field from the request, taken in order".
            routes: fields(&invite, "Record-Route"),
            cseq: 0,
        };
        (dialog, invite)
    }

    /// Waits for the ACK of a call that was answered.
    pub fn acknowledged(&mut self, dialog: &Dialog) -> String {
        let call_id = format!("Call-ID: {}\r\n", dialog.call_id);
        self.heard(|message| message.starts_with("ACK ") && message.contains(&call_id))
    }

    /// Hangs up and waits for the answer.
    pub fn hang_up(&mut self, dialog: &mut Dialog) {
        self.within("BYE", dialog);
    }

    /// The answer to [`Phone::hang_up`].
    pub fn hung_up(&mut self, dialog: &Dialog) {
        let answer = self.response(dialog.cseq, "BYE");
        assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    }

    /// Waits until the other end hangs up, and answers.
    pub fn ended(&mut self, dialog: &Dialog) -> String {
        let call_id = format!("Call-ID: {}\r\n", dialog.call_id);
        let bye = self.heard(|message| message.starts_with("BYE ") && message.contains(&call_id));
        let copied: String = bye
            .lines()
            .filter(|line| {
                ["Via:", "From:", "To:", "Call-ID:", "CSeq:"]
                    .iter()
                    .any(|name| line.starts_with(name))
            })
            .map(|line| format!("{line}\r\n"))
            .collect();
        self.link.send(&format!(
            "SIP/2.0 200 OK\r\n{copied}Content-Length: 0\r\n\r\n"
        ));
        bye
    }

    fn within(&mut self, method: &str, dialog: &mut Dialog) {
        self.within_with(method, dialog, "");
    }

    /// A request within a call; an ACK has the number of its INVITE.
    fn within_with(&mut self, method: &str, dialog: &mut Dialog, sdp: &str) {
        if method != "ACK" {
            self.cseq += 1;
            dialog.cseq = self.cseq.max(dialog.cseq + 1);
            self.cseq = dialog.cseq;
        }
        let routes: String = dialog
            .routes
            .iter()
            .map(|route| format!("Route: {route}\r\n"))
            .collect();
        let contact = match method {
            "INVITE" | "UPDATE" => format!("Contact: <{}>\r\n", self.contact),
            _ => String::new(),
        };
        let kind = match sdp.is_empty() {
            true => "",
            false => "Content-Type: application/sdp\r\n",
        };
        let text = format!(
            "{method} {} SIP/2.0\r\nVia: {}\r\n{routes}Max-Forwards: 70\r\nFrom: {}\r\nTo: {}\r\n\
             Call-ID: {}\r\nCSeq: {} {method}\r\n{contact}{kind}Content-Length: {}\r\n\r\n{sdp}",
            dialog.target,
            self.via(),
            dialog.from,
            dialog.to,
            dialog.call_id,
            dialog.cseq,
            sdp.len(),
        );
        self.link.send(&text);
    }

    #[allow(clippy::too_many_arguments)]
    fn request(
        &mut self,
        method: &str,
        uri: &str,
        call_id: &str,
        from: &str,
        to: &str,
        more: &str,
        body: &str,
    ) -> (String, u32) {
        self.cseq += 1;
        let text = format!(
            "{method} {uri} SIP/2.0\r\nVia: {}\r\nMax-Forwards: 70\r\nFrom: {from}\r\nTo: <{to}>\r\n\
             Call-ID: {call_id}\r\nCSeq: {} {method}\r\n{more}Content-Length: {}\r\n\r\n{body}",
            self.via(),
            self.cseq,
            body.len()
        );
        self.link.send(&text);
        (text, self.cseq)
    }

    fn via(&self) -> String {
        format!(
            "SIP/2.0/{} {};branch=z9hG4bK{};rport",
            self.transport,
            self.host,
            unique()
        )
    }

    /// The final response to a request.
    fn response(&mut self, cseq: u32, method: &str) -> String {
        let cseq = format!("CSeq: {cseq} {method}\r\n");
        self.heard(|message| {
            message.starts_with("SIP/2.0 ")
                && !message.starts_with("SIP/2.0 1")
                && message.contains(&cseq)
        })
    }

    /// Waits for a message of that kind; others, repeated ones among them, are
    /// passed over.
    fn heard(&mut self, is_it: impl Fn(&str) -> bool) -> String {
        let until = Instant::now() + PATIENCE;
        let mut others = Vec::new();
        while Instant::now() < until {
            match self.link.receive() {
                Some(message) if is_it(&message) => return message,
                Some(message) => others.push(message),
                None => {}
            }
        }
        panic!(
            "{} waited in vain; it heard:\n{}",
            self.user,
            others.join("\n")
        );
    }

    /// The answer to the challenge of a response (RFC 7616), by MD5.
    fn proof(&self, challenged: &str, method: &str, uri: &str) -> String {
        let (name, answer) = if challenged.starts_with("SIP/2.0 401 ") {
            ("WWW-Authenticate", "Authorization")
        } else {
            ("Proxy-Authenticate", "Proxy-Authorization")
        };
        let challenge = fields(challenged, name)
            .into_iter()
            .find(|challenge| challenge.contains("algorithm=MD5"))
            .unwrap_or_else(|| panic!("no challenge for MD5 in:\n{challenged}"));
        let part = |name: &str| {
            let (_, rest) = challenge.split_once(&format!("{name}=\"")).unwrap();
            rest.split_once('"').unwrap().0.to_owned()
        };
        let (realm, nonce) = (part("realm"), part("nonce"));
        let ha1 = md5(&format!("{}:{realm}:{}", self.user, self.password));
        let ha2 = md5(&format!("{method}:{uri}"));
        let response = md5(&format!("{ha1}:{nonce}:00000001:cafe:auth:{ha2}"));
        format!(
            "{answer}: Digest username=\"{}\", realm=\"{realm}\", nonce=\"{nonce}\", uri=\"{uri}\", \
             response=\"{response}\", algorithm=MD5, qop=auth, nc=00000001, cnonce=\"cafe\"\r\n",
            self.user
        )
    }
}

const SDP: &str = "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio 9 RTP/AVP 0\r\n";

pub fn md5(text: &str) -> String {
    let digest = Md5::digest(text.as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The values of a header field, one for each line.
pub fn fields(message: &str, name: &str) -> Vec<String> {
    let head = message.split("\r\n\r\n").next().unwrap();
    head.lines()
        .filter_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
        .map(str::to_owned)
        .collect()
}

/// The first value of a header field.
pub fn field(message: &str, name: &str) -> String {
    let first = fields(message, name).into_iter().next();
    first.unwrap_or_else(|| panic!("no {name} in:\n{message}"))
}

fn contact_of(message: &str) -> String {
    let contact = field(message, "Contact");
    // A name may stand before it.
    let (_, inner) = contact.split_once('<').unwrap();
    inner.split_once('>').unwrap().0.to_owned()
}
