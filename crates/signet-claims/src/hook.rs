//! What a program of the operator's can do by what it answers.

use sip_hook::{Action, Answer, may_be_set, read_answers};
use sip_msg::{Limits, Message};

const URI: &str = "sip:bob@example.org";
const HEAD: &[u8] = b"Via: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK1\r\nMax-Forwards: 70\r\n\
    From: <sip:alice@example.org>;tag=a\r\nTo: <sip:bob@example.org>\r\nCall-ID: 1\r\n\
    CSeq: 1 INVITE\r\nContact: <sip:alice@192.0.2.1>\r\n";
const HEAD_FIELDS: usize = 7;

/// Whatever a program answers, a request with the Request-URI and the headers of an answer is a
/// request with these and with no other line, and the words of a rejection stay in theirs. An
/// input is the body of what it answers.
pub fn hook(data: &[u8]) {
    let Ok(answers) = read_answers(data) else {
        return;
    };
    for answer in answers
        .iter()
        .filter_map(|(_, answer)| answer.as_ref().ok())
    {
        stays_in_its_place(answer);
    }
}

fn stays_in_its_place(answer: &Answer) {
    let uri = match answer.action() {
        Action::Rewrite { request_uri } => request_uri,
        Action::ToUser { uri } => uri,
        Action::ToGroup { request_uri, .. } => request_uri.as_deref().unwrap_or(URI),
        Action::Continue => URI,
        Action::Reject { status, words } => {
            assert!((400..700).contains(status), "{status} is no rejection");
            assert!(
                !words.chars().any(char::is_control),
                "the words have a line end"
            );
            URI
        }
    };
    let (uri, lines) = (uri.as_bytes(), answer.headers().lines());
    let text = [
        b"INVITE ",
        uri,
        b" SIP/2.0\r\n",
        HEAD,
        lines,
        b"Content-Length: 0\r\n\r\n",
    ];
    let message = Message::parse(&text.concat(), &Limits::default()).expect("a message");
    assert!(
        message.validate().is_ok(),
        "it would be refused by ourselves"
    );
    assert_eq!(message.request_uri(), uri);
    assert!(message.body().is_empty(), "something was taken for a body");
    let names: Vec<&str> = answer.headers().names().collect();
    assert_eq!(message.fields().count(), HEAD_FIELDS + names.len() + 1);
    for (field, name) in message.fields().skip(HEAD_FIELDS).zip(names) {
        assert_eq!(field.raw_name, name.as_bytes());
        assert!(may_be_set(name), "{name} is not an answer's to set");
    }
}
