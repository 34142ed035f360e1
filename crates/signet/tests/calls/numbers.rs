//! Numbers and people on a running server: what commands change counts when they return. SIPp is
//! the gateway, and a caller who hides.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::support::command::{Serving, fail, run, succeed, text};
use crate::support::openssl::{figure, wait_for_figure};
use crate::support::phone::Phone;
use crate::support::{Running, TestDir, add_user, free_port, have, wait_for_port};
use sip_net::testing::uninterrupted;

const DOMAIN: &str = "example.com";
const PATIENCE: Duration = Duration::from_secs(60);

/// A server of two workers with users, whose numbers go to that port.
fn serve(folder: &Path, gateway: u16, keys: &str) -> Serving {
    let data = folder.join("data");
    if !data.exists() {
        for user in ["alice", "bob", "carol"] {
            add_user(&data, user, DOMAIN, &format!("{user}-secret"));
        }
    }
    let config = folder.join("signet.toml");
    let whole = format!(
        "version = 1\ndata = \"data\"\ndomains = [\"{DOMAIN}\"]\nworkers = 2\n\
         [[listen]]\non = \"udp:127.0.0.1:0\"\n[metrics]\nlisten = \"127.0.0.1:0\"\n\
         [authentication]\nalgorithms = [\"MD5\"]\n[timers]\nt1_ms = 50\n[log]\nlevel = \"debug\"\n\
         [numbers]\ncountry_code = \"49\"\npremium = [\"0137\"]\n\
         [[rewrite]]\nmatch = \"0([1-9][0-9]*)\"\nto = \"+49$1\"\n\
         examples = [[\"030123\", \"+4930123\"]]\n\
         [[user_group]]\nname = \"staff\"\npermissions = \"internal\"\n\
         [[gateway_group]]\nname = \"pstn\"\n{keys}\
         gateways = [{{ uri = \"sip:127.0.0.1:{gateway};transport=udp\" }}]\n\
         [[route]]\nprefix = \"+\"\ngroup = \"pstn\"\n"
    );
    fs::write(&config, whole).unwrap();
    let _ = fs::remove_file(data.join("listeners.json"));
    Serving::start(folder, &data, &["--config", text(&config)])
}

/// A command beside it.
fn told(folder: &Path, words: &[&str]) -> String {
    let config = folder.join("signet.toml");
    succeed(&[words, &["--config", text(&config)]].concat(), "")
}

fn why(folder: &Path) -> String {
    told(folder, &["why"])
}

/// The answer to a call that nobody takes.
fn refused(caller: &mut Phone, called: &str) -> String {
    let call = caller.invite(called);
    let answer = caller.refused(&call);
    answer.lines().next().unwrap().to_owned()
}

/// SIPp as a gateway that answers every call and stays on its route; what it is sent is in
/// `gateway.msg`.
fn gateway(folder: &Path, port: u16) -> Running {
    let scenario = Command::new("sipp").args(["-sd", "uas"]).output().unwrap();
    let scenario = String::from_utf8(scenario.stdout).unwrap();
    let kept = scenario.replace("[last_Via:]", "[last_Via:]\n[last_Record-Route:]");
    assert_ne!(scenario, kept);
    let file = folder.join("uas.xml");
    fs::write(&file, kept).unwrap();
    let messages = folder.join("gateway.msg");
    let number = port.to_string();
    let words = [
        "-sf",
        text(&file),
        "-i",
        "127.0.0.1",
        "-p",
        &number,
        "-nostdin",
        "-trace_msg",
        "-message_file",
        text(&messages),
    ];
    let log = folder.join("uas.log");
    let running = Running::start("sipp", &words, &log);
    wait_for_port(port, &log);
    running
}

