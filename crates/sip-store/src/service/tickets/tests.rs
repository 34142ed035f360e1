use std::sync::mpsc::{channel, sync_channel};

use rusqlite::Connection;
use zeroize::Zeroizing;

use super::*;
use crate::Database;
use crate::testing::Folder;

const NOW: u64 = 1_800_000_000;
const PATIENCE: Duration = Duration::from_secs(60);
const CONFIG: TicketServiceConfig = TicketServiceConfig {
    poll_ms: 20,
    age_max_s: 1_000,
    old_good_for_s: 100,
};

fn fresh(byte: u8) -> Option<TicketSecretRow> {
    Some(TicketSecretRow {
        id: format!("{byte}"),
        secret: Zeroizing::new([byte; 32]),
        created_unix_s: NOW,
        not_after_unix_s: None,
    })
}

#[test]
fn a_database_that_is_locked_is_tried_again() {
    let folder = Folder::new();
    drop(folder.open());
    // Another program holds it for writing.
    let holder = Connection::open(folder.file()).expect("opens");
    holder.execute_batch("BEGIN IMMEDIATE").expect("locked");
    let (order, orders) = sync_channel(1);
    let (tell, told) = channel();
    std::thread::scope(|scope| {
        let (folder, counters) = (&folder, TicketServiceCounters::default());
        scope.spawn(move || {
            let open = || Database::open_existing(&folder.file());
            let deliver = |result: Result<Vec<TicketSecretRow>, StoreError>| {
                let _ = tell.send(result);
            };
            serve_ticket_secrets(
                open,
                &orders,
                &CONFIG,
                &counters,
                || NOW,
                || fresh(1),
                deliver,
            );
        });
        let error = told
            .recv_timeout(PATIENCE)
            .expect("told")
            .expect_err("locked");
        assert_eq!(error.kind(), StoreErrorKind::Busy, "{error}");
        holder.execute_batch("COMMIT").expect("free");
        let rows = loop {
            if let Ok(rows) = told.recv_timeout(PATIENCE).expect("told") {
                break rows;
            }
        };
        assert_eq!(rows.len(), 1);
        drop(order);
    });
}

#[test]
fn a_store_that_is_away_is_told_and_found_again() {
    let folder = Folder::new();
    drop(folder.open());
    let away = folder.path().join("away.db");
    std::fs::rename(folder.file(), &away).expect("moved");
    let (order, orders) = sync_channel(1);
    let (tell, told) = channel();
    std::thread::scope(|scope| {
        let (folder, counters) = (&folder, TicketServiceCounters::default());
        scope.spawn(move || {
            let open = || Database::open_existing(&folder.file());
            let deliver = |result: Result<Vec<TicketSecretRow>, StoreError>| {
                let _ = tell.send(result);
            };
            serve_ticket_secrets(
                open,
                &orders,
                &CONFIG,
                &counters,
                || NOW,
                || fresh(1),
                deliver,
            );
        });
        let error = told
            .recv_timeout(PATIENCE)
            .expect("told")
            .expect_err("away");
        assert!(error.to_string().contains("signet.db"), "{error}");
        // It is not made anew: another one would split the nodes.
        assert!(!folder.file().exists());
        std::fs::rename(&away, folder.file()).expect("back");
        while told.recv_timeout(PATIENCE).expect("told").is_err() {}
        drop(order);
    });
}

#[test]
fn the_newest_is_renewed_by_its_age_and_read_by_the_others() {
    let folder = Folder::new();
    let (mut one, mut two) = (folder.open(), folder.open());
    let counters = TicketServiceCounters::default();
    let first = read_ticket_secrets(&mut one, &CONFIG, &counters, NOW, || fresh(1)).expect("read");
    let same = read_ticket_secrets(&mut two, &CONFIG, &counters, NOW, || fresh(2)).expect("read");
    assert_eq!(first, same);
    let later = NOW + CONFIG.age_max_s;
    let new = || {
        fresh(3).map(|fresh| TicketSecretRow {
            created_unix_s: later,
            ..fresh
        })
    };
    let both = read_ticket_secrets(&mut two, &CONFIG, &counters, later, new).expect("read");
    let ids: Vec<_> = both.iter().map(|row| row.id.as_str()).collect();
    assert_eq!(ids, ["3", "1"]);
    assert_eq!(
        both[1].not_after_unix_s,
        Some(later + CONFIG.old_good_for_s)
    );
    let seen = read_ticket_secrets(&mut one, &CONFIG, &counters, later, || None).expect("read");
    assert_eq!(seen, both);
    assert_eq!(counters.renewals.load(Ordering::Relaxed), 2);
    // Without randomness there is none, and that is said.
    let much_later = later + CONFIG.age_max_s;
    assert!(read_ticket_secrets(&mut one, &CONFIG, &counters, much_later, || None).is_err());
}

#[test]
fn a_secret_of_a_clock_that_was_ahead_is_followed_and_ends() {
    let folder = Folder::new();
    let (mut one, mut two) = (folder.open(), folder.open());
    let counters = TicketServiceCounters::default();
    let ahead = NOW + 365 * 86_400;
    let of_ahead = || {
        fresh(1).map(|fresh| TicketSecretRow {
            created_unix_s: ahead,
            ..fresh
        })
    };
    read_ticket_secrets(&mut one, &CONFIG, &counters, ahead, of_ahead).expect("read");
    // The clock is right again.
    let both = read_ticket_secrets(&mut one, &CONFIG, &counters, NOW, || fresh(2)).expect("read");
    let ids = |rows: &[TicketSecretRow]| -> Vec<String> {
        rows.iter().map(|row| row.id.clone()).collect()
    };
    assert_eq!(ids(&both), ["2", "1"]);
    let end = NOW + CONFIG.old_good_for_s;
    assert_eq!(both[0].not_after_unix_s, None);
    assert_eq!(both[1].not_after_unix_s, Some(end));
    // Both nodes go by the new one, and none is made again while the other still opens tickets.
    for database in [&mut one, &mut two] {
        let seen = read_ticket_secrets(database, &CONFIG, &counters, end - 1, || None);
        assert_eq!(seen.expect("read"), both);
    }
    assert_eq!(counters.renewals.load(Ordering::Relaxed), 2);
    let seen = read_ticket_secrets(&mut two, &CONFIG, &counters, end, || None).expect("read");
    assert_eq!(ids(&seen), ["2"]);
    // It ends as any other.
    let later = NOW + CONFIG.age_max_s;
    let new = || {
        fresh(3).map(|fresh| TicketSecretRow {
            created_unix_s: later,
            ..fresh
        })
    };
    let next = read_ticket_secrets(&mut two, &CONFIG, &counters, later, new).expect("read");
    assert_eq!(ids(&next), ["3", "2"]);
}
