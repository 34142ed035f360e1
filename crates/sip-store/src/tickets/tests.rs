use super::*;
use crate::testing::Folder;

const NOW: u64 = 1_800_000_000;

fn fresh(byte: u8, now: u64) -> TicketSecretRow {
    TicketSecretRow {
        id: format!("{byte:02x}"),
        secret: Zeroizing::new([byte; SECRET_BYTES]),
        created_unix_s: now,
        not_after_unix_s: None,
    }
}

fn renew(database: &mut Database, byte: u8, now: u64, age: u64, good_for: u64) -> bool {
    let when = Renewal {
        age_min_s: age,
        old_good_for_s: good_for,
    };
    database
        .renew_ticket_secret(&fresh(byte, now), when)
        .expect("written")
}

fn ids(database: &mut Database, now: u64) -> Vec<String> {
    let rows = database.ticket_secrets(now).expect("read");
    rows.into_iter().map(|row| row.id).collect()
}

#[test]
fn the_first_node_makes_one_and_the_others_find_it() {
    let folder = Folder::new();
    let (mut one, mut two) = (folder.open(), folder.open());
    assert!(ids(&mut one, NOW).is_empty());
    assert!(renew(&mut one, 1, NOW, 100, 50));
    assert!(!renew(&mut two, 2, NOW, 100, 50));
    assert!(!renew(&mut two, 2, NOW + 99, 100, 50));
    assert_eq!(two.ticket_secrets(NOW).expect("read"), [fresh(1, NOW)]);
    // A clock that is behind by less than that finds it young, not due.
    assert!(!renew(&mut two, 2, NOW - 100, 100, 50));
    assert!(renew(&mut two, 2, NOW - 101, 100, 50));
}

#[test]
fn one_of_many_renews_and_the_old_one_ends() {
    let folder = Folder::new();
    assert!(renew(&mut folder.open(), 1, NOW, 100, 50));
    let renewed = std::thread::scope(|scope| {
        let folder = &folder;
        let all: Vec<_> = (2..8)
            .map(|byte| scope.spawn(move || renew(&mut folder.open(), byte, NOW + 100, 100, 50)))
            .collect();
        all.into_iter()
            .map(|thread| usize::from(thread.join().expect("renews")))
            .sum::<usize>()
    });
    assert_eq!(renewed, 1);
    let mut database = folder.open();
    let both = ids(&mut database, NOW + 149);
    assert_eq!((both.len(), both[1].as_str()), (2, "01"));
    assert_eq!(ids(&mut database, NOW + 150), both[..1]);
}

#[test]
fn what_is_forgotten_is_gone_from_the_files() {
    let folder = Folder::new();
    let mut database = folder.open();
    assert!(renew(&mut database, 0xa7, NOW, 0, 50));
    assert!(renew(&mut database, 0xb8, NOW + 1, 0, 0));
    assert_eq!(ids(&mut database, NOW + 1), ["b8"]);
    let mut seen = false;
    for entry in folder.path().read_dir().expect("a folder") {
        let bytes = std::fs::read(entry.expect("a file").path()).expect("read");
        assert!(!bytes.windows(32).any(|window| window == [0xa7; 32]));
        seen |= bytes.windows(32).any(|window| window == [0xb8; 32]);
    }
    assert!(seen, "the one that serves is in a file");
}

#[test]
fn the_number_of_secrets_is_bounded_and_none_is_shown() {
    let folder = Folder::new();
    let mut database = folder.open();
    for byte in 0..20 {
        assert!(renew(&mut database, byte, NOW + u64::from(byte), 0, 1_000));
    }
    let rows = database.ticket_secrets(NOW + 20).expect("read");
    assert_eq!(rows.len(), SECRETS_MAX as usize);
    assert_eq!(rows[0].id, "13");
    let shown = format!("{rows:?}");
    assert!(!shown.contains("19, 19"), "{shown}");
}

#[test]
fn a_spoilt_secret_is_told_with_the_remedy() {
    let folder = Folder::new();
    let mut database = folder.open();
    database
        .connection
        .execute(
            "INSERT INTO ticket_secrets VALUES ('x', 'short', 0, NULL)",
            (),
        )
        .expect("written");
    let error = database.ticket_secrets(NOW).expect_err("spoilt");
    assert!(error.to_string().contains("rotate-secret"), "{error}");
}
