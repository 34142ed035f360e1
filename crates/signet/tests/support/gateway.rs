//! A neighbour of the server: takes every call, and remembers by which
//! connection each message of it came.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use sip_msg::{ConnId, Flow, Limits, ListenerId, Message, Target, Transport};
use sip_net::{ListenerConfig, Net, NetConfig, NetEvent, bind};
use sip_tls::testing::TestCa;
use sip_tls::{HandshakeConfig, HandshakePool, ServerTls};

use super::openssl::PATIENCE;

/// What it has seen.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// For each Call-ID the methods that came, and by which connection.
    pub calls: BTreeMap<String, Vec<(String, ConnId)>>,
    /// Connections accepted, in all and now.
    pub accepted: u64,
    pub connections: usize,
}

/// How it treats requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Habit {
    /// Answers an INVITE 200.
    Answers,
    /// Answers an INVITE 486.
    IsBusy,
    /// Closes the connection instead of answering.
    Closes,
    /// Resets the connection instead of answering.
    Resets,
    /// Answers 100 and resets the connection; the 200 comes over a new one.
    AnswersOverAnother,
}

/// A gateway that ends with this value.
pub struct Gateway {
    pub addr: SocketAddr,
    pub transport: Transport,
    record: Arc<Mutex<Record>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Gateway {
    /// Listens over TCP or, with a certificate of `ca`, over TLS.
    pub fn start(transport: Transport, ca: &TestCa, habit: Habit) -> Self {
        let any = "127.0.0.1:0".parse().unwrap();
        let listener = if transport == Transport::Tls {
            let (chain, key) = ca.issue(&["127.0.0.1"]);
            let tls = ServerTls::from_pem(&[(chain.as_bytes(), key.as_bytes())]).unwrap();
            ListenerConfig::tls(any, Arc::new(tls))
        } else {
            ListenerConfig::new(transport, any)
        };
        let config = NetConfig {
            handshakes: Some(HandshakePool::start(HandshakeConfig::default()).unwrap()),
            ..NetConfig::default()
        };
        let mut sockets = bind(&[listener], 1).unwrap();
        let mut net = Net::new(0, config, sockets.remove(0)).unwrap();
        let addr = net.local_addr(ListenerId(0)).unwrap();
        let record = Arc::new(Mutex::new(Record::default()));
        let is_over = Arc::new(AtomicBool::new(false));
        let (mine, over) = (Arc::clone(&record), Arc::clone(&is_over));
        let thread = std::thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                let mut came = Vec::new();
                net.poll(Some(Duration::from_millis(10)), |event| {
                    if let NetEvent::Message { flow, bytes } = event {
                        let message = Message::parse(bytes, &Limits::default()).unwrap();
                        came.push((flow, message));
                    }
                })
                .unwrap();
                for (flow, message) in came {
                    note(&mine, &flow, &message);
                    answer(&mut net, &flow, &message, addr, habit);
                }
                net.flush();
                let mut record = mine.lock().unwrap();
                record.accepted = net.counters().accepted;
                record.connections = net.connection_count();
            }
        });
        Self {
            addr,
            transport,
            record,
            is_over,
            thread: Some(thread),
        }
    }

    /// Its URI in a configuration.
    pub fn uri(&self) -> String {
        format!("sip:{};transport={}", self.addr, self.transport.uri_name())
    }

    pub fn record(&self) -> Record {
        self.record.lock().unwrap().clone()
    }

    /// Waits until what it has seen is as expected.
    #[track_caller]
    pub fn wait_for(&self, is_so: impl Fn(&Record) -> bool) -> Record {
        let until = Instant::now() + PATIENCE;
        loop {
            let record = self.record();
            if is_so(&record) {
                return record;
            }
            assert!(Instant::now() < until, "waited in vain: {record:#?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn note(record: &Mutex<Record>, flow: &Flow, message: &Message) {
    if !message.is_request() {
        return;
    }
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut record = record.lock().unwrap();
    let came = record.calls.entry(text(message.call_id())).or_default();
    came.push((text(message.method_token()), flow.conn));
}

fn answer(net: &mut Net, flow: &Flow, message: &Message, addr: SocketAddr, habit: Habit) {
    let method = message.method_token();
    if !message.is_request() || method == b"ACK" {
        return;
    }
    let is_invite = method == b"INVITE";
    let back = Target::back(flow);
    match habit {
        Habit::Closes => net.close(flow.conn, true),
        Habit::Resets => net.abort(flow.conn),
        Habit::IsBusy if is_invite => net.send(&back, &response(message, 486, flow, addr), 0),
        Habit::AnswersOverAnother if is_invite => {
            net.send(&back, &response(message, 100, flow, addr), 0);
            net.flush();
            net.close(flow.conn, true);
            // RFC 3261 18.2.2: to the address in the Via, over a new connection.
            let via = message.top_via().unwrap();
            let again = Target {
                remote: SocketAddr::new(via.sent_by.ip().unwrap(), via.sent_by.port.unwrap()),
                conn: ConnId::NONE,
                may_open: true,
                ..back
            };
            net.send(&again, &response(message, 200, flow, addr), 0);
        }
        _ => net.send(&back, &response(message, 200, flow, addr), 0),
    }
}

fn response(request: &Message, status: u16, flow: &Flow, addr: SocketAddr) -> Vec<u8> {
    let text = String::from_utf8_lossy(request.bytes()).into_owned();
    let mut answer = format!("SIP/2.0 {status} Whatever\r\n");
    for line in text.lines().take_while(|line| !line.is_empty()) {
        let name = line.split(':').next().unwrap();
        match name {
            "To" if status > 100 && !line.contains(";tag=") => {
                answer += &format!("{line};tag=gateway\r\n");
            }
            "Via" | "From" | "To" | "Call-ID" | "CSeq" | "Record-Route" => {
                answer += &format!("{line}\r\n");
            }
            _ => {}
        }
    }
    let transport = flow.transport.uri_name();
    answer +=
        &format!("Contact: <sip:bob@{addr};transport={transport}>\r\nContent-Length: 0\r\n\r\n");
    answer.into_bytes()
}
