//! LDAP: a real slapd, and scripted directories that answer as none should.

use crate::stores::ldap::{BASE, Server};
use crate::stores::script::{self, Peer};
use crate::stores::suite::{self, REALM, USERS, ask, ha1s, hex, is_of, subject, user};
use crate::stores::{Folder, certificate, have, options, refused, run, secret};
use sip_auth::{Algorithm, Secrets, Subject};
use sip_lookup::BatchFailure;
use sip_userdb::{Layout, Options, Tls, UserDb};

fn is_there() -> bool {
    have("slapd")
}

#[test]
fn what_holds_of_all_stores_holds_of_a_directory() {
    if !is_there() {
        return;
    }
    let server = Server::start();
    run(async {
        let db = server.open();
        assert!(!db.capabilities().is_writable);
        suite::all(&db).await;
        suite::a_store_may_die_and_return(&db, || server.kill(), || server.restart()).await;
        assert!(db.put(&subject("u1"), &ha1s(1).into()).await.is_err());
        assert_eq!(db.domains().await, Ok(None));
    });
}

#[test]
fn entries_are_a_users_byte_by_byte_and_once() {
    if !is_there() {
        return;
    }
    let server = Server::start();
    run(async {
        let db = server.open();
        let asked = [
            "bare", "twice", "mixed", "MIXED", "Mixed", "u1", "U1", "u1 ",
        ];
        let rows = ask(&db, asked.map(subject).to_vec()).await.unwrap();
        assert_eq!(rows[0], Ok(Some(Secrets::default())));
        assert!(rows[1].is_err(), "two entries");
        // The directory compares without case: to it, all three are there.
        assert_eq!((&rows[2], &rows[3]), (&Ok(None), &Ok(None)));
        let mixed = rows[4].as_ref().unwrap().as_ref().unwrap();
        assert_eq!(mixed.get(Algorithm::Md5), Some(ha1s(3).get(Algorithm::Md5)));
        assert!(is_of(&db, &rows[5], 1));
        assert_eq!((&rows[6], &rows[7]), (&Ok(None), &Ok(None)));
    });
}

#[test]
fn attributes_are_by_the_url() {
    if !is_there() {
        return;
    }
    let server = Server::start();
    run(async {
        let with = |query: &str| {
            let url = format!("{}?{query}", server.options().url);
            UserDb::new(Options {
                url,
                ..server.options()
            })
            .unwrap()
        };
        let md5_only = with("user=uid&ha1_md5=signetHA1MD5");
        assert_eq!(md5_only.capabilities().algorithms, [Algorithm::Md5]);
        assert!(is_of(
            &md5_only,
            &ask(&md5_only, vec![subject("u1")]).await.unwrap()[0],
            1
        ));
        let of_any_realm = with("realm=");
        let elsewhere = Subject::new(b"u1", "elsewhere.example".into());
        assert!(is_of(
            &of_any_realm,
            &ask(&of_any_realm, vec![elsewhere]).await.unwrap()[0],
            1
        ));
        let with_domains = UserDb::new(Options {
            url: server.options().url.replace("ou=users,", "") + "?domains=associatedDomain",
            ..server.options()
        })
        .unwrap();
        let domains = ["a.example.org", "example.org"].map(str::to_owned);
        assert_eq!(with_domains.domains().await, Ok(Some(domains.into())));
    });
}

