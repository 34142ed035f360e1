use super::*;
use sip_msg::{Limits, ListenerId};

fn texts(target: &str, routes: &str) -> Texts {
    let mut texts = Texts::default();
    texts.set(Part::CallId, b"a84b4c76e66710");
    texts.set(Part::Local, b"<sip:alice@atlanta.com>");
    texts.set(Part::Remote, b"Bob <sip:bob@biloxi.com>");
    texts.set(Part::RemoteTag, b"a6c85cf");
    texts.set(Part::Target, target.as_bytes());
    texts.set(Part::Routes, routes.as_bytes());
    texts
}

fn written(texts: &Texts) -> String {
    let mut out = Vec::new();
    let request = Request {
        method: "BYE",
        transport: Transport::Udp,
        tag: Tag::default(),
        cseq: 7,
        texts,
    };
    request.begin(&mut out, b"192.0.2.4", |out| {
        out.extend_from_slice(b"z9hG4bKtest")
    });
    finish(&mut out, b"", b"");
    let message = Message::parse(&out, &Limits::default()).unwrap();
    message.validate().unwrap();
    String::from_utf8(out).unwrap()
}

fn proxy() -> Target {
    Target {
        transport: Transport::Tcp,
        listener: ListenerId(3),
        remote: "192.0.2.1:5060".parse().unwrap(),
        conn: ConnId(5),
        may_open: true,
        tls_name: None,
        lane: sip_msg::Lane::Shared,
        local: None,
    }
}

#[test]
fn a_request_within_a_dialog() {
    // RFC 3261 12.2.1.1: "If the route set is empty, the UAC MUST place the remote target URI into the
    // Request-URI.  The UAC MUST NOT add a Route header field to the request."
    assert_eq!(
        // RFC 3261 8.1.1.7: "When the UAC creates a request, it MUST insert a Via into that request."
        // and "The protocol name and protocol version in the header field MUST be SIP and 2.0,
        // respectively." and "The Via header field value MUST contain a branch parameter."
        // RFC 3261 8.1.1.6: "A UAC MUST insert a Max-Forwards header field into each request it
        // originates with a value that SHOULD be 70."
        written(&texts("sip:bob@192.0.2.9", "")),
        "BYE sip:bob@192.0.2.9 SIP/2.0\r\n\
         Via: SIP/2.0/UDP 192.0.2.4;branch=z9hG4bKtest;rport\r\n\
         Max-Forwards: 70\r\n\
         From: <sip:alice@atlanta.com>;tag=000000000000000000000000\r\n\
         To: Bob <sip:bob@biloxi.com>;tag=a6c85cf\r\n\
         Call-ID: a84b4c76e66710\r\n\
         CSeq: 7 BYE\r\n\
         Content-Length: 0\r\n\r\n"
    );
}

#[test]
fn loose_routes() {
    // RFC 3261 12.2.1.1: "If the route set is not empty, and the first URI in the route set contains
    // the lr parameter (see Section 19.1.1), the UAC MUST place the remote target URI into the
    // Request-URI and MUST include a Route header field containing the route set values in order,
    // including all parameters."
    let text = written(&texts(
        "sip:bob@192.0.2.9",
        "<sip:p1.example.org;lr;x=1>, <sip:p2;lr>",
    ));
    assert!(
        text.starts_with("BYE sip:bob@192.0.2.9 SIP/2.0\r\n"),
        "{text}"
    );
    assert!(
        text.contains("\r\nRoute: <sip:p1.example.org;lr;x=1>, <sip:p2;lr>\r\n"),
        "{text}"
    );
}

#[test]
fn a_strict_router_first() {
    // RFC 3261 12.2.1.1: "If the route set is not empty, and its first URI does not contain the lr
    // parameter, the UAC MUST place the first URI from the route set into the Request-URI, stripping
    // any parameters that are not allowed in a Request-URI." and "The UAC MUST add a Route header field
    // containing the remainder of the route set values in order, including all parameters."
    // RFC 3261 12.2.1.1: "The UAC MUST then place the remote target URI into the Route header field as
    // the last value."
    let text = written(&texts(
        "sip:user@remoteua",
        "<sip:proxy1>,<sip:proxy2>,<sip:proxy3;lr>,<sip:proxy4>",
    ));
    assert!(text.starts_with("BYE sip:proxy1 SIP/2.0\r\n"), "{text}");
    assert!(
        text.contains(
            "\r\nRoute: <sip:proxy2>,<sip:proxy3;lr>,<sip:proxy4>, <sip:user@remoteua>\r\n"
        ),
        "{text}"
    );
    let text = written(&texts("sip:user@remoteua", "<sip:proxy1;method=ACK;x?y=z>"));
    assert!(text.starts_with("BYE sip:proxy1;x SIP/2.0\r\n"), "{text}");
    assert!(
        text.contains("\r\nRoute: <sip:user@remoteua>\r\n"),
        "{text}"
    );
}