#[test]
fn aliases_count_when_the_command_returns_and_after_a_restart() {
    let folder = TestDir::new("numbers-aliases");
    let folder = folder.path();
    let server = serve(folder, 9, "");
    let at = server.at("udp");
    let (mut alice, mut bob) = (
        Phone::udp(at, "alice", DOMAIN),
        Phone::udp(at, "bob", DOMAIN),
    );
    bob.register();
    assert!(refused(&mut alice, "sales").contains(" 404 "));
    for (name, called) in [
        ("sales", "sales"),
        ("+49 (30) 555", "030555"),
        ("desk", "desk"),
    ] {
        let to = if name == "desk" { "sales" } else { "bob" };
        let said = told(folder, &["alias", "add", name, to]);
        assert!(
            said.ends_with(&format!("leads to {to}@{DOMAIN}\n")),
            "{said}"
        );
        let mut call = alice.invite(called);
        let (of_bob, invite) = bob.answer();
        alice.established(&mut call);
        bob.acknowledged(&of_bob);
        alice.hang_up(&mut call);
        bob.ended(&of_bob);
        alice.hung_up(&call);
        assert!(
            invite.contains(&format!("To: <sip:{called}@{DOMAIN}>")),
            "{invite}"
        );
    }
    assert_eq!(
        told(folder, &["alias", "list"]),
        format!(
            "+4930555@{DOMAIN}  bob@{DOMAIN}\ndesk@{DOMAIN}  sales@{DOMAIN}\nsales@{DOMAIN}  bob@{DOMAIN}\n"
        )
    );
    // What leads in a circle is not written.
    let config = folder.join("signet.toml");
    let error = fail(
        &["alias", "add", "sales", "desk", "--config", text(&config)],
        "",
    );
    assert!(error.contains("would lead back to itself"), "{error}");
    for (words, error) in [
        (
            &["alias", "add", "a b", "bob"][..],
            "is no name, number or URI",
        ),
        (&["alias", "add", "x", "bob;q=7"], "is no preference"),
        (
            &["alias", "remove", "nothing"],
            "there is no alias nothing@",
        ),
        (
            &["user", "set", "nobody", "--calls-max", "1"],
            "there is no user nobody@",
        ),
        (
            &["user", "set", "bob", "--permissions", "all"],
            "`all` is no permission",
        ),
        (
            &["user", "set", "bob", "--calls-max", "many"],
            "is no number of calls",
        ),
    ] {
        let told = fail(&[words, &["--config", text(&config)]].concat(), "");
        assert!(told.contains(error), "{told}");
    }
    // As it was after a restart, and gone when it is removed.
    server.process.signal("-TERM");
    drop(server);
    let server = serve(folder, 9, "");
    let mut alice = Phone::udp(server.at("udp"), "alice", DOMAIN);
    told(folder, &["bindings", "remove", "bob"]);
    assert!(refused(&mut alice, "desk").contains(" 480 "));
    told(folder, &["alias", "remove", "desk"]);
    assert!(refused(&mut alice, "desk").contains(" 404 "));
    assert_eq!(figure(folder, "signet_broken_invariants_total"), 0);
}

