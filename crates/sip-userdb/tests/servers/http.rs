//! An endpoint: one that axum serves, and scripted ones that answer as none should.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::stores::http::{Server, answer};
use crate::stores::script::{self, Peer};
use crate::stores::suite::{self, ask, is_of, subject, user};
use crate::stores::{Folder, certificate, options, refused, run, secret};
use sip_auth::Subject;
use sip_lookup::BatchFailure;
use sip_userdb::{Layout, Options, Tls, UserDb};

#[test]
fn what_holds_of_all_stores_holds_of_an_endpoint() {
    let server = Server::start();
    run(async {
        let db = server.open();
        assert!(!db.capabilities().is_writable);
        suite::all(&db).await;
        suite::a_store_may_die_and_return(&db, || server.kill(), || server.restart()).await;
        assert!(server.requests.load(Ordering::Relaxed) > 200);
        assert_eq!(db.domains().await, Ok(None));
        assert!(db.remove(&subject("u1")).await.is_err());
    });
}

#[test]
fn who_asks_proves_it() {
    let server = Server::start();
    run(async {
        let url = format!("http://127.0.0.1:{}/v1/users", server.port);
        for (url, password) in [
            (url.clone(), secret("another token")),
            (url.replace("http://", "http://signet@"), secret("a token")),
        ] {
            let db = UserDb::new(Options {
                password,
                ..options(&url)
            })
            .unwrap();
            let failure = ask(&db, vec![subject("u1")]).await.unwrap_err();
            assert!(
                matches!(&failure, BatchFailure::LogInRefused(why) if why.contains("401")),
                "{failure:?}"
            );
        }
        let elsewhere = UserDb::new(Options {
            password: secret("a token"),
            ..options(&url.replace("/v1", "/v2"))
        })
        .unwrap();
        let failure = ask(&elsewhere, vec![subject("u1")]).await.unwrap_err();
        assert!(
            matches!(&failure, BatchFailure::Unusable(why) if why.contains("404")),
            "{failure:?}"
        );
    });
}

/// A filter of the web's, say, that takes a name for an attack. Whoever sends such names is not to
/// have the endpoint left alone.
#[test]
fn who_forbids_a_name_has_not_refused_our_log_in() {
    const FORBIDDEN: &str = "' OR '1'='1";
    let forbidden = || response("403 Forbidden", "text/html", "no");
    let db = scripted(move |mut peer, _| {
        while let Some((_, body)) = peer.http() {
            let answer = match String::from_utf8_lossy(&body).contains(FORBIDDEN) {
                true => forbidden(),
                false => good(&body),
            };
            peer.send(answer.as_bytes());
        }
    });
    run(async {
        let failure = ask(&db, vec![subject(FORBIDDEN)]).await.unwrap_err();
        assert!(
            matches!(&failure, BatchFailure::Refused(why) if why.contains("403")),
            "{failure:?}"
        );
        let rows = ask(&db, vec![subject("u1")]).await.unwrap();
        assert!(is_of(&db, &rows[0], 1));
    });
    let db = scripted(move |mut peer, _| {
        while peer.http().is_some() {
            peer.send(forbidden().as_bytes());
        }
    });
    run(async {
        let failure = ask(&db, vec![subject("u1")]).await.unwrap_err();
        assert!(
            matches!(&failure, BatchFailure::LogInRefused(why) if why.contains("403")),
            "{failure:?}"
        );
    });
}

/// What stands before an endpoint may end the connection over a name, as nginx does by `return 444`,
/// or say that what is behind it has.
#[test]
fn who_ends_connections_over_a_name_is_there() {
    const ODD: &str = "o'neill";
    let bad_gateway = || response("502 Bad Gateway", "text/html", "no");
    let cut = || response("200 OK", "application/json", "{").replace("Length: 1", "Length: 99");
    for answer in [String::new(), bad_gateway(), cut()] {
        for is_of_all in [false, true] {
            let answer = answer.clone();
            let db = scripted(move |mut peer, _| {
                while let Some((_, body)) = peer.http() {
                    if is_of_all || String::from_utf8_lossy(&body).contains(ODD) {
                        peer.send(answer.as_bytes());
                        return;
                    }
                    peer.send(good(&body).as_bytes());
                }
            });
            run(async {
                let odd = ask(&db, vec![subject("u1"), subject(ODD)]).await;
                match is_of_all {
                    false => assert!(matches!(odd, Err(BatchFailure::Ended(_))), "{odd:?}"),
                    true => assert!(matches!(odd, Err(BatchFailure::Unreachable(_))), "{odd:?}"),
                }
            });
        }
    }
}

