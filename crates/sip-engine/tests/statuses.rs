//! The status for each reason why this server answers a request itself: a row of
//! `proxy/outcome.rs` each.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::*;
use sip_engine::settings::{AuthSettings, Mode, Settings, TrustedPeer};
use sip_engine::{Effect, ParkId};
use sip_locate::{Hop, LocateError, Refusal};
use sip_msg::{HeaderName, Transport};

const MODES: [Mode; 2] = [Mode::Stateful, Mode::Stateless];
const UDP: Transport = Transport::Udp;

fn asked(bed: &mut Bed) -> ParkId {
    match bed.effects.pop() {
        Some(Effect::Resolve { park, .. }) => park,
        other => panic!("{other:?}"),
    }
}

fn options(bed: &mut Bed, uri: &str) -> Vec<Sent> {
    let options = request("OPTIONS", uri, UDP);
    bed.receive(&alice(UDP), &options.text())
}

#[track_caller]
fn final_status(sent: Vec<Sent>) -> u16 {
    let answer = only(sent);
    let has_retry_after = answer.header(HeaderName::RetryAfter).is_some();
    assert_eq!(has_retry_after, answer.status() == 503, "{}", answer.text);
    answer.status()
}

/// Nobody's answer came: by failure to send.
#[track_caller]
fn lost(bed: &mut Bed, sent: Vec<Sent>) -> u16 {
    let cookie = only(sent).cookie;
    final_status(bed.act(|s, now, out| s.handle_send_failed(now, cookie, out)))
}

#[test]
fn a_foreign_destination() {
    for mode in MODES {
        let mut bed = Bed::new(Settings { mode, ..settings() });
        options(&mut bed, "sip:x@nowhere.example");
        let park = asked(&mut bed);
        let sent =
            bed.act(|s, now, out| s.handle_resolved(now, park, Err(LocateError::NotFound), out));
        assert_eq!(final_status(sent), 404, "no such name");
        options(&mut bed, "sip:x@silent.example");
        let park = asked(&mut bed);
        let sent =
            bed.act(|s, now, out| s.handle_resolved(now, park, Err(LocateError::Failed), out));
        assert_eq!(final_status(sent), 504, "DNS says that it cannot say");
        options(&mut bed, "sip:x@streams.example");
        let park = asked(&mut bed);
        // RFC 3263 has the transport in the domain's records: it is known by now.
        let refused = Err(LocateError::Refused(Refusal::NoListener));
        let sent = bed.act(|s, now, out| s.handle_resolved(now, park, refused, out));
        assert_eq!(final_status(sent), 502, "a transport that is not here");
        options(&mut bed, "sip:x@silent.example");
        let mut sent = bed.wait(5_100);
        sent.retain(|sent| sent.status() > 100);
        assert_eq!(final_status(sent), 504, "DNS says nothing");
        let nowhere = options(&mut bed, "sip:x@203.0.113.9;transport=sctp");
        assert_eq!(final_status(nowhere), 502, "a transport that is not here");
    }
    let mut bed = Bed::new(settings());
    let sent = options(&mut bed, "sip:x@203.0.113.9");
    assert_eq!(lost(&mut bed, sent), 502, "nobody listens");
}

#[test]
fn a_users_phone() {
    let with_contact = |contact: &str| {
        let mut bed = Bed::new(settings());
        bed.register("sip:bob@example.org", contact, None);
        bed
    };
    let mut bed = with_contact("sip:bob@203.0.113.9");
    let sent = options(&mut bed, "sip:bob@example.org");
    // RFC 3261 21.4.18: "This status is also returned by a redirect or proxy server that
    // recognizes the user identified by the Request-URI, but does not currently have a
    // valid forwarding location for that user."
    assert_eq!(lost(&mut bed, sent), 480);
    let mut bed = with_contact("sip:bob@phone.example");
    options(&mut bed, "sip:bob@example.org");
    let park = asked(&mut bed);
    let sent = bed.act(|s, now, out| s.handle_resolved(now, park, Err(LocateError::NotFound), out));
    assert_eq!(final_status(sent), 480);
    let nobody = options(&mut bed, "sip:nobody@example.org");
    assert_eq!(final_status(nobody), 404);
}

