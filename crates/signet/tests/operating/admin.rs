//! A running server that is asked and told on the socket in its data folder: contacts, calls,
//! gateways, bans, the log.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::fcntl::{Flock, FlockArg};

use crate::support::command::{Serving, fail, run, succeed, text};
use crate::support::phone::Phone;
use crate::support::{
    Running, TestDir, add_user, free_port, have, receive_all, signet, unique, wait_for_port,
};
use serde_json::Value;

const DOMAIN: &str = "example.com";
/// A gateway that is dead, and who is refused too often.
const GATEWAY: &str = "127.0.0.9";
const STRANGER: &str = "127.0.0.8";

fn serve(folder: &Path) -> Serving {
    serve_with(folder, "")
}

fn serve_with(folder: &Path, more: &str) -> Serving {
    let data = folder.join("data");
    if !data.exists() {
        for user in ["alice", "bob"] {
            add_user(&data, user, DOMAIN, &format!("{user}-secret"));
        }
    }
    let config = folder.join("signet.toml");
    let whole = format!(
        "version = 1\ndata = \"data\"\ndomains = [\"{DOMAIN}\"]\nworkers = 2\n\
         [[listen]]\non = \"udp:127.0.0.1:0\"\n[[listen]]\non = \"tcp:127.0.0.1:0\"\n{more}"
    );
    fs::write(&config, whole).unwrap();
    Serving::start(folder, &data, &["--config", text(&config)])
}

/// Ends a server as a fault of the machine would.
fn kill(folder: &Path, mut server: Serving) {
    server.process.signal("-KILL");
    server.process.wait(Duration::from_secs(20)).unwrap();
    fs::remove_file(folder.join("data/listeners.json")).unwrap();
}

/// A command on the server of a folder, which must succeed.
fn told(folder: &Path, words: &[&str]) -> String {
    let config = folder.join("signet.toml");
    succeed(&[words, &["--config", text(&config)]].concat(), "")
}

/// The same in JSON, which has a version.
fn json(folder: &Path, words: &[&str]) -> Value {
    let answer = told(folder, &[words, &["--json"]].concat());
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let version = if words == ["gateways"] { 2 } else { 1 };
    assert_eq!(answer["version"], version, "{answer}");
    answer
}

/// The final answer to a call.
fn calls(caller: &mut Phone, user: &str) -> String {
    let dialog = caller.invite(user);
    let answer = caller.refused(&dialog);
    answer.lines().next().unwrap().to_owned()
}

