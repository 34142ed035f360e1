//! Headers that say who a caller is, or whom a call is charged to: users and
//! strangers do not write them, trusted peers do (RFC 3325).

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::*;
use sip_engine::settings::{AuthSettings, Inbound, Settings, TrustedPeer};
use sip_msg::Transport;

/// What only elements of a trust domain may say.
const SAID_BY_THE_TRUSTED: [&str; 9] = [
    "Remote-Party-ID: <sip:ceo@example.org>;party=calling",
    "remote-party-id: \"CEO\" <sip:ceo@example.org>",
    "P-Asserted-Identity: <sip:ceo@example.com>",
    "P-Preferred-Identity: <sip:ceo@example.com>",
    "P-Charge-Info: <sip:ceo@example.org>",
    "P-Charging-Vector: icid-value=1234",
    "P-Charging-Function-Addresses: ccf=192.0.2.8",
    "P-Asserted-Service: urn:urn-7:3gpp-service.ims.icsi.mmtel",
    "P-Served-User: <sip:ceo@example.org>",
];

/// What phones may say, and the far end weighs.
const SAID_BY_ANYBODY: [&str; 2] = ["Privacy: none", "X-P-Charge-Info: kept"];

/// What users and peers may say, and no stranger.
const SAID_BY_NO_STRANGER: [&str; 3] = [
    "Diversion: <sip:bob@example.org>;reason=no-answer",
    "diversion: \"CEO\" <sip:ceo@example.org>;reason=user-busy",
    "History-Info: <sip:bob@example.org>;index=1",
];

fn settings_for(trusted: Vec<TrustedPeer>) -> Settings {
    Settings {
        authenticate: Some(AuthSettings::default()),
        inbound: Inbound::Anyone,
        trusted,
        ..settings()
    }
}

fn forwarded(settings: Settings, transport: Transport) -> String {
    forwarded_with(settings, transport, "")
}

fn forwarded_with(settings: Settings, transport: Transport, more: &str) -> String {
    let mut bed = Bed::new(settings);
    bed.register("sip:bob@example.org", "sip:bob@203.0.113.9", None);
    let said = SAID_BY_THE_TRUSTED.iter().chain(&SAID_BY_ANYBODY);
    let said = said.chain(&SAID_BY_NO_STRANGER);
    let lines: String = said.map(|line| format!("{line}\r\n")).collect();
    let lines = match more {
        "" => lines,
        more => lines.replace("Privacy: none", more),
    };
    let invite = request("INVITE", "sip:bob@example.org", transport).with(&lines);
    let sent = bed.receive(&alice(transport), &invite.text());
    sent.into_iter()
        .find(|sent| sent.status() == 0)
        .unwrap()
        .text
}

#[test]
fn what_only_a_trusted_peer_may_say_is_cut_from_others() {
    for transport in TRANSPORTS {
        let text = forwarded(settings_for(Vec::new()), transport);
        for line in SAID_BY_THE_TRUSTED.iter().chain(&SAID_BY_NO_STRANGER) {
            assert!(!text.contains(line), "{line} in\n{text}");
        }
        for line in SAID_BY_ANYBODY {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }
}

#[test]
fn a_peer_that_may_call_users_alone_says_how_a_call_came_to_it() {
    let peer = TrustedPeer {
        may_relay: false,
        ..TrustedPeer::at(alice(Transport::Udp).remote.ip(), 32)
    };
    let text = forwarded(settings_for(vec![peer]), Transport::Udp);
    for line in SAID_BY_ANYBODY.iter().chain(&SAID_BY_NO_STRANGER) {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    for line in SAID_BY_THE_TRUSTED {
        assert!(!text.contains(line), "{line} in\n{text}");
    }
}

#[test]
fn a_trusted_peers_word_passes() {
    let peer = TrustedPeer::at(alice(Transport::Udp).remote.ip(), 32);
    let text = forwarded(settings_for(vec![peer]), Transport::Udp);
    let said = SAID_BY_THE_TRUSTED.iter().chain(&SAID_BY_ANYBODY);
    for line in said.chain(&SAID_BY_NO_STRANGER) {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}

#[test]
fn what_is_to_be_withheld_reaches_no_phone() {
    // RFC 3325 7: a proxy removes P-Asserted-Identity before it forwards to an element that it
    // does not trust, where Privacy has `id`.
    let peer = TrustedPeer::at(alice(Transport::Udp).remote.ip(), 32);
    let text = forwarded_with(settings_for(vec![peer]), Transport::Udp, "Privacy: id");
    let (named, other) = SAID_BY_THE_TRUSTED.split_at(4);
    for line in named {
        assert!(!text.contains(line), "{line} is in\n{text}");
    }
    for line in other {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}
