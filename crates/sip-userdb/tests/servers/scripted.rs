//! Servers that do what no server should: they answer late, in part, twice, garbage, never,
//! or close in the middle. Each is a listener of the test's that follows a script.

mod postgresql;
mod refusals;

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use sip_auth::Algorithm;
use sip_lookup::{BatchFailure, Row};
use sip_userdb::{Layout, Options, Secret, Tls, UserDb};

use crate::support::run;
use crate::support::suite::{ask, assert_is, hex, of_realm, subject};

/// What a server does with one statement.
#[derive(Clone, Copy)]
enum Act {
    /// Answers it.
    Answer,
    /// Takes it and waits for the next: both are answered then.
    Wait,
    /// Half of the answer, and then the end of the connection.
    HalfAndClose,
    /// Half of the answer, and then nothing.
    HalfAndSilence,
    Twice,
    /// What waits is answered twice, and then this.
    OthersTwice,
    Garbage,
    Close,
    /// A refusal.
    Refuse,
    /// A file of ours is asked for.
    AskForFile,
}

/// A MySQL server for connections one after the other, each with its own script. Its only
/// user is asked for by the names that the statement has, and has the first of them.
fn mysql(scripts: Vec<Vec<Act>>) -> Options {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for script in scripts {
            let Ok((stream, _)) = listener.accept() else {
                return;
            };
            std::thread::spawn(move || {
                let mut script = script.into_iter();
                let _ = converse(stream, |_| script.next().unwrap_or(Act::Answer));
            });
        }
    });
    options(&format!("mysql://signet@127.0.0.1:{port}/sip"))
}

fn options(url: &str) -> Options {
    Options {
        url: url.to_owned(),
        password: Some(Secret::new(b"secret".to_vec())),
        tls: Tls::Auto,
        tls_roots: None,
        layout: Layout::Subscriber {
            table: "subscriber".to_owned(),
            user_with_domain: false,
        },
        algorithms: None,
        wanted: None,
        connections_max: 1,
        connect_timeout_ms: 2_000,
    }
}

/// Capabilities without TLS: all of the lower half but bit 11, and PLUGIN_AUTH with its
/// length and DEPRECATE_EOF of the upper half.
const CAPABILITIES: [u8; 4] = [0xff, 0xf7, 0x28, 0x01];

fn greeting() -> Vec<u8> {
    let mut packet = b"\x0a10.11.6-MariaDB\0".to_vec();
    packet.extend([1, 0, 0, 0]);
    packet.extend(b"abcdefgh\0");
    packet.extend(&CAPABILITIES[..2]);
    packet.extend([45, 2, 0]);
    packet.extend(&CAPABILITIES[2..]);
    packet.push(21);
    packet.extend([0; 10]);
    packet.extend(b"ijklmnopqrst\0mysql_native_password\0");
    packet
}

const OK: [u8; 7] = [0, 0, 0, 2, 0, 0, 0];

/// Speaks with a client; `act` says what to do with a statement of these users and this realm.
fn converse(mut stream: TcpStream, mut act: impl FnMut(&[&[u8]]) -> Act) -> io::Result<()> {
    send(&mut stream, 0, &greeting())?;
    receive(&mut stream)?;
    send(&mut stream, 2, &OK)?;
    receive(&mut stream)?;
    send(&mut stream, 1, &OK)?;
    let mut statements = Vec::new();
    let mut held = Vec::new();
    loop {
        let command = receive(&mut stream)?;
        match command[0] {
            22 => {
                let places = command.iter().filter(|&&byte| byte == b'?').count();
                statements.push(places);
                let number = u8::try_from(statements.len()).unwrap();
                let places = u16::try_from(places).unwrap().to_le_bytes();
                let prepared = [0, number, 0, 0, 0, 0, 0, places[0], places[1], 0, 0, 0];
                send(&mut stream, 1, &prepared)?;
                for number in 0..u16::from_le_bytes(places) {
                    send(&mut stream, number.to_le_bytes()[0], b"\x03def")?;
                }
            }
            23 => {
                let places = statements[usize::from(command[1]) - 1];
                let values = values(&command, places);
                let act = act(&values);
                let answer = answer(&values);
                match act {
                    Act::Wait => held.extend(answer),
                    Act::Answer => {
                        stream.write_all(&std::mem::take(&mut held))?;
                        stream.write_all(&answer)?;
                    }
                    Act::OthersTwice => {
                        let others = std::mem::take(&mut held);
                        stream.write_all(&[others.clone(), others, answer].concat())?;
                    }
                    Act::Twice => stream.write_all(&[answer.clone(), answer].concat())?,
                    Act::HalfAndClose | Act::HalfAndSilence => {
                        stream.write_all(&answer[..answer.len() / 2])?;
                        if matches!(act, Act::HalfAndSilence) {
                            while stream.read(&mut [0; 4_096])? > 0 {}
                        }
                        return Ok(());
                    }
                    Act::Garbage => stream.write_all(&[0xaa; 512])?,
                    Act::Close => return Ok(()),
                    Act::Refuse => send(&mut stream, 1, b"\xff\x28\x04#42000no such thing")?,
                    Act::AskForFile => send(&mut stream, 1, b"\xfb/etc/passwd")?,
                }
            }
            other => panic!("command {other}"),
        }
    }
}

