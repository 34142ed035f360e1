//! Where a name may lead: not back to this server, not into networks to which
//! nothing is relayed, and not to the gateways past their tables.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::*;
use sip_engine::settings::{AuthSettings, Settings, TrustedPeer};
use sip_msg::Transport;

fn secured() -> Settings {
    Settings {
        authenticate: Some(AuthSettings::default()),
        ..settings()
    }
}

#[test]
fn this_server_is_no_peer_of_its_own() {
    for transport in TRANSPORTS {
        let mut settings = secured();
        settings.trusted = vec![TrustedPeer::at([192, 0, 2, 0].into(), 24)];
        let port = if transport == Transport::Tls {
            5061
        } else {
            5060
        };
        for (remote, is_trusted) in [
            (format!("192.0.2.1:{port}"), false),
            // A gateway beside it, on the same host.
            ("192.0.2.1:5099".to_owned(), true),
            (format!("192.0.2.2:{port}"), true),
        ] {
            let mut bed = Bed::new(settings.clone());
            let invite = request("OPTIONS", "sip:carol@203.0.113.9", transport);
            let sent = only(bed.receive(&flow(transport, &remote), &invite.text()));
            let expected = if is_trusted { 0 } else { 403 };
            assert_eq!(sent.status(), expected, "{transport:?} {remote}");
        }
    }
}

#[test]
fn what_comes_back_from_here_is_a_loop() {
    for transport in TRANSPORTS {
        let mut settings = secured();
        settings.trusted = vec![TrustedPeer::at([198, 51, 100, 0].into(), 24)];
        let mut bed = Bed::new(settings);
        let options = request("OPTIONS", "sip:carol@203.0.113.9", transport);
        let sent = only(bed.receive(&alice(transport), &options.text()));
        // From whatever address it seems to come, behind a NAT or not.
        for remote in ["192.0.2.1:40000", "198.51.100.77:40000"] {
            let back = flow(sent.to.transport, remote);
            let text = sent.text.replace("sip:carol@", "sip:dave@");
            assert_eq!(only(bed.receive(&back, &text)).status(), 482, "{remote}");
        }
        assert_eq!(bed.shard.counters().loops, 2);
    }
}
