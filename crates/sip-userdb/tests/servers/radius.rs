//! RADIUS: a real freeradius, and scripted servers that lie.

use std::collections::VecDeque;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use crate::stores::radius::{SECRET, Server};
use crate::stores::suite::{USERS, digest, ha1s, join_all, password, subject, user};
use crate::stores::{free_port, have, options, refused, run, secret};
use hmac::{Hmac, KeyInit, Mac};
use md5::{Digest, Md5};
use sip_auth::{Algorithm, DigestRequest, Qop};
use sip_lookup::{BatchAnswer, BatchFailure, Rows};
use sip_userdb::{Layout, Options, Tls, UserDb};

async fn verify(db: &UserDb, digest: DigestRequest) -> Result<bool, BatchFailure> {
    match db.ask(&Rows::Verify(Box::new(digest))).await? {
        BatchAnswer::Verified(is_right) => Ok(is_right),
        answer => panic!("{answer:?}"),
    }
}

fn open(port: u16, shared: &str) -> UserDb {
    open_with(port, shared, "")
}

fn open_with(port: u16, shared: &str, query: &str) -> UserDb {
    UserDb::new(Options {
        password: secret(shared),
        ..options(&format!(
            "radius://127.0.0.1:{port}?retransmit_ms=50{query}"
        ))
    })
    .unwrap()
}

#[test]
fn freeradius_verifies_digests() {
    if !have("freeradius") {
        return;
    }
    let server = Server::start(true);
    for format in ["digest=sterman", "digest=rfc5090"] {
        run(verified(server.open_with(format)));
    }
}

async fn verified(db: UserDb) {
    let can = db.capabilities();
    assert!(can.verifies && !can.tells_unknown_users && !can.is_writable);
    assert_eq!(can.algorithms, [Algorithm::Md5]);
    for n in [0, 1, 2, 3] {
        let right = digest(&user(n), &password(n));
        assert_eq!(verify(&db, right.clone()).await, Ok(true), "{n}");
        assert_eq!(verify(&db, digest(&user(n), "wrong")).await, Ok(false));
        for changed in [
            DigestRequest {
                method: b"INVITE".to_vec(),
                ..right.clone()
            },
            DigestRequest {
                uri: b"sip:example.com".to_vec(),
                ..right.clone()
            },
            DigestRequest {
                nonce: b"other".to_vec(),
                ..right.clone()
            },
            DigestRequest {
                nonce_count: b"00000002".to_vec(),
                ..right.clone()
            },
            DigestRequest {
                cnonce: b"other".to_vec(),
                ..right.clone()
            },
            DigestRequest {
                response: vec![b'0'; 32],
                ..right.clone()
            },
        ] {
            assert_eq!(verify(&db, changed).await, Ok(false), "{n}");
        }
    }
    assert_eq!(verify(&db, digest("nobody", "secret0")).await, Ok(false));
    assert_eq!(verify(&db, digest("damaged", "secret0")).await, Ok(false));
    let many = (0..600).map(|turn| {
        let db = &db;
        async move {
            let n = turn % USERS;
            let is_right = turn % 3 != 0;
            let word = if is_right {
                password(n)
            } else {
                "wrong".to_owned()
            };
            let asked = verify(db, digest(&user(n), &word)).await;
            assert_eq!(asked, Ok(is_right), "{turn}");
        }
    });
    join_all(many.collect()).await;
    assert_eq!(db.ignored_answers(), 0);
    let (sent, received) = db.traffic();
    assert!(sent > received && received > 600 * 20);
}

