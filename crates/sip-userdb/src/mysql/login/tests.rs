#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use super::*;

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len() / 2)
        .map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap())
        .collect()
}

fn account(password: Option<&[u8]>) -> Account {
    Account {
        user: "signet".to_owned(),
        password: password.map(|password| Secret::new(password.to_vec())),
        database: "sip".to_owned(),
    }
}

/// A server computes SHA1(proof xor SHA1(challenge, stored)), with stored =
/// SHA1(SHA1(password)), and compares that with `stored`.
#[test]
fn a_native_proof_is_what_a_server_expects() {
    // SHA1(SHA1("secret")), as MariaDB's PASSWORD('secret') gives it.
    let stored = bytes("14e65567abdb5135d0cfd9a70b3032c179a49ee7");
    let challenge = b"01234567890123456789";
    let sha1 = |parts: &[&[u8]]| hashed(&SHA1_FOR_LEGACY_USE_ONLY, parts);
    let proof = native_proof(b"secret", challenge);
    let once = xor(&proof, &sha1(&[challenge, &stored]));
    assert_eq!(sha1(&[&once]), stored);
    assert!(native_proof(b"", challenge).is_empty());
}

#[test]
fn a_sha2_proof_is_what_a_server_expects() {
    let sha256 = |parts: &[&[u8]]| hashed(&SHA256, parts);
    let stored = sha256(&[&sha256(&[b"secret"])]);
    let challenge = b"01234567890123456789";
    let proof = sha2_proof(b"secret", challenge);
    let once = xor(&proof, &sha256(&[&stored, challenge]));
    assert_eq!(sha256(&[&once]), stored);
    assert!(sha2_proof(b"", challenge).is_empty());
}

fn greeted(plugin: &str) -> Vec<u8> {
    let mut packet = vec![10];
    packet.extend(b"10.11.6-MariaDB\0");
    packet.extend(7_u32.to_le_bytes());
    packet.extend(b"abcdefgh\0");
    packet.extend([0xff, 0xff, 45, 2, 0, 0xff, 0xff, 21]);
    packet.extend([0; 10]);
    packet.extend(b"ijklmnopqrst\0");
    packet.extend(plugin.as_bytes());
    packet.push(0);
    packet
}

#[test]
fn a_greeting_is_read_or_refused_at_any_length() {
    let packet = greeted("mysql_native_password");
    let read = read_greeting(&packet).unwrap();
    assert_eq!(read.challenge, b"abcdefghijklmnopqrst");
    assert_eq!(read.plugin, "mysql_native_password");
    assert_eq!(read.capabilities, 0xffff_ffff);
    let challenge_end = packet.len() - "mysql_native_password\0".len();
    for cut in 0..challenge_end {
        assert!(read_greeting(&packet[..cut]).is_err(), "{cut}");
    }
}

#[test]
fn a_server_that_is_full_may_have_room_later() {
    let full = b"\xff\x10\x04Too many connections";
    assert!(matches!(greeting(full), Err(Fault::Unreachable(text)) if text.contains("1040")));
    for code in [1135_u16, 1203, 1226] {
        let no_room = [b"\xff".as_slice(), &code.to_le_bytes(), b"#42000no room"].concat();
        assert!(matches!(greeting(&no_room), Err(Fault::Unreachable(_))));
    }
    let denied = b"\xff\x15\x04#28000Access denied";
    assert!(matches!(greeting(denied), Err(Fault::Refused(text)) if text.ends_with("denied")));
    assert!(matches!(greeting(b"\xff"), Err(Fault::Refused(_))));
}

fn asked(packets: &[&[u8]], is_private: bool) -> Result<Option<Vec<u8>>, Fault> {
    let account = account(Some(b"hunter2"));
    let mut state = Authenticating {
        account: &account,
        challenge: b"01234567890123456789".to_vec(),
        plugin: "caching_sha2_password".to_owned(),
        is_private,
    };
    let mut sent = None;
    for packet in packets {
        sent = match state.answer(packet)? {
            Step::Send(bytes) => Some(bytes.to_vec()),
            Step::Done | Step::Wait => None,
        };
    }
    Ok(sent)
}

#[test]
fn the_password_itself_is_sent_in_private_only() {
    for long_way in [b"\x01\x04".as_slice(), b"\xfemysql_clear_password\0x\0"] {
        assert_eq!(asked(&[long_way], true), Ok(Some(b"hunter2\0".to_vec())));
        let Err(Fault::Refused(text)) = asked(&[long_way], false) else {
            panic!("sent in plain text");
        };
        assert!(text.contains("TLS") && !text.contains("hunter2"), "{text}");
    }
    assert_eq!(asked(&[b"\x01\x03", b"\0\0\0\x02\0\0\0"], false), Ok(None));
}

#[test]
fn another_proof_is_given_when_asked_for() {
    let switch = b"\xfemysql_native_password\0abcdefghijklmnopqrst\0";
    let sent = asked(&[switch], false).unwrap();
    assert_eq!(
        sent,
        Some(native_proof(b"hunter2", b"abcdefghijklmnopqrst"))
    );
    let unknown = b"\xfeclient_ed25519\0abc\0";
    assert!(matches!(asked(&[unknown], true),
        Err(Fault::Refused(text)) if text.contains("client_ed25519")));
    for garbage in [b"".as_slice(), b"\x01", b"\x01\x07", b"\x42"] {
        assert!(asked(&[garbage], true).is_err());
    }
}

#[test]
fn what_a_server_cancels_is_no_refusal_of_the_statement() {
    let said = |code: u16| {
        let [low, high] = code.to_le_bytes();
        refusal(&[&[0xff, low, high], &b"#HY000it says so"[..]].concat())
    };
    // Lock wait, deadlock, interrupted, and out of time as MariaDB and MySQL say it.
    for code in [1205, 1213, 1317, 1969, 3024] {
        assert!(matches!(said(code), Fault::Cancelled(why) if why.contains("it says so")));
    }
    // No such table, and a syntax that it does not know.
    for code in [1146, 1064] {
        assert!(matches!(said(code), Fault::Refused(_)));
    }
}
