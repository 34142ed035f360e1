//! One transaction layer with its clock, and the messages that tests give it.
#![allow(dead_code, clippy::panic, clippy::unwrap_used, unreachable_pub)]

use sip_msg::{
    ConnId, Flow, Limits, ListenerId, Message, Method, Outbox, ResponseWriter, Target, Transport,
};
use sip_txn::{ClientId, Config, Event, Incoming, Responded, Response, ServerId, Transactions};

pub const UDP: Transport = Transport::Udp;
pub const TCP: Transport = Transport::Tcp;

/// A message that the layer sent, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    pub at_ms: u64,
    pub text: String,
    pub to: Target,
    pub cookie: u64,
}

impl Sent {
    /// The method or the status.
    pub fn what(&self) -> &str {
        let mut words = self.text.split(' ');
        match words.next().unwrap() {
            "SIP/2.0" => words.next().unwrap(),
            method => method,
        }
    }
}

pub struct Bed {
    pub txn: Transactions,
    pub out: Outbox,
    pub now_ms: u64,
}

impl Bed {
    pub fn new() -> Self {
        Self::with(Config::new([1; 16], [2; 16]))
    }

    pub fn with(config: Config) -> Self {
        let now_ms = 1_000_000;
        Self {
            txn: Transactions::new(config, now_ms),
            out: Outbox::default(),
            now_ms,
        }
    }

    /// What was sent since the last call.
    pub fn sent(&mut self) -> Vec<Sent> {
        let sent = self
            .out
            .sends
            .iter()
            .map(|send| Sent {
                at_ms: self.now_ms,
                text: String::from_utf8(self.out.bytes[send.start..send.end].to_vec()).unwrap(),
                to: send.to.clone(),
                cookie: send.cookie,
            })
            .collect();
        self.out.clear();
        sent
    }

    /// The methods and statuses of what was sent since the last call.
    pub fn sent_whats(&mut self) -> Vec<String> {
        self.sent()
            .iter()
            .map(|sent| sent.what().to_owned())
            .collect()
    }

    pub fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.txn.poll_event()).collect()
    }

    /// Lets time pass, waking whenever asked to; gives what was sent.
    pub fn pass(&mut self, by_ms: u64) -> Vec<Sent> {
        let until_ms = self.now_ms + by_ms;
        let mut sent = self.sent();
        while let Some(next_ms) = self
            .txn
            .next_deadline_ms()
            .filter(|next_ms| *next_ms <= until_ms)
        {
            assert!(next_ms > self.now_ms, "a wake-up that is not in the future");
            self.now_ms = next_ms;
            self.txn.handle_timers(self.now_ms, &mut self.out);
            sent.extend(self.sent());
        }
        self.now_ms = until_ms;
        self.txn.handle_timers(self.now_ms, &mut self.out);
        sent.extend(self.sent());
        sent
    }

    /// Lets time pass; gives after how many milliseconds something was sent.
    pub fn pass_times(&mut self, by_ms: u64) -> Vec<u64> {
        let start_ms = self.now_ms;
        self.pass(by_ms)
            .iter()
            .map(|sent| sent.at_ms - start_ms)
            .collect()
    }

    // Server side.

    pub fn receive(&mut self, transport: Transport, request: &str) -> Incoming {
        self.receive_from(&flow(transport), request)
    }

    pub fn receive_from(&mut self, flow: &Flow, request: &str) -> Incoming {
        self.txn
            .handle_request(self.now_ms, flow, &parse(request), &mut self.out)
    }

    /// Receives a request that must be new.
    pub fn receive_new(&mut self, transport: Transport, request: &str) -> ServerId {
        match self.receive(transport, request) {
            Incoming::New(id) => id,
            other => panic!("{other:?}"),
        }
    }

    pub fn respond(&mut self, id: ServerId, request: &str, status: u16) -> Responded {
        let start = self.out.bytes.len();
        ResponseWriter::begin(
            &mut self.out.bytes,
            &parse(request),
            status,
            "Reason",
            b"uas-tag",
        )
        .finish(b"");
        self.txn
            .respond(self.now_ms, id, status, start, &mut self.out)
    }

    // Client side.

    /// Starts a client transaction with the context 7; gives its request too.
    pub fn start(&mut self, transport: Transport, method: Method) -> (ClientId, String) {
        let id = self.txn.reserve_client().unwrap();
        let mut branch = Vec::new();
        self.txn.write_branch(id, &mut branch);
        let text = request_to(
            "sip:callee@192.0.2.9",
            method.token(),
            &String::from_utf8(branch).unwrap(),
            "",
        );
        let start = self.out.bytes.len();
        self.out.bytes.extend_from_slice(text.as_bytes());
        self.txn.start_client(
            self.now_ms,
            id,
            method,
            target(transport),
            7,
            start,
            &mut self.out,
        );
        (id, text)
    }

    /// Receives a response to `request`.
    pub fn answer(&mut self, request: &str, status: u16) -> Response {
        self.answer_bytes(&response_to(request, status))
    }

    pub fn answer_bytes(&mut self, response: &str) -> Response {
        self.txn
            .handle_response(self.now_ms, &parse(response), &mut self.out)
    }

    /// Whether nothing is alive and no timer runs.
    pub fn is_idle(&self) -> bool {
        self.txn.live() == sip_txn::Live::default() && self.txn.next_deadline_ms().is_none()
    }
}

pub fn parse(text: &str) -> Message {
    Message::parse(text.as_bytes(), &Limits::default()).unwrap()
}

pub fn flow(transport: Transport) -> Flow {
    Flow {
        transport,
        listener: ListenerId(1),
        local: "192.0.2.200:5060".parse().unwrap(),
        remote: "192.0.2.1:5060".parse().unwrap(),
        conn: ConnId(if transport.is_reliable() { 55 } else { 0 }),
    }
}

pub fn target(transport: Transport) -> Target {
    Target {
        transport,
        listener: ListenerId(1),
        remote: "192.0.2.9:5060".parse().unwrap(),
        conn: ConnId::NONE,
        may_open: true,
        tls_name: None,
        lane: sip_msg::Lane::Shared,
        local: None,
    }
}

/// A request from 192.0.2.1; `more` are whole header lines.
pub fn request(method: &str, branch: &str, more: &str) -> String {
    request_to("sip:callee@example.com", method, branch, more)
}

pub fn request_to(uri: &str, method: &str, branch: &str, more: &str) -> String {
    format!(
        "{method} {uri} SIP/2.0\r\n\
         Via: SIP/2.0/UDP 192.0.2.1:5060;branch={branch}\r\n\
         Max-Forwards: 70\r\n\
         From: <sip:caller@example.com>;tag=caller-tag\r\n\
         To: <sip:callee@example.com>\r\n\
         Call-ID: call\r\n\
         CSeq: 1 {method}\r\n\
         {more}Content-Length: 0\r\n\r\n"
    )
}

pub fn response_to(request: &str, status: u16) -> String {
    let mut out = Vec::new();
    ResponseWriter::begin(&mut out, &parse(request), status, "Reason", b"uas-tag").finish(b"");
    String::from_utf8(out).unwrap()
}