fn send(stream: &mut TcpStream, number: u8, payload: &[u8]) -> io::Result<()> {
    stream.write_all(&framed(number, payload))
}

fn framed(number: u8, payload: &[u8]) -> Vec<u8> {
    let [a, b, c, _] = u32::try_from(payload.len()).unwrap().to_le_bytes();
    [&[a, b, c, number], payload].concat()
}

fn receive(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut header = [0; 4];
    stream.read_exact(&mut header)?;
    let [a, b, c, _] = header;
    let mut payload = vec![0; u32::from_le_bytes([a, b, c, 0]) as usize];
    stream.read_exact(&mut payload)?;
    Ok(payload)
}

/// What a statement has in its places: users, and a realm.
fn values(command: &[u8], places: usize) -> Vec<&[u8]> {
    // Ten bytes, a bit for each parameter, one byte, and two for each: the values follow, each
    // with its length before it.
    let mut bytes = &command[10 + places.div_ceil(8) + 1 + 2 * places..];
    let mut values = Vec::new();
    while let Some((&length, rest)) = bytes.split_first() {
        let (value, rest) = rest.split_at(usize::from(length));
        values.push(value);
        bytes = rest;
    }
    assert_eq!(values.len(), places);
    values
}

/// The row of the user who was asked for first.
fn answer(values: &[&[u8]]) -> Vec<u8> {
    let (user, realm) = (values[0], values[values.len() - 1]);
    let digest = hex(str::from_utf8(user).unwrap(), Algorithm::Md5);
    let mut answer = framed(1, &[3]);
    for (number, name) in [(2, "username"), (3, "domain"), (4, "ha1")] {
        let mut column = Vec::new();
        for text in ["def", "sip", "s", "subscriber", name, name] {
            column.push(u8::try_from(text.len()).unwrap());
            column.extend(text.as_bytes());
        }
        column.extend([12, 45, 0, 0, 1, 0, 0, 253, 0, 0, 0, 0, 0]);
        answer.extend(framed(number, &column));
    }
    let mut row = vec![0, 0];
    for value in [user, realm, digest.as_bytes()] {
        row.push(u8::try_from(value.len()).unwrap());
        row.extend(value);
    }
    answer.extend(framed(5, &row));
    answer.extend(framed(6, &[0xfe, 0, 0, 2, 0, 0, 0]));
    answer
}

async fn one(db: &UserDb, user: &str) -> Result<Row, BatchFailure> {
    ask(db, vec![subject(user)])
        .await
        .map(|mut rows| rows.remove(0))
}

fn unreachable(failed: Result<Row, BatchFailure>) {
    assert!(
        matches!(failed, Err(BatchFailure::Unreachable(_))),
        "{failed:?}"
    );
}

/// A script for the first connection; whatever it does, the next one is as good as any.
fn then_recovers(acts: &[Act], first: impl AsyncFnOnce(&UserDb)) {
    let db = UserDb::new(mysql(vec![acts.to_vec(), Vec::new()])).unwrap();
    run(async {
        first(&db).await;
        assert_is(&db, &one(&db, "bob").await.unwrap(), "bob");
    });
}

#[test]
fn answers_find_their_questions_when_they_come_late() {
    then_recovers(&[Act::Wait, Act::Wait, Act::Answer], async |db| {
        let (a, b, c) = tokio::join!(one(db, "alice"), one(db, "bob"), one(db, "carol"));
        assert_is(db, &a.unwrap(), "alice");
        assert_is(db, &b.unwrap(), "bob");
        assert_is(db, &c.unwrap(), "carol");
    });
}

#[test]
fn an_answer_that_nobody_waits_for_any_more_is_thrown_away() {
    then_recovers(&[Act::Wait, Act::Answer], async |db| {
        let gone = tokio::time::timeout(Duration::from_millis(300), one(db, "alice")).await;
        assert!(gone.is_err(), "it was to wait");
        // It comes now, before the answer to the next question.
        assert_is(db, &one(db, "carol").await.unwrap(), "carol");
    });
}

