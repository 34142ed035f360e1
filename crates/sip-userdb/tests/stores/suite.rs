//! What holds of every store that gives secrets, shown with a real server.

use std::future::{Future, poll_fn};
use std::task::Poll;

use md5::Digest as _;
use sip_auth::{Algorithm, DigestRequest, Ha1Set, Qop, Secrets, Subject};
use sip_lookup::{BatchAnswer, BatchFailure, Row, Rows};
use sip_userdb::UserDb;

use super::PATIENCE;

pub const REALM: &str = "example.org";

/// Users `u0`, `u1` ... are in each store, with these passwords.
pub const USERS: usize = 200;

/// A user whose HA1 is no digest.
pub const DAMAGED: &str = "damaged";

/// Waits for all, side by side.
pub async fn join_all<F: Future<Output = ()>>(futures: Vec<F>) {
    let mut all: Vec<_> = futures.into_iter().map(|f| Some(Box::pin(f))).collect();
    poll_fn(|context| {
        for place in &mut all {
            let is_done =
                |future: &mut std::pin::Pin<Box<F>>| future.as_mut().poll(context).is_ready();
            if place.as_mut().is_some_and(is_done) {
                *place = None;
            }
        }
        match all.iter().any(Option::is_some) {
            true => Poll::Pending,
            false => Poll::Ready(()),
        }
    })
    .await;
}

pub fn user(n: usize) -> String {
    format!("u{n}")
}

pub fn password(n: usize) -> String {
    format!("secret{n}")
}

pub fn ha1s(n: usize) -> Ha1Set {
    Ha1Set::compute(user(n).as_bytes(), REALM.as_bytes(), password(n).as_bytes())
}

pub fn subject(user: impl AsRef<[u8]>) -> Subject {
    Subject::new(user.as_ref(), REALM.into())
}

pub async fn ask(db: &UserDb, subjects: Vec<Subject>) -> Result<Vec<Row>, BatchFailure> {
    let asked = subjects.len();
    match db.ask(&Rows::Secrets(subjects)).await? {
        BatchAnswer::Rows(rows) => {
            assert_eq!(rows.len(), asked);
            Ok(rows)
        }
        answer => panic!("{answer:?} to a question for secrets"),
    }
}

/// Whether a row is that user's, with the algorithms that the store holds.
pub fn is_of(db: &UserDb, row: &Row, n: usize) -> bool {
    let Ok(Some(secrets)) = row else {
        return false;
    };
    let set = ha1s(n);
    let held = |algorithm: &Algorithm| secrets.get(*algorithm) == Some(set.get(*algorithm));
    db.capabilities().algorithms.iter().all(held)
}

/// Known and unknown users, in any order and number.
pub async fn users_are_found(db: &UserDb) {
    let rows = ask(db, vec![subject("nobody")]).await.unwrap();
    assert_eq!(rows, [Ok(None)]);
    let max = db.capabilities().batch_max.min(2 * USERS);
    let asked: Vec<_> = (0..max).rev().map(|n| subject(user(n))).collect();
    for (row, n) in ask(db, asked).await.unwrap().iter().zip((0..max).rev()) {
        if n < USERS {
            assert!(is_of(db, row, n), "{n}: {row:?}");
        } else {
            assert_eq!(*row, Ok(None), "{n}");
        }
    }
    let elsewhere = Subject::new(b"u1", "example.com".into());
    assert_eq!(ask(db, vec![elsewhere]).await, Ok(vec![Ok(None)]));
    assert_eq!(ask(db, vec![]).await, Ok(vec![]));
    let (sent, received) = db.traffic();
    assert!(sent > 0 && received > 0);
}

/// Many batches at once each have their own rows.
pub async fn many_ask_at_once(db: &UserDb) {
    let batches = (0..200).map(|first| async move {
        let at = |step: usize| (first * 7 + step * 3) % USERS;
        let asked = (0..10).map(|step| subject(user(at(step)))).collect();
        let rows = ask(db, asked).await.unwrap();
        for (step, row) in rows.iter().enumerate() {
            assert!(is_of(db, row, at(step)), "{row:?}");
        }
    });
    join_all(batches.collect()).await;
}

