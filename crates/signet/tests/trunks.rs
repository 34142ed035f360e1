//! Trunks to real providers: Kamailio, which wants a password for every request, and SIPp, which
//! checks the digests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "trunks/far.rs"]
mod far;
#[path = "trunks/kamailio.rs"]
mod kamailio;
mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use support::command::{Serving, succeed, text};
use support::openssl::{PATIENCE, page, wait_for_figure};
use support::phone::{Phone, field};
use support::{Running, TestDir, add_user, free_port, have, skip, wait_for_port};

use far::{Far, HIS_NONCE, cseq};
use kamailio::Kamailio;

const DOMAIN: &str = "example.com";
const PASSWORD: &str = "swordfish-4711";
const REALM: &str = "provider.example";

/// A server with alice and bob, and a trunk to a provider there.
struct World {
    folder: TestDir,
}

impl World {
    fn new(name: &str) -> Self {
        let folder = TestDir::new(name);
        let data = folder.path().join("data");
        for user in ["alice", "bob"] {
            add_user(&data, user, DOMAIN, &format!("{user}-secret"));
        }
        let this = Self { folder };
        this.write_password(PASSWORD);
        this
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn write_password(&self, password: &str) {
        let file = self.path().join("provider.password");
        fs::write(&file, format!("{password}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    }

    /// Writes the configuration, with what stands in the trunk's table, or without one.
    fn configure(&self, provider: &str, trunk: Option<&str>) {
        let trunk = trunk.map(|more| {
            format!(
                "[[trunk]]\ngroup = \"outside\"\ndomain = \"provider.example\"\nuser = \"4930100\"\n\
                 password_file = \"provider.password\"\nidentity = \"pai\"\nnumber = \"+4930100\"\n\
                 numbers = [{{ number = \"+4930101\", user = \"alice\" }}]\n\
                 country_code = \"49\"\nnational_prefix = \"0\"\ninternational_prefix = \"00\"\nformat = \"e164\"\n{more}\n"
            )
        });
        let config = format!(
            "version = 1\ndata = \"data\"\ndomains = [\"{DOMAIN}\"]\nworkers = 2\n\
             [[listen]]\non = \"udp:127.0.0.1:0\"\n[metrics]\nlisten = \"127.0.0.1:0\"\n\
             [authentication]\nalgorithms = [\"MD5\"]\n\
             [[gateway_group]]\nname = \"outside\"\ngateways = [{{ uri = \"{provider}\" }}]\n{}\
             [[route]]\nprefix = \"0\"\ngroup = \"outside\"\n",
            trunk.unwrap_or_default()
        );
        fs::write(self.path().join("signet.toml"), config).unwrap();
    }

    fn serve(&self) -> Serving {
        let config = self.path().join("signet.toml");
        let data = self.path().join("data");
        let _ = fs::remove_file(data.join("listeners.json"));
        Serving::start(self.path(), &data, &["--config", text(&config)])
    }

    fn ask(&self, words: &[&str]) -> String {
        let data = self.path().join("data");
        succeed(&[words, &["--data", text(&data)]].concat(), "")
    }

    /// The trunk, as `signet trunks` has it.
    fn shown(&self) -> Value {
        let answer: Value = serde_json::from_str(&self.ask(&["trunks", "--json"])).unwrap();
        assert_eq!(answer["version"], 1, "{answer}");
        answer["trunks"][0].clone()
    }

    /// Waits until the trunk stands so.
    #[track_caller]
    fn wait_until(&self, state: &str) -> Value {
        let until = Instant::now() + PATIENCE;
        loop {
            let shown = self.shown();
            if shown["state"] == state {
                return shown;
            }
            assert!(Instant::now() < until, "not {state}: {shown}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// The files below a folder that have this text in them.
fn files_with(folder: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_with(&path, text));
        } else if let Ok(bytes) = fs::read(&path) {
            let mut windows = bytes.windows(text.len());
            if windows.any(|window| window == text.as_bytes()) {
                found.push(path.file_name().unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    found
}

#[test]
fn a_provider_that_challenges_everything_has_calls_both_ways() {
    if !have("kamailio") {
        return;
    }
    let world = World::new("trunks-kamailio");
    let far = Far::start();
    let provider = Kamailio::start(world.path(), free_port(), REALM, PASSWORD, far.addr);
    let uri = format!("sip:{};transport=udp", provider.addr);
    let keys = format!("realm = \"{REALM}\"\nregister_s = 600");
    world.configure(&uri, Some(&keys));
    let mut server = world.serve();
    let shown = world.wait_until("registered");
    assert_eq!(shown["member"], provider.addr.to_string());
    assert_eq!(shown["account"], "sip:4930100@provider.example");
    assert!(world.ask(&["trunks"]).contains("is registered since"));
    server.wait_for_log("a trunk is registered");
    let labels = "{trunk=\"outside\"} ";
    wait_for_figure(world.path(), &format!("signet_trunk_registered{labels}"), 1);

    calls_out(&server, &far);
    who_is_called_gets_no_digest(&server, &far);
    assert_eq!(world.shown()["refused_for_s"], 0);
    calls_in(&server, &far, &provider);

    // Without the trunk the account is given back, with it it is there again.
    world.configure(&uri, None);
    server.process.signal("-HUP");
    server.wait_for_count("reloaded", 1);
    server.wait_for_log("the registration of a trunk was taken back");
    let nobody = far.call(provider.addr, "+4930101");
    assert_eq!(far.answered(provider.addr, &nobody), "480");
    world.configure(&uri, Some(&keys));
    server.process.signal("-HUP");
    server.wait_for_count("a trunk is registered", 2);

    // The password is in its file, and in nothing that anybody is shown.
    let config = world.path().join("signet.toml");
    let checked = succeed(&["check", text(&config)], "");
    let told = [
        world.ask(&["trunks", "--json"]),
        world.ask(&["gateways", "--json"]),
        world.ask(&["why"]),
        page(world.path(), "/metrics"),
        checked,
    ];
    for told in told {
        assert!(!told.contains(PASSWORD), "{told}");
    }
    // An end takes the registration back before the process is gone.
    server.process.signal("-TERM");
    assert_eq!(server.process.wait(PATIENCE), Some(0));
    let nobody = far.call(provider.addr, "+4930101");
    assert_eq!(far.answered(provider.addr, &nobody), "480");
    let mut files = files_with(world.path(), PASSWORD);
    files.sort();
    assert_eq!(files, ["kamailio.cfg", "provider.password"]);
    assert_eq!(provider.told("REFUSED REGISTER"), 0);
}

/// Alice calls out: her ACK, re-INVITE, BYE and CANCEL fit what the other end has.
fn calls_out(server: &Serving, far: &Far) {
    let mut alice = Phone::udp(server.at("udp"), "alice", DOMAIN);
    alice.register();
    let mut call = alice.invite("030123");
    alice.established(&mut call);
    let invite = far.wait_for("INVITE ", 1);
    assert!(
        invite.starts_with("INVITE sip:+4930123@provider.example SIP/2.0\r\n"),
        "{invite}"
    );
    assert_eq!(
        field(&invite, "P-Asserted-Identity"),
        "<sip:+4930101@provider.example>"
    );
    let ack = far.wait_for("ACK ", 1);
    assert_eq!(cseq(&ack), cseq(&invite), "{ack}");

    alice.invite_again(&mut call);
    alice.established(&mut call);
    let again = far.wait_for("INVITE ", 2);
    assert!(cseq(&again) > cseq(&invite), "{again}");
    let ack = far.wait_for("ACK ", 2);
    assert_eq!(cseq(&ack), cseq(&again), "{ack}");

    alice.hang_up(&mut call);
    alice.hung_up(&call);
    let bye = far.wait_for("BYE ", 1);
    assert!(cseq(&bye) > cseq(&again), "{bye}");

    let cancelled = alice.invite("030999");
    let invite = far.wait_for("INVITE sip:+4930999@", 1);
    let answer = alice.cancel(&cancelled);
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    let over = alice.refused(&cancelled);
    assert!(over.starts_with("SIP/2.0 487 "), "{over}");
    let cancel = far.wait_for("CANCEL ", 1);
    assert_eq!(cseq(&cancel), cseq(&invite), "{cancel}");
}

/// Whoever has this number asks for a password in the provider's name, and the provider passes that on.
fn who_is_called_gets_no_digest(server: &Serving, far: &Far) {
    let mut alice = Phone::udp(server.at("udp"), "alice", DOMAIN);
    alice.register();
    for count in 1..=4 {
        let call = alice.invite("0305401");
        let answer = alice.refused(&call);
        assert!(answer.starts_with("SIP/2.0 401 "), "{answer}");
        let invites = far.heard(|text| text.starts_with("INVITE sip:+49305401@"));
        assert_eq!(invites.len(), count);
        for invite in invites {
            assert!(!invite.contains(HIS_NONCE), "{invite}");
            assert!(!invite.contains("\r\nAuthorization:"), "{invite}");
        }
    }
}

/// The provider calls alice's number at the registered contact; she hangs up.
fn calls_in(server: &Serving, far: &Far, provider: &Kamailio) {
    let mut alice = Phone::udp(server.at("udp"), "alice", DOMAIN);
    alice.register();
    let byes = far.heard(|text| text.starts_with("BYE ")).len();
    let call_id = far.call(provider.addr, "+4930101");
    let (mut call, invite) = alice.answer();
    assert_eq!(field(&invite, "Call-ID"), call_id);
    assert_eq!(far.answered(provider.addr, &call_id), "200");
    alice.acknowledged(&call);
    alice.hang_up(&mut call);
    alice.hung_up(&call);
    let bye = far.wait_for("BYE ", byes + 1);
    assert_eq!(field(&bye, "Call-ID"), call_id);
    assert!(provider.told("PROVED BYE") >= 2);
    // A number that nobody has.
    let call_id = far.call(provider.addr, "+4930109");
    assert_eq!(far.answered(provider.addr, &call_id), "404");
}

#[test]
fn a_wrong_password_is_tried_once_and_another_realm_never() {
    if !have("kamailio") {
        return;
    }
    let world = World::new("trunks-refused");
    let far = Far::start();
    let provider = Kamailio::start(world.path(), free_port(), REALM, PASSWORD, far.addr);
    let uri = format!("sip:{};transport=udp", provider.addr);
    world.configure(&uri, Some("realm = \"other.example\"\nregister_s = 600"));
    let server = world.serve();
    let shown = world.wait_until("failing");
    assert_eq!(shown["why"], "foreign_realm", "{shown}");
    server.wait_for_log("realm=\"provider.example\"");
    assert_eq!(provider.told("REFUSED"), 0, "no password was sent");
    let mut alice = Phone::udp(server.at("udp"), "alice", DOMAIN);
    alice.register();
    let call = alice.invite("030123");
    let answer = alice.refused(&call);
    assert!(answer.starts_with("SIP/2.0 407 "), "{answer}");
    assert!(world.ask(&["why"]).contains("trunk_foreign_realm"));

    // The realm is right, and the password is not.
    world.write_password("not-the-one");
    world.configure(
        &uri,
        Some(&format!("realm = \"{REALM}\"\nregister_s = 600")),
    );
    server.process.signal("-HUP");
    server.wait_for_log("why=\"wrong_password\"");
    assert_eq!(provider.told("REFUSED REGISTER -2"), 1);
    let call = alice.invite("030123");
    let answer = alice.refused(&call);
    assert!(answer.starts_with("SIP/2.0 503 "), "{answer}");
    assert_eq!(provider.told("CHALLENGED INVITE -2"), 1);
    server.wait_for_log("a trunk's password was refused");
    // Now nothing goes there.
    let challenged = provider.told("CHALLENGED");
    let call = alice.invite("030123");
    let answer = alice.refused(&call);
    assert!(answer.starts_with("SIP/2.0 503 "), "{answer}");
    assert_eq!(provider.told("CHALLENGED"), challenged);
    assert!(world.ask(&["why"]).contains("trunk_refused"));
    assert!(world.shown()["refused_for_s"].as_u64() > Some(0));
    let figure = "signet_trunk_password_refused_total{trunk=\"outside\"} ";
    wait_for_figure(world.path(), figure, 1);

    // Another password is tried at once.
    world.write_password(PASSWORD);
    server.process.signal("-HUP");
    world.wait_until("registered");
    let mut call = alice.invite("030123");
    alice.established(&mut call);
    alice.hang_up(&mut call);
    alice.hung_up(&call);
    assert_eq!(world.shown()["refused_for_s"], 0);
}

#[test]
fn sippy_is_a_provider_by_each_algorithm_that_it_has() {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = beside.join("../../target/phones/bin/python3");
    if !python.exists() {
        return skip("sippy is not installed (`scripts/phones` installs it)");
    }
    for algorithm in ["MD5", "SHA-256", "SHA-512-256"] {
        let world = World::new(&format!("trunks-sippy-{algorithm}"));
        let (port, log) = (free_port(), world.path().join("provider.log"));
        let wants = serde_json::json!({
            "address": "127.0.0.2", "port": port, "realm": REALM, "user": "4930100",
            "password": PASSWORD, "algorithm": algorithm, "log": world.path().join("sippy.log"),
        });
        let script = beside.join("tests/trunks/provider.py");
        let words = [text(&script), &wants.to_string()];
        let _provider = Running::start(text(&python), &words, &log);
        let told = || fs::read_to_string(&log).unwrap();
        wait_for_port(port, &log);
        let keys = format!(
            "realm = \"{REALM}\"\nregister_s = 600\nchallenge_status = \"401\"\nalgorithm_min = \"{algorithm}\""
        );
        world.configure(&format!("sip:127.0.0.2:{port};transport=udp"), Some(&keys));
        let mut server = world.serve();
        world.wait_until("registered");
        let mut alice = Phone::udp(server.at("udp"), "alice", DOMAIN);
        alice.register();
        let mut call = alice.invite("030123");
        alice.established(&mut call);
        alice.hang_up(&mut call);
        alice.hung_up(&call);
        server.process.signal("-TERM");
        assert_eq!(server.process.wait(PATIENCE), Some(0));
        // Registered and taken back.
        for (method, count) in [("REGISTER", 2), ("INVITE", 1), ("BYE", 1)] {
            let proved = told()
                .matches(&format!("PROVED {method} {algorithm}\n"))
                .count();
            assert_eq!(proved, count, "{}", told());
        }
        assert!(!told().contains("REFUSED"), "{}", told());
    }
}

/// A called side of SIPp that asks for a password at the INVITE and again at the BYE, and goes
/// on only where the digest is right.
const SIPP: &str = r#"<?xml version="1.0" encoding="ISO-8859-1" ?>
<scenario name="provider">
<recv request="INVITE"/>
<send><![CDATA[

SIP/2.0 401 Unauthorized
[last_Via:]
[last_From:]
[last_To:];tag=[pid]SIPpTag01[call_number]
[last_Call-ID:]
[last_CSeq:]
WWW-Authenticate: Digest realm="provider.example", nonce="0c1f0a77", algorithm=MD5, qop="auth"
Content-Length: 0

]]></send>
<recv request="ACK"/>
<recv request="INVITE"><action>
  <verifyauth assign_to="1" username="4930100" password="swordfish-4711"/>
</action></recv>
<nop test="1" next="1"/>
<send><![CDATA[

SIP/2.0 403 Wrong Digest
[last_Via:]
[last_From:]
[last_To:];tag=[pid]SIPpTag01[call_number]
[last_Call-ID:]
[last_CSeq:]
Content-Length: 0

]]></send>
<recv request="ACK"/>
<nop next="9"/>
<label id="1"/>
<send><![CDATA[

SIP/2.0 180 Ringing
[last_Via:]
[last_Record-Route:]
[last_From:]
[last_To:];tag=[pid]SIPpTag01[call_number]
[last_Call-ID:]
[last_CSeq:]
Contact: <sip:[local_ip]:[local_port];transport=[transport]>
Content-Length: 0

]]></send>
<send retrans="500"><![CDATA[

SIP/2.0 200 OK
[last_Via:]
[last_Record-Route:]
[last_From:]
[last_To:];tag=[pid]SIPpTag01[call_number]
[last_Call-ID:]
[last_CSeq:]
Contact: <sip:[local_ip]:[local_port];transport=[transport]>
Content-Length: 0

]]></send>
<recv request="ACK"/>
<recv request="BYE"/>
<send><![CDATA[

SIP/2.0 401 Unauthorized
[last_Via:]
[last_From:]
[last_To:]
[last_Call-ID:]
[last_CSeq:]
WWW-Authenticate: Digest realm="provider.example", nonce="5bd9b1e2", algorithm=MD5, qop="auth", stale=true
Content-Length: 0

]]></send>
<recv request="BYE"><action>
  <verifyauth assign_to="2" username="4930100" password="swordfish-4711"/>
</action></recv>
<nop test="2" next="2"/>
<send><![CDATA[

SIP/2.0 403 Wrong Digest
[last_Via:]
[last_From:]
[last_To:]
[last_Call-ID:]
[last_CSeq:]
Content-Length: 0

]]></send>
<nop next="9"/>
<label id="2"/>
<send><![CDATA[

SIP/2.0 200 OK
[last_Via:]
[last_From:]
[last_To:]
[last_Call-ID:]
[last_CSeq:]
Content-Length: 0

]]></send>
<label id="9"/>
</scenario>
"#;

#[test]
fn sipp_finds_the_digests_right_and_the_numbers_in_order() {
    if !have("sipp") {
        return;
    }
    let world = World::new("trunks-sipp");
    let port = free_port();
    let (scenario, messages) = (
        world.path().join("uas.xml"),
        world.path().join("messages.log"),
    );
    fs::write(&scenario, SIPP).unwrap();
    let log = world.path().join("sipp.log");
    let number = port.to_string();
    let mut provider = Running::start(
        "sipp",
        &[
            "-sf",
            text(&scenario),
            "-i",
            "127.0.0.2",
            "-p",
            &number,
            "-m",
            "1",
            "-nostdin",
            "-timeout",
            "60",
            "-timeout_error",
            "-trace_msg",
            "-message_file",
            text(&messages),
        ],
        &log,
    );
    wait_for_port(port, &log);
    let uri = format!("sip:127.0.0.2:{port};transport=udp");
    world.configure(&uri, Some(&format!("realm = \"{REALM}\"")));
    let server = world.serve();
    let mut alice = Phone::udp(server.at("udp"), "alice", DOMAIN);
    alice.register();
    let mut call = alice.invite("030123");
    alice.established(&mut call);
    alice.hang_up(&mut call);
    alice.hung_up(&call);
    let code = provider.wait(PATIENCE);
    assert_eq!(code, Some(0), "{}", fs::read_to_string(&log).unwrap());
    let all = fs::read_to_string(&messages).unwrap();
    assert!(!all.contains("403 Wrong Digest"), "{all}");
    // What it received, in its order.
    let received = all.split("message received").skip(1);
    let mut numbers: Vec<(String, u32)> = received
        .filter_map(|text| {
            let line = text.lines().find_map(|line| line.strip_prefix("CSeq: "))?;
            let (number, method) = line.split_once(' ')?;
            Some((method.trim().to_owned(), number.parse().unwrap()))
        })
        .collect();
    numbers.dedup();
    let first = numbers[0].1;
    assert_eq!(first % 4, 0);
    let bye = numbers.last().unwrap().1 - 1;
    let expected = [
        ("INVITE", first),
        ("ACK", first),
        ("INVITE", first + 1),
        ("ACK", first + 1),
        ("BYE", bye),
        ("BYE", bye + 1),
    ];
    let numbers: Vec<(&str, u32)> = numbers
        .iter()
        .map(|(of, number)| (&**of, *number))
        .collect();
    assert_eq!(numbers, expected);
    assert!(bye > first + 1 && bye.is_multiple_of(4));
}