/// What somebody types who has not read the manual.
#[test]
fn what_is_mistyped_is_told_with_a_remedy_and_not_written() {
    let folder = TestDir::new("numbers-mistyped");
    let folder = folder.path();
    let data = folder.join("data");
    let config = folder.join("signet.toml");
    let whole = format!(
        "version = 1\ndata = \"data\"\ndomains = [\"{DOMAIN}\"]\n[[user_group]]\nname = \"staff\"\n"
    );
    fs::write(&config, whole).unwrap();
    for user in ["alice", "bob"] {
        add_user(&data, user, DOMAIN, "secret");
    }
    for (words, error, remedy) in [
        // The number without its quotes.
        (
            &["alias", "add", "+49", "30", "555", "bob"][..],
            "`+49` is too short for a number",
            "in quotes",
        ),
        // The other way round.
        (
            &["alias", "add", "alice", "+4930555100"],
            "alice@example.com is a user",
            "signet alias add +4930555100 alice",
        ),
        (
            &["alias", "add", "sales@exmaple.com", "bob"],
            "`exmaple.com` is no domain of this server",
            "its domains are example.com",
        ),
        (
            &["alias", "add", "sales@example.com:5060", "bob"],
            "`example.com:5060` is no domain",
            "signet domain add",
        ),
        (
            &["alias", "add", "sales", "alice,bob"],
            "has a `,` in its name",
            "with spaces between",
        ),
        (
            &["alias", "add", "sales", "bob;p=0.5"],
            "has a `;` in its name",
            "bob;q=0.5",
        ),
        (
            &["alias", "add", "sales", "bob;q=0,5"],
            "is no preference",
            "bob;q=0.5",
        ),
        (
            &["alias", "add", "sales", "sales"],
            "would lead back to itself",
            "signet alias list",
        ),
        (
            &["user", "set", "alice", "--group", "stff"],
            "no [[user_group]] named `stff`",
            "there are: staff",
        ),
        (
            &["user", "set", "alice", "--forward-always", "off"],
            "would be the name of a user",
            "write - to take a forward back",
        ),
        (
            &["user", "set", "alice", "--forward-busy", "alice"],
            "would forward his calls to himself",
            "write -",
        ),
        (
            &["user", "set", "alice", "--no-answer-s", "0"],
            "is no number of seconds",
            "from 1 to 180",
        ),
        (
            &["user", "set", "alice", "--caller-id", "alice"],
            "`alice` is no number",
            "+4930123456",
        ),
    ] {
        let told = fail(&[words, &["--config", text(&config)]].concat(), "");
        let (first, second) = told.split_once("\n  ").expect(&told);
        assert!(first.contains(error), "{words:?}: {told}");
        assert!(second.contains(remedy), "{words:?}: {told}");
    }
    assert_eq!(told(folder, &["alias", "list"]), "");
    assert_eq!(
        told(folder, &["user", "show", "alice"]),
        "alice@example.com\n"
    );
    // Who comes later may be named before, and is told of once.
    let note = "note: there is no user and no alias carol@example.com yet\n";
    for words in [
        &["alias", "add", "sales", "bob", "carol", "+4930555100"][..],
        &["user", "set", "alice", "--forward-busy", "carol"],
    ] {
        let said = told(folder, words);
        assert_eq!(said.matches("note:").count(), 1, "{said}");
        assert!(said.ends_with(note), "{said}");
    }
    assert!(!told(folder, &["alias", "add", "desk", "sales", "x@far.example"]).contains("note"));
    // One who is called like an alias would never be reached.
    let words = ["user", "add", "sales", "--config", text(&config)];
    let told = fail(&words, "secret\n");
    assert!(
        told.contains("there is an alias sales@example.com"),
        "{told}"
    );
}

