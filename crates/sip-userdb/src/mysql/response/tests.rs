#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use super::super::wire::put_string;
use super::*;

const VAR_STRING: u8 = 253;
const BIGINT: u8 = 8;

fn described(name: &str, kind: u8) -> Vec<u8> {
    let mut packet = Vec::new();
    for text in ["def", "signet", "u", "signet_users", name, name] {
        put_string(text.as_bytes(), &mut packet);
    }
    packet.push(12);
    let charset: u16 = if name == "ha1" { BINARY } else { 45 };
    packet.extend(charset.to_le_bytes());
    packet.extend(1_020_u32.to_le_bytes());
    packet.push(kind);
    packet.extend([0; 5]);
    packet
}

fn row(values: &[Option<&[u8]>]) -> Vec<u8> {
    let mut nulls = vec![0; (values.len() + 9) / 8];
    let mut packet = vec![0];
    let mut rest = Vec::new();
    for (at, value) in values.iter().enumerate() {
        match value {
            Some(bytes) => put_string(bytes, &mut rest),
            None => nulls[(at + 2) / 8] |= 1 << ((at + 2) % 8),
        }
    }
    packet.extend(nulls);
    packet.extend(rest);
    packet
}

/// The end of rows, in the manner that was agreed upon.
fn end(deprecates_eof: bool, status: u8) -> Vec<u8> {
    match deprecates_eof {
        true => vec![0xfe, 0, 0, status, 0, 0, 0],
        false => vec![0xfe, 0, 0, status, 0],
    }
}

fn answered(
    asked: Asked,
    deprecates_eof: bool,
    packets: &[Vec<u8>],
) -> Result<Option<Result<Answer, Fault>>, Garbled> {
    let mut response = Response::new(asked, deprecates_eof);
    let (last, before) = packets.split_last().unwrap();
    for packet in before {
        assert_eq!(response.packet(packet)?, None);
    }
    response.packet(last)
}

