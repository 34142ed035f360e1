//! The parser and the framer against the torture messages of RFC 4475, by the
//! verdicts in `conformance/rfc4475/verdicts.toml`.
#![allow(missing_docs, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod common;

use common::{COUNT, torture_messages};
use serde::Deserialize;
use sip_msg::header::Contact;
use sip_msg::{Framed, Framer, HeaderName, Limits, Message, ParseErrorKind, ResponseWriter};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Verdicts {
    message: Vec<Verdict>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Verdict {
    file: String,
    section: String,
    valid: bool,
    kind: String,
    /// For whoever reads streams.
    #[serde(default)]
    #[allow(dead_code, reason = "read by the tests of the whole server")]
    loses_framing: bool,
    fault: Option<String>,
    #[serde(default)]
    authentication: bool,
    udp: Treatment,
    tcp: Option<Treatment>,
    #[serde(default = "one")]
    messages: usize,
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

fn verdicts() -> Vec<Verdict> {
    let text = include_str!("../../../conformance/rfc4475/verdicts.toml");
    toml::from_str::<Verdicts>(text)
        .expect("the verdicts can be read")
        .message
}

/// The messages with their verdicts; empty where the folder is not there.
fn cases() -> Vec<(Verdict, Vec<u8>)> {
    let Some(messages) = torture_messages() else {
        return Vec::new();
    };
    let verdicts = verdicts();
    assert_eq!(verdicts.len(), messages.len());
    let bytes_of = |verdict: &Verdict| {
        let found = messages.iter().find(|(name, _)| *name == verdict.file);
        found
            .unwrap_or_else(|| panic!("{}.dat is there", verdict.file))
            .1
            .clone()
    };
    verdicts
        .into_iter()
        .map(|verdict| {
            let bytes = bytes_of(&verdict);
            (verdict, bytes)
        })
        .collect()
}

fn fault(bytes: &[u8]) -> Option<ParseErrorKind> {
    let read = Message::parse(bytes, &Limits::default()).and_then(|m| m.validate());
    read.err().map(|error| error.kind)
}

#[test]
fn the_verdicts_are_whole() {
    let verdicts = verdicts();
    assert_eq!(verdicts.len(), COUNT);
    let mut names: Vec<_> = verdicts.iter().map(|v| v.file.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), COUNT, "no file twice");
    for verdict in &verdicts {
        let treatments = [Some(&verdict.udp), verdict.tcp.as_ref()];
        for treatment in treatments.into_iter().flatten().flat_map(Treatment::all) {
            let is_status = treatment
                .parse::<u16>()
                .is_ok_and(|status| (200..700).contains(&status));
            let is_word = ["forward", "serve", "drop", "wait"].contains(&treatment);
            assert!(is_status || is_word, "{}: {treatment}", verdict.file);
        }
        assert!(verdict.section.starts_with("3."), "{}", verdict.file);
        assert!(verdict.reason.ends_with('.'), "{}", verdict.file);
        assert!(
            ["request", "response"].contains(&verdict.kind.as_str()),
            "{}",
            verdict.file
        );
        assert!(
            !(verdict.valid && verdict.fault.is_some()),
            "{}: what is valid has no fault",
            verdict.file
        );
        assert!(
            !verdict.authentication || verdict.udp.all() == ["401"],
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
            verdict.kind == "request",
            "{}",
            verdict.file
        );
        if message.is_answerable() {
            assert_eq!(
                verdict.udp.all(),
                [error.status().to_string()],
                "{}",
                verdict.file
            );
            let mut out = Vec::new();
            ResponseWriter::begin(&mut out, &message, error.status(), error.reason(), b"t")
                .finish(b"");
            let answer =
                Message::parse(&out, &Limits::default()).expect("the answer is well formed");
            assert_eq!(answer.status(), error.status(), "{}", verdict.file);
            let vias = |m: &Message| {
                m.fields_of(HeaderName::Via)
                    .map(|f| f.value.to_vec())
                    .collect::<Vec<_>>()
            };
            assert_eq!(vias(&answer), vias(&message), "{}", verdict.file);
        } else {
            assert_eq!(verdict.udp.all(), ["drop"], "{}", verdict.file);
        }
    }
}

#[test]
fn a_stream_holds_what_the_verdict_says() {
    let limits = Limits::default();
    for (verdict, bytes) in cases() {
        let (mut framer, mut read, mut messages) = (Framer::default(), 0, 0);
        let outcome = loop {
            match framer.next(&bytes[read..], &limits) {
                Ok(Framed::More) => break "end",
                Ok(Framed::Message { len }) => {
                    messages += 1;
                    read += len;
                }
                Ok(Framed::Ping { len } | Framed::Skip { len }) => read += len,
                Err(_) => break "close",
            }
        };
        let left = bytes.len() - read;
        let tcp = verdict.tcp.clone().unwrap_or(verdict.udp.clone());
        if tcp.all() == ["wait"] {
            assert_eq!((outcome, messages), ("end", 0), "{}", verdict.file);
            assert!(!framer.is_idle(), "{}", verdict.file);
        } else if messages == 0 {
            assert_eq!(
                (outcome, tcp.all()),
                ("close", vec!["400"]),
                "{}",
                verdict.file
            );
        } else {
            assert_eq!(messages, verdict.messages, "{}", verdict.file);
            // The second body of one has more octets than it says.
            assert_eq!(left > 0, verdict.file == "dblreq", "{}", verdict.file);
        }
    }
}

#[test]
fn what_the_messages_mean() {
    let Some(messages) = torture_messages() else {
        return;
    };
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
    let users: Vec<_> = escnull
        .contacts()
        .map(|contact| match contact {
            Ok(Contact::Addr(contact)) => {
                let mut user = Vec::new();
                contact.uri.write_user(&mut user);
                user
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(users, [b"\0".to_vec(), b"\0\0".to_vec()]);

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
