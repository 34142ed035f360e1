//! Call records of a running server: in files, in databases that go away, on a disk that is full.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../../sip-userdb/tests/support/mod.rs"]
mod sql;
mod support;

use std::collections::BTreeSet;
use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use sip_net::testing::uninterrupted;
use sip_userdb::Layout;
use sql::mariadb::MariaDb;
use sql::postgresql::PostgreSql;
use support::phone::Phone;
use support::{
    Running, Server, TestDir, add_user, free_port, have, small_disk, unique, wait_for_port,
    with_small_disk,
};

/// How long anything may take on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(90);
const DOMAIN: &str = "example.com";
/// What the small disk takes at a time.
const PAGE: usize = 4_096;

/// A server without authentication, with what its records are to be.
fn serve(folder: &Path, records: &str) -> Server {
    serve_at(folder, free_port(), records)
}

fn serve_at(folder: &Path, port: u16, records: &str) -> Server {
    let config = format!(
        "version = 1\ndata = \"data\"\ndomains = [\"{DOMAIN}\"]\nworkers = 2\n\
         [[listen]]\non = \"udp:127.0.0.1:{port}\"\n\
         [authentication]\nrequired = false\n{records}"
    );
    Server::start_with_config(folder, &config, ([127, 0, 0, 1], port).into())
}

/// Ends a server as whoever looks after it does.
fn end(mut server: Server) {
    server.process.signal("-TERM");
    assert_eq!(server.process.wait(PATIENCE), Some(0));
}

#[track_caller]
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < until, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn log_has(server: &Server, text: &str) -> bool {
    fs::read_to_string(&server.log).unwrap().contains(text)
}

/// Calls of nobody to nobody: each is refused behind the gate, which makes a record.
fn refused_calls(server: SocketAddr, from: &str, count: usize) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let local = socket.local_addr().unwrap();
    for _ in 0..count {
        let name = unique();
        let invite = format!(
            "INVITE sip:nobody@{DOMAIN} SIP/2.0\r\nVia: SIP/2.0/UDP {local};branch=z9hG4bK{name}\r\n\
             Max-Forwards: 70\r\nFrom: <sip:{from}@{DOMAIN}>;tag={name}\r\nTo: <sip:nobody@{DOMAIN}>\r\n\
             Call-ID: {name}\r\nCSeq: 1 INVITE\r\nContact: <sip:a@{local}>\r\nContent-Length: 0\r\n\r\n"
        );
        socket.send_to(invite.as_bytes(), server).unwrap();
        let mut buffer = [0; 65_535];
        let answer = loop {
            let len = uninterrupted(|| socket.recv(&mut buffer)).unwrap();
            let answer = String::from_utf8_lossy(&buffer[..len]).into_owned();
            if answer.contains(&name) && !answer.starts_with("SIP/2.0 1") {
                break answer;
            }
        };
        assert!(answer.starts_with("SIP/2.0 404 "), "{answer}");
        let to = support::phone::field(&answer, "To");
        let ack = format!(
            "ACK sip:nobody@{DOMAIN} SIP/2.0\r\nVia: SIP/2.0/UDP {local};branch=z9hG4bK{name}\r\n\
             Max-Forwards: 70\r\nFrom: <sip:{from}@{DOMAIN}>;tag={name}\r\nTo: {to}\r\n\
             Call-ID: {name}\r\nCSeq: 1 ACK\r\nContent-Length: 0\r\n\r\n"
        );
        socket.send_to(ack.as_bytes(), server).unwrap();
    }
}

fn records(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    let records: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    let ids: BTreeSet<&str> = records.iter().filter_map(|of| of["id"].as_str()).collect();
    assert_eq!(ids.len(), records.len());
    records
}

