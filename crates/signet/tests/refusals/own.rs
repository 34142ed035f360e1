//! Ways that want more than one request.

use std::fs;
use std::io::Write;
use std::net::{SocketAddr, UdpSocket};

use md5::{Digest, Md5};
use sip_net::testing::uninterrupted;

use super::rows::{At, BUSY, MIRROR, PEER, PHONE, ROWS, Row, SILENT};
use super::sipp::{Ask, PATIENCE, Run, Scenario, done, listens};
use super::support::small_disk;
use super::{Bed, DOMAIN};

fn row(reason: &str) -> &'static Row {
    ROWS.iter().find(|row| row.reason == reason).unwrap()
}

/// Begins what takes its time.
pub(crate) fn begin(bed: &mut Bed<'_>) {
    let late = row("stale_nonce");
    let mut scenario = Scenario::default();
    scenario.send(&late.ask, None);
    scenario.expect_challenge(401);
    scenario.pause_ms(6_000);
    scenario.send(&late.ask, Some(("late", "late-secret")));
    scenario.expect("401");
    let running = scenario.start(bed.folder, late.reason, &bed.run(late, 1));
    bed.begun.push((late.reason, running));
}

/// Goes the way of a row.
pub(crate) fn make(bed: &mut Bed<'_>, row: &Row) {
    match row.reason {
        "stale_nonce" => {
            let at = bed.begun.iter().position(|(name, _)| *name == row.reason);
            let (name, mut running) = bed.begun.remove(at.unwrap());
            done(bed.folder, name, &mut running);
        }
        "replay" => replay(bed, row),
        "loop" => send_back(bed, row),
        "phone_unreachable" => {
            bed.register("dead", "u1", &format!("<sip:dead@{PHONE}:9>"));
            ask(bed, row, row.ask.uri, &row.status.to_string());
        }
        "phone_flow_gone" => {
            let contact = "<sip:flow@[local_ip]:[local_port];transport=tcp;ob>;reg-id=1;\
                           +sip.instance=\"<urn:uuid:00000000-0000-1000-8000-000A95A0E128>\"\n\
                           Supported: path, outbound";
            bed.register("flow", "t1", contact);
            ask(bed, row, row.ask.uri, &row.status.to_string());
        }
        "dns_silent" => {
            bed.dns.set_silent(true);
            ask(bed, row, "sip:x@silent.example", &row.status.to_string());
            bed.dns.set_silent(false);
        }
        "next_hop_busy" => busy(bed, row),
        "timed_out" => {
            let uri = format!("sip:x@{}", bed.silent.local_addr().unwrap());
            let ask = Ask {
                uri: &uri,
                ..row.ask
            };
            let mut scenario = Scenario::default();
            scenario.send(&ask, None);
            scenario.expect(&row.status.to_string());
            scenario.acknowledge(&ask);
            bed.play(row.reason, &scenario, &bed.run(row, 1));
        }
        "out_of_order" => out_of_order(bed, row),
        "not_stored" => not_stored(bed, row),
        "draining" => draining(bed, row),
        other => panic!("{other} has no way of its own"),
    }
}

/// One request to that URI.
fn ask(bed: &Bed<'_>, row: &Row, uri: &str, status: &str) {
    let mut scenario = Scenario::default();
    scenario.send(&Ask { uri, ..row.ask }, None);
    scenario.expect(status);
    bed.play(row.reason, &scenario, &bed.run(row, 1));
}

/// A free port of one of this machine's addresses.
fn port_at(address: &str) -> u16 {
    let socket = UdpSocket::bind((address, 0)).unwrap();
    socket.local_addr().unwrap().port()
}

/// A host elsewhere, played by SIPp.
fn elsewhere(
    bed: &Bed<'_>,
    name: &str,
    address: &str,
    scenario: &Scenario,
) -> (super::Running, u16) {
    let port = port_at(address);
    let run = Run {
        from: address,
        port: Some(port),
        transport: "u1",
        to: bed.proxy.at("udp"),
        times: 1,
        auth_uri: DOMAIN,
    };
    let running = scenario.start(bed.folder, name, &run);
    listens(address, port);
    (running, port)
}

