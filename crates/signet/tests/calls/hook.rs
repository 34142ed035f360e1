//! The hook of a running server: the example of docs/HOOK.md in Python, calls of SIPp and of
//! phones, and what becomes of them while it is gone.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::command::{Serving, fail, succeed, text};
use crate::support::figures::missing;
use crate::support::openssl::{figure, page, wait_for_figure};
use crate::support::phone::{Phone, field};
use crate::support::{Running, TestDir, add_user, free_port, have, hook, unique, wait_for_port};
use serde_json::Value;
use sip_net::testing::uninterrupted;

/// How long anything may take on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(90);
const DOMAIN: &str = "example.com";
/// Lines that the example has at most.
const LINES_MAX: usize = 30;

/// A configuration: where the hook and the gateway are, and more of `[hook]` and of the rest.
fn write_config(folder: &Path, hook_port: u16, gateway_port: u16, hook: &str, more: &str) {
    let config = format!(
        "version = 1\ndata = \"data\"\ndomains = [\"{DOMAIN}\"]\nworkers = 2\n\
         [[listen]]\non = \"udp:127.0.0.1:0\"\n[metrics]\nlisten = \"127.0.0.1:0\"\n\
         [[gateway_group]]\nname = \"outside\"\n\
         gateways = [{{ uri = \"sip:127.0.0.1:{gateway_port}\" }}]\n\
         [hook]\nurl = \"http://127.0.0.1:{hook_port}/\"\nheaders = [\"X-Account\"]\n\
         timeout_ms = 10000\n{hook}{more}"
    );
    fs::write(folder.join("signet.toml"), config).unwrap();
}

fn serve(folder: &Path) -> Serving {
    let (config, data) = (folder.join("signet.toml"), folder.join("data"));
    Serving::start(folder, &data, &["--config", text(&config)])
}

/// What `signet why` finds, as JSON.
fn why(folder: &Path, arguments: &[&str]) -> Vec<Value> {
    let data = folder.join("data");
    let place = ["why", "--data", text(&data), "--json", "--last", "1000"];
    let answer = succeed(&[&place[..], arguments].concat(), "");
    let answer: Value = serde_json::from_str(&answer).unwrap();
    answer["refusals"].as_array().unwrap().clone()
}

/// Has the hook asked again; how many answers it had remembered.
fn forget(folder: &Path) -> u64 {
    let data = folder.join("data");
    let answer = succeed(&["hook", "forget", "--data", text(&data), "--json"], "");
    let answer: Value = serde_json::from_str(&answer).unwrap();
    answer["forgotten"].as_u64().unwrap()
}

fn answers(action: &str) -> String {
    format!("signet_hook_answers_total{{action=\"{action}\"}}")
}

/// SIPp with that scenario, its log beside it.
fn sipp(folder: &Path, name: &str, scenario: &str, port: u16, more: &[&str]) -> Running {
    let file = folder.join(format!("{name}.xml"));
    let whole = format!(
        "<?xml version=\"1.0\" encoding=\"ISO-8859-1\" ?>\n<scenario name=\"{name}\">\n{scenario}</scenario>\n"
    );
    fs::write(&file, whole).unwrap();
    let port = port.to_string();
    let words = [
        "-sf",
        text(&file),
        "-i",
        "127.0.0.1",
        "-p",
        &port,
        "-nostdin",
    ];
    let log = folder.join(format!("{name}.log"));
    Running::start("sipp", &[&words[..], more].concat(), &log)
}

#[track_caller]
fn succeeded(folder: &Path, name: &str, running: &mut Running) {
    let code = running.wait(PATIENCE);
    let log = fs::read_to_string(folder.join(format!("{name}.log"))).unwrap_or_default();
    assert_eq!(code, Some(0), "{name}: {log}");
}

