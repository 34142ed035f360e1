//! When a proxy says 100 Trying (RFC 3261 16.2, 17.2.1).

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::*;
use sip_engine::settings::{ProxySettings, Settings};
use sip_msg::Transport;

const BOB: &str = "203.0.113.9:5070";

fn by_default(transport: Transport) -> Settings {
    Settings {
        proxy: ProxySettings::default(),
        ..forwarding(transport, BOB)
    }
}

#[test]
fn a_next_hop_that_answers_soon_saves_it() {
    for transport in TRANSPORTS {
        for status in [180, 183, 200, 486] {
            let mut bed = Bed::new(by_default(transport));
            let invite = request("INVITE", "sip:bob@example.com", transport);
            let forwarded = only(bed.receive(&alice(transport), &invite.text()));
            let answer = response(&forwarded, status, "b", "");
            let sent = bed.receive(&answering(&forwarded), &answer);
            // A refusal is acknowledged to the next hop as well.
            assert!(sent.iter().any(|sent| sent.status() == status), "{status}");
            let later = bed.wait(1_000);
            assert!(later.iter().all(|sent| sent.status() != 100), "{status}");
        }
    }
}

// RFC 3261 17.2.1: "The server transaction MUST generate a 100 (Trying) response unless it knows
// that the TU will generate a provisional or final response within 200 ms, in which case it MAY
// generate a 100 (Trying) response."
#[test]
fn it_comes_within_200_ms_of_silence_and_once() {
    for transport in TRANSPORTS {
        let mut bed = Bed::new(by_default(transport));
        let invite = request("INVITE", "sip:bob@example.com", transport);
        let forwarded = only(bed.receive(&alice(transport), &invite.text()));
        // The next hop's own 100 is not the caller's.
        let trying = response(&forwarded, 100, "", "");
        assert!(bed.receive(&answering(&forwarded), &trying).is_empty());
        // The caller's retransmission before that changes nothing.
        assert!(bed.receive(&alice(transport), &invite.text()).is_empty());
        assert_eq!(kinds(&bed.wait(200)), ["100"]);
        assert!(bed.wait(1_000).iter().all(|sent| sent.status() != 100));
        // Afterwards it is what a retransmission is answered with.
        assert_eq!(
            kinds(&bed.receive(&alice(transport), &invite.text())),
            ["100"]
        );
    }
}

#[test]
fn it_comes_at_once_where_it_is_wished() {
    for transport in TRANSPORTS {
        let mut settings = by_default(transport);
        settings.proxy.trying_at_once = true;
        let mut bed = Bed::new(settings);
        let invite = request("INVITE", "sip:bob@example.com", transport);
        let sent = bed.receive(&alice(transport), &invite.text());
        assert_eq!(kinds(&sent), ["100", "INVITE"]);
        assert!(bed.wait(400).iter().all(|sent| sent.status() != 100));
    }
}
