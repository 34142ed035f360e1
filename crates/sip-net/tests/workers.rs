//! Several workers on one port, and waking them.
#![allow(clippy::unwrap_used)]

use std::io::Write;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use crate::common::{any_port, request};
use sip_msg::{ListenerId, Outbox, Target, Transport};
use sip_net::{ListenerConfig, Net, NetConfig, NetEvent, Waker, bind};

const WORKERS: usize = 3;

struct Workers {
    addrs: Vec<SocketAddr>,
    wakers: Vec<Waker>,
    ends: Arc<AtomicBool>,
    threads: Vec<thread::JoinHandle<Net>>,
}

/// Workers that answer everything with itself and count it.
fn start(counts: &Arc<Vec<AtomicUsize>>) -> Workers {
    let listeners = [Transport::Udp, Transport::Tcp]
        .map(|transport| ListenerConfig::new(transport, any_port("127.0.0.1")));
    let sockets = bind(&listeners, WORKERS).unwrap();
    let addrs = (0..2)
        .map(|n| sockets[0].local_addr(ListenerId(n)).unwrap())
        .collect();
    let ends = Arc::new(AtomicBool::new(false));
    let (wakers_in, wakers_out) = mpsc::channel();
    let threads = sockets.into_iter().enumerate().map(|(worker, sockets)| {
        let (counts, ends, wakers) = (Arc::clone(counts), Arc::clone(&ends), wakers_in.clone());
        thread::spawn(move || {
            let mut net = Net::new(worker, NetConfig::default(), sockets).unwrap();
            wakers.send(net.waker()).unwrap();
            let mut outbox = Outbox::default();
            // Without a timeout: only sockets and wakers end the wait.
            while !ends.load(Ordering::Acquire) {
                net.poll(None, |event| {
                    if let NetEvent::Datagram { flow, bytes } | NetEvent::Message { flow, bytes } =
                        event
                    {
                        assert!(!flow.conn.is_some() || flow.conn.worker() == worker);
                        counts[worker].fetch_add(1, Ordering::Relaxed);
                        outbox.send_copy(bytes, Target::back(&flow), 0);
                    }
                })
                .unwrap();
                net.send_outbox(&outbox);
                net.flush();
                outbox.clear();
            }
            net
        })
    });
    let threads = threads.collect();
    let wakers = wakers_out.iter().take(WORKERS).collect();
    Workers {
        addrs,
        wakers,
        ends,
        threads,
    }
}

impl Workers {
    fn stop(self) -> Vec<Net> {
        self.ends.store(true, Ordering::Release);
        self.wakers.iter().for_each(Waker::wake);
        self.threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    }
}

#[test]
fn the_kernel_spreads_peers_over_workers_and_each_peer_stays_with_one() {
    let counts: Arc<Vec<AtomicUsize>> =
        Arc::new((0..WORKERS).map(|_| AtomicUsize::new(0)).collect());
    let workers = start(&counts);
    let message = request("x");
    for _ in 0..60 {
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        for _ in 0..3 {
            peer.send_to(&message, workers.addrs[0]).unwrap();
            let mut buffer = [0; 2_000];
            let (len, from) = peer.recv_from(&mut buffer).unwrap();
            assert_eq!((&buffer[..len], from), (&message[..], workers.addrs[0]));
        }
        let mut peer = TcpStream::connect(workers.addrs[1]).unwrap();
        peer.write_all(&message).unwrap();
        let mut buffer = vec![0; message.len()];
        std::io::Read::read_exact(&mut peer, &mut buffer).unwrap();
        assert_eq!(buffer, message);
    }
    let nets = workers.stop();
    let counts: Vec<usize> = counts
        .iter()
        .map(|count| count.load(Ordering::Relaxed))
        .collect();
    assert_eq!(counts.iter().sum::<usize>(), 60 * 4);
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    let accepted: u64 = nets.iter().map(|net| net.counters().accepted).sum();
    assert_eq!(accepted, 60);
}

#[test]
fn a_wake_up_is_never_lost() {
    let listener = ListenerConfig::new(Transport::Udp, any_port("127.0.0.1"));
    let mut net = Net::new(
        0,
        NetConfig::default(),
        bind(&[listener], 1).unwrap().remove(0),
    )
    .unwrap();
    let waker = net.waker();
    let (jobs, inbox) = mpsc::channel();
    let sender = thread::spawn(move || {
        for n in 0..20_000 {
            jobs.send(n).unwrap();
            waker.wake();
        }
    });
    let mut next = 0;
    while next < 20_000 {
        net.poll(None, |_| {}).unwrap();
        for n in inbox.try_iter() {
            assert_eq!(n, next);
            next += 1;
        }
    }
    sender.join().unwrap();
}
