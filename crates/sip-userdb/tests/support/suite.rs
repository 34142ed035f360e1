//! What every store is held to, whatever its protocol.
//!
//! A bed fills its store with [`PEOPLE`] users of [`REALM`], [`name`] by [`name`], each with
//! the HA1s of [`secrets`]; with [`UMLAUT`] besides; and where its tables can hold them with
//! the [`ODD`] ones.

use std::sync::Arc;
use std::time::Duration;

use sip_auth::{Algorithm, Ha1Set, Secrets, Subject};
use sip_lookup::{BatchAnswer, BatchFailure, Row, Rows};
use sip_userdb::UserDb;

/// How many users a bed has: as many as in Dacosta's paper.
pub const PEOPLE: usize = 10_000;
pub const REALM: &str = "example.com";

/// A user whose name is not ASCII.
pub const UMLAUT: &str = "jürgen";

/// A user with two different rows, one whose HA1 is cut, one whose HA1 is no hexadecimal
/// number, and one who has none.
pub const ODD: [&str; 4] = ["twins", "cut", "scrawled", "without"];

/// The name of a user.
pub fn name(number: usize) -> String {
    format!("user{number:05}")
}

/// What a user of [`REALM`] has.
pub fn secrets(user: &str) -> Ha1Set {
    Ha1Set::compute(
        user.as_bytes(),
        REALM.as_bytes(),
        format!("secret of {user}").as_bytes(),
    )
}

/// Hexadecimal digits of one of them.
pub fn hex(user: &str, algorithm: Algorithm) -> String {
    let set = secrets(user);
    let bytes = set.get(algorithm).expose().iter();
    bytes.map(|byte| format!("{byte:02x}")).collect()
}

pub fn subject(user: &str) -> Subject {
    of_realm(user.as_bytes(), REALM)
}

pub fn of_realm(user: &[u8], realm: &str) -> Subject {
    Subject::new(user, Arc::from(realm))
}

/// Asks for some subjects at once.
pub async fn ask(db: &UserDb, subjects: Vec<Subject>) -> Result<Vec<Row>, BatchFailure> {
    let asked = subjects.len();
    let rows = match db.ask(&Rows::Secrets(subjects)).await? {
        BatchAnswer::Rows(rows) => rows,
        BatchAnswer::Verified(_) => panic!("a verdict for a question for secrets"),
    };
    assert_eq!(rows.len(), asked);
    Ok(rows)
}

