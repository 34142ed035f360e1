//! Route information preprocessing (RFC 3261 16.4) and what follows from it
//! for the next hop (16.6 steps 6 and 7).

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::*;
use sip_msg::{HeaderName, Transport};

fn bed() -> Bed {
    Bed::new(settings())
}

/// The copy of a request with these Routes.
#[track_caller]
fn forwarded(bed: &mut Bed, uri: &str, routes: &str, transport: Transport) -> Sent {
    let request = request("OPTIONS", uri, transport).with(routes);
    only(bed.receive(&alice(transport), &request.text()))
}

#[test]
fn our_own_route_is_removed() {
    for transport in TRANSPORTS {
        // RFC 3261 16.4: "If the first value in the Route header field indicates this proxy,
        // the proxy MUST remove that value from the request."
        for (routes, left) in [
            ("Route: <sip:192.0.2.1;lr>\r\n", 0),
            ("Route: <sip:example.org;lr>\r\n", 0),
            (
                "Route: <sip:192.0.2.1:5060;transport=tcp;lr>, <sip:192.0.2.1;lr>\r\n",
                0,
            ),
            (
                "Route: <sip:192.0.2.1;lr>\r\nRoute: <sip:203.0.113.7;lr>\r\n",
                1,
            ),
            ("Route: <sip:192.0.2.1;lr>, <sip:203.0.113.7;lr>\r\n", 1),
            ("Route: <sip:203.0.113.7;lr>, <sip:192.0.2.1;lr>\r\n", 2),
        ] {
            let sent = forwarded(&mut bed(), "sip:bob@203.0.113.9", routes, transport);
            assert_eq!(sent.all(HeaderName::Route).len(), left, "{routes}");
            assert_eq!(sent.uri(), "sip:bob@203.0.113.9");
            // RFC 3261 16.6: "Otherwise, the proxy MUST apply the procedures to the first value in
            // the Route header field, if present, else the Request-URI."
            let next = if left == 0 {
                "203.0.113.9:5060"
            } else {
                "203.0.113.7:5060"
            };
            assert_eq!(sent.to.remote.to_string(), next);
        }
    }
}

#[test]
fn a_strict_router_before_us_put_its_target_last() {
    // RFC 3261 16.4: "The proxy MUST inspect the Request-URI of the request.  If the
    // Request-URI of the request contains a value this proxy previously placed into a
    // Record-Route header field (see Section 16.6 item 4), the proxy MUST replace the
    // Request-URI in the request with the last value from the Route header field, and
    // remove that value from the Route header field.  The proxy MUST then proceed as if
    // it received this modified request."
    for transport in TRANSPORTS {
        let sent = forwarded(
            &mut bed(),
            "sip:192.0.2.1;lr",
            "Route: <sip:203.0.113.7;lr>, <sip:bob@203.0.113.9>\r\n",
            transport,
        );
        assert_eq!(sent.uri(), "sip:bob@203.0.113.9");
        assert_eq!(sent.all(HeaderName::Route), ["<sip:203.0.113.7;lr>"]);
        assert_eq!(sent.to.remote.to_string(), "203.0.113.7:5060");

        let sent = forwarded(
            &mut bed(),
            "sip:192.0.2.1;lr",
            "Route: <sip:203.0.113.7;lr>\r\nRoute: <sip:bob@203.0.113.9>\r\n",
            transport,
        );
        assert_eq!(sent.uri(), "sip:bob@203.0.113.9");
        assert_eq!(sent.all(HeaderName::Route), ["<sip:203.0.113.7;lr>"]);

        let sent = forwarded(
            &mut bed(),
            "sip:192.0.2.1;lr",
            "Route: <sip:bob@203.0.113.9>\r\n",
            transport,
        );
        assert_eq!(sent.uri(), "sip:bob@203.0.113.9");
        assert!(sent.all(HeaderName::Route).is_empty());
        assert_eq!(sent.to.remote.to_string(), "203.0.113.9:5060");
    }
}

#[test]
fn the_last_value_stands_before_a_route_that_has_none() {
    // RFC 3261 16.4: "replace the Request-URI in the request with the last value from the
    // Route header field, and remove that value from the Route header field."
    for values in [
        "<sip:203.0.113.7;lr>, <sip:bob@203.0.113.9>",
        "<sip:203.0.113.7;lr>\r\nRoute: <sip:bob@203.0.113.9>",
    ] {
        let routes = format!("Route: {values}\r\nRoute:\r\nRoute: \r\n");
        let sent = forwarded(&mut bed(), "sip:192.0.2.1;lr", &routes, Transport::Udp);
        assert_eq!(sent.uri(), "sip:bob@203.0.113.9");
        assert_eq!(sent.all(HeaderName::Route), ["<sip:203.0.113.7;lr>"]);
    }
}

#[test]
fn a_strict_router_after_us_gets_what_it_expects() {
    // RFC 3261 16.6: "If the copy contains a Route header field, the proxy MUST inspect the
    // URI in its first value.  If that URI does not contain an lr parameter, the proxy
    // MUST modify the copy as follows: - The proxy MUST place the Request-URI into the
    // Route header field as the last value. - The proxy MUST then place the first Route
    // header field value into the Request-URI and remove that value from the Route header
    // field."
    for transport in TRANSPORTS {
        for (routes, left) in [
            (
                "Route: <sip:203.0.113.7>, <sip:203.0.113.8;lr>\r\n",
                vec!["<sip:203.0.113.8;lr>", "<sip:bob@203.0.113.9>"],
            ),
            (
                "Route: <sip:203.0.113.7>\r\n",
                vec!["<sip:bob@203.0.113.9>"],
            ),
            (
                "Route: <sip:192.0.2.1;lr>\r\nRoute: <sip:203.0.113.7>\r\nRoute: <sip:203.0.113.8;lr>\r\n",
                vec!["<sip:203.0.113.8;lr>", "<sip:bob@203.0.113.9>"],
            ),
        ] {
            let sent = forwarded(&mut bed(), "sip:bob@203.0.113.9", routes, transport);
            assert_eq!(sent.uri(), "sip:203.0.113.7");
            assert_eq!(sent.all(HeaderName::Route), left);
            // RFC 3261 16.6: "If the proxy has reformatted the request to send to a
            // strict-routing element as described in step 6 above, the proxy MUST apply those
            // procedures to the Request-URI of the request."
            assert_eq!(sent.to.remote.to_string(), "203.0.113.7:5060");
        }
    }
}

