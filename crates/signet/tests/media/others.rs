//! Phones that are not ours, where media is led because it must be: baresip behind a real address
//! translation, and Chromium, which speaks ICE and DTLS-SRTP.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::bed::*;
use crate::support::browser::{Browser, Site};
use crate::support::command::{Serving, succeed, text};
use crate::support::namespace::{CALLER, OUTSIDE, PHONE, Translation, baresip, shell, wait_for};
use crate::support::{ADDRESS, TestDir, add_user, free_port, have, in_namespace};

/// A server that leads what must be led, through an engine at the same address.
fn serve_there(folder: &Path, engine: &Engine, more: &str) -> Serving {
    let data = folder.join("data");
    for user in ["alice", "bob", "carol"] {
        add_user(&data, user, DOMAIN, &format!("{user}-secret"));
    }
    let config = folder.join("signet.toml");
    let whole = format!(
        "version = 1\ndata = \"data\"\ndomains = [\"{DOMAIN}\"]\nworkers = 2\n\
         [[listen]]\non = \"udp:{ADDRESS}:5060\"\n{more}\
         [media]\nengines = [\"udp:{}\"]\n",
        engine.at
    );
    fs::write(&config, whole).unwrap();
    Serving::start(folder, &data, &["--config", text(&config)])
}

/// Speaks there, a packet each twenty milliseconds, until `is_enough` of what comes from there.
fn speak_until(alice: &Speaker, way: SocketAddr, mut is_enough: impl FnMut(&[u8; 160]) -> bool) {
    let until = Instant::now() + PATIENCE;
    for sequence in 0.. {
        assert!(Instant::now() < until, "too little was heard");
        alice.speak(way, sequence);
        let turn = Instant::now() + Duration::from_millis(20);
        while let Some((from, sound)) = alice.hear_sound() {
            assert_eq!(from, way);
            if is_enough(&sound) {
                return;
            }
            if Instant::now() >= turn {
                break;
            }
        }
    }
}

#[test]
fn a_phone_behind_a_translation_hears_and_is_heard() {
    in_namespace(
        "others::a_phone_behind_a_translation_hears_and_is_heard",
        || {
            let tools = ["rtpengine", "nft", "nsenter", "baresip"];
            if !tools.iter().all(|of| have(of)) {
                return;
            }
            let folder = TestDir::new("media-nat");
            let at = folder.path();
            let translation = Translation::new(at);
            let engine = Engine::start_on(at, free_port(), ADDRESS);
            let server = serve_there(at, &engine, "");
            let _baresip = baresip(at, &translation.inside, DOMAIN);
            let config = at.join("signet.toml");
            let bindings = || succeed(&["bindings", "bob", "--config", text(&config)], "");
            wait_for("bob's registration", || bindings().contains(OUTSIDE));
            let speaker =
                |user, voice| Speaker::at(CALLER, server.at("udp"), (user, DOMAIN), voice);
            let mut alice = speaker("alice", 0x11);
            for _ in 0..2 {
                let mut callers = alice.phone.invite("bob");
                let ok = alice.phone.established(&mut callers);
                let way = media_at(&ok);
                assert_eq!(way.ip().to_string(), ADDRESS, "{ok}");
                assert_eq!(engine.calls().len(), 1);
                // It gives back what it hears, which it does only where both ways are open.
                let mut own = 0;
                speak_until(&alice, way, |sound| {
                    own += u32::from(*sound == [0x11; 160]);
                    own >= 10
                });
                alice.phone.hang_up(&mut callers);
                alice.phone.hung_up(&callers);
                engine.wait_until_idle();
                // What came last is not heard in the next call.
                while alice.hear_sound().is_some() {}
            }
            // Its description names an address that leads nowhere from here.
            let offered =
                fs::read_to_string(at.join(format!("rtpengine-{}.log", engine.at.port())));
            assert!(
                offered.unwrap().contains(OUTSIDE),
                "the engine has learned it"
            );
            let routes = std::process::Command::new("ip")
                .args(["route", "get", PHONE])
                .output();
            assert!(!routes.unwrap().status.success(), "{PHONE} is not reached");

            // Two who reach each other need none.
            let mut carol = speaker("carol", 0x22);
            let call = call_to(&mut alice, &mut carol, "carol");
            assert_eq!(call.callers_way, carol.media.local_addr().unwrap());
            assert_eq!(engine.calls(), [""; 0]);
            call.end(&mut alice, &mut carol);
        },
    );
}

