use super::super::{Opcode, write_close, write_frame, write_message};
use super::*;

const MASK: [u8; 4] = [0x37, 0xFA, 0x21, 0x3D];
const MAX: usize = 65_535;

fn frame(opcode: Opcode, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    write_frame(opcode, payload, Some(MASK), &mut out);
    out
}

/// A frame that is not the last of its message.
fn part(opcode: Opcode, payload: &[u8]) -> Vec<u8> {
    let mut out = frame(opcode, payload);
    out[0] &= !FIN;
    out
}

/// All that comes of `input`, given to the reader in pieces of `step` bytes.
fn read_in(
    mut reader: Reader,
    input: &[u8],
    step: usize,
) -> (Vec<(Item, Vec<u8>)>, Option<WebSocketFault>) {
    let (mut items, mut payload, mut at, mut end) = (Vec::new(), Vec::new(), 0, 0);
    loop {
        match reader.next(&input[at..end], MAX, &mut payload) {
            Err(fault) => return (items, Some(fault)),
            Ok(Taken::More) if end == input.len() => return (items, None),
            Ok(Taken::More) => end = (end + step).min(input.len()),
            Ok(Taken::Frame { len, item }) => {
                assert!(len > 0);
                at += len;
                items.push((item, payload.clone()));
            }
        }
    }
}

fn read(input: &[u8]) -> (Vec<(Item, Vec<u8>)>, Option<WebSocketFault>) {
    read_in(Reader::of_server(), input, input.len())
}

fn fault(input: &[u8]) -> Option<WebSocketFault> {
    read(input).1
}

#[test]
fn the_examples_of_the_rfc() {
    // RFC 6455 5.7: "A single-frame masked text message" that contains "Hello".
    let masked = [
        0x81, 0x85, 0x37, 0xFA, 0x21, 0x3D, 0x7F, 0x9F, 0x4D, 0x51, 0x58,
    ];
    assert_eq!(
        read(&masked).0,
        [(Item::Message, b"Hello".to_vec())],
        "masked"
    );
    assert_eq!(frame(Opcode::Text, b"Hello"), masked);
    // "A fragmented unmasked text message", "Unmasked Ping request and masked
    // Ping response".
    let parts = [0x01, 0x03, b'H', b'e', b'l', 0x80, 0x02, b'l', b'o'];
    let (items, fault) = read_in(Reader::of_client(), &parts, 1);
    assert_eq!(
        (items[1].clone(), fault),
        ((Item::Message, b"Hello".to_vec()), None)
    );
    let ping = [0x89, 0x05, b'H', b'e', b'l', b'l', b'o'];
    let (items, _) = read_in(Reader::of_client(), &ping, 2);
    assert_eq!(items, [(Item::Ping, b"Hello".to_vec())]);
    // "256 bytes binary message in a single unmasked frame", "64KiB binary
    // message in a single unmasked frame".
    let mut out = Vec::new();
    write_frame(Opcode::Binary, &[0; 256], None, &mut out);
    assert_eq!(out[..4], [0x82, 0x7E, 0x01, 0x00]);
    out.clear();
    write_frame(Opcode::Binary, &[0; 65_536], None, &mut out);
    assert_eq!(out[..10], [0x82, 0x7F, 0, 0, 0, 0, 0, 1, 0, 0]);
}

