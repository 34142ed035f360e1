//! Streams: where messages and frames end in them.

use sip_msg::{Framed, Framer, Limits, Message, ParseErrorKind};
use sip_net::ws::{Answered, Item, OpeningKey, Reader, Taken, Upgraded, upgrade};
use sip_net::{WebSocketFault, WebSocketRules};

/// The framer's outcome does not depend on how the stream was cut, and its
/// lengths are the parser's. The first byte says where to cut.
pub fn frame(data: &[u8]) {
    let Some((cut, stream)) = data.split_first() else {
        return;
    };
    let cut = stream.len() * usize::from(*cut) / 255;
    let whole = run_framer(stream, stream.len());
    assert_eq!(whole, run_framer(stream, cut), "cut at {cut}");
    let mut message = Message::default();
    for (start, len) in whole.messages {
        let _ = message.fill(&stream[start..], &Limits::default());
        assert_eq!(message.bytes().len(), len);
        let alone = message.fill(&stream[start..start + len], &Limits::default());
        assert_eq!(message.bytes().len(), len);
        assert_ne!(
            alone.err().map(|e| e.kind),
            Some(ParseErrorKind::BodyTruncated)
        );
    }
}

/// The reader of frames keeps no more than the bound, and what it finds does not
/// depend on how the stream was cut; nor does what becomes of an upgrade, asked
/// for there or here. The first byte says where to cut.
pub fn websocket(data: &[u8]) {
    let Some((cut, stream)) = data.split_first() else {
        return;
    };
    let cut = stream.len() * usize::from(*cut) / 255;
    assert_eq!(run_frames(stream, stream.len()), run_frames(stream, cut));
    assert_eq!(run_upgrade(stream, stream.len()), run_upgrade(stream, cut));
    assert_eq!(run_answer(stream, stream.len()), run_answer(stream, cut));
}

fn run_frames(stream: &[u8], cut: usize) -> (Vec<(Item, Vec<u8>)>, Option<WebSocketFault>) {
    const MAX: usize = 1_000;
    let mut reader = Reader::of_server();
    let (mut items, mut payload, mut read) = (Vec::new(), Vec::new(), 0);
    for end in [cut, stream.len()] {
        while read <= end {
            match reader.next(&stream[read..end], MAX, &mut payload) {
                Ok(Taken::More) => break,
                Ok(Taken::Frame { len, item }) => {
                    read += len;
                    assert!(payload.len() <= MAX && reader.kept_bytes() <= MAX);
                    items.push((item, payload.clone()));
                }
                Err(fault) => return (items, Some(fault)),
            }
        }
    }
    (items, None)
}

fn run_upgrade(stream: &[u8], cut: usize) -> (Upgraded, Vec<u8>) {
    let (rules, local) = (WebSocketRules::default(), [127, 0, 0, 1].into());
    let (mut scanned, mut answer) = (0, Vec::new());
    let mut upgraded = Upgraded::More;
    for end in [cut, stream.len()] {
        if upgraded == Upgraded::More {
            let unread = &stream[..end];
            upgraded = upgrade(unread, &mut scanned, &rules, true, local, &mut answer);
        }
    }
    (upgraded, answer)
}

fn run_answer(stream: &[u8], cut: usize) -> Answered {
    let (key, mut scanned) = (OpeningKey::new(*b"the sample nonce"), 0);
    let mut answered = Answered::More;
    for end in [cut, stream.len()] {
        if answered == Answered::More {
            answered = key.read_answer(&stream[..end], &mut scanned);
        }
    }
    answered
}

#[derive(Debug, PartialEq)]
struct Found {
    messages: Vec<(usize, usize)>,
    pings: usize,
    fault: Option<ParseErrorKind>,
}

fn run_framer(stream: &[u8], cut: usize) -> Found {
    let mut framer = Framer::default();
    let mut found = Found {
        messages: Vec::new(),
        pings: 0,
        fault: None,
    };
    let mut read = 0;
    for end in [cut, stream.len()] {
        while read <= end {
            match framer.next(&stream[read..end], &Limits::default()) {
                Ok(Framed::More) => break,
                Ok(Framed::Message { len }) => {
                    found.messages.push((read, len));
                    read += len;
                }
                Ok(Framed::Ping { len }) => {
                    found.pings += 1;
                    read += len;
                }
                Ok(Framed::Skip { len }) => read += len,
                Err(error) => {
                    assert!(error.head_len <= end - read);
                    found.fault = Some(error.error.kind);
                    return found;
                }
            }
        }
    }
    found
}