#[test]
fn contacts_are_listed_with_their_sources_and_removed_for_good() {
    let folder = TestDir::new("admin-bindings");
    let server = serve(folder.path());
    let at = server.at("udp");
    let (mut alice, mut bob) = (
        Phone::udp(at, "alice", DOMAIN),
        Phone::udp(at, "bob", DOMAIN),
    );
    alice.register();
    alice.register();
    bob.register();

    let all = json(folder.path(), &["bindings"]);
    assert_eq!(all["is_running"], true);
    assert_eq!(all["bindings"].as_array().unwrap().len(), 2);
    let alices = json(folder.path(), &["bindings", "alice"]);
    let [contact] = &alices["bindings"].as_array().unwrap()[..] else {
        panic!("{alices}");
    };
    assert_eq!(contact["user"], format!("sip:alice@{DOMAIN}"));
    assert_eq!(contact["transport"], "udp");
    let uri = contact["contact"].as_str().unwrap();
    let source = contact["source"].as_str().unwrap();
    assert!(
        uri.ends_with(source),
        "it registers from where it is reached: {contact}"
    );
    assert!(
        (1..=600).contains(&contact["expires_in_s"].as_u64().unwrap()),
        "{contact}"
    );
    assert!(contact["age_s"].is_u64(), "{contact}");
    let line = told(folder.path(), &["bindings", "alice"]);
    assert!(line.contains(&format!("from {source} by udp")), "{line}");

    let data = folder.path().join("data");
    let stranger = fail(
        &[
            "bindings",
            "remove",
            "alice",
            "sip:x@192.0.2.1",
            "--data",
            text(&data),
        ],
        "",
    );
    assert!(
        stranger.contains("has no contact sip:x@192.0.2.1"),
        "{stranger}"
    );
    let removed = told(folder.path(), &["bindings", "remove", "alice", uri]);
    assert_eq!(removed, format!("removed 1 contact of alice@{DOMAIN}\n"));
    assert!(calls(&mut bob, "alice").contains(" 480 "));
    let none = told(folder.path(), &["bindings", "alice"]);
    assert!(none.contains("has no contacts"), "{none}");

    // What was said to be removed is so after a fault of the machine.
    kill(folder.path(), server);
    let left = json(folder.path(), &["bindings"]);
    assert_eq!(left["is_running"], false);
    let [contact] = &left["bindings"].as_array().unwrap()[..] else {
        panic!("{left}");
    };
    assert_eq!(contact["user"], format!("sip:bob@{DOMAIN}"));
    assert_eq!(
        (&contact["transport"], contact["source"].is_string()),
        (&"udp".into(), true)
    );
    // Where no server runs the database is changed, and the next one begins with that.
    let removed = told(folder.path(), &["bindings", "remove", "bob"]);
    assert!(removed.contains("removed 1 contact"), "{removed}");
    let server = serve(folder.path());
    server.wait_for_log("bindings=0");
}

#[test]
fn a_successor_does_not_get_the_phone_of_who_had_the_name_before() {
    let folder = TestDir::new("admin-successor");
    let server = serve(folder.path());
    let at = server.at("udp");
    let (mut alice, mut bob) = (
        Phone::udp(at, "alice", DOMAIN),
        Phone::udp(at, "bob", DOMAIN),
    );
    alice.register();
    let removed = told(folder.path(), &["user", "remove", "alice"]);
    assert_eq!(removed, format!("removed alice@{DOMAIN} and 1 contact\n"));
    assert!(calls(&mut bob, "alice").contains(" 404 "));
    assert!(alice.try_register().starts_with("SIP/2.0 401 "));
    // Her successor has another password, and no phone yet.
    add_user(&folder.path().join("data"), "alice", DOMAIN, "another");
    assert!(calls(&mut bob, "alice").contains(" 480 "));
    assert!(alice.try_register().starts_with("SIP/2.0 401 "));
    let mut successor = Phone::udp(at, "alice", DOMAIN);
    successor.set_password("another");
    successor.register();
    let mut call = bob.invite("alice");
    let (_, invite) = successor.answer();
    bob.established(&mut call);
    assert!(invite.starts_with("INVITE "), "{invite}");

    // The same where no server runs.
    kill(folder.path(), server);
    let removed = told(folder.path(), &["user", "remove", "alice"]);
    assert_eq!(removed, format!("removed alice@{DOMAIN} and 1 contact\n"));
    add_user(&folder.path().join("data"), "alice", DOMAIN, "third");
    let server = serve(folder.path());
    server.wait_for_log("bindings=0");
    let mut bob = Phone::udp(server.at("udp"), "bob", DOMAIN);
    assert!(calls(&mut bob, "alice").contains(" 480 "));
}