const CALLER: &str = r#"<?xml version="1.0" encoding="ISO-8859-1" ?>
<scenario name="caller">
  <send retrans="500"><![CDATA[

    INVITE sip:[service]@[remote_ip]:[remote_port] SIP/2.0
    Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
    From: <sip:sipp@[local_ip]:[local_port]>;tag=[call_number]
    To: <sip:[service]@[remote_ip]:[remote_port]>
    Call-ID: [call_id]
    CSeq: 1 INVITE
    Contact: <sip:sipp@[local_ip]:[local_port]>
    Max-Forwards: 70
    Content-Length: 0

  ]]></send>
  <recv response="100" optional="true"></recv>
  <recv response="180" optional="true"></recv>
  <recv response="200" rrs="true"></recv>
  <send><![CDATA[

    ACK [next_url] SIP/2.0
    Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
    [routes]
    From: <sip:sipp@[local_ip]:[local_port]>;tag=[call_number]
    To: <sip:[service]@[remote_ip]:[remote_port]>[peer_tag_param]
    Call-ID: [call_id]
    CSeq: 1 ACK
    Max-Forwards: 70
    Content-Length: 0

  ]]></send>
  <pause milliseconds="20"/>
  <send retrans="500"><![CDATA[

    BYE [next_url] SIP/2.0
    Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
    [routes]
    From: <sip:sipp@[local_ip]:[local_port]>;tag=[call_number]
    To: <sip:[service]@[remote_ip]:[remote_port]>[peer_tag_param]
    Call-ID: [call_id]
    CSeq: 2 BYE
    Max-Forwards: 70
    Reason: Q.850;cause=16;text="done"
    Content-Length: 0

  ]]></send>
  <recv response="200"></recv>
</scenario>
"#;

const CALLED: &str = r#"<?xml version="1.0" encoding="ISO-8859-1" ?>
<scenario name="called">
  <recv request="INVITE"></recv>
  <send><![CDATA[

    SIP/2.0 180 Ringing
    [last_Via:]
    [last_Record-Route:]
    [last_From:]
    [last_To:];tag=called[call_number]
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
    [last_To:];tag=called[call_number]
    [last_Call-ID:]
    [last_CSeq:]
    Contact: <sip:[local_ip]:[local_port];transport=[transport]>
    Content-Length: 0

  ]]></send>
  <recv request="ACK"></recv>
  <recv request="BYE"></recv>
  <send><![CDATA[

    SIP/2.0 200 OK
    [last_Via:]
    [last_From:]
    [last_To:]
    [last_Call-ID:]
    [last_CSeq:]
    Content-Length: 0

  ]]></send>
</scenario>
"#;

/// So many calls of SIPp to SIPp through a server with these records.
fn sipp_calls(folder: &Path, records: &str, calls: &str) -> (Server, u16) {
    let called_port = free_port();
    fs::write(folder.join("caller.xml"), CALLER).unwrap();
    fs::write(folder.join("called.xml"), CALLED).unwrap();
    let forward = format!(
        "{records}[[gateway_group]]\nname = \"outside\"\n\
         gateways = [{{ uri = \"sip:127.0.0.1:{called_port}\" }}]\n\
         [[route]]\nprefix = \"0\"\ngroup = \"outside\"\n"
    );
    let server = serve(folder, &forward);
    let sipp = |scenario: &str, port: u16, more: &[&str]| {
        let (file, port) = (folder.join(scenario), port.to_string());
        let file = file.display().to_string();
        let words = ["-sf", &file, "-i", "127.0.0.1", "-p", &port, "-nostdin"];
        let log = folder.join(format!("{scenario}.log"));
        Running::start("sipp", &[&words[..], more].concat(), &log)
    };
    let _called = sipp("called.xml", called_port, &[]);
    wait_for_port(called_port, &folder.join("called.xml.log"));
    let to = server.udp.to_string();
    let more = ["-s", "0301", "-r", "50", "-m", calls, "-timeout", "60", &to];
    let caller_port = free_port();
    let mut caller = sipp("caller.xml", caller_port, &more);
    assert_eq!(caller.wait(PATIENCE), Some(0), "SIPp's calls failed");
    (server, caller_port)
}

#[test]
fn each_call_of_sipp_has_a_line_of_json() {
    if !have("sipp") {
        return;
    }
    let folder = TestDir::new("records-json");
    let wanted = "[records]\npath = \"calls.jsonl\"\nnode = \"edge-1\"\n";
    let (server, caller_port) = sipp_calls(folder.path(), wanted, "100");
    end(server);
    let path = folder.path().join("calls.jsonl");
    assert_eq!(
        path.metadata().unwrap().permissions().mode() & 0o777 & !0o027,
        0o640 & !0o027
    );
    let records = records(&path);
    assert_eq!(records.len(), 100);
    for record in &records {
        let text = |name: &str| record[name].as_str().unwrap_or_default().to_owned();
        assert_eq!(
            (record["version"].as_u64(), text("node")),
            (Some(1), "edge-1".into())
        );
        assert_eq!(record["status"], 200);
        assert_eq!(record["bye_status"], 200);
        assert_eq!(
            (text("ended_by"), text("why")),
            ("caller".into(), String::new())
        );
        assert_eq!(text("reason"), "Q.850;cause=16;text=\"done\"");
        assert_eq!(text("callee_trunk"), "outside");
        assert_eq!(text("caller_class"), "open");
        assert_eq!(text("caller_address"), format!("127.0.0.1:{caller_port}"));
        assert_eq!(
            (text("caller_transport"), text("callee_transport")),
            ("udp".into(), "udp".into())
        );
        for time in ["started", "rang", "answered", "ended", "seen"] {
            assert!(text(time).ends_with('Z'), "{record}");
        }
        for number in ["ring_after_ms", "answer_after_ms", "talk_ms"] {
            assert!(record[number].is_u64(), "{record}");
        }
        assert_eq!(record["tries_total"], 1);
        assert_eq!(record["tries"].as_array().map(Vec::len), Some(1));
    }
}