#[test]
fn what_a_user_may_counts_when_the_command_returns_and_goes_with_him() {
    if !have("sipp") {
        return;
    }
    let folder = TestDir::new("numbers-users");
    let folder = folder.path();
    let port = free_port();
    let _gateway = gateway(folder, port);
    let server = serve(folder, port, "calls_max = 2\n");
    let at = server.at("udp");
    let mut alice = Phone::udp(at, "alice", DOMAIN);
    let complete = |alice: &mut Phone, number: &str| {
        let mut call = alice.invite(number);
        alice.established(&mut call);
        alice.hang_up(&mut call);
        alice.hung_up(&call);
    };
    complete(&mut alice, "030123");

    let shown = told(folder, &["user", "set", "alice", "--group", "staff"]);
    assert_eq!(
        shown,
        format!("alice@{DOMAIN}\n  group              staff\n")
    );
    let answer = refused(&mut alice, "030123");
    assert!(answer.contains(" 403 "), "{answer}");
    assert!(why(folder).contains("not_permitted"), "{}", why(folder));
    // His own word counts before his group's.
    told(
        folder,
        &["user", "set", "alice", "--permissions", "international"],
    );
    complete(&mut alice, "030123");
    assert!(refused(&mut alice, "0137999").contains(" 403 "));
    assert!(refused(&mut alice, "+49137999").contains(" 403 "));

    // One call at a time, and the gateways two.
    told(folder, &["user", "set", "alice", "--calls-max", "1"]);
    let mut first = alice.invite("030123");
    alice.established(&mut first);
    assert!(refused(&mut alice, "030124").contains(" 486 "));
    let mut bob = Phone::udp(at, "bob", DOMAIN);
    let mut second = bob.invite("030123");
    bob.established(&mut second);
    assert!(refused(&mut bob, "030124").contains(" 503 "));
    for (phone, call) in [(&mut alice, &mut first), (&mut bob, &mut second)] {
        phone.hang_up(call);
        phone.hung_up(call);
        complete(phone, "030123");
    }
    for (status, reason, count) in [
        (403, "not_permitted", 3),
        (486, "user_calls_max", 1),
        (503, "group_calls_max", 1),
    ] {
        let name = format!(
            "signet_refusals_total{{method=\"INVITE\",status=\"{status}\",reason=\"{reason}\"}}"
        );
        wait_for_figure(folder, &name, count);
    }

    // Forwarded by a phone that does not answer, on its owner's account: whoever calls.
    let mut carol = Phone::udp(at, "carol", DOMAIN);
    carol.register();
    let words = [
        "user",
        "set",
        "carol",
        "--forward-no-answer",
        "030777",
        "--no-answer-s",
        "1",
        "--permissions",
        "national",
    ];
    told(folder, &words);
    told(folder, &["user", "set", "bob", "--permissions", "internal"]);
    complete(&mut bob, "carol");
    let messages = fs::read_to_string(folder.join("gateway.msg")).unwrap();
    let invite = messages
        .split("INVITE sip:+4930777@")
        .nth(1)
        .expect("it went there");
    let line = format!("Diversion: <sip:carol@{DOMAIN}>;reason=no-answer;counter=1");
    assert!(invite.contains(&line), "{invite}");
    told(
        folder,
        &["user", "set", "carol", "--permissions", "internal"],
    );
    let mut call = bob.invite("carol");
    let answer = bob.refused(&call);
    assert!(answer.starts_with("SIP/2.0 408 "), "{answer}");
    assert!(why(folder).contains("forward_refused"), "{}", why(folder));

    // Who gets the name after her gets nothing of it.
    told(folder, &["user", "remove", "carol"]);
    add_user(&folder.join("data"), "carol", DOMAIN, "carol-secret");
    let shown = told(folder, &["user", "show", "carol"]);
    assert_eq!(shown, format!("carol@{DOMAIN}\n"));
    call = bob.invite("carol");
    assert!(bob.refused(&call).starts_with("SIP/2.0 480 "));
    wait_for_figure(folder, "signet_calls_diverted_total", 1);
    assert_eq!(figure(folder, "signet_broken_invariants_total"), 0);
}

/// A provider who asks for a password, and whose people are busy: the INVITE that has it.
fn provider_answers(provider: &UdpSocket) -> String {
    let mut buffer = [0; 65_535];
    loop {
        let (len, from) = uninterrupted(|| provider.recv_from(&mut buffer)).expect("an INVITE");
        let text = String::from_utf8_lossy(&buffer[..len]).into_owned();
        if !text.starts_with("INVITE ") {
            continue;
        }
        let copied: String = text
            .lines()
            .filter(|line| {
                ["Via:", "From:", "To:", "Call-ID:", "CSeq:"]
                    .iter()
                    .any(|name| line.starts_with(name))
            })
            .map(|line| match line.starts_with("To:") {
                true => format!("{line};tag=provider\r\n"),
                false => format!("{line}\r\n"),
            })
            .collect();
        let is_proved = text.contains("\r\nProxy-Authorization: ");
        let (status, more) = match is_proved {
            true => ("486 Busy Here", ""),
            false => (
                "407 Proxy Authentication Required",
                "Proxy-Authenticate: Digest realm=\"provider.example\", nonce=\"n1\", algorithm=MD5, qop=\"auth\"\r\n",
            ),
        };
        let answer = format!("SIP/2.0 {status}\r\n{copied}{more}Content-Length: 0\r\n\r\n");
        provider.send_to(answer.as_bytes(), from).unwrap();
        if is_proved {
            return text;
        }
    }
}