/// Whatever serves one domain and not another is there. That is found out only where a domain was
/// served before.
#[test]
fn who_refuses_a_realm_is_there_while_he_answers_another() {
    let not_here = || response("404 Not Found", "text/html", "no");
    for refusal in [not_here(), String::new()] {
        let is_cut = refusal.is_empty();
        let is_told = |failure: &BatchFailure| match is_cut {
            true => matches!(failure, BatchFailure::Ended(_)),
            false => matches!(failure, BatchFailure::Refused(_)),
        };
        let db = scripted(move |mut peer, _| {
            while let Some((_, body)) = peer.http() {
                if String::from_utf8_lossy(&body).contains("\"realm\":\"b.org\"") {
                    peer.send(refusal.as_bytes());
                    return;
                }
                peer.send(good(&body).as_bytes());
            }
        });
        run(async {
            let elsewhere = || Subject::new(b"u1", "b.org".into());
            let unknown = ask(&db, vec![elsewhere()]).await.unwrap_err();
            assert!(
                matches!(
                    unknown,
                    BatchFailure::Unusable(_) | BatchFailure::Unreachable(_)
                ),
                "{unknown:?}"
            );
            let rows = ask(&db, vec![subject("u1")]).await.unwrap();
            assert!(is_of(&db, &rows[0], 1));
            let refused = ask(&db, vec![elsewhere()]).await.unwrap_err();
            assert!(is_told(&refused), "{refused:?}");
            let mixed = ask(&db, vec![subject("u1"), elsewhere()])
                .await
                .unwrap_err();
            assert!(is_told(&mixed), "{mixed:?}");
        });
    }
}

/// An endpoint may fail over one name, or over whatever it is asked, as where what is behind it is
/// gone. Only then is it left alone.
#[test]
fn who_fails_over_one_name_is_told_from_who_fails_over_all() {
    const ODD: &str = "o'neill";
    let broken = || response("500 Internal Server Error", "text/html", "no");
    for is_of_all in [false, true] {
        let db = scripted(move |mut peer, _| {
            while let Some((_, body)) = peer.http() {
                let fails = is_of_all || String::from_utf8_lossy(&body).contains(ODD);
                let answer = if fails { broken() } else { good(&body) };
                peer.send(answer.as_bytes());
            }
        });
        run(async {
            let why = match ask(&db, vec![subject("u1"), subject(ODD)]).await {
                Err(BatchFailure::Unusable(why)) if is_of_all => why,
                Err(BatchFailure::Refused(why)) if !is_of_all => why,
                asked => panic!("{asked:?}"),
            };
            assert!(why.contains("500"), "{why}");
        });
    }
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    for (options, part) in [
        (options("http://users.example.org/"), "https"),
        (
            Options {
                tls: Tls::Always,
                ..options("http://127.0.0.1/")
            },
            "https",
        ),
        (
            Options {
                tls: Tls::Never,
                ..options("https://127.0.0.1/")
            },
            "never",
        ),
        (options("http://user@127.0.0.1/"), "password"),
        (
            Options {
                password: secret("a\nb"),
                ..options("http://127.0.0.1/")
            },
            "header",
        ),
        (
            Options {
                layout: Layout::Query("x".to_owned()),
                ..options("http://127.0.0.1/")
            },
            "layout",
        ),
    ] {
        let error = refused(options);
        assert!(error.contains(part), "{error}");
        assert!(!error.contains("a\nb"), "{error}");
    }
}

fn scripted(script: impl Fn(Peer, usize) + Send + Sync + 'static) -> UserDb {
    let port = script::serve(script);
    UserDb::new(Options {
        connections_max: 1,
        connect_timeout_ms: 500,
        ..options(&format!("http://127.0.0.1:{port}/users?a=b%20c"))
    })
    .unwrap()
}

