//! What a call costs one worker more when a media engine leads it: the shard's part, the commands,
//! and the datagrams to the engine and back over the loopback. The engine's own part is not
//! counted.
//!
//! `cargo bench -p sip-engine --bench media`

#![allow(
    clippy::panic,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::unwrap_used,
    missing_docs
)]

use std::fmt::Write as _;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sip_auth::{AuthConfig, Authenticator};
use sip_engine::routes::{Connections, NextHop};
use sip_engine::sender::Sender;
use sip_engine::settings::{
    AuthSettings, Listener, MediaSettings, MediaUse, Settings, TrustedPeer,
};
use sip_engine::shard::Seed;
use sip_engine::token::TokenKeys;
use sip_engine::{Effect, Location, Now, Outputs, Shard, Shared};
use sip_media::bencode::{Writer, read};
use sip_media::{Client, ClientNumber, SharedEngines};
use sip_msg::{ConnId, Flow, HeaderName, Limits, ListenerId, Message, Transport};

/// As in the server.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Calls before it counts, and as many again in each of the turns.
const CALLS: u64 = 10_000;
const TURNS: usize = 5;
const SDP: &str = "v=0\r\no=user1 53655765 2353687637 IN IP4 198.51.100.1\r\ns=-\r\nc=IN IP4 198.51.100.1\r\nt=0 0\r\nm=audio 6000 RTP/AVP 0 8 101\r\na=rtpmap:0 PCMU/8000\r\na=rtpmap:8 PCMA/8000\r\na=rtpmap:101 telephone-event/8000\r\na=fmtp:101 0-15\r\na=ptime:20\r\na=sendrecv\r\n";

fn main() {
    let mut benches = [
        Bench::new(None),
        Bench::new(Some(UdpSocket::bind("127.0.0.1:0").unwrap())),
    ];
    let mut best = [f64::MAX; 2];
    for bench in &mut benches {
        bench.calls(CALLS);
    }
    // By turns, so that both have the same machine.
    for _ in 0..TURNS {
        for (bench, best) in benches.iter_mut().zip(&mut best) {
            bench.spent = Duration::ZERO;
            bench.calls(CALLS);
            *best = best.min(bench.spent.as_nanos() as f64 / CALLS as f64 / 1_000.0);
        }
    }
    let [without, with] = best;
    println!("without: {without:.1} us a call");
    println!(
        "led:     {with:.1} us a call, {:.1} us more",
        with - without
    );
}

/// A worker's end of an engine, and the engine.
struct Engine {
    client: Client,
    own: UdpSocket,
    engine: UdpSocket,
}

struct Bench {
    shard: Shard,
    out: Outputs,
    now: Now,
    engine: Option<Engine>,
    text: String,
    calls: u64,
    spent: Duration,
}

fn flow(remote: &str) -> Flow {
    Flow {
        transport: Transport::Udp,
        listener: ListenerId(0),
        local: "192.0.2.1:5060".parse().unwrap(),
        remote: remote.parse().unwrap(),
        conn: ConnId(0),
    }
}

impl Bench {
    fn new(engine: Option<UdpSocket>) -> Self {
        let at = |engine: &UdpSocket| engine.local_addr().unwrap();
        let media = engine.as_ref().map(|engine| {
            Arc::new(MediaSettings {
                listeners: vec![MediaUse::Always],
                client: sip_media::Config {
                    engines: vec![at(engine)],
                    ..sip_media::Config::default()
                },
                ..MediaSettings::default()
            })
        });
        let settings = Settings {
            domains: vec!["example.org".into()],
            listeners: vec![Listener {
                transport: Transport::Udp,
                bound: "192.0.2.1:5060".parse().unwrap(),
                advertised_host: None,
                advertised_port: 5060,
                certificates_authenticate: false,
            }],
            // As a server is that has users: its routes are signed, whoever leads the media.
            authenticate: Some(AuthSettings::default()),
            trusted: vec![TrustedPeer::at("198.51.100.1".parse().unwrap(), 32)],
            forward: Some(NextHop {
                host: "203.0.113.9".into(),
                port: Some(5070),
                transport: Some(Transport::Udp),
                connections: Connections::default(),
            }),
            media: media.clone(),
            ..Settings::default()
        };
        let shared = Arc::new(Shared {
            location: Arc::new(Location::new(1_000, [2; 16])),
            authenticator: Arc::new(Authenticator::new(AuthConfig::default(), &[3; 32], 1)),
            guard: Arc::new(sip_limit::Guard::new([9; 16], sip_limit::Limits::default())),
            rates: Arc::new(sip_limit::Rates::new([10; 16])),
            token_keys: Arc::new(TokenKeys::of([4; 32], 1)),
            gateways: Arc::default(),
        });
        let now = Now {
            mono_ms: 1_000,
            unix_ms: 1_700_000_000_000,
        };
        let engine = engine.zip(media).map(|(engine, media)| {
            let own = UdpSocket::bind("127.0.0.1:0").unwrap();
            own.connect(at(&engine)).unwrap();
            let engines = Arc::new(SharedEngines::default());
            let config = media.client.clone();
            Engine {
                client: Client::new(
                    now.mono_ms,
                    [7; 16],
                    ClientNumber::default(),
                    engines,
                    config,
                ),
                own,
                engine,
            }
        });
        Self {
            shard: Shard::new(Arc::new(settings), shared, Seed([5; 32])),
            out: Outputs::default(),
            now,
            engine,
            text: String::new(),
            calls: 0,
            spent: Duration::ZERO,
        }
    }

    fn calls(&mut self, calls: u64) {
        for _ in 0..calls {
            self.call();
        }
    }