/// The password of a trunk is in a file of its own, which a reload reads again and no command about
/// a user does: it may be wrong by then, or half edited.
#[test]
fn a_command_about_a_user_leaves_a_trunk_its_password() {
    let folder = TestDir::new("numbers-trunk");
    let folder = folder.path();
    let provider = UdpSocket::bind("127.0.0.2:0").unwrap();
    provider.set_read_timeout(Some(PATIENCE)).unwrap();
    let file = folder.join("provider.password");
    let write = |password: &str, mode: u32| {
        fs::write(&file, password).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
    };
    write("swordfish\n", 0o600);
    let port = provider.local_addr().unwrap().port();
    let server = serve(folder, port, "");
    drop(server);
    let config = folder.join("signet.toml");
    let trunk = "[[trunk]]\ngroup = \"pstn\"\ndomain = \"provider.example\"\nuser = \"4930100\"\n\
                 password_file = \"provider.password\"\nrealm = \"provider.example\"\nidentity = \"pai\"\nnumber = \"+4930100\"\n\
                 country_code = \"49\"\n";
    // Whoever sends from a provider's address is the provider.
    let whole = fs::read_to_string(&config).unwrap() + trunk;
    let whole = whole.replace("sip:127.0.0.1:", "sip:127.0.0.2:");
    fs::write(&config, whole).unwrap();
    let data = folder.join("data");
    let _ = fs::remove_file(data.join("listeners.json"));
    let server = Serving::start(folder, &data, &["--config", text(&config)]);
    let mut alice = Phone::udp(server.at("udp"), "alice", DOMAIN);
    for (caller_id, shown, password, mode) in [
        ("-", "+4930100", "swordfish\n", 0o600),
        ("030-333", "+4930333", "sword", 0o600),
        ("030-444", "+4930444", "swordfish\n", 0o644),
    ] {
        write(password, mode);
        told(folder, &["user", "set", "alice", "--caller-id", caller_id]);
        let call = alice.invite("030123");
        let invite = provider_answers(&provider);
        let caller = format!("P-Asserted-Identity: <sip:{shown}@provider.example>");
        assert!(invite.contains(&caller), "{invite}");
        let proof = invite
            .lines()
            .find(|line| line.starts_with("Proxy-Authorization: "))
            .expect(&invite);
        // By the right password, and no other.
        let value = |name: &str| {
            let at = proof.find(&format!("{name}=")).unwrap() + name.len() + 1;
            let rest = proof[at..].trim_start_matches('"');
            rest.split(['"', ',']).next().unwrap().to_owned()
        };
        let md5 = |text: String| crate::support::phone::md5(&text);
        let uri = invite.split(' ').nth(1).unwrap();
        let ha1 = md5("4930100:provider.example:swordfish".to_owned());
        let ha2 = md5(format!("INVITE:{uri}"));
        let (nc, cnonce) = (value("nc"), value("cnonce"));
        let expected = md5(format!("{ha1}:n1:{nc}:{cnonce}:auth:{ha2}"));
        assert_eq!(value("response"), expected, "{invite}");
        assert!(alice.refused(&call).starts_with("SIP/2.0 486 "));
    }
    assert_eq!(figure(folder, "signet_broken_invariants_total"), 0);
}

