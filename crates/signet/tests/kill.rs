//! `kill -9` under registration load, a hundred times: a binding that was
//! answered 200 is there after the restart. And what such an end leaves beside the database,
//! where a backup is put back.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::collections::HashMap;
use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use sip_net::testing::uninterrupted;
use support::command::{succeed, text};
use support::{Server, TestDir, free_port};

const KILLS: u32 = 100;

/// Users that register; each registers one contact per round.
const USERS: u32 = 400;

/// Registrations under way.
const WINDOW: usize = 64;

#[test]
fn no_acknowledged_binding_is_lost() {
    let folder = TestDir::new("kill");
    let port = free_port();
    let mut acknowledged: HashMap<u32, u32> = HashMap::new();
    let mut seed = u64::from(std::process::id());
    let mut total = 0_usize;
    for round in 1..=KILLS {
        let server = Server::start_at(
            folder.path(),
            port,
            &["--no-auth", "--workers", "2", "--domain", "example.test"],
        );
        check(server.udp, &acknowledged, round);
        // A time to live between 20 and 220 ms: in the middle of the load.
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let life = Duration::from_millis(20 + (seed >> 33) % 200);
        total += load(&server, round, life, &mut acknowledged);
    }
    let server = Server::start_at(
        folder.path(),
        port,
        &["--no-auth", "--workers", "2", "--domain", "example.test"],
    );
    check(server.udp, &acknowledged, KILLS + 1);
    eprintln!("{KILLS} kills, {total} registrations acknowledged, none lost");
    assert!(
        total > KILLS as usize * 10,
        "the load was no load: {total} registrations"
    );
}

/// The lines by which OPERATING puts a backup back.
fn lines_of_the_document() -> Vec<String> {
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/OPERATING.md");
    let document = fs::read_to_string(document).unwrap();
    let lines = document.lines();
    let lines = lines.skip_while(|line| *line != "systemctl stop signet");
    let lines = lines
        .skip(1)
        .take_while(|line| *line != "systemctl start signet");
    let lines: Vec<String> = lines.map(str::to_owned).collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    lines
}

#[test]
fn a_backup_is_put_back_by_the_lines_of_the_document() {
    const DOMAIN: &str = "example.test";
    let folder = TestDir::new("restore");
    let mut server = Server::start(folder.path(), &["--domain", DOMAIN]);
    let data = server.data.clone();
    let listed = || succeed(&["user", "list", "--data", text(&data)], "");
    for name in ["alice", "bob"] {
        server.add_user(name, DOMAIN, "secret");
    }
    let database = data.join("signet.db");
    let copy = folder.path().join("copy.db");
    let open = || rusqlite::Connection::open(&database).unwrap();
    // With everything in it, and nobody who writes.
    let whole = open().query_row("PRAGMA wal_checkpoint(FULL)", (), |row| {
        row.get::<_, i64>(0)
    });
    assert_eq!(whole.unwrap(), 0);
    fs::copy(&database, &copy).unwrap();
    let at_the_backup = listed();
    for nth in 0..20 {
        server.add_user(&format!("later{nth}"), DOMAIN, "secret");
    }
    server.process.signal("-KILL");
    server.process.wait(Duration::from_secs(20)).unwrap();
    assert!(data.join("signet.db-wal").metadata().unwrap().len() > 0);

    for line in lines_of_the_document() {
        let here = line
            .replace("-o signet -g signet ", "")
            .replace(" copy.db ", &format!(" {} ", text(&copy)))
            .replace("/var/lib/signet", text(&data));
        let status = Command::new("sh").args(["-c", &here]).status().unwrap();
        assert!(status.success(), "{here}");
    }
    let _server = Server::start(folder.path(), &["--domain", DOMAIN]);
    let check = open().query_row("PRAGMA integrity_check", (), |row| row.get::<_, String>(0));
    assert_eq!(check.unwrap(), "ok");
    assert_eq!(listed(), at_the_backup);
    assert!(at_the_backup.contains("bob") && !at_the_backup.contains("later"));
}