#[test]
fn a_connection_that_ends_in_the_middle_fails_all_that_wait_on_it() {
    for act in [Act::HalfAndClose, Act::Close] {
        then_recovers(&[Act::Answer, act], async |db| {
            assert_is(db, &one(db, "alice").await.unwrap(), "alice");
            let (a, b) = tokio::join!(one(db, "alice"), one(db, "carol"));
            unreachable(a);
            unreachable(b);
        });
    }
}

#[test]
fn what_is_said_twice_counts_once_and_ends_the_connection() {
    then_recovers(&[Act::Twice], async |db| {
        assert_is(db, &one(db, "alice").await.unwrap(), "alice");
        // Whatever the next question gets, it is not the answer to another one.
        match one(db, "carol").await {
            Ok(row) => assert_is(db, &row, "carol"),
            failed => unreachable(failed),
        }
    });
}

/// The second of two answers is no answer to the next question that waits: whoever asked it is not
/// told that he does not exist.
#[test]
fn what_is_said_twice_while_others_wait_ends_the_connection() {
    then_recovers(&[Act::Wait, Act::OthersTwice], async |db| {
        let (a, b) = tokio::join!(one(db, "alice"), one(db, "bob"));
        // Whichever question came first.
        match a {
            Ok(row) => {
                assert_is(db, &row, "alice");
                unreachable(b);
            }
            Err(_) => {
                unreachable(a);
                assert_is(db, &b.unwrap(), "bob");
            }
        }
    });
    // Another realm is another question, too.
    let db = UserDb::new(mysql(vec![vec![Act::Wait, Act::OthersTwice], Vec::new()])).unwrap();
    run(async {
        let elsewhere = ask(&db, vec![of_realm(b"alice", "example.org")]);
        let (a, b) = tokio::join!(elsewhere, one(&db, "alice"));
        match a {
            Ok(rows) => {
                assert!(matches!(rows[..], [Ok(Some(_))]));
                unreachable(b);
            }
            Err(_) => {
                unreachable(a.map(|_| Ok(None)));
                assert_is(&db, &b.unwrap(), "alice");
            }
        }
        assert_is(&db, &one(&db, "alice").await.unwrap(), "alice");
    });
}

/// A batch of many realms is as many statements, which may be more than wait on one connection.
#[test]
fn statements_for_which_there_is_no_room_yet_wait_for_it() {
    let db = UserDb::new(mysql(vec![Vec::new()])).unwrap();
    run(async {
        let realms = (0..1_500).map(|nth| of_realm(b"alice", &format!("realm{nth}.example")));
        let rows = ask(&db, realms.collect()).await.unwrap();
        for row in &rows {
            assert_is(&db, row, "alice");
        }
    });
}

#[test]
fn garbage_ends_the_connection() {
    for act in [Act::Garbage, Act::AskForFile] {
        then_recovers(&[act], async |db| unreachable(one(db, "alice").await));
    }
}

/// Half an answer, and the connection is silent; another one is made beside it.
#[test]
fn a_connection_that_falls_silent_is_passed_by() {
    let mut options = mysql(vec![vec![Act::HalfAndSilence], Vec::new()]);
    options.connections_max = 2;
    let db = UserDb::new(options).unwrap();
    run(async {
        let mut tries = 0;
        loop {
            let patience = Duration::from_millis(400);
            match tokio::time::timeout(patience, one(&db, "alice")).await {
                Ok(row) => {
                    assert_is(&db, &row.unwrap(), "alice");
                    return;
                }
                Err(_) => tries += 1,
            }
            assert!(tries < 100, "it is waited for without end");
        }
    });
}

/// A listener that hears one connection out, says `greeting` and then `answer` to what comes.
fn listener(greeting: &'static [u8], answer: &'static [u8]) -> (u16, Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (heard, hears): (Sender<Vec<u8>>, _) = channel();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(greeting).unwrap();
        let mut all = Vec::new();
        let mut buffer = [0; 4_096];
        while let Ok(length @ 1..) = stream.read(&mut buffer) {
            all.extend(&buffer[..length]);
            if stream.write_all(answer).is_err() {
                break;
            }
        }
        heard.send(all).unwrap();
    });
    (port, hears)
}

