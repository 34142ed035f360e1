//! Calls whose media Debian's rtpengine leads: real packets go through it, and it hears of ends.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value as Json;
use sip_media::bencode::{self, Value, Writer};
use support::command::{Serving, succeed, text};
use support::phone::{Dialog, Phone, field};
use support::{Running, TestDir, add_user, free_port, have, unique};

const DOMAIN: &str = "example.com";
const PATIENCE: Duration = Duration::from_secs(60);

/// An rtpengine in user space.
struct Engine {
    process: Running,
    at: SocketAddr,
    control: UdpSocket,
}

impl Engine {
    fn start(folder: &Path) -> Self {
        Self::start_at(folder, free_port())
    }

    fn start_at(folder: &Path, port: u16) -> Self {
        static RANGES: AtomicU16 = AtomicU16::new(0);
        let first = 40_000 + 200 * (RANGES.fetch_add(1, Ordering::Relaxed) % 50);
        let at = SocketAddr::from(([127, 0, 0, 1], port));
        let log = folder.join(format!("rtpengine-{port}.log"));
        let process = Running::start(
            "rtpengine",
            &[
                "--config-file=none",
                "--foreground",
                "--log-stderr",
                "--log-level=6",
                "--table=-1",
                "--interface=127.0.0.1",
                &format!("--listen-ng={at}"),
                &format!("--port-min={first}"),
                &format!("--port-max={}", first + 199),
                // What it is told ends at once all the same.
                "--delete-delay=3600",
            ],
            &log,
        );
        let control = UdpSocket::bind("127.0.0.1:0").unwrap();
        let short = Duration::from_millis(200);
        control.set_read_timeout(Some(short)).unwrap();
        let engine = Self {
            process,
            at,
            control,
        };
        let until = Instant::now() + PATIENCE;
        while engine.ask("ping").is_none() {
            let told = || fs::read_to_string(&log).unwrap_or_default();
            assert!(Instant::now() < until, "no answer to a ping: {}", told());
        }
        engine
    }

    /// Its reply to a command of the test's own.
    fn ask(&self, command: &str) -> Option<Vec<u8>> {
        let cookie = unique();
        let mut datagram = format!("{cookie} ").into_bytes();
        Writer::new(&mut datagram).dictionary(|of| {
            of.entry("command", command.as_bytes());
        });
        self.control.send_to(&datagram, self.at).ok()?;
        let mut buffer = vec![0; 65_535];
        loop {
            let length = self.control.recv(&mut buffer).ok()?;
            let reply = buffer[..length].strip_prefix(cookie.as_bytes());
            if let Some(reply) = reply.and_then(|reply| reply.strip_prefix(b" ")) {
                return Some(reply.to_vec());
            }
        }
    }

