//! A PostgreSQL server that answers one question twice, or refuses some.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use sip_auth::Algorithm;
use sip_lookup::BatchFailure;
use sip_userdb::{Options, UserDb};

use super::{one, options, unreachable};
use crate::support::run;
use crate::support::suite::{REALM, assert_is, hex};

/// A message of PostgreSQL's server.
fn backend(kind: u8, content: &[&[u8]]) -> Vec<u8> {
    let content = content.concat();
    let length = u32::try_from(content.len() + 4).unwrap().to_be_bytes();
    [&[kind][..], &length, &content].concat()
}

/// A message of its client's: its kind, and what is in it.
fn frontend(stream: &mut TcpStream) -> io::Result<(u8, Vec<u8>)> {
    let mut kind = [0];
    stream.read_exact(&mut kind)?;
    Ok((kind[0], frontend_content(stream)?))
}

fn frontend_content(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut content = vec![0; u32::from_be_bytes(length) as usize - 4];
    stream.read_exact(&mut content)?;
    Ok(content)
}

/// What is wrong with a server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mad {
    /// Nothing.
    No,
    /// It answers the second question twice, once the third has come, and the third one with the
    /// fourth, after a while.
    SaysTwice,
    /// It says that it is ready for another before it answers the second question.
    IsReadyTooSoon,
}

/// A PostgreSQL server on one connection that has some users. What has in its text what `refuses`
/// says is refused.
fn postgresql(mut stream: TcpStream, mad: Mad, refuses: impl Fn(&str) -> bool) -> io::Result<()> {
    const TEXT: [u8; 4] = 25_u32.to_be_bytes();
    const TEXTS: [u8; 4] = 1_009_u32.to_be_bytes();
    let ready = backend(b'Z', &[b"I"]);
    frontend_content(&mut stream)?;
    stream.write_all(&[backend(b'R', &[&[0; 4]]), ready.clone()].concat())?;
    let mut held = Vec::new();
    let (mut answer, mut questions, mut is_refused) = (Vec::new(), 0, false);
    loop {
        let (kind, content) = frontend(&mut stream)?;
        match kind {
            b'P' => answer.extend(backend(b'1', &[])),
            b'D' => {
                let places = [&[0, 2][..], &TEXTS, &TEXTS].concat();
                answer.extend(backend(b't', &[&places]));
                let mut columns = vec![0, 3];
                for name in ["username", "domain", "ha1"] {
                    columns.extend([name.as_bytes(), &[0; 7], &TEXT, &[0xff; 6], &[0; 2]].concat());
                }
                answer.extend(backend(b'T', &[&columns]));
            }
            b'B' => {
                questions += 1;
                let text = String::from_utf8_lossy(&content).into_owned();
                is_refused = refuses(&text);
                if is_refused {
                    // 42P01: there is no such table.
                    let why = b"SERROR\0VERROR\0C42P01\0Mno\0\0";
                    answer.extend(backend(b'E', &[why]));
                    continue;
                }
                answer.extend(backend(b'2', &[]));
                let mut users = ["alice", "carol"].into_iter();
                if let Some(user) = users.find(|user| text.contains(user)) {
                    let mut row = vec![0, 3];
                    for value in [user, REALM, &hex(user, Algorithm::Md5)] {
                        row.extend(u32::try_from(value.len()).unwrap().to_be_bytes());
                        row.extend(value.as_bytes());
                    }
                    answer.extend(backend(b'D', &[&row]));
                }
            }
            // After a refusal all else is skipped, until the end of the question.
            b'E' if is_refused => {}
            b'E' => answer.extend(backend(b'C', &[b"SELECT 1\0"])),
            b'S' => {
                answer.extend(&ready);
                let before = std::mem::take(&mut held);
                let whole = std::mem::take(&mut answer);
                match questions {
                    2 if mad == Mad::SaysTwice => held = whole,
                    2 if mad == Mad::IsReadyTooSoon => {
                        stream.write_all(&[ready.clone(), whole].concat())?;
                    }
                    3 if mad == Mad::SaysTwice => {
                        stream.write_all(&before.repeat(2))?;
                        held = whole;
                    }
                    4 if mad == Mad::SaysTwice => {
                        std::thread::sleep(Duration::from_millis(200));
                        stream.write_all(&[before, whole].concat())?;
                    }
                    _ => stream.write_all(&whole)?,
                }
            }
            _ => return Ok(()),
        }
    }
}

/// A server for one connection that refuses questions by what is in them.
pub(super) fn postgresql_by(refuses: impl Fn(&str) -> bool + Send + 'static) -> Options {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let _ = postgresql(stream, Mad::No, refuses);
    });
    options(&format!("postgresql://signet@127.0.0.1:{port}/sip"))
}

/// A database whose server is mad on the first connection and well on the second.
fn mad_at_first(mad: Mad) -> UserDb {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mad in [mad, Mad::No] {
            let (stream, _) = listener.accept().unwrap();
            std::thread::spawn(move || postgresql(stream, mad, |_| false));
        }
    });
    UserDb::new(options(&format!(
        "postgresql://signet@127.0.0.1:{port}/sip"
    )))
    .unwrap()
}

/// As with MySQL: whoever gets another's answer is not told that he does not exist, and who waits
/// behind him is not either.
#[test]
fn what_postgresql_says_twice_while_others_wait_ends_the_connection() {
    let db = mad_at_first(Mad::SaysTwice);
    run(async {
        assert_is(&db, &one(&db, "carol").await.unwrap(), "carol");
        let (alice, nobody, carol) =
            tokio::join!(one(&db, "alice"), one(&db, "nobody"), one(&db, "carol"));
        assert_is(&db, &alice.unwrap(), "alice");
        // Of alice he would be told, and carol that there is no such user.
        unreachable(nobody);
        unreachable(carol);
        assert_is(&db, &one(&db, "carol").await.unwrap(), "carol");
    });
}

/// What it says then is the answer to the next question but one, to which the next is none: nobody is
/// told that he does not exist for that.
#[test]
fn a_postgresql_that_is_ready_before_it_has_answered_is_left() {
    let db = mad_at_first(Mad::IsReadyTooSoon);
    run(async {
        assert_is(&db, &one(&db, "carol").await.unwrap(), "carol");
        unreachable(one(&db, "nobody").await);
        assert_is(&db, &one(&db, "alice").await.unwrap(), "alice");
    });
}

/// Whoever can answer in the server's place would only have to ask.
#[test]
fn the_password_itself_is_not_sent_to_a_postgresql_where_others_can_read_it() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        frontend_content(&mut stream).unwrap();
        let wants_it = backend(b'R', &[&[0, 0, 0, 3]]);
        // In two parts, the second of which is late.
        let (begin, end) = wants_it.split_at(7);
        stream.write_all(begin).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        stream.write_all(end).unwrap();
        let mut said = Vec::new();
        let _ = stream.read_to_end(&mut said);
        said
    });
    let db = UserDb::new(options(&format!(
        "postgresql://signet@127.0.0.1:{port}/sip"
    )))
    .unwrap();
    run(async {
        let refused = one(&db, "alice").await.unwrap_err();
        let BatchFailure::LogInRefused(why) = &refused else {
            panic!("{refused:?}");
        };
        assert!(why.contains("the password itself"), "{why}");
    });
    assert_eq!(server.join().unwrap(), b"");
}