#[test]
fn a_sips_call_to_phones_in_the_clear() {
    for authenticate in [None, Some(AuthSettings::default())] {
        let mut settings = settings();
        settings.trusted = vec![TrustedPeer::at(alice(UDP).remote.ip(), 32)];
        settings.authenticate = authenticate;
        let mut bed = Bed::new(settings);
        bed.register("sip:bob@example.org", "sip:bob@203.0.113.9", None);
        let sent = only(options(&mut bed, "sips:bob@example.org"));
        assert_eq!(sent.status(), 480);
        assert!(
            sent.text.starts_with("SIP/2.0 480 SIPS Not Allowed\r\n"),
            "{}",
            sent.text
        );
        assert!(bed.effects.is_empty(), "that he exists is known");
    }
}

/// With listeners of these transports alone, at the places of those that tests use.
fn listening(mode: Mode, transports: [Transport; 4]) -> Settings {
    let mut settings = Settings { mode, ..settings() };
    for (listener, transport) in settings.listeners.iter_mut().zip(transports) {
        listener.transport = transport;
    }
    settings
}

#[test]
fn udp_is_no_transport_for_sips() {
    // RFC 3261 26.2.2: "both valid (although note that UDP is not a valid transport for
    // SIPS)."
    let refused = |bed: &mut Bed, uri: &str, more: &str| {
        let request = request("OPTIONS", uri, UDP).with(more);
        let sent = only(bed.receive(&alice(UDP), &request.text()));
        assert!(bed.effects.is_empty(), "{uri}: no question is asked");
        let line = "SIP/2.0 480 SIPS Not Allowed\r\n";
        assert!(sent.text.starts_with(line), "{uri} {more}: {}", sent.text);
    };
    for mode in MODES {
        let mut bed = Bed::new(Settings { mode, ..settings() });
        for uri in [
            "sips:x@203.0.113.9;transport=udp",
            "sips:x@far.example;transport=udp",
            "sips:x@far.example:5070;transport=UDP",
        ] {
            refused(&mut bed, uri, "");
        }
        // RFC 3261 16.6 has a SIPS Request-URI decide for the Route as well.
        let route = "Route: <sip:203.0.113.9;transport=udp;lr>\r\n";
        refused(&mut bed, "sips:x@far.example", route);
        // What names another transport, or none, goes by TLS.
        for uri in ["sips:x@203.0.113.9", "sips:x@203.0.113.9;transport=tcp"] {
            let sent = only(options(&mut bed, uri));
            assert_eq!(sent.to.transport, Transport::Tls, "{uri}");
        }
        // Nor does the operator's word for a gateway make TLS of UDP, or UDP of `sips`.
        let mut bed = Bed::new(Settings {
            mode,
            ..forwarding(UDP, "203.0.113.200:5060")
        });
        refused(&mut bed, "sips:x@far.example", "");
        let sent = only(options(&mut bed, "sip:x@far.example"));
        assert_eq!(sent.to.transport, UDP);
    }
}

