//! What phones and engines may say that somebody else would pay for.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::bed::*;
use crate::support::{TestDir, have};
use sip_media::bencode::read;

/// A session description with so many streams.
fn streams(count: usize) -> String {
    let one = plain_sdp(4_000);
    let (head, stream) = one.split_once("m=audio").unwrap();
    format!("{head}{}", format!("m=audio{stream}").repeat(count))
}

#[test]
fn what_an_engine_cannot_take_costs_nobody_else_his_media() {
    if !have("rtpengine") {
        return;
    }
    let folder = TestDir::new("media-odd");
    let engine = Engine::start(folder.path());
    let server = serve(folder.path(), &[&engine], "rtpengine");
    let mut alice = Speaker::new(&server, "alice", 0x11);
    let mut bob = Speaker::new(&server, "bob", 0x22);
    let own = |of: &Speaker| plain_sdp(of.media.local_addr().unwrap().port());
    let (alices, bobs) = (own(&alice), own(&bob));
    // Of sixty-four streams rtpengine could not tell at the end: no datagram is that long.
    let junk = [
        "v=0\r\nneither this nor that\r\n",
        "v=0\r\n",
        &"\0".repeat(100),
    ]
    .map(str::to_owned);
    let large = [
        streams(64),
        streams(17),
        plain_sdp(4_000).replace("m=audio 4000", "m=audio 4000/200"),
        plain_sdp(4_000) + &"a=x:y\r\n".repeat(3_000),
    ];
    for odd in large.iter().chain(&junk) {
        alice.phone.set_sdp(odd);
        let dialog = alice.phone.invite("bob");
        let refused = alice.phone.refused(&dialog);
        assert!(refused.starts_with("SIP/2.0 488 "), "{odd}\n{refused}");
        assert!(refused.contains("media_refused"), "{refused}");
        alice.phone.set_sdp(&alices);

        // The same in an answer. An engine takes one of nothing at all.
        if large.contains(odd) {
            bob.phone.set_sdp(odd);
            let dialog = alice.phone.invite("bob");
            let invite = bob.phone.incoming("INVITE");
            bob.phone.reply(&invite, "200 OK", true);
            let refused = alice.phone.refused(&dialog);
            assert!(refused.starts_with("SIP/2.0 488 "), "{odd}\n{refused}");
            bob.phone.set_sdp(&bobs);
        }
        engine.wait_until_idle();

        let call = call(&mut alice, &mut bob);
        call.speak(&alice, &bob);
        call.end(&mut alice, &mut bob);
        engine.wait_until_idle();
        assert_eq!(shown(folder.path())[0]["times_failed"], 0);
    }
    // As many as are taken.
    alice.phone.set_sdp(&streams(16));
    bob.phone.set_sdp(&streams(16));
    let call = call(&mut alice, &mut bob);
    assert!(engine.has(&call.call_id));
    call.end(&mut alice, &mut bob);
    engine.wait_until_idle();
    assert_eq!(shown(folder.path())[0]["times_failed"], 0);
}

#[test]
fn who_copies_an_engines_mark_is_led_all_the_same() {
    if !have("rtpengine") {
        return;
    }
    let folder = TestDir::new("media-mark");
    let engine = Engine::start(folder.path());
    let server = serve(folder.path(), &[&engine], "rtpengine");
    let mut alice = Speaker::new(&server, "alice", 0x11);
    let mut bob = Speaker::new(&server, "bob", 0x22);
    let own = |of: &Speaker| plain_sdp(of.media.local_addr().unwrap().port());
    // Everybody who has a call sees it.
    let mut callers = alice.phone.invite("bob");
    let invite = bob.phone.incoming("INVITE");
    let mut lines = invite.text.lines();
    let mark = lines.find(|line| line.starts_with("a=rtpengine:")).unwrap();
    let mark = format!("{mark}\r\n");
    bob.phone.reply(&invite, "200 OK", true);
    alice.phone.established(&mut callers);
    alice.phone.hang_up(&mut callers);
    bob.phone.ended(&bob.phone.end_of(&invite));
    alice.phone.hung_up(&callers);

    let marked = |of: &Speaker| own(of).replace("t=0 0\r\n", &format!("t=0 0\r\n{mark}"));
    let (alices, bobs) = (marked(&alice), marked(&bob));
    alice.phone.set_sdp(&alices);
    bob.phone.set_sdp(&bobs);
    let call = call(&mut alice, &mut bob);
    assert!(engine.has(&call.call_id));
    call.speak(&alice, &bob);
    call.end(&mut alice, &mut bob);
    engine.wait_until_idle();
}