#[test]
fn each_call_of_sipp_has_a_line_of_csv() {
    if !have("sipp") {
        return;
    }
    let folder = TestDir::new("records-csv");
    let wanted = "[records]\npath = \"calls.csv\"\nformat = \"csv\"\n";
    let (server, _) = sipp_calls(folder.path(), wanted, "50");
    end(server);
    let text = fs::read_to_string(folder.path().join("calls.csv")).unwrap();
    let mut lines = text.split_terminator("\r\n");
    let names: Vec<&str> = lines.next().unwrap().split(',').collect();
    let ended_by = names.iter().position(|name| *name == "ended_by").unwrap();
    let rows: Vec<&str> = lines.collect();
    assert_eq!((names[0], rows.len()), ("id", 50));
    for row in rows {
        // What stands before it needs no quotes here.
        assert_eq!(row.split(',').nth(ended_by), Some("caller"), "{row}");
        assert!(
            row.contains(",\"Q.850;cause=16;text=\"\"done\"\"\","),
            "{row}"
        );
    }
}

#[test]
fn a_users_call_bears_his_name_and_one_that_goes_on_is_written_at_the_end() {
    let folder = TestDir::new("records-users");
    let path = folder.path().join("calls.jsonl");
    let port = free_port();
    let config = format!(
        "version = 1\ndata = \"data\"\ndomains = [\"{DOMAIN}\"]\n\
         [[listen]]\non = \"udp:127.0.0.1:{port}\"\n\
         [records]\npath = \"calls.jsonl\"\n"
    );
    let udp = ([127, 0, 0, 1], port).into();
    let server = Server::start_with_config(folder.path(), &config, udp);
    for name in ["alice", "bob"] {
        add_user(&server.data, name, DOMAIN, &format!("{name}-secret"));
    }
    let mut alice = Phone::udp(server.udp, "alice", DOMAIN);
    let mut bob = Phone::udp(server.udp, "bob", DOMAIN);
    alice.register();
    bob.register();

    let mut call = alice.invite("bob");
    let (mut answered, _) = bob.answer();
    alice.established(&mut call);
    bob.acknowledged(&answered);
    bob.hang_up(&mut answered);
    alice.ended(&call);
    bob.hung_up(&answered);
    wait_until("the record of the first call", || {
        fs::read_to_string(&path).is_ok_and(|text| text.lines().count() == 1)
    });
    // It is moved away, as logrotate does.
    let moved = folder.path().join("calls.jsonl.1");
    fs::rename(&path, &moved).unwrap();
    server.process.signal("-HUP");
    wait_until("another file", || path.exists());

    let mut call = alice.invite("bob");
    let (answered, _) = bob.answer();
    alice.established(&mut call);
    bob.acknowledged(&answered);
    end(server);

    let first = records(&moved).remove(0);
    assert_eq!(first["caller_user"], format!("alice@{DOMAIN}"));
    assert_eq!(first["caller_class"], "user");
    assert_eq!(first["caller_from"], format!("sip:alice@{DOMAIN}"));
    assert_eq!(first["request_uri"], format!("sip:bob@{DOMAIN}"));
    assert_eq!(first["ended_by"], "callee");
    let target = first["callee_target"].as_str().unwrap();
    assert!(target.starts_with("sip:bob@127.0.0.1:"), "{target}");
    let open = records(&path);
    assert_eq!(open.len(), 1);
    assert_eq!(open[0]["ended_by"], "server");
    assert_eq!(open[0]["why"], "server_stopped");
    let text = fs::read_to_string(&moved).unwrap();
    assert!(!text.contains("secret"), "{text}");
}

