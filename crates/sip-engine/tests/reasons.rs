//! Every refusal has a reason: each reason of the list, by a request that is refused for it.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::common::*;
use sip_auth::{Attempt, ClientAuth, Reply, RequestParts};
use sip_engine::hook::{HookSettings, OnFailure};
use sip_engine::refusal::{Reason, RefusalRecord};
use sip_engine::settings::{AuthSettings, ContactsFull, Inbound, Mode, Settings, TrustedPeer};
use sip_engine::{Effect, ParkId};
use sip_hook::Kind;
use sip_limit::{Allowance, RateLimits, Shares};
use sip_locate::LocateError;
use sip_msg::{Flow, HeaderName, Transport};

const UDP: Transport = Transport::Udp;
const BOB: &str = "sip:bob@example.org";

/// Reasons that no request of these tests meets, and why.
const ELSEWHERE: [(Reason, &str); 27] = [
    (Reason::NamesGateway, "relaying has it"),
    (Reason::SourceUnproved, "permit and relaying have it"),
    (Reason::Replay, "authentication has it"),
    (Reason::SpeaksForOthers, "neighbours has it"),
    (Reason::CameBack, "relaying has it"),
    (Reason::PhoneFlowGone, "targets has it"),
    (Reason::WouldComeBack, "relaying has it"),
    (Reason::NotHisContacts, "the gate asks before the registrar"),
    (Reason::RegistrarBusy, "the registrar's own tests have it"),
    (Reason::NoRoom, "bounds has it"),
    (
        Reason::UnreadableUri,
        "a message with such a URI is malformed before",
    ),
    (Reason::GatewaysDrained, "gateways has it"),
    (Reason::GatewaySilent, "gateways has it"),
    (Reason::GatewayFailed, "gateways has it"),
    (Reason::MediaUnavailable, "media has it"),
    (Reason::MediaRefused, "media has it"),
    (Reason::NoOutbound, "the registrar's own tests have it"),
    (Reason::LocationFull, "the registrar's own tests have it"),
    (Reason::TrunkRefused, "trunks has it"),
    (Reason::TrunkForeignRealm, "trunks has it"),
    (Reason::NoUserForNumber, "trunks has it"),
    (Reason::NotPermitted, "permissions has it"),
    (Reason::NumberBlocked, "permissions has it"),
    (Reason::UserCallsMax, "call_limits has it"),
    (Reason::GroupCallsMax, "call_limits has it"),
    (Reason::ForwardRefused, "diverting has it"),
    (Reason::LedInCircle, "aliases has it"),
];

fn open() -> Settings {
    Settings {
        tells_all_refusals: true,
        ..settings()
    }
}

fn secured() -> Settings {
    Settings {
        authenticate: Some(AuthSettings::default()),
        ..open()
    }
}

/// The reasons that were met.
#[derive(Default)]
struct Met(BTreeSet<Reason>);

impl Met {
    /// The last refusal was for that reason, with that status, or a way failed for it.
    #[track_caller]
    fn saw(&mut self, bed: &mut Bed, status: impl Into<Option<u16>>, reason: Reason) {
        let status = status.into();
        let records = std::mem::take(&mut bed.refused);
        let is_it = |record: &RefusalRecord| record.reason == reason && record.status == status;
        let told: Vec<_> = records.iter().map(|of| (of.status, of.reason)).collect();
        assert!(
            records.iter().any(is_it),
            "{status:?} {reason:?} in {told:?}"
        );
        assert!(bed.shard.refusal_counts().of(reason) > 0);
        for record in &records {
            assert!(record.at_unix_ms <= bed.now.unix_ms && !record.method.is_empty());
        }
        self.0.insert(reason);
    }
}

/// A request of a call of its own.
fn of(user: &str, method: &str, uri: &str) -> Request {
    let mut request = request(method, uri, UDP);
    let (_, branch) = request.via.rsplit_once('=').unwrap();
    request.call_id = branch.to_owned();
    request.from = format!("<sip:{user}>;tag=a");
    if method == "REGISTER" {
        request.to = format!("<sip:{user}>");
    }
    request
}

fn ask(bed: &mut Bed, request: &Request) -> Vec<Sent> {
    bed.receive(&phone(), &request.text())
}

fn phone() -> Flow {
    alice(UDP)
}

