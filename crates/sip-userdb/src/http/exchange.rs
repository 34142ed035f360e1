//! What is asked of an endpoint and what it answers, as JSON.

use std::collections::HashMap;

use serde_json::{Value, json};
use sip_auth::Subject;
use sip_lookup::{BadRow, Row};

use crate::ha1s;
use crate::names::{self, ABSENT_USER};

/// The version of the format.
const VERSION: u32 = 1;

/// The body of a request. A user whose name is no text is not sent; another stands in his
/// place who is not there.
pub(super) fn write(subjects: &[Subject]) -> Vec<u8> {
    let users: Vec<Value> = subjects
        .iter()
        .map(|subject| {
            let user = names::as_text(subject.user()).unwrap_or(ABSENT_USER);
            json!({"user": user, "realm": &**subject.realm()})
        })
        .collect();
    json!({"version": VERSION, "users": users})
        .to_string()
        .into_bytes()
}

/// Reads the body of an answer: one row for each subject, in their order. Who is not in it is
/// unknown. An error is of the whole answer.
pub(super) fn read(subjects: &[Subject], body: &[u8]) -> Result<Vec<Row>, String> {
    let mut answer: Value = serde_json::from_slice(body)
        .map_err(|error| format!("what is not JSON ({})", ha1s::place(&error)))?;
    let rows = match answer.get("users").and_then(Value::as_array) {
        Some(users) => Ok(rows(subjects, users)),
        None => Err("without a list of `users`".to_owned()),
    };
    ha1s::wipe(&mut answer);
    rows
}

fn rows(subjects: &[Subject], users: &[Value]) -> Vec<Row> {
    let mut rows: Vec<Row> = subjects.iter().map(|_| Ok(None)).collect();
    let places: HashMap<(&str, &str), usize> = subjects
        .iter()
        .enumerate()
        .filter_map(|(at, subject)| {
            let user = names::as_text(subject.user())?;
            Some(((&**subject.realm(), user), at))
        })
        .collect();
    for user in users {
        let text = |name| user.get(name).and_then(Value::as_str);
        // What names nobody who was asked for is nobody's row.
        let row = text("realm")
            .zip(text("user"))
            .and_then(|key| places.get(&key))
            .and_then(|&at| rows.get_mut(at));
        if let Some(row) = row {
            *row = match (&row, user.get("ha1")) {
                (Ok(None), Some(ha1)) => ha1s::from_value(ha1).map(Some),
                (Ok(None), None) => Err(BadRow::Bad("has no ha1".to_owned())),
                _ => Err(BadRow::Bad("stands in the answer twice".to_owned())),
            };
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;
    use sip_auth::Algorithm;

    fn subjects(users: &[&[u8]]) -> Vec<Subject> {
        users
            .iter()
            .map(|user| Subject::new(user, "a.org".into()))
            .collect()
    }

    #[test]
    fn names_are_sent_as_text_or_not_at_all() {
        let users: &[&[u8]] = &[b"alice", b"\"}\\", b"\xff", b"a\0b", b"", "ä".as_bytes()];
        let body: Value = serde_json::from_slice(&write(&subjects(users))).unwrap();
        assert_eq!(body["version"], 1);
        let sent: Vec<_> = body["users"]
            .as_array()
            .unwrap()
            .iter()
            .map(|user| {
                assert_eq!(user["realm"], "a.org");
                user["user"].as_str().unwrap()
            })
            .collect();
        assert_eq!(
            sent,
            ["alice", "\"}\\", ABSENT_USER, ABSENT_USER, ABSENT_USER, "ä"]
        );
    }

    #[test]
    fn rows_find_their_users_whatever_their_order() {
        let subjects = subjects(&[b"alice", b"bob", b"carol", b"dave", b"erin", b"\xff"]);
        let body = json!({"users": [
            {"user": "signet-there-is-no-such-user", "realm": "a.org", "ha1": {"MD5": "00"}},
            {"user": "bob", "realm": "a.org", "ha1": {"MD5": "0123456789abcdef0123456789abcdef"}},
            {"user": "alice", "realm": "a.org", "ha1": {"MD5": "nothex"}},
            {"user": "carol", "realm": "A.org", "ha1": {"MD5": "0123456789abcdef0123456789abcdef"}},
            {"user": "dave", "realm": "a.org"},
            {"user": "erin", "realm": "a.org", "ha1": {"MD5": "0123456789abcdef0123456789abcdef"}},
            {"user": "erin", "realm": "a.org", "ha1": {"MD5": "0123456789abcdef0123456789abcdef"}},
            {"user": 7}, null, [],
        ]});
        let rows = read(&subjects, body.to_string().as_bytes()).unwrap();
        assert!(rows[0].is_err());
        let bob = rows[1].as_ref().unwrap().as_ref().unwrap();
        assert!(bob.get(Algorithm::Md5).is_some());
        assert_eq!(rows[2], Ok(None), "another realm");
        assert!(rows[3].is_err() && rows[4].is_err());
        assert_eq!(rows[5], Ok(None));
    }

    #[test]
    fn an_answer_that_is_none_fails_as_a_whole() {
        let deep = "[".repeat(10_000);
        for body in ["", "{}", "[]", "{\"users\":{}}", "<html>", &deep] {
            assert!(read(&subjects(&[b"alice"]), body.as_bytes()).is_err());
        }
    }
}