#[test]
fn tls_and_log_ins() {
    if !is_there() {
        return;
    }
    let server = Server::start();
    run(async {
        let ca = server.folder.file("ca.pem");
        let dn = "cn=signet,dc=example,dc=org";
        let start_tls = Options {
            url: format!("ldap://{dn}@localhost:{}/{BASE}", server.port),
            tls: Tls::Always,
            tls_roots: Some(ca.clone()),
            ..server.options()
        };
        let at_once = Options {
            url: format!("ldaps://{dn}@localhost:{}/{BASE}", server.tls_port),
            ..start_tls.clone()
        };
        for options in [start_tls.clone(), at_once] {
            let db = UserDb::new(options).unwrap();
            assert!(is_of(
                &db,
                &ask(&db, vec![subject("u1")]).await.unwrap()[0],
                1
            ));
        }
        let other = Folder::new();
        let [other_ca, ..] = certificate(&other);
        let db = UserDb::new(Options {
            tls_roots: Some(other_ca),
            ..start_tls
        })
        .unwrap();
        let failure = ask(&db, vec![subject("u1")]).await.unwrap_err();
        assert!(
            matches!(&failure, BatchFailure::Unreachable(why) if why.contains("certificate")),
            "{failure:?}"
        );
        let db = UserDb::new(Options {
            password: secret("wrong"),
            ..server.options()
        })
        .unwrap();
        let failure = ask(&db, vec![subject("u1")]).await.unwrap_err();
        assert!(
            matches!(&failure, BatchFailure::LogInRefused(why) if why.contains("log-in")),
            "{failure:?}"
        );
        // Anonymous: who is there is seen, the HA1s are not.
        let db = UserDb::new(Options {
            url: format!("ldap://127.0.0.1:{}/{BASE}", server.port),
            password: None,
            ..server.options()
        })
        .unwrap();
        let rows = ask(&db, vec![subject("u1"), subject("nobody")])
            .await
            .unwrap();
        assert_eq!(rows[0], Ok(Some(Secrets::default())));
        assert_eq!(rows[1], Ok(None));
        let db = UserDb::new(Options {
            url: format!("ldap://127.0.0.1:{}/ou=none,dc=example,dc=org", server.port),
            password: None,
            ..server.options()
        })
        .unwrap();
        let failure = ask(&db, vec![subject("u1")]).await.unwrap_err();
        assert!(matches!(failure, BatchFailure::Unusable(_)), "{failure:?}");
    });
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    for (options, part) in [
        (options("ldap://127.0.0.1"), "base"),
        (options("ldap://cn=a@127.0.0.1/dc=b"), "password"),
        (
            Options {
                password: secret(""),
                ..options("ldap://cn=a@127.0.0.1/dc=b")
            },
            "password",
        ),
        (
            Options {
                password: secret("x"),
                ..options("ldap://127.0.0.1/dc=b")
            },
            "password",
        ),
        (options("ldap://127.0.0.1/dc=b?filter=x"), "filter"),
        (
            Options {
                layout: Layout::Query("x".to_owned()),
                ..options("ldap://127.0.0.1/dc=b")
            },
            "layout",
        ),
    ] {
        let error = refused(options);
        assert!(error.contains(part), "{error}");
    }
}

/// A value of BER.
fn ber(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let mut out = vec![tag, 0x82];
    out.extend_from_slice(&u16::try_from(content.len()).unwrap().to_be_bytes());
    out.extend_from_slice(&content);
    out
}

fn message(id: u32, operation: &[u8]) -> Vec<u8> {
    ber(0x30, &[&ber(0x02, &[&id.to_be_bytes()]), operation])
}

fn entry(id: u32, n: usize) -> Vec<u8> {
    let attribute = |name: &str, value: &str| {
        let values = ber(0x31, &[&ber(0x04, &[value.as_bytes()])]);
        ber(0x30, &[&ber(0x04, &[name.as_bytes()]), &values])
    };
    let attributes = ber(
        0x30,
        &[
            &attribute("uid", &user(n)),
            &attribute("signetRealm", REALM),
            &attribute("signetHA1MD5", &hex(n, Algorithm::Md5)),
        ],
    );
    message(id, &ber(0x64, &[&ber(0x04, &[b"uid=x"]), &attributes]))
}

fn done(id: u32, code: u8) -> Vec<u8> {
    let parts: [&[u8]; 3] = [
        &ber(0x0a, &[&[code]]),
        &ber(0x04, &[]),
        &ber(0x04, &[b"why"]),
    ];
    message(id, &ber(0x65, &parts))
}

/// The message id and the user of a search for one.
fn search(peer: &mut Peer) -> Option<(u32, usize)> {
    let (id, bytes) = peer.ldap()?;
    assert_eq!(bytes[0], 0x63, "a search");
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let n = (0..USERS).rev().find(|n| {
        let name = user(*n);
        text.contains(&format!(
            "{}{name}",
            char::from(u8::try_from(name.len()).unwrap())
        ))
    })?;
    Some((id, n))
}

fn scripted(script: impl Fn(Peer, usize) + Send + Sync + 'static) -> UserDb {
    let port = script::serve(script);
    UserDb::new(Options {
        connections_max: 1,
        connect_timeout_ms: 500,
        ..options(&format!(
            "ldap://127.0.0.1:{port}/dc=x?ha1_md5=signetHA1MD5"
        ))
    })
    .unwrap()
}

