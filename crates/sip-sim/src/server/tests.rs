use super::*;
use sip_msg::{ListenerId, Transport};

/// A binding of a phone that has registered itself by that transport.
fn registered(transport: Transport) -> Binding {
    let remote = SocketAddr::from(([10, 0, 1, 1], 5060));
    Binding {
        uri: format!("sip:a@10.0.1.1;transport={}", transport.uri_name())
            .into_bytes()
            .into(),
        q: 1_000,
        expires_unix_ms: UNIX_START_MS + 1_000,
        call_id: b"1".as_slice().into(),
        cseq: 1,
        instance: None,
        reg_id: None,
        path: Box::default(),
        flow: Some(Flow {
            transport,
            listener: ListenerId(u16::from(transport.is_reliable())),
            local: SERVER.into(),
            remote,
            conn: match transport.is_reliable() {
                true => ConnId(1),
                false => ConnId::NONE,
            },
        }),
        user_agent: Box::default(),
        node: "".into(),
        since_unix_ms: UNIX_START_MS,
        source: Some((transport, remote)),
        is_translated: false,
        had_flow: true,
    }
}

#[test]
fn a_connections_flow_ends_with_its_process_and_a_datagrams_does_not() {
    let mut server = Server::new(&Plan::calm(1, 1), &[]);
    let changes = [Transport::Udp, Transport::Tcp].map(|transport| BindingChange::Put {
        aor: b"sip:a@sim.test".as_slice().into(),
        key: transport.uri_name().as_bytes().into(),
        binding: Arc::new(registered(transport)),
    });
    server.take_answer(0, Answer::Durable(changes.into()));
    server.kill();
    server.start(0);
    let (_, bindings) = server.bindings(0);
    let [(_, of_a)] = &bindings[..] else {
        panic!("one user: {bindings:?}");
    };
    assert_eq!(of_a.len(), 2);
    for binding in of_a {
        let kept = binding.flow.map(|flow| flow.transport);
        let was_datagram = binding.source.unwrap().0 == Transport::Udp;
        assert_eq!(kept, was_datagram.then_some(Transport::Udp));
        assert!(binding.had_flow);
    }
}

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