#[test]
fn what_is_left_of_a_user_who_was_removed_in_part_is_removed_by_the_same_command() {
    let folder = TestDir::new("admin-half-removed");
    let server = serve(folder.path());
    let at = server.at("udp");
    let (mut alice, mut bob) = (
        Phone::udp(at, "alice", DOMAIN),
        Phone::udp(at, "bob", DOMAIN),
    );
    alice.register();
    bob.register();
    told(folder.path(), &["user", "set", "alice", "--calls-max", "1"]);
    told(folder.path(), &["user", "set", "bob", "--calls-max", "1"]);
    // A row that the server cannot read, so that it takes over nothing of what is written.
    let database = folder.path().join("data/signet.db");
    let database = rusqlite::Connection::open(database).unwrap();
    let row = "INSERT INTO aliases VALUES ('example.com', 'a', 'sip:b@example.com', 'no number')";
    database.execute(row, ()).unwrap();
    let config = folder.path().join("signet.toml");
    let refused = |user: &str| {
        let words = ["user", "remove", user, "--config", text(&config)];
        fail(&words, "")
    };
    let left = "and this may be left of him: what is written of him (the change is made, and the running server may not go by it yet: ";
    let error = refused("alice");
    let removed = format!("alice@{DOMAIN} is removed, {left}");
    assert!(error.contains(&removed), "{error}");
    let again = format!("then type again: signet user remove alice@{DOMAIN}");
    assert!(error.contains(&again), "{error}");
    let none = told(folder.path(), &["bindings", "alice"]);
    assert!(none.contains("has no contacts"), "{none}");
    let error = refused("alice");
    let unknown = format!("there is no user alice@{DOMAIN}");
    assert!(error.contains(&format!("{unknown}, {left}")), "{error}");
    database.execute("DELETE FROM aliases", ()).unwrap();
    let error = refused("alice");
    assert!(
        error.contains(&unknown) && !error.contains("left"),
        "{error}"
    );

    // Whose name is another's but for its case has no right to what is written of that one.
    let error = refused("BOB");
    assert!(error.contains("there is no user BOB@"), "{error}");
    let written = told(folder.path(), &["user", "show", "bob"]);
    assert!(written.contains("calls-max"), "{written}");
    // Who was removed by other means leaves as little.
    database.execute("DELETE FROM subscribers", ()).unwrap();
    let removed = told(folder.path(), &["user", "remove", "bob"]);
    assert_eq!(
        removed,
        format!("removed what was left of bob@{DOMAIN} and 1 contact\n")
    );
    let rows = "SELECT count(*) FROM people";
    let rows = database.query_row(rows, (), |row| row.get::<_, u32>(0));
    assert_eq!(rows.unwrap(), 0);
}

#[test]
fn a_command_leaves_the_database_of_an_older_server_as_it_is() {
    let folder = TestDir::new("admin-older");
    let data = folder.path().join("data");
    add_user(&data, "alice", DOMAIN, "alice-secret");
    let open = || rusqlite::Connection::open(data.join("signet.db")).unwrap();
    let before = "DROP TABLE aliases; DROP TABLE people; PRAGMA user_version = 3";
    open().execute_batch(before).unwrap();
    let version = || {
        let read = |row: &rusqlite::Row<'_>| row.get::<_, i64>(0);
        open()
            .pragma_query_value(None, "user_version", read)
            .unwrap()
    };
    // As a server holds it.
    let lock = fs::File::create(data.join("lock")).unwrap();
    let server = Flock::lock(lock, FlockArg::LockExclusiveNonblock).unwrap();
    for words in [
        &["user", "list"][..],
        &["user", "remove", "alice"],
        &["alias", "list"],
        &["domain", "list"],
        &["bindings"],
        &["tls", "rotate-secret"],
    ] {
        let error = fail(&[words, &["--data", text(&data)]].concat(), "");
        assert!(error.contains("older version"), "{words:?}: {error}");
        assert_eq!(version(), 3, "{words:?}");
    }
    drop(server);
    let listed = succeed(&["user", "list", "--data", text(&data)], "");
    assert!(listed.contains("alice"), "{listed}");
    assert!(version() > 3);
}