fn response(status: &str, content_type: &str, body: &str) -> String {
    let len = body.len();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len}\r\n\r\n{body}"
    )
}

fn good(body: &[u8]) -> String {
    response("200 OK", "application/json", &answer(body))
}

#[test]
fn a_request_is_what_the_documents_say() {
    let db = scripted(|mut peer, connection| {
        assert_eq!(connection, 0, "one connection is enough");
        while let Some((head, body)) = peer.http() {
            assert!(head.starts_with("POST /users?a=b%20c HTTP/1.1\n"), "{head}");
            let head = head.to_ascii_lowercase();
            assert!(head.contains("\nhost: 127.0.0.1:"), "{head}");
            assert!(
                head.contains("\ncontent-type: application/json\n"),
                "{head}"
            );
            assert!(!head.contains("authorization"), "{head}");
            let text = String::from_utf8(body.clone()).unwrap();
            assert_eq!(
                serde_json::from_str::<serde_json::Value>(&text).unwrap(),
                serde_json::json!({
                    "version": 1,
                    "users": [{"user": "u1", "realm": "example.org"}],
                })
            );
            peer.send(good(&body).as_bytes());
        }
    });
    run(async {
        for _ in 0..3 {
            let rows = ask(&db, vec![subject("u1")]).await.unwrap();
            assert!(is_of(&db, &rows[0], 1));
        }
    });
}

#[test]
fn answers_in_pieces_are_put_together() {
    let db = scripted(|mut peer, _| {
        while let Some((_, body)) = peer.http() {
            for byte in good(&body).bytes() {
                peer.send(&[byte]);
            }
        }
    });
    run(async {
        for n in 1..4 {
            let rows = ask(&db, vec![subject(user(n))]).await.unwrap();
            assert!(is_of(&db, &rows[0], n));
        }
    });
}

#[test]
fn a_connection_that_was_closed_while_idle_costs_nobody_his_answer() {
    let db = scripted(|mut peer, _| {
        if let Some((_, body)) = peer.http() {
            peer.send(good(&body).as_bytes());
        }
    });
    run(async {
        for n in 1..20 {
            let rows = ask(&db, vec![subject(user(n))]).await.unwrap();
            assert!(is_of(&db, &rows[0], n));
        }
    });
}

#[test]
fn an_answer_that_comes_twice_is_not_taken_for_another() {
    let db = scripted(|mut peer, _| {
        while let Some((_, body)) = peer.http() {
            peer.send(good(&body).repeat(2).as_bytes());
        }
    });
    run(async {
        for n in 1..20 {
            match ask(&db, vec![subject(user(n))]).await {
                // A row is found by its name: that of another is nobody's.
                Ok(rows) => assert!(is_of(&db, &rows[0], n) || rows[0] == Ok(None), "{n}"),
                Err(BatchFailure::Refused(_) | BatchFailure::Unreachable(_)) => {}
                Err(failure) => panic!("{failure:?}"),
            }
        }
    });
}

#[test]
fn garbage_and_ends_fail_and_the_next_connection_serves() {
    let ok = "{\"users\":[]}";
    let huge = " ".repeat(200_000);
    let bad = [
        String::new(),
        "+PONG\r\n".repeat(20),
        "HTTP/1.1 200 OK\r\n".to_owned(),
        "HTTP/1.1 200 OK\r\nX: ".to_owned() + &"x".repeat(100_000),
        response("200 OK", "text/html", ok),
        response("204 No Content", "application/json", ""),
        response("301 Moved Permanently", "application/json", ok),
        response("401 Unauthorized", "application/json", ok),
        response("500 Internal Server Error", "application/json", ok),
        response("503 Service Unavailable", "application/json", ok),
        response("200 OK", "application/json", "{\"users\""),
        response("200 OK", "application/json", "[]"),
        response("200 OK", "application/json", &huge),
        response("200 OK", "application/json", ok).replace("Content-Length: 12", "Content-Length: 99"),
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"
            .to_owned(),
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n".to_owned() + &huge,
    ];
    for answer in bad {
        let sent = answer.clone();
        let db = scripted(move |mut peer, connection| {
            while let Some((_, body)) = peer.http() {
                if connection == 0 {
                    peer.send(sent.as_bytes());
                    return;
                }
                peer.send(good(&body).as_bytes());
            }
        });
        run(async {
            let shown = &answer[..answer.len().min(60)];
            match ask(&db, vec![subject("u1")]).await {
                // It came to no end, and is asked for once more.
                Ok(rows) => assert!(is_cut(&answer) && is_of(&db, &rows[0], 1), "{shown}"),
                Err(failure) => {
                    assert!(!is_cut(&answer), "{shown}: {failure:?}");
                    assert_ne!(failure, BatchFailure::TimedOut, "{shown}");
                    if answer.contains(" 503 ") {
                        assert!(matches!(failure, BatchFailure::Unreachable(_)));
                    }
                }
            }
            let rows = ask(&db, vec![subject("u2")]).await.unwrap();
            assert!(is_of(&db, &rows[0], 2), "{shown}");
        });
    }
}

