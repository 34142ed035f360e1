//! The parser and the framer against the torture messages, this project's own and
//! those of RFC 4475, by the verdicts in `conformance/*/verdicts.toml`.
#![allow(missing_docs, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod common;

use common::{CORPORA, Corpus};
use serde::Deserialize;
use sip_msg::header::Contact;
use sip_msg::{Framed, Framer, HeaderName, Limits, Message, ParseErrorKind, ResponseWriter};
use std::collections::BTreeSet;
use std::path::Path;

/// How many messages RFC 4475 has.
const RFC_4475_COUNT: usize = 49;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Verdicts {
    message: Vec<Verdict>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Verdict {
    file: String,
    /// Of this project's own messages: what they are about.
    subject: Option<String>,
    section: String,
    valid: bool,
    kind: String,
    /// For whoever reads streams.
    #[serde(default)]
    #[allow(dead_code, reason = "read by the tests of the whole server")]
    loses_framing: bool,
    fault: Option<String>,
    /// Valid, and refused all the same.
    #[serde(default)]
    deviates: bool,
    #[serde(default)]
    authentication: bool,
    udp: Treatment,
    tcp: Option<Treatment>,
    #[serde(default = "one")]
    messages: usize,
    #[serde(default)]
    leftover: bool,
    reason: String,
}

#[derive(Deserialize, Clone, PartialEq)]
#[serde(untagged)]
enum Treatment {
    One(String),
    Any(Vec<String>),
}

impl Treatment {
    fn all(&self) -> Vec<&str> {
        match self {
            Self::One(one) => vec![one],
            Self::Any(any) => any.iter().map(String::as_str).collect(),
        }
    }
}

fn one() -> usize {
    1
}

fn verdicts(corpus: &Corpus) -> Vec<Verdict> {
    let path = format!("../../conformance/{}/verdicts.toml", corpus.name);
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path));
    toml::from_str::<Verdicts>(&text.expect("the verdicts are there"))
        .expect("the verdicts can be read")
        .message
}

/// The messages that are there, with their verdicts.
fn cases() -> Vec<(Verdict, Vec<u8>)> {
    let cases = CORPORA.iter().flat_map(|corpus| {
        let (mut verdicts, messages) = (verdicts(corpus), corpus.messages());
        verdicts.sort_by(|a, b| a.file.cmp(&b.file));
        if messages.is_empty() {
            verdicts.clear();
        }
        verdicts.into_iter().zip(messages)
    });
    cases
        .map(|(verdict, (name, bytes))| {
            assert_eq!(
                verdict.file, name,
                "a message and no verdict, or the reverse"
            );
            (verdict, bytes)
        })
        .collect()
}

fn fault(bytes: &[u8]) -> Option<ParseErrorKind> {
    let read = Message::parse(bytes, &Limits::default()).and_then(|m| m.validate());
    read.err().map(|error| error.kind)
}

#[test]
fn each_message_has_a_verdict_and_each_verdict_a_message() {
    let [own, rfc_4475] = &CORPORA;
    for corpus in [own, rfc_4475] {
        let verdicts = verdicts(corpus);
        let wanted: BTreeSet<_> = verdicts.iter().map(|v| v.file.clone()).collect();
        assert_eq!(
            wanted.len(),
            verdicts.len(),
            "{}: no file twice",
            corpus.name
        );
        let found: BTreeSet<_> = corpus.messages().into_iter().map(|m| m.0).collect();
        // RFC 4475's messages are no part of the repository.
        if corpus.name == own.name || !found.is_empty() {
            assert_eq!(found, wanted, "{}", corpus.name);
        }
    }
    assert_eq!(verdicts(rfc_4475).len(), RFC_4475_COUNT);
}

#[test]
fn each_subject_of_rfc_4475_and_of_rfc_5118_has_a_message_of_our_own() {
    let [own, rfc_4475] = &CORPORA;
    let subjects: BTreeSet<_> = verdicts(own)
        .into_iter()
        .map(|v| {
            v.subject
                .unwrap_or_else(|| panic!("{}: no subject", v.file))
        })
        .collect();
    for verdict in verdicts(rfc_4475) {
        let subject = format!("RFC 4475 {}", verdict.section);
        assert!(subjects.contains(&subject), "{subject}");
    }
    for section in 1..=10 {
        let subject = format!("RFC 5118 4.{section}");
        assert!(subjects.contains(&subject), "{subject}");
    }
}

