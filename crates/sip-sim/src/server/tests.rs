use super::*;
use sip_msg::{ListenerId, Transport};

#[test]
fn the_shard_of_a_call_hears_of_the_end_of_its_connection() {
    let plan = Plan {
        workers: 2,
        wake_max_ms: 0,
        ..Plan::calm(1, 1)
    };
    let mut server = Server::new(&plan, &[]);
    let conn = ConnId(1 << 56 | 1);
    let flow = Flow {
        transport: Transport::Tcp,
        listener: ListenerId(1),
        local: SERVER.into(),
        remote: SocketAddr::from(([10, 0, 1, 1], 5060)),
        conn,
    };
    let ask = |n: u8| {
        format!(
            "OPTIONS sip:{DOMAIN} SIP/2.0\r\nVia: SIP/2.0/TCP 10.0.1.1;branch=z9hG4bK{n}\r\n\
             From: <sip:a@{DOMAIN}>;tag=1\r\nTo: <sip:{DOMAIN}>\r\nCall-ID: {n}\r\n\
             CSeq: 1 OPTIONS\r\nMax-Forwards: 70\r\nContent-Length: 0\r\n\r\n"
        )
    };
    for n in 0..20 {
        let bytes = ask(n).into_bytes();
        server.arrive(1, Arrival::Message { flow, bytes });
    }
    server.arrive(1, Arrival::Closed(conn));
    while server.next_deadline_ms(0) == Some(0) {
        assert!(server.turn(0).is_some());
    }
    let process = server.process.as_ref().unwrap();
    for seat in &process.seats {
        let counters = seat.worker.shard().counters();
        assert!(counters.requests > 0, "both had calls over it");
        assert_eq!(counters.connections_closed, 1);
    }
}
