//! For tests: a DNS server and a WebSocket client of our own, ports for other programs, and reads
//! that go on where the machine was halted.
//! What cannot be done here ends the test: these are the only functions of the
//! crate that panic.
#![allow(clippy::expect_used)]

mod interrupted;
mod ports;
mod websocket;

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

pub use interrupted::uninterrupted;
pub use ports::free_ports;
pub use websocket::{Received, WebSocketClient, upgrade_request};

/// One resource record that [`DnsServer`] serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// An address (A or AAAA).
    Addr(IpAddr),
    /// RFC 2782: priority, weight, port, target.
    Srv(u16, u16, u16, String),
    /// RFC 3403: order, preference, flags, services, replacement.
    Naptr(u16, u16, String, String, String),
    /// An alias.
    Cname(String),
}

/// A DNS server on 127.0.0.1 that answers from a table. It ends when dropped.
#[derive(Debug)]
pub struct DnsServer {
    addr: SocketAddr,
    shared: Arc<DnsShared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct DnsShared {
    ends: AtomicBool,
    silent: AtomicBool,
    questions: AtomicU64,
}

impl DnsServer {
    /// Serves `records`: pairs of a name without its final dot and a record.
    pub fn start(records: Vec<(String, Record)>) -> io::Result<Self> {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        let addr = socket.local_addr()?;
        let shared = Arc::new(DnsShared::default());
        let thread = std::thread::spawn({
            let shared = Arc::clone(&shared);
            move || serve(&socket, &records, &shared)
        });
        Ok(Self {
            addr,
            shared,
            thread: Some(thread),
        })
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// How many questions it was asked.
    pub fn question_count(&self) -> u64 {
        self.shared.questions.load(Ordering::Relaxed)
    }

    /// Whether it leaves questions without an answer from now on.
    pub fn set_silent(&self, silent: bool) {
        self.shared.silent.store(silent, Ordering::Relaxed);
    }
}

impl Drop for DnsServer {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::Relaxed);
        // A datagram wakes it up.
        if let Ok(socket) = UdpSocket::bind("127.0.0.1:0") {
            let _ = socket.send_to(&[], self.addr);
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

const TYPE_A: u16 = 1;
const TYPE_CNAME: u16 = 5;
const TYPE_SOA: u16 = 6;
const TYPE_AAAA: u16 = 28;
const TYPE_SRV: u16 = 33;
const TYPE_NAPTR: u16 = 35;
const CLASS_IN: u16 = 1;
/// Seconds for which an answer holds.
const TTL_S: u32 = 60;
/// Aliases followed.
const CNAMES_MAX: usize = 8;

fn serve(socket: &UdpSocket, records: &[(String, Record)], shared: &DnsShared) {
    let mut buffer = [0; 2_048];
    while !shared.ends.load(Ordering::Relaxed) {
        let Ok((len, client)) = socket.recv_from(&mut buffer) else {
            continue;
        };
        if let Some(question) = buffer.get(..len)
            && let Some(answer) = answer(question, records)
        {
            shared.questions.fetch_add(1, Ordering::Relaxed);
            if !shared.silent.load(Ordering::Relaxed) {
                let _ = socket.send_to(&answer, client);
            }
        }
    }
}

/// The answer to a question, if it is one.
fn answer(question: &[u8], records: &[(String, Record)]) -> Option<Vec<u8>> {
    let (mut name, end) = read_name(question, 12)?;
    let kind = u16::from_be_bytes(question.get(end..end + 2)?.try_into().ok()?);
    let mut body = Vec::new();
    let mut count = 0u16;
    let mut known = false;
    for _ in 0..CNAMES_MAX {
        let mut alias = None;
        for (_, record) in records
            .iter()
            .filter(|(owner, _)| owner.eq_ignore_ascii_case(&name))
        {
            known = true;
            let (record_kind, data) = encode(record);
            if record_kind == kind || record_kind == TYPE_CNAME {
                count += 1;
                write_name(&mut body, &name);
                body.extend_from_slice(&record_kind.to_be_bytes());
                body.extend_from_slice(&CLASS_IN.to_be_bytes());
                body.extend_from_slice(&TTL_S.to_be_bytes());
                body.extend_from_slice(&u16::try_from(data.len()).ok()?.to_be_bytes());
                body.extend_from_slice(&data);
            }
            if let Record::Cname(target) = record {
                alias = Some(target.clone());
            }
        }
        match alias {
            Some(target) if kind != TYPE_CNAME => name = target,
            _ => break,
        }
    }
    let mut out = question.get(..2)?.to_vec();
    // An answer with authority, recursion available; NXDOMAIN for no such name.
    out.extend_from_slice(&[0x85, if known { 0x80 } else { 0x83 }]);
    out.extend_from_slice(&[0, 1]);
    out.extend_from_slice(&count.to_be_bytes());
    // Authority: an SOA record lets a client remember that there is nothing.
    out.extend_from_slice(&[0, u8::from(count == 0), 0, 0]);
    out.extend_from_slice(question.get(12..end + 4)?);
    out.extend_from_slice(&body);
    if count == 0 {
        write_name(&mut out, &name);
        out.extend_from_slice(&TYPE_SOA.to_be_bytes());
        out.extend_from_slice(&CLASS_IN.to_be_bytes());
        out.extend_from_slice(&TTL_S.to_be_bytes());
        // Two empty names, then serial, refresh, retry, expire and minimum.
        out.extend_from_slice(&22u16.to_be_bytes());
        out.extend_from_slice(&[0, 0]);
        for number in [1, TTL_S, TTL_S, TTL_S, TTL_S] {
            out.extend_from_slice(&number.to_be_bytes());
        }
    }
    Some(out)
}

/// The type and the data of a record.
fn encode(record: &Record) -> (u16, Vec<u8>) {
    let mut data = Vec::new();
    let kind = match record {
        Record::Addr(IpAddr::V4(ip)) => {
            data.extend_from_slice(&ip.octets());
            TYPE_A
        }
        Record::Addr(IpAddr::V6(ip)) => {
            data.extend_from_slice(&ip.octets());
            TYPE_AAAA
        }
        Record::Srv(priority, weight, port, target) => {
            for number in [priority, weight, port] {
                data.extend_from_slice(&number.to_be_bytes());
            }
            write_name(&mut data, target);
            TYPE_SRV
        }
        Record::Naptr(order, preference, flags, services, replacement) => {
            for number in [order, preference] {
                data.extend_from_slice(&number.to_be_bytes());
            }
            for text in [flags.as_str(), services, ""] {
                data.push(u8::try_from(text.len()).expect("a short text"));
                data.extend_from_slice(text.as_bytes());
            }
            write_name(&mut data, replacement);
            TYPE_NAPTR
        }
        Record::Cname(target) => {
            write_name(&mut data, target);
            TYPE_CNAME
        }
    };
    (kind, data)
}

fn read_name(message: &[u8], mut at: usize) -> Option<(String, usize)> {
    let mut name = String::new();
    loop {
        let len = usize::from(*message.get(at)?);
        at += 1;
        if len == 0 {
            return Some((name, at));
        }
        let label = message.get(at..at + len)?;
        if !name.is_empty() {
            name.push('.');
        }
        name.push_str(std::str::from_utf8(label).ok()?);
        at += len;
    }
}

fn write_name(out: &mut Vec<u8>, name: &str) {
    for label in name.split('.').filter(|label| !label.is_empty()) {
        out.push(u8::try_from(label.len()).expect("a short label"));
        out.extend_from_slice(label.as_bytes());
    }
    out.push(0);
}