/// A request of a caller, who says himself what his account is.
fn request(method: &str, uri: &str, cseq: u32, to: &str, more: &str) -> String {
    format!(
        "\n    {method} {uri} SIP/2.0\n    Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]\n    \
         {more}From: <sip:sipp@[local_ip]:[local_port]>;tag=[call_number]\n    \
         To: <sip:[service]@[remote_ip]:[remote_port]>{to}\n    Call-ID: [call_id]\n    \
         CSeq: {cseq} {method}\n    Contact: <sip:sipp@[local_ip]:[local_port]>\n    Max-Forwards: 70\n    \
         x-account: forged\n    Content-Length: 0\n\n"
    )
}

/// A call that is answered and ended.
fn caller() -> String {
    let invite = request(
        "INVITE",
        "sip:[service]@[remote_ip]:[remote_port]",
        1,
        "",
        "",
    );
    let within = |method: &str, cseq| {
        let more = "[routes]\n    ";
        request(method, "[next_url]", cseq, "[peer_tag_param]", more)
    };
    format!(
        "<send retrans=\"500\"><![CDATA[\n{invite}]]></send>\n\
         <recv response=\"100\" optional=\"true\"/>\n<recv response=\"180\" optional=\"true\"/>\n\
         <recv response=\"200\" rrs=\"true\"/>\n<send><![CDATA[\n{}]]></send>\n\
         <send retrans=\"500\"><![CDATA[\n{}]]></send>\n<recv response=\"200\"/>\n",
        within("ACK", 1),
        within("BYE", 2)
    )
}

/// A call that is refused in the words of the example.
fn refused_caller() -> String {
    let uri = "sip:[service]@[remote_ip]:[remote_port]";
    format!(
        "<send retrans=\"500\"><![CDATA[\n{}]]></send>\n<recv response=\"100\" optional=\"true\"/>\n\
         <recv response=\"403\"><action><ereg regexp=\"403 No premium numbers\" search_in=\"msg\" \
         check_it=\"true\" assign_to=\"1\"/></action></recv>\n\
         <send><![CDATA[\n\n    ACK {uri} SIP/2.0\n    [last_Via:]\n    \
         From: <sip:sipp@[local_ip]:[local_port]>;tag=[call_number]\n    [last_To:]\n    \
         Call-ID: [call_id]\n    CSeq: 1 ACK\n    Max-Forwards: 70\n    Content-Length: 0\n\n]]></send>\n\
         <Reference variables=\"1\"/>\n",
        request("INVITE", uri, 1, "", "")
    )
}

/// The gateway, which takes calls of that account alone.
fn called(account: &str) -> String {
    let answer = |status: &str, to: &str, more: &str| {
        format!(
            "<![CDATA[\n\n    SIP/2.0 {status}\n    [last_Via:]\n    [last_Record-Route:]\n    [last_From:]\n    \
             [last_To:]{to}\n    [last_Call-ID:]\n    [last_CSeq:]\n    {more}Content-Length: 0\n\n]]>"
        )
    };
    let (tag, contact) = (
        ";tag=called[call_number]",
        "Contact: <sip:[local_ip]:[local_port]>\n    ",
    );
    format!(
        "<recv request=\"INVITE\"><action>\
         <ereg regexp=\"X-Account: {account}\" search_in=\"msg\" check_it=\"true\" assign_to=\"1\"/>\
         <ereg regexp=\"forged\" search_in=\"msg\" check_it_inverse=\"true\" assign_to=\"2\"/>\
         </action></recv>\n<send>{}</send>\n<send retrans=\"500\">{}</send>\n\
         <recv request=\"ACK\"/>\n<recv request=\"BYE\"/>\n<send>{}</send>\n\
         <Reference variables=\"1,2\"/>\n",
        answer("180 Ringing", tag, contact),
        answer("200 OK", tag, contact),
        answer("200 OK", "", "")
    )
}