#[test]
fn the_verdicts_are_whole() {
    for verdict in CORPORA.iter().flat_map(verdicts) {
        let treatments = [Some(&verdict.udp), verdict.tcp.as_ref()];
        for treatment in treatments.into_iter().flatten().flat_map(Treatment::all) {
            let is_status = treatment
                .parse::<u16>()
                .is_ok_and(|status| (200..700).contains(&status));
            let is_word = ["forward", "serve", "drop", "wait"].contains(&treatment);
            assert!(is_status || is_word, "{}: {treatment}", verdict.file);
        }
        let is_own = verdict.subject.is_some();
        let place = if is_own { "RFC " } else { "3." };
        assert!(verdict.section.starts_with(place), "{}", verdict.file);
        assert!(verdict.reason.ends_with('.'), "{}", verdict.file);
        let kinds = ["request", "response", "neither"];
        assert!(kinds.contains(&verdict.kind.as_str()), "{}", verdict.file);
        assert_eq!(
            verdict.valid && verdict.fault.is_some(),
            verdict.deviates,
            "{}: what is valid has no fault",
            verdict.file
        );
        let refusals = ["400", "401"];
        assert!(
            !verdict.authentication || verdict.udp.all().iter().all(|t| refusals.contains(t)),
            "{}",
            verdict.file
        );
    }
}

#[test]
fn the_parser_finds_the_fault_of_each_message() {
    for (verdict, bytes) in cases() {
        let found = fault(&bytes).map(|kind| format!("{kind:?}"));
        assert_eq!(found, verdict.fault, "{}", verdict.file);
    }
}

#[test]
fn a_fault_is_answered_with_its_status() {
    for (verdict, bytes) in cases() {
        let mut message = Message::default();
        let read = message
            .fill(&bytes, &Limits::default())
            .and_then(|()| message.validate());
        assert_eq!(
            message.is_request(),
            verdict.kind == "request",
            "{}",
            verdict.file
        );
        let Err(error) = read else {
            continue;
        };
        assert_eq!(
            message.is_answerable(),
            verdict.udp.all() != ["drop"],
            "{}",
            verdict.file
        );
        if !message.is_answerable() {
            continue;
        }
        assert_eq!(
            verdict.udp.all(),
            [error.status().to_string()],
            "{}",
            verdict.file
        );
        let mut out = Vec::new();
        ResponseWriter::begin(&mut out, &message, error.status(), error.reason(), b"t").finish(b"");
        let answer = Message::parse(&out, &Limits::default());
        // What is past a limit may be past it in the answer too.
        let answer = match answer {
            Err(e) if Some(format!("{:?}", e.kind)) == verdict.fault && verdict.deviates => {
                continue;
            }
            answer => answer.expect("the answer is well formed"),
        };
        assert_eq!(answer.status(), error.status(), "{}", verdict.file);
        let vias = |m: &Message| {
            m.fields_of(HeaderName::Via)
                .map(|f| f.value.to_vec())
                .collect::<Vec<_>>()
        };
        assert_eq!(vias(&answer), vias(&message), "{}", verdict.file);
    }
}

#[test]
fn a_stream_holds_what_the_verdict_says() {
    let limits = Limits::default();
    for (verdict, bytes) in cases() {
        let (mut framer, mut read, mut messages) = (Framer::default(), 0, 0);
        let end = loop {
            match framer.next(&bytes[read..], &limits) {
                Ok(Framed::More) => break None,
                Ok(Framed::Message { len }) => {
                    messages += 1;
                    read += len;
                }
                Ok(Framed::Ping { len } | Framed::Skip { len }) => read += len,
                Err(error) => break Some(error),
            }
        };
        let tcp = verdict.tcp.as_ref().unwrap_or(&verdict.udp).all();
        if tcp == ["wait"] {
            assert!(end.is_none() && messages == 0, "{}", verdict.file);
            assert!(!framer.is_idle(), "{}", verdict.file);
            continue;
        }
        let left = &bytes[read..];
        if let Some(error) = &end
            && messages == 0
        {
            let mut head = Message::default();
            let _ = head.fill(&left[..error.head_len], &limits);
            let answer = if head.is_answerable() { "400" } else { "drop" };
            assert_eq!(tcp, [answer], "{}", verdict.file);
            continue;
        }
        let is_sip = usize::from(verdict.kind != "neither");
        assert_eq!(messages, verdict.messages * is_sip, "{}", verdict.file);
        assert_eq!(!left.is_empty(), verdict.leftover, "{}", verdict.file);
    }
}