fn busy(bed: &Bed<'_>, row: &Row) {
    let mut scenario = Scenario::default();
    scenario.expect_request("MESSAGE");
    scenario.message(
        "SIP/2.0 503 Service Unavailable\n[$1]: 1\n[last_From:]\n[last_To:];tag=b\n\
         [last_Call-ID:]\n[last_CSeq:]\nContent-Length: 0\n\n",
    );
    let (mut busy, port) = elsewhere(bed, "busy", BUSY, &scenario);
    ask(
        bed,
        row,
        &format!("sip:x@{BUSY}:{port}"),
        &row.status.to_string(),
    );
    done(bed.folder, "busy", &mut busy);
}

/// The request comes back as it left, with a Via more.
fn send_back(bed: &Bed<'_>, row: &Row) {
    let mut scenario = Scenario::default();
    scenario.expect_request("MESSAGE");
    scenario.message(
        "MESSAGE sip:x@[local_ip]:[local_port] SIP/2.0\n\
         Via: SIP/2.0/UDP [local_ip]:[local_port];branch=z9hG4bKback;rport\n[last_Via:]\n\
         Max-Forwards: 60\n[last_From:]\n[last_To:]\n[last_Call-ID:]\n[last_CSeq:]\n\
         Content-Length: 0\n\n",
    );
    scenario.expect("482");
    scenario.message(
        "SIP/2.0 482 Loop Detected\n[$1]: 1\n[last_From:]\n[last_To:]\n[last_Call-ID:]\n\
         [last_CSeq:]\nContent-Length: 0\n\n",
    );
    let (mut mirror, port) = elsewhere(bed, "mirror", MIRROR, &scenario);
    ask(bed, row, &format!("sip:x@{MIRROR}:{port}"), "482");
    done(bed.folder, "mirror", &mut mirror);
}

fn receive(socket: &UdpSocket) -> String {
    let mut answer = [0; 65_535];
    let length = uninterrupted(|| socket.recv(&mut answer)).unwrap();
    String::from_utf8_lossy(&answer[..length]).into_owned()
}

fn socket_at(address: &str, server: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind((address, 0)).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.connect(server).unwrap();
    socket
}

