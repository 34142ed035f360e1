//! The floor: what the kernel and our socket layer cost when nobody reads
//! what is relayed. One client side, one next hop.
//!
//! `tcp-shared` is for a caller that opens a connection per call while the
//! next hop has one connection for all: to give responses back it must find
//! the Call-ID, and does nothing else.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use signet_bed::system::{Server, Site};
use sip_msg::{ConnId, ListenerId, Target, Transport};
use sip_net::{Framing, Gather, ListenerConfig, Net, NetConfig, NetEvent, bind};
use sip_tls::{ClientTls, HandshakeConfig, HandshakePool, ServerTls};

/// What a message over a stream has at least, about: streams are relayed unread, so how many
/// messages there are is told by how many bytes there are.
const MESSAGE_BYTES: u64 = 500;
/// Messages in each interval from which on they gather, as with the server's sockets.
const WORTH_MESSAGES: u32 = 2;

#[derive(clap::Args)]
pub(crate) struct FloorArguments {
    /// What to relay.
    #[arg(long)]
    mode: FloorMode,
    /// Where to listen.
    #[arg(long)]
    listen: SocketAddr,
    /// The next hop.
    #[arg(long)]
    to: SocketAddr,
    /// How long messages may gather; the default is the server's.
    #[arg(long, default_value_t = 1_000)]
    gather_us: u64,
    /// Certificate chain, key and the next hop's authority, for `tls`.
    #[arg(long, num_args = 3, value_names = ["CHAIN", "KEY", "ROOT"])]
    tls: Vec<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FloorMode {
    /// Datagrams.
    Udp,
    /// A connection to the next hop for each that is accepted.
    Tcp,
    /// One connection to the next hop for all that are accepted.
    TcpShared,
    /// As `tcp`, each side decrypted and encrypted.
    Tls,
}

/// Starts one in a process of its own, from where a site listens to a port of 127.0.0.1; `tls`
/// is chain, key and root, for that mode.
pub(crate) fn start(
    site: &Site<'_>,
    mode: &str,
    to: u16,
    tls: &[String],
) -> Result<Server, String> {
    let this = std::env::current_exe().map_err(|e| e.to_string())?;
    let (_, listen) = site
        .listens
        .first()
        .ok_or("the floor has nowhere to listen")?;
    let (listen, to) = (listen.to_string(), format!("127.0.0.1:{to}"));
    let mut words = ["floor", "--mode", mode, "--listen", &listen, "--to", &to]
        .map(str::to_owned)
        .to_vec();
    if !tls.is_empty() {
        words.push("--tls".to_owned());
        words.extend_from_slice(tls);
    }
    site.start("floor", &this.display().to_string(), &words)
}

/// Relays until the process is ended.
pub(crate) fn run(arguments: &FloorArguments) -> Result<(), String> {
    let transport = match arguments.mode {
        FloorMode::Udp => Transport::Udp,
        FloorMode::Tcp | FloorMode::TcpShared => Transport::Tcp,
        FloorMode::Tls => Transport::Tls,
    };
    let framing = if arguments.mode == FloorMode::TcpShared {
        Framing::Sip
    } else {
        Framing::Raw
    };
    // What is read unframed is one message to the sockets, however many there are in it. So
    // whoever relays streams waits for them himself.
    let mut config = NetConfig {
        gather_us: match framing {
            Framing::Raw if transport != Transport::Udp => 0,
            _ => arguments.gather_us,
        },
        ..NetConfig::default()
    };
    let mut listener = ListenerConfig::new(transport, arguments.listen);
    listener.framing = framing;
    if transport == Transport::Tls {
        let [chain, key, root] = arguments.tls.as_slice() else {
            return Err("the mode tls needs --tls CHAIN KEY ROOT".to_owned());
        };
        let server = ServerTls::from_pem_files(&[(chain, key)]).map_err(|e| e.to_string())?;
        let client = ClientTls::from_pem_files(&[root]).map_err(|e| e.to_string())?;
        listener.tls = Some(Arc::new(server));
        config.client_tls = Some(Arc::new(client));
        let pool = HandshakePool::start(HandshakeConfig::default());
        config.handshakes = Some(pool.map_err(|e| e.to_string())?);
    }
    let mut sockets = bind(&[listener], 1).map_err(|e| e.to_string())?;
    let mut net = Net::new(0, config, sockets.remove(0)).map_err(|e| e.to_string())?;
    let to = |remote: SocketAddr, conn: ConnId| Target {
        transport,
        listener: ListenerId(0),
        remote,
        conn,
        may_open: false,
        tls_name: None,
        lane: sip_msg::Lane::Shared,
        local: None,
    };
    let next_hop = Target {
        may_open: true,
        ..to(arguments.to, ConnId::NONE)
    };
    match arguments.mode {
        FloorMode::Udp => relay_datagrams(&mut net, arguments.to, &to),
        FloorMode::Tcp | FloorMode::Tls => {
            let interval = Duration::from_micros(arguments.gather_us);
            relay_streams(&mut net, interval, &next_hop, &to)
        }
        FloorMode::TcpShared => relay_shared(&mut net, arguments.to, &next_hop, &to),
    }
}

/// Messages of one poll: a copy of the bytes, and where they go.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    sends: Vec<(std::ops::Range<usize>, Target)>,
}