#[test]
fn a_call_is_listed_from_its_answer_to_its_end() {
    let folder = TestDir::new("admin-call");
    let server = serve(folder.path());
    let at = server.at("udp");
    let (mut alice, mut bob) = (
        Phone::udp(at, "alice", DOMAIN),
        Phone::udp(at, "bob", DOMAIN),
    );
    alice.register();
    let none = told(folder.path(), &["calls"]);
    assert_eq!(none, "no calls are in progress\n");
    let mut call = bob.invite("alice");
    let (of_alice, _) = alice.answer();
    bob.established(&mut call);
    alice.acknowledged(&of_alice);

    let listed = json(folder.path(), &["calls", "alice"]);
    assert_eq!(listed["in_progress"], 1);
    let [shown] = &listed["calls"].as_array().unwrap()[..] else {
        panic!("{listed}");
    };
    assert_eq!(shown["from"], format!("sip:bob@{DOMAIN}"));
    assert_eq!(shown["to"], format!("sip:alice@{DOMAIN}"));
    assert_eq!(shown["caller"]["transport"], "udp");
    assert_eq!(
        json(folder.path(), &["calls", "carol"])["calls"],
        Value::Array(Vec::new())
    );
    let line = told(folder.path(), &["calls"]);
    assert!(
        line.contains(&format!("sip:bob@{DOMAIN} to sip:alice@{DOMAIN} for ")),
        "{line}"
    );
    assert!(line.ends_with("1 of 1 calls in progress\n"), "{line}");

    bob.hang_up(&mut call);
    alice.ended(&of_alice);
    bob.hung_up(&call);
    assert_eq!(told(folder.path(), &["calls"]), none);
}

#[test]
fn calls_of_sipp_are_listed_while_they_last() {
    if !have("sipp") {
        return;
    }
    const CALLS: u64 = 40;
    let folder = TestDir::new("admin-sipp");
    let port = free_port();
    let called = port.to_string();
    let data = folder.path().join("data");
    let config = folder.path().join("signet.toml");
    fs::write(
        &config,
        format!(
            "version = 1\ndata = \"data\"\ndomains = [\"{DOMAIN}\"]\nworkers = 2\n\
             forward = \"sip:127.0.0.1:{called};transport=udp\"\n\
             [[listen]]\non = \"udp:127.0.0.1:0\"\n[authentication]\nrequired = false\n"
        ),
    )
    .unwrap();
    let server = Serving::start(folder.path(), &data, &["--config", text(&config)]);
    // Its own called side leaves Record-Route out (RFC 3261 12.1.1), and so the server.
    let scenario = Command::new("sipp").args(["-sd", "uas"]).output().unwrap();
    let scenario = String::from_utf8(scenario.stdout).unwrap();
    let kept = scenario.replace("[last_Via:]", "[last_Via:]\n[last_Record-Route:]");
    assert_ne!(scenario, kept);
    let answering = folder.path().join("uas.xml");
    fs::write(&answering, kept).unwrap();
    let _called = Running::start(
        "sipp",
        &[
            "-sf",
            text(&answering),
            "-i",
            "127.0.0.1",
            "-p",
            &called,
            "-nostdin",
        ],
        &folder.path().join("uas.log"),
    );
    wait_for_port(port, &folder.path().join("uas.log"));
    let to = server.at("udp").to_string();
    let count = CALLS.to_string();
    let mut caller = Running::start(
        "sipp",
        &[
            "-sn",
            "uac",
            "-i",
            "127.0.0.1",
            "-r",
            "40",
            "-m",
            &count,
            "-d",
            "8000",
            "-nostdin",
            &to,
        ],
        &folder.path().join("uac.log"),
    );
    let in_progress = |listed: &Value| listed["in_progress"].as_u64().unwrap();
    let until = Instant::now() + Duration::from_secs(30);
    let listed = loop {
        let listed = json(folder.path(), &["calls"]);
        if in_progress(&listed) == CALLS {
            break listed;
        }
        assert!(Instant::now() < until, "{listed}");
        std::thread::sleep(Duration::from_millis(100));
    };
    let shown = listed["calls"].as_array().unwrap();
    assert_eq!(shown.len() as u64, CALLS);
    for call in shown {
        assert_eq!(call["callee"]["address"], format!("127.0.0.1:{called}"));
    }
    assert_eq!(caller.wait(Duration::from_secs(60)), Some(0));
    assert_eq!(
        told(folder.path(), &["calls"]),
        "no calls are in progress\n"
    );
}

