//! Requests that wait for the store: challenged without state, parked, judged,
//! sent on, cancelled, given up. Who may do what is the gate's own matter.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::*;
use sip_auth::{Attempt, ClientAuth, Ha1, Reply, RequestParts};
use sip_engine::settings::{AuthSettings, Inbound, Settings};
use sip_engine::{Effect, ParkId};
use sip_msg::{HeaderName, Transport};

const REALM: &str = "example.org";

fn secured() -> Settings {
    Settings {
        authenticate: Some(AuthSettings::default()),
        ..settings()
    }
}

fn from_user(method: &str, user: &str, transport: Transport) -> Request {
    let mut request = request(method, "sip:bob@example.org", transport);
    request.from = format!("<sip:{user}@example.org>;tag=a");
    request
}

/// The request again, with credentials for the challenge.
fn authenticated(request: &Request, challenge: &Sent, user: &str, password: &str) -> Request {
    let mut auth = ClientAuth::new();
    let mut attempt = Attempt::default();
    auth.add(REALM, user, password);
    auth.handle_challenge(&mut attempt, &challenge.message)
        .unwrap();
    let mut lines = Vec::new();
    let parts = RequestParts {
        method: request.method.as_bytes(),
        uri: request.uri.as_bytes(),
        body: request.body.as_bytes(),
    };
    auth.write_credentials(&mut attempt, parts, 7, &mut lines);
    Request {
        via: request.via.clone() + "again",
        cseq: request.cseq + 1,
        method: request.method.clone(),
        uri: request.uri.clone(),
        from: request.from.clone(),
        to: request.to.clone(),
        call_id: request.call_id.clone(),
        more: request.more.clone() + std::str::from_utf8(&lines).unwrap(),
        body: request.body.clone(),
    }
}

/// Whom the store is asked for.
#[track_caller]
fn asked(bed: &mut Bed) -> (ParkId, String, sip_auth::Algorithm) {
    let Some(Effect::FindCredential { park, question, .. }) = bed.effects.pop() else {
        panic!("the store was not asked");
    };
    let user = String::from_utf8(question.subject.user().to_vec()).unwrap();
    (park, user, question.algorithm)
}

/// Answers the store's question with this password.
#[track_caller]
fn known(bed: &mut Bed, password: &str) -> Vec<Sent> {
    let (park, user, algorithm) = asked(bed);
    let ha1 = Ha1::compute(
        algorithm,
        user.as_bytes(),
        REALM.as_bytes(),
        password.as_bytes(),
    );
    bed.act(|s, now, out| s.handle_credential(now, park, Ok(Reply::Secret(ha1)), out))
}

#[test]
fn a_request_with_and_without_the_password() {
    for transport in TRANSPORTS {
        let mut bed = Bed::new(secured());
        bed.register("sip:bob@example.org", "sip:bob@203.0.113.9", None);
        for method in ["INVITE", "MESSAGE", "SUBSCRIBE", "NEWMETHOD"] {
            let request = from_user(method, "alice", transport);
            // RFC 3261 16.3: "If an element requires credentials before forwarding a request, the
            // request MUST be inspected as described in Section 22.3."
            let state = bed.shard.in_flight();
            let challenge = only(bed.receive(&alice(transport), &request.text()));
            assert_eq!(challenge.status(), 407, "{method}");
            // A stranger costs no memory.
            assert_eq!(bed.shard.in_flight(), state);
            let again = authenticated(&request, &challenge, "alice", "secret");
            assert!(bed.receive(&alice(transport), &again.text()).is_empty());
            let mut sent = known(&mut bed, "secret");
            sent.retain(|s| s.status() == 0);
            let forwarded = only(sent);
            assert_eq!(forwarded.method(), method);
            // The credentials stay here.
            assert!(forwarded.header(HeaderName::ProxyAuthorization).is_none());
            let mut wrong = authenticated(&request, &challenge, "alice", "guess");
            wrong.via.push('x');
            assert!(bed.receive(&alice(transport), &wrong.text()).is_empty());
            // Who guesses waits for his answer, longer each time.
            let mut refused = known(&mut bed, "secret");
            refused.extend(bed.wait(10_000));
            assert!(refused.iter().any(|sent| sent.status() == 407), "{method}");
        }
    }
}

#[test]
fn a_challenge_keeps_no_state_and_its_ack_ends_here() {
    for transport in TRANSPORTS {
        let mut bed = Bed::new(secured());
        let invite = from_user("INVITE", "alice", transport);
        let challenge = only(bed.receive(&alice(transport), &invite.text()));
        assert_eq!(bed.shard.in_flight(), 0);
        assert_eq!(bed.shard.next_deadline_ms(), None);
        let mut ack = from_user("ACK", "alice", transport);
        ack.via = invite.via.clone();
        ack.to = challenge.header(HeaderName::To).unwrap();
        assert!(bed.receive(&alice(transport), &ack.text()).is_empty());
        assert_eq!(bed.shard.counters().acks_absorbed, 1);
        // Any other ACK needs the token of its dialog.
        let mut ack = from_user("ACK", "alice", transport);
        ack.uri = "sip:victim@203.0.113.66".into();
        assert!(bed.receive(&alice(transport), &ack.text()).is_empty());
        assert_eq!(bed.shard.counters().requests_dropped, 1);
        assert_eq!(bed.shard.counters().challenges, 1);
    }
}

