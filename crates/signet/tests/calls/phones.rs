//! Phones and clients as they are, at a running server: SIPp's digests, the header forms of
//! JAIN-SIP, `npm sip` and pyVoIP, Kamailio as an edge, phones behind translations, and
//! coturn's STUN client.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::command::{Serving, run, text};
use crate::support::{Running, TestDir, add_user, free_port, have, unique};
use md5::{Digest, Md5};
use sip_net::testing::uninterrupted;

const DOMAIN: &str = "example.com";
/// Where phones are of which less is asked.
const NEAR: &str = "127.0.0.21";
const PATIENCE: Duration = Duration::from_secs(60);

/// A server with the user alice, and what is written further.
fn serve(folder: &Path, more: &str) -> Serving {
    let data = folder.join("data");
    add_user(&data, "alice", DOMAIN, "alice-secret");
    let config = folder.join("signet.toml");
    let whole = format!(
        "version = 1\ndata = \"data\"\ndomains = [\"{DOMAIN}\"]\nworkers = 1\n\
         [[listen]]\non = \"udp:127.0.0.1:0\"\n[[listen]]\non = \"tcp:127.0.0.1:0\"\n{more}"
    );
    fs::write(&config, whole).unwrap();
    Serving::start(folder, &data, &["--config", text(&config)])
}

