use std::sync::Arc;

use sip_auth::CredentialKey;

use super::*;
use crate::CredentialStore;
use crate::testing::Folder;

fn list(database: &mut Database, realm: Option<&str>) -> Vec<(String, String, u64, u64)> {
    let mut all = Vec::new();
    let each =
        &mut |s: Subscriber| all.push((s.user, s.realm, s.created_unix_ms, s.updated_unix_ms));
    database.users(realm, each).expect("read");
    all
}

fn of(
    user: &str,
    realm: &str,
    created_unix_ms: u64,
    updated_unix_ms: u64,
) -> (String, String, u64, u64) {
    (
        user.to_owned(),
        realm.to_owned(),
        created_unix_ms,
        updated_unix_ms,
    )
}

#[test]
fn users_come_and_go() {
    let folder = Folder::new();
    let mut database = folder.open();
    database
        .add_user("example.org", "bob", "b", 1)
        .expect("added");
    database
        .add_user("example.org", "alice", "a", 2)
        .expect("added");
    database
        .add_user("example.com", "alice", "a", 3)
        .expect("added");
    let error = database
        .add_user("example.org", "alice", "other", 4)
        .expect_err("there already");
    assert_eq!(error.kind(), StoreErrorKind::Exists);
    assert!(error.to_string().contains("signet user passwd"), "{error}");
    database
        .set_password("example.org", "alice", "new", 5)
        .expect("set");
    assert_eq!(
        list(&mut database, Some("example.org")),
        [
            of("alice", "example.org", 2, 5),
            of("bob", "example.org", 1, 1)
        ]
    );
    assert_eq!(list(&mut database, None).len(), 3);
    assert_eq!(database.user_count().expect("read"), 3);
    database.remove_user("example.org", "bob").expect("removed");
    for error in [
        database.remove_user("example.org", "bob"),
        database.set_password("example.org", "bob", "b", 6),
    ] {
        assert_eq!(error.expect_err("gone").kind(), StoreErrorKind::NotFound);
    }
    assert_eq!(
        list(&mut database, Some("example.org")),
        [of("alice", "example.org", 2, 5)]
    );
}

#[test]
fn who_waits_to_write_a_password_goes_by_what_is_there_then() {
    let folder = Folder::new();
    let mut database = folder.open();
    // Another writes this, and is done when the one that is waiting looks again.
    let mut meanwhile = |statement: &str| {
        let other = folder.open();
        other
            .connection
            .execute_batch("BEGIN IMMEDIATE")
            .expect("begun");
        other.connection.execute_batch(statement).expect("written");
        let done = move |_: i32| other.connection.execute_batch("COMMIT").is_ok();
        database.connection.busy_handler(Some(done)).expect("set");
        let tried = match statement.starts_with("INSERT") {
            true => database.add_user("example.org", "alice", "second", 2),
            false => database.set_password("example.org", "alice", "second", 2),
        };
        let there = database.has_user("example.org", "alice").expect("read");
        (tried.expect_err("too late").kind(), there)
    };
    let add = "INSERT INTO subscribers VALUES ('example.org', 'alice', x'', x'', x'', 1, 1)";
    assert_eq!(meanwhile(add), (StoreErrorKind::Exists, true));
    let remove = "DELETE FROM subscribers";
    assert_eq!(meanwhile(remove), (StoreErrorKind::NotFound, false));
}

#[test]
fn no_password_is_in_any_file() {
    let folder = Folder::new();
    let mut database = folder.open();
    database
        .add_user("example.org", "alice", "correct horse battery staple", 1)
        .expect("added");
    database
        .import_users(
            "user,realm,password\nbob,example.org,another long password\n",
            None,
            1,
        )
        .expect("imported");
    let mut bytes = 0;
    for entry in folder.path().read_dir().expect("a folder") {
        let content = std::fs::read(entry.expect("a file").path()).expect("read");
        bytes += content.len();
        for password in ["correct horse battery staple", "another long password"] {
            assert!(
                !content
                    .windows(password.len())
                    .any(|window| window == password.as_bytes())
            );
        }
    }
    assert!(bytes > 10_000, "something was looked at");
}

#[test]
fn what_cannot_be_told_apart_is_refused() {
    let folder = Folder::new();
    let mut database = folder.open();
    let long = "x".repeat(256);
    for (realm, user, password) in [
        ("example.org", "", "p"),
        ("example.org", "a:b", "p"),
        ("example.org", "a\r\nX: y", "p"),
        ("example.org", &long, "p"),
        ("", "alice", "p"),
        ("example\n.org", "alice", "p"),
        ("example.org", "alice", ""),
    ] {
        let error = database
            .add_user(realm, user, password, 0)
            .expect_err("refused");
        assert_eq!(error.kind(), StoreErrorKind::Input, "{realm:?} {user:?}");
    }
    assert_eq!(database.user_count().expect("read"), 0);
}