#[test]
fn a_store_that_is_broken() {
    for transport in TRANSPORTS {
        let mut bed = Bed::new(secured());
        let invite = from_user("INVITE", "alice", transport);
        let challenge = only(bed.receive(&alice(transport), &invite.text()));
        let again = authenticated(&invite, &challenge, "alice", "secret");
        bed.receive(&alice(transport), &again.text());
        let (park, ..) = asked(&mut bed);
        let failed = Err(NO_ANSWER);
        let broken = only(bed.act(|s, now, out| s.handle_credential(now, park, failed, out)));
        assert_eq!(broken.status(), 503);
        assert_eq!(broken.header(HeaderName::RetryAfter).as_deref(), Some("5"));
        // The store may be well again in a moment: the transaction keeps its answer.
        assert!(
            bed.receive(&alice(transport), &again.text())
                .iter()
                .all(|s| s.status() == 503)
        );
        assert!(bed.effects.is_empty());
        bed.wait(70_000);
        assert_eq!(bed.shard.in_flight(), 0);
    }
}

#[test]
fn a_store_that_is_silent() {
    for transport in TRANSPORTS {
        let mut bed = Bed::new(secured());
        let invite = from_user("INVITE", "alice", transport);
        let challenge = only(bed.receive(&alice(transport), &invite.text()));
        let again = authenticated(&invite, &challenge, "alice", "secret");
        bed.receive(&alice(transport), &again.text());
        // 100 after 200 ms, so that the client stops asking; 503 at the deadline.
        let sent = bed.wait(4_100);
        assert_eq!(kinds(&sent), ["100", "503"]);
        assert_eq!(bed.shard.counters().lookups_expired, 1);
        bed.wait(70_000);
        assert_eq!(bed.shard.in_flight(), 0);
    }
}

#[test]
fn look_ups_are_bounded() {
    let mut settings = secured();
    settings.authenticate = Some(AuthSettings {
        lookups_max: 2,
        ..AuthSettings::default()
    });
    let mut bed = Bed::new(settings);
    let invite = from_user("INVITE", "alice", Transport::Udp);
    let challenge = only(bed.receive(&alice(Transport::Udp), &invite.text()));
    for n in 0..3 {
        let mut again = authenticated(&invite, &challenge, "alice", "secret");
        again.via.push_str(&n.to_string());
        let sent = bed.receive(&alice(Transport::Udp), &again.text());
        assert_eq!(kinds(&sent), if n < 2 { vec![] } else { vec!["503"] });
    }
    assert_eq!(bed.shard.counters().lookups_full, 1);
}

#[test]
fn a_parked_call_is_cancelled() {
    for transport in TRANSPORTS {
        let mut bed = Bed::new(secured());
        let invite = from_user("INVITE", "alice", transport);
        let challenge = only(bed.receive(&alice(transport), &invite.text()));
        let again = authenticated(&invite, &challenge, "alice", "secret");
        bed.receive(&alice(transport), &again.text());
        let mut cancel = from_user("CANCEL", "alice", transport);
        cancel.via = again.via.clone();
        let sent = bed.receive(&alice(transport), &cancel.text());
        assert_eq!(kinds(&sent), ["200", "487"]);
        // The store's answer finds nobody.
        assert!(known(&mut bed, "secret").is_empty());
        assert_eq!(bed.shard.counters().answers_late, 1);
    }
}

#[test]
fn strangers_reach_users_or_nobody() {
    for transport in TRANSPORTS {
        for (inbound, reaches) in [(Inbound::Trusted, false), (Inbound::Anyone, true)] {
            let mut settings = secured();
            settings.inbound = inbound;
            settings.forward = Some(next_hop(Transport::Udp, "203.0.113.200:5060"));
            let mut bed = Bed::new(settings);
            bed.register("sip:bob@example.org", "sip:bob@203.0.113.9", None);
            let invite = request("INVITE", "sip:bob@example.org", transport);
            let sent = bed.receive(&alice(transport), &invite.text());
            let expected = if reaches {
                vec!["100", "INVITE"]
            } else {
                vec!["403"]
            };
            assert_eq!(kinds(&sent), expected);
            let state = bed.shard.in_flight();
            for uri in ["sip:carol@example.com", "sip:+49@203.0.113.1", "tel:+49"] {
                let invite = request("INVITE", uri, transport);
                let sent = only(bed.receive(&alice(transport), &invite.text()));
                assert_eq!(sent.status(), 403, "{uri}");
            }
            assert_eq!(bed.shard.in_flight(), state);
        }
    }
}
