//! Redirect mode (RFC 3261 8.3): 302 with the contacts.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::*;
use sip_engine::settings::{Mode, Settings};
use sip_msg::{HeaderName, Transport};

fn bed(settings: Settings) -> Bed {
    Bed::new(Settings {
        mode: Mode::Redirect,
        ..settings
    })
}

#[test]
fn a_user_is_elsewhere() {
    for transport in TRANSPORTS {
        for method in ["INVITE", "MESSAGE"] {
            let mut bed = bed(settings());
            for (n, q) in [(1, 1000), (2, 250)] {
                bed.register_with(
                    "sip:bob@example.org",
                    &format!("sip:bob@203.0.113.{n}"),
                    None,
                    |b| b.q = q,
                );
            }
            let request = request(method, "sip:bob@example.org", transport);
            let answer = only(bed.receive(&alice(transport), &request.text()));
            assert_eq!(answer.status(), 302);
            assert_eq!(
                answer.all(HeaderName::Contact),
                ["<sip:bob@203.0.113.1>;q=1", "<sip:bob@203.0.113.2>;q=0.250"]
            );
            bed.wait(70_000);
            assert_eq!(bed.shard.in_flight(), 0);
        }
    }
}

#[test]
fn the_next_hop_is_elsewhere_too() {
    let mut bed = bed(forwarding(Transport::Tcp, "203.0.113.9:5070"));
    let invite = request("INVITE", "sip:carol@example.com", Transport::Udp);
    let answer = only(bed.receive(&alice(Transport::Udp), &invite.text()));
    assert_eq!(
        answer.all(HeaderName::Contact),
        ["<sip:carol@203.0.113.9:5070;transport=tcp>;q=1"]
    );
}

#[test]
fn nobody_is_sent_where_he_asked_to_go_anyway() {
    // RFC 3261 8.3: "However, redirect servers MUST NOT redirect a request to a URI equal to the one in the
    // Request-URI; instead, provided that the URI does not point to itself, the server MAY proxy the request
    // to the destination URI, or MAY reject it with a 404."
    let mut bed = bed(forwarding(Transport::Tcp, "203.0.113.9:5070"));
    let uri = "sip:carol@203.0.113.9:5070;transport=TCP";
    let invite = request("INVITE", uri, Transport::Udp);
    let answer = only(bed.receive(&alice(Transport::Udp), &invite.text()));
    assert_eq!(answer.status(), 404);
    assert_eq!(answer.header(HeaderName::Contact), None);
}

#[test]
fn what_is_not_understood_is_left_to_whoever_is_there() {
    // RFC 3261 8.3: "Redirect servers MUST ignore features that are not understood (including unrecognized
    // header fields, any unknown option tags in Require, or even method names) and proceed with the
    // redirection of the request in question."
    for method in ["INVITE", "FROBNICATE"] {
        let mut bed = bed(settings());
        bed.register("sip:bob@example.org", "sip:bob@203.0.113.1", None);
        let request = request(method, "sip:bob@example.org", Transport::Udp)
            .with("Require: x\r\nProxy-Require: y\r\nX-Header: z\r\n");
        let answer = only(bed.receive(&alice(Transport::Udp), &request.text()));
        assert_eq!(answer.status(), 302, "{method}");
    }
}

#[test]
fn nobody_and_nothing_of_ours() {
    for uri in ["sip:bob@example.org", "sip:carol@example.com"] {
        let mut bed = bed(settings());
        let invite = request("INVITE", uri, Transport::Udp);
        let answer = only(bed.receive(&alice(Transport::Udp), &invite.text()));
        assert_eq!(answer.status(), 404);
    }
}

#[test]
fn a_cancel_is_answered() {
    let mut bed = bed(settings());
    bed.register("sip:bob@example.org", "sip:bob@203.0.113.1", None);
    let invite = request("INVITE", "sip:bob@example.org", Transport::Udp);
    bed.receive(&alice(Transport::Udp), &invite.text());
    let mut cancel = request("CANCEL", "sip:bob@example.org", Transport::Udp);
    cancel.via = invite.via.clone();
    let answer = only(bed.receive(&alice(Transport::Udp), &cancel.text()));
    assert_eq!(answer.status(), 200);
}