#[test]
fn what_our_own_messages_mean() {
    let [own, _] = &CORPORA;
    let messages = own.messages();
    let parse = |name: &str| {
        let (_, bytes) = messages.iter().find(|(n, _)| n == name).expect("there");
        Message::parse(bytes, &Limits::default()).expect("well formed")
    };
    let branches = |message: &Message| -> Vec<String> {
        message
            .vias()
            .map(|via| String::from_utf8_lossy(via.expect("well formed").branch).into_owned())
            .collect()
    };
    let contacts = |message: &Message| -> Vec<(String, u16, Option<u32>)> {
        message
            .contacts()
            .map(|contact| match contact {
                Ok(Contact::Addr(c)) => (
                    String::from_utf8_lossy(c.addr.uri).into_owned(),
                    c.q,
                    c.expires_s,
                ),
                other => panic!("{other:?}"),
            })
            .collect()
    };

    let folds = parse("folds-everywhere");
    assert_eq!(folds.to().expect("To").tag(), Some(&b"77-folds"[..]));
    assert_eq!(folds.from().expect("From").tag(), Some(&b"81folds"[..]));
    assert_eq!(folds.max_forwards(), Ok(Some(42)));
    assert_eq!(
        folds.cseq().map(|c| (c.number, c.method)),
        Ok((12, &b"INVITE"[..]))
    );
    assert_eq!(
        branches(&folds),
        ["z9hG4bK-folds1", "z9hG4bK-folds2", "z9hG4bK-folds3"]
    );
    assert_eq!(
        contacts(&folds),
        [("sip:anselm@example.net".to_owned(), 250, None)]
    );

    let nul = parse("escaped-nul-in-contacts");
    assert_eq!(users_of(&nul), [b"z\0".to_vec(), b"\0z\0".to_vec()]);

    let host_port = |name: &str| {
        let message = parse(name);
        let at = message.uri().expect("well formed").host_port;
        (String::from_utf8_lossy(at.host).into_owned(), at.port)
    };
    assert_eq!(
        host_port("v6-port-within-brackets"),
        ("[2001:db8::27:5080]".to_owned(), None)
    );
    assert_eq!(
        host_port("v6-port-behind-brackets"),
        ("[2001:db8::27]".to_owned(), Some(5080))
    );
    assert_eq!(
        host_port("escapes-look-like-sips"),
        ("north.example".to_owned(), None)
    );
    assert_eq!(
        host_port("semicolon-in-user"),
        ("example.com".to_owned(), None)
    );

    let received = |name: &str| {
        let message = parse(name);
        let via = message.vias().last().expect("a Via").expect("well formed");
        via.received
            .map(|r| String::from_utf8_lossy(r).into_owned())
    };
    assert_eq!(
        received("v6-received-without-brackets").as_deref(),
        Some("2001:db8::9:255")
    );
    assert_eq!(
        received("v6-received-with-brackets").as_deref(),
        Some("[2001:db8::9:255]")
    );
    let below = parse("rport-of-a-hop-before");
    let rports: Vec<_> = below
        .vias()
        .map(|via| via.expect("well formed").rport)
        .collect();
    assert_eq!(rports, [Some(None), Some(Some(40_211))]);
    let mapped = parse("v6-mapped-v4");
    let mapped = mapped.top_via().expect("well formed").sent_by.ip();
    assert_eq!(mapped, "::ffff:192.0.2.61".parse().ok());

    assert_eq!(parse("via-two-hundred").vias().count(), 200);
    assert_eq!(parse("long-values").vias().count(), 40);
    assert_eq!(
        branches(&parse("compact-via-between-long-ones")).len(),
        3,
        "one list"
    );
    assert_eq!(
        parse("record-route-two-hundred")
            .values(HeaderName::RecordRoute)
            .count(),
        200
    );

    let inside = contacts(&parse("contact-parameter-inside"));
    assert_eq!(inside[0].0, "sip:+12015550142@192.0.2.61;colour=red");
    let outside = contacts(&parse("contact-parameter-outside"));
    assert_eq!(outside[0].0, "sip:+12015550142@192.0.2.61");
    let q: Vec<_> = contacts(&parse("register-q-at-its-limits"))
        .iter()
        .map(|contact| contact.1)
        .collect();
    assert_eq!(q, [0, 1000, 1, 1000]);
    // RFC 3261 10.2.1.1: "Malformed values SHOULD be treated as equivalent to 3600."
    let soon = contacts(&parse("register-expires-in-words"));
    assert_eq!(soon[0].2, Some(3600));
    assert_eq!(
        contacts(&parse("register-display-name-in-contact")).len(),
        1,
        "what is quoted separates nothing"
    );
    let bad_contacts = |name: &str| parse(name).contacts().filter(Result::is_err).count();
    assert_eq!(bad_contacts("contact-headers-without-brackets"), 1);
    assert_eq!(bad_contacts("register-empty-contact-element"), 1);

    assert_eq!(
        parse("percent-is-no-escape-in-a-token").method(),
        sip_msg::Method::Other
    );
    assert_eq!(
        parse("method-in-another-case").method(),
        sip_msg::Method::Other
    );
    assert_eq!(
        parse("cseq-at-its-limit").cseq().map(|c| c.number),
        Ok(2_147_483_647)
    );
    assert_eq!(parse("max-forwards-of-255").max_forwards(), Ok(Some(255)));
    assert_eq!(parse("max-forwards-missing").max_forwards(), Ok(None));
    assert_eq!(parse("content-length-with-zeros").body(), b"12345");
    assert_eq!(parse("line-ends-behind").body(), b"");
    assert!(parse("multipart-with-nuls").body().contains(&0));
}