/// A phone made of text at an address of its own.
fn socket(address: &str, to: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind((address, 0)).unwrap();
    socket.connect(to).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

fn answer(socket: &UdpSocket) -> String {
    let mut buffer = [0; 65_535];
    let len = uninterrupted(|| socket.recv(&mut buffer)).unwrap();
    String::from_utf8_lossy(&buffer[..len]).into_owned()
}

fn register(socket: &UdpSocket, more: &str) -> String {
    let (local, unique) = (socket.local_addr().unwrap(), unique());
    let text = format!(
        "REGISTER sip:{DOMAIN} SIP/2.0\r\nVia: SIP/2.0/UDP {local};branch=z9hG4bK{unique};rport\r\n\
         Max-Forwards: 70\r\nFrom: <sip:alice@{DOMAIN}>;tag={unique}\r\nTo: <sip:alice@{DOMAIN}>\r\n\
         Call-ID: {unique}\r\nCSeq: 1 REGISTER\r\nContact: <sip:alice@{local}>\r\n{more}\
         Content-Length: 0\r\n\r\n"
    );
    socket.send(text.as_bytes()).unwrap();
    answer(socket)
}

fn md5(parts: &[&str]) -> String {
    let digest = Md5::digest(parts.join(":").as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What stands between `before` and the next quote.
fn quoted<'t>(text: &'t str, before: &str) -> &'t str {
    let rest = text
        .split(before)
        .nth(1)
        .unwrap_or_else(|| panic!("{text}"));
    rest.split('"').next().unwrap()
}

/// An MD5 digest by the challenge in `answer`, for that URI, of who calls himself so.
fn digest(answer: &str, name: &str, uri: &str, qop: Option<(&str, &str)>) -> String {
    let nonce = quoted(answer, "nonce=\"");
    let a1 = md5(&[name, DOMAIN, "alice-secret"]);
    let a2 = md5(&["REGISTER", uri]);
    match qop {
        Some((nc, cnonce)) => md5(&[&a1, nonce, nc, cnonce, "auth", &a2]),
        None => md5(&[&a1, nonce, &a2]),
    }
}

#[test]
fn the_header_forms_of_jain_sip_and_npm_sip() {
    let folder = TestDir::new("phones-jain");
    let server = serve(
        folder.path(),
        &format!(
            "[[authentication.lenient]]\nnetworks = [\"{NEAR}\"]\nalgorithms = [\"MD5\", \"SHA-256\"]\n"
        ),
    );
    let uri = format!("sip:{DOMAIN}");
    let form = |name: &str, label: &str, answer: &str| {
        let nonce = quoted(answer, "nonce=\"");
        let response = digest(answer, name, &uri, Some(("00000001", "xyz")));
        format!(
            "Authorization: Digest realm=\"{DOMAIN}\",qop=auth,algorithm={label},nonce=\"{nonce}\",\
             nc=00000001,username=\"{name}\",uri=\"{uri}\",cnonce=\"xyz\",response=\"{response}\"\r\n"
        )
    };
    let jain = |label: &str, answer: &str| form("alice", label, answer);
    // A digest by MD5 for each challenge, the first under the name of the other algorithm.
    let phone = socket("127.0.0.1", server.at("udp"));
    let challenge = register(&phone, "");
    assert!(challenge.starts_with("SIP/2.0 401 "), "{challenge}");
    let first = challenge.split("algorithm=").nth(1).unwrap();
    assert!(first.starts_with("SHA-256"), "{challenge}");
    let both = jain("SHA-256", &challenge) + &jain("MD5", &challenge);
    let answer = register(&phone, &both);
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    // `npm sip` answers the first challenge alone, whatever it is, and quotes it.
    for (address, status) in [("127.0.0.1", "401"), (NEAR, "200")] {
        let phone = socket(address, server.at("udp"));
        let challenge = register(&phone, "");
        let offered = challenge.split("algorithm=").nth(1).unwrap();
        let label = offered.split(',').next().unwrap();
        let line = jain(&format!("\"{label}\""), &challenge);
        let answer = register(&phone, &line);
        assert!(
            answer.starts_with(&format!("SIP/2.0 {status} ")),
            "{answer}"
        );
    }
    // A user name with its domain, as many phones' forms ask for it.
    let phone = socket("127.0.0.1", server.at("udp"));
    let challenge = register(&phone, "");
    let line = form(&format!("alice@{DOMAIN}"), "MD5", &challenge);
    let answer = register(&phone, &line);
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    // What the operator is told of it.
    let config = folder.path().join("signet.toml");
    let told = run(&["why", "--config", text(&config), "--user", "alice"], "");
    let told = String::from_utf8(told.stdout).unwrap();
    assert!(told.contains("[[authentication.lenient]]"), "{told}");
    server.wait_for_log("lenient.0.algorithms: MD5 comes first");
    server.wait_for_log("digest_of_other_algorithm 401");
}

#[test]
fn the_header_form_of_pyvoip() {
    let folder = TestDir::new("phones-pyvoip");
    let server = serve(
        folder.path(),
        &format!(
            "[[authentication.lenient]]\nnetworks = [\"{NEAR}\"]\nalgorithms = [\"MD5\"]\n\
             qop = \"optional\"\nuri = \"host\"\n"
        ),
    );
    let uri = format!("sip:{DOMAIN};transport=UDP");
    let credentials = |answer: &str| {
        format!(
            "Authorization: Digest username=\"alice\",realm=\"{DOMAIN}\",nonce=\"{}\",uri=\"{uri}\",\
             response=\"{}\",algorithm=MD5\r\n",
            quoted(answer, "nonce=\""),
            digest(answer, "alice", &uri, None)
        )
    };
    let far = socket("127.0.0.1", server.at("udp"));
    let challenge = register(&far, "");
    let answer = register(&far, &credentials(&challenge));
    assert!(answer.starts_with("SIP/2.0 401 "), "{answer}");

    let near = socket(NEAR, server.at("udp"));
    let challenge = register(&near, "");
    let line = credentials(&challenge);
    let answer = register(&near, &line);
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    // Whoever has overheard it sends it once more, from the same network.
    let answer = register(&socket(NEAR, server.at("udp")), &line);
    assert!(answer.starts_with("SIP/2.0 401 "), "{answer}");
    assert!(answer.contains("stale=true"), "{answer}");
}

/// SIPp registers from `address` and sends a message, its digests made for the server's
/// address and port as they are unless it is told otherwise; its exit code.
fn sipp(folder: &Path, address: &str, to: SocketAddr) -> Option<i32> {
    let request = |method: &str, uri: &str, cseq: u32, more: &str| {
        format!(
            "<send><![CDATA[\n\n{method} {uri} SIP/2.0\nVia: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch];rport\n\
             Max-Forwards: 70\nFrom: <sip:alice@{DOMAIN}>;tag=[call_number]\nTo: <sip:alice@{DOMAIN}>\nCall-ID: [call_id]\n\
             CSeq: {cseq} {method}\nContact: <sip:alice@[local_ip]:[local_port]>\n{more}Content-Length: 0\n\n]]></send>\n"
        )
    };
    let proof = "[authentication username=alice password=alice-secret]\n";
    let uri = format!("sip:nobody@{to}");
    let steps = [
        request("REGISTER", &format!("sip:{to}"), 1, ""),
        "<recv response=\"401\" auth=\"true\"/>\n".to_owned(),
        request("REGISTER", &format!("sip:{to}"), 2, proof),
        "<recv response=\"200\"/>\n".to_owned(),
        request("MESSAGE", &uri, 3, ""),
        "<recv response=\"407\" auth=\"true\"/>\n".to_owned(),
        // Its digest is for `sip:ADDRESS:PORT`. Nobody has that name, which is found out
        // once it was let in.
        request("MESSAGE", &uri, 4, proof),
        "<recv response=\"404\"/>\n".to_owned(),
    ];
    let name = format!("sipp-{address}");
    let file = folder.join(format!("{name}.xml"));
    let whole = format!(
        "<?xml version=\"1.0\" encoding=\"ISO-8859-1\" ?>\n<scenario name=\"{name}\">\n{}</scenario>\n",
        steps.concat()
    );
    fs::write(&file, whole).unwrap();
    let to = to.to_string();
    let words = [
        "-sf",
        text(&file),
        "-i",
        address,
        "-m",
        "1",
        "-nostdin",
        "-timeout",
        "40",
        "-timeout_error",
        &to,
    ];
    let log = folder.join(format!("{name}.log"));
    Running::start("sipp", &words, &log).wait(PATIENCE)
}

#[test]
fn sipp_is_let_in_where_md5_comes_first_and_the_host_is_enough_and_nowhere_else() {
    if !have("sipp") {
        return;
    }
    let folder = TestDir::new("phones-sipp");
    let server = serve(
        folder.path(),
        &format!(
            "[[authentication.lenient]]\nnetworks = [\"{NEAR}\"]\nalgorithms = [\"MD5\", \"SHA-256\"]\n\
             uri = \"host\"\n"
        ),
    );
    let near = sipp(folder.path(), NEAR, server.at("udp"));
    let log = fs::read_to_string(folder.path().join(format!("sipp-{NEAR}.log"))).unwrap();
    assert_eq!(near, Some(0), "{log}");
    let far = sipp(folder.path(), "127.0.0.22", server.at("udp"));
    assert!(far.is_some_and(|code| code != 0), "{far:?}");
}

/// A Kamailio that writes itself into the Path of REGISTERs and sends all on to `to`.
fn edge(folder: &Path, port: u16, to: SocketAddr) -> Running {
    let config = format!(
        "#!KAMAILIO\ndebug=1\nlog_stderror=yes\nchildren=1\ndisable_tcp=yes\nauto_aliases=no\n\
         listen=udp:127.0.0.1:{port}\n\
         loadmodule \"tm.so\"\nloadmodule \"sl.so\"\nloadmodule \"pv.so\"\nloadmodule \"path.so\"\n\
         loadmodule \"textops.so\"\n\
         request_route {{\n  if (is_method(\"REGISTER\")) {{ add_path(); }}\n\
           t_relay_to_udp(\"{}\", \"{}\");\n}}\n",
        to.ip(),
        to.port()
    );
    let file = folder.join("kamailio.cfg");
    fs::write(&file, config).unwrap();
    let run = folder.join("run");
    fs::create_dir_all(&run).unwrap();
    let words = [
        "-f",
        text(&file),
        "-DD",
        "-E",
        "-m",
        "64",
        "-M",
        "8",
        "-Y",
        text(&run),
    ];
    Running::start("kamailio", &words, &folder.join("kamailio.log"))
}

#[test]
fn a_phone_with_reg_id_registers_through_a_kamailio_that_writes_no_ob() {
    if !have("kamailio") {
        return;
    }
    let folder = TestDir::new("phones-edge");
    let server = serve(folder.path(), "[authentication]\nrequired = false\n");
    let port = free_port();
    let kamailio = edge(folder.path(), port, server.at("udp"));
    let at: SocketAddr = format!("127.0.0.1:{port}").parse().unwrap();
    let phone = socket("127.0.0.1", at);
    phone
        .set_read_timeout(Some(Duration::from_secs(1)))
        .unwrap();
    let (local, unique) = (phone.local_addr().unwrap(), unique());
    let register = format!(
        "REGISTER sip:{DOMAIN} SIP/2.0\r\nVia: SIP/2.0/UDP {local};branch=z9hG4bK{unique};rport\r\n\
         Max-Forwards: 70\r\nFrom: <sip:alice@{DOMAIN}>;tag={unique}\r\nTo: <sip:alice@{DOMAIN}>\r\n\
         Call-ID: {unique}\r\nCSeq: 1 REGISTER\r\nSupported: outbound, path\r\n\
         Contact: <sip:alice@{local};ob>;reg-id=1;+sip.instance=\"<urn:uuid:00000000-0000-0000-0000-000012345678>\"\r\n\
         Content-Length: 0\r\n\r\n"
    );
    let begun = Instant::now();
    let mut buffer = [0; 65_535];
    let len = loop {
        // Until Kamailio listens a datagram comes back, or is lost.
        let _ = phone.send(register.as_bytes());
        match uninterrupted(|| phone.recv(&mut buffer)) {
            Ok(len) => break len,
            Err(_) => {
                let log = || fs::read_to_string(folder.path().join("kamailio.log"));
                assert!(begun.elapsed() < PATIENCE, "{:?}", log());
                std::thread::sleep(Duration::from_millis(100));
            }
        }
    };
    let answer = String::from_utf8_lossy(&buffer[..len]).into_owned();
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    assert!(!answer.contains("reg-id"), "{answer}");
    let bindings = run(
        &[
            "bindings",
            "--config",
            text(&folder.path().join("signet.toml")),
        ],
        "",
    );
    let bindings = String::from_utf8(bindings.stdout).unwrap();
    assert!(bindings.contains(&local.to_string()), "{bindings}");
    end(kamailio);
}

/// Ends a Kamailio: its first process takes its children with it when it is asked to.
fn end(mut kamailio: Running) {
    kamailio.signal("-TERM");
    let _ = kamailio.wait(Duration::from_secs(10));
}

#[test]
fn a_call_reaches_phones_behind_translations_of_which_via_does_not_tell() {
    if !have("sipp") {
        return;
    }
    for (nth, via, contact) in [
        (0, "127.0.0.36", "sip:alice@10.9.9.9:5060"),
        (1, "192.168.1.5:5060", "sip:alice@pc7.lan:5060"),
    ] {
        let folder = TestDir::new(&format!("phones-nat-{nth}"));
        let server = serve(
            folder.path(),
            "[proxy]\nrelay_denied = []\n[authentication]\nrequired = false\n",
        );
        let phone = socket("127.0.0.36", server.at("udp"));
        let (local, unique) = (phone.local_addr().unwrap(), unique());
        // A Via that was corrected has the port that the packets come from.
        let via = match via.contains(':') {
            true => via.to_owned(),
            false => local.to_string(),
        };
        let text = format!(
            "REGISTER sip:{DOMAIN} SIP/2.0\r\nVia: SIP/2.0/UDP {via};branch=z9hG4bK{unique};rport\r\n\
             Max-Forwards: 70\r\nFrom: <sip:alice@{DOMAIN}>;tag={unique}\r\nTo: <sip:alice@{DOMAIN}>\r\n\
             Call-ID: {unique}\r\nCSeq: 1 REGISTER\r\nContact: <{contact}>\r\nContent-Length: 0\r\n\r\n"
        );
        phone.send(text.as_bytes()).unwrap();
        let registered = answer(&phone);
        assert!(registered.starts_with("SIP/2.0 200 "), "{registered}");
        // SIPp calls; its Request-URI is sip:alice@ADDRESS:PORT of the server.
        let to = server.at("udp").to_string();
        let words = [
            "-sn",
            "uac",
            "-s",
            "alice",
            "-i",
            "127.0.0.1",
            "-m",
            "1",
            "-nostdin",
            &to,
        ];
        let log = folder.path().join("sipp.log");
        let caller = Running::start("sipp", &words, &log);
        let invite = answer(&phone);
        assert!(
            invite.starts_with(&format!("INVITE {contact} ")),
            "{invite}"
        );
        drop(caller);
    }
}

#[test]
fn coturns_client_learns_its_address_at_the_sip_port() {
    if !have("turnutils_stunclient") {
        return;
    }
    let folder = TestDir::new("phones-stun");
    let server = serve(folder.path(), "[metrics]\nlisten = \"127.0.0.1:0\"\n");
    let port = server.at("udp").port().to_string();
    let told = Command::new("turnutils_stunclient")
        .args(["-p", &port, "127.0.0.1"])
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    assert!(told.contains("reflexive addr: 127.0.0.1:"), "{told}");
    // SIP goes on at the same port.
    let phone = socket("127.0.0.1", server.at("udp"));
    assert!(register(&phone, "").starts_with("SIP/2.0 401 "));
}