impl Batch {
    fn add(&mut self, bytes: &[u8], to: Target) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.sends.push((start..self.bytes.len(), to));
    }

    fn send(&mut self, net: &mut Net) {
        for (range, to) in self.sends.drain(..) {
            net.send(&to, self.bytes.get(range).unwrap_or_default(), 0);
        }
        self.bytes.clear();
        net.flush();
    }
}

fn relay_datagrams(
    net: &mut Net,
    next_hop: SocketAddr,
    to: &dyn Fn(SocketAddr, ConnId) -> Target,
) -> Result<(), String> {
    let mut client = next_hop;
    let mut batch = Batch::default();
    loop {
        net.poll(None, |event| {
            if let NetEvent::Datagram { flow, bytes } = event {
                if flow.remote == next_hop {
                    batch.add(bytes, to(client, ConnId::NONE));
                } else {
                    client = flow.remote;
                    batch.add(bytes, to(next_hop, ConnId::NONE));
                }
            }
        })
        .map_err(|e| e.to_string())?;
        batch.send(net);
    }
}

fn relay_streams(
    net: &mut Net,
    interval: Duration,
    next_hop: &Target,
    to: &dyn Fn(SocketAddr, ConnId) -> Target,
) -> Result<(), String> {
    let mut other: HashMap<ConnId, ConnId> = HashMap::new();
    let mut batch = Batch::default();
    let mut accepted = Vec::new();
    let mut closed = Vec::new();
    let mut early: Vec<(ConnId, Vec<u8>)> = Vec::new();
    let mut gather = Gather::new(Instant::now(), WORTH_MESSAGES);
    let mut bytes_in = 0;
    loop {
        let pause = gather.pause(interval, Instant::now());
        if !pause.is_zero() {
            std::thread::sleep(pause);
        }
        net.poll(None, |event| match event {
            NetEvent::Accepted { flow } => accepted.push(flow.conn),
            NetEvent::Data { flow, bytes } => {
                bytes_in += bytes.len() as u64;
                match other.get(&flow.conn) {
                    Some(&peer) => batch.add(bytes, to(next_hop.remote, peer)),
                    None => early.push((flow.conn, bytes.to_vec())),
                }
            }
            NetEvent::Closed { conn, .. } => closed.push(conn),
            _ => {}
        })
        .map_err(|e| e.to_string())?;
        gather.looked(interval, Instant::now(), bytes_in / MESSAGE_BYTES);
        for conn in accepted.drain(..) {
            if let Ok(peer) = net.open(next_hop) {
                other.insert(conn, peer);
                other.insert(peer, conn);
            }
        }
        for (conn, bytes) in early.drain(..) {
            if let Some(&peer) = other.get(&conn) {
                batch.add(&bytes, to(next_hop.remote, peer));
            }
        }
        batch.send(net);
        for conn in closed.drain(..) {
            if let Some(peer) = other.remove(&conn) {
                other.remove(&peer);
                net.close(peer, true);
            }
        }
    }
}

fn relay_shared(
    net: &mut Net,
    upstream: SocketAddr,
    next_hop: &Target,
    to: &dyn Fn(SocketAddr, ConnId) -> Target,
) -> Result<(), String> {
    let hasher = RandomState::new();
    let mut clients: HashMap<u64, ConnId> = HashMap::new();
    let mut by_conn: HashMap<ConnId, u64> = HashMap::new();
    let mut batch = Batch::default();
    loop {
        net.poll(None, |event| match event {
            NetEvent::Message { flow, bytes } => {
                let call = hasher.hash_one(call_id(bytes));
                if flow.remote == upstream {
                    if let Some(&conn) = clients.get(&call) {
                        batch.add(bytes, to(upstream, conn));
                    }
                } else {
                    clients.insert(call, flow.conn);
                    by_conn.insert(flow.conn, call);
                    batch.add(bytes, next_hop.clone());
                }
            }
            NetEvent::Closed { conn, .. } => {
                if let Some(call) = by_conn.remove(&conn) {
                    clients.remove(&call);
                }
            }
            _ => {}
        })
        .map_err(|e| e.to_string())?;
        batch.send(net);
    }
}

/// What stands behind `Call-ID:` up to the end of its line.
fn call_id(message: &[u8]) -> &[u8] {
    const NAME: &[u8] = b"\r\nCall-ID:";
    let start = message
        .windows(NAME.len())
        .position(|w| w == NAME)
        .map_or(message.len(), |i| i + NAME.len());
    let rest = message.get(start..).unwrap_or_default();
    rest.split(|&b| b == b'\r').next().unwrap_or_default()
}