#[test]
fn what_the_messages_of_rfc_4475_mean() {
    let [_, rfc_4475] = &CORPORA;
    let messages = rfc_4475.messages();
    if messages.is_empty() {
        return;
    }
    let parse = |name: &str| {
        let (_, bytes) = messages.iter().find(|(n, _)| n == name).expect("there");
        Message::parse(bytes, &Limits::default()).expect("well formed")
    };

    let wsinv = parse("wsinv");
    assert_eq!(wsinv.to().expect("To").tag(), Some(&b"1918181833n"[..]));
    assert_eq!(
        wsinv.from().expect("From").display,
        b"\"J Rosenberg \\\\\\\"\""
    );
    assert_eq!(wsinv.max_forwards(), Ok(Some(68)));
    assert_eq!(wsinv.cseq().map(|c| c.number), Ok(9));
    let branches: Vec<_> = wsinv
        .vias()
        .map(|via| via.expect("well formed").branch)
        .collect();
    assert_eq!(
        branches,
        [&b"390skdjuw"[..], b"z9hG4bK9ikj8", b"z9hG4bK30239"]
    );
    let Some(Ok(Contact::Addr(contact))) = wsinv.contacts().next() else {
        panic!("one contact");
    };
    assert_eq!(
        (contact.q, contact.addr.param("secondparam")),
        (330, Some(&b""[..]))
    );
    assert_eq!(wsinv.body().len(), 150);
    assert_eq!(
        wsinv.first(HeaderName::Subject).map(|f| f.value),
        Some(&b""[..])
    );

    let escnull = parse("escnull");
    assert_eq!(users_of(&escnull), [b"\0".to_vec(), b"\0\0".to_vec()]);

    let esc02 = parse("esc02");
    assert_eq!(esc02.method(), sip_msg::Method::Other);
    assert_eq!(esc02.contacts().count(), 2);

    let longreq = parse("longreq");
    assert_eq!(longreq.vias().count(), 34);
    assert_eq!(
        longreq.vias().last().flatten().and_then(|via| via.received),
        Some(&b"192.0.2.5"[..])
    );

    let transports = parse("transports");
    let known: Vec<_> = transports
        .vias()
        .map(|via| via.expect("well formed").transport.is_some())
        .collect();
    assert_eq!(known, [true, false, true, false, true]);

    let mpart = parse("mpart01");
    assert_eq!(mpart.body().len(), 553);
    assert!(mpart.body().contains(&0));

    let bext = parse("bext01");
    let wanted: Vec<_> = bext
        .values(HeaderName::ProxyRequire)
        .map(|(tag, _)| tag)
        .collect();
    assert_eq!(
        wanted,
        [&b"noProxiesSupportThis"[..], b"norDoAnyProxiesSupportThis"]
    );

    let contact_uri = |message: &Message| match message.contacts().next() {
        Some(Ok(Contact::Addr(contact))) => String::from_utf8_lossy(contact.addr.uri).into_owned(),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        contact_uri(&parse("cparam01")),
        "sip:+19725552222@gw1.example.net"
    );
    assert_eq!(
        contact_uri(&parse("cparam02")),
        "sip:+19725552222@gw1.example.net;unknownparam"
    );
    assert_eq!(
        contact_uri(&parse("regescrt")),
        "sip:user@example.com?Route=%3Csip:sip.example.com%3E"
    );
    assert!(parse("regbadct").contacts().any(|contact| contact.is_err()));
}

#[test]
fn every_prefix_of_every_message_is_survived() {
    let limits = Limits::default();
    let (mut message, mut response) = (Message::default(), Vec::new());
    for (verdict, bytes) in cases() {
        for end in 0..bytes.len() {
            let read = message
                .fill(&bytes[..end], &limits)
                .and_then(|()| message.validate());
            if let Err(error) = read {
                response.clear();
                ResponseWriter::begin(
                    &mut response,
                    &message,
                    error.status(),
                    error.reason(),
                    b"t",
                )
                .finish(b"");
                assert!(response.starts_with(b"SIP/2.0 "), "{}", verdict.file);
            }
            let _ = (
                message.top_via().is_ok(),
                message.uri().is_ok(),
                message.contacts().count(),
            );
        }
    }
}

/// The users of a message's contacts, without their escapes.
fn users_of(message: &Message) -> Vec<Vec<u8>> {
    let user = |contact| match contact {
        Ok(Contact::Addr(contact)) => {
            let mut user = Vec::new();
            contact.uri.write_user(&mut user);
            user
        }
        other => panic!("{other:?}"),
    };
    message.contacts().map(user).collect()
}