#[test]
fn answers_find_their_questions_in_any_order() {
    let db = scripted(|mut peer, _| {
        let first = search(&mut peer).unwrap();
        let second = search(&mut peer).unwrap();
        // Mixed, the second first, and each byte by itself.
        let bytes = [
            entry(second.0, second.1),
            entry(first.0, first.1),
            done(second.0, 0),
            done(first.0, 0),
        ];
        for byte in bytes.concat() {
            peer.send(&[byte]);
        }
        peer.stay_silent();
    });
    run(async {
        let (first, second) =
            tokio::join!(ask(&db, vec![subject("u1")]), ask(&db, vec![subject("u2")]));
        let first = first.unwrap();
        assert!(is_of(&db, &first[0], 1), "{first:?}");
        assert!(is_of(&db, &second.unwrap()[0], 2));
    });
}

#[test]
fn a_row_that_nobody_asked_for_is_nobodys() {
    let db = scripted(|mut peer, _| {
        while let Some((id, n)) = search(&mut peer) {
            peer.send(&entry(id, n + 1));
            peer.send(&done(id, 0));
        }
    });
    run(async {
        let rows = ask(&db, vec![subject("u1")]).await;
        assert_eq!(rows, Ok(vec![Ok(None)]));
    });
}

#[test]
fn an_answer_that_was_cut_says_nothing_of_who_is_not_in_it() {
    for code in [3, 4, 11] {
        let db = scripted(move |mut peer, _| {
            let (id, _) = peer.ldap().unwrap();
            peer.send(&entry(id, 1));
            peer.send(&done(id, code));
            peer.stay_silent();
        });
        run(async {
            let rows = ask(&db, vec![subject("u1"), subject("u2")]).await.unwrap();
            assert!(is_of(&db, &rows[0], 1));
            assert!(rows[1].is_err());
        });
    }
}

#[test]
fn garbage_and_ends_fail_and_the_next_connection_serves() {
    type Answer = fn(u32) -> Vec<u8>;
    let bad: &[(&str, Answer)] = &[
        ("nothing", |_| vec![]),
        ("another protocol", |_| {
            b"HTTP/1.1 400 Bad Request\r\n".to_vec()
        }),
        ("an indefinite length", |_| vec![0x30, 0x80, 0, 0]),
        ("half an entry", |id| entry(id, 1)[..20].to_vec()),
        ("an entry and no end", |id| entry(id, 1)),
        ("an end to nothing", |id| done(id + 7, 0)),
        ("an entry of nothing", |id| entry(id + 7, 1)),
        ("an entry that is none", |id| message(id, &[0x64, 2, 4, 9])),
        ("an end that is none", |id| message(id, &[0x65, 0])),
        ("a bind's answer", |id| {
            message(id, &[0x61, 7, 10, 1, 0, 4, 0, 4, 0])
        }),
        ("a notice of disconnection", |_| done(0, 52)),
        ("a refusal", |id| done(id, 50)),
        ("a busy directory", |id| done(id, 51)),
    ];
    for &(what, answer) in bad {
        let db = scripted(move |mut peer, connection| {
            while let Some((id, n)) = search(&mut peer) {
                if connection == 0 {
                    peer.send(&answer(id));
                    return;
                }
                peer.send(&entry(id, n));
                peer.send(&done(id, 0));
            }
        });
        run(async {
            let failure = ask(&db, vec![subject("u1")]).await.unwrap_err();
            assert_ne!(failure, BatchFailure::TimedOut, "{what}");
            let rows = match ask(&db, vec![subject("u2")]).await {
                Ok(rows) => rows,
                Err(_) => ask(&db, vec![subject("u2")]).await.unwrap(),
            };
            assert!(is_of(&db, &rows[0], 2), "{what}");
        });
    }
}