/// Why it is not let in: in plain text, or over TLS alone where there are authorities for it.
async fn refused(url: &str, tls_roots: Option<&Path>) -> BatchFailure {
    let mut options = options(url);
    options.tls = match tls_roots {
        Some(_) => Tls::Always,
        None => Tls::Never,
    };
    options.tls_roots = tls_roots.map(Path::to_owned);
    let db = UserDb::new(options).unwrap();
    one(&db, "alice").await.unwrap_err()
}

/// Where TLS is asked for, a server without it hears no word.
#[test]
fn without_tls_nothing_is_said_in_plain_text() {
    let greeting: &'static [u8] = framed(0, &greeting()).leak();
    let folder = crate::support::Folder::new("signet-scripted");
    let authority = crate::support::Authority::new(&folder, "scripted");
    let roots = Some(authority.roots.as_path());
    run(async {
        let (port, heard) = listener(greeting, b"");
        let url = format!("mysql://signet@127.0.0.1:{port}/sip");
        let why = refused(&url, roots).await;
        assert!(
            matches!(&why, BatchFailure::Unreachable(why) if why.contains("no TLS")),
            "{why:?}"
        );
        assert_eq!(heard.recv().unwrap(), b"");

        let (port, heard) = listener(b"", b"N");
        let url = format!("postgresql://signet@127.0.0.1:{port}/sip");
        let why = refused(&url, roots).await;
        assert!(
            matches!(&why, BatchFailure::Unreachable(why) if why.contains("no TLS")),
            "{why:?}"
        );
        // The request for TLS, which has no secret in it.
        assert_eq!(heard.recv().unwrap(), [0, 0, 0, 8, 4, 210, 22, 47]);
    });
}

/// What PostgreSQL says to who logs in and may not.
fn postgresql_error(code: &str) -> &'static [u8] {
    let fields = format!("SFATAL\0VFATAL\0C{code}\0Mno\0\0");
    let length = u32::try_from(fields.len() + 4).unwrap().to_be_bytes();
    [b"E".as_slice(), &length, fields.as_bytes()]
        .concat()
        .leak()
}

#[test]
fn a_store_that_refuses_our_log_in_is_told_from_one_that_has_no_room() {
    let nothing: &'static [u8] = b"";
    let hello: &'static [u8] = framed(0, &greeting()).leak();
    let full: &'static [u8] = framed(0, b"\xff\x10\x04Too many connections").leak();
    let not_here: &'static [u8] = framed(0, b"\xff\x6a\x04Host is not allowed").leak();
    let denied: &'static [u8] = framed(2, b"\xff\x15\x04#28000Access denied").leak();
    run(async {
        for (scheme, greeting, answer, is_there) in [
            ("mysql", full, nothing, false),
            ("mysql", not_here, nothing, true),
            ("mysql", hello, denied, true),
            ("postgresql", nothing, postgresql_error("53300"), false),
            ("postgresql", nothing, postgresql_error("28P01"), true),
            ("postgresql", nothing, postgresql_error("28000"), true),
            ("postgresql", nothing, postgresql_error("3D000"), true),
        ] {
            let (port, _heard) = listener(greeting, answer);
            let url = format!("{scheme}://signet@127.0.0.1:{port}/sip");
            let why = refused(&url, None).await;
            assert_eq!(
                matches!(why, BatchFailure::LogInRefused(_)),
                is_there,
                "{scheme}: {why:?}"
            );
            assert_eq!(
                matches!(why, BatchFailure::Unreachable(_)),
                !is_there,
                "{scheme}: {why:?}"
            );
        }
    });
}

#[test]
fn a_stranger_at_the_stores_address_is_no_store() {
    let speech: &'static [u8] = b"SSH-2.0-OpenSSH_9.2\r\n";
    run(async {
        for scheme in ["mysql", "postgresql"] {
            let (port, _heard) = listener(speech, speech);
            let url = format!("{scheme}://signet@127.0.0.1:{port}/sip");
            let why = refused(&url, None).await;
            assert!(matches!(
                why,
                BatchFailure::Unreachable(_) | BatchFailure::LogInRefused(_)
            ));
        }
    });
}

#[test]
fn a_store_that_says_nothing_is_not_waited_for() {
    run(async {
        for scheme in ["mysql", "postgresql"] {
            let (port, _heard) = listener(b"", b"");
            let mut options = options(&format!("{scheme}://signet@127.0.0.1:{port}/sip"));
            options.connect_timeout_ms = 200;
            let db = UserDb::new(options).unwrap();
            unreachable(one(&db, "alice").await);
            let port = crate::support::free_port();
            let options = self::options(&format!("{scheme}://signet@127.0.0.1:{port}/sip"));
            unreachable(one(&UserDb::new(options).unwrap(), "alice").await);
        }
    });
}
