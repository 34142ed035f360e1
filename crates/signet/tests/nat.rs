//! Phones behind a real address translation: nftables masquerades a namespace in which
//! baresip and coturn's STUN client run. The translation forgets a datagram's way after four
//! seconds, in the place of the usual thirty.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use support::command::{Serving, succeed, text};
use support::namespace::{CALLER, Net, OUTSIDE, PHONE, Translation, baresip, wait_for};
use support::openssl::figure;
use support::{ADDRESS, Running, TestDir, add_user, have, in_namespace};

const DOMAIN: &str = "example.test";
/// Longer than the translation remembers.
const FORGOTTEN: Duration = Duration::from_secs(12);
const PATIENCE: Duration = Duration::from_secs(60);

/// A server, a router that translates, and a network behind it.
struct Scene {
    folder: TestDir,
    config: PathBuf,
    server: Serving,
    router: Net,
    inside: Net,
}

impl Scene {
    fn new(name: &str, nat: &str) -> Self {
        let folder = TestDir::new(name);
        let at = folder.path();
        let Translation { router, inside } = Translation::new(at);
        let data = at.join("data");
        add_user(&data, "bob", DOMAIN, "bob-secret");
        let config = at.join("signet.toml");
        fs::write(&config, configuration(nat)).unwrap();
        let server = Serving::start(at, &data, &["--config", text(&config)]);
        Self {
            folder,
            config,
            server,
            router,
            inside,
        }
    }

    /// Bob's baresip, which keeps nothing open by itself; registered.
    fn baresip(&self) -> Running {
        let phone = baresip(self.folder.path(), &self.inside, DOMAIN);
        wait_for("bob's registration", || self.bindings().contains(OUTSIDE));
        let bindings = self.bindings();
        assert!(
            bindings.contains(PHONE),
            "its contact is its own: {bindings}"
        );
        phone
    }

    fn bindings(&self) -> String {
        succeed(&["bindings", "bob", "--config", text(&self.config)], "")
    }

    /// SIPp calls bob, who is to answer; how it ended.
    fn call(&self) -> (Option<i32>, String) {
        let log = self.folder.path().join("sipp.log");
        let words = [
            "-sn",
            "uac",
            "-s",
            "bob",
            "-i",
            CALLER,
            "-m",
            "1",
            "-nostdin",
            "-timeout",
            "40",
            "-timeout_error",
            ADDRESS,
        ];
        let code = Running::start("sipp", &words, &log).wait(PATIENCE);
        (code, fs::read_to_string(&log).unwrap_or_default())
    }

    fn reload(&self, nat: &str) {
        let log = fs::read_to_string(&self.server.log).unwrap();
        fs::write(&self.config, configuration(nat)).unwrap();
        self.server.process.signal("-HUP");
        let said = "reloaded";
        self.server
            .wait_for_count(said, log.matches(said).count() + 1);
    }

    /// Keep-alives of that kind so far.
    fn sent(&self, kind: &str) -> u64 {
        let name = format!("signet_nat_keepalives_total{{kind=\"{kind}\"}}");
        figure(self.folder.path(), &name)
    }
}

fn configuration(nat: &str) -> String {
    format!(
        "version = 1\ndata = \"data\"\ndomains = [\"{DOMAIN}\"]\nworkers = 2\ninbound = \"anyone\"\n\
         [[listen]]\non = \"udp:{ADDRESS}:5060\"\n[metrics]\nlisten = \"127.0.0.1:0\"\n{nat}"
    )
}

fn may_run() -> bool {
    ["nft", "nsenter", "baresip", "sipp"]
        .iter()
        .all(|of| have(of))
}

const OPTIONS: &str = "[nat]\nkeepalive = \"options\"\nkeepalive_interval_s = 2\n";

#[test]
fn a_phone_is_called_through_its_translation_while_it_is_kept_open() {
    in_namespace(
        "a_phone_is_called_through_its_translation_while_it_is_kept_open",
        || {
            if !may_run() {
                return;
            }
            let place = Scene::new("nat-call", OPTIONS);
            let _phone = place.baresip();
            std::thread::sleep(FORGOTTEN);
            let (code, told) = place.call();
            assert_eq!(code, Some(0), "{told}");
            place.reload("[nat]\nkeepalive = \"crlf\"\nkeepalive_interval_s = 2\n");
            wait_for("line ends", || place.sent("crlf") > 0);
            std::thread::sleep(FORGOTTEN);
            let (code, told) = place.call();
            assert_eq!(code, Some(0), "{told}");
            // Without, the translation has forgotten it, and the call does not get through.
            place.reload("");
            std::thread::sleep(FORGOTTEN);
            let (code, told) = place.call();
            assert!(code.is_some_and(|code| code != 0), "{code:?} {told}");
            assert!(place.bindings().contains(OUTSIDE));
        },
    );
}

#[test]
fn a_phone_that_is_gone_is_not_called_any_more() {
    in_namespace("a_phone_that_is_gone_is_not_called_any_more", || {
        if !may_run() {
            return;
        }
        let place = Scene::new("nat-gone", OPTIONS);
        // Who was asked twice has answered the first.
        let is_asked_twice = |after: u64| {
            let unanswered = "signet_nat_keepalives_unanswered_total";
            place.sent("options") >= after + 2 && figure(place.folder.path(), unanswered) == 0
        };
        // Its host says that nobody is there.
        let phone = place.baresip();
        wait_for("answers to OPTIONS", || is_asked_twice(0));
        drop(phone);
        place
            .server
            .wait_for_log("the flow to a phone has ended: what is sent to it comes back");
        assert!(!place.bindings().contains(OUTSIDE), "{}", place.bindings());
        let (code, told) = place.call();
        assert!(code.is_some_and(|code| code != 0), "{code:?} {told}");
        // Nobody says anything.
        let _phone = place.baresip();
        let before = place.sent("options");
        wait_for("answers to OPTIONS", || is_asked_twice(before));
        place
            .router
            .shell("nft add rule ip filter through iifname ve1 drop");
        place
            .server
            .wait_for_log("the flow to a phone has ended: the phone does not answer any more");
        assert!(!place.bindings().contains(OUTSIDE), "{}", place.bindings());
    });
}

#[test]
fn a_phone_learns_the_outside_of_its_translation_at_the_sip_port() {
    in_namespace(
        "a_phone_learns_the_outside_of_its_translation_at_the_sip_port",
        || {
            if !(may_run() && have("turnutils_stunclient")) {
                return;
            }
            let place = Scene::new("nat-stun", "");
            let asks = format!("turnutils_stunclient -p 5060 {ADDRESS}");
            let told = place.inside.shell(&asks);
            let told = String::from_utf8_lossy(&told.stdout).into_owned();
            assert!(
                told.contains(&format!("reflexive addr: {OUTSIDE}:")),
                "{told}"
            );
        },
    );
}