#[test]
fn what_cannot_be_read_is_one_questions_matter() {
    // An entry that is none, and one that goes on for long: 16 MiB of a message with its id.
    let none = |id| message(id, &[0x64, 2, 4, 9]);
    let long = |id: u32| {
        let mut long = vec![0x30, 0x84, 1, 0, 0, 0, 2, 4];
        long.extend(id.to_be_bytes());
        long.resize(9 << 20, 0x64);
        long
    };
    for answers in [[0, 1, 2].map(none), [0, 1, 2].map(long)] {
        let db = scripted(move |mut peer, connection| {
            let mut waiting = 0;
            while let Some((id, _)) = peer.ldap() {
                waiting += 1;
                match (connection, waiting) {
                    (0, 1) => {}
                    (0, _) => {
                        peer.send(&answers[id as usize]);
                        return;
                    }
                    _ => peer.send(&done(id, 0)),
                }
            }
        });
        run(async {
            let (first, second) =
                tokio::join!(ask(&db, vec![subject("u1")]), ask(&db, vec![subject("u2")]));
            assert_eq!(first, Ok(vec![Ok(None)]), "it was asked again");
            assert!(
                matches!(second, Err(BatchFailure::Refused(_))),
                "{second:?}"
            );
        });
    }
}

#[test]
fn a_directory_that_has_no_time_to_let_us_in_is_away() {
    for (code, is_away) in [(51, true), (52, true), (49, false)] {
        let port = script::serve(move |mut peer, _| {
            let (id, _) = peer.ldap().unwrap();
            let ended: [&[u8]; 3] = [&ber(0x0a, &[&[code]]), &ber(0x04, &[]), &ber(0x04, &[])];
            peer.send(&message(id, &ber(0x61, &ended)));
            peer.stay_silent();
        });
        let db = UserDb::new(Options {
            password: secret("secret"),
            ..options(&format!("ldap://cn=signet@127.0.0.1:{port}/dc=x"))
        })
        .unwrap();
        run(async {
            let failure = ask(&db, vec![subject("u1")]).await.unwrap_err();
            match failure {
                BatchFailure::Unreachable(why) => assert!(is_away, "{why}"),
                other => assert!(!is_away, "{other:?}"),
            }
        });
    }
}

#[test]
fn a_directory_that_says_nothing_is_given_up() {
    let db = scripted(|mut peer, connection| {
        while let Some((id, n)) = search(&mut peer) {
            if connection == 0 {
                peer.stay_silent();
                return;
            }
            peer.send(&entry(id, n));
            peer.send(&done(id, 0));
        }
    });
    run(async {
        let failure = ask(&db, vec![subject("u1")]).await.unwrap_err();
        assert_eq!(failure, BatchFailure::TimedOut);
        let rows = ask(&db, vec![subject("u2")]).await.unwrap();
        assert!(is_of(&db, &rows[0], 2));
    });
}

#[test]
fn a_directory_that_does_not_let_us_ask_says_so() {
    // RFC 4511, appendix A.1: authMethodNotSupported, strongerAuthRequired,
    // confidentialityRequired, inappropriateAuthentication, invalidCredentials.
    for code in [7, 8, 13, 48, 49] {
        let db = scripted(move |mut peer, _| {
            while let Some((id, _)) = search(&mut peer) {
                peer.send(&done(id, code));
            }
        });
        run(async {
            let failure = ask(&db, vec![subject("u1")]).await.unwrap_err();
            assert!(
                matches!(failure, BatchFailure::LogInRefused(_)),
                "{code}: {failure:?}"
            );
        });
    }
}

#[test]
fn nothing_said_in_plain_text_counts_under_tls() {
    // An answer to StartTLS with an answer to the log-in behind it, from whoever sits between.
    let folder = Folder::new();
    let [ca, ..] = certificate(&folder);
    for (code, part) in [(0_u8, "something else"), (2, "StartTLS")] {
        let port = script::serve(move |mut peer, _| {
            let (id, _) = peer.ldap().unwrap();
            let ended: [&[u8]; 3] = [&ber(0x0a, &[&[code]]), &ber(0x04, &[]), &ber(0x04, &[])];
            let mut answer = message(id, &ber(0x78, &ended));
            if code == 0 {
                answer.extend_from_slice(&message(2, &ber(0x61, &ended)));
            }
            peer.send(&answer);
            peer.stay_silent();
        });
        let db = UserDb::new(Options {
            password: secret("secret"),
            tls: Tls::Always,
            tls_roots: Some(ca.clone()),
            ..options(&format!("ldap://cn=signet@localhost:{port}/dc=x"))
        })
        .unwrap();
        run(async {
            let failure = ask(&db, vec![subject("u1")]).await.unwrap_err();
            let (BatchFailure::Unreachable(why) | BatchFailure::Unusable(why)) = failure else {
                panic!("{failure:?}");
            };
            assert!(why.contains(part), "{why}");
        });
    }
}
