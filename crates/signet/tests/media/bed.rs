//! Debian's rtpengine in user space, a server that leads calls through it, and phones that speak.

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value as Json;
use sip_media::bencode::{self, Value, Writer};
use sip_net::testing::uninterrupted;

use crate::support::command::{Serving, succeed, text};
use crate::support::phone::{Dialog, Phone, field, fields};
use crate::support::{Running, add_user, free_port, unique};

pub(crate) const DOMAIN: &str = "example.com";
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// An rtpengine in user space.
pub(crate) struct Engine {
    pub(crate) process: Running,
    pub(crate) at: SocketAddr,
    control: UdpSocket,
}

impl Engine {
    pub(crate) fn start(folder: &Path) -> Self {
        Self::start_at(folder, free_port())
    }

    pub(crate) fn start_at(folder: &Path, port: u16) -> Self {
        Self::start_on(folder, port, "127.0.0.1")
    }

    /// One whose media comes by that address, or by each of those with spaces between them.
    pub(crate) fn start_on(folder: &Path, port: u16, interfaces: &str) -> Self {
        static RANGES: AtomicU16 = AtomicU16::new(0);
        let first = 40_000 + 200 * (RANGES.fetch_add(1, Ordering::Relaxed) % 50);
        let at = SocketAddr::from(([127, 0, 0, 1], port));
        let log = folder.join(format!("rtpengine-{port}.log"));
        let interfaces = interfaces.split(' ');
        let interfaces: Vec<String> = interfaces.map(|of| format!("--interface={of}")).collect();
        let mut words: Vec<&str> = interfaces.iter().map(String::as_str).collect();
        let (listen, first, last) = (
            format!("--listen-ng={at}"),
            format!("--port-min={first}"),
            format!("--port-max={}", first + 199),
        );
        words.extend([
            "--config-file=none",
            "--foreground",
            "--log-stderr",
            "--log-level=6",
            "--table=-1",
            &listen,
            &first,
            &last,
            // What it is told ends at once all the same.
            "--delete-delay=3600",
        ]);
        let process = Running::start("rtpengine", &words, &log);
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
    pub(crate) fn ask(&self, command: &str) -> Option<Vec<u8>> {
        let cookie = unique();
        let mut datagram = format!("{cookie} ").into_bytes();
        Writer::new(&mut datagram).dictionary(|of| {
            of.entry("command", command.as_bytes());
        });
        self.control.send_to(&datagram, self.at).ok()?;
        let mut buffer = vec![0; 65_535];
        loop {
            let length = uninterrupted(|| self.control.recv(&mut buffer)).ok()?;
            let reply = buffer[..length].strip_prefix(cookie.as_bytes());
            if let Some(reply) = reply.and_then(|reply| reply.strip_prefix(b" ")) {
                return Some(reply.to_vec());
            }
        }
    }

    /// The names of its calls: each begins with a Call-ID.
    pub(crate) fn calls(&self) -> Vec<String> {
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
    pub(crate) fn has(&self, call_id: &str) -> bool {
        let calls = self.calls();
        calls.iter().any(|name| name.starts_with(call_id))
    }

    /// Waits until it has no call any more.
    pub(crate) fn wait_until_idle(&self) {
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

pub(crate) fn serve(folder: &Path, engines: &[&Engine], media: &str) -> Serving {
    let at: Vec<SocketAddr> = engines.iter().map(|of| of.at).collect();
    serve_at(folder, &at, media)
}

/// The same with engines at those addresses.
pub(crate) fn serve_at(folder: &Path, engines: &[SocketAddr], media: &str) -> Serving {
    let data = folder.join("data");
    for user in ["alice", "bob"] {
        add_user(&data, user, DOMAIN, &format!("{user}-secret"));
    }
    let engines: Vec<String> = engines.iter().map(|at| format!("\"udp:{at}\"")).collect();
    let config = folder.join("signet.toml");
    let whole = format!(
        "version = 1\ndata = \"data\"\ndomains = [\"{DOMAIN}\"]\nworkers = 2\n\
         [[listen]]\non = \"udp:127.0.0.1:0\"\nmedia = \"{media}\"\n\
         [[listen]]\non = \"udp:[::1]:0\"\nmedia = \"{media}\"\n\
         [[listen]]\non = \"ws:127.0.0.1:0\"\n\
         [media]\nengines = [{}]\nping_interval_s = 1\n",
        engines.join(", ")
    );
    fs::write(&config, whole).unwrap();
    Serving::start(folder, &data, &["--config", text(&config)])
}

/// The media engines as `signet media` shows them.
pub(crate) fn shown(folder: &Path) -> Vec<Json> {
    let data = folder.join("data");
    let answer = succeed(&["media", "--json", "--data", text(&data)], "");
    let answer: Json = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer["version"], 1, "{answer}");
    answer["engines"].as_array().unwrap().clone()
}

/// Waits until the engine at that address is in use, or is not.
pub(crate) fn wait_for_engine(folder: &Path, at: SocketAddr, is_in_use: bool) {
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
pub(crate) struct Speaker {
    pub(crate) phone: Phone,
    pub(crate) media: UdpSocket,
    /// What it says.
    voice: u8,
}

impl Speaker {
    pub(crate) fn new(server: &Serving, user: &str, voice: u8) -> Self {
        Self::of(server, user, DOMAIN, voice)
    }

    pub(crate) fn of(server: &Serving, user: &str, domain: &str, voice: u8) -> Self {
        Self::at("127.0.0.1", server.at("udp"), (user, domain), voice)
    }

    /// The same at that address of this host.
    pub(crate) fn at(
        ip: &str,
        server: SocketAddr,
        (user, domain): (&str, &str),
        voice: u8,
    ) -> Self {
        let media = UdpSocket::bind((ip, 0)).unwrap();
        let short = Duration::from_millis(20);
        media.set_read_timeout(Some(short)).unwrap();
        let mut phone = Phone::udp_at(ip, server, user, domain);
        phone.set_sdp(&plain_sdp_at(media.local_addr().unwrap()));
        phone.register();
        Self {
            phone,
            media,
            voice,
        }
    }

    /// Sends a packet of G.711 there.
    pub(crate) fn speak(&self, to: SocketAddr, sequence: u16) {
        let packet = packet(self.voice, sequence);
        self.media.send_to(&packet, to).unwrap();
    }

    /// What has come meanwhile: who sent it, and whose voice it is.
    pub(crate) fn hear(&self) -> Option<(SocketAddr, u8)> {
        let (from, sound) = self.hear_sound()?;
        let voice = sound[0];
        assert!(sound.iter().all(|byte| *byte == voice));
        Some((from, voice))
    }

    /// The same of who says more than one thing; what that is.
    pub(crate) fn hear_sound(&self) -> Option<(SocketAddr, [u8; 160])> {
        let mut buffer = [0; 2_000];
        let (length, from) = uninterrupted(|| self.media.recv_from(&mut buffer)).ok()?;
        assert_eq!(length, 172, "a packet of G.711");
        assert_eq!(buffer[1] & 0x7f, 0, "PCMU");
        Some((from, buffer[12..172].try_into().unwrap()))
    }
}

/// A packet of G.711, PCMU.
pub(crate) fn packet(voice: u8, sequence: u16) -> Vec<u8> {
    let mut packet = vec![0x80, 0];
    packet.extend_from_slice(&sequence.to_be_bytes());
    packet.extend_from_slice(&(160 * u32::from(sequence)).to_be_bytes());
    packet.extend_from_slice(&[voice; 4]);
    packet.extend_from_slice(&[voice; 160]);
    packet
}

pub(crate) fn plain_sdp(port: u16) -> String {
    plain_sdp_at(SocketAddr::from(([127, 0, 0, 1], port)))
}

fn plain_sdp_at(at: SocketAddr) -> String {
    let (ip, port) = (at.ip(), at.port());
    let family = if at.is_ipv6() { "IP6" } else { "IP4" };
    format!(
        "v=0\r\no=- 1 1 IN {family} {ip}\r\ns=-\r\nc=IN {family} {ip}\r\nt=0 0\r\n\
         m=audio {port} RTP/AVP 0\r\na=rtpmap:0 PCMU/8000\r\n"
    )
}

/// The session description in a message.
pub(crate) fn sdp_of(message: &str) -> &str {
    let (_, body) = message.split_once("\r\n\r\n").unwrap();
    // What comes from a browser needs none over UDP (RFC 7118 5.1).
    for length in fields(message, "Content-Length") {
        assert_eq!(body.len(), length.parse::<usize>().unwrap(), "{message}");
    }
    body
}

/// Where media is to be sent by the description in a message.
pub(crate) fn media_at(message: &str) -> SocketAddr {
    let sdp = sdp_of(message);
    let value = |begins: &str| {
        let mut lines = sdp.lines();
        lines
            .find_map(|line| line.strip_prefix(begins))
            .unwrap_or_else(|| panic!("{sdp}"))
    };
    let port = value("m=audio ").split(' ').next().unwrap();
    let (family, ip) = value("c=IN ").split_once(' ').unwrap();
    let at = SocketAddr::new(ip.parse().unwrap(), port.parse().unwrap());
    assert_eq!(family, if at.is_ipv6() { "IP6" } else { "IP4" }, "{sdp}");
    at
}

/// A call of two, and where each was told to send media.
pub(crate) struct Call {
    pub(crate) callers: Dialog,
    pub(crate) callees: Dialog,
    pub(crate) call_id: String,
    pub(crate) callers_way: SocketAddr,
    pub(crate) callees_way: SocketAddr,
}

pub(crate) fn call(alice: &mut Speaker, bob: &mut Speaker) -> Call {
    call_to(alice, bob, "bob")
}

pub(crate) fn call_to(alice: &mut Speaker, bob: &mut Speaker, user: &str) -> Call {
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
    pub(crate) fn speak(&self, alice: &Speaker, bob: &Speaker) {
        speak((alice, self.callers_way), (bob, self.callees_way));
    }

    pub(crate) fn end(mut self, alice: &mut Speaker, bob: &mut Speaker) {
        alice.phone.hang_up(&mut self.callers);
        bob.phone.ended(&self.callees);
        alice.phone.hung_up(&self.callers);
    }
}

/// Two speak, each to where he was told, until each has heard ten packets of the other, from
/// there and from nowhere else.
pub(crate) fn speak(alice: (&Speaker, SocketAddr), bob: (&Speaker, SocketAddr)) {
    let direct = [alice, bob].map(|(of, _)| of.media.local_addr().unwrap());
    for (_, way) in [alice, bob] {
        assert!(!direct.contains(&way), "{way} is a phone's own");
    }
    // What came before is another's, or is from before.
    for (who, _) in [alice, bob] {
        while who.hear().is_some() {}
    }
    let mut heard = (0, 0);
    let until = Instant::now() + PATIENCE;
    let mut sequence = 0;
    while heard.0 < 10 || heard.1 < 10 {
        assert!(Instant::now() < until, "they heard {heard:?}");
        sequence += 1;
        alice.0.speak(alice.1, sequence);
        bob.0.speak(bob.1, sequence);
        for ((who, way), other, count) in
            [(alice, bob.0, &mut heard.0), (bob, alice.0, &mut heard.1)]
        {
            if let Some((from, voice)) = who.hear() {
                assert_eq!((from, voice), (way, other.voice));
                *count += 1;
            }
        }
    }
}