#[test]
fn hostile_digests_are_wrong_and_harm_nobody() {
    if !have("freeradius") {
        return;
    }
    let server = Server::start(true);
    run(async {
        let db = server.open();
        let right = digest("u1", "secret1");
        let long = vec![b'x'; 8_192];
        let names: &[&[u8]] = &[
            b"",
            b"\0",
            b"u1\0",
            b"\xff",
            b"u1\xff",
            b"%{User-Name}",
            b"'",
            b"\"",
            b"\\",
            b"u1 ",
            b"U1",
            &long,
            &long[..253],
            &long[..254],
            "ｕ1".as_bytes(),
        ];
        for &name in names {
            let hostile = DigestRequest {
                user: name.to_vec(),
                ..right.clone()
            };
            assert_eq!(
                verify(&db, hostile).await,
                Ok(false),
                "{}",
                name.escape_ascii()
            );
        }
        for hostile in [
            DigestRequest {
                uri: long.clone(),
                ..right.clone()
            },
            DigestRequest {
                cnonce: vec![],
                ..right.clone()
            },
            DigestRequest {
                response: vec![],
                ..right.clone()
            },
            DigestRequest {
                response: b"zz".to_vec(),
                ..right.clone()
            },
            DigestRequest {
                nonce_count: b"zz".to_vec(),
                ..right.clone()
            },
            DigestRequest {
                qop: Qop::AuthInt,
                ..right.clone()
            },
            DigestRequest {
                realm: "".into(),
                ..right.clone()
            },
        ] {
            assert_eq!(verify(&db, hostile).await, Ok(false));
        }
        assert_eq!(verify(&db, right).await, Ok(true));
    });
}

#[test]
fn a_server_may_die_and_return() {
    if !have("freeradius") {
        return;
    }
    let server = Server::start(true);
    run(async {
        let db = server.open();
        assert_eq!(verify(&db, digest("u1", "secret1")).await, Ok(true));
        server.kill();
        for _ in 0..3 {
            let failure = verify(&db, digest("u1", "secret1")).await.unwrap_err();
            assert!(
                matches!(failure, BatchFailure::Unreachable(_)),
                "{failure:?}"
            );
        }
        server.restart();
        assert_eq!(verify(&db, digest("u1", "secret1")).await, Ok(true));
        assert_eq!(verify(&db, digest("u1", "wrong")).await, Ok(false));
    });
}

#[test]
fn answers_without_proof_are_not_believed() {
    if !have("freeradius") {
        return;
    }
    let unsigned = Server::start(false);
    let signed = Server::start(true);
    run(async {
        // This one signs nothing, whatever Debian's version of it does by itself.
        let db = open(unsigned.port, SECRET);
        let asked = verify(&db, digest("u1", "secret1"));
        let answer = tokio::time::timeout(Duration::from_secs(1), asked).await;
        assert_eq!(answer.ok(), None, "neither yes nor no");
        assert!(db.ignored_answers() > 0);
        // A secret that is not the server's: it does not answer at all.
        let db = open(signed.port, "another secret of ours");
        let asked = verify(&db, digest("u1", "secret1"));
        let answer = tokio::time::timeout(Duration::from_secs(1), asked).await;
        assert_eq!(answer.ok(), None);
    });
}

/// A packet that came to a scripted server.
#[derive(Clone)]
struct Packet {
    from: SocketAddr,
    bytes: Vec<u8>,
}

impl Packet {
    fn attribute(&self, kind: u8) -> Option<&[u8]> {
        let mut rest = &self.bytes[20..];
        while let [found, len, ..] = *rest {
            let (attribute, after) = rest.split_at(usize::from(len));
            if found == kind {
                return Some(&attribute[2..]);
            }
            rest = after;
        }
        None
    }

    /// An answer with a good proof; with a Message-Authenticator if it `is_signed`.
    fn answer(&self, code: u8, is_signed: bool, secret: &str) -> Vec<u8> {
        self.answer_with(code, &[], is_signed, secret)
    }