/// What a configuration says of a table.
fn table_at(folder: &Path, url: &str, password: &str) -> String {
    let secret = folder.join("records.password");
    fs::write(&secret, format!("{password}\n")).unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    format!(
        "[[records.table]]\nurl = \"{url}\"\npassword_file = \"{}\"\n",
        secret.display()
    )
}

/// Calls before, while and after a database is away, over a restart of the server.
fn follow(url: &str, password: &str, count: &dyn Fn() -> usize, mut switch: impl FnMut(bool)) {
    let folder = TestDir::new(&format!("records-table-{}", unique()));
    let table = table_at(folder.path(), url, password);
    let server = serve(folder.path(), &table);
    refused_calls(server.udp, "a'),('x", 20);
    refused_calls(server.udp, "=1+1;DROP%20TABLE%20signet_calls--", 10);
    wait_until("30 rows", || count() == 30);

    switch(false);
    refused_calls(server.udp, "alice", 100);
    wait_until("the log tells", || log_has(&server, "they wait"));
    end(server);
    // Another process finds what waits, and puts more behind it.
    let server = serve(folder.path(), &table);
    refused_calls(server.udp, "alice", 50);
    switch(true);
    wait_until("180 rows", || count() == 180);
    refused_calls(server.udp, "alice", 20);
    wait_until("200 rows", || count() == 200);
    assert!(!log_has(&server, "are lost"));
    end(server);
    assert_eq!(count(), 200);
}

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    String::from_utf8(output.stdout).unwrap()
}

/// Rows with a start, a status and another Call-ID each.
const COUNT: &str = "SELECT COUNT(DISTINCT call_id) FROM signet_calls \
    WHERE status = 404 AND why = 'no_such_user' AND started > '2020-01-01' AND answered IS NULL";

/// How to reach a database, and what counts its rows.
fn url_and_count(bed: &PostgreSql) -> (String, Box<dyn Fn() -> usize>) {
    let url = bed.options(Layout::Signet, "").url;
    let port = url
        .rsplit(':')
        .next()
        .unwrap()
        .split('/')
        .next()
        .unwrap()
        .to_owned();
    let at = bed.folder.path().to_owned();
    let count = move || {
        let mut psql = Command::new("psql");
        psql.args([
            "-X", "-t", "-A", "-U", "signet", "-d", "postgres", "-p", &port,
        ]);
        output(psql.arg("-h").arg(&at).args(["-c", COUNT]))
            .trim()
            .parse::<usize>()
            .unwrap()
    };
    (url, Box::new(count))
}

#[test]
fn records_follow_a_database_that_was_away() {
    let Some(mut bed) = PostgreSql::start() else {
        return;
    };
    bed.sql(include_str!("../../../etc/records/postgresql.sql"));
    let (url, count) = url_and_count(&bed);
    follow(
        &url,
        sql::postgresql::PASSWORD,
        &*count,
        |is_up| match is_up {
            true => bed.resume(),
            false => sql::run(bed.kill()),
        },
    );
}

#[test]
fn a_table_without_a_column_is_told_and_has_its_rows_once_it_is_given_it() {
    let Some(bed) = PostgreSql::start() else {
        return;
    };
    let made = include_str!("../../../etc/records/postgresql.sql");
    bed.sql(made);
    bed.sql("ALTER TABLE signet_calls DROP COLUMN payer_user;");
    let (url, count) = url_and_count(&bed);
    let folder = TestDir::new("records-column");
    let table = table_at(folder.path(), &url, sql::postgresql::PASSWORD);
    let server = serve(folder.path(), &table);
    refused_calls(server.udp, "alice", 5);
    wait_until("the log tells", || log_has(&server, "they wait"));
    assert!(log_has(&server, "payer_user") && log_has(&server, "docs/SQL.md"));
    assert_eq!(count(), 0);
    // The file that makes the table gives it what it has not.
    bed.sql(made);
    wait_until("5 rows", || count() == 5);
    end(server);
}

#[test]
fn records_follow_a_mariadb_that_was_away() {
    let Some(mut bed) = MariaDb::start() else {
        return;
    };
    bed.sql("SET GLOBAL innodb_flush_log_at_trx_commit = 1");
    bed.sql(&format!(
        "USE sip;\n{}",
        include_str!("../../../etc/records/mysql.sql")
    ));
    let url = bed.options(Layout::Signet, "").url;
    let socket = bed.folder.file("socket");
    let count = || {
        let mut client = Command::new("mariadb");
        client.args(["--no-defaults", "--user=root", "-N", "-B", "-e", COUNT]);
        let socket = format!("--socket={}", socket.display());
        output(client.args([&socket, "sip"]))
            .trim()
            .parse::<usize>()
            .unwrap()
    };
    follow(&url, sql::mariadb::PASSWORD, &count, |is_up| match is_up {
        true => bed.resume(),
        false => sql::run(bed.kill()),
    });
}