#[test]
fn the_example_is_in_the_document_and_no_longer_than_that() {
    let example = fs::read_to_string(hook::example()).unwrap();
    assert!(example.lines().count() <= LINES_MAX);
    assert!(example.lines().all(|line| line.len() <= 100));
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/HOOK.md");
    let document = fs::read_to_string(document).unwrap();
    let block = format!("```python\n{example}```\n");
    assert!(
        document.contains(&block),
        "docs/HOOK.md must have:\n{block}"
    );
}

#[test]
fn every_configuration_of_the_document_is_one() {
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/HOOK.md");
    let document = fs::read_to_string(document).unwrap();
    let folder = TestDir::new("hook-document");
    let token = folder.path().join("hook.token");
    fs::write(&token, "secret\n").unwrap();
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
    let config = folder.path().join("signet.toml");
    let blocks = document.split("```toml\n").skip(1);
    let blocks: Vec<&str> = blocks.filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(blocks.len(), 3);
    for block in blocks {
        // There is no authority here that would have certified it.
        let block = block.replace("tls_roots", "#tls_roots");
        fs::write(&config, format!("version = 1\n{block}")).unwrap();
        succeed(&["check", text(&config)], "");
    }
}

#[test]
fn calls_of_sipp_are_routed_and_refused_as_the_example_says() {
    if !have("sipp") || !have("python3") {
        return;
    }
    let folder = TestDir::new("hook-sipp");
    let at = folder.path();
    let (hook_port, gateway_port) = (free_port(), free_port());
    let _hook = hook::start(at, hook_port);
    let cached = "cache_by = [\"user\", \"request_uri\"]\n";
    let open = "[authentication]\nrequired = false\n";
    write_config(at, hook_port, gateway_port, cached, open);
    let server = serve(at);
    let to = server.at("udp").to_string();

    // Routed, with a header in place of the caller's own.
    let mut gateway = sipp(at, "called", &called("none"), gateway_port, &["-m", "20"]);
    wait_for_port(gateway_port, &at.join("called.log"));
    let call = |name: &str, scenario: &str, number: &str, calls: &str| {
        let more = ["-s", number, "-r", "50", "-m", calls, "-timeout", "60", &to];
        succeeded(at, name, &mut sipp(at, name, scenario, free_port(), &more));
    };
    call("caller", &caller(), "0301", "20");
    succeeded(at, "called", &mut gateway);
    wait_for_figure(at, &answers("route"), 20);
    assert_eq!(figure(at, "signet_hook_cache_hits_total"), 0);

    // Refused: the first by the program, the others by what it said of the first.
    call("refused", &refused_caller(), "0900555", "1");
    call("refused-again", &refused_caller(), "0900555", "10");
    wait_for_figure(at, &answers("reject"), 1);
    wait_for_figure(at, "signet_hook_cache_hits_total", 10);
    let found = why(at, &["--source", "127.0.0.1"]);
    assert_eq!(found.len(), 11);
    for record in &found {
        assert_eq!(
            (&record["reason"], &record["status"]),
            (&"hook".into(), &403.into())
        );
        assert_eq!(record["detail"], "the hook says: No premium numbers");
    }
    let labels = "method=\"INVITE\",status=\"403\",reason=\"hook\"";
    wait_for_figure(at, &format!("signet_refusals_total{{{labels}}}"), 11);

    // What it said before is forgotten.
    assert_eq!(forget(at), 1);
    call("refused-anew", &refused_caller(), "0900555", "1");
    wait_for_figure(at, &answers("reject"), 2);
    server.process.signal("-HUP");
    server.wait_for_log("reloaded");
    assert_eq!(forget(at), 0);
    assert_eq!(figure(at, "signet_broken_invariants_total"), 0);
    let page = page(at, "/metrics");
    let missing = missing(&page, |name| name.starts_with("signet_hook_"));
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn what_callers_write_stays_text_on_its_way_there_and_back() {
    if !have("python3") {
        return;
    }
    let folder = TestDir::new("hook-text");
    let at = folder.path();
    let hook_port = free_port();
    let _hook = hook::start(at, hook_port);
    let open = "[authentication]\nrequired = false\n";
    write_config(at, hook_port, free_port(), "asks = [\"message\"]\n", open);
    let server = serve(at);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.connect(server.at("udp")).unwrap();
    let local = socket.local_addr().unwrap();
    // RFC 3261 25.1: these are characters of a `callid`, and of a quoted display name.
    let spoilt = "\"},{\"id\":0,\"action\":\"continue\"}]}\\";
    for (number, status) in [("0900", 403), ("0900%22%7D%0D%0A", 404)] {
        let call = format!("{}{{[\"\\<>?]}}", unique());
        let text = format!(
            "MESSAGE sip:{number}@{DOMAIN} SIP/2.0\r\nVia: SIP/2.0/UDP {local};branch=z9hG4bK{0};rport\r\n\
             Max-Forwards: 70\r\nFrom: \"{1}\" <sip:%00%ff%22@{DOMAIN}>;tag=a\r\nTo: <sip:x@{DOMAIN}>\r\n\
             Call-ID: {call}\r\nCSeq: 1 MESSAGE\r\nContent-Length: 0\r\n\r\n",
            unique(),
            spoilt.replace('\\', "\\\\").replace('"', "\\\""),
        );
        socket.send(text.as_bytes()).unwrap();
        let mut answer = [0; 65_535];
        let length = uninterrupted(|| socket.recv(&mut answer)).unwrap();
        let answer = String::from_utf8_lossy(&answer[..length]).into_owned();
        assert!(
            answer.starts_with(&format!("SIP/2.0 {status} ")),
            "{answer}"
        );
    }
    wait_for_figure(at, "signet_hook_questions_total", 2);
    wait_for_figure(at, &answers("reject"), 1);
    wait_for_figure(at, &answers("continue"), 1);
    assert_eq!(figure(at, "signet_hook_unasked_answers_total"), 0);
}

/// Two users' phones, which the hook let register.
fn phones(folder: &Path, server: &Serving, names: [&str; 2]) -> [Phone; 2] {
    names.map(|name| {
        add_user(
            &folder.join("data"),
            name,
            DOMAIN,
            &format!("{name}-secret"),
        );
        let mut phone = Phone::udp(server.at("udp"), name, DOMAIN);
        phone.register();
        phone
    })
}

#[test]
fn a_users_calls_are_rewritten_and_bear_his_account() {
    if !have("sipp") || !have("python3") {
        return;
    }
    let folder = TestDir::new("hook-users");
    let at = folder.path();
    let (hook_port, gateway_port) = (free_port(), free_port());
    let _hook = hook::start(at, hook_port);
    let asks = "asks = [\"call\", \"registration\"]\n";
    let more = "[records]\npath = \"calls.jsonl\"\n";
    write_config(at, hook_port, gateway_port, asks, more);
    let server = serve(at);
    let [mut alice, mut reception] = phones(at, &server, ["alice", "reception"]);
    wait_for_figure(at, &answers("continue"), 2);

    let mut call = alice.invite("office");
    let (answered, invite) = reception.answer();
    assert!(
        invite.starts_with("INVITE sip:reception@127.0.0.1:"),
        "{invite}"
    );
    // RFC 3261 16.6: what is called is another now, and To says still who was meant.
    assert_eq!(field(&invite, "To"), format!("<sip:office@{DOMAIN}>"));
    alice.established(&mut call);
    reception.acknowledged(&answered);
    // What is said within a call is not the hook's.
    alice.hang_up(&mut call);
    reception.ended(&answered);
    alice.hung_up(&call);
    wait_for_figure(at, &answers("rewrite"), 1);
    wait_for_figure(at, "signet_hook_questions_total", 3);

    let mut gateway = sipp(at, "called", &called("4711"), gateway_port, &["-m", "1"]);
    wait_for_port(gateway_port, &at.join("called.log"));
    let mut call = alice.invite("0301");
    alice.established(&mut call);
    alice.hang_up(&mut call);
    alice.hung_up(&call);
    succeeded(at, "called", &mut gateway);

    server.process.signal("-TERM");
    let mut server = server;
    assert_eq!(server.process.wait(PATIENCE), Some(0));
    let records = fs::read_to_string(at.join("calls.jsonl")).unwrap();
    let records: Vec<Value> = records
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let uris: Vec<&Value> = records.iter().map(|of| &of["request_uri"]).collect();
    assert_eq!(
        uris,
        [
            &format!("sip:office@{DOMAIN}"),
            &format!("sip:0301@{DOMAIN}")
        ]
    );
    assert_eq!(records[1]["callee_trunk"], "outside");
}

#[test]
fn while_the_hook_is_gone_nothing_passes_but_what_the_operator_lets_pass() {
    if !have("python3") {
        return;
    }
    let folder = TestDir::new("hook-gone");
    let at = folder.path();
    let (hook_port, gateway_port) = (free_port(), free_port());
    let hook = hook::start(at, hook_port);
    let asks = "asks = [\"call\", \"registration\"]\n";
    write_config(at, hook_port, gateway_port, asks, "");
    let server = serve(at);
    let [mut alice, mut reception] = phones(at, &server, ["alice", "reception"]);

    drop(hook);
    let until = Instant::now() + PATIENCE;
    while figure(at, "signet_hook_away") == 0 {
        let call = alice.invite("office");
        let answer = alice.refused(&call);
        assert!(answer.starts_with("SIP/2.0 503 "), "{answer}");
        assert!(!field(&answer, "Retry-After").is_empty(), "{answer}");
        assert!(Instant::now() < until, "it is asked for ever");
    }
    let answer = reception.try_register();
    assert!(answer.starts_with("SIP/2.0 500 "), "{answer}");
    assert!(!field(&answer, "Retry-After").is_empty(), "{answer}");
    let found = why(at, &["--user", "alice"]);
    let failed = found.iter().find(|of| of["reason"] == "hook_failed");
    let detail = failed.unwrap()["detail"].as_str().unwrap();
    assert!(detail.starts_with("the hook: it "), "{detail}");
    server.wait_for_log("the hook fails: ");

    // It is back, and is found without a call that would try.
    let hook = hook::start(at, hook_port);
    wait_for_figure(at, "signet_hook_away", 0);
    server.wait_for_log("the hook answers again");
    let mut call = alice.invite("office");
    let (answered, _) = reception.answer();
    alice.established(&mut call);
    reception.acknowledged(&answered);

    // And it is gone again, where the operator would rather have calls.
    drop(hook);
    let asks = format!("{asks}on_failure = \"continue\"\n");
    write_config(at, hook_port, gateway_port, &asks, "");
    server.process.signal("-HUP");
    server.wait_for_log("reloaded");
    reception.register();
    let mut call = alice.invite("reception");
    let (answered, _) = reception.answer();
    alice.established(&mut call);
    reception.acknowledged(&answered);
    assert_eq!(figure(at, "signet_broken_invariants_total"), 0);
}

#[test]
fn a_server_without_a_hook_has_nothing_to_forget() {
    let folder = TestDir::new("hook-none");
    let data = folder.path().join("data");
    let config = folder.path().join("signet.toml");
    let whole = "version = 1\ndata = \"data\"\n[[listen]]\non = \"udp:127.0.0.1:0\"\n";
    fs::write(&config, whole).unwrap();
    let _server = Serving::start(folder.path(), &data, &["--config", text(&config)]);
    let error = fail(&["hook", "forget", "--data", text(&data)], "");
    assert!(error.contains("this server has no hook"), "{error}");
}