    /// The same with attributes.
    fn answer_with(&self, code: u8, attributes: &[u8], is_signed: bool, secret: &str) -> Vec<u8> {
        let len = 20 + attributes.len() + if is_signed { 18 } else { 0 };
        let mut bytes = vec![code, self.bytes[1], 0, u8::try_from(len).unwrap()];
        bytes.extend_from_slice(&self.bytes[4..20]);
        if is_signed {
            bytes.extend_from_slice(&[80, 18]);
            bytes.extend_from_slice(&[0; 16]);
        }
        bytes.extend_from_slice(attributes);
        if is_signed {
            let mac = Hmac::<Md5>::new_from_slice(secret.as_bytes())
                .unwrap()
                .chain_update(&bytes)
                .finalize();
            bytes[22..38].copy_from_slice(&mac.into_bytes());
        }
        let proof = Md5::new()
            .chain_update(&bytes)
            .chain_update(secret)
            .finalize();
        bytes[4..20].copy_from_slice(&proof);
        bytes
    }
}

const ACCEPT: u8 = 2;
const REJECT: u8 = 3;

/// A server that answers each packet with what `script` says.
fn scripted(mut script: impl FnMut(Packet) -> Vec<(SocketAddr, Vec<u8>)> + Send + 'static) -> u16 {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok((len, from)) = socket.recv_from(&mut buffer) {
            let bytes = buffer[..len].to_vec();
            for (to, bytes) in script(Packet { from, bytes }) {
                let _ = socket.send_to(&bytes, to);
            }
        }
    });
    port
}

#[test]
fn requests_are_signed() {
    let port = scripted(|packet| {
        let mut zeroed = packet.bytes.clone();
        // The first attribute, of 16 bytes.
        assert_eq!(zeroed[20..22], [80, 18]);
        zeroed[22..38].fill(0);
        let is_signed = Hmac::<Md5>::new_from_slice(SECRET.as_bytes())
            .unwrap()
            .chain_update(&zeroed)
            .verify_slice(&packet.bytes[22..38])
            .is_ok();
        let code = if is_signed && packet.attribute(32) == Some(b"proxy-7") {
            ACCEPT
        } else {
            REJECT
        };
        vec![(packet.from, packet.answer(code, true, SECRET))]
    });
    run(async {
        let db = UserDb::new(Options {
            password: secret(SECRET),
            ..options(&format!("radius://127.0.0.1:{port}?nas_identifier=proxy-7"))
        })
        .unwrap();
        assert_eq!(verify(&db, digest("u1", "secret1")).await, Ok(true));
    });
}

#[test]
fn forged_answers_are_ignored_and_the_true_one_counts() {
    let port = scripted(|packet| {
        let other_request = Packet {
            from: packet.from,
            bytes: {
                let mut bytes = packet.bytes.clone();
                bytes[4] ^= 1;
                bytes
            },
        };
        let mut long = packet.answer(ACCEPT, true, SECRET);
        long.resize(5_000, 0);
        long[2..4].copy_from_slice(&5_000_u16.to_be_bytes());
        let mut other_identifier = packet.answer(ACCEPT, true, SECRET);
        other_identifier[1] ^= 0x80;
        let truth = packet.answer(REJECT, true, SECRET);
        [
            b"".to_vec(),
            b"\x02".to_vec(),
            vec![0xff; 4_096],
            // Without a Message-Authenticator nothing tells Accept from what a man in the
            // middle made of Reject.
            packet.answer(ACCEPT, false, SECRET),
            packet.answer(ACCEPT, true, "not the secret"),
            other_request.answer(ACCEPT, true, SECRET),
            packet.answer(ACCEPT, true, SECRET)[..37].to_vec(),
            long,
            other_identifier,
            truth,
        ]
        .map(|bytes| (packet.from, bytes))
        .into()
    });
    run(async {
        let db = open(port, SECRET);
        assert_eq!(verify(&db, digest("u1", "secret1")).await, Ok(false));
        assert_eq!(db.ignored_answers(), 9);
    });
}