#[test]
fn an_export_imports_to_the_same() {
    let folder = Folder::new();
    let mut database = folder.open();
    database
        .add_user("example.org", "a\"li,ce", "a", 1)
        .expect("added");
    database
        .add_user("example.com", "bob é", "b", 1)
        .expect("added");
    let export = database.export_users(None).expect("exported");
    assert!(export.starts_with("user,realm,ha1_md5,ha1_sha256,ha1_sha512_256\n"));
    let other_folder = Folder::new();
    let mut other = other_folder.open();
    assert_eq!(
        other.import_users(&export, None, 1).expect("imported"),
        Imported {
            added: 2,
            changed: 0,
            md5_only: 0,
        }
    );
    assert_eq!(*other.export_users(None).expect("exported"), *export);
    assert_eq!(
        other.import_users(&export, None, 2).expect("imported"),
        Imported {
            added: 0,
            changed: 2,
            md5_only: 0,
        }
    );
    assert_eq!(
        other
            .export_users(Some("example.org"))
            .expect("exported")
            .lines()
            .count(),
        2
    );
}

#[test]
fn passwords_are_imported_as_their_digests() {
    let folder = Folder::new();
    let mut database = folder.open();
    let text = "Password, user \r\n secret ,alice\r\n\"x,y\",bob\r\n";
    assert_eq!(
        database
            .import_users(text, Some("example.org"), 1)
            .expect("imported"),
        Imported {
            added: 2,
            changed: 0,
            md5_only: 0,
        }
    );
    let imported = database.export_users(None).expect("exported");
    let other_folder = Folder::new();
    let mut other = other_folder.open();
    other
        .add_user("example.org", "alice", " secret ", 1)
        .expect("added");
    other
        .add_user("example.org", "bob", "x,y", 1)
        .expect("added");
    assert_eq!(*other.export_users(None).expect("exported"), *imported);
}

#[test]
fn the_realm_of_a_password_is_that_which_phones_are_asked_for() {
    let folder = Folder::new();
    let mut database = folder.open();
    let text = "user,domain,password\nalice,Example.ORG.,secret\n";
    database.import_users(text, None, 1).expect("imported");
    let imported = database.export_users(None).expect("exported");
    let other_folder = Folder::new();
    let mut other = other_folder.open();
    other
        .add_user("example.org", "alice", "secret", 1)
        .expect("added");
    assert_eq!(*other.export_users(None).expect("exported"), *imported);
    database
        .remove_user("example.org", "alice")
        .expect("removed");
}

#[test]
fn a_table_of_kamailio_is_imported_for_md5_alone() {
    let folder = Folder::new();
    let mut database = folder.open();
    let md5 = Ha1::compute(Algorithm::Md5, b"alice", b"example.org", b"secret");
    let hex: String = md5.expose().iter().map(|b| format!("{b:02x}")).collect();
    let text = format!(
        "username,domain,password,ha1\nalice,example.org,,{hex}\nbob,example.org,secret,\n"
    );
    assert_eq!(
        database.import_users(&text, None, 1).expect("imported"),
        Imported {
            added: 2,
            changed: 0,
            md5_only: 1,
        }
    );
    let realm: Arc<str> = "example.org".into();
    let asked = |user: &[u8], algorithm| CredentialKey::new(user, realm.clone(), algorithm);
    let keys = [
        asked(b"alice", Algorithm::Md5),
        asked(b"alice", Algorithm::Sha256),
        asked(b"bob", Algorithm::Sha256),
    ];
    let mut found = Vec::new();
    let mut credentials = database.credentials().expect("opened");
    credentials.find(&keys, &mut found);
    let found: Vec<Option<Ha1>> = found.into_iter().map(|one| one.expect("read")).collect();
    let bobs = Ha1::compute(Algorithm::Sha256, b"bob", b"example.org", b"secret");
    assert_eq!(found, [Some(md5), None, Some(bobs)]);
    // An export says so, and is imported as it is.
    let export = database.export_users(None).expect("exported");
    let imported = database.import_users(&export, None, 2).expect("imported");
    assert_eq!((imported.changed, imported.md5_only), (2, 1));
    assert_eq!(*database.export_users(None).expect("exported"), *export);
}

