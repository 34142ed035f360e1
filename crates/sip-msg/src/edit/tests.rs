use super::*;
use crate::Limits;

const REQUEST: &str = "INVITE sip:bob@b SIP/2.0\r\n\
Via: SIP/2.0/UDP a;branch=z9hG4bK1\r\n\
Route: <sip:p1;lr>,\r\n <sip:p2;lr>\r\n\
Route: <sip:p3;lr>\r\n\
Max-Forwards: 70\r\n\
\r\n\
body";

fn edited(edit: impl FnOnce(&mut Edits, &Message)) -> String {
    let message = Message::parse(REQUEST.as_bytes(), &Limits::default()).expect("well formed");
    let mut edits = Edits::default();
    edit(&mut edits, &message);
    let mut out = b"kept ".to_vec();
    edits.apply(&message, &mut out);
    let text = String::from_utf8(out).expect("text");
    text.strip_prefix("kept ")
        .expect("what was there stays")
        .to_owned()
}

#[test]
fn nothing_done_is_nothing_changed() {
    assert_eq!(edited(|_, _| {}), REQUEST);
}

#[test]
fn a_forwarding() {
    let text = edited(|edits, message| {
        edits.replace(message.request_uri_span(), b"sip:bob@10.0.0.1");
        let max_forwards = message.first(HeaderName::MaxForwards).expect("there");
        edits.replace(max_forwards.value_span, b"69");
        edits.remove_first_value(message, HeaderName::Route);
        edits.insert(message.headers_start(), b"Via: SIP/2.0/UDP me\r\n");
        edits.insert_with(message.headers_start(), |out| {
            out.extend_from_slice(b"Record-Route: <sip:me;lr>\r\n")
        });
        let via = message.top_via().expect("there");
        edits.insert(via.span.end, b";received=1.2.3.4");
    });
    let expected = REQUEST
        .replacen("sip:bob@b", "sip:bob@10.0.0.1", 1)
        .replacen(
            "Via: ",
            "Via: SIP/2.0/UDP me\r\nRecord-Route: <sip:me;lr>\r\nVia: ",
            1,
        )
        .replacen("z9hG4bK1", "z9hG4bK1;received=1.2.3.4", 1)
        .replacen("<sip:p1;lr>,\r\n ", "", 1)
        .replacen("70", "69", 1);
    assert_eq!(text, expected);
}

#[test]
fn elements_are_cut_across_lines() {
    let cut = |count| {
        edited(|edits, message| edits.remove_first_values(message, HeaderName::Route, count))
    };
    let without = |lines: &[&str]| {
        lines
            .iter()
            .fold(REQUEST.to_owned(), |text, line| text.replacen(line, "", 1))
    };
    let (one, two, three) = (
        "<sip:p1;lr>,\r\n ",
        "Route: <sip:p1;lr>,\r\n <sip:p2;lr>\r\n",
        "Route: <sip:p3;lr>\r\n",
    );
    assert_eq!(cut(0), REQUEST);
    assert_eq!(cut(1), without(&[one]));
    assert_eq!(cut(2), without(&[two]));
    assert_eq!(cut(3), without(&[two, three]));
    assert_eq!(cut(9), without(&[two, three]));
    assert_eq!(
        edited(|e, m| e.remove_all(m, HeaderName::Route)),
        without(&[two, three])
    );
    assert_eq!(
        edited(|e, m| e.remove_first_value(m, HeaderName::Via)),
        without(&["Via: SIP/2.0/UDP a;branch=z9hG4bK1\r\n"])
    );
}

#[test]
fn order_at_one_place() {
    let text = edited(|edits, message| {
        let span = message
            .first(HeaderName::MaxForwards)
            .expect("there")
            .value_span;
        edits.replace(span, b"2");
        edits.insert(span.start, b"0");
        edits.insert(span.start, b"1");
        edits.insert(span.end, b"3");
    });
    assert_eq!(text, REQUEST.replacen("70", "0123", 1));
}

#[test]
fn overlaps_and_strays_are_survived() {
    let text = edited(|edits, _| {
        edits.remove(Span { start: 0, end: 10 });
        edits.replace(Span { start: 5, end: 12 }, b"x");
        edits.remove(Span { start: 6, end: 8 });
        edits.insert(9_999, b"tail");
        edits.remove(Span {
            start: 9_000,
            end: 9_999,
        });
    });
    assert_eq!(text, format!("x{}tail", &REQUEST[12..]));
}

#[test]
fn cleared_edits_are_forgotten() {
    let mut edits = Edits::default();
    edits.insert(0, b"x");
    assert!(!edits.is_empty());
    edits.clear();
    let mut out = Vec::new();
    edits.apply_to(b"abc", &mut out);
    assert_eq!(out, b"abc");
}