/// Whether an answer has no head, or not all of its body.
fn is_cut(answer: &str) -> bool {
    let is_whole = |(head, _): (&str, &str)| head.len() < 16 << 10;
    let has_head = answer.split_once("\r\n\r\n").is_some_and(is_whole);
    !has_head || answer.contains("Length: 99") || answer.contains("zz\r\n")
}

#[test]
fn an_endpoint_that_says_nothing_is_given_up() {
    let db = scripted(|mut peer, connection| {
        while let Some((_, body)) = peer.http() {
            if connection == 0 {
                peer.stay_silent();
                return;
            }
            peer.send(good(&body).as_bytes());
        }
    });
    run(async {
        let failure = ask(&db, vec![subject("u1")]).await.unwrap_err();
        assert_eq!(failure, BatchFailure::TimedOut);
        let rows = ask(&db, vec![subject("u2")]).await.unwrap();
        assert!(is_of(&db, &rows[0], 2));
    });
}

/// A listener with TLS that answers as the endpoint does.
fn serve_tls(folder: &Folder) -> (u16, std::path::PathBuf) {
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    let [ca, cert, key] = certificate(folder);
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from_pem_file(cert).unwrap()],
            PrivateKeyDer::from_pem_file(key).unwrap(),
        )
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let config = Arc::clone(&config);
            std::thread::spawn(move || serve_one(stream.unwrap(), config));
        }
    });
    (port, ca)
}

fn serve_one(mut tcp: TcpStream, config: Arc<rustls::ServerConfig>) {
    let mut tls = rustls::ServerConnection::new(config).unwrap();
    let mut stream = rustls::Stream::new(&mut tls, &mut tcp);
    let mut input = Vec::new();
    let mut buffer = [0; 4_096];
    while let Ok(len @ 1..) = stream.read(&mut buffer) {
        input.extend_from_slice(&buffer[..len]);
        let text = String::from_utf8_lossy(&input).into_owned();
        if let Some((_, body)) = text.split_once("\r\n\r\n")
            && serde_json::from_str::<serde_json::Value>(body).is_ok()
        {
            let _ = stream.write_all(good(body.as_bytes()).as_bytes());
            input.clear();
        }
    }
}

#[test]
fn https_is_verified() {
    let folder = Folder::new();
    let (port, ca) = serve_tls(&folder);
    run(async {
        let with = |host: &str, roots: &std::path::Path| {
            UserDb::new(Options {
                tls_roots: Some(roots.to_owned()),
                ..options(&format!("https://{host}:{port}/users"))
            })
            .unwrap()
        };
        let db = with("localhost", &ca);
        for n in 1..4 {
            let rows = ask(&db, vec![subject(user(n))]).await.unwrap();
            assert!(is_of(&db, &rows[0], n));
        }
        let other = Folder::new();
        let [other_ca, ..] = certificate(&other);
        for db in [with("localhost", &other_ca), with("127.0.0.1", &ca)] {
            let failure = ask(&db, vec![subject("u1")]).await.unwrap_err();
            assert!(
                matches!(&failure, BatchFailure::Unreachable(why) if why.contains("certificate")),
                "{failure:?}"
            );
        }
    });
}