#[test]
fn rows_come_by_both_manners_of_ending_them() {
    for deprecates_eof in [true, false] {
        let mut packets = vec![
            vec![3],
            described("username", VAR_STRING),
            described("id", BIGINT),
            described("ha1", VAR_STRING),
        ];
        if !deprecates_eof {
            packets.push(end(false, 2));
        }
        let mut alice = row(&[Some(b"alice")]);
        alice.extend([7, 0, 0, 0, 0, 0, 0, 0]);
        put_string(b"digest", &mut alice);
        packets.push(alice);
        packets.push(row(&[Some(b"bob"), None, None]));
        packets.push(end(deprecates_eof, 2));
        let answer = answered(Asked::Execute, deprecates_eof, &packets);
        let Ok(Some(Ok(Answer::Rows(rows)))) = answer else {
            panic!("{answer:?}");
        };
        assert_eq!(
            rows.columns().collect::<Vec<_>>(),
            [
                ("username", Kind::Text),
                ("id", Kind::Other),
                ("ha1", Kind::Bytes)
            ]
        );
        let read: Vec<_> = rows.iter().map(Result::unwrap).collect();
        assert_eq!(rows.len(), 2);
        let id: &[u8] = &[7, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(
            read[0],
            [Some(b"alice".as_slice()), Some(id), Some(b"digest")]
        );
        assert_eq!(read[1], [Some(b"bob".as_slice()), None, None]);
    }
}

#[test]
fn a_statement_is_prepared_when_all_was_described() {
    for (deprecates_eof, extra) in [(true, 0), (false, 2)] {
        let mut packets = vec![vec![0, 9, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0]];
        packets.extend((0..3 + extra).map(|_| described("x", VAR_STRING)));
        let prepared = Prepared {
            id: 9,
            parameters: 2,
        };
        assert_eq!(
            answered(Asked::Prepare, deprecates_eof, &packets),
            Ok(Some(Ok(Answer::Prepared(prepared))))
        );
    }
    let nothing = vec![vec![0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]];
    assert!(answered(Asked::Prepare, true, &nothing).unwrap().is_some());
}

#[test]
fn what_was_touched_is_counted() {
    let touched = answered(Asked::Execute, true, &[vec![0, 2, 0, 2, 0, 0, 0]]);
    assert_eq!(touched, Ok(Some(Ok(Answer::Done(2)))));
}

#[test]
fn a_refusal_ends_an_answer_wherever_it_comes() {
    let refused = b"\xff\x7a\x04#42S02Table 'signet.t' doesn't exist".to_vec();
    let columns = [vec![1], described("username", VAR_STRING)];
    for before in 0..=2 {
        let mut packets = columns[..before].to_vec();
        packets.push(refused.clone());
        let answer = answered(Asked::Execute, true, &packets);
        let Ok(Some(Err(Fault::Refused(text)))) = answer else {
            panic!("{answer:?}");
        };
        assert!(text.contains("1146: Table"), "{text}");
    }
}

#[test]
fn who_is_there_and_cannot_answer_is_away() {
    for said in [
        &b"\xff\x10\x04#08004Too many connections"[..],
        b"\xff\x17\x04#08S01WSREP has not yet prepared node for application use",
    ] {
        let answer = answered(Asked::Execute, true, &[said.to_vec()]);
        assert!(
            matches!(answer, Ok(Some(Err(Fault::Unreachable(_))))),
            "{answer:?}"
        );
    }
}

#[test]
fn what_the_protocol_does_not_have_is_garbled() {
    let column = described("username", VAR_STRING);
    let execute = |packets: &[Vec<u8>]| answered(Asked::Execute, true, packets);
    for packets in [
        vec![vec![]],
        // A file of ours is asked for (LOCAL INFILE).
        vec![b"\xfb/etc/passwd".to_vec()],
        vec![vec![0xfc, 0xff, 0xff]],
        vec![vec![1, 1]],
        vec![vec![1], column[..9].to_vec()],
        vec![vec![1], column.clone(), vec![7]],
        // Another result follows.
        vec![vec![1], column.clone(), end(true, 8)],
        vec![vec![0, 0, 0, 8, 0, 0, 0]],
    ] {
        assert_eq!(execute(&packets), Err(Garbled), "{packets:?}");
    }
    assert_eq!(answered(Asked::Prepare, true, &[vec![1]]), Err(Garbled));
    assert_eq!(answered(Asked::Done, true, &[vec![1]]), Err(Garbled));
}

#[test]
fn rows_that_are_cut_are_garbled() {
    let whole = row(&[Some(b"alice"), None]);
    let rows = |bytes: &[u8]| Rows {
        columns: ["username", "ha1"]
            .map(|name| Column {
                name: name.to_owned(),
                charset: BINARY,
                kind: VAR_STRING,
            })
            .into(),
        bytes: bytes.to_vec(),
        ends: vec![bytes.len()],
    };
    assert!(rows(&whole).iter().all(|row| row.is_ok()));
    for cut in 0..whole.len() {
        assert!(rows(&whole[..cut]).iter().any(|row| row.is_err()), "{cut}");
    }
    let longer = [whole.as_slice(), b"x"].concat();
    assert!(rows(&longer).iter().any(|row| row.is_err()));
}

#[test]
fn an_answer_without_end_is_not_waited_for() {
    let mut response = Response::new(Asked::Execute, true);
    for packet in [vec![1], described("username", VAR_STRING)] {
        assert_eq!(response.packet(&packet), Ok(None));
    }
    let packet = row(&[Some(&[7; 1 << 16])]);
    let ended = (0..ANSWER_MAX >> 15).find_map(|_| response.packet(&packet).unwrap());
    assert!(
        matches!(ended, Some(Err(Fault::Unreachable(_)))),
        "{ended:?}"
    );
}
