//! Calls whose media Debian's rtpengine leads: real packets go through it, and it hears of ends.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "media/attacks.rs"]
mod attacks;
#[path = "media/bed.rs"]
mod bed;
#[path = "media/ends.rs"]
mod ends;
#[path = "media/others.rs"]
mod others;
mod support;

use std::fs;
use std::path::Path;
use std::time::Instant;

use bed::*;
use support::command::{Serving, succeed, text};
use support::phone::{Phone, field};
use support::{TestDir, add_user, free_port, have};

#[test]
fn phones_hear_each_other_through_the_engine_until_one_hangs_up() {
    if !have("rtpengine") {
        return;
    }
    let folder = TestDir::new("media-call");
    let engine = Engine::start(folder.path());
    let server = serve(folder.path(), &[&engine], "rtpengine");
    let (mut alice, mut bob) = (
        Speaker::new(&server, "alice", 0x11),
        Speaker::new(&server, "bob", 0x22),
    );
    for _ in 0..3 {
        let call = call(&mut alice, &mut bob);
        assert!(engine.has(&call.call_id));
        call.speak(&alice, &bob);
        let call_id = call.call_id.clone();
        call.end(&mut alice, &mut bob);
        engine.wait_until_idle();
        assert!(!engine.has(&call_id));
    }
}

#[test]
fn what_needs_no_engine_speaks_without_one() {
    if !have("rtpengine") {
        return;
    }
    let folder = TestDir::new("media-without");
    let engine = Engine::start(folder.path());
    let server = serve(folder.path(), &[&engine], "auto");
    let (mut alice, mut bob) = (
        Speaker::new(&server, "alice", 0x11),
        Speaker::new(&server, "bob", 0x22),
    );
    let call = call(&mut alice, &mut bob);
    assert_eq!(call.callers_way, bob.media.local_addr().unwrap());
    assert_eq!(call.callees_way, alice.media.local_addr().unwrap());
    assert!(!engine.has(&call.call_id));
    call.end(&mut alice, &mut bob);
}

#[test]
fn where_an_engine_dies_the_other_takes_the_calls_and_without_any_they_are_refused() {
    if !have("rtpengine") {
        return;
    }
    let folder = TestDir::new("media-failover");
    let mut one = Engine::start(folder.path());
    let other = Engine::start(folder.path());
    let server = serve(folder.path(), &[&one, &other], "rtpengine");
    let (mut alice, mut bob) = (
        Speaker::new(&server, "alice", 0x11),
        Speaker::new(&server, "bob", 0x22),
    );
    // Calls are spread over both.
    let (mut of_one, mut of_other) = (0, 0);
    let until = Instant::now() + PATIENCE;
    while of_one == 0 || of_other == 0 {
        assert!(Instant::now() < until, "{of_one} {of_other}");
        let call = call(&mut alice, &mut bob);
        let has = (one.has(&call.call_id), other.has(&call.call_id));
        assert!(has.0 != has.1, "{has:?}");
        of_one += u32::from(has.0);
        of_other += u32::from(has.1);
        call.end(&mut alice, &mut bob);
    }

    one.process.signal("-KILL");
    one.process.wait(PATIENCE);
    for _ in 0..5 {
        let call = call(&mut alice, &mut bob);
        assert!(other.has(&call.call_id));
        call.speak(&alice, &bob);
        call.end(&mut alice, &mut bob);
    }
    wait_for_engine(folder.path(), one.at, false);
    wait_for_engine(folder.path(), other.at, true);

    let at = other.at;
    drop(other);
    let dialog = alice.phone.invite("bob");
    let answer = alice.phone.refused(&dialog);
    assert!(answer.starts_with("SIP/2.0 503 "), "{answer}");
    assert!(!field(&answer, "Retry-After").is_empty());
    assert!(answer.contains("media_unavailable"), "{answer}");
    wait_for_engine(folder.path(), at, false);

    // One that returns takes calls again.
    let one = Engine::start_at(folder.path(), one.at.port());
    wait_for_engine(folder.path(), one.at, true);
    let call = call(&mut alice, &mut bob);
    assert!(one.has(&call.call_id));
    call.speak(&alice, &bob);
    call.end(&mut alice, &mut bob);
    one.wait_until_idle();
}

