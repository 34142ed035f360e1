//! Connections to other instances (third-party call control). Commands go over TCP,
//! each ended by the byte ESC, as SIPp does it.
//!
//! Each connection has a thread that reads and one that writes; the loop that moves
//! messages only looks into queues.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use sip_net::Waker;
use sip_scenario::{Program, Twin};

use crate::args::ThirdParty;
use crate::error::{Refusal, exit};

/// What ends a command.
const ESC: u8 = 27;
/// The longest command, in bytes.
const COMMAND_MAX: u64 = 65_536;
/// Commands that wait to be written, or to be heard.
const QUEUE_MAX: usize = 1_024;
/// Instances that may connect.
const CONNECTIONS_MAX: usize = 16;
/// How long a peer may take to be connected to, and to read a command.
const WRITE_TIMEOUT: Duration = Duration::from_secs(1);

/// What came of other instances.
#[derive(Debug)]
pub(crate) enum Heard {
    /// A command.
    Command(Vec<u8>),
    /// One of them has ended.
    Ended,
}

/// The other instances, before anything is heard of them.
pub(crate) struct Plan {
    /// Where we listen.
    listener: Option<TcpListener>,
    /// How commands go out, by the number of the peer.
    peers: Vec<PeerLink>,
    /// Whether there is only one, so that commands go both ways on one connection.
    is_one: bool,
}

/// How commands go to an instance.
enum PeerLink {
    /// By a connection that is open.
    Open(TcpStream),
    /// By one that is opened when it must be.
    To(SocketAddr),
    /// By the one that the instance opens.
    Comes(Receiver<TcpStream>),
}

impl PeerLink {
    fn open(self) -> Option<TcpStream> {
        match self {
            Self::Open(stream) => Some(stream),
            Self::To(addr) => TcpStream::connect_timeout(&addr, WRITE_TIMEOUT).ok(),
            Self::Comes(streams) => streams.recv_timeout(WRITE_TIMEOUT).ok(),
        }
    }
}

/// The other instances.
#[derive(Default)]
pub(crate) struct Twins {
    senders: Vec<SyncSender<Vec<u8>>>,
    writers: Vec<JoinHandle<()>>,
    heard: Option<Receiver<Heard>>,
}

/// How threads tell the loop.
#[derive(Clone)]
struct Ear {
    sender: SyncSender<Heard>,
    waker: Waker,
}

impl Ear {
    /// False where nobody listens any more.
    fn tell(&self, heard: Heard) -> bool {
        let is_heard = self.sender.send(heard).is_ok();
        self.waker.wake();
        is_heard
    }
}

impl Plan {
    /// Listens and connects as the command line and the scenario want it: SIPp's order,
    /// in which who sends the first command is started last.
    pub(crate) fn make(args: &ThirdParty, program: &Program) -> Result<Option<Self>, Refusal> {
        if let Some(twin) = &args.twin {
            let addr = resolve(twin)?;
            return Ok(Some(match program.twin() {
                Some(Twin::Tells) => Self {
                    listener: None,
                    peers: vec![PeerLink::Open(connect(addr)?)],
                    is_one: true,
                },
                _ => Self {
                    listener: Some(listen(addr)?),
                    peers: Vec::new(),
                    is_one: true,
                },
            }));
        }
        let (Some(file), Some((own, is_master))) = (&args.peers_file, &args.own) else {
            return Ok(None);
        };
        let addresses = read_peers(file)?;
        let find = |name: &str| {
            let found = addresses.iter().find(|(known, _)| known == name);
            match found {
                Some((_, text)) => resolve(text),
                None => Err(Refusal::mistake(format!(
                    "{}: no line for {name}; write {name};HOST:PORT",
                    file.display()
                ))),
            }
        };
        let listener = listen(find(own)?)?;
        let mut peers = Vec::new();
        for name in program.peers() {
            let addr = find(name)?;
            // Slaves are there before their master; they connect when they must.
            peers.push(if *is_master {
                PeerLink::Open(connect(addr)?)
            } else {
                PeerLink::To(addr)
            });
        }
        Ok(Some(Self {
            listener: Some(listener),
            peers,
            is_one: false,
        }))
    }

    /// Starts the threads.
    pub(crate) fn start(self, waker: &Waker) -> Twins {
        let (sender, heard) = sync_channel(QUEUE_MAX);
        let ear = Ear {
            sender,
            waker: waker.clone(),
        };
        let mut twins = Twins {
            heard: Some(heard),
            ..Twins::default()
        };
        for link in self.peers {
            if let (true, PeerLink::Open(stream)) = (self.is_one, &link)
                && let Ok(stream) = stream.try_clone()
            {
                let ear = ear.clone();
                spawn("twin", move || read(stream, &ear));
            }
            twins.write(link, &ear);
        }
        if let Some(listener) = self.listener {
            let streams = self.is_one.then(|| {
                let (sender, streams) = sync_channel(1);
                twins.write(PeerLink::Comes(streams), &ear);
                sender
            });
            spawn("twins", move || accept(&listener, streams, &ear));
        }
        twins
    }
}

impl Twins {
    /// Starts a thread that writes to one more instance.
    fn write(&mut self, link: PeerLink, ear: &Ear) {
        let (sender, commands) = sync_channel(QUEUE_MAX);
        self.senders.push(sender);
        let ear = ear.clone();
        let writer = spawn("to twin", move || write_to(link, &commands, &ear));
        self.writers.extend(writer);
    }

    /// Sends a command; false where it cannot be.
    pub(crate) fn send(&self, peer: Option<u16>, text: Vec<u8>) -> bool {
        let sender = self.senders.get(usize::from(peer.unwrap_or(0)));
        sender.is_some_and(|sender| sender.try_send(text).is_ok())
    }