/// A socket at one of the addresses of this machine.
fn at(address: &str, server: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind((address, 0)).unwrap();
    socket.connect(server).unwrap();
    socket
}

fn message(socket: &UdpSocket, uri: &str) -> String {
    let (call, local) = (unique(), socket.local_addr().unwrap());
    format!(
        "MESSAGE {uri} SIP/2.0\r\nVia: SIP/2.0/UDP {local};branch=z9hG4bK{call};rport\r\n\
         Max-Forwards: 70\r\nFrom: <sip:x@far.example>;tag={call}\r\nTo: <{uri}>\r\n\
         Call-ID: {call}\r\nCSeq: 1 MESSAGE\r\nContent-Length: 0\r\n\r\n"
    )
}

#[test]
fn a_gateway_that_fails_is_told() {
    let folder = TestDir::new("admin-gateways");
    let more = format!(
        "[[trusted]]\nnetwork = \"{STRANGER}\"\n[[gateway_group]]\nname = \"dead\"\n\
         gateways = [{{ uri = \"sip:{GATEWAY}:9;transport=udp\", priority = 3 }}]\n\
         [[route]]\nprefix = \"+49\"\ngroup = \"dead\"\n"
    );
    let server = serve_with(folder.path(), &more);
    let gateway = || json(folder.path(), &["gateways"])["gateways"][0].clone();
    let before = gateway();
    assert_eq!(
        (&before["group"], &before["priority"]),
        (&"dead".into(), &3.into())
    );
    assert_eq!(before["addresses"][0]["address"], format!("{GATEWAY}:9"));
    assert_eq!(before["addresses"][0]["is_passed_over"], false);
    assert!(told(folder.path(), &["gateways"]).contains(": in use; "));
    let peer = at(STRANGER, server.at("udp"));
    let until = Instant::now() + Duration::from_secs(60);
    while gateway()["addresses"][0]["is_passed_over"] != true {
        assert!(Instant::now() < until, "{}", gateway());
        let uri = format!("sip:+4930@{DOMAIN}");
        peer.send(message(&peer, &uri).as_bytes()).unwrap();
        receive_all(&peer, Duration::from_millis(100));
    }
    let line = told(folder.path(), &["gateways"]);
    assert!(line.contains(": passed over; "), "{line}");
    assert!(line.contains(":9 it cannot be reached (since "), "{line}");
    // A server without gateways says so.
    let other = TestDir::new("admin-no-gateways");
    let _server = serve(other.path());
    assert_eq!(
        told(other.path(), &["gateways"]),
        "no gateways are configured\n"
    );
}

#[test]
fn a_source_that_is_banned_is_shown_and_let_in_again() {
    let folder = TestDir::new("admin-bans");
    let server = serve_with(
        folder.path(),
        "[sources]\nrefusals_per_s = 1\nrefusals_max = 20\nsilence_s = 600\n",
    );
    let stranger = at(STRANGER, server.at("udp"));
    let uri = format!("sip:alice@{DOMAIN}");
    let answers = |count: usize| {
        for _ in 0..count {
            stranger.send(message(&stranger, &uri).as_bytes()).unwrap();
        }
        receive_all(&stranger, Duration::from_millis(500)).len()
    };
    assert_eq!(told(folder.path(), &["bans"]), "everybody gets answers\n");
    assert!(answers(100) < 100);
    assert_eq!(answers(3), 0);
    let banned = json(folder.path(), &["bans"]);
    let [ban] = &banned["bans"].as_array().unwrap()[..] else {
        panic!("{banned}");
    };
    assert_eq!(
        (&ban["source"], &ban["is_stream"]),
        (&STRANGER.into(), &false.into())
    );
    assert!(ban["ends_in_s"].as_u64().unwrap() > 500, "{ban}");
    assert_eq!(json(folder.path(), &["limits"])["refusals"]["banned"], 1);
    let lifted = told(folder.path(), &["bans", "lift", STRANGER]);
    assert_eq!(lifted, format!("{STRANGER} gets answers again\n"));
    assert_eq!(told(folder.path(), &["bans"]), "everybody gets answers\n");
    assert_eq!(answers(3), 3);
    let again = told(folder.path(), &["bans", "lift", STRANGER]);
    assert!(again.contains("was not banned"), "{again}");
    server.wait_for_log("the operator lifts what a source owes");
}