/// Names that mean something to somebody are names of nobody.
pub async fn hostile_names_are_only_names(db: &UserDb) {
    let long = "x".repeat(8_192);
    let names: &[&[u8]] = &[
        b"'",
        b"\"",
        b"' OR '1'='1",
        b"u1' -- ",
        b"\\",
        b"*",
        b"u*",
        b"*)(uid=*",
        b"(|(uid=*))",
        b"\0",
        b"u1\0",
        b"\0u1",
        b"u1 ",
        b" u1",
        b"u1\n",
        b"u1\r\nGET signet:user:example.org:u1\r\n",
        b"U1",
        b"",
        b"\xff\xfe",
        b"u1\xff",
        b"\xc0\xb1",
        "ｕ1".as_bytes(),
        "u\u{ad}1".as_bytes(),
        "u\u{200b}1".as_bytes(),
        "u¹".as_bytes(),
        "\u{202e}1u".as_bytes(),
        b"%75%31",
        b"${u1}",
        b"{\"user\":\"u1\"}",
        b"a:b",
        long.as_bytes(),
    ];
    // Each beside one who is there, and all at once.
    for name in names {
        let rows = ask(db, vec![subject(name), subject("u1")]).await;
        let rows = rows.unwrap_or_else(|why| panic!("{}: {why:?}", name.escape_ascii()));
        assert_eq!(rows[0], Ok(None), "{}", name.escape_ascii());
        assert!(is_of(db, &rows[1], 1), "beside {}", name.escape_ascii());
    }
    let mut all: Vec<_> = names.iter().map(subject).collect();
    all.push(subject("u2"));
    let rows = ask(db, all).await.unwrap();
    assert!(is_of(db, rows.last().unwrap(), 2));
    assert!(rows.iter().rev().skip(1).all(|row| *row == Ok(None)));
    for realm in ["", "'", "EXAMPLE.ORG", "example.org\0", "*", &long] {
        let row = ask(db, vec![Subject::new(b"u1", realm.into()), subject("u3")]).await;
        let row = row.unwrap_or_else(|why| panic!("{realm}: {why:?}"));
        assert_eq!(row[0], Ok(None), "{}", realm.escape_debug());
        assert!(is_of(db, &row[1], 3));
    }
}

/// A row that is no digest is its user's matter and no other's.
pub async fn a_damaged_row_harms_nobody_else(db: &UserDb) {
    let rows = ask(db, vec![subject("u1"), subject(DAMAGED), subject("u2")]);
    let rows = rows.await.unwrap();
    assert!(is_of(db, &rows[0], 1) && is_of(db, &rows[2], 2));
    let bad = rows[1].as_ref().unwrap_err();
    assert!(
        !bad.to_string().contains("zzzz"),
        "what is there is not shown: {bad:?}"
    );
}

/// Whoever gives a question up harms no other's.
pub async fn questions_may_be_dropped(db: &UserDb) {
    for round in 0..20 {
        let dropped = (0..10).map(|n| async move {
            let question = ask(db, vec![subject(user(n)), subject("nobody")]);
            // Some are dropped before they are sent, some while they are under way.
            let polls = tokio::time::Duration::from_micros(50 * round);
            let _ = tokio::time::timeout(polls, question).await;
        });
        join_all(dropped.collect()).await;
        let n = usize::try_from(round).unwrap();
        let rows = ask(db, vec![subject(user(n)), subject("nobody")]);
        let rows = rows.await.unwrap();
        assert!(is_of(db, &rows[0], n));
        assert_eq!(rows[1], Ok(None));
    }
}

/// While the store is gone, questions fail at once and say so; when it is back they are
/// answered.
pub async fn a_store_may_die_and_return(db: &UserDb, kill: impl FnOnce(), restart: impl FnOnce()) {
    let known = || ask(db, vec![subject("u1")]);
    assert!(is_of(db, &known().await.unwrap()[0], 1));
    kill();
    for _ in 0..3 {
        let failure = known().await.unwrap_err();
        assert!(
            matches!(failure, BatchFailure::Unreachable(_)),
            "{failure:?}"
        );
    }
    restart();
    let start = std::time::Instant::now();
    loop {
        match known().await {
            Ok(rows) => {
                assert!(is_of(db, &rows[0], 1), "{rows:?}");
                break;
            }
            // Up, and not ready.
            Err(BatchFailure::Unreachable(_)) if start.elapsed() < PATIENCE => {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
            Err(why) => panic!("{why:?}"),
        }
    }
    many_ask_at_once(db).await;
}

/// Everything that needs no more than a server.
pub async fn all(db: &UserDb) {
    users_are_found(db).await;
    many_ask_at_once(db).await;
    hostile_names_are_only_names(db).await;
    a_damaged_row_harms_nobody_else(db).await;
    questions_may_be_dropped(db).await;
    users_are_found(db).await;
}

/// A set with the same HA1s.
pub fn secrets(n: usize) -> Secrets {
    let mut secrets = Secrets::default();
    for algorithm in Algorithm::ALL {
        secrets.insert(ha1s(n).get(algorithm).clone());
    }
    secrets
}

/// An HA1 in hexadecimal digits.
pub fn hex(n: usize, algorithm: Algorithm) -> String {
    let set = ha1s(n);
    let bytes = set.get(algorithm).expose();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A digest of a REGISTER by MD5, made with that password (RFC 7616 3.4.1).
pub fn digest(user: &str, password: &str) -> DigestRequest {
    let hash = |text: String| -> String {
        let digest = md5::Md5::digest(text);
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    };
    let (nonce, cnonce, count, uri) = ("bm9uY2U", "0a4f113b", "00000001", "sip:example.org");
    let ha1 = hash(format!("{user}:{REALM}:{password}"));
    let ha2 = hash(format!("REGISTER:{uri}"));
    let response = hash(format!("{ha1}:{nonce}:{count}:{cnonce}:auth:{ha2}"));
    DigestRequest {
        user: user.into(),
        realm: REALM.into(),
        nonce: nonce.into(),
        method: b"REGISTER".to_vec(),
        uri: uri.into(),
        qop: Qop::Auth,
        algorithm: Algorithm::Md5,
        cnonce: cnonce.into(),
        nonce_count: count.into(),
        response: response.into(),
        body_digest: None,
    }
}