/// A server for browsers and phones, and Chromium with a page of alice's.
struct Web {
    engine: Engine,
    server: Serving,
    site: Site,
    folder: TestDir,
}

impl Web {
    fn new(name: &str) -> Option<Self> {
        if !["rtpengine", "chromium"].iter().all(|of| have(of)) {
            return None;
        }
        let folder = TestDir::new(name);
        // A browser looks for its addresses by the way to the world.
        shell("ip link set ve1 up\nip route add default dev ve0\n");
        let engine = Engine::start_on(folder.path(), free_port(), ADDRESS);
        let site = Site::start();
        let listener = format!(
            "[[listen]]\non = \"ws:{ADDRESS}:0\"\n[listen.websocket]\norigins = [\"{}\"]\n",
            site.origin()
        );
        let server = serve_there(folder.path(), &engine, &listener);
        Some(Self {
            engine,
            server,
            site,
            folder,
        })
    }

    fn open(&self, what: &str, more: &[&str]) -> Browser {
        let page = self
            .site
            .page(&format!("ws://{}/", self.server.at("ws")), DOMAIN);
        Browser::open_with(self.folder.path(), more, ADDRESS, &format!("{page}&{what}"))
    }

    fn bob(&self) -> Speaker {
        Speaker::at(ADDRESS, self.server.at("udp"), ("bob", DOMAIN), 0x22)
    }

    /// The browser and the phone speak until each has heard the other.
    fn speak(&self, bob: &Speaker, way: SocketAddr) {
        let mut tones = 0;
        speak_until(bob, way, |sound| {
            tones += u32::from(sound.iter().any(|byte| *byte != sound[0]));
            tones >= 10
        });
        // The browser has heard as much, or does so now.
        let told = Arc::clone(&self.site.told);
        let heard = std::thread::spawn(move || told.wait_for("heard"));
        speak_until(bob, way, |_| heard.is_finished());
        heard.join().unwrap();
    }
}

#[test]
fn a_browser_that_is_called_and_a_phone_hear_each_other() {
    in_namespace(
        "others::a_browser_that_is_called_and_a_phone_hear_each_other",
        || {
            let Some(web) = Web::new("media-to-chromium") else {
                return;
            };
            let _browser = web.open(
                "sound=device",
                &[
                    "--use-fake-device-for-media-stream",
                    "--use-fake-ui-for-media-stream",
                ],
            );
            web.site.told.wait_for("REGISTER 200");
            let mut bob = web.bob();
            let mut callers = bob.phone.invite("alice");
            let ok = bob.phone.established(&mut callers);
            let answer = sdp_of(&ok);
            assert!(
                answer.contains(" RTP/AVP 0") && !answer.contains("candidate"),
                "{answer}"
            );
            web.speak(&bob, media_at(&ok));
            bob.phone.hang_up(&mut callers);
            bob.phone.hung_up(&callers);
            web.site.told.wait_for("BYE");
            web.engine.wait_until_idle();
        },
    );
}

#[test]
fn a_browser_that_calls_and_hides_its_address_and_a_phone_hear_each_other() {
    in_namespace(
        "others::a_browser_that_calls_and_hides_its_address_and_a_phone_hear_each_other",
        || {
            let Some(web) = Web::new("media-of-chromium") else {
                return;
            };
            let mut bob = web.bob();
            let _browser = web.open(
                "sound=tone&call=bob",
                &["--autoplay-policy=no-user-gesture-required"],
            );
            web.site.told.wait_for("no address");
            let invite = bob.phone.incoming("INVITE");
            let offer = sdp_of(&invite.text);
            assert!(
                offer.contains(" RTP/AVP ") && !offer.contains("candidate"),
                "{offer}"
            );
            // To a phone 0.0.0.0 or another direction is a call on hold.
            assert!(offer.contains("a=sendrecv"), "{offer}");
            let way = media_at(&invite.text);
            assert_eq!(way.ip().to_string(), ADDRESS, "{offer}");
            bob.phone.reply(&invite, "200 OK", true);
            let mut callees = bob.phone.end_of(&invite);
            bob.phone.acknowledged(&callees);
            web.site.told.wait_for("answered");
            web.speak(&bob, way);
            bob.phone.hang_up(&mut callees);
            bob.phone.hung_up(&callees);
            web.site.told.wait_for("BYE");
            web.engine.wait_until_idle();
        },
    );
}