#[test]
fn a_server_that_says_how_a_name_is_spelt_lets_in_nobody_who_spells_it_otherwise() {
    for (query, returned, is_right) in [
        ("", "", true),
        ("", "u1", true),
        ("", "U1", false),
        ("", "u1 ", false),
        ("", " U1", false),
        ("", "ú1", true),
        ("", "u1@example.com", true),
        ("&user_name=exact", "", true),
        ("&user_name=exact", "u1", true),
        ("&user_name=exact", "ú1", false),
        ("&user_name=exact", "u1@example.com", false),
    ] {
        let port = scripted(move |packet| {
            assert_eq!(packet.attribute(1), Some(b"u1".as_slice()));
            let len = u8::try_from(2 + returned.len()).unwrap();
            let name = [&[1, len][..], returned.as_bytes()].concat();
            let attributes: &[u8] = if returned.is_empty() { &[] } else { &name };
            vec![(packet.from, packet.answer_with(2, attributes, true, SECRET))]
        });
        run(async {
            let db = open_with(port, SECRET, query);
            let asked = verify(&db, digest("u1", "secret1")).await;
            assert_eq!(asked, Ok(is_right), "{query} {returned}");
        });
    }
}

#[test]
fn an_old_answer_does_not_answer_a_new_request() {
    let mut old: Option<Vec<u8>> = None;
    let port = scripted(move |packet| match &old {
        None => {
            let accept = packet.answer(ACCEPT, true, SECRET);
            old = Some(accept.clone());
            vec![(packet.from, accept)]
        }
        Some(accept) => {
            let mut replayed = accept.clone();
            replayed[1] = packet.bytes[1];
            vec![
                (packet.from, accept.clone()),
                (packet.from, replayed),
                (packet.from, packet.answer(REJECT, true, SECRET)),
            ]
        }
    });
    run(async {
        let db = open(port, SECRET);
        assert_eq!(verify(&db, digest("u1", "secret1")).await, Ok(true));
        assert_eq!(verify(&db, digest("u1", "secret1")).await, Ok(false));
        assert_eq!(db.ignored_answers(), 2);
    });
}

#[test]
fn what_is_lost_is_sent_again_unchanged() {
    let mut seen: VecDeque<Packet> = VecDeque::new();
    let port = scripted(move |packet| {
        if let Some(first) = seen.front() {
            assert_eq!((first.from, &first.bytes), (packet.from, &packet.bytes));
        }
        seen.push_back(packet.clone());
        match seen.len() {
            // Two requests and one answer are lost; the last comes twice.
            0..=3 => vec![],
            _ => vec![(packet.from, packet.answer(ACCEPT, true, SECRET)); 2],
        }
    });
    run(async {
        let db = open(port, SECRET);
        assert_eq!(verify(&db, digest("u1", "secret1")).await, Ok(true));
    });
}

#[test]
fn more_wait_at_once_than_a_socket_has_identifiers() {
    const MANY: usize = 600;
    let mut waiting: Vec<Packet> = Vec::new();
    let mut is_open = false;
    let port = scripted(move |packet| {
        let is_new = !waiting.iter().any(|other| other.bytes == packet.bytes);
        if is_new {
            waiting.push(packet);
        }
        is_open |= waiting.len() == MANY;
        if !is_open {
            return vec![];
        }
        // All at once, the last first.
        waiting
            .iter()
            .rev()
            .map(|packet| {
                let name = packet.attribute(1).unwrap();
                let code = if name.ends_with(b"7") { ACCEPT } else { REJECT };
                (packet.from, packet.answer(code, true, SECRET))
            })
            .collect()
    });
    run(async {
        let db = UserDb::new(Options {
            connections_max: 3,
            ..Options {
                password: secret(SECRET),
                ..options(&format!("radius://127.0.0.1:{port}?retransmit_ms=1000"))
            }
        })
        .unwrap();
        let all = (0..MANY).map(|n| {
            let db = &db;
            async move {
                let asked = verify(db, digest(&user(n), "secret")).await;
                assert_eq!(asked, Ok(n % 10 == 7), "{n}");
            }
        });
        join_all(all.collect()).await;
    });
}

