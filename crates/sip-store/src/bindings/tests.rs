use proptest::prelude::*;
use sip_msg::{ConnId, Flow, ListenerId, Transport};

use super::*;
use crate::StoreErrorKind;
use crate::testing::{Folder, binding, put, remove};

fn loaded(store: &mut Bindings, unix_ms: u64) -> Vec<BindingChange> {
    let mut all = Vec::new();
    let count = store
        .load(unix_ms, &mut |change| all.push(change))
        .expect("read");
    assert_eq!(count, all.len() as u64);
    all
}

fn full() -> Binding {
    Binding {
        instance: Some(b"<urn:uuid:00000000-0000-1000-8000-000A95A0E128>"[..].into()),
        reg_id: Some(u32::MAX),
        path: b"<sip:p1.example.com;lr>,<sip:p2.example.com;lr>"[..].into(),
        flow: Some(Flow {
            transport: Transport::Udp,
            listener: ListenerId(1),
            local: "192.0.2.1:5060".parse().expect("an address"),
            remote: "192.0.2.9:40001".parse().expect("an address"),
            conn: ConnId::NONE,
        }),
        user_agent: b"phone \"1\""[..].into(),
        node: "node-1".into(),
        since_unix_ms: 1_600_000_000_007,
        source: Some((
            Transport::Tls,
            "[2001:db8::7]:40000".parse().expect("an address"),
        )),
        is_translated: true,
        had_flow: true,
        ..binding(u32::MAX, u64::MAX >> 1)
    }
}

#[test]
fn every_field_comes_back_after_a_restart() {
    let folder = Folder::new();
    let changes = [
        put("sip:alice@example.org", "k1", full()),
        put("sip:bob@example.org", "k2", binding(1, 10)),
    ];
    folder
        .open()
        .bindings()
        .expect("opens")
        .save(&mut changes.iter())
        .expect("saved");
    assert_eq!(
        loaded(&mut folder.open().bindings().expect("opens"), 0),
        changes
    );
}

#[test]
fn a_connections_flow_ends_with_the_process_and_that_there_was_one_is_known() {
    let folder = Folder::new();
    let mut store = folder.open().bindings().expect("opens");
    let mut over_tcp = full();
    if let Some(flow) = &mut over_tcp.flow {
        (flow.transport, flow.conn) = (Transport::Tcp, ConnId(7));
    }
    store
        .save(&mut [put("a", "k", over_tcp)].iter())
        .expect("saved");
    assert_eq!(
        loaded(&mut store, 0),
        [put(
            "a",
            "k",
            Binding {
                flow: None,
                is_translated: false,
                had_flow: true,
                ..full()
            }
        )]
    );
}

#[test]
fn the_last_change_to_a_contact_wins() {
    let folder = Folder::new();
    let mut store = folder.open().bindings().expect("opens");
    let changes = [
        put("a", "k1", binding(1, 100)),
        put("a", "k2", binding(2, 100)),
        put("a", "k1", binding(3, 200)),
        remove("a", "k2"),
        remove("b", "never there"),
    ];
    store.save(&mut changes.iter()).expect("saved");
    assert_eq!(loaded(&mut store, 0), [put("a", "k1", binding(3, 200))]);
}

#[test]
fn a_full_disk_loses_nothing_that_was_acknowledged() {
    let folder = Folder::new();
    let mut store = folder.open().bindings().expect("opens");
    store
        .save(&mut [put("a", "k", binding(1, 100))].iter())
        .expect("saved");
    let connection = &store.database().connection;
    let pages: i64 = connection
        .pragma_query_value(None, "page_count", |row| row.get(0))
        .expect("read");
    let _: i64 = connection
        .query_row(
            &format!("PRAGMA max_page_count = {}", pages + 2),
            (),
            |row| row.get(0),
        )
        .expect("set");
    let many: Vec<_> = (0..1_000)
        .map(|n| put(&format!("aor{n}"), "k", binding(2, 100)))
        .collect();
    let mut group = vec![put("a", "k", binding(2, 100))];
    group.extend(many);
    assert_eq!(
        store.save(&mut group.iter()).expect_err("no room").kind(),
        StoreErrorKind::Full
    );
    // All or nothing: not even the first of them is there, and what was is.
    assert_eq!(loaded(&mut store, 0), [put("a", "k", binding(1, 100))]);
    // Changes that need no room go on, and so does everything once there is some.
    store
        .save(&mut [put("a", "k", binding(3, 100))].iter())
        .expect("saved");
    let _: i64 = store
        .database()
        .connection
        .query_row("PRAGMA max_page_count = 1000000", (), |row| row.get(0))
        .expect("set");
    store.save(&mut group.iter()).expect("saved");
    assert_eq!(loaded(&mut store, 0).len(), 1_001);
}

