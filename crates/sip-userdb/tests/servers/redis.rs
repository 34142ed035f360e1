//! Redis: a real server, and scripted ones that answer as none should.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::stores::redis::Server;
use crate::stores::script::{self, Peer};
use crate::stores::suite::{self, REALM, ask, ha1s, is_of, subject, user};
use crate::stores::{Folder, certificate, have, options, refused, run, secret};
use sip_auth::{Algorithm, Subject};
use sip_lookup::{BatchFailure, Rows};
use sip_userdb::{Changed, Layout, Options, Tls, UserDb};

#[test]
fn what_holds_of_all_stores_holds_of_redis() {
    if !have("redis-server") {
        return;
    }
    let server = Server::start();
    run(async {
        let db = server.open();
        server.fill(&db).await;
        suite::all(&db).await;
        suite::a_store_may_die_and_return(&db, || server.kill(), || server.restart()).await;
    });
}

#[test]
fn users_are_put_listed_and_removed() {
    if !have("redis-server") {
        return;
    }
    let server = Server::start();
    run(async {
        let db = server.open();
        assert!(db.capabilities().is_writable);
        let any: Vec<u8> = (0..=255).collect();
        let mut all = vec![
            Subject::new(b"alice", "a.org".into()),
            Subject::new(b"bob", "a.org".into()),
            Subject::new(b"alice", "b.org".into()),
            Subject::new(b"x:y", "[::1]".into()),
            Subject::new(&any, "a.org".into()),
            Subject::new(b"", "a.org".into()),
            Subject::new("ä".as_bytes(), "100%".into()),
        ];
        for subject in &all {
            db.put(subject, &ha1s(1).into()).await.unwrap();
        }
        server.cli(&["SET", "signet:user:no-colon", "x"]);
        server.cli(&["SET", "other", "x"]);
        all.sort_by_key(|s| (s.realm().to_string(), s.user().to_vec()));
        assert_eq!(db.list(None, 100).await.unwrap(), all);
        let mut paged: Vec<Subject> = Vec::new();
        loop {
            let page = db.list(paged.last(), 2).await.unwrap();
            assert!(page.len() <= 2);
            if page.is_empty() {
                break;
            }
            paged.extend(page);
        }
        assert_eq!(paged, all);
        for subject in &all {
            let rows = ask(&db, vec![subject.clone()]).await.unwrap();
            assert!(is_of(&db, &rows[0], 1), "{subject:?}");
            assert!(db.remove(subject).await.unwrap());
            assert!(!db.remove(subject).await.unwrap());
            assert_eq!(ask(&db, vec![subject.clone()]).await, Ok(vec![Ok(None)]));
        }
        assert_eq!(db.domains().await, Ok(Some(vec![])));
        server.cli(&["SADD", "signet:domains", "b.org", "a.org"]);
        let domains = vec!["a.org".to_owned(), "b.org".to_owned()];
        assert_eq!(db.domains().await, Ok(Some(domains)));
    });
}

