//! However a call goes on and ends, its media goes with it, and nothing of it stays at the engine.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use super::bed::*;
use crate::support::command::Serving;
use crate::support::phone::field;
use crate::support::{TestDir, have};

/// An engine, a server that leads all calls through it, and two phones.
struct Scene {
    engine: Engine,
    server: Serving,
    alice: Speaker,
    bob: Speaker,
    _folder: TestDir,
}

impl Scene {
    fn new(name: &str) -> Option<Self> {
        if !have("rtpengine") {
            return None;
        }
        let folder = TestDir::new(name);
        let engine = Engine::start(folder.path());
        let server = serve(folder.path(), &[&engine], "rtpengine");
        let alice = Speaker::new(&server, "alice", 0x11);
        let bob = Speaker::new(&server, "bob", 0x22);
        Some(Self {
            engine,
            server,
            alice,
            bob,
            _folder: folder,
        })
    }
}

#[test]
fn a_call_that_is_not_answered_leaves_nothing_at_the_engine() {
    let Some(Scene {
        engine,
        server: _server,
        mut alice,
        mut bob,
        ..
    }) = Scene::new("media-unanswered")
    else {
        return;
    };
    for (progress, answer) in [
        ("180 Ringing", "486 Busy Here"),
        ("183 Session Progress", "486 Busy Here"),
        ("183 Session Progress", "603 Decline"),
        ("180 Ringing", "500 Server Internal Error"),
    ] {
        let dialog = alice.phone.invite("bob");
        let invite = bob.phone.incoming("INVITE");
        assert!(engine.has(&field(&invite.text, "Call-ID")));
        let is_early = progress.starts_with("183");
        bob.phone.reply(&invite, progress, is_early);
        let rings = alice
            .phone
            .progress(&dialog, if is_early { 183 } else { 180 });
        if is_early {
            assert_ne!(media_at(&rings), bob.media.local_addr().unwrap());
        }
        bob.phone.reply(&invite, answer, false);
        let refused = alice.phone.refused(&dialog);
        let status = answer.split(' ').next().unwrap();
        assert!(
            refused.starts_with(&format!("SIP/2.0 {status} ")),
            "{refused}"
        );
        engine.wait_until_idle();
    }

    // The caller gives up, before it rings and after.
    for is_ringing in [false, true] {
        let dialog = alice.phone.invite("bob");
        let invite = bob.phone.incoming("INVITE");
        assert!(engine.has(&field(&invite.text, "Call-ID")));
        // A CANCEL waits for a provisional response (RFC 3261 9.1).
        bob.phone.reply(&invite, "100 Trying", false);
        if is_ringing {
            bob.phone.reply(&invite, "183 Session Progress", true);
            alice.phone.progress(&dialog, 183);
        }
        let told = alice.phone.cancel(&dialog);
        assert!(told.starts_with("SIP/2.0 200 "), "{told}");
        let cancel = bob.phone.incoming("CANCEL");
        bob.phone.reply(&cancel, "200 OK", false);
        bob.phone.reply(&invite, "487 Request Terminated", false);
        let refused = alice.phone.refused(&dialog);
        assert!(refused.starts_with("SIP/2.0 487 "), "{refused}");
        engine.wait_until_idle();
    }

    // Nobody is there: the engine hears of nothing.
    let dialog = alice.phone.invite("nobody");
    alice.phone.refused(&dialog);
    assert_eq!(engine.calls(), [""; 0]);
}

#[test]
fn either_side_hangs_up_and_a_bye_that_is_refused_ends_nothing() {
    let Some(Scene {
        engine,
        server: _server,
        mut alice,
        mut bob,
        ..
    }) = Scene::new("media-hung-up")
    else {
        return;
    };
    let mut ended = call(&mut alice, &mut bob);
    ended.speak(&alice, &bob);
    bob.phone.hang_up(&mut ended.callees);
    alice.phone.ended(&ended.callers);
    bob.phone.hung_up(&ended.callees);
    engine.wait_until_idle();

    let mut goes_on = call(&mut alice, &mut bob);
    alice.phone.hang_up(&mut goes_on.callers);
    let bye = bob.phone.incoming("BYE");
    bob.phone.reply(&bye, "500 Server Internal Error", false);
    let refused = alice.phone.answered(&goes_on.callers, "BYE");
    assert!(refused.starts_with("SIP/2.0 500 "), "{refused}");
    goes_on.speak(&alice, &bob);
    assert!(engine.has(&goes_on.call_id));
    goes_on.end(&mut alice, &mut bob);
    engine.wait_until_idle();

    // Who does not know the call any more has ended it.
    let mut lost = call(&mut alice, &mut bob);
    let sdp = plain_sdp(alice.media.local_addr().unwrap().port());
    alice.phone.send_within("UPDATE", &mut lost.callers, &sdp);
    let update = bob.phone.incoming("UPDATE");
    bob.phone
        .reply(&update, "481 Call/Transaction Does Not Exist", false);
    alice.phone.answered(&lost.callers, "UPDATE");
    engine.wait_until_idle();
}

