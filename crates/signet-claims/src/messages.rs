//! Messages: read, answered, edited.

#[path = "../../sip-msg/tests/naive/mod.rs"]
mod naive;

use sip_msg::header::{AuthParams, Contact, NameAddr};
use sip_msg::{Edits, HeaderName, Limits, Message, ResponseWriter, Span, Uri};

/// Nothing panics; what validates reads alike to the most forgiving reader;
/// every fault can be answered.
pub fn parse(data: &[u8]) {
    let mut message = Message::default();
    let read = message
        .fill(data, &Limits::default())
        .and_then(|()| message.validate());
    read_all(&message);
    match read {
        Ok(()) => {
            let field = |f: sip_msg::Field<'_>| (f.raw_name.to_vec(), naive::unfold(f.value));
            let (theirs, body) = naive::read(message.bytes());
            assert_eq!(message.fields().map(field).collect::<Vec<_>>(), theirs);
            assert_eq!(message.body(), body);
        }
        Err(error) if message.is_answerable() => {
            let mut out = Vec::new();
            ResponseWriter::begin(&mut out, &message, error.status(), error.reason(), b"t")
                .finish(b"");
            // It has the Vias that came, however many those are.
            let limits = Limits {
                message_bytes: out.len(),
                header_bytes: out.len(),
                header_count: usize::MAX,
                ..Limits::default()
            };
            let answer = Message::parse(&out, &limits).expect("the answer is a message");
            assert_eq!(answer.status(), error.status());
        }
        Err(_) => {}
    }
    message.stamp_received(std::net::SocketAddr::from(([192, 0, 2, 7], 5060)));
    read_all(&message);
    for text in data.split(|b| *b == b'\n').take(8) {
        read_value(text);
    }
}

/// Edits are those of a naive model; a message with its first Via cut is a
/// message with the other Vias. The first bytes say what to edit.
pub fn edit(data: &[u8]) {
    let (plan, bytes) = data.split_at(data.len().min(12));
    let mut edits = Edits::default();
    let mut expected = bytes.to_vec();
    let mut model: Vec<(usize, usize, u8)> = Vec::new();
    for wanted in plan.chunks_exact(3) {
        let start = bytes.len() * usize::from(wanted[0]) / 255;
        let end = (start + usize::from(wanted[1] % 32)).min(bytes.len());
        if model
            .iter()
            .all(|&(s, e, _)| start != s && (end <= s || start >= e))
        {
            edits.replace(
                Span {
                    start: start as u32,
                    end: end as u32,
                },
                &[wanted[2]],
            );
            model.push((start, end, wanted[2]));
        }
    }
    model.sort_unstable();
    let mut out = Vec::new();
    edits.apply_to(bytes, &mut out);
    for &(start, end, text) in model.iter().rev() {
        expected.splice(start..end, [text]);
    }
    assert_eq!(out, expected);

    let Ok(message) = Message::parse(bytes, &Limits::default()) else {
        return;
    };
    let vias = |m: &Message| {
        m.values(HeaderName::Via)
            .map(|(v, _)| v.to_vec())
            .collect::<Vec<_>>()
    };
    let had = vias(&message);
    if had.iter().any(Vec::is_empty) {
        return;
    }
    edits.clear();
    edits.remove_first_value(&message, HeaderName::Via);
    out.clear();
    edits.apply(&message, &mut out);
    let after = Message::parse(&out, &Limits::default()).expect("what is left is a message");
    assert_eq!(vias(&after), had.get(1..).unwrap_or_default());
    assert_eq!(after.body(), message.body());
}

fn read_all(message: &Message) {
    for field in message.fields() {
        assert_eq!(message.slice(field.value_span), field.value);
        for (element, span) in message.values(field.name) {
            assert_eq!(message.slice(span), element);
        }
    }
    let _ = (
        message.vias().count(),
        message.contacts().count(),
        message.uri().is_ok(),
    );
    let _ = (
        message.max_forwards().is_ok(),
        message.cseq().is_ok(),
        message.expires_s(),
    );
    for name in [HeaderName::Authorization, HeaderName::WwwAuthenticate] {
        for (value, _) in message.values(name) {
            read_value(value);
        }
    }
}

fn read_value(value: &[u8]) {
    let _ = Contact::parse(value);
    if let Some(addr) = NameAddr::parse(value) {
        let _ = (addr.tag(), addr.params().count(), addr.uri().is_some());
    }
    if let Some(params) = AuthParams::parse(value) {
        for param in params.iter() {
            param.value.write_to(&mut Vec::new());
        }
    }
    if let Some(uri) = Uri::parse(value) {
        uri.write_aor(&mut Vec::new());
        let _ = (uri.equals(&uri), uri.transport(), uri.host_port.ip());
    }
}