#[test]
fn it_does_not_matter_how_the_bytes_are_cut() {
    let mut input = Vec::new();
    let texts = [
        "".to_owned(),
        "x".to_owned(),
        "y".repeat(125),
        "z".repeat(126),
        "ä".repeat(3_000),
    ];
    for text in &texts {
        write_message(text.as_bytes(), Some(MASK), &mut input);
    }
    write_message(b"\xFF\x00 no text", Some(MASK), &mut input);
    input.extend(part(Opcode::Text, "gr".as_bytes()));
    input.extend(frame(Opcode::Ping, b"amid"));
    // A letter is cut in two: only the whole must be UTF-8.
    input.extend(part(Opcode::Continuation, &"ü".as_bytes()[..1]));
    input.extend(part(Opcode::Continuation, b""));
    input.extend(frame(Opcode::Continuation, &"ü".as_bytes()[1..]));
    input.extend(frame(Opcode::Pong, b""));
    write_close(1001, "bye", Some(MASK), &mut input);
    let whole = read(&input);
    assert_eq!(whole.1, None);
    let messages: Vec<&[u8]> = whole
        .0
        .iter()
        .filter(|(item, _)| *item == Item::Message)
        .map(|(_, payload)| payload.as_slice())
        .collect();
    let mut expected: Vec<&[u8]> = texts.iter().map(|text| text.as_bytes()).collect();
    expected.extend([&b"\xFF\x00 no text"[..], "grü".as_bytes()]);
    assert_eq!(messages, expected);
    assert_eq!(whole.0[7], (Item::Ping, b"amid".to_vec()));
    assert_eq!(whole.0.last().unwrap().0, Item::Close(Some(1001)));
    for step in (1..40).chain([125, 126, 127, 128, 1_000, 4_096]) {
        assert_eq!(read_in(Reader::of_server(), &input, step), whole, "{step}");
    }
}

#[test]
fn what_makes_no_sense_is_refused_with_its_code() {
    let spoilt = |mut bytes: Vec<u8>, at: usize, with: fn(u8) -> u8| {
        bytes[at] = with(bytes[at]);
        bytes
    };
    let text = frame(Opcode::Text, b"x");
    let ping = frame(Opcode::Ping, b"x");
    let close = |code: u16| frame(Opcode::Close, &code.to_be_bytes());
    let mut cases = vec![
        (
            spoilt(text.clone(), 0, |b| b | 0x40),
            WebSocketFault::Reserved,
            1002,
        ),
        (
            spoilt(text.clone(), 0, |b| b | 0x10),
            WebSocketFault::Reserved,
            1002,
        ),
        (
            spoilt(text.clone(), 0, |b| b | 0x02),
            WebSocketFault::Opcode,
            1002,
        ),
        (
            spoilt(ping.clone(), 0, |b| b | 0x0F),
            WebSocketFault::Opcode,
            1002,
        ),
        (
            spoilt(text.clone(), 1, |b| b & 0x7F),
            WebSocketFault::Mask,
            1002,
        ),
        (vec![0x82, 0xFE, 0, 125], WebSocketFault::Length, 1002),
        (
            vec![0x82, 0xFF, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF],
            WebSocketFault::Length,
            1002,
        ),
        (
            vec![0x82, 0xFF, 0x80, 0, 0, 0, 0, 1, 0, 0],
            WebSocketFault::Length,
            1002,
        ),
        (vec![0x89, 0xFE, 0, 126], WebSocketFault::Control, 1002),
        (spoilt(ping, 0, |b| b & 0x7F), WebSocketFault::Control, 1002),
        (
            frame(Opcode::Continuation, b"x"),
            WebSocketFault::Order,
            1002,
        ),
        (
            [part(Opcode::Text, b"x"), text.clone()].concat(),
            WebSocketFault::Order,
            1002,
        ),
        (frame(Opcode::Close, b"x"), WebSocketFault::Close, 1002),
        (
            frame(Opcode::Close, b"\x03\xE8\xFF"),
            WebSocketFault::Utf8,
            1007,
        ),
        (frame(Opcode::Text, b"\xC3\x28"), WebSocketFault::Utf8, 1007),
        (
            [
                part(Opcode::Text, b"\xC3"),
                frame(Opcode::Continuation, b""),
            ]
            .concat(),
            WebSocketFault::Utf8,
            1007,
        ),
        (
            vec![0x82, 0xFF, 0, 0, 0, 0, 0, 1, 0, 0],
            WebSocketFault::TooLarge,
            1009,
        ),
        (
            vec![0x82, 0xFF, 0x7F, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF],
            WebSocketFault::TooLarge,
            1009,
        ),
    ];
    for code in [0, 999, 1004, 1005, 1006, 1015, 2_999, 5_000, 65_535] {
        cases.push((close(code), WebSocketFault::Close, 1002));
    }
    for (input, expected, code) in cases {
        assert_eq!(fault(&input), Some(expected), "{input:x?}");
        assert_eq!(expected.code(), code);
        // As soon as it can be known, and however it comes.
        assert_eq!(read_in(Reader::of_server(), &input, 1).1, Some(expected));
    }
    for code in [1000, 1001, 1011, 3_000, 4_999] {
        assert_eq!(read(&close(code)).0[0].0, Item::Close(Some(code)));
    }
    assert_eq!(read(&frame(Opcode::Close, b"")).0[0].0, Item::Close(None));
    assert_eq!(fault(&frame(Opcode::Binary, b"\xC3\x28")), None);
}