#[test]
fn of_several_phones_the_one_that_answers_is_heard() {
    let Some(Scene {
        engine,
        server,
        mut alice,
        mut bob,
        ..
    }) = Scene::new("media-forks")
    else {
        return;
    };
    let mut other = Speaker::new(&server, "bob", 0x33);
    for has_early in [false, true] {
        let mut callers = alice.phone.invite("bob");
        let own = bob.phone.incoming("INVITE");
        let others = other.phone.incoming("INVITE");
        assert_ne!(media_at(&own.text), media_at(&others.text));
        if has_early {
            other.phone.reply(&others, "183 Session Progress", true);
            alice.phone.progress(&callers, 183);
        }
        other.phone.reply(&others, "180 Ringing", false);
        bob.phone.reply(&own, "200 OK", true);
        let ok = alice.phone.established(&mut callers);
        let cancel = other.phone.incoming("CANCEL");
        other.phone.reply(&cancel, "200 OK", false);
        other.phone.reply(&others, "487 Request Terminated", false);
        let call = Call {
            callers,
            callees: bob.phone.end_of(&own),
            call_id: field(&ok, "Call-ID"),
            callers_way: media_at(&ok),
            callees_way: media_at(&own.text),
        };
        bob.phone.acknowledged(&call.callees);
        call.speak(&alice, &bob);
        assert!(other.hear().is_none(), "who has lost hears nothing");
        call.end(&mut alice, &mut bob);
        engine.wait_until_idle();
    }
}

#[test]
fn early_media_is_heard_before_anybody_answers() {
    let Some(Scene {
        engine,
        server: _server,
        mut alice,
        mut bob,
        ..
    }) = Scene::new("media-early")
    else {
        return;
    };
    let mut callers = alice.phone.invite("bob");
    let invite = bob.phone.incoming("INVITE");
    bob.phone.reply(&invite, "183 Session Progress", true);
    let early = alice.phone.progress(&callers, 183);
    let (way, callees_way) = (media_at(&early), media_at(&invite.text));
    let until = Instant::now() + PATIENCE;
    for sequence in 0.. {
        assert!(Instant::now() < until, "it is not heard");
        bob.speak(callees_way, sequence);
        if let Some(heard) = alice.hear() {
            assert_eq!(heard, (way, 0x22));
            break;
        }
    }
    bob.phone.reply(&invite, "200 OK", true);
    let ok = alice.phone.established(&mut callers);
    let call = Call {
        callers,
        callees: bob.phone.end_of(&invite),
        call_id: field(&ok, "Call-ID"),
        callers_way: media_at(&ok),
        callees_way,
    };
    call.speak(&alice, &bob);
    call.end(&mut alice, &mut bob);
    engine.wait_until_idle();
}

/// From here on somebody has another port for his media.
fn move_media(of: &mut Speaker) -> String {
    of.media = UdpSocket::bind("127.0.0.1:0").unwrap();
    let short = Duration::from_millis(20);
    of.media.set_read_timeout(Some(short)).unwrap();
    let sdp = plain_sdp(of.media.local_addr().unwrap().port());
    of.phone.set_sdp(&sdp);
    sdp
}