    /// What came next, if anything did.
    pub(crate) fn receive(&self) -> Option<Heard> {
        self.heard.as_ref()?.try_recv().ok()
    }

    /// Lets the last commands leave.
    pub(crate) fn finish(self) {
        drop(self.senders);
        // Nobody hears any more: who has something to tell must not wait for it.
        drop(self.heard);
        for writer in self.writers {
            // Each write has its time, so this ends.
            let _ = writer.join();
        }
    }
}

/// Takes connections. With only one other instance the first is the only one, and
/// commands go back by it.
fn accept(listener: &TcpListener, streams: Option<SyncSender<TcpStream>>, ear: &Ear) {
    let most = if streams.is_some() {
        1
    } else {
        CONNECTIONS_MAX
    };
    for stream in listener.incoming().flatten().take(most) {
        if let (Some(streams), Ok(stream)) = (&streams, stream.try_clone()) {
            let _ = streams.try_send(stream);
        }
        let ear = ear.clone();
        spawn("twin", move || read(stream, &ear));
    }
}

fn read(stream: TcpStream, ear: &Ear) {
    let mut reader = BufReader::new(stream);
    loop {
        let mut command = Vec::new();
        let read = reader
            .by_ref()
            .take(COMMAND_MAX)
            .read_until(ESC, &mut command);
        if read.is_err() || command.pop() != Some(ESC) {
            ear.tell(Heard::Ended);
            return;
        }
        if !ear.tell(Heard::Command(command)) {
            return;
        }
    }
}

fn write_to(link: PeerLink, commands: &Receiver<Vec<u8>>, ear: &Ear) {
    let mut link = Some(link);
    let mut stream = None;
    while let Ok(mut text) = commands.recv() {
        text.push(ESC);
        if let Some(link) = link.take() {
            stream = link.open();
        }
        let is_written = stream.as_mut().is_some_and(|stream: &mut TcpStream| {
            let _ = stream.set_nodelay(true);
            stream.set_write_timeout(Some(WRITE_TIMEOUT)).is_ok() && stream.write_all(&text).is_ok()
        });
        if !is_written {
            ear.tell(Heard::Ended);
            return;
        }
    }
    if let Some(stream) = stream {
        let _ = stream.shutdown(Shutdown::Write);
    }
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Option<JoinHandle<()>> {
    // Without the thread the other instance is one that never answers.
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(body)
        .ok()
}

fn listen(addr: SocketAddr) -> Result<TcpListener, Refusal> {
    TcpListener::bind(addr).map_err(|error| Refusal {
        code: exit::BIND,
        what: format!("commands of other instances on {addr}: {error}"),
    })
}

fn connect(addr: SocketAddr) -> Result<TcpStream, Refusal> {
    TcpStream::connect(addr).map_err(|error| {
        Refusal::fatal(format!(
            "the other instance at {addr}: {error}; who sends the first command is started last"
        ))
    })
}

fn resolve(text: &str) -> Result<SocketAddr, Refusal> {
    let wrong = |why: String| Refusal::fatal(format!("the other instance {text}: {why}"));
    text.to_socket_addrs()
        .map_err(|error| wrong(format!("{error}; write HOST:PORT")))?
        .next()
        .ok_or_else(|| wrong("it has no address".to_owned()))
}

/// `NAME;HOST:PORT` in each line.
fn read_peers(file: &Path) -> Result<Vec<(String, String)>, Refusal> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| Refusal::mistake(format!("-slave_cfg {}: {error}", file.display())))?;
    let peers = text.lines().filter_map(|line| {
        let (name, address) = line.split_once(';')?;
        let address = address.split(';').next().unwrap_or_default();
        Some((name.trim().to_owned(), address.trim().to_owned()))
    });
    Ok(peers.collect())
}

#[cfg(test)]
mod tests {
    use sip_msg::Transport;
    use sip_net::{ListenerConfig, Net, NetConfig, bind};

    use super::*;

    /// A writer whose peer is gone tells so, also where what was heard before is not read.
    #[test]
    fn the_end_waits_for_nobody_who_tells_something() {
        let listener = ListenerConfig::new(Transport::Udp, SocketAddr::from(([127, 0, 0, 1], 0)));
        let sockets = bind(&[listener], 1).unwrap().remove(0);
        let net = Net::new(0, NetConfig::default(), sockets).unwrap();
        let (sender, heard) = sync_channel(1);
        let ear = Ear {
            sender,
            waker: net.waker(),
        };
        assert!(ear.tell(Heard::Command(Vec::new())));
        let mut twins = Twins {
            heard: Some(heard),
            ..Twins::default()
        };
        // Nobody comes, so that the command cannot be written.
        let (_, streams) = sync_channel(1);
        twins.write(PeerLink::Comes(streams), &ear);
        assert!(twins.send(None, b"Call-ID: x\r\n\r\n".to_vec()));
        let (done, is_done) = sync_channel(1);
        std::thread::spawn(move || {
            twins.finish();
            done.send(()).unwrap();
        });
        // However busy the machine is.
        let ended = is_done.recv_timeout(Duration::from_secs(90));
        assert_eq!(ended, Ok(()));
    }

    #[test]
    fn names_and_addresses_stand_in_lines() {
        let path = std::env::temp_dir().join(format!("signet-peers-{}", std::process::id()));
        std::fs::write(
            &path,
            "m;127.0.0.1:7000\n\n# x\ns1; 127.0.0.1:7001;more\r\n",
        )
        .unwrap();
        let peers = read_peers(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let pair = |name: &str, address: &str| (name.to_owned(), address.to_owned());
        assert_eq!(
            peers,
            [pair("m", "127.0.0.1:7000"), pair("s1", "127.0.0.1:7001")]
        );
    }
}
