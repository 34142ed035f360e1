//! What a media engine, or whoever pretends to be one, can do with its replies.

use std::sync::Arc;

use sip_media::bencode::{Writer, read};
use sip_media::{Ask, Client, ClientNumber, Command, Config, Failure, SharedEngines};

const NOW_MS: u64 = 1_000;
const SDP_BYTES_MAX: usize = 200;
const KEY: [u8; 16] = [7; 16];

/// Of what is read there is one spelling. A reply behind a cookie that is under way is the answer
/// to who waits for it, once, and bounded; anything else is nobody's answer.
pub fn bencode(data: &[u8]) {
    if let Ok(value) = read(data) {
        let mut again = Vec::new();
        Writer::new(&mut again).value(&value);
        assert!(again == data, "it has another spelling: {again:?}");
    }
    let mut client = asking();
    let engine = client.engines().first().copied().expect("an engine");
    let sent = client.poll_transmit().expect("a command");
    let cookie = sent.bytes.split(|byte| *byte == b' ').next();
    let cookie = cookie.expect("a cookie").to_vec();

    // Who does not know the cookie is not heard, and nor is who sends from elsewhere.
    let begins_well = data.starts_with(&cookie);
    let reply = [&cookie[..], b" ", data].concat();
    if !begins_well {
        client.receive(NOW_MS, engine, data);
        assert!(client.poll_answer().is_none(), "an answer by a stranger");
    }
    let elsewhere = ([127, 0, 0, 9], engine.port()).into();
    client.receive(NOW_MS, elsewhere, &reply);
    assert!(client.poll_answer().is_none(), "an answer from elsewhere");
    assert!(client.in_flight() == 1, "nothing has ended what was asked");

    client.receive(NOW_MS, engine, &reply);
    if let Some(answered) = client.poll_answer() {
        assert_eq!(answered.waiter, 5);
        match answered.result {
            Ok(given) => {
                let sdp = given.sdp.expect("an offer that was done has a description");
                assert!(sdp.starts_with(b"v=") && sdp.len() <= SDP_BYTES_MAX);
            }
            Err(Failure::Refused(words)) => {
                let is_shown = |byte: u8| matches!(byte, 0x20..=0x7e);
                assert!(
                    words.len() <= 200 && words.bytes().all(is_shown),
                    "{words:?}"
                );
            }
            Err(Failure::Gone | Failure::Busy | Failure::Unknown) => {}
        }
        assert_eq!((client.in_flight(), client.held_bytes()), (0, 0));
        client.receive(NOW_MS, engine, &reply);
    }
    assert!(client.poll_answer().is_none(), "answered twice");
}

/// A client that has asked its only engine something for somebody.
fn asking() -> Client {
    let config = Config {
        engines: vec![([127, 0, 0, 1], 2_223).into()],
        sdp_bytes_max: SDP_BYTES_MAX,
        ..Config::default()
    };
    let shared = Arc::new(SharedEngines::default());
    let mut client = Client::new(NOW_MS, KEY, ClientNumber::default(), shared, config);
    let mut ask = Ask::new(Command::Offer, b"call", b"tag");
    ask.sdp = b"v=0\r\n".as_slice().into();
    client.ask(NOW_MS, Some(5), Box::new(ask));
    client
}