#[test]
fn the_log_says_more_while_that_is_wanted() {
    let folder = TestDir::new("admin-level");
    let server = serve(folder.path());
    let socket = at(STRANGER, server.at("udp"));
    // A challenge is told at `debug` alone.
    let mut bob = Phone::udp(server.at("udp"), "bob", DOMAIN);
    bob.register();
    let log = || fs::read_to_string(&server.log).unwrap();
    assert!(!log().contains("DEBUG"), "{}", log());
    assert_eq!(
        told(folder.path(), &["log-level"]),
        "the log has info and above\n"
    );
    let changed = json(folder.path(), &["log-level", "debug"]);
    assert_eq!(
        (&changed["level"], &changed["before"]),
        (&"debug".into(), &"info".into())
    );
    let register = message(&socket, &format!("sip:alice@{DOMAIN}")).replace("MESSAGE", "REGISTER");
    socket.send(register.as_bytes()).unwrap();
    server.wait_for_log("DEBUG");
    // And every refusal, not the first of each source in ten seconds alone.
    let refused = |times: usize| {
        for _ in 0..times {
            let foreign = message(&socket, "sip:bob@elsewhere.example");
            socket.send(foreign.as_bytes()).unwrap();
        }
        let log = log();
        let lines = log.lines();
        lines
            .filter(|line| line.contains("elsewhere.example"))
            .count()
    };
    refused(5);
    let until = Instant::now() + Duration::from_secs(20);
    while refused(0) < 5 {
        assert!(Instant::now() < until, "{}", log());
        std::thread::sleep(Duration::from_millis(50));
    }
    let back = told(folder.path(), &["log-level", "warn"]);
    assert!(back.contains("warn and above, debug before"), "{back}");
    let config = folder.path().join("signet.toml");
    let error = run(&["log-level", "loud", "--config", text(&config)], "");
    let error = String::from_utf8_lossy(&error.stderr).into_owned();
    assert!(
        error.contains("write error, warn, info or debug"),
        "{error}"
    );
    // The log's own lines at the end are not of that level.
    drop(server);
}