#[test]
fn given_up_requests_leave_their_identifiers_to_others() {
    let port = scripted(|packet| match packet.attribute(1) {
        Some(b"silent") => vec![],
        _ => vec![(packet.from, packet.answer(ACCEPT, true, SECRET))],
    });
    run(async {
        let db = UserDb::new(Options {
            password: secret(SECRET),
            connections_max: 1,
            ..options(&format!("radius://127.0.0.1:{port}"))
        })
        .unwrap();
        for _ in 0..4 {
            let silent = (0..256).map(|_| {
                let db = &db;
                async move {
                    let asked = verify(db, digest("silent", "x"));
                    let _ = tokio::time::timeout(Duration::from_millis(20), asked).await;
                }
            });
            join_all(silent.collect()).await;
            assert_eq!(verify(&db, digest("u1", "x")).await, Ok(true));
        }
    });
}

#[test]
fn answers_that_are_no_verdict_are_refusals() {
    for code in [11, 5, 4, 255] {
        let port = scripted(move |packet| vec![(packet.from, packet.answer(code, true, SECRET))]);
        run(async {
            let db = open(port, SECRET);
            let failure = verify(&db, digest("u1", "secret1")).await.unwrap_err();
            assert!(matches!(failure, BatchFailure::Unusable(_)), "{failure:?}");
        });
    }
}

/// A server that wants something else of one user is no server that is of no use.
#[test]
fn what_is_no_verdict_about_one_user_is_his_matter() {
    let port = scripted(move |packet| {
        let code = match packet.attribute(1) {
            Some(b"u1") => 11,
            Some(b"u2") => ACCEPT,
            _ => REJECT,
        };
        vec![(packet.from, packet.answer(code, true, SECRET))]
    });
    run(async {
        let db = open(port, SECRET);
        let failure = verify(&db, digest("u1", "secret1")).await.unwrap_err();
        assert!(matches!(failure, BatchFailure::Refused(_)), "{failure:?}");
        assert_eq!(verify(&db, digest("u2", "secret2")).await, Ok(true));
    });
}

#[test]
fn a_request_that_is_never_answered_ends() {
    // Nobody listens: the kernel says so.
    run(async {
        let db = open(free_port(), SECRET);
        let failure = verify(&db, digest("u1", "secret1")).await.unwrap_err();
        assert!(
            matches!(failure, BatchFailure::Unreachable(_)),
            "{failure:?}"
        );
        let asked = db.ask(&Rows::Secrets(vec![subject("u1")])).await;
        assert!(matches!(asked, Err(BatchFailure::Refused(_))));
        assert!(db.put(&subject("u1"), &ha1s(1).into()).await.is_err());
        assert_eq!(db.domains().await, Ok(None));
    });
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let with = |url: &str| Options {
        password: secret(SECRET),
        ..options(url)
    };
    for (options, part) in [
        (options("radius://127.0.0.1"), "no shared secret"),
        (
            Options {
                password: secret(""),
                ..options("radius://127.0.0.1")
            },
            "empty",
        ),
        (
            Options {
                tls: Tls::Always,
                ..with("radius://127.0.0.1")
            },
            "TLS",
        ),
        (with("radius://user@127.0.0.1"), "user"),
        (with("radius://127.0.0.1/path"), "path"),
        (with("radius://127.0.0.1?retransmit_ms=1"), "retransmit_ms"),
        (with("radius://127.0.0.1?nas=x"), "nas"),
        (with("radius://127.0.0.1?user_name=any"), "user_name=any"),
        (
            Options {
                layout: Layout::Query("x".to_owned()),
                ..with("radius://127.0.0.1")
            },
            "layout",
        ),
    ] {
        let error = refused(options);
        assert!(error.contains(part), "{error}");
    }
}