#[test]
fn a_locked_database_is_busy_and_recovers() {
    let folder = Folder::new();
    let mut store = folder.open().bindings().expect("opens");
    store
        .database()
        .connection
        .busy_timeout(std::time::Duration::ZERO)
        .expect("set");
    let other = folder.open();
    other
        .connection
        .execute_batch("BEGIN IMMEDIATE")
        .expect("locked");
    let change = [put("a", "k", binding(1, 100))];
    assert_eq!(
        store.save(&mut change.iter()).expect_err("locked").kind(),
        StoreErrorKind::Busy
    );
    assert_eq!(loaded(&mut store, 0), [], "readers do not wait");
    other.connection.execute_batch("ROLLBACK").expect("let go");
    store.save(&mut change.iter()).expect("saved");
}

#[test]
fn expired_rows_go_a_few_at_a_time() {
    let folder = Folder::new();
    let mut store = folder.open().bindings().expect("opens");
    let rows: Vec<_> = (0..100)
        .map(|n| {
            put(
                &format!("aor{:02}", n / 2),
                &format!("k{n}"),
                binding(n, 1_000 + u64::from(n % 4)),
            )
        })
        .collect();
    store.save(&mut rows.iter()).expect("saved");
    let mut sweeps = 0;
    let mut deleted = 0;
    loop {
        let swept = store.delete_expired(1_001, 10).expect("swept");
        assert!(swept.deleted <= 10);
        deleted += swept.deleted;
        sweeps += 1;
        assert!(sweeps < 100);
        if swept.is_round {
            break;
        }
    }
    assert_eq!((deleted, sweeps), (50, 11));
    assert!(loaded(&mut store, 0).iter().all(|change| matches!(change, BindingChange::Put { binding, .. } if binding.expires_unix_ms > 1_001)));
    // It begins again at the first row.
    assert_eq!(
        store.delete_expired(u64::MAX, 20).expect("swept"),
        Swept {
            deleted: 20,
            is_round: false
        }
    );
}

#[test]
fn what_has_expired_is_not_loaded() {
    let folder = Folder::new();
    let mut store = folder.open().bindings().expect("opens");
    store
        .save(
            &mut [
                put("a", "k1", binding(1, 100)),
                put("a", "k2", binding(1, 101)),
            ]
            .iter(),
        )
        .expect("saved");
    assert_eq!(loaded(&mut store, 100), [put("a", "k2", binding(1, 101))]);
    assert_eq!(loaded(&mut store, u64::MAX), []);
}

#[test]
fn a_row_that_cannot_be_read_holds_up_no_other() {
    for damage in [
        "q = 'x'",
        "q = 65536",
        "expires_unix_ms = 'x'",
        "cseq = -1",
        "reg_id = x'00'",
        "since_unix_ms = 'x'",
    ] {
        let folder = Folder::new();
        let mut store = folder.open().bindings().expect("opens");
        let both = [
            put("sip:a@h", "k", binding(1, 100)),
            put("sip:b@h", "k", binding(1, 100)),
        ];
        store.save(&mut both.iter()).expect("saved");
        let damaged = format!("UPDATE bindings SET {damage} WHERE aor = 'sip:a@h'");
        let connection = &store.database().connection;
        assert_eq!(connection.execute(&damaged, ()).expect("damaged"), 1);
        assert_eq!(loaded(&mut store, 0), both[1..], "{damage}");
        let swept = store.delete_expired(100, 9).expect("swept");
        assert!(swept.is_round && swept.deleted >= 1, "{damage}");
        // It is whole again with the next registration.
        store.save(&mut both.iter()).expect("saved");
        assert_eq!(loaded(&mut store, 0), both, "{damage}");
    }
}

#[test]
fn a_table_that_cannot_be_read_is_an_error() {
    let folder = Folder::new();
    let mut store = folder.open().bindings().expect("opens");
    let connection = &store.database().connection;
    let dropped = connection.execute("DROP TABLE bindings", ());
    dropped.expect("dropped");
    assert!(store.load(0, &mut |_| ()).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    /// Phones choose the bytes: none of them is text, necessarily.
    #[test]
    fn any_bytes_come_back(
        parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 7),
        numbers in (any::<u16>(), 1u64..=i64::MAX as u64, any::<u32>(), any::<Option<u32>>()),
        node in "[a-z]{0,8}",
        has_instance in any::<bool>(),
    ) {
        let folder = Folder::new();
        let mut store = folder.open().bindings().expect("opens");
        let part = |at: usize| parts[at].clone();
        let change = BindingChange::Put {
            aor: part(0).into(),
            key: part(1).into(),
            binding: Arc::new(Binding {
                uri: part(2).into(),
                q: numbers.0,
                expires_unix_ms: numbers.1,
                call_id: part(3).into(),
                cseq: numbers.2,
                instance: has_instance.then(|| part(4).into()),
                reg_id: numbers.3,
                path: part(5).into(),
                flow: None,
                user_agent: part(6).into(),
                node: node.into(),
                since_unix_ms: 0,
                source: None,
                is_translated: false,
                had_flow: false,
            }),
        };
        store.save(&mut [change.clone()].iter()).expect("saved");
        prop_assert_eq!(loaded(&mut store, 0), [change]);
    }
}