/// Registers until `life` is over, kills the server, then takes in what was
/// still answered. `acknowledged` is the latest round of each user that got a 200.
fn load(
    server: &Server,
    round: u32,
    life: Duration,
    acknowledged: &mut HashMap<u32, u32>,
) -> usize {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_nonblocking(true).unwrap();
    let begin = Instant::now();
    let (mut next, mut under_way, mut count, mut killed) = (0_u32, 0_usize, 0_usize, false);
    let mut buffer = [0; 65_535];
    let mut quiet_since = Instant::now();
    loop {
        while !killed && under_way < WINDOW {
            let user = next % USERS;
            let cseq = round * 1_000 + next / USERS;
            next += 1;
            let message = register(user, round, cseq, &socket);
            if socket.send_to(message.as_bytes(), server.udp).is_err() {
                break;
            }
            under_way += 1;
        }
        while let Ok(n) = socket.recv(&mut buffer) {
            quiet_since = Instant::now();
            let text = String::from_utf8_lossy(&buffer[..n]).into_owned();
            if let Some(user) = text
                .starts_with("SIP/2.0 200")
                .then(|| user_of(&text))
                .flatten()
            {
                acknowledged.insert(user, round);
                count += 1;
            }
            under_way = under_way.saturating_sub(1);
        }
        if !killed && begin.elapsed() > life {
            server.process.signal("-KILL");
            killed = true;
        }
        if killed
            && quiet_since.elapsed() > Duration::from_millis(30)
            && begin.elapsed() > life + Duration::from_millis(30)
        {
            return count;
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Asks for the bindings of every user that was acknowledged: the contact of
/// the round of its last 200 must be there.
fn check(to: SocketAddr, acknowledged: &HashMap<u32, u32>, round: u32) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket
        .set_read_timeout(Some(Duration::from_millis(500)))
        .unwrap();
    let mut buffer = [0; 65_535];
    for (&user, &latest) in acknowledged {
        let mut answer = None;
        for attempt in 0..10 {
            let message = query(user, round * 100 + attempt, &socket);
            socket.send_to(message.as_bytes(), to).unwrap();
            if let Ok(n) = uninterrupted(|| socket.recv(&mut buffer)) {
                let text = String::from_utf8_lossy(&buffer[..n]).into_owned();
                if user_of(&text) == Some(user) && text.contains("query") {
                    answer = Some(text);
                    break;
                }
            }
        }
        let answer = answer.unwrap_or_else(|| panic!("round {round}: no answer about user {user}"));
        // Later rounds may have been stored without an answer that arrived, never earlier ones only.
        let found = answer
            .lines()
            .filter(|l| l.starts_with("Contact:"))
            .any(|line| {
                line.split("expires=").skip(1).any(|r| {
                    let digits: String = r.chars().take_while(char::is_ascii_digit).collect();
                    digits
                        .parse::<u32>()
                        .is_ok_and(|expires| round_of(expires) >= latest)
                })
            });
        assert!(
            found,
            "round {round}: user {user} was acknowledged in round {latest}, and the server says:\n{answer}"
        );
    }
}

fn user_of(text: &str) -> Option<u32> {
    let to = text.lines().find(|l| l.starts_with("To:"))?;
    to.split("sip:user").nth(1)?.split('@').next()?.parse().ok()
}

/// The expiry that is asked for in a round tells the round that a binding is
/// of, as long as the test takes less than the ten minutes between two.
fn expires_of(round: u32) -> u32 {
    10_000 + round * 600
}

fn round_of(expires: u32) -> u32 {
    expires.saturating_sub(10_000).div_ceil(600)
}

/// The contact is the same in all rounds, so that each replaces the one before.
fn register(user: u32, round: u32, cseq: u32, socket: &UdpSocket) -> String {
    let local = socket.local_addr().unwrap();
    let expires = expires_of(round);
    format!(
        "REGISTER sip:example.test SIP/2.0\r\nVia: SIP/2.0/UDP {local};branch=z9hG4bK{user}r{cseq}\r\nMax-Forwards: 70\r\n\
         From: <sip:user{user}@example.test>;tag=f{user}\r\nTo: <sip:user{user}@example.test>\r\n\
         Call-ID: load-{user}-{round}@test\r\nCSeq: {cseq} REGISTER\r\n\
         Contact: <sip:user{user}@127.0.0.1:9>\r\nExpires: {expires}\r\nContent-Length: 0\r\n\r\n",
    )
}

fn query(user: u32, number: u32, socket: &UdpSocket) -> String {
    let local = socket.local_addr().unwrap();
    format!(
        "REGISTER sip:example.test SIP/2.0\r\nVia: SIP/2.0/UDP {local};branch=z9hG4bKq{user}r{number}\r\nMax-Forwards: 70\r\n\
         From: <sip:user{user}@example.test>;tag=q{user}\r\nTo: <sip:user{user}@example.test>\r\n\
         Call-ID: query-{user}-{number}@test\r\nCSeq: {number} REGISTER\r\nContent-Length: 0\r\n\r\n"
    )
}