/// The line of credentials with which that user answers a challenge.
fn credentials(challenge: &Sent, request: &Request, user: &str, password: &str) -> String {
    let mut client = ClientAuth::new();
    client.add("example.org", user, password);
    let mut attempt = Attempt::default();
    let challenge = &challenge.message;
    client.handle_challenge(&mut attempt, challenge).unwrap();
    let parts = RequestParts {
        method: request.method.as_bytes(),
        uri: request.uri.as_bytes(),
        body: request.body.as_bytes(),
    };
    let mut line = Vec::new();
    client.write_credentials(&mut attempt, parts, 7, &mut line);
    String::from_utf8(line).unwrap()
}

/// Sends a request with credentials, and answers the look-up with what the store says.
fn signed(bed: &mut Bed, make: impl Fn() -> Request, as_user: &str, password: &str) -> Vec<Sent> {
    let first = make();
    let mut challenge = ask(bed, &first);
    challenge.retain(|sent| sent.status() > 100);
    let challenge = only(challenge);
    let second = make();
    let line = credentials(&challenge, &second, as_user, password);
    let mut sent = ask(bed, &second.with(&line));
    sent.extend(store(bed));
    sent
}

/// Everybody's password is his name, and ghost is nobody.
fn store(bed: &mut Bed) -> Vec<Sent> {
    let mut sent = Vec::new();
    while let Some(effect) = bed.effects.pop() {
        match effect {
            Effect::FindCredential { park, question, .. } => {
                let reply = match question.subject.user() {
                    b"ghost" => Reply::Unknown,
                    _ => own_name(&question),
                };
                sent.extend(bed.act(|s, now, out| s.handle_credential(now, park, Ok(reply), out)));
            }
            Effect::SaveBindings { park, .. } => {
                sent.extend(bed.act(|s, now, out| s.handle_saved(now, park, Ok(()), out)));
            }
            _ => {}
        }
    }
    sent
}

fn parked(bed: &mut Bed) -> ParkId {
    bed.effects
        .iter()
        .find_map(|effect| match effect {
            Effect::Resolve { park, .. }
            | Effect::FindCredential { park, .. }
            | Effect::SaveBindings { park, .. } => Some(*park),
            _ => None,
        })
        .expect("a question")
}