#[test]
fn media_follows_a_session_that_changes() {
    let Some(Scene {
        engine,
        server: _server,
        mut alice,
        mut bob,
        ..
    }) = Scene::new("media-changes")
    else {
        return;
    };
    let mut call = call(&mut alice, &mut bob);
    call.speak(&alice, &bob);
    for method in ["INVITE", "UPDATE"] {
        let sdp = move_media(&mut alice);
        alice.phone.send_within(method, &mut call.callers, &sdp);
        let change = bob.phone.incoming(method);
        bob.phone.reply(&change, "200 OK", true);
        let ok = alice.phone.answered(&call.callers, method);
        if method == "INVITE" {
            alice.phone.acknowledge(&mut call.callers);
            bob.phone.acknowledged(&call.callees);
        }
        (call.callers_way, call.callees_way) = (media_at(&ok), media_at(&change.text));
        call.speak(&alice, &bob);

        let sdp = move_media(&mut bob);
        bob.phone.send_within(method, &mut call.callees, &sdp);
        let change = alice.phone.incoming(method);
        alice.phone.reply(&change, "200 OK", true);
        let ok = bob.phone.answered(&call.callees, method);
        if method == "INVITE" {
            bob.phone.acknowledge(&mut call.callees);
            alice.phone.acknowledged(&call.callers);
        }
        (call.callees_way, call.callers_way) = (media_at(&ok), media_at(&change.text));
        call.speak(&alice, &bob);
    }
    assert_eq!(engine.calls().len(), 1, "it is one call all the time");
    call.end(&mut alice, &mut bob);
    engine.wait_until_idle();
}

#[test]
fn a_call_without_an_offer_is_led_by_what_the_callee_offers() {
    let Some(Scene {
        engine,
        server: _server,
        mut alice,
        mut bob,
        ..
    }) = Scene::new("media-delayed")
    else {
        return;
    };
    alice.phone.set_sdp("");
    let mut callers = alice.phone.invite("bob");
    let invite = bob.phone.incoming("INVITE");
    assert_eq!(sdp_of(&invite.text), "");
    bob.phone.reply(&invite, "200 OK", true);
    let ok = alice.phone.accepted(&mut callers);
    let sdp = plain_sdp(alice.media.local_addr().unwrap().port());
    alice.phone.send_within("ACK", &mut callers, &sdp);
    let callees = bob.phone.end_of(&invite);
    let ack = bob.phone.acknowledged(&callees);
    let call = Call {
        callers,
        callees,
        call_id: field(&ok, "Call-ID"),
        callers_way: media_at(&ok),
        callees_way: media_at(&ack),
    };
    assert!(engine.has(&call.call_id));
    call.speak(&alice, &bob);
    call.end(&mut alice, &mut bob);
    engine.wait_until_idle();
}

#[test]
fn what_is_agreed_on_before_anybody_answers_is_led() {
    let Some(Scene {
        engine,
        server: _server,
        mut alice,
        mut bob,
        ..
    }) = Scene::new("media-prack")
    else {
        return;
    };
    // The callee offers and a PRACK answers; or the caller does, and an UPDATE changes it.
    for has_offer in [false, true] {
        let own = plain_sdp(alice.media.local_addr().unwrap().port());
        alice.phone.set_sdp(if has_offer { &own } else { "" });
        let mut callers = alice.phone.invite("bob");
        let invite = bob.phone.incoming("INVITE");
        bob.phone.reply(&invite, "183 Session Progress", true);
        let rings = alice.phone.progress(&callers, 183);
        let mut early = alice.phone.early(&callers, &rings);
        let (method, sdp) = match has_offer {
            false => ("PRACK", own),
            true => ("UPDATE", move_media(&mut alice)),
        };
        alice.phone.send_within(method, &mut early, &sdp);
        let change = bob.phone.incoming(method);
        bob.phone.reply(&change, "200 OK", has_offer);
        let ok = alice.phone.answered(&early, method);
        let said = if has_offer { &ok } else { &rings };
        let (callers_way, callees_way) = (media_at(said), media_at(&change.text));
        speak((&alice, callers_way), (&bob, callees_way));

        bob.phone.reply(&invite, "200 OK", false);
        let ok = alice.phone.established(&mut callers);
        let call = Call {
            callers,
            callees: bob.phone.end_of(&invite),
            call_id: field(&ok, "Call-ID"),
            callers_way,
            callees_way,
        };
        call.speak(&alice, &bob);
        call.end(&mut alice, &mut bob);
        engine.wait_until_idle();
    }
}
