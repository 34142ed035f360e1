use std::sync::Arc;

use sip_auth::Ha1Set;

use super::*;
use crate::testing::Folder;

fn key(user: &[u8], algorithm: Algorithm) -> CredentialKey {
    CredentialKey::new(user, Arc::from("example.org"), algorithm)
}

fn find(store: &mut Credentials, keys: &[CredentialKey]) -> Vec<Option<Ha1>> {
    let mut answers = Vec::new();
    store.find(keys, &mut answers);
    assert_eq!(answers.len(), keys.len());
    answers
        .into_iter()
        .map(|answer| answer.expect("read"))
        .collect()
}

#[test]
fn answers_come_in_the_order_of_the_keys() {
    let folder = Folder::new();
    let mut database = folder.open();
    database
        .add_user("example.org", "alice", "a", 0)
        .expect("added");
    database
        .add_user("example.org", "bob", "b", 0)
        .expect("added");
    database
        .add_user("example.com", "carol", "c", 0)
        .expect("added");
    let ha1 = |user: &str, password: &str, algorithm| {
        Some(
            Ha1Set::compute(user.as_bytes(), b"example.org", password.as_bytes())
                .get(algorithm)
                .clone(),
        )
    };
    let keys = [
        key(b"bob", Algorithm::Md5),
        key(b"nobody", Algorithm::Md5),
        key(b"alice", Algorithm::Sha512_256),
        key(b"carol", Algorithm::Sha256),
        key(b"alice", Algorithm::Sha256),
    ];
    assert_eq!(
        find(&mut database.credentials().expect("opens"), &keys),
        [
            ha1("bob", "b", Algorithm::Md5),
            None,
            ha1("alice", "a", Algorithm::Sha512_256),
            None,
            ha1("alice", "a", Algorithm::Sha256)
        ]
    );
}

#[test]
fn a_name_that_is_no_text_is_nobodys() {
    let folder = Folder::new();
    let mut database = folder.open();
    database
        .add_user("example.org", "al\u{fffd}ce", "a", 0)
        .expect("added");
    let mut store = database.credentials().expect("opens");
    for name in [
        &b"al\xffce"[..],
        b"\xff",
        b"",
        b"Al\xef\xbf\xbdce",
        b"' OR 1=1 --",
        b"%",
    ] {
        assert_eq!(
            find(&mut store, &[key(name, Algorithm::Md5)]),
            [None],
            "{name:?}"
        );
    }
    assert!(
        find(
            &mut store,
            &[key("al\u{fffd}ce".as_bytes(), Algorithm::Md5)]
        )[0]
        .is_some()
    );
}

#[test]
fn a_change_by_another_process_is_seen_at_once() {
    let folder = Folder::new();
    let mut store = folder.open().credentials().expect("opens");
    let mut other = folder.open();
    let alice = [key(b"alice", Algorithm::Sha256)];
    let expected = |password: &str| {
        Some(Ha1::compute(
            Algorithm::Sha256,
            b"alice",
            b"example.org",
            password.as_bytes(),
        ))
    };
    assert_eq!(find(&mut store, &alice), [None]);
    other
        .add_user("example.org", "alice", "one", 0)
        .expect("added");
    assert_eq!(find(&mut store, &alice), [expected("one")]);
    other
        .set_password("example.org", "alice", "two", 0)
        .expect("set");
    assert_eq!(find(&mut store, &alice), [expected("two")]);
    other.remove_user("example.org", "alice").expect("removed");
    assert_eq!(find(&mut store, &alice), [None]);
}

#[test]
fn a_damaged_row_is_an_error_of_its_own() {
    let folder = Folder::new();
    let mut database = folder.open();
    database
        .add_user("example.org", "alice", "a", 0)
        .expect("added");
    database
        .add_user("example.org", "bob", "b", 0)
        .expect("added");
    database
        .connection
        .execute(
            "UPDATE subscribers SET ha1_md5 = x'00' WHERE user = 'alice'",
            (),
        )
        .expect("damaged");
    let mut answers = Vec::new();
    let keys = [key(b"alice", Algorithm::Md5), key(b"bob", Algorithm::Md5)];
    database
        .credentials()
        .expect("opens")
        .find(&keys, &mut answers);
    assert_eq!(
        answers[0].as_ref().expect_err("damaged").kind(),
        StoreErrorKind::Damaged
    );
    assert!(matches!(&answers[1], Ok(Some(_))));
}

#[test]
fn a_failure_is_everybodys_answer_and_nobodys_absence() {
    let folder = Folder::new();
    let database = folder.open();
    database
        .connection
        .execute_batch("DROP TABLE subscribers")
        .expect("broken");
    let mut answers = Vec::new();
    let keys = [key(b"alice", Algorithm::Md5), key(b"bob", Algorithm::Md5)];
    database
        .credentials()
        .expect("opens")
        .find(&keys, &mut answers);
    assert_eq!(answers.len(), 2);
    assert!(answers.iter().all(Result::is_err));
}