#[test]
fn a_call_whose_engine_has_gone_goes_on_and_is_led_again_when_it_returns() {
    if !have("rtpengine") {
        return;
    }
    let folder = TestDir::new("media-returns");
    let mut engine = Engine::start(folder.path());
    let server = serve(folder.path(), &[&engine], "rtpengine");
    let (mut alice, mut bob) = (
        Speaker::new(&server, "alice", 0x11),
        Speaker::new(&server, "bob", 0x22),
    );
    let mut one = call(&mut alice, &mut bob);
    let other = call(&mut alice, &mut bob);
    engine.process.signal("-KILL");
    engine.process.wait(PATIENCE);
    let sdp = plain_sdp(alice.media.local_addr().unwrap().port());
    alice.phone.send_within("INVITE", &mut one.callers, &sdp);
    let refused = alice.phone.refused(&one.callers);
    assert!(refused.starts_with("SIP/2.0 503 "), "{refused}");
    // It ends without an engine.
    other.end(&mut alice, &mut bob);

    let engine = Engine::start_at(folder.path(), engine.at.port());
    wait_for_engine(folder.path(), engine.at, true);
    assert!(!engine.has(&one.call_id));
    alice.phone.send_within("INVITE", &mut one.callers, &sdp);
    let again = bob.phone.incoming("INVITE");
    bob.phone.reply(&again, "200 OK", true);
    let ok = alice.phone.established(&mut one.callers);
    bob.phone.acknowledged(&one.callees);
    (one.callers_way, one.callees_way) = (media_at(&ok), media_at(&again.text));
    one.speak(&alice, &bob);
    one.end(&mut alice, &mut bob);
    engine.wait_until_idle();
}

#[test]
fn phones_of_two_families_of_addresses_hear_each_other() {
    if !have("rtpengine") {
        return;
    }
    let folder = TestDir::new("media-families");
    let engine = Engine::start_on(folder.path(), free_port(), "127.0.0.1 ::1");
    let server = serve(folder.path(), &[&engine], "rtpengine");
    let listeners = server.listeners.iter();
    let mut sixth = listeners.filter(|(of, at)| of == "udp" && at.is_ipv6());
    let (_, sixth) = sixth.next().unwrap();
    let mut alice = Speaker::at("::1", *sixth, ("alice", DOMAIN), 0x11);
    let mut bob = Speaker::new(&server, "bob", 0x22);
    let call = call(&mut alice, &mut bob);
    assert!(call.callers_way.is_ipv6() && call.callees_way.is_ipv4());
    call.speak(&alice, &bob);
    call.end(&mut alice, &mut bob);
    let back = call_to(&mut bob, &mut alice, "alice");
    assert!(back.callers_way.is_ipv4() && back.callees_way.is_ipv6());
    back.speak(&bob, &alice);
    back.end(&mut bob, &mut alice);
    engine.wait_until_idle();
}

#[test]
fn an_engine_that_is_drained_gets_no_new_calls() {
    if !have("rtpengine") {
        return;
    }
    let folder = TestDir::new("media-drained");
    let (one, other) = (Engine::start(folder.path()), Engine::start(folder.path()));
    let server = serve(folder.path(), &[&one, &other], "rtpengine");
    let (mut alice, mut bob) = (
        Speaker::new(&server, "alice", 0x11),
        Speaker::new(&server, "bob", 0x22),
    );
    let data = folder.path().join("data");
    let at = one.at.to_string();
    let told = succeed(&["media", "drain", &at, "--data", text(&data)], "");
    assert!(told.contains("is drained: it gets no new calls"), "{told}");
    for _ in 0..5 {
        let call = call(&mut alice, &mut bob);
        assert!(other.has(&call.call_id));
        call.end(&mut alice, &mut bob);
    }
    let told = succeed(&["media", "--data", text(&data)], "");
    assert!(told.contains(&format!("{at}: drained; ")), "{told}");
    let told = succeed(&["media", "undrain", &at, "--data", text(&data)], "");
    assert!(told.contains("gets new calls again"), "{told}");
    wait_for_engine(folder.path(), one.at, true);
}

/// What a browser offers, or answers with `role`.
fn browser_sdp(role: &str) -> String {
    let fingerprint: Vec<String> = (0..32).map(|byte| format!("{byte:02X}")).collect();
    format!(
        "v=0\r\no=- 4611 2 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\na=group:BUNDLE 0\r\n\
         m=audio 9 UDP/TLS/RTP/SAVPF 0\r\nc=IN IP4 0.0.0.0\r\na=rtcp:9 IN IP4 0.0.0.0\r\n\
         a=candidate:1 1 udp 2113937151 127.0.0.1 45999 typ host generation 0\r\n\
         a=ice-ufrag:Wxyz\r\na=ice-pwd:abcdefghijklmnopqrstuvwx\r\n\
         a=fingerprint:sha-256 {}\r\na=setup:{role}\r\na=mid:0\r\na=sendrecv\r\na=rtcp-mux\r\n\
         a=rtpmap:0 PCMU/8000\r\n",
        fingerprint.join(":")
    )
}