#[test]
fn where_it_is_sent() {
    let cases = [
        // RFC 3261 8.1.2: "Unless there is local policy specifying otherwise, the destination MUST be
        // determined by applying the DNS procedures described in [4] as follows."
        // The proxy itself: over its connection.
        (
            "sip:b@192.0.2.9",
            "<sip:192.0.2.1:5060;lr>",
            "192.0.2.1:5060",
            5,
        ),
        // RFC 3261 19.1.2's default port.
        ("sip:b@192.0.2.9", "<sip:192.0.2.1;lr>", "192.0.2.1:5060", 5),
        // Elsewhere.
        ("sip:b@192.0.2.9:5070", "", "192.0.2.9:5070", 0),
        (
            "sip:b@192.0.2.9",
            "<sip:192.0.2.7:5080;transport=tcp;lr>",
            "192.0.2.7:5080",
            0,
        ),
        // RFC 3261 8.1.2: "If the first element in the route set indicated a strict router (resulting
        // in forming the request as described in Section 12.2.1.1), the procedures MUST be applied to
        // the Request-URI of the request."
        (
            "sip:b@192.0.2.9",
            "<sip:192.0.2.8>, <sip:192.0.2.1;lr>",
            "192.0.2.8:5060",
            0,
        ),
        // RFC 3261 8.1.2: "If the Request-URI contains a SIPS URI, any alternate destinations MUST be
        // contacted with TLS." A SIPS agent's own is TLS.
        // A name, or a transport that the agent has no socket for.
        ("sip:b@example.org", "", "192.0.2.1:5060", 5),
        ("sip:b@192.0.2.9;transport=udp", "", "192.0.2.1:5060", 5),
    ];
    for (target, routes, remote, conn) in cases {
        let texts = texts(target, routes);
        let found = Route::of(&texts).target(&proxy());
        assert_eq!(found.remote, remote.parse().unwrap(), "{target} {routes}");
        assert_eq!(found.conn, ConnId(conn), "{target} {routes}");
    }
}

#[test]
fn a_dialog_from_a_response_and_from_a_request() {
    let head = "Via: SIP/2.0/UDP 192.0.2.4;branch=z9hG4bK1\r\nFrom: <sip:a@b>;tag=1\r\n\
                To: <sip:c@d>;tag=2\r\nCall-ID: x\r\nCSeq: 1 INVITE\r\n\
                Record-Route: <sip:p1;lr>, <sip:p2;lr>\r\nRecord-Route: <sip:p3;lr>\r\n\
                Contact: Bob <sip:bob@192.0.2.9:5070?Subject=x>\r\nContent-Length: 0\r\n\r\n";
    let mut scratch = Vec::new();
    let mut learnt = Texts::default();
    let response = format!("SIP/2.0 200 OK\r\n{head}");
    let response = Message::parse(response.as_bytes(), &Limits::default()).unwrap();
    learn_dialog(&mut learnt, &response, &mut scratch);
    assert_eq!(learnt.get(Part::RemoteTag), b"2");
    assert_eq!(learnt.get(Part::Target), b"sip:bob@192.0.2.9:5070");
    // RFC 3261 12.1.2: "The route set MUST be set to the list of URIs in the Record-Route header
    // field from the response, taken in reverse order and preserving all URI parameters."
    assert_eq!(
        learnt.get(Part::Routes),
        b"<sip:p3;lr>, <sip:p2;lr>, <sip:p1;lr>"
    );
    let request = format!("INVITE sip:c@d SIP/2.0\r\n{head}");
    let request = Message::parse(request.as_bytes(), &Limits::default()).unwrap();
    learn_dialog(&mut learnt, &request, &mut scratch);
    assert_eq!(learnt.get(Part::RemoteTag), b"1");
    // RFC 3261 12.1.1: "The route set MUST be set to the list of URIs in the Record-Route header
    // field from the request, taken in order and preserving all URI parameters."
    assert_eq!(
        learnt.get(Part::Routes),
        b"<sip:p1;lr>, <sip:p2;lr>, <sip:p3;lr>"
    );
}