#[test]
fn parts_together_are_bounded_like_the_whole() {
    let half = vec![b'x'; MAX / 2 + 1];
    let mut reader = Reader::of_server();
    let mut payload = Vec::new();
    let first = part(Opcode::Binary, &half);
    let taken = reader.next(&first, MAX, &mut payload).unwrap();
    assert_eq!(
        taken,
        Taken::Frame {
            len: first.len(),
            item: Item::Part
        }
    );
    assert!(reader.is_amid());
    assert_eq!(reader.kept_bytes(), half.len());
    let second = frame(Opcode::Continuation, &half);
    assert_eq!(
        reader.next(&second[..8], MAX, &mut payload),
        Err(WebSocketFault::TooLarge)
    );
    let second = frame(Opcode::Continuation, &half[1..]);
    reader.next(&second, MAX, &mut payload).unwrap();
    assert_eq!(payload.len(), MAX);
    assert!(!reader.is_amid());
    assert_eq!(reader.kept_bytes(), 0);
}

#[test]
fn a_client_takes_no_masked_frame() {
    let masked = frame(Opcode::Text, b"x");
    assert_eq!(
        read_in(Reader::of_client(), &masked, 1).1,
        Some(WebSocketFault::Mask)
    );
}

#[test]
fn chance_neither_panics_nor_depends_on_the_cut() {
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut frames = 0;
    for _ in 0..20_000 {
        let mut input = Vec::new();
        for _ in 0..random() % 6 {
            let opcode = Opcode::of_bits(b"\x00\x01\x02\x08\x09\x0A"[(random() % 6) as usize]);
            let payload = vec![random() as u8; (random() % 140) as usize];
            let mut made = frame(opcode.unwrap(), &payload);
            if random() % 3 == 0 {
                made[0] &= !FIN;
            }
            if random() % 4 == 0 {
                let at = (random() as usize) % made.len();
                made[at] ^= 1 << (random() % 8);
            }
            input.extend(made);
        }
        let whole = read(&input);
        frames += whole.0.len();
        let step = 1 + (random() % 17) as usize;
        assert_eq!(
            read_in(Reader::of_server(), &input, step),
            whole,
            "{input:x?}"
        );
    }
    assert!(frames > 5_000, "{frames}");
}

#[test]
fn every_fault_has_its_own_place_among_the_counters() {
    for (place, fault) in WebSocketFault::ALL.into_iter().enumerate() {
        assert_eq!(fault as usize, place);
        // The reason must fit a Close frame.
        let mut out = Vec::new();
        write_close(fault.code(), fault.reason(), None, &mut out);
        let (items, wrong) = read_in(Reader::of_client(), &out, 1);
        assert_eq!((items[0].0, wrong), (Item::Close(Some(fault.code())), None));
        assert_eq!(&items[0].1[2..], fault.reason().as_bytes());
    }
}

#[test]
fn a_reason_that_is_too_long_is_cut_between_letters() {
    let mut out = Vec::new();
    write_close(1000, &"ü".repeat(100), None, &mut out);
    let (items, wrong) = read_in(Reader::of_client(), &out, 1);
    assert_eq!((items[0].0, wrong), (Item::Close(Some(1000)), None));
    assert_eq!(items[0].1.len(), 124);
}
