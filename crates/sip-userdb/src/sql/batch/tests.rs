#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use std::sync::Arc;

use super::*;

fn subject(user: &[u8], realm: &str) -> Subject {
    Subject::new(user, Arc::from(realm))
}

fn as_text(subject: &Subject) -> Option<String> {
    str::from_utf8(subject.user()).ok().map(str::to_owned)
}

fn row<'a>(user: &'a str, realm: Option<&'a str>) -> Read<'a> {
    Read {
        user: user.as_bytes(),
        realm: realm.map(str::as_bytes),
        secrets: Ok(Secrets::default()),
    }
}

#[test]
fn a_realm_is_a_statement_and_so_are_names_beyond_ascii() {
    let subjects = [
        subject(b"a", "x.org"),
        subject(b"b", "y.org"),
        subject("ü".as_bytes(), "x.org"),
        subject(b"c", "x.org"),
    ];
    let groups = groups(&subjects, 8, as_text);
    let seen: Vec<_> = groups
        .iter()
        .map(|group| (group.realm.as_str(), group.names.join(" "), group.is_ascii))
        .collect();
    assert_eq!(
        seen,
        [
            ("x.org", "a c".to_owned(), true),
            ("y.org", "b".to_owned(), true),
            ("x.org", "ü".to_owned(), false),
        ]
    );
}

#[test]
fn a_statement_has_no_more_names_than_it_may() {
    let subjects: Vec<Subject> = (0..10)
        .map(|n| subject(format!("u{n}").as_bytes(), "x.org"))
        .collect();
    let lengths: Vec<usize> = groups(&subjects, 4, as_text)
        .iter()
        .map(|group| group.names.len())
        .collect();
    assert_eq!(lengths, [4, 4, 2]);
}

#[test]
fn what_cannot_be_sent_is_asked_as_nobody() {
    let long = vec![b'x'; 8_192];
    let subjects = [
        subject(b"\xff", "x.org"),
        subject(b"a\0b", "x.org"),
        subject(&long, "x.org"),
        subject(b"a", "x\0.org"),
    ];
    let groups = groups(&subjects, 8, as_text);
    let mut sheet = Sheet::new(subjects.len());
    for group in &groups {
        for name in &group.names {
            assert_eq!(name, NOBODY);
            sheet.row(group, row(NOBODY, None));
        }
    }
    assert_eq!(groups.iter().map(|g| g.names.len()).sum::<usize>(), 4);
    assert!(sheet.finish().iter().all(|row| *row == Ok(None)));
}

#[test]
fn rows_count_for_the_exact_name_and_realm_alone() {
    let subjects = [subject(b"alice", "x.org"), subject(b"bob", "x.org")];
    let groups = groups(&subjects, 8, as_text);
    let mut sheet = Sheet::new(2);
    for (user, realm) in [
        ("Alice", Some("x.org")),
        ("alice ", Some("x.org")),
        ("alice", Some("X.org")),
        ("alicé", Some("x.org")),
        ("carol", Some("x.org")),
    ] {
        sheet.row(&groups[0], row(user, realm));
    }
    sheet.row(&groups[0], row("bob", None));
    let known = Ok(Some(Secrets::default()));
    assert_eq!(sheet.finish(), [Ok(None), known]);
}