#[test]
fn the_socket_is_its_owners_and_who_hangs_holds_nobody() {
    let folder = TestDir::new("admin-socket");
    let _server = serve(folder.path());
    let socket = folder.path().join("data/admin.sock");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let until = Instant::now() + Duration::from_secs(20);
    while !socket.exists() || mode(&socket) != 0o600 {
        assert!(
            Instant::now() < until,
            "the socket has mode {:o}",
            mode(&socket)
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(mode(&folder.path().join("data")), 0o700);
    let _silent: Vec<UnixStream> = (0..40)
        .map(|_| UnixStream::connect(&socket).unwrap())
        .collect();
    assert_eq!(told(folder.path(), &["bans"]), "everybody gets answers\n");
    assert!(told(folder.path(), &["limits"]).contains("all workers keep up"));
}

#[test]
fn what_needs_a_server_says_so_where_none_runs() {
    let folder = TestDir::new("admin-none");
    let data = folder.path().join("data");
    add_user(&data, "alice", DOMAIN, "alice-secret");
    for words in [
        &["calls"][..],
        &["gateways"],
        &["gateways", "drain", "gw.example.net"],
        &["media"],
        &["media", "drain", "127.0.0.1:2223"],
        &["bans"],
        &["bans", "lift", "192.0.2.1"],
        &["limits"],
        &["log-level", "debug"],
        &["top"],
    ] {
        let error = fail(&[words, &["--data", text(&data)]].concat(), "");
        assert!(error.contains("no server runs on"), "{words:?}: {error}");
        assert!(error.contains("--config FILE"), "{words:?}: {error}");
    }
}

#[test]
fn top_prints_one_second_where_there_is_no_terminal() {
    let folder = TestDir::new("admin-top");
    let server = serve(folder.path());
    Phone::udp(server.at("udp"), "bob", DOMAIN).register();
    // Workers copy their figures now and then.
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let seen = json(folder.path(), &["top"]);
        let now = &seen["now"];
        assert!(now["memory_bytes"].as_u64().unwrap() > 1 << 20, "{seen}");
        assert_eq!(now["workers"].as_array().unwrap().len(), 2);
        if now["counts"]["registrations"] == 1 {
            assert_eq!(now["bindings"], 1);
            break;
        }
        assert!(Instant::now() < until, "{seen}");
    }
    let picture = told(folder.path(), &["top"]);
    for name in ["calls in progress", "registrations", "refusals", "overload"] {
        assert!(picture.contains(name), "{name}: {picture}");
    }
    assert!(!picture.contains('\x1b'), "{picture}");
}

#[test]
fn top_draws_at_a_terminal_until_q() {
    if !have("tmux") {
        return;
    }
    let folder = TestDir::new("admin-tmux");
    let server = serve(folder.path());
    Phone::udp(server.at("udp"), "bob", DOMAIN).register();
    let socket = folder.path().join("tmux");
    let tmux = |words: &[&str]| {
        let output = Command::new("tmux")
            .args(["-S", text(&socket)])
            .args(words)
            .output()
            .unwrap();
        assert!(output.status.success(), "tmux {words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let config = folder.path().join("signet.toml");
    let shell = "exec env PS1='at rest: ' sh";
    tmux(&["new-session", "-d", "-x", "80", "-y", "24", shell]);
    let command = format!("{} top --config {}", signet(), text(&config));
    tmux(&["send-keys", "-l", &command]);
    tmux(&["send-keys", "Enter"]);
    let shown = || tmux(&["capture-pane", "-p"]);
    let wait_for = |what: &dyn Fn(&str) -> bool| {
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            let screen = shown();
            if what(&screen) {
                return screen;
            }
            assert!(Instant::now() < until, "{screen}");
            std::thread::sleep(Duration::from_millis(200));
        }
    };
    // The second picture knows rates, and stands where the first one stood.
    let is_second = |screen: &str| {
        let mut lines = screen.lines();
        let calls = lines.find(|line| line.starts_with("calls  "));
        calls.is_some_and(|line| line.contains("0/s") && !line.contains("-/s"))
    };
    let screen = wait_for(&is_second);
    assert_eq!(screen.matches("calls in progress").count(), 1, "{screen}");
    assert_eq!(screen.matches("registrations").count(), 1, "{screen}");
    // A smaller terminal shows the top of it, and nothing scrolls.
    tmux(&["resize-window", "-x", "60", "-y", "14"]);
    wait_for(&|screen| {
        screen.starts_with("signet ") && screen.matches("calls in progress").count() == 1
    });
    tmux(&["send-keys", "q"]);
    // It ends, and what is typed is seen again.
    wait_for(&|screen| screen.trim_end().ends_with("at rest:"));
    tmux(&["send-keys", "-l", "echo heard"]);
    wait_for(&|screen| screen.contains("at rest: echo heard"));
    tmux(&["kill-server"]);
}