    fn call(&mut self) {
        self.calls += 1;
        self.now.mono_ms += 1;
        self.now.unix_ms += 1;
        self.out.clear();
        let started = Instant::now();
        self.shard.handle_timers(self.now, &mut self.out);
        self.spent += started.elapsed();
        self.request("INVITE", "sip:bob@example.com", "", "", SDP);
        let invite = self.sent();
        self.respond(&invite, "100 Trying", "");
        self.respond(&invite, "180 Ringing", "");
        self.respond(&invite, "200 OK", SDP);
        let ok = self.sent();
        let routes = ok.values(HeaderName::RecordRoute);
        let routes = routes.map(|(value, _)| String::from_utf8_lossy(value).into_owned());
        let mut routes: Vec<_> = routes.map(|value| format!("Route: {value}\r\n")).collect();
        routes.reverse();
        let routes = routes.concat();
        let contact = "sip:bob@203.0.113.9:5070";
        self.request("ACK", contact, ";tag=b", &routes, "");
        self.request("BYE", contact, ";tag=b", &routes, "");
        let bye = self.sent();
        self.respond(&bye, "200 OK", "");
    }

    fn request(&mut self, method: &str, uri: &str, tag: &str, routes: &str, body: &str) {
        let call = self.calls;
        self.text.clear();
        write!(
            self.text,
            "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/UDP 198.51.100.1:5060;branch=z9hG4bK-{call}-{method}\r\n{routes}\
             From: alice <sip:alice@example.com:5060>;tag=a{call}\r\nTo: bob <sip:bob@example.org>{tag}\r\n\
             Call-ID: {call}-4711@198.51.100.1\r\nCSeq: {} {method}\r\nContact: <sip:alice@198.51.100.1:5060>\r\n\
             Max-Forwards: 70\r\nSubject: Performance Test\r\nContent-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{body}",
            if method == "BYE" { 2 } else { 1 },
            body.len()
        )
        .unwrap();
        self.receive(flow("198.51.100.1:5060"));
    }

    fn respond(&mut self, request: &Message, status: &str, body: &str) {
        self.text.clear();
        write!(self.text, "SIP/2.0 {status}\r\n").unwrap();
        for field in request.fields() {
            let line = String::from_utf8_lossy(request.slice(field.line_span));
            match field.name {
                HeaderName::To if !line.ends_with(";tag=b\r\n") => {
                    write!(self.text, "{};tag=b\r\n", line.trim_end()).unwrap();
                }
                HeaderName::Via
                | HeaderName::From
                | HeaderName::To
                | HeaderName::CallId
                | HeaderName::CSeq
                | HeaderName::RecordRoute => self.text.push_str(&line),
                _ => {}
            }
        }
        write!(
            self.text,
            "Contact: <sip:bob@203.0.113.9:5070>\r\nContent-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        self.receive(flow("203.0.113.9:5070"));
    }

    /// A message, and what the engine has to say of it.
    fn receive(&mut self, flow: Flow) {
        self.out.clear();
        let started = Instant::now();
        let mut message = self.shard.spare_message();
        message
            .fill(self.text.as_bytes(), &Limits::default())
            .unwrap();
        let sender = Sender::unproved(flow);
        self.shard
            .handle_message(self.now, &sender, message, &mut self.out);
        self.spent += started.elapsed();
        if let Some(mut engine) = self.engine.take() {
            self.ask(&mut engine);
            self.engine = Some(engine);
        }
    }

    fn ask(&mut self, engine: &mut Engine) {
        let now_ms = self.now.mono_ms;
        let started = Instant::now();
        let mut sent = 0;
        for effect in self.out.effects.drain(..) {
            if let Effect::Media { park, ask } = effect {
                engine.client.ask(now_ms, park.map(|park| park.0), ask);
            }
        }
        engine.client.handle_timers(now_ms);
        while let Some(transmit) = engine.client.poll_transmit() {
            engine.own.send(&transmit.bytes).unwrap();
            sent += 1;
        }
        self.spent += started.elapsed();
        let mut buffer = [0; 4_096];
        for _ in 0..sent {
            let (length, from) = engine.engine.recv_from(&mut buffer).unwrap();
            reply(&engine.engine, from, &buffer[..length]);
            let started = Instant::now();
            let length = engine.own.recv(&mut buffer).unwrap();
            let at = engine.client.engines()[0];
            engine.client.receive(now_ms, at, &buffer[..length]);
            while let Some(answered) = engine.client.poll_answer() {
                self.shard.handle_media(self.now, answered, &mut self.out);
            }
            self.spent += started.elapsed();
        }
    }

    /// The last message that the server sent.
    fn sent(&self) -> Message {
        let send = self.out.outbox.sends.last().expect("something was sent");
        let bytes = &self.out.outbox.bytes[send.start..send.end];
        Message::parse(bytes, &Limits::default()).unwrap()
    }
}

/// What an engine says: the description with an address of its own, and a few lines more.
fn reply(engine: &UdpSocket, to: SocketAddr, command: &[u8]) {
    let at = command.iter().position(|byte| *byte == b' ').unwrap() + 1;
    let (cookie, text) = command.split_at(at);
    let command = read(text).unwrap();
    let sdp = command.dictionary().unwrap().bytes("sdp");
    let mut datagram = cookie.to_vec();
    Writer::new(&mut datagram).dictionary(|of| {
        if let Some(sdp) = sdp {
            let sdp = String::from_utf8_lossy(sdp).replace("198.51.100.1", "192.0.2.200");
            let sdp = sdp + "a=rtcp:30001\r\na=rtpengine:1b2f0c4de1f8\r\n";
            of.entry("sdp", sdp.as_bytes());
        }
        of.entry("result", b"ok");
    });
    engine.send_to(&datagram, to).unwrap();
}