#[test]
fn a_row_is_another_questions_where_no_collation_can_have_found_it() {
    let subjects = [
        subject(b"alice7", "x.org"),
        subject("\u{1}".as_bytes(), "x.org"),
    ];
    let group = groups(&subjects, 8, as_text).remove(0);
    let is_of_another =
        |user: &str, realm: &str| group.is_of_another(user.as_bytes(), Some(realm.as_bytes()));
    // Accents and widths, case, what is no letter, letters that are one in some language.
    for user in [
        "alice7",
        "ALICE7 ",
        "a-lice\u{2}7",
        "alicé7",
        "ａlice7",
        "aljce7",
        "allyyce7",
        "",
    ] {
        assert!(!is_of_another(user, "x.org"), "{user}");
    }
    for user in ["bob", "alice", "alice77", "alice8", "alicia7"] {
        assert!(is_of_another(user, "x.org"), "{user}");
    }
    // Numbers by what they are worth, whatever ends them.
    let of_numbers = groups(&[subject(b"a1-0b20", "x.org")], 8, as_text).remove(0);
    for (user, is_alike) in [
        ("a01-00b020", true),
        ("a10b0020", true),
        ("a1-0b2", false),
        ("a1-0b200", false),
        ("a1-1b20", false),
    ] {
        let is_of_another = of_numbers.is_of_another(user.as_bytes(), None);
        assert_eq!(is_of_another, !is_alike, "{user}");
    }
    assert!(is_of_another("alice7", "y.org") && !is_of_another("alice7", "X.ORG"));
    assert!(!group.is_of_another(b"alice7", None));
    // What is beyond ASCII in a question may be equal to anything.
    let odd = [
        subject("ålice".as_bytes(), "x.org"),
        subject(b"bob", "ü.org"),
    ];
    for group in groups(&odd, 8, as_text) {
        assert!(!group.is_of_another(b"carol", None));
    }
}

#[test]
fn two_rows_for_one_user_are_none() {
    let subjects = [subject(b"alice", "x.org"), subject(b"bob", "x.org")];
    let groups = groups(&subjects, 8, as_text);
    let mut sheet = Sheet::new(2);
    for user in ["alice", "bob", "alice", "alice"] {
        sheet.row(&groups[0], row(user, Some("x.org")));
    }
    let rows = sheet.finish();
    assert!(
        rows[0]
            .as_ref()
            .is_err_and(|bad| bad.to_string().contains("more than one"))
    );
    assert_eq!(rows[1], Ok(Some(Secrets::default())));
}

#[test]
fn a_group_comes_apart_without_losing_anyone() {
    let subjects = ["ä", "ö", "ü"].map(|user| subject(user.as_bytes(), "x.org"));
    let group = groups(&subjects, 8, as_text).remove(0);
    let mut sheet = Sheet::new(3);
    for single in group.parts() {
        assert_eq!(single.names.len(), 1);
        match single.names[0].as_str() {
            "ö" => sheet.refused(&single, "no such letter"),
            name => assert!(sheet.row(&single, row(name, None))),
        }
    }
    let rows = sheet.finish();
    assert!(rows[0].is_ok() && rows[2].is_ok());
    assert!(
        rows[1]
            .as_ref()
            .is_err_and(|bad| bad.to_string().contains("no such letter"))
    );
}

#[test]
fn one_name_of_many_is_found_in_few_statements() {
    let users = (0..256).map(|n| subject(format!("é{n}").as_bytes(), "x.org"));
    let subjects: Vec<Subject> = users.collect();
    let asked = groups(&subjects, 256, as_text);
    let is_refused = |group: &Group| group.names.iter().any(|name| name == "é77");
    let (mut statements, mut rounds) = (0, 0);
    let mut next = asked;
    let mut sheet = Sheet::new(subjects.len());
    let mut blamed = Vec::new();
    while !next.is_empty() {
        rounds += 1;
        statements += next.len();
        let (refused, taken): (Vec<_>, Vec<_>) = next.into_iter().partition(&is_refused);
        for group in taken {
            for name in group.names.clone() {
                assert!(sheet.row(&group, row(&name, None)));
            }
        }
        let refused = refused.into_iter().map(|group| (group, "no".to_owned()));
        let (singles, parts) = apart(refused.collect());
        blamed.extend(singles.into_iter().flat_map(|(group, _)| group.names));
        next = parts;
    }
    assert_eq!(blamed, ["é77"]);
    assert!(statements <= 21 && rounds <= 4, "{statements}, {rounds}");
    let unknown = sheet.finish().into_iter().filter(|row| *row == Ok(None));
    assert_eq!(unknown.count(), 1);
}
