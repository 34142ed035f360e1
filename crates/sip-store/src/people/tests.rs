use super::*;
use crate::testing::Folder;

fn alias(name: &str, target: &str, q: u16) -> AliasRow {
    AliasRow {
        name: name.to_owned(),
        domain: "example.org".to_owned(),
        target: target.to_owned(),
        q,
    }
}

fn forwarding(user: &str, always: Option<&str>, busy: Option<&str>) -> PersonRow {
    PersonRow {
        user: user.to_owned(),
        realm: "example.org".to_owned(),
        forward_always: always.map(str::to_owned),
        forward_busy: busy.map(str::to_owned),
        ..PersonRow::default()
    }
}

#[track_caller]
fn refused(result: Result<(), StoreError>, told: &str) {
    let error = result.expect_err("refused");
    assert_eq!(error.kind(), StoreErrorKind::Input);
    assert!(error.to_string().contains(told), "{error}");
}

#[test]
fn aliases_come_and_go_and_the_most_preferred_target_is_first() {
    let folder = Folder::new();
    let mut database = folder.open();
    let rows = [
        alias("sales", "sip:bob@example.org", 500),
        alias("sales", "sip:alice@example.org", 1_000),
    ];
    database.add_alias(&rows).expect("added");
    database
        .add_alias(&[alias("+49301", "sip:alice@example.org", 1_000)])
        .expect("added");
    let names: Vec<_> = database.aliases().expect("read");
    let names: Vec<_> = names.iter().map(|row| (&*row.name, &*row.target)).collect();
    let [alice, bob] = ["sip:alice@example.org", "sip:bob@example.org"];
    assert_eq!(names, [("+49301", alice), ("sales", alice), ("sales", bob)]);
    // Once more is another preference.
    database
        .add_alias(&[alias("sales", bob, 900)])
        .expect("changed");
    assert_eq!(database.aliases().expect("read").len(), 3);
    let mut remove = |name, target| database.remove_alias(name, "example.org", target);
    assert_eq!(remove("sales", Some(bob)).expect("removed"), 1);
    assert_eq!(remove("sales", None).expect("removed"), 1);
    assert_eq!(remove("sales", None).expect("gone"), 0);
    assert_eq!(database.aliases().expect("read").len(), 1);
}

#[test]
fn a_user_is_one_whatever_the_case_of_his_name() {
    let folder = Folder::new();
    let mut database = folder.open();
    let [upper, lower] = ["ALICE", "alice"].map(|user| PersonRow {
        permissions: Some(user.to_owned()),
        ..forwarding(user, None, None)
    });
    database.put_person(&upper).expect("written");
    database.put_person(&lower).expect("written");
    // Of two rows the engine could go by one alone.
    assert_eq!(
        database.people().expect("read"),
        std::slice::from_ref(&lower)
    );
    let found = database.person("example.org", "Alice").expect("read");
    assert_eq!(found, Some(lower));
    assert!(
        database
            .remove_person("example.org", "aLICE")
            .expect("removed")
    );
    assert!(database.people().expect("read").is_empty());
}

#[test]
fn an_alias_is_known_by_name_and_domain() {
    let folder = Folder::new();
    let mut database = folder.open();
    database
        .add_alias(&[alias("desk", "sip:bob@example.org", 1_000)])
        .expect("added");
    for (name, domain, is_there) in [
        ("desk", "example.org", true),
        ("desk", "example.net", false),
        ("des", "example.org", false),
    ] {
        assert_eq!(database.has_alias(name, domain).expect("read"), is_there);
    }
}

#[test]
fn what_leads_in_a_circle_or_too_far_is_not_written() {
    let folder = Folder::new();
    let mut database = folder.open();
    refused(
        database.add_alias(&[alias("a", "sip:a@example.org", 1_000)]),
        "a@example.org would lead back to itself",
    );
    let to = |name: &str, other: &str| alias(name, &format!("sip:{other}@example.org"), 1_000);
    database.add_alias(&[to("a", "b")]).expect("added");
    database.add_alias(&[to("b", "c")]).expect("added");
    refused(database.add_alias(&[to("c", "a")]), "back to itself");
    let back = forwarding("c", Some("sip:a@example.org"), None);
    refused(database.put_person(&back), "back to itself");
    assert_eq!(database.people().expect("read").len(), 0, "nothing is left");
    // Both busy ends it.
    let busy = forwarding("c", None, Some("sip:a@example.org"));
    database.put_person(&busy).expect("written");
    database
        .add_alias(&[to("c", "d"), to("d", "e")])
        .expect("four steps");
    refused(database.add_alias(&[to("z", "a")]), "more than 4 names");
    database
        .add_alias(&[to("z", "b")])
        .expect("four from there");
    let many: Vec<_> = (0..=TARGETS_MAX)
        .map(|n| alias("many", &format!("sip:u{n}@example.org"), 1_000))
        .collect();
    refused(database.add_alias(&many), "32 targets at most");
    let rows = database.aliases().expect("read");
    assert!(rows.iter().all(|row| row.name != "many"), "all or none");
}

#[test]
fn what_is_written_of_a_user_is_read_as_it_was() {
    let folder = Folder::new();
    let mut database = folder.open();
    let alice = PersonRow {
        user: "alice".to_owned(),
        realm: "example.org".to_owned(),
        permissions: Some("national".to_owned()),
        group: Some("staff".to_owned()),
        caller_id: Some("+4930123".to_owned()),
        calls_max: Some(2),
        forward_always: None,
        forward_busy: Some("sip:bob@example.org".to_owned()),
        forward_no_answer: Some("sip:+4930@example.org".to_owned()),
        no_answer_s: Some(15),
    };
    database.put_person(&alice).expect("written");
    let read = database.person("example.org", "alice").expect("read");
    assert_eq!(read.as_ref(), Some(&alice));
    assert_eq!(
        database.people().expect("read"),
        std::slice::from_ref(&alice)
    );
    // Nothing to say of him is no row.
    let nothing = forwarding("alice", None, None);
    assert!(nothing.is_empty() && !alice.is_empty());
    database.put_person(&nothing).expect("written");
    assert_eq!(database.people().expect("read"), []);
    database.put_person(&alice).expect("written");
    assert!(
        database
            .remove_person("example.org", "alice")
            .expect("removed")
    );
    assert!(
        !database
            .remove_person("example.org", "alice")
            .expect("gone")
    );
    for bad in ["", "a b", "a\r\nb", "<a>", &"x".repeat(256)] {
        let person = PersonRow {
            caller_id: Some(bad.to_owned()),
            ..alice.clone()
        };
        refused(database.put_person(&person), "is no name, number or URI");
    }
}