#[test]
fn a_bad_list_changes_nothing_and_its_line_is_named() {
    let folder = Folder::new();
    let mut database = folder.open();
    for (text, says) in [
        ("", "the list is empty"),
        ("alice,secret\n", "line 1: no column is named user"),
        (
            "user,realm\nalice,example.org\n",
            "line 1: there is neither",
        ),
        ("user,password\nalice,x\n", "line 2: there is no realm"),
        (
            "user,realm,password\nalice,example.org,x\nbob,example.org\n",
            "line 3: there are 2 fields",
        ),
        (
            "user,realm,password\nalice,example.org,x\nbob\n",
            "line 3: there is 1 field, and the first line names 3",
        ),
        (
            "user,password,user\nalice,x,bob\n",
            "line 1: there are the columns user and user, and only one",
        ),
        (
            "user,realm,Domain,password\nalice,example.org,example.net,x\n",
            "line 1: there are the columns realm and Domain, and only one",
        ),
        (
            "user,realm,ha1,ha1_md5\nalice,example.org,00,00\n",
            "line 1: there are the columns ha1 and ha1_md5, and only one",
        ),
        (
            "user,realm,password\nalice,example.org,x\n\nalice,example.org,y\n",
            "line 4: alice in example.org stands",
        ),
        (
            "user,realm,password\nalice,example.org,x\na:b,example.org,y\n",
            "line 3: the user's name",
        ),
        (
            "user,realm,password\nalice,example.org,\n",
            "line 2: alice in example.org has neither",
        ),
        (
            "user,realm,ha1_md5,ha1_sha256,ha1_sha512_256\nalice,example.org,00,00,00\n",
            "line 2: an HA1 for MD5 has 32",
        ),
        (
            "username,domain,ha1\nalice,example.org,xyz\n",
            "line 2: an HA1 for MD5 has 32",
        ),
        (
            "user,realm,password\nalice,example.org,\"x\n",
            "line 2: a quote",
        ),
        (
            "user,realm,ha1_md5\nalice,Example.ORG.,0123456789abcdef0123456789abcdef\n",
            "line 2: phones are asked for the realm example.org, and an HA1",
        ),
        (
            "user,realm,password\nalice,example.org,x\nalice,EXAMPLE.org,y\n",
            "line 3: alice in example.org stands",
        ),
        (
            "user,realm,password\nalice,.,x\n",
            "line 2: \"\" is no realm",
        ),
    ] {
        let error = database.import_users(text, None, 1).expect_err("refused");
        assert!(error.to_string().starts_with(says), "{error}");
        assert_eq!(database.user_count().expect("read"), 0, "{text}");
    }
}

#[test]
fn a_long_list_is_written_in_steps() {
    let folder = Folder::new();
    let mut database = folder.open();
    let mut text = String::from("user,ha1_md5,ha1_sha256,ha1_sha512_256\n");
    let count = 2 * IMPORT_STEP + 1;
    for user in 0..count {
        text.push_str(&format!(
            "user{user},{:032x},{:064x},{:064x}\n",
            user, user, user
        ));
    }
    let imported = database
        .import_users(&text, Some("example.org"), 1)
        .expect("imported");
    assert_eq!(
        imported,
        Imported {
            added: count,
            changed: 0,
            md5_only: 0,
        }
    );
    assert_eq!(database.user_count().expect("read"), count as u64);
}

#[test]
fn a_step_that_fails_says_how_many_are_written() {
    let folder = Folder::new();
    let mut database = folder.open();
    let fails = "CREATE TRIGGER fails BEFORE INSERT ON subscribers WHEN NEW.user = 'last'
        BEGIN SELECT RAISE(ABORT, 'no room'); END";
    database.connection.execute_batch(fails).expect("made");
    let listed = |user: &str| {
        let mut secrets = Secrets::default();
        secrets.insert(Ha1::compute(Algorithm::Md5, b"a", b"example.org", b"a"));
        ListedUser {
            realm: "example.org".to_owned(),
            user: user.to_owned(),
            secrets,
            with_domain: None,
        }
    };
    let mut users: Vec<_> = (0..IMPORT_STEP)
        .map(|nth| listed(&format!("user{nth}")))
        .collect();
    users.push(listed("last"));
    let error = database.put_users(&users, 1).expect_err("no room");
    let says = format!("after {IMPORT_STEP} of {} users: no room", users.len());
    assert!(error.to_string().starts_with(&says), "{error}");
    let written = database.user_count().expect("read");
    assert_eq!(written, IMPORT_STEP as u64);
    let gone = database.connection.execute_batch("DROP TRIGGER fails");
    gone.expect("dropped");
    let imported = database.put_users(&users, 2).expect("written");
    assert_eq!((imported.added, imported.changed), (1, IMPORT_STEP));
}

