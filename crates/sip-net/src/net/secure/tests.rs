//! What has come behind a handshake, while others have more to read than a turn reads.
#![allow(clippy::unwrap_used)]

use std::io::Write;
use std::net::{IpAddr, SocketAddr, TcpStream};

use sip_msg::{ConnId, ListenerId, Transport};

use super::*;
use crate::clock::Clock;
use crate::{ListenerConfig, NetConfig, bind};

const FLOOD: [u8; 4] = [127, 0, 0, 9];
const CLIENTS: [u8; 4] = [127, 0, 0, 8];
const PHONE: [u8; 4] = [127, 0, 0, 3];

fn connect(from: [u8; 4], to: SocketAddr) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((from, 0)).into()).unwrap();
    socket.connect(&to.into()).unwrap();
    socket.set_nonblocking(true).unwrap();
    socket.into()
}

fn message() -> Vec<u8> {
    let body = "x".repeat(2_000);
    format!("MESSAGE sip:a@b SIP/2.0\r\nContent-Length: 2000\r\n\r\n{body}").into_bytes()
}

/// A turn: the connections that came, and from where messages did.
fn turn(net: &mut Net) -> (Vec<ConnId>, Vec<IpAddr>) {
    let (mut accepted, mut heard) = (Vec::new(), Vec::new());
    net.poll(Some(Duration::from_millis(5)), |event| match event {
        NetEvent::Accepted { flow } => accepted.push(flow.conn),
        NetEvent::Message { flow, .. } => heard.push(flow.remote.ip()),
        _ => {}
    })
    .unwrap();
    (accepted, heard)
}

/// Else three clients in each turn, whose handshakes are done and who have much to say, would have
/// nobody else read.
#[test]
fn what_came_behind_a_handshake_waits_for_the_turn_of_its_source() {
    let listener = ListenerConfig::new(Transport::Tcp, "127.0.0.1:0".parse().unwrap());
    let sockets = bind(&[listener], 1).unwrap().remove(0);
    let mut net = Net::with_clock(0, NetConfig::default(), sockets, Clock::given()).unwrap();
    let addr = net.local_addr(ListenerId(0)).unwrap();
    let message = message();
    let mut flood = [(); 4].map(|()| (connect(FLOOD, addr), 0));
    let mut fill = || {
        for (stream, at) in &mut flood {
            while let Ok(len) = stream.write(&message[*at..]) {
                *at = (*at + len) % message.len();
            }
        }
    };
    for _ in 0..20 {
        fill();
        turn(&mut net);
    }
    let (mut clients, mut of_flood) = (Vec::new(), 0);
    for nth in 0..20 {
        let come: Vec<_> = (0..3).map(|_| connect(CLIENTS, addr)).collect();
        let mut accepted = Vec::new();
        while accepted.len() < come.len() {
            fill();
            accepted.extend(turn(&mut net).0);
        }
        for (mut stream, id) in come.into_iter().zip(accepted) {
            stream.write_all(&message.repeat(29)).unwrap();
            // As where a thread is done with its handshake.
            net.read_again(id);
            clients.push(stream);
        }
        if nth == 10 {
            let mut phone = connect(PHONE, addr);
            phone.write_all(&message).unwrap();
            let heard: Vec<_> = (0..4).flat_map(|_| turn(&mut net).1).collect();
            assert!(heard.contains(&PHONE.into()));
        }
        fill();
        let (_, heard) = turn(&mut net);
        of_flood += heard
            .iter()
            .filter(|ip| **ip == IpAddr::from(FLOOD))
            .count();
    }
    // As much as one read brings, or nearly, in each of these turns.
    assert!(of_flood >= 20 * 25, "{of_flood}");
}
