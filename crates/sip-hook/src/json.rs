//! Questions and answers as JSON.

use serde_json::{Value, json};

use crate::{Answer, Question};

/// The version of the form.
const VERSION: u64 = 1;

/// An answer in the list of a program: to which question, and what it says or what is wrong with
/// it.
type Given = (Option<u64>, Result<Answer, String>);

/// The body of a request.
pub(crate) fn write<'q>(questions: impl Iterator<Item = (u64, &'q Question)>) -> Vec<u8> {
    let questions: Vec<Value> = questions.map(|(id, of)| of.to_json(id)).collect();
    let body = json!({"version": VERSION, "questions": questions});
    body.to_string().into_bytes()
}

/// Reads the body of an answer. An error is of the whole; what is wrong with one answer is that
/// one's alone.
pub fn read(body: &[u8]) -> Result<Vec<Given>, String> {
    let body: Value = serde_json::from_slice(body).map_err(|error| {
        format!(
            "its answer is not JSON (line {}, column {})",
            error.line(),
            error.column()
        )
    })?;
    match body.get("version") {
        None | Some(Value::Null) => {}
        Some(version) if version.as_u64() == Some(VERSION) => {}
        Some(_) => return Err("its answer has a `version` that is not known".to_owned()),
    }
    let Some(answers) = body.get("answers").and_then(Value::as_array) else {
        return Err("its answer has no list of `answers`".to_owned());
    };
    let given = |given: &Value| {
        let id = given.get("id").and_then(Value::as_u64);
        (id, Answer::read(given))
    };
    Ok(answers.iter().map(given).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::question::a_call;

    #[test]
    fn what_callers_choose_stays_in_its_text() {
        let mut question = a_call("alice@example.com", "sip:\"},{\"id\":1,\\@example.com");
        question.call_id = "</script>\"\\".into();
        question.route = "sip:p.example;lr".into();
        let body = write([(7, &question)].into_iter());
        let read: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(
            read,
            json!({"version": 1, "questions": [{
                "id": 7,
                "kind": "call",
                "method": "INVITE",
                "from": "sip:alice@example.com",
                "to": "sip:\"},{\"id\":1,\\@example.com",
                "request_uri": "sip:\"},{\"id\":1,\\@example.com",
                "number": null,
                "route": "sip:p.example;lr",
                "user": "alice@example.com",
                "class": "user",
                "source": "192.0.2.1",
                "source_port": 5060,
                "transport": "udp",
                "call_id": "</script>\"\\",
            }]})
        );
    }

    #[test]
    fn one_bad_answer_is_one_bad_answer() {
        let body = br#"{"version":1,"answers":[
            {"id":1,"action":"continue"},
            {"id":2,"action":"explode"},
            {"action":"continue"},
            7,
            {"id":"3","action":"continue"}
        ]}"#;
        let given = read(body).unwrap();
        let seen: Vec<_> = given.iter().map(|(id, of)| (*id, of.is_ok())).collect();
        assert_eq!(
            seen,
            [
                (Some(1), true),
                (Some(2), false),
                (None, true),
                (None, false),
                (None, true)
            ]
        );
    }

    #[test]
    fn what_is_no_list_of_answers_is_none_of_them() {
        let deep = [b"[".repeat(100_000), b"]".repeat(100_000)].concat();
        for body in [
            &b""[..],
            b"{",
            b"[]",
            b"null",
            b"{}",
            b"{\"answers\":{}}",
            b"{\"version\":2,\"answers\":[]}",
            b"{\"answers\":[]} {\"answers\":[]}",
            b"\xff\xfe",
            &deep,
        ] {
            assert!(read(body).is_err(), "{}", body.escape_ascii());
        }
        assert_eq!(read(b"{\"answers\":[]}"), Ok(Vec::new()));
    }
}