#[test]
fn domains() {
    let folder = Folder::new();
    let mut database = folder.open();
    assert!(database.add_domain("Example.org", 1).expect("added"));
    assert!(
        !database
            .add_domain("example.ORG", 2)
            .expect("there already")
    );
    assert!(database.add_domain("b.example", 3).expect("added"));
    for bad in ["", "exa mple.org", "a@b", "a\nb"] {
        assert_eq!(
            database.add_domain(bad, 4).expect_err("refused").kind(),
            StoreErrorKind::Input
        );
    }
    assert_eq!(
        database.domains().expect("read"),
        ["b.example", "example.org"]
    );
    assert!(database.remove_domain("EXAMPLE.org").expect("removed"));
    assert!(!database.remove_domain("example.org").expect("gone"));
}

#[test]
fn a_column_named_domain_is_the_realm() {
    let folder = Folder::new();
    let mut database = folder.open();
    let text = "user,domain,password\nalice,example.net,secret\n";
    database
        .import_users(text, Some("example.org"), 1)
        .expect("imported");
    assert!(database.has_user("example.net", "alice").expect("read"));
    assert!(!database.has_user("example.org", "alice").expect("read"));
}

#[test]
fn a_password_is_good_under_the_name_with_its_domain_too() {
    let folder = Folder::new();
    let mut database = folder.open();
    let is_good = |database: &Database, user: &str, password: &str| {
        let mut credentials = database.credentials().expect("opened");
        let realm: Arc<str> = "example.org".into();
        let keys = Algorithm::ALL.map(|of| CredentialKey::new(user.as_bytes(), realm.clone(), of));
        let mut answers = Vec::new();
        credentials.find(&keys, &mut answers);
        let expected = Ha1Set::compute(user.as_bytes(), realm.as_bytes(), password.as_bytes());
        let found: Vec<_> = answers.into_iter().map(|one| one.expect("read")).collect();
        Algorithm::ALL
            .into_iter()
            .zip(found)
            .all(|(of, found)| found.as_ref() == Some(expected.get(of)))
    };
    database
        .add_user("example.org", "alice", "a", 1)
        .expect("added");
    database
        .import_users("user,realm,password\nbob,example.org,b\n", None, 1)
        .expect("imported");
    for (user, password) in [("alice", "a"), ("bob", "b")] {
        assert!(is_good(&database, user, password));
        assert!(is_good(&database, &format!("{user}@example.org"), password));
    }
    // It is no user more.
    let users = [
        of("alice", "example.org", 1, 1),
        of("bob", "example.org", 1, 1),
    ];
    assert_eq!(list(&mut database, None), users);
    assert_eq!(database.user_count().expect("read"), 2);
    let export = database.export_users(None).expect("exported");
    assert_eq!(export.lines().count(), 3);
    database
        .set_password("example.org", "alice", "new", 2)
        .expect("set");
    assert!(is_good(&database, "alice@example.org", "new"));
    // Of a digest alone nobody knows the other, and the old one is good no more.
    database.import_users(&export, None, 3).expect("imported");
    assert!(is_good(&database, "alice", "a"));
    for password in ["a", "new"] {
        assert!(!is_good(&database, "alice@example.org", password));
    }
    // A list may have both, in any order.
    let md5 = |name: &str| {
        let ha1 = Ha1::compute(Algorithm::Md5, name.as_bytes(), b"example.org", b"c");
        let hex = ha1.expose().iter().map(|byte| format!("{byte:02x}"));
        format!("{name},example.org,{}\n", hex.collect::<String>())
    };
    let both = format!(
        "user,realm,ha1\n{}{}",
        md5("carol@example.org"),
        md5("carol")
    );
    database.import_users(&both, None, 4).expect("imported");
    assert_eq!(database.user_count().expect("read"), 3);
    let mut credentials = database.credentials().expect("opened");
    let key = CredentialKey::new(b"carol@example.org", "example.org".into(), Algorithm::Md5);
    let mut answers = Vec::new();
    credentials.find(&[key], &mut answers);
    assert!(matches!(answers[..], [Ok(Some(_))]));
    // Who is removed is removed under every name.
    for user in ["alice", "bob", "carol"] {
        database.remove_user("example.org", user).expect("removed");
    }
    assert_eq!(database.user_count().expect("read"), 0);
    assert!(!is_good(&database, "bob@example.org", "b"));
    let mut answers = Vec::new();
    let key = CredentialKey::new(b"carol@example.org", "example.org".into(), Algorithm::Md5);
    credentials.find(&[key], &mut answers);
    assert!(matches!(answers[..], [Ok(None)]));
}