#[test]
fn sipp_hides_and_is_let_in_by_its_password() {
    if !have("sipp") {
        return;
    }
    let folder = TestDir::new("numbers-hidden");
    let folder = folder.path();
    let port = free_port();
    let _gateway = gateway(folder, port);
    let server = serve(folder, port, "");
    let scenario = |password: &str, last: &str| {
        let head = |method: &str, cseq: u32, uri: &str, more: &str| {
            // The tag in a challenge is no dialog's.
            let tag = if method == "INVITE" {
                ""
            } else {
                "[peer_tag_param]"
            };
            format!(
                "{method} {uri} SIP/2.0\nVia: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch];rport\n\
                 Max-Forwards: 70\nFrom: \"Anonymous\" <sip:anonymous@anonymous.invalid>;tag=[pid]x[call_number]\n\
                 To: <sip:030123@{DOMAIN}>{tag}\nCall-ID: [call_id]\nCSeq: {cseq} {method}\n\
                 Contact: <sip:anonymous@[local_ip]:[local_port]>\nPrivacy: id\n{more}Content-Length: 0\n\n"
            )
        };
        let send = |text: String| format!("<send><![CDATA[\n\n{text}]]></send>\n");
        let uri = format!("sip:030123@{DOMAIN}");
        let proof = format!("[authentication username=alice password={password}]\n");
        let mut steps = send(head("INVITE", 1, &uri, ""));
        steps += "<recv response=\"407\" auth=\"true\"></recv>\n";
        steps += &send(head("ACK", 1, &uri, ""));
        steps += &send(head("INVITE", 2, &uri, &proof));
        steps += last;
        if last.contains("200") {
            steps += &send(head("ACK", 2, "[next_url]", "[routes]\n"));
            steps += &send(head("BYE", 3, "[next_url]", "[routes]\n"));
            steps += "<recv response=\"200\"></recv>\n";
        } else {
            steps += &send(head("ACK", 2, &uri, ""));
        }
        format!("<?xml version=\"1.0\"?>\n<scenario name=\"hidden\">\n{steps}</scenario>\n")
    };
    let answered = "<recv response=\"100\" optional=\"true\"></recv>\n\
                    <recv response=\"180\" optional=\"true\"></recv>\n\
                    <recv response=\"200\" rrs=\"true\"></recv>\n";
    for (name, password, last) in [
        ("right", "alice-secret", answered),
        ("wrong", "guessed", "<recv response=\"407\"></recv>\n"),
    ] {
        let file = folder.join(format!("{name}.xml"));
        fs::write(&file, scenario(password, last)).unwrap();
        let to = server.at("udp").to_string();
        let log = folder.join(format!("{name}.log"));
        let uri = format!("030123@{DOMAIN}");
        let words = [
            "-sf",
            text(&file),
            "-i",
            "127.0.0.1",
            "-m",
            "1",
            "-nostdin",
            "-auth_uri",
            &uri,
            &to,
        ];
        let mut caller = Running::start("sipp", &words, &log);
        let told = || fs::read_to_string(&log).unwrap();
        assert_eq!(caller.wait(PATIENCE), Some(0), "{name}: {}", told());
    }
    let messages = fs::read_to_string(folder.join("gateway.msg")).unwrap();
    assert!(messages.contains("INVITE sip:+4930123@"), "{messages}");
    assert!(messages.contains("sip:anonymous@anonymous.invalid"));
    assert!(
        !messages.contains("alice"),
        "nothing of who it is is sent there"
    );
    let found = why(folder);
    assert!(
        found.contains("anonymous_caller") && found.contains("wrong_password"),
        "{found}"
    );
}

#[test]
fn a_check_tries_the_examples_and_names_the_line() {
    let folder = TestDir::new("numbers-check");
    let file = folder.path().join("signet.toml");
    let whole = "version = 1\n[[rewrite]]\nmatch = \"0([1-9][0-9]*)\"\nto = \"+49$1\"\n\
                 examples = [[\"030\", \"+4930\"], [\"0049\", \"+49\"]]\n";
    fs::write(&file, whole).unwrap();
    let error = fail(&["check", text(&file)], "");
    assert!(error.contains("signet.toml:5:"), "{error}");
    assert!(error.contains("`0049` fits no rule"), "{error}");
    fs::write(
        &file,
        whole.replace("[\"0049\", \"+49\"]", "[\"040\", \"+4940\"]"),
    )
    .unwrap();
    let output = run(&["check", text(&file)], "");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
