//! `docs/HOOK.md` has the form of questions and answers as it is.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use sip_hook::{
    Action, Cache, CacheConfig, Kind, Question, Queue, QueueConfig, may_be_set, read_answers,
};

fn document() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/HOOK.md");
    fs::read_to_string(path).unwrap()
}

/// The blocks of JSON that have this.
fn block(document: &str, name: &str) -> String {
    let blocks = document.split("```json\n").skip(1);
    let mut blocks = blocks.filter_map(|rest| rest.split("```").next());
    let wanted = format!("\"{name}\": [\n");
    blocks
        .find(|block| block.contains(&wanted))
        .unwrap()
        .to_owned()
}

#[test]
fn what_is_asked_has_the_documents_fields_and_no_others() {
    let document = document();
    let shown: Value = serde_json::from_str(&block(&document, "questions")).unwrap();
    let cache = Arc::new(Cache::new([0; 16], CacheConfig::default()));
    let mut queue = Queue::new(QueueConfig::default(), cache);
    let text = |name: &str| {
        shown["questions"][0][name]
            .as_str()
            .unwrap_or_default()
            .into()
    };
    let question = Question {
        kind: Kind::Call,
        from: text("from"),
        to: text("to"),
        request_uri: text("request_uri"),
        number: text("number"),
        route: text("route"),
        user: text("user"),
        class: "user",
        source: "192.0.2.7".parse().unwrap(),
        source_port: 5060,
        transport: "udp",
        call_id: text("call_id"),
    };
    // The eighth, as in the document.
    for nth in 0..8 {
        queue.submit(0, nth, Box::new(question.clone()), 1).unwrap();
    }
    let mut last = None;
    while let Some(batch) = queue.poll_batch(0) {
        last = Some(batch);
        let id = last.as_ref().map(|batch| batch.id).unwrap();
        queue.handle_answer(0, id, br#"{"answers": []}"#);
    }
    let mut asked: Value = serde_json::from_slice(&last.unwrap().body).unwrap();
    let asked = asked["questions"].as_array_mut().unwrap().pop().unwrap();
    assert_eq!(asked, shown["questions"][0]);
    for name in asked.as_object().unwrap().keys() {
        let in_table = document.lines().any(|line| {
            let first = line
                .strip_prefix("| ")
                .and_then(|rest| rest.split(" |").next());
            first.is_some_and(|cell| cell.contains(&format!("`{name}`")))
        });
        assert!(in_table, "{name} has no row");
    }
}

#[test]
fn what_the_document_answers_is_answered() {
    let document = document();
    let answers = read_answers(block(&document, "answers").as_bytes()).unwrap();
    let read: Vec<_> = answers
        .into_iter()
        .map(|(id, answer)| (id, answer.unwrap()))
        .collect();
    let ids: Vec<_> = read.iter().map(|(id, _)| id.unwrap()).collect();
    assert_eq!(ids, [7, 8, 9, 10, 11]);
    let actions: Vec<&Action> = read.iter().map(|(_, answer)| answer.action()).collect();
    assert!(matches!(
        actions[..],
        [
            Action::Reject { status: 403, .. },
            Action::ToGroup { .. },
            Action::ToUser { .. },
            Action::Rewrite { .. },
            Action::Continue,
        ]
    ));
    assert_eq!(read[1].1.headers().lines(), b"X-Account: 4711\r\n");
    for action in ["continue", "reject", "route", "rewrite"] {
        let row = format!("| `{action}` |");
        assert!(document.contains(&row), "{row}");
    }
}

#[test]
fn what_cannot_be_listed_is_what_the_document_names() {
    for name in [
        "Via",
        "Route",
        "Contact",
        "From",
        "Content-Type",
        "Authorization",
    ] {
        assert!(document().contains(name) && !may_be_set(name), "{name}");
    }
    assert!(may_be_set("P-Asserted-Identity"));
}