#[test]
fn a_stranger_at_an_engines_port_is_not_heard() {
    /// How long an engine learns where packets come from, and longer.
    const LEARNING: Duration = Duration::from_secs(5);
    if !have("rtpengine") {
        return;
    }
    let folder = TestDir::new("media-stranger");
    let engine = Engine::start(folder.path());
    let server = serve(folder.path(), &[&engine], "rtpengine");
    let mut alice = Speaker::new(&server, "alice", 0x11);
    let mut bob = Speaker::new(&server, "bob", 0x22);
    let call = call(&mut alice, &mut bob);
    let until = Instant::now() + LEARNING;
    while Instant::now() < until {
        call.speak(&alice, &bob);
    }
    // He has both ports, and speaks louder than they do.
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    for _ in 0..20 {
        for sequence in 0..20 {
            for way in [call.callers_way, call.callees_way] {
                stranger.send_to(&packet(0x66, sequence), way).unwrap();
            }
        }
        for who in [&alice, &bob] {
            while let Some((_, voice)) = who.hear() {
                assert_ne!(voice, 0x66, "the stranger is heard");
            }
        }
        call.speak(&alice, &bob);
    }
    stranger.set_nonblocking(true).unwrap();
    let heard = stranger.recv_from(&mut [0; 2_000]);
    assert!(heard.is_err(), "he hears nobody either");
    call.end(&mut alice, &mut bob);
    engine.wait_until_idle();
}

/// Somebody at an engine's port who answers pings, and offers in that many odd ways.
const ODD_WAYS: usize = 7;

/// Starts him; where he is, and the offers that he had.
fn odd_engine() -> (SocketAddr, Arc<AtomicUsize>) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let at = socket.local_addr().unwrap();
    let offers = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&offers);
    std::thread::spawn(move || {
        let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (mut buffer, mut last) = (vec![0; 65_535], Vec::new());
        while let Ok((length, from)) = socket.recv_from(&mut buffer) {
            let datagram = &buffer[..length];
            let (cookie, text) = datagram.split_at(17);
            let command = read(text).unwrap();
            let command = command.dictionary().and_then(|of| of.bytes("command"));
            let say = |socket: &UdpSocket, cookie: &[u8], text: &[u8]| {
                let _ = socket.send_to(&[cookie, text].concat(), from);
            };
            let done = b"d6:result2:ok3:sdp5:v=0\r\ne";
            match command {
                Some(b"offer") if datagram == last => {}
                Some(b"offer") => {
                    last = datagram.to_vec();
                    match count.fetch_add(1, Ordering::SeqCst) % ODD_WAYS {
                        // He says nothing.
                        0 => {}
                        // As long as a datagram may be.
                        1 => say(&socket, cookie, &vec![b'l'; 65_490]),
                        // It ends too soon.
                        2 => say(&socket, cookie, &done[..20]),
                        // Another's cookie, and none.
                        3 => say(&socket, b"0123456789abcdef ", done),
                        4 => say(&socket, b"", done),
                        // From elsewhere.
                        5 => say(&stranger, cookie, done),
                        _ => say(&socket, cookie, b"d6:result2:ok3:sdp4:<xmle"),
                    }
                }
                _ => say(&socket, cookie, b"d6:result4:ponge"),
            }
        }
    });
    (at, offers)
}

#[test]
fn who_answers_offers_oddly_costs_a_call_some_time_and_no_more() {
    if !have("rtpengine") {
        return;
    }
    let folder = TestDir::new("media-odd-engine");
    let engine = Engine::start(folder.path());
    let (odd, offers) = odd_engine();
    let server = serve_at(folder.path(), &[engine.at, odd], "rtpengine");
    let mut alice = Speaker::new(&server, "alice", 0x11);
    let mut bob = Speaker::new(&server, "bob", 0x22);
    let until = Instant::now() + PATIENCE;
    while offers.load(Ordering::SeqCst) < ODD_WAYS {
        assert!(Instant::now() < until, "{offers:?}");
        let call = call(&mut alice, &mut bob);
        assert!(engine.has(&call.call_id));
        call.speak(&alice, &bob);
        call.end(&mut alice, &mut bob);
        engine.wait_until_idle();
    }
    // He answers pings: he is as good as any until he is asked.
    for shown in shown(folder.path()) {
        assert_eq!(shown["is_in_use"], true, "{shown}");
        assert_eq!(shown["times_failed"], 0, "{shown}");
    }
}