#[test]
fn what_is_no_string_of_json_is_a_bad_row_or_nobody() {
    if !have("redis-server") {
        return;
    }
    let server = Server::start();
    run(async {
        let db = server.open();
        db.put(&subject("u1"), &ha1s(1).into()).await.unwrap();
        let key = |name: &str| format!("signet:user:{REALM}:{name}");
        server.cli(&["HSET", &key("hash"), "MD5", "00"]);
        server.cli(&["SET", &key("empty"), ""]);
        server.cli(&[
            "SET",
            &key("some"),
            &format!(r#"{{"MD5":"{}"}}"#, suite::hex(5, Algorithm::Md5)),
        ]);
        let asked = ["hash", "empty", "some", "u1"].map(subject).to_vec();
        let rows = ask(&db, asked).await.unwrap();
        assert_eq!(
            rows[0],
            Ok(None),
            "MGET gives nothing for what is no string"
        );
        assert!(rows[1].is_err());
        let some = rows[2].as_ref().unwrap().as_ref().unwrap();
        assert_eq!(some.get(Algorithm::Md5), Some(ha1s(5).get(Algorithm::Md5)));
        assert_eq!(some.get(Algorithm::Sha256), None);
        assert!(is_of(&db, &rows[3], 1));
    });
}

#[test]
fn changes_are_announced() {
    if !have("redis-server") {
        return;
    }
    let server = Server::start();
    run(async {
        let db = server.open();
        assert!(db.capabilities().announces_changes);
        // Whoever begins to listen may have missed something.
        assert_eq!(db.changed().await, Changed::Everything);
        let bob = Subject::new(b"bo:b\xff", "a:b.org".into());
        db.put(&bob, &ha1s(1).into()).await.unwrap();
        assert_eq!(db.changed().await, Changed::User(bob.clone()));
        db.remove(&bob).await.unwrap();
        assert_eq!(db.changed().await, Changed::User(bob.clone()));
        server.cli(&["PUBLISH", "signet:users", "a.org:alice"]);
        let alice = Subject::new(b"alice", "a.org".into());
        assert_eq!(db.changed().await, Changed::User(alice.clone()));
        server.cli(&["PUBLISH", "signet:users", "*"]);
        assert_eq!(db.changed().await, Changed::Everything);
        server.kill();
        server.restart();
        assert_eq!(db.changed().await, Changed::Everything);
        db.put(&bob, &ha1s(1).into()).await.unwrap();
        assert_eq!(db.changed().await, Changed::User(bob));

        let with_events = UserDb::new(Options {
            url: format!("{}?keyspace_events=true", server.url()),
            ..server.options()
        })
        .unwrap();
        assert_eq!(with_events.changed().await, Changed::Everything);
        server.cli(&["SET", "signet:user:a.org:alice", "{}"]);
        assert_eq!(with_events.changed().await, Changed::User(alice));
    });
}

#[test]
fn tls_passwords_and_sockets() {
    if !have("redis-server") {
        return;
    }
    let server = Server::start();
    run(async {
        server.fill(&server.open()).await;
        let over_tls = Options {
            url: format!("rediss://signet@localhost:{}/0", server.tls_port),
            tls_roots: Some(server.folder.file("ca.pem")),
            ..server.options()
        };
        let db = UserDb::new(over_tls.clone()).unwrap();
        assert!(is_of(
            &db,
            &ask(&db, vec![subject("u1")]).await.unwrap()[0],
            1
        ));
        // A certificate of others' and a name of others' are refused.
        let other = Folder::new();
        let [other_ca, ..] = certificate(&other);
        for wrong in [
            Options {
                tls_roots: Some(other_ca),
                ..over_tls.clone()
            },
            Options {
                url: format!("rediss://signet@127.0.0.1:{}/0", server.tls_port),
                ..over_tls.clone()
            },
        ] {
            let db = UserDb::new(wrong).unwrap();
            let failure = ask(&db, vec![subject("u1")]).await.unwrap_err();
            let BatchFailure::Unreachable(why) = failure else {
                panic!("{failure:?}");
            };
            assert!(why.contains("certificate"), "{why}");
        }
        let socket = Options {
            url: format!(
                "redis://signet@localhost?socket={}",
                server.folder.file("redis.sock").display()
            ),
            ..server.options()
        };
        let db = UserDb::new(socket).unwrap();
        assert!(is_of(
            &db,
            &ask(&db, vec![subject("u1")]).await.unwrap()[0],
            1
        ));
        for password in [secret("wrong"), secret("")] {
            let db = UserDb::new(Options {
                password,
                ..server.options()
            })
            .unwrap();
            let failure = ask(&db, vec![subject("u1")]).await.unwrap_err();
            assert!(
                matches!(&failure, BatchFailure::LogInRefused(why) if why.contains("WRONGPASS")),
                "{failure:?}"
            );
        }
        // Whoever does not log in may ask nothing.
        let db = UserDb::new(options(&format!("redis://127.0.0.1:{}", server.port))).unwrap();
        let failure = ask(&db, vec![subject("u1")]).await.unwrap_err();
        assert!(
            matches!(&failure, BatchFailure::LogInRefused(why) if why.contains("NOAUTH")),
            "{failure:?}"
        );
        let admin = Options {
            url: format!("redis://admin@127.0.0.1:{}/7", server.port),
            password: secret("admin"),
            ..server.options()
        };
        let db = UserDb::new(admin).unwrap();
        assert_eq!(ask(&db, vec![subject("u1")]).await, Ok(vec![Ok(None)]));
        assert!(db.put(&subject("u9"), &ha1s(9).into()).await.is_ok());
        assert_eq!(
            ask(&server.open(), vec![subject("u9")])
                .await
                .unwrap()
                .len(),
            1
        );
        // Who may not write is told so.
        let reader = "on >reader ~signet:* +auth +echo +mget +multi +exec".split(' ');
        let set_user: Vec<_> = ["ACL", "SETUSER", "reader"]
            .into_iter()
            .chain(reader)
            .collect();
        assert_eq!(server.cli(&set_user), "OK");
        let db = UserDb::new(Options {
            url: format!("redis://reader@127.0.0.1:{}", server.port),
            password: secret("reader"),
            ..server.options()
        })
        .unwrap();
        assert!(is_of(
            &db,
            &ask(&db, vec![subject("u1")]).await.unwrap()[0],
            1
        ));
        let error = db.put(&subject("u1"), &ha1s(2).into()).await.unwrap_err();
        assert!(error.to_string().contains("NOPERM"), "{error}");
        assert!(is_of(
            &db,
            &ask(&db, vec![subject("u1")]).await.unwrap()[0],
            1
        ));
    });
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let with = |url: &str| options(url);
    for (options, part) in [
        (with("redis://127.0.0.1/users"), "number"),
        (with("redis://signet@127.0.0.1"), "password"),
        (with("redis://127.0.0.1?prefix=x"), "prefix"),
        (with("redis://user:pass@127.0.0.1"), "password"),
        (
            Options {
                layout: Layout::Query("GET".to_owned()),
                ..with("redis://127.0.0.1")
            },
            "layout",
        ),
        (
            Options {
                tls: Tls::Never,
                ..with("rediss://127.0.0.1")
            },
            "never",
        ),
    ] {
        let error = refused(options);
        assert!(error.contains(part), "{error}");
    }
}

/// A row of MGET for user `n`, as the server writes it.
fn row(n: usize) -> String {
    let json = format!(r#"{{"MD5":"{}"}}"#, suite::hex(n, Algorithm::Md5));
    format!("*1\r\n${}\r\n{json}\r\n", json.len())
}

/// The number to be echoed and the name that is asked for.
fn question(peer: &mut Peer) -> Option<(String, String)> {
    let echo = peer.command()?;
    assert_eq!(echo[0], b"ECHO");
    let mget = peer.command()?;
    assert_eq!(mget[0], b"MGET");
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    Some((text(&echo[1]), text(&mget[1])))
}

fn echo(number: &str) -> String {
    format!("${}\r\n{number}\r\n", number.len())
}

fn scripted(script: impl Fn(Peer, usize) + Send + Sync + 'static) -> UserDb {
    let port = script::serve(script);
    UserDb::new(Options {
        connections_max: 1,
        algorithms: Some(vec![Algorithm::Md5]),
        wanted: None,
        connect_timeout_ms: 500,
        ..options(&format!("redis://127.0.0.1:{port}"))
    })
    .unwrap()
}

/// Answers to the n-th user that is asked for, whoever it is; nobody has the number 0.
fn number_of(name: &str) -> usize {
    if name.ends_with(":signet-there-is-no-such-user") {
        return 0;
    }
    name.rsplit(":u").next().unwrap().parse().unwrap()
}

/// A server that loads its data, or has lost its master, takes a subscription all the same. What
/// is remembered of users is not to be thrown away for it.
#[test]
fn who_subscribes_at_a_server_that_answers_nothing_has_missed_nothing() {
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    let db = scripted(move |mut peer, connection| {
        counted.fetch_add(1, Ordering::Relaxed);
        while let Some(command) = peer.command() {
            let answer = match (command[0].as_slice(), connection) {
                (b"MGET", 0) => "-LOADING Redis is loading the dataset in memory\r\n",
                (b"MGET", 1) => "-MASTERDOWN Link with MASTER is down\r\n",
                (b"MGET", _) => "*1\r\n$-1\r\n",
                _ => "*3\r\n$9\r\nsubscribe\r\n$12\r\nsignet:users\r\n:1\r\n",
            };
            peer.send(answer.as_bytes());
        }
    });
    run(async {
        assert_eq!(db.changed().await, Changed::Everything);
        assert_eq!(connections.load(Ordering::Relaxed), 3);
    });
}

#[test]
fn a_server_that_lets_nobody_be_asked_for_is_of_no_use() {
    let db = scripted(|mut peer, _| {
        while let Some((number, _)) = question(&mut peer) {
            let answer = echo(&number) + "-NOPERM this user has no permissions\r\n";
            peer.send(answer.as_bytes());
        }
    });
    run(async {
        let failure = ask(&db, vec![subject("u1")]).await.unwrap_err();
        assert!(
            matches!(&failure, BatchFailure::Unusable(why) if why.contains("NOPERM")),
            "{failure:?}"
        );
    });
}

#[test]
fn an_answer_that_comes_late_is_not_taken_for_another() {
    let (came, mut has_come) = tokio::sync::mpsc::unbounded_channel();
    let db = scripted(move |mut peer, _| {
        // Answers only when two wait, the first of whom has gone.
        let first = question(&mut peer).unwrap();
        came.send(()).unwrap();
        let second = question(&mut peer).unwrap();
        for (number, name) in [first, second] {
            peer.send(echo(&number).as_bytes());
            peer.send(row(number_of(&name)).as_bytes());
        }
        peer.stay_silent();
    });
    run(async {
        tokio::select! {
            rows = ask(&db, vec![subject("u1")]) => panic!("{rows:?}"),
            Some(()) = has_come.recv() => {}
        }
        let rows = ask(&db, vec![subject("u2")]).await.unwrap();
        assert!(is_of(&db, &rows[0], 2));
    });
}

#[test]
fn an_answer_that_comes_twice_is_not_taken_for_another() {
    let db = scripted(|mut peer, _| {
        let Some((number, name)) = question(&mut peer) else {
            return;
        };
        let answer = echo(&number) + &row(number_of(&name)) + &row(number_of(&name));
        peer.send(answer.as_bytes());
        while let Some((number, name)) = question(&mut peer) {
            let answer = echo(&number) + &row(number_of(&name));
            peer.send(answer.as_bytes());
        }
    });
    run(async {
        for n in 1..20 {
            match ask(&db, vec![subject(user(n))]).await {
                Ok(rows) => assert!(is_of(&db, &rows[0], n), "{n}: {rows:?}"),
                Err(BatchFailure::Refused(_) | BatchFailure::Unreachable(_)) => {}
                Err(failure) => panic!("{failure:?}"),
            }
        }
    });
}

#[test]
fn answers_in_pieces_are_put_together() {
    let db = scripted(|mut peer, _| {
        while let Some((number, name)) = question(&mut peer) {
            for byte in (echo(&number) + &row(number_of(&name))).bytes() {
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
fn garbage_and_ends_fail_and_the_next_connection_serves() {
    let bad: &[&str] = &[
        "HTTP/1.1 400 Bad Request\r\n\r\n",
        "$1\r\n9\r\n",
        ":1\r\n",
        "-ERR no\r\n",
        "-ERR max number of clients reached\r\n",
        "*1\r\n$1000000000\r\n",
        "",
        "{ECHO}",
        "{ECHO}*1\r\n$90\r\n{\"MD5\"",
        "{ECHO}*0\r\n",
        "{ECHO}*2\r\n$-1\r\n$-1\r\n",
        "{ECHO}+OK\r\n",
        "{ECHO}-LOADING Redis is loading the dataset in memory\r\n",
        "{ECHO}-NOPERM this user has no permissions\r\n",
    ];
    for &answer in bad {
        let db = scripted(move |mut peer, connection| {
            while let Some((number, name)) = question(&mut peer) {
                if connection == 0 {
                    peer.send(answer.replace("{ECHO}", &echo(&number)).as_bytes());
                    return;
                }
                peer.send((echo(&number) + &row(number_of(&name))).as_bytes());
            }
        });
        run(async {
            let failure = ask(&db, vec![subject("u1")]).await.unwrap_err();
            assert_ne!(failure, BatchFailure::TimedOut, "{answer:?}");
            if answer.contains("LOADING") || answer.contains("max number") {
                assert!(
                    matches!(failure, BatchFailure::Unreachable(_)),
                    "{failure:?}"
                );
            }
            // The client may see the end of the connection only when it asks again.
            let rows = match ask(&db, vec![subject("u2")]).await {
                Ok(rows) => rows,
                Err(_) => ask(&db, vec![subject("u2")]).await.unwrap(),
            };
            assert!(is_of(&db, &rows[0], 2), "{answer:?}");
        });
    }
}

#[test]
fn what_cannot_be_read_is_one_questions_matter() {
    let long = format!("*1\r\n${}\r\n{}", 9 << 20, "x".repeat(9 << 20));
    for garbage in ["no reply\r\n".to_owned(), long] {
        let db = scripted(move |mut peer, connection| {
            if connection == 0 {
                let (first, _) = question(&mut peer).unwrap();
                question(&mut peer).unwrap();
                // Both wait.
                peer.send((echo(&first) + &garbage).as_bytes());
                return;
            }
            while let Some((number, name)) = question(&mut peer) {
                peer.send((echo(&number) + &row(number_of(&name))).as_bytes());
            }
        });
        run(async {
            let (first, second) =
                tokio::join!(ask(&db, vec![subject("u1")]), ask(&db, vec![subject("u2")]));
            assert!(matches!(first, Err(BatchFailure::Refused(_))), "{first:?}");
            assert!(is_of(&db, &second.unwrap()[0], 2));
        });
    }
}

/// The question with a row that cannot be read ends a connection each time, until it is alone. Those
/// who are on the same one are answered all the same.
#[test]
fn whose_connection_ends_over_anothers_answer_is_asked_again() {
    let db = scripted(|mut peer, _| {
        while let Some((number, names)) = questions(&mut peer) {
            let row = |name: &String| row(number_of(name)).split_off("*1\r\n".len());
            let rows: String = names.iter().map(row).collect();
            let rows = format!("*{}\r\n{rows}", names.len());
            let is_bad = names.iter().any(|name| name.ends_with(":u7"));
            let answer = if is_bad { "no reply\r\n" } else { &rows };
            peer.send((echo(&number) + answer).as_bytes());
            if is_bad {
                return;
            }
        }
    });
    let ten = |nth: usize| (10 * nth + 1..=10 * nth + 10).map(|n| subject(user(n)));
    run(async {
        let bad = async {
            for others in [9, 1, 0] {
                let others = ten(9).take(others);
                let asked = [subject(user(7))].into_iter().chain(others);
                let failed = ask(&db, asked.collect()).await;
                assert!(
                    matches!(failed, Err(BatchFailure::Refused(_))),
                    "{failed:?}"
                );
            }
        };
        let others = (1..6).map(|nth| {
            let (db, ten) = (&db, &ten);
            async move {
                let rows = ask(db, ten(nth).collect()).await;
                rows.unwrap_or_else(|failure| panic!("{nth}: {failure:?}"))
            }
        });
        let (_, others) = tokio::join!(bad, futures_util::future::join_all(others));
        for (nth, rows) in (1..6).zip(others) {
            for (at, row) in rows.iter().enumerate() {
                assert!(is_of(&db, row, 10 * nth + at + 1));
            }
        }
    });
}

/// The number to be echoed and the names that are asked for.
fn questions(peer: &mut Peer) -> Option<(String, Vec<String>)> {
    let echo = peer.command()?;
    let mget = peer.command()?;
    let text = |bytes: &Vec<u8>| String::from_utf8(bytes.clone()).unwrap();
    Some((text(&echo[1]), mget[1..].iter().map(text).collect()))
}

#[test]
fn a_connection_that_says_nothing_is_given_up() {
    let db = scripted(|mut peer, connection| {
        while let Some((number, name)) = question(&mut peer) {
            if connection == 0 {
                peer.stay_silent();
                return;
            }
            peer.send((echo(&number) + &row(number_of(&name))).as_bytes());
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
fn digests_are_not_verified() {
    let db = UserDb::new(options("redis://127.0.0.1:1")).unwrap();
    run(async {
        let digest = crate::stores::suite::digest("u1", "secret1");
        let asked = db.ask(&Rows::Verify(Box::new(digest))).await;
        assert!(matches!(asked, Err(BatchFailure::Refused(_))));
    });
}