fn md5(text: &str) -> String {
    let digest = Md5::digest(text.as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn replay(bed: &Bed<'_>, row: &Row) {
    let socket = socket_at(PHONE, bed.proxy.at("udp"));
    let local = socket.local_addr().unwrap();
    let from = row.ask.from;
    let register = |cseq: u32, more: &str| {
        format!(
            "REGISTER sip:{DOMAIN} SIP/2.0\r\nVia: SIP/2.0/UDP {local};branch=z9hG4bKreplay{cseq};rport\r\n\
             Max-Forwards: 70\r\nFrom: <{from}>;tag=a\r\nTo: <{from}>\r\nCall-ID: {}-1\r\n\
             CSeq: {cseq} REGISTER\r\n{more}Content-Length: 0\r\n\r\n",
            row.reason
        )
    };
    socket.send(register(1, "").as_bytes()).unwrap();
    let challenge = receive(&socket);
    let (_, rest) = challenge.split_once("nonce=\"").unwrap();
    let (nonce, _) = rest.split_once('"').unwrap();
    let ha1 = md5(&format!("twice:{DOMAIN}:twice-secret"));
    let ha2 = md5(&format!("REGISTER:sip:{DOMAIN}"));
    let proof = md5(&format!("{ha1}:{nonce}:00000001:cafe:auth:{ha2}"));
    let line = format!(
        "Authorization: Digest username=\"twice\", realm=\"{DOMAIN}\", nonce=\"{nonce}\", \
         uri=\"sip:{DOMAIN}\", response=\"{proof}\", algorithm=MD5, qop=auth, nc=00000001, cnonce=\"cafe\"\r\n"
    );
    socket.send(register(2, &line).as_bytes()).unwrap();
    assert!(receive(&socket).starts_with("SIP/2.0 200 "));
    socket.send(register(3, &line).as_bytes()).unwrap();
    assert!(receive(&socket).starts_with("SIP/2.0 401 "));
}

fn out_of_order(bed: &Bed<'_>, row: &Row) {
    let contact = format!("Contact: <sip:bob@{PHONE}:5060>\n");
    let register = |cseq: u32| {
        format!(
            "REGISTER sip:{DOMAIN} SIP/2.0\n\
             Via: SIP/2.0/UDP [local_ip]:[local_port];branch=[branch];rport\nMax-Forwards: 70\n\
             From: <{0}>;tag=a\nTo: <{0}>\nCall-ID: [call_id]\nCSeq: {cseq} REGISTER\n{contact}\
             Content-Length: 0\n\n",
            row.ask.from
        )
    };
    let mut scenario = Scenario::default();
    scenario.message(&register(7));
    scenario.expect("200");
    scenario.message(&register(6));
    scenario.expect("500");
    bed.play(row.reason, &scenario, &bed.run(row, 1));
}

/// The disk is full to its last byte, and has room again.
fn not_stored(bed: &Bed<'_>, row: &Row) {
    let filler = small_disk().join("filler");
    let mut file = fs::File::create(&filler).unwrap();
    while file.write_all(&[0; 4_096]).is_ok() {}
    // What the database has room for in what it has already is stored all the same.
    for nth in 0..200 {
        let contact = format!("Contact: <sip:c{nth}@{PHONE}:5060>;x={}\n", "x".repeat(400));
        let more = Ask {
            more: &contact,
            ..row.ask
        };
        let mut scenario = Scenario::default();
        scenario.send(&more, None);
        scenario.expect("200|500");
        let name = format!("{}-{nth}", row.reason);
        bed.play(&name, &scenario, &bed.run(row, 1));
        let found = bed.why(At::Open, &["--call", row.reason]);
        if found.iter().any(|of| of["reason"] == row.reason) {
            break;
        }
    }
    drop(file);
    fs::remove_file(&filler).unwrap();
}

/// A call that nobody answers holds the server while it ends.
fn draining(bed: &Bed<'_>, row: &Row) {
    let socket = socket_at(PEER, bed.proxy.at("udp"));
    let (local, silent) = (
        socket.local_addr().unwrap(),
        bed.silent.local_addr().unwrap(),
    );
    let invite = format!(
        "INVITE sip:x@{silent} SIP/2.0\r\nVia: SIP/2.0/UDP {local};branch=z9hG4bKheld;rport\r\n\
         Max-Forwards: 70\r\nFrom: <sip:x@far.example>;tag=h\r\nTo: <sip:x@{SILENT}>\r\nCall-ID: held\r\n\
         CSeq: 1 INVITE\r\nContact: <sip:x@{local}>\r\nContent-Length: 0\r\n\r\n"
    );
    socket.send(invite.as_bytes()).unwrap();
    assert!(receive(&socket).starts_with("SIP/2.0 100 "));
    // Somebody is there among those who were not, and rings: it takes its time.
    let mut came = [0; 65_535];
    bed.silent.set_read_timeout(Some(PATIENCE)).unwrap();
    let from = loop {
        let (length, from) = uninterrupted(|| bed.silent.recv_from(&mut came)).unwrap();
        let came = String::from_utf8_lossy(&came[..length]).into_owned();
        if came.starts_with("INVITE ") && came.contains("Call-ID: held\r\n") {
            let copied: String = came
                .lines()
                .filter(|line| {
                    let names = ["Via:", "From:", "To:", "Call-ID:", "CSeq:", "Record-Route:"];
                    names.iter().any(|name| line.starts_with(name))
                })
                .map(|line| format!("{line}\r\n"))
                .collect();
            let ringing = format!("SIP/2.0 180 Ringing\r\n{copied}Content-Length: 0\r\n\r\n");
            break (ringing, from);
        }
    };
    bed.silent.send_to(from.0.as_bytes(), from.1).unwrap();
    while !receive(&socket).starts_with("SIP/2.0 180 ") {}
    bed.proxy.process.signal("-TERM");
    bed.proxy.wait_for_log("draining: new calls are refused");
    let mut scenario = Scenario::default();
    scenario.send(&row.ask, None);
    scenario.expect("503");
    scenario.acknowledge(&row.ask);
    bed.play(row.reason, &scenario, &bed.run(row, 1));
}