/// What a phone understands.
#[track_caller]
fn assert_plain(message: &str) {
    let sdp = sdp_of(message);
    assert!(sdp.contains(" RTP/AVP 0"), "{sdp}");
    for foreign in [
        "candidate",
        "fingerprint",
        "ice-",
        "setup",
        "crypto",
        "45999",
    ] {
        assert!(!sdp.contains(foreign), "{foreign} in {sdp}");
    }
}

/// What a browser needs.
#[track_caller]
fn assert_for_browsers(message: &str) {
    let sdp = sdp_of(message);
    for needed in [
        " UDP/TLS/RTP/SAVPF 0",
        "a=candidate:",
        "a=ice-ufrag:",
        "a=ice-pwd:",
        "a=fingerprint:sha-",
        "a=setup:",
        "a=rtcp-mux",
    ] {
        assert!(sdp.contains(needed), "no {needed} in {sdp}");
    }
    assert!(!sdp.contains("a=crypto"), "{sdp}");
}

#[test]
fn a_browser_and_a_phone_are_given_what_each_understands() {
    if !have("rtpengine") {
        return;
    }
    let folder = TestDir::new("media-browser");
    let engine = Engine::start(folder.path());
    let server = serve(folder.path(), &[&engine], "auto");
    let mut browser = Phone::websocket(server.at("ws"), "alice", DOMAIN);
    browser.register();
    let mut phone = Phone::udp(server.at("udp"), "bob", DOMAIN);
    phone.set_sdp(&plain_sdp(46_000));
    phone.register();

    browser.set_sdp(&browser_sdp("actpass"));
    let mut callers = browser.invite("bob");
    let (callees, invite) = phone.answer();
    assert_plain(&invite);
    let ok = browser.established(&mut callers);
    assert_for_browsers(&ok);
    phone.acknowledged(&callees);
    assert!(engine.has(&field(&ok, "Call-ID")));
    browser.hang_up(&mut callers);
    phone.ended(&callees);
    browser.hung_up(&callers);
    engine.wait_until_idle();

    browser.set_sdp(&browser_sdp("active"));
    let mut callers = phone.invite("alice");
    let (callees, invite) = browser.answer();
    assert_for_browsers(&invite);
    let ok = phone.established(&mut callers);
    assert_plain(&ok);
    browser.acknowledged(&callees);
    phone.hang_up(&mut callers);
    browser.ended(&callees);
    phone.hung_up(&callers);
    engine.wait_until_idle();
}

#[test]
fn two_servers_on_the_way_lead_a_call_through_their_engine_once() {
    if !have("rtpengine") {
        return;
    }
    let folders = [TestDir::new("media-near"), TestDir::new("media-far")];
    let [near, far] = [0, 1].map(|nth: usize| folders[nth].path());
    let engine = Engine::start(near);
    let media = format!("[media]\nengines = [\"udp:{}\"]\n", engine.at);
    let start = |folder: &Path, (user, domain): (&str, &str), listen: &str, more: &str| {
        let data = folder.join("data");
        add_user(&data, user, domain, &format!("{user}-secret"));
        let config = folder.join("signet.toml");
        let whole = format!(
            "version = 1\ndata = \"data\"\ndomains = [\"{domain}\"]\nworkers = 1\n\
             [[listen]]\non = \"udp:{listen}:0\"\nmedia = \"rtpengine\"\n{media}{more}"
        );
        fs::write(&config, whole).unwrap();
        Serving::start(folder, &data, &["--config", text(&config)])
    };
    const FAR: &str = "far.example";
    let trusted = "[[trusted]]\nnetwork = \"127.0.0.2\"\n";
    let behind = start(far, ("4930", FAR), "127.0.0.1", trusted);
    let route = format!(
        "[[gateway_group]]\nname = \"far\"\ngateways = [{{ uri = \"sip:{};transport=udp\" }}]\n\
         [[route]]\nprefix = \"49\"\ngroup = \"far\"\n",
        behind.at("udp")
    );
    let before = start(near, ("alice", DOMAIN), "127.0.0.2", &route);
    let (mut alice, mut bob) = (
        Speaker::new(&before, "alice", 0x11),
        Speaker::of(&behind, "4930", FAR, 0x22),
    );
    let call = call_to(&mut alice, &mut bob, "4930");
    assert_eq!(engine.calls().len(), 1);
    call.speak(&alice, &bob);
    call.end(&mut alice, &mut bob);
    engine.wait_until_idle();
}