/// Asks until the store is there again.
pub async fn until_it_answers(db: &UserDb, user: &str) -> Row {
    for _ in 0..600 {
        match ask(db, vec![subject(user)]).await {
            Ok(mut rows) => return rows.remove(0),
            Err(BatchFailure::Refused(why)) => panic!("{why}"),
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
    panic!("the store does not come back");
}

/// Asks until the store no longer refuses: after a refusal it is not asked for a moment.
pub async fn until_it_answers_after_refusal(db: &UserDb, user: &str) -> Row {
    for _ in 0..100 {
        if let Ok(mut rows) = ask(db, vec![subject(user)]).await {
            return rows.remove(0);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the store still refuses");
}

/// A row has the HA1s of `user`, and of no algorithm but those that the store has.
pub fn assert_is(db: &UserDb, row: &Row, user: &str) {
    let Ok(Some(found)) = row else {
        panic!("{user}: {row:?}");
    };
    assert_holds(&db.capabilities().algorithms, found, user);
}

fn assert_holds(algorithms: &[Algorithm], found: &Secrets, user: &str) {
    let set = secrets(user);
    for algorithm in Algorithm::ALL {
        let expected = algorithms.contains(&algorithm).then(|| set.get(algorithm));
        assert_eq!(found.get(algorithm), expected, "{user}, {algorithm:?}");
    }
}

/// Users who are there, users who are not, and realms that are not, in one batch and in any
/// order.
pub async fn known_and_unknown(db: &UserDb) {
    let users = [name(1), "nobody".to_owned(), name(PEOPLE - 1), name(0)];
    let mut subjects: Vec<Subject> = users.iter().map(|user| subject(user)).collect();
    subjects.push(of_realm(name(1).as_bytes(), "elsewhere.example"));
    subjects.push(subject(UMLAUT));
    let rows = ask(db, subjects).await.unwrap();
    assert_is(db, &rows[0], &users[0]);
    assert_eq!(rows[1], Ok(None));
    assert_is(db, &rows[2], &users[2]);
    assert_is(db, &rows[3], &users[3]);
    assert_eq!(rows[4], Ok(None));
    assert_is(db, &rows[5], UMLAUT);
    assert_eq!(ask(db, Vec::new()).await.unwrap(), []);
}

/// Every user, in batches of all sizes, many at once.
pub async fn many_at_once(db: &UserDb) {
    let mut batches = Vec::new();
    let (mut next, mut size) = (0, 1);
    while next < PEOPLE {
        let end = (next + size).min(PEOPLE);
        batches.push(next..end);
        next = end;
        size = size % db.capabilities().batch_max + 1;
    }
    for some in batches.chunks(32) {
        let asked = some.iter().map(|batch| {
            let subjects = batch.clone().map(|number| subject(&name(number)));
            ask(db, subjects.collect())
        });
        let answers = futures_util::future::join_all(asked).await;
        for (batch, rows) in some.iter().zip(answers) {
            for (number, row) in batch.clone().zip(rows.unwrap()) {
                assert_is(db, &row, &name(number));
            }
        }
    }
}

/// Names that are no names. None of them is anybody, and whoever asks beside them is
/// answered.
pub async fn hostile_names(db: &UserDb) {
    let known = name(42);
    let mut names: Vec<Vec<u8>> = [
        "' OR '1'='1",
        "'; DROP TABLE signet_users; --",
        "\"",
        "\\",
        "\\'",
        "`",
        "?",
        "$1",
        "%",
        "user0004_",
        "*",
        "user*)(uid=*",
        "{users}",
        "",
        " ",
        "\0",
        "user00042\0",
        "\r\n",
        "\u{1}",
        // Look-alikes: another case, spaces, full width, a combining accent, a Cyrillic е, an
        // invisible joiner, a letter beyond the first plane.
        "USER00042",
        "User00042",
        "user00042 ",
        " user00042",
        "ｕｓｅｒ00042",
        "user0004２",
        "user00042\u{301}",
        "us\u{435}r00042",
        "user\u{200d}00042",
        "jurgen",
        "JÜRGEN",
        "ju\u{308}rgen",
        "\u{1f600}",
    ]
    .map(|name| name.as_bytes().to_vec())
    .into();
    names.push(vec![b'x'; 8_192]);
    names.push("ü".repeat(4_096).into_bytes());
    names.push(b"user00042\xff".to_vec());
    names.push(vec![0xc3]);
    let hostile: Vec<Subject> = names.iter().map(|name| of_realm(name, REALM)).collect();
    let all: Vec<Subject> = hostile
        .iter()
        .cloned()
        .chain([subject(&known), subject(UMLAUT)])
        .collect();
    for part in all.chunks(db.capabilities().batch_max) {
        let rows = ask(db, part.to_vec()).await.unwrap();
        for (subject, row) in part.iter().zip(rows) {
            match subject.user() {
                user if user == known.as_bytes() => assert_is(db, &row, &known),
                user if user == UMLAUT.as_bytes() => assert_is(db, &row, UMLAUT),
                // It may be said of such a name that it cannot be asked for.
                _ => assert!(!matches!(row, Ok(Some(_))), "{subject:?}: {row:?}"),
            }
        }
    }
    for realm in ["", "'", "EXAMPLE.COM", "example.com ", "\0", "é"] {
        let rows = ask(db, vec![of_realm(known.as_bytes(), realm), subject(&known)]).await;
        let rows = rows.unwrap();
        assert!(!matches!(rows[0], Ok(Some(_))), "{realm:?}");
        assert_is(db, &rows[1], &known);
    }
}

/// Unusable rows are their own users' matter.
pub async fn odd_rows(db: &UserDb) {
    let users = [ODD[0], ODD[1], ODD[2], ODD[3], &name(7)].map(subject);
    let rows = ask(db, users.to_vec()).await.unwrap();
    for (at, row) in rows.iter().take(3).enumerate() {
        assert!(row.is_err(), "{}: {row:?}", ODD[at]);
    }
    assert_eq!(rows[3], Ok(Some(Secrets::default())));
    assert_is(db, &rows[4], &name(7));
}

/// Whoever asks may go away at any time, and harms nobody.
pub async fn dropped(db: &UserDb) {
    for round in 0..200_u64 {
        let given_up = (0..4).map(|at| {
            let subjects = vec![subject(&name(at))];
            let patience = Duration::from_micros(round * 10);
            tokio::time::timeout(patience, ask(db, subjects))
        });
        let given_up = futures_util::future::join_all(given_up);
        let user = name(usize::try_from(round).unwrap());
        let (_, rows) = tokio::join!(given_up, ask(db, vec![subject(&user)]));
        assert_is(db, &rows.unwrap()[0], &user);
    }
}

/// Users are added, given other secrets, listed and removed.
pub async fn written(db: &UserDb) {
    assert!(db.capabilities().is_writable);
    let user = subject("new user");
    let found = || async { ask(db, vec![user.clone()]).await.unwrap().remove(0) };
    assert_eq!(found().await, Ok(None));
    db.put(&user, &secrets("somebody else").into())
        .await
        .unwrap();
    assert!(matches!(found().await, Ok(Some(_))));
    db.put(&user, &secrets("new user").into()).await.unwrap();
    assert_is(db, &found().await, "new user");
    // A look-alike is another user, or none at all.
    assert!(!db.remove(&subject("NEW USER")).await.unwrap());
    let _ = db.put(&subject("NEW USER"), &secrets("x").into()).await;
    assert_is(db, &found().await, "new user");
    let _ = db.remove(&subject("NEW USER")).await;
    for bad in [b"\xff".as_slice(), &[b'x'; 8_192], b"a\0b"] {
        let error = db
            .put(&of_realm(bad, REALM), &secrets("x").into())
            .await
            .unwrap_err();
        assert!(!error.remedy().is_empty());
    }
    assert!(db.remove(&user).await.unwrap());
    assert!(!db.remove(&user).await.unwrap());
    assert_eq!(found().await, Ok(None));
}

/// All users come in pages, none twice.
pub async fn listed(db: &UserDb) {
    let mut after = None;
    let mut count = 0;
    loop {
        let page = db.list(after.as_ref(), 999).await.unwrap();
        assert!(page.len() <= 999);
        let Some(last) = page.last().cloned() else {
            break;
        };
        assert_ne!(after.as_ref(), Some(&last));
        count += page
            .iter()
            .filter(|one| one.user().starts_with(b"user") && &**one.realm() == REALM)
            .count();
        after = Some(last);
    }
    assert_eq!(count, PEOPLE);
}

/// A store that is killed in the middle of batches and comes back.
pub async fn killed<B>(
    db: &UserDb,
    bed: &mut B,
    stop: impl AsyncFnOnce(&mut B),
    start: impl FnOnce(&mut B),
) {
    assert_is(db, &until_it_answers(db, &name(3)).await, &name(3));
    let asked = (0..64).map(|batch| {
        let subjects = (0..100).map(|at| subject(&name(batch * 100 + at)));
        ask(db, subjects.collect())
    });
    let asked = futures_util::future::join_all(asked);
    let stopping = async {
        tokio::task::yield_now().await;
        stop(bed).await;
    };
    let (answers, ()) = tokio::join!(asked, stopping);
    for (batch, answer) in answers.into_iter().enumerate() {
        match answer {
            // What was answered is right, whatever became of the others.
            Ok(rows) => {
                for (at, row) in rows.iter().enumerate() {
                    assert_is(db, row, &name(batch * 100 + at));
                }
            }
            Err(BatchFailure::Unreachable(_)) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
    let gone = ask(db, vec![subject(&name(3))]).await;
    assert!(
        matches!(gone, Err(BatchFailure::Unreachable(_))),
        "{gone:?}"
    );
    start(bed);
    assert_is(db, &until_it_answers(db, &name(3)).await, &name(3));
    let rows = ask(db, vec![subject(&name(4))]).await.unwrap();
    assert_is(db, &rows[0], &name(4));
}