#[test]
fn a_transport_that_is_not_here_is_not_asked_for() {
    use Transport::{Tcp, Tls, Udp};
    let unreached = |bed: &mut Bed, from: Transport, uri: &str| {
        let options = request("OPTIONS", uri, from);
        let sent = only(bed.receive(&alice(from), &options.text()));
        assert!(bed.effects.is_empty(), "{uri}");
        let line = "SIP/2.0 502 No Transport Leads There\r\n";
        assert!(sent.text.starts_with(line), "{uri}: {}", sent.text);
    };
    for mode in MODES {
        // RFC 3263 4.1 has UDP for an address without a transport; where this server has
        // none it is TCP.
        let mut bed = Bed::new(listening(mode, [Tcp, Tcp, Tls, Tcp]));
        for (uri, transport) in [
            ("sip:x@203.0.113.9", Tcp),
            ("sip:x@203.0.113.9:5070", Tcp),
            ("sips:x@203.0.113.9", Tls),
        ] {
            let options = request("OPTIONS", uri, Tcp);
            let sent = only(bed.receive(&alice(Tcp), &options.text()));
            assert_eq!((sent.status(), sent.to.transport), (0, transport), "{uri}");
        }
        unreached(&mut bed, Tcp, "sip:x@203.0.113.9;transport=udp");
        unreached(&mut bed, Tcp, "sip:x@far.example;transport=udp");
        // TLS is nobody's default.
        let mut bed = Bed::new(listening(mode, [Tls, Tls, Tls, Tls]));
        unreached(&mut bed, Tls, "sip:x@203.0.113.9");
        unreached(&mut bed, Tls, "sip:x@far.example:5070");
        // A domain may offer it.
        let options = request("OPTIONS", "sip:x@far.example", Tls);
        assert!(bed.receive(&alice(Tls), &options.text()).is_empty());
        asked(&mut bed);
        // Each family of addresses counts for itself.
        let mut bed = Bed::new(listening(mode, [Udp, Tcp, Tls, Tls]));
        unreached(&mut bed, Udp, "sip:x@[2001:db8::9]");
        let sent = only(self::options(&mut bed, "sips:x@[2001:db8::9]"));
        assert_eq!(sent.to.tls_name.as_deref(), Some("2001:db8::9"));
    }
}

#[test]
fn gateways_that_are_down() {
    let mut bed = Bed::new(forwarding(UDP, "203.0.113.200:5060"));
    let sent = options(&mut bed, "sip:x@example.com");
    assert_eq!(lost(&mut bed, sent), 503);
    // RFC 3261 16.7: "If the only response that was received is a 503, the proxy SHOULD
    // generate a 500 response and forward that upstream."
    let sent = only(options(&mut bed, "sip:x@example.com"));
    let refused = bed.receive(&answering(&sent), &response(&sent, 503, "g", ""));
    assert_eq!(final_status(refused), 500);
    // One that says nothing at all.
    options(&mut bed, "sip:x@example.com");
    let silent = bed.wait(40_000);
    assert!(silent.iter().all(|sent| matches!(sent.status(), 0 | 100)));
}

#[test]
fn what_another_branch_said_counts_for_more() {
    let mut bed = Bed::new(settings());
    bed.register("sip:bob@example.org", "sip:bob@203.0.113.1", None);
    bed.register("sip:bob@example.org", "sip:bob@203.0.113.2", None);
    let invite = request("INVITE", "sip:bob@example.org", UDP);
    let sent = bed.receive(&alice(UDP), &invite.text());
    let cookie = sent[1].cookie;
    let quiet = bed.act(|s, now, out| s.handle_send_failed(now, cookie, out));
    assert!(quiet.is_empty());
    let ended = bed.receive(&answering(&sent[2]), &response(&sent[2], 486, "b", ""));
    assert_eq!(kinds(&ended), ["ACK", "486"]);
}

#[test]
fn a_denied_address_is_told_where_the_others_fail() {
    // One address is denied and the other does not answer.
    let mut bed = Bed::new(settings());
    options(&mut bed, "sip:x@two.example");
    let park = asked(&mut bed);
    let hop = |addr: &str| Hop {
        transport: UDP,
        addr: addr.parse().unwrap(),
        tls_name: None,
    };
    let hops = vec![hop("127.0.0.1:5060"), hop("203.0.113.9:5060")];
    let sent = bed.act(|s, now, out| s.handle_resolved(now, park, Ok(hops), out));
    assert_eq!(lost(&mut bed, sent), 403);
}