    /// The names of its calls: each begins with a Call-ID.
    fn calls(&self) -> Vec<String> {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(reply) = self.ask("list") {
                let reply = bencode::read(&reply).unwrap();
                let Some(Value::List(calls)) = reply.dictionary().unwrap().get("calls") else {
                    panic!("{reply:?}");
                };
                let names = calls.iter().map(|call| call.bytes().unwrap());
                return names
                    .map(|name| String::from_utf8_lossy(name).into_owned())
                    .collect();
            }
            assert!(Instant::now() < until, "no answer to a list");
        }
    }

    /// Whether it has the call of that Call-ID.
    fn has(&self, call_id: &str) -> bool {
        let calls = self.calls();
        calls.iter().any(|name| name.starts_with(call_id))
    }

    /// Waits until it has no call any more.
    fn wait_until_idle(&self) {
        let until = Instant::now() + PATIENCE;
        loop {
            let calls = self.calls();
            if calls.is_empty() {
                return;
            }
            assert!(Instant::now() < until, "it has {calls:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn serve(folder: &Path, engines: &[&Engine], media: &str) -> Serving {
    let data = folder.join("data");
    for user in ["alice", "bob"] {
        add_user(&data, user, DOMAIN, &format!("{user}-secret"));
    }
    let engines: Vec<String> = engines
        .iter()
        .map(|of| format!("\"udp:{}\"", of.at))
        .collect();
    let config = folder.join("signet.toml");
    let whole = format!(
        "version = 1\ndata = \"data\"\ndomains = [\"{DOMAIN}\"]\nworkers = 2\n\
         [[listen]]\non = \"udp:127.0.0.1:0\"\nmedia = \"{media}\"\n\
         [[listen]]\non = \"ws:127.0.0.1:0\"\n\
         [media]\nengines = [{}]\nping_interval_s = 1\n",
        engines.join(", ")
    );
    fs::write(&config, whole).unwrap();
    Serving::start(folder, &data, &["--config", text(&config)])
}

/// The media engines as `signet media` shows them.
fn shown(folder: &Path) -> Vec<Json> {
    let data = folder.join("data");
    let answer = succeed(&["media", "--json", "--data", text(&data)], "");
    let answer: Json = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer["version"], 1, "{answer}");
    answer["engines"].as_array().unwrap().clone()
}

/// Waits until the engine at that address is in use, or is not.
fn wait_for_engine(folder: &Path, at: SocketAddr, is_in_use: bool) {
    let until = Instant::now() + PATIENCE;
    loop {
        let all = shown(folder);
        let engine = all
            .iter()
            .find(|of| of["engine"] == at.to_string())
            .unwrap();
        if engine["is_in_use"] == is_in_use {
            return;
        }
        assert!(Instant::now() < until, "{engine}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// A phone with a socket for its media.
struct Speaker {
    phone: Phone,
    media: UdpSocket,
    /// What it says.
    voice: u8,
}

impl Speaker {
    fn new(server: &Serving, user: &str, voice: u8) -> Self {
        Self::of(server, user, DOMAIN, voice)
    }

    fn of(server: &Serving, user: &str, domain: &str, voice: u8) -> Self {
        let media = UdpSocket::bind("127.0.0.1:0").unwrap();
        let short = Duration::from_millis(20);
        media.set_read_timeout(Some(short)).unwrap();
        let mut phone = Phone::udp(server.at("udp"), user, domain);
        phone.set_sdp(&plain_sdp(media.local_addr().unwrap().port()));
        phone.register();
        Self {
            phone,
            media,
            voice,
        }
    }

    /// Sends a packet of G.711 there.
    fn speak(&self, to: SocketAddr, sequence: u16) {
        let mut packet = vec![0x80, 0];
        packet.extend_from_slice(&sequence.to_be_bytes());
        packet.extend_from_slice(&(160 * u32::from(sequence)).to_be_bytes());
        packet.extend_from_slice(&[self.voice; 4]);
        packet.extend_from_slice(&[self.voice; 160]);
        self.media.send_to(&packet, to).unwrap();
    }

    /// What has come meanwhile: who sent it, and whose voice it is.
    fn hear(&self) -> Option<(SocketAddr, u8)> {
        let mut buffer = [0; 2_000];
        let (length, from) = self.media.recv_from(&mut buffer).ok()?;
        assert_eq!(length, 172, "a packet of G.711");
        let voice = buffer[12];
        assert!(buffer[12..length].iter().all(|byte| *byte == voice));
        Some((from, voice))
    }
}

fn plain_sdp(port: u16) -> String {
    format!(
        "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n\
         m=audio {port} RTP/AVP 0\r\na=rtpmap:0 PCMU/8000\r\n"
    )
}

/// The session description in a message.
fn sdp_of(message: &str) -> &str {
    let (_, body) = message.split_once("\r\n\r\n").unwrap();
    let length: usize = field(message, "Content-Length").parse().unwrap();
    assert_eq!(body.len(), length, "{message}");
    body
}

/// Where media is to be sent by the description in a message.
fn media_at(message: &str) -> SocketAddr {
    let sdp = sdp_of(message);
    let value = |begins: &str| {
        let mut lines = sdp.lines();
        lines
            .find_map(|line| line.strip_prefix(begins))
            .unwrap_or_else(|| panic!("{sdp}"))
    };
    let port = value("m=audio ").split(' ').next().unwrap();
    SocketAddr::new(value("c=IN IP4 ").parse().unwrap(), port.parse().unwrap())
}

/// A call of two, and where each was told to send media.
struct Call {
    callers: Dialog,
    callees: Dialog,
    call_id: String,
    callers_way: SocketAddr,
    callees_way: SocketAddr,
}

fn call(alice: &mut Speaker, bob: &mut Speaker) -> Call {
    call_to(alice, bob, "bob")
}

fn call_to(alice: &mut Speaker, bob: &mut Speaker, user: &str) -> Call {
    let mut callers = alice.phone.invite(user);
    let (callees, invite) = bob.phone.answer();
    let ok = alice.phone.established(&mut callers);
    bob.phone.acknowledged(&callees);
    Call {
        callers,
        callees,
        call_id: field(&ok, "Call-ID"),
        callers_way: media_at(&ok),
        callees_way: media_at(&invite),
    }
}

impl Call {
    /// Both speak until each has heard ten packets of the other, from where it sends itself.
    fn speak(&self, alice: &Speaker, bob: &Speaker) {
        let direct = [alice, bob].map(|of| of.media.local_addr().unwrap());
        for way in [self.callers_way, self.callees_way] {
            assert!(!direct.contains(&way), "{way} is a phone's own");
        }
        let mut heard = (0, 0);
        let until = Instant::now() + PATIENCE;
        let mut sequence = 0;
        while heard.0 < 10 || heard.1 < 10 {
            assert!(Instant::now() < until, "they heard {heard:?}");
            sequence += 1;
            alice.speak(self.callers_way, sequence);
            bob.speak(self.callees_way, sequence);
            for (who, other, way, count) in [
                (alice, bob, self.callers_way, &mut heard.0),
                (bob, alice, self.callees_way, &mut heard.1),
            ] {
                if let Some((from, voice)) = who.hear() {
                    assert_eq!((from, voice), (way, other.voice));
                    *count += 1;
                }
            }
        }
    }

    fn end(mut self, alice: &mut Speaker, bob: &mut Speaker) {
        alice.phone.hang_up(&mut self.callers);
        bob.phone.ended(&self.callees);
        alice.phone.hung_up(&self.callers);
    }
}

#[test]
fn phones_hear_each_other_through_the_engine_until_one_hangs_up() {
    if !have("rtpengine") {
        return;
    }
    let folder = TestDir::new("media-call");
    let engine = Engine::start(folder.path());
    let server = serve(folder.path(), &[&engine], "rtpengine");
    let (mut alice, mut bob) = (
        Speaker::new(&server, "alice", 0x11),
        Speaker::new(&server, "bob", 0x22),
    );
    for _ in 0..3 {
        let call = call(&mut alice, &mut bob);
        assert!(engine.has(&call.call_id));
        call.speak(&alice, &bob);
        let call_id = call.call_id.clone();
        call.end(&mut alice, &mut bob);
        engine.wait_until_idle();
        assert!(!engine.has(&call_id));
    }
}

#[test]
fn what_needs_no_engine_speaks_without_one() {
    if !have("rtpengine") {
        return;
    }
    let folder = TestDir::new("media-without");
    let engine = Engine::start(folder.path());
    let server = serve(folder.path(), &[&engine], "auto");
    let (mut alice, mut bob) = (
        Speaker::new(&server, "alice", 0x11),
        Speaker::new(&server, "bob", 0x22),
    );
    let call = call(&mut alice, &mut bob);
    assert_eq!(call.callers_way, bob.media.local_addr().unwrap());
    assert_eq!(call.callees_way, alice.media.local_addr().unwrap());
    assert!(!engine.has(&call.call_id));
    call.end(&mut alice, &mut bob);
}

#[test]
fn where_an_engine_dies_the_other_takes_the_calls_and_without_any_they_are_refused() {
    if !have("rtpengine") {
        return;
    }
    let folder = TestDir::new("media-failover");
    let mut one = Engine::start(folder.path());
    let other = Engine::start(folder.path());
    let server = serve(folder.path(), &[&one, &other], "rtpengine");
    let (mut alice, mut bob) = (
        Speaker::new(&server, "alice", 0x11),
        Speaker::new(&server, "bob", 0x22),
    );
    // Calls are spread over both.
    let (mut of_one, mut of_other) = (0, 0);
    let until = Instant::now() + PATIENCE;
    while of_one == 0 || of_other == 0 {
        assert!(Instant::now() < until, "{of_one} {of_other}");
        let call = call(&mut alice, &mut bob);
        let has = (one.has(&call.call_id), other.has(&call.call_id));
        assert!(has.0 != has.1, "{has:?}");
        of_one += u32::from(has.0);
        of_other += u32::from(has.1);
        call.end(&mut alice, &mut bob);
    }

    one.process.signal("-KILL");
    one.process.wait(PATIENCE);
    for _ in 0..5 {
        let call = call(&mut alice, &mut bob);
        assert!(other.has(&call.call_id));
        call.speak(&alice, &bob);
        call.end(&mut alice, &mut bob);
    }
    wait_for_engine(folder.path(), one.at, false);
    wait_for_engine(folder.path(), other.at, true);

    let at = other.at;
    drop(other);
    let dialog = alice.phone.invite("bob");
    let answer = alice.phone.refused(&dialog);
    assert!(answer.starts_with("SIP/2.0 503 "), "{answer}");
    assert!(!field(&answer, "Retry-After").is_empty());
    assert!(answer.contains("media_unavailable"), "{answer}");
    wait_for_engine(folder.path(), at, false);

    // One that returns takes calls again.
    let one = Engine::start_at(folder.path(), one.at.port());
    wait_for_engine(folder.path(), one.at, true);
    let call = call(&mut alice, &mut bob);
    assert!(one.has(&call.call_id));
    call.speak(&alice, &bob);
    call.end(&mut alice, &mut bob);
    one.wait_until_idle();
}

#[test]
fn an_engine_that_is_drained_gets_no_new_calls() {
    if !have("rtpengine") {
        return;
    }
    let folder = TestDir::new("media-drained");
    let (one, other) = (Engine::start(folder.path()), Engine::start(folder.path()));
    let server = serve(folder.path(), &[&one, &other], "rtpengine");
    let (mut alice, mut bob) = (
        Speaker::new(&server, "alice", 0x11),
        Speaker::new(&server, "bob", 0x22),
    );
    let data = folder.path().join("data");
    let at = one.at.to_string();
    let told = succeed(&["media", "drain", &at, "--data", text(&data)], "");
    assert!(told.contains("is drained: it gets no new calls"), "{told}");
    for _ in 0..5 {
        let call = call(&mut alice, &mut bob);
        assert!(other.has(&call.call_id));
        call.end(&mut alice, &mut bob);
    }
    let told = succeed(&["media", "--data", text(&data)], "");
    assert!(told.contains(&format!("{at}: drained; ")), "{told}");
    let told = succeed(&["media", "undrain", &at, "--data", text(&data)], "");
    assert!(told.contains("gets new calls again"), "{told}");
    wait_for_engine(folder.path(), one.at, true);
}

/// What a browser offers, or answers with `role`.
fn browser_sdp(role: &str) -> String {
    let fingerprint: Vec<String> = (0..32).map(|byte| format!("{byte:02X}")).collect();
    format!(
        "v=0\r\no=- 4611 2 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\na=group:BUNDLE 0\r\n\
         m=audio 9 UDP/TLS/RTP/SAVPF 0\r\nc=IN IP4 0.0.0.0\r\na=rtcp:9 IN IP4 0.0.0.0\r\n\
         a=candidate:1 1 udp 2113937151 127.0.0.1 45999 typ host generation 0\r\n\
         a=ice-ufrag:Wxyz\r\na=ice-pwd:abcdefghijklmnopqrstuvwx\r\n\
         a=fingerprint:sha-256 {}\r\na=setup:{role}\r\na=mid:0\r\na=sendrecv\r\na=rtcp-mux\r\n\
         a=rtpmap:0 PCMU/8000\r\n",
        fingerprint.join(":")
    )
}

/// What a phone understands.
#[track_caller]
fn assert_plain(message: &str) {
    let sdp = sdp_of(message);
    assert!(sdp.contains(" RTP/AVP 0"), "{sdp}");
    for foreign in [
        "candidate",
        "fingerprint",
        "ice-",
        "setup",
        "crypto",
        "45999",
    ] {
        assert!(!sdp.contains(foreign), "{foreign} in {sdp}");
    }
}

/// What a browser needs.
#[track_caller]
fn assert_for_browsers(message: &str) {
    let sdp = sdp_of(message);
    for needed in [
        " UDP/TLS/RTP/SAVPF 0",
        "a=candidate:",
        "a=ice-ufrag:",
        "a=ice-pwd:",
        "a=fingerprint:sha-",
        "a=setup:",
        "a=rtcp-mux",
    ] {
        assert!(sdp.contains(needed), "no {needed} in {sdp}");
    }
    assert!(!sdp.contains("a=crypto"), "{sdp}");
}

#[test]
fn a_browser_and_a_phone_are_given_what_each_understands() {
    if !have("rtpengine") {
        return;
    }
    let folder = TestDir::new("media-browser");
    let engine = Engine::start(folder.path());
    let server = serve(folder.path(), &[&engine], "auto");
    let mut browser = Phone::websocket(server.at("ws"), "alice", DOMAIN);
    browser.register();
    let mut phone = Phone::udp(server.at("udp"), "bob", DOMAIN);
    phone.set_sdp(&plain_sdp(46_000));
    phone.register();

    browser.set_sdp(&browser_sdp("actpass"));
    let mut callers = browser.invite("bob");
    let (callees, invite) = phone.answer();
    assert_plain(&invite);
    let ok = browser.established(&mut callers);
    assert_for_browsers(&ok);
    phone.acknowledged(&callees);
    assert!(engine.has(&field(&ok, "Call-ID")));
    browser.hang_up(&mut callers);
    phone.ended(&callees);
    browser.hung_up(&callers);
    engine.wait_until_idle();

    browser.set_sdp(&browser_sdp("active"));
    let mut callers = phone.invite("alice");
    let (callees, invite) = browser.answer();
    assert_for_browsers(&invite);
    let ok = phone.established(&mut callers);
    assert_plain(&ok);
    browser.acknowledged(&callees);
    phone.hang_up(&mut callers);
    browser.ended(&callees);
    phone.hung_up(&callers);
    engine.wait_until_idle();
}

#[test]
fn two_servers_on_the_way_lead_a_call_through_their_engine_once() {
    if !have("rtpengine") {
        return;
    }
    let folders = [TestDir::new("media-near"), TestDir::new("media-far")];
    let [near, far] = [0, 1].map(|nth: usize| folders[nth].path());
    let engine = Engine::start(near);
    let media = format!("[media]\nengines = [\"udp:{}\"]\n", engine.at);
    let start = |folder: &Path, (user, domain): (&str, &str), listen: &str, more: &str| {
        let data = folder.join("data");
        add_user(&data, user, domain, &format!("{user}-secret"));
        let config = folder.join("signet.toml");
        let whole = format!(
            "version = 1\ndata = \"data\"\ndomains = [\"{domain}\"]\nworkers = 1\n\
             [[listen]]\non = \"udp:{listen}:0\"\nmedia = \"rtpengine\"\n{media}{more}"
        );
        fs::write(&config, whole).unwrap();
        Serving::start(folder, &data, &["--config", text(&config)])
    };
    const FAR: &str = "far.example";
    let trusted = "[[trusted]]\nnetwork = \"127.0.0.2\"\n";
    let behind = start(far, ("4930", FAR), "127.0.0.1", trusted);
    let route = format!(
        "[[gateway_group]]\nname = \"far\"\ngateways = [{{ uri = \"sip:{};transport=udp\" }}]\n\
         [[route]]\nprefix = \"49\"\ngroup = \"far\"\n",
        behind.at("udp")
    );
    let before = start(near, ("alice", DOMAIN), "127.0.0.2", &route);
    let (mut alice, mut bob) = (
        Speaker::new(&before, "alice", 0x11),
        Speaker::of(&behind, "4930", FAR, 0x22),
    );
    let call = call_to(&mut alice, &mut bob, "4930");
    assert_eq!(engine.calls().len(), 1);
    call.speak(&alice, &bob);
    call.end(&mut alice, &mut bob);
    engine.wait_until_idle();
}