#[test]
fn every_reason_is_met() {
    let mut met = Met::default();
    credentials_that_let_nobody_in(&mut met);
    look_ups_that_come_to_nothing(&mut met);
    strangers(&mut met);
    what_no_proxy_forwards(&mut met);
    what_there_is_no_room_for(&mut met);
    users_who_are_not_there(&mut met);
    ways_that_lead_nowhere(&mut met);
    gateways(&mut met);
    registrations(&mut met);
    what_the_hook_says(&mut met);
    let elsewhere = ELSEWHERE.iter().map(|(reason, _)| *reason);
    for reason in elsewhere {
        assert!(met.0.insert(reason), "{reason:?} is met here too");
    }
    let missing: Vec<_> = Reason::ALL
        .iter()
        .filter(|of| !met.0.contains(of))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

fn credentials_that_let_nobody_in(met: &mut Met) {
    let register = |user: &str| {
        of(
            &format!("{user}@example.org"),
            "REGISTER",
            "sip:example.org",
        )
    };
    let mut bed = Bed::new(secured());
    ask(&mut bed, &register("alice"));
    met.saw(&mut bed, 401, Reason::Challenged);
    ask(&mut bed, &of("alice@example.org", "INVITE", BOB));
    met.saw(&mut bed, 407, Reason::Challenged);
    signed(&mut bed, || register("alice"), "alice", "wrong");
    met.saw(&mut bed, 401, Reason::WrongPassword);
    signed(&mut bed, || register("ghost"), "ghost", "ghost");
    met.saw(&mut bed, 401, Reason::UnknownUser);
    for _ in 0..10 {
        signed(&mut bed, || register("alice"), "alice", "wrong");
    }
    met.saw(&mut bed, 401, Reason::TooManyGuesses);

    let mut bed = Bed::new(secured());
    signed(&mut bed, || register("alice"), "bob", "bob");
    met.saw(&mut bed, 403, Reason::NotHimself);
    let broken = |line: &str| register("alice").with(line);
    let line = "Authorization: Digest username=\"alice\", realm=\"example.org\", nonce=\"x\", \
                uri=\"sip:example.org\", response=\"6629fae49393a05397450978507c4ef1\", \
                algorithm=MD5, cnonce=\"y\", qop=auth, nc=00000001\r\n";
    ask(&mut bed, &broken(line));
    met.saw(&mut bed, 401, Reason::ForgedNonce);
    ask(
        &mut bed,
        &broken(&line.replace("algorithm=MD5", "algorithm=SHA-1")),
    );
    met.saw(&mut bed, 401, Reason::NotOffered);
    let line_of_another = line.replace("algorithm=MD5", "algorithm=SHA-256");
    ask(&mut bed, &broken(&line_of_another));
    met.saw(&mut bed, 401, Reason::OtherAlgorithm);
    ask(&mut bed, &broken(&line.replace("nc=00000001", "nc=x")));
    met.saw(&mut bed, 400, Reason::CredentialsMalformed);

    let challenge = only(ask(&mut bed, &register("alice")));
    bed.wait(100_000_000);
    let late = register("alice");
    let line = credentials(&challenge, &late, "alice", "alice");
    ask(&mut bed, &late.with(&line));
    store(&mut bed);
    met.saw(&mut bed, 401, Reason::StaleNonce);
}

fn look_ups_that_come_to_nothing(met: &mut Met) {
    let message = || of("alice@example.org", "MESSAGE", BOB);
    let with_credentials = |bed: &mut Bed| {
        let challenge = only(ask(bed, &message()));
        let second = message();
        let line = credentials(&challenge, &second, "alice", "alice");
        ask(bed, &second.with(&line));
    };
    let mut bed = Bed::new(secured());
    with_credentials(&mut bed);
    let park = parked(&mut bed);
    bed.act(|s, now, out| s.handle_credential(now, park, Err(NO_ANSWER), out));
    met.saw(&mut bed, 503, Reason::StoreUnavailable);
    bed.effects.clear();
    with_credentials(&mut bed);
    bed.refused.clear();
    bed.wait(4_100);
    met.saw(&mut bed, 503, Reason::StoreTimeout);
    let mut settings = secured();
    settings.authenticate = Some(AuthSettings {
        lookups_max: 0,
        ..AuthSettings::default()
    });
    let mut bed = Bed::new(settings);
    with_credentials(&mut bed);
    met.saw(&mut bed, 503, Reason::TooManyLookups);
}

fn strangers(met: &mut Met) {
    let mut bed = Bed::new(Settings {
        authenticate: Some(AuthSettings::default()),
        tells_all_refusals: true,
        ..forwarding(UDP, "203.0.113.200:5060")
    });
    ask(&mut bed, &of("mallory@far.example", "INVITE", BOB));
    met.saw(&mut bed, 403, Reason::ForeignFrom);
    ask(&mut bed, &of("anonymous@anonymous.invalid", "INVITE", BOB));
    met.saw(&mut bed, 407, Reason::AnonymousCaller);
    let call = of("+4930@gw.example", "INVITE", BOB).text();
    bed.receive(&flow(UDP, "203.0.113.200:5060"), &call);
    met.saw(&mut bed, 403, Reason::GatewayNotTrusted);
    let mut bed = Bed::new(Settings {
        inbound: Inbound::Anyone,
        ..secured()
    });
    ask(
        &mut bed,
        &of("mallory@far.example", "INVITE", "sip:x@else.example"),
    );
    met.saw(&mut bed, 403, Reason::NotForOurUsers);
    let claim = "P-Asserted-Identity: <sip:bob@example.org>\r\n";
    ask(
        &mut bed,
        &of("mallory@far.example", "INVITE", BOB).with(claim),
    );
    met.saw(&mut bed, 403, Reason::AssertsOurUser);

    let mut bed = Bed::new(Settings {
        authenticate: Some(AuthSettings::default()),
        ..settings()
    });
    for _ in 0..10_010 {
        ask(&mut bed, &of("mallory@far.example", "INVITE", BOB));
    }
    let recorded = |reason: Reason| {
        let of_it = bed.refused.iter().filter(|record| record.reason == reason);
        of_it.count()
    };
    assert_eq!(
        recorded(Reason::ForeignFrom),
        16,
        "and the others are counted"
    );
    assert_eq!(bed.shard.refusal_counts().of(Reason::ForeignFrom), 10_000);
    met.saw(&mut bed, 503, Reason::RefusedTooOften);
}

fn what_no_proxy_forwards(met: &mut Met) {
    let to_far = |more: &str| of("a@example.com", "INVITE", "sip:x@203.0.113.9").with(more);
    let mut bed = Bed::new(open());
    let mut malformed = to_far("");
    malformed.from = "<sip:a@example.com;tag=1".to_owned();
    ask(&mut bed, &malformed);
    met.saw(&mut bed, 400, Reason::Malformed);
    let mut spent = to_far("");
    spent.more = "Max-Forwards: 0\r\n".to_owned();
    ask(&mut bed, &spent);
    met.saw(&mut bed, 483, Reason::TooManyHops);
    ask(&mut bed, &to_far("Max-Breadth: 0\r\n"));
    met.saw(&mut bed, 440, Reason::BreadthSpent);
    ask(&mut bed, &to_far("Proxy-Require: x\r\n"));
    met.saw(&mut bed, 420, Reason::ExtensionRequired);
    ask(&mut bed, &of("a@example.com", "INVITE", "urn:service:sos"));
    met.saw(&mut bed, 416, Reason::UnknownScheme);
    let forwarded = ask(&mut bed, &to_far(""));
    let copy = &forwarded
        .iter()
        .find(|sent| sent.status() == 0)
        .unwrap()
        .text;
    let hop = "Via: SIP/2.0/UDP 203.0.113.9;branch=z9hG4bKhop\r\nVia: ";
    let back = copy.replacen("Via: ", hop, 1);
    bed.receive(&flow(UDP, "203.0.113.9:5060"), &back);
    met.saw(&mut bed, 482, Reason::Loop);
    ask(
        &mut bed,
        &of("a@example.com", "CANCEL", "sip:x@203.0.113.9"),
    );
    met.saw(&mut bed, 481, Reason::NothingToCancel);
    let invite = to_far("");
    let forwarded = ask(&mut bed, &invite);
    let copy = forwarded.iter().find(|sent| sent.status() == 0).unwrap();
    bed.receive(&answering(copy), &response(copy, 180, "x", ""));
    let mut cancel = of("a@example.com", "CANCEL", "sip:x@203.0.113.9");
    cancel.via.clone_from(&invite.via);
    cancel.call_id.clone_from(&invite.call_id);
    ask(&mut bed, &cancel);
    // The branch does not answer any more, so the proxy does.
    let begun = bed.now.unix_ms;
    while bed.refused.is_empty() && bed.now.unix_ms < begun + 300_000 {
        bed.wait(100);
    }
    met.saw(&mut bed, 487, Reason::Cancelled);
}

fn what_there_is_no_room_for(met: &mut Met) {
    let invite = || of("a@example.com", "INVITE", "sip:x@203.0.113.9");
    let mut bed = Bed::new(open());
    bed.act(|shard, _, _| shard.set_memory_pressure(1.0));
    ask(&mut bed, &invite());
    met.saw(&mut bed, 503, Reason::MemoryFull);
    let mut bed = Bed::new(open());
    bed.act(|shard, _, _| shard.set_shares(Shares::at(30.0)));
    for _ in 0..20 {
        ask(&mut bed, &invite());
    }
    met.saw(&mut bed, 503, Reason::Overloaded);
    let mut settings = open();
    settings.bounds.contexts_max = 0;
    let mut bed = Bed::new(settings);
    ask(&mut bed, &invite());
    met.saw(&mut bed, 503, Reason::TooManyTransactions);
    bed.act(|shard, _, _| shard.refuse_new_calls());
    ask(&mut bed, &invite());
    met.saw(&mut bed, 503, Reason::Draining);
    let mut bed = Bed::new(Settings {
        rates: RateLimits {
            source: Allowance {
                calls_per_s: 1,
                ..Allowance::default()
            },
            burst_s: 1,
            ..RateLimits::default()
        },
        ..open()
    });
    for _ in 0..5 {
        ask(&mut bed, &invite());
    }
    met.saw(&mut bed, 503, Reason::RateLimited);
}

fn users_who_are_not_there(met: &mut Met) {
    let options = |uri: &str| of("a@example.com", "OPTIONS", uri);
    let mut bed = Bed::new(open());
    ask(&mut bed, &options("sip:nobody@example.org"));
    met.saw(&mut bed, 404, Reason::NoSuchUser);
    ask(&mut bed, &of("a@example.com", "MESSAGE", "sip:example.org"));
    met.saw(&mut bed, 404, Reason::NobodyThere);
    bed.register(BOB, "sip:bob@203.0.113.9", None);
    ask(&mut bed, &options("sips:bob@example.org"));
    met.saw(&mut bed, 480, Reason::NotUnderTls);
    let cookie = only(ask(&mut bed, &options(BOB))).cookie;
    bed.act(|s, now, out| s.handle_send_failed(now, cookie, out));
    let ways = bed.refused.iter().filter(|of| of.status.is_none()).count();
    assert_eq!(ways, 1, "which phone, and that it is unreachable");
    met.saw(&mut bed, 480, Reason::PhoneUnreachable);
    let mut bed = Bed::new(Settings {
        trusted: vec![TrustedPeer::at(phone().remote.ip(), 32)],
        ..secured()
    });
    ask(&mut bed, &options("sip:alice@example.org"));
    store(&mut bed);
    met.saw(&mut bed, 480, Reason::NotRegistered);
}

fn ways_that_lead_nowhere(met: &mut Met) {
    let options = |uri: &str| of("a@example.com", "OPTIONS", uri);
    let mut bed = Bed::new(open());
    for (error, status, reason) in [
        (LocateError::NotFound, 404, Reason::NoSuchServer),
        (LocateError::Failed, 504, Reason::DnsSilent),
    ] {
        ask(&mut bed, &options("sip:x@far.example"));
        let park = parked(&mut bed);
        bed.effects.clear();
        bed.act(|s, now, out| s.handle_resolved(now, park, Err(error), out));
        met.saw(&mut bed, status, reason);
    }
    ask(&mut bed, &options("sip:x@203.0.113.9;transport=sctp"));
    met.saw(&mut bed, 502, Reason::NoTransport);
    ask(&mut bed, &options("sip:x@127.0.0.1"));
    met.saw(&mut bed, 403, Reason::NetworkDenied);
    let cookie = only(ask(&mut bed, &options("sip:x@203.0.113.9"))).cookie;
    bed.act(|s, now, out| s.handle_send_failed(now, cookie, out));
    let way = bed.refused.iter().find(|of| of.status.is_none()).unwrap();
    assert_eq!(way.hop, Some("203.0.113.9:5060".parse().unwrap()));
    met.saw(&mut bed, 502, Reason::Unreachable);
    let sent = only(ask(&mut bed, &options("sip:x@203.0.113.8")));
    let mut lone = response(&sent, 404, "x", "");
    let vias: Vec<_> = lone.match_indices("Via: ").map(|(at, _)| at).collect();
    let (second, end) = (vias[1], lone[vias[1]..].find("\r\n").unwrap() + 2);
    lone.replace_range(second..second + end, "");
    bed.receive(&answering(&sent), &lone);
    met.saw(&mut bed, 502, Reason::BadResponse);
    ask(
        &mut bed,
        &of("a@example.com", "INVITE", "sip:x@203.0.113.7"),
    );
    let begun = bed.now.unix_ms;
    while bed.refused.is_empty() && bed.now.unix_ms < begun + 60_000 {
        bed.wait(100);
    }
    met.saw(&mut bed, 408, Reason::TimedOut);

    let mut bed = Bed::new(Settings {
        mode: Mode::Redirect,
        ..open()
    });
    ask(&mut bed, &options("sip:x@203.0.113.9"));
    met.saw(&mut bed, 404, Reason::NowhereElse);
    let mut bed = Bed::new(Settings {
        trusted: vec![TrustedPeer {
            may_relay: false,
            ..TrustedPeer::at(phone().remote.ip(), 32)
        }],
        ..secured()
    });
    ask(&mut bed, &options("sip:x@far.example"));
    met.saw(&mut bed, 403, Reason::NotForOurUsers);
    let routed = options(BOB).with("Route: <sip:203.0.113.9;lr>\r\n");
    ask(&mut bed, &routed);
    met.saw(&mut bed, 403, Reason::NotRelayed);
}

fn gateways(met: &mut Met) {
    let options = |uri: &str| of("a@example.com", "OPTIONS", uri);
    let mut bed = Bed::new(Settings {
        tells_all_refusals: true,
        ..forwarding(UDP, "203.0.113.200:5060")
    });
    let cookie = only(ask(&mut bed, &options("sip:x@far.example"))).cookie;
    let refused = only(bed.act(|s, now, out| s.handle_send_failed(now, cookie, out)));
    let warning = refused
        .message
        .first_named("Warning")
        .map(|field| field.value);
    assert_eq!(
        warning,
        Some(&b"399 example.org \"gateways_unreachable\""[..])
    );
    let way = bed.refused.iter().find(|of| of.status.is_none()).unwrap();
    assert_eq!(way.reason, Reason::Unreachable);
    assert_eq!(&*way.detail, "gateway 203.0.113.200");
    met.saw(&mut bed, 503, Reason::GatewaysUnreachable);
    let sent = only(ask(&mut bed, &options("sip:x@far.example")));
    bed.receive(&answering(&sent), &response(&sent, 503, "g", ""));
    met.saw(&mut bed, None, Reason::NextHopBusy);
    let sent = only(ask(&mut bed, &options("sip:x@far.example")));
    bed.receive(&answering(&sent), &response(&sent, 503, "g", ""));
    met.saw(&mut bed, 500, Reason::NextHopBusy);
    let mut bed = Bed::new(open());
    let sent = ask(&mut bed, &of("a@example.com", "OPTIONS", "tel:+4930"));
    let refused = only(sent);
    assert!(refused.header(HeaderName::RetryAfter).is_none());
    met.saw(&mut bed, 404, Reason::NoRoute);
}

fn what_the_hook_says(met: &mut Met) {
    let mut bed = Bed::new(Settings {
        hook: Some(HookSettings {
            asks: vec![Kind::Message],
            timeout_ms: 1_000,
            waiting_max: 1,
            on_failure: OnFailure::Reject,
            may_relay: false,
            headers: Vec::new(),
        }),
        ..open()
    });
    let body = br#"{"answers":[{"id":0,"action":"reject","status":480}]}"#;
    let (_, answer) = sip_hook::read_answers(body).unwrap().remove(0);
    ask(&mut bed, &of("a@example.com", "MESSAGE", BOB));
    let Some(Effect::AskHook { park, .. }) = bed.effects.pop() else {
        panic!("the hook was not asked");
    };
    let rejected = Ok(Arc::new(answer.unwrap()));
    bed.act(|s, now, out| s.handle_hook(now, park, rejected, out));
    met.saw(&mut bed, 480, Reason::Hook);
    ask(&mut bed, &of("a@example.com", "MESSAGE", BOB));
    bed.wait(1_100);
    met.saw(&mut bed, 503, Reason::HookFailed);
}

fn registrations(met: &mut Met) {
    let register = |more: &str| {
        let mut register = of("bob@example.org", "REGISTER", "sip:example.org").with(more);
        register.call_id = "the-phone".to_owned();
        register
    };
    let mut settings = open();
    settings.registrar.contacts_max = 1;
    settings.registrar.contacts_full = ContactsFull::Refuse;
    let mut bed = Bed::new(settings);
    ask(&mut bed, &register("Contact: *\r\n"));
    met.saw(&mut bed, 400, Reason::RegisterMalformed);
    ask(&mut bed, &register("Contact: <sip:x@192.0.2.1>\r\n"));
    met.saw(&mut bed, 403, Reason::BadContact);
    ask(&mut bed, &register("Require: x\r\n"));
    met.saw(&mut bed, 420, Reason::ExtensionRequired);
    ask(&mut bed, &register("Expires: 5\r\n"));
    met.saw(&mut bed, 423, Reason::IntervalTooBrief);
    let mut elsewhere = register("");
    elsewhere.to = "<sip:bob@far.example>".to_owned();
    ask(&mut bed, &elsewhere);
    met.saw(&mut bed, 404, Reason::NoAddressOfRecord);
    let second = "Contact: <sip:bob@203.0.113.3>\r\n";
    ask(&mut bed, &register(second));
    store(&mut bed);
    met.saw(&mut bed, 403, Reason::TooManyContacts);
    ask(&mut bed, &register(""));
    store(&mut bed);
    ask(&mut bed, &register(""));
    store(&mut bed);
    met.saw(&mut bed, 500, Reason::OutOfOrder);
    let mut later = register("");
    later.cseq = 2;
    ask(&mut bed, &later);
    let park = parked(&mut bed);
    bed.act(|s, now, out| s.handle_saved(now, park, Err(()), out));
    met.saw(&mut bed, 500, Reason::NotStored);
}