#[test]
fn a_full_disk_holds_up_no_call_and_its_records_follow() {
    let name = "a_full_disk_holds_up_no_call_and_its_records_follow";
    with_small_disk(name, || {
        let disk = small_disk();
        let folder = TestDir::new("records-full-disk");
        let path = disk.join("calls.jsonl");
        let wanted = format!("[records]\npath = \"{}\"\n", path.display());
        let server = serve(folder.path(), &wanted);
        refused_calls(server.udp, "alice", 10);
        wait_until("the first records", || {
            fs::read_to_string(&path).is_ok_and(|text| text.lines().count() == 10)
        });
        let filler = fill(&disk);
        // Calls are answered as before.
        refused_calls(server.udp, "alice", 400);
        wait_until("the log tells", || {
            log_has(&server, "make room on the disk")
        });
        // What was written is whole.
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.ends_with('\n') && text.lines().count() < 410);
        fs::remove_file(&filler).unwrap();
        wait_until("the log tells", || log_has(&server, "written again"));
        end(server);
        assert_eq!(records(&path).len(), 410);
    });
}

/// Fills the small disk to its last page; by what.
fn fill(disk: &Path) -> PathBuf {
    let filler = disk.join("filler");
    let mut size = 560_000;
    while fs::write(&filler, vec![0; size]).is_err() {
        size -= PAGE;
    }
    filler
}

#[test]
fn a_server_that_was_killed_starts_on_a_full_disk() {
    let name = "a_server_that_was_killed_starts_on_a_full_disk";
    with_small_disk(name, || {
        let disk = small_disk();
        let folder = TestDir::new("records-full-start");
        let data = disk.join("data");
        fs::DirBuilder::new().mode(0o700).create(&data).unwrap();
        symlink(&data, folder.path().join("data")).unwrap();
        let table = "[[records.table]]\nurl = \"postgresql://signet@127.0.0.1:9/sip\"\n";
        let port = free_port();
        let mut server = serve_at(folder.path(), port, table);
        let listeners = data.join("listeners.json");
        wait_until("its addresses", || listeners.exists());
        let spool = || {
            let entries = fs::read_dir(&data).unwrap().map(|of| of.unwrap().path());
            let is_spool = |path: &PathBuf| path.extension().is_some_and(|of| of == "spool");
            entries.into_iter().find(is_spool)
        };
        refused_calls(server.udp, "alice", 1);
        let spooled = || spool().and_then(|path| fs::read_to_string(path).ok());
        wait_until("a record that waits", || {
            spooled().is_some_and(|text| text.ends_with("}\n"))
        });
        server.process.signal("-KILL");
        server.process.wait(PATIENCE).unwrap();
        drop(server);

        // Whatever a start would write is due: a key of two days ago is to be followed, and the
        // last record is cut where the next byte needs another page.
        let ring = data.join("tokens.keys");
        let text = fs::read_to_string(&ring).unwrap();
        let words: Vec<&str> = text.split(' ').collect();
        let old_s = words[1].parse::<u64>().unwrap() - 2 * 86_400;
        let old = format!("{} {old_s} {}", words[0], words[2]);
        fs::write(&ring, &old).unwrap();
        let mut cut = spooled().unwrap();
        cut += &"x".repeat(PAGE - cut.len() % PAGE);
        fs::write(spool().unwrap(), &cut).unwrap();
        // What the killed one left of where it listened takes no page that a start could have.
        fs::write(&listeners, "").unwrap();
        let filler = fill(&disk);

        let server = serve_at(folder.path(), port, table);
        refused_calls(server.udp, "alice", 1);
        assert!(!listeners.exists(), "it names a process that is gone");
        wait_until("the log tells", || {
            log_has(&server, "is not told to programs") && log_has(&server, "were not renewed")
        });
        // There is a page of the file that was removed: another key may have taken it meanwhile.
        assert!(fs::read_to_string(&ring).unwrap().ends_with(&old));
        fs::remove_file(&filler).unwrap();
        refused_calls(server.udp, "alice", 1);
        wait_until("a record behind the cut one", || {
            let text = spooled().unwrap();
            text.starts_with(&format!("{cut}\n{{")) && text.ends_with("}\n")
        });
        end(server);
    });
}