#[test]
fn maddr() {
    let mut bed = bed();
    bed.register("sip:bob@example.org", "sip:bob@203.0.113.9", None);
    // RFC 3261 16.4: "If the Request-URI contains a maddr parameter, the proxy MUST check to
    // see if its value is in the set of addresses or domains the proxy is configured to
    // be responsible for.  If the Request-URI has a maddr parameter with a value the
    // proxy is responsible for, and the request was received using the port and transport
    // indicated (explicitly or by default) in the Request-URI, the proxy MUST strip the
    // maddr and any non-default port or transport parameter and continue processing as if
    // those values had not been present in the request."
    let ours = "sip:bob@example.org;maddr=192.0.2.1";
    let sent = forwarded(&mut bed, ours, "", Transport::Udp);
    assert_eq!(sent.uri(), "sip:bob@203.0.113.9");
    let mut next = Bed::new(forwarding(Transport::Udp, "203.0.113.1:5060"));
    let named = "sip:carol@example.com:5060;x=1;transport=udp;maddr=192.0.2.1";
    let sent = forwarded(&mut next, named, "", Transport::Udp);
    assert_eq!(sent.uri(), "sip:carol@example.com;x=1");
    // On another port or transport it is to be sent there, which is here.
    let answer = forwarded(&mut bed, ours, "", Transport::Tcp);
    assert_eq!(answer.status(), 482);
    // RFC 3261 16.5: "If the Request-URI of the request contains an maddr parameter, the
    // Request-URI MUST be placed into the target set as the only target URI, and the
    // proxy MUST proceed to Section 16.6."
    let foreign = "sip:bob@example.org;maddr=203.0.113.5";
    let sent = forwarded(&mut bed, foreign, "", Transport::Udp);
    assert_eq!(sent.uri(), foreign);
    assert_eq!(sent.to.remote.to_string(), "203.0.113.5:5060");
}

#[test]
fn a_sips_request_leaves_over_tls_only() {
    for (uri, routes) in [
        ("sips:bob@203.0.113.9", ""),
        (
            "sips:bob@203.0.113.8",
            "Route: <sip:203.0.113.9;transport=tcp;lr>\r\n",
        ),
    ] {
        // RFC 3261 16.6: "Independently of which URI is being used as input to the procedures of
        // [4], if the Request-URI specifies a SIPS resource, the proxy MUST follow the
        // procedures of [4] as if the input URI were a SIPS URI."
        let sent = forwarded(&mut bed(), uri, routes, Transport::Tls);
        assert_eq!(sent.to.transport, Transport::Tls);
        assert_eq!(sent.to.remote.to_string(), "203.0.113.9:5061");
        assert_eq!(sent.to.tls_name.as_deref(), Some("203.0.113.9"));
    }
    // RFC 3261 16.6: "Furthermore, if the Request-URI contains a SIPS URI, TLS MUST be used
    // to communicate with that proxy."
    let mut bed = Bed::new(forwarding(Transport::Tcp, "203.0.113.1:5061"));
    let sent = forwarded(&mut bed, "sips:bob@example.com", "", Transport::Tls);
    assert_eq!(sent.to.transport, Transport::Tls);
}

#[test]
fn a_maddr_of_ours_is_no_way_back_to_us() {
    // RFC 3261 16.4: "If the Request-URI has a maddr parameter with a value the proxy is
    // responsible for, and the request was received using the port and transport indicated
    // (explicitly or by default) in the Request-URI, the proxy MUST strip the maddr and any
    // non-default port or transport parameter and continue processing as if those values
    // had not been present in the request."
    let mut bed = Bed::new(settings());
    let named = "sip:carol@203.0.113.9;maddr=192.0.2.1";
    let asked = request("OPTIONS", named, Transport::Udp);
    let sent = only(bed.receive(&alice(Transport::Udp), &asked.text()));
    assert_eq!((sent.status(), sent.uri()), (0, "sip:carol@203.0.113.9"));
    assert_eq!(sent.to.remote.to_string(), "203.0.113.9:5060");
}

#[test]
fn a_reload_forgets_no_address_of_this_server() {
    let mut wild = settings();
    for listener in &mut wild.listeners {
        if listener.bound.is_ipv4() {
            listener.bound.set_ip([0, 0, 0, 0].into());
        }
    }
    let mut bed = Bed::new(wild.clone());
    bed.register("sip:bob@example.org", "sip:bob@203.0.113.9", None);
    let options = request("OPTIONS", "sip:192.0.2.1", Transport::Udp);
    bed.receive(&alice(Transport::Udp), &options.text());
    bed.act(|shard, _, _| shard.reload(std::sync::Arc::new(wild)));
    // By another address of the same machine.
    let mut other = alice(Transport::Udp);
    other.local.set_ip([192, 0, 2, 2].into());
    let asked = request("OPTIONS", "sip:bob@192.0.2.1", Transport::Udp);
    let sent = only(bed.receive(&other, &asked.text()));
    assert_eq!(sent.to.remote.to_string(), "203.0.113.9:5060");
}
