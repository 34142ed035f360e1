use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::testing::Folder;

fn refused(path: &Path) -> StoreError {
    match Database::open(path) {
        Ok(_) => panic!("opened"),
        Err(error) => error,
    }
}

#[test]
fn every_file_is_its_owners_alone() {
    let folder = Folder::new();
    let database = folder.open();
    database
        .connection
        .execute("INSERT INTO domains VALUES ('example.org', 0)", ())
        .expect("written");
    let mut seen = 0;
    for entry in folder.path().read_dir().expect("a folder") {
        let meta = entry.and_then(|e| e.metadata()).expect("a file");
        assert_eq!(meta.mode() & 0o777, 0o600);
        seen += 1;
    }
    assert_eq!(seen, 3, "the database, its log and the log's index");
}

#[test]
fn a_file_that_others_can_read_is_refused() {
    let folder = Folder::new();
    drop(folder.open());
    std::fs::set_permissions(folder.file(), std::fs::Permissions::from_mode(0o640)).expect("set");
    let error = refused(&folder.file());
    assert_eq!(error.kind(), StoreErrorKind::Permissions);
    assert!(error.to_string().contains("chmod 600"), "{error}");
}

#[test]
fn every_commit_reaches_the_disk() {
    let folder = Folder::new();
    let database = folder.open();
    let read = |pragma: &str| -> String {
        let value = database
            .connection
            .pragma_query_value(None, pragma, |row| row.get::<_, rusqlite::types::Value>(0));
        format!("{:?}", value.expect("known"))
    };
    assert_eq!(read("journal_mode"), "Text(\"wal\")");
    assert_eq!(read("synchronous"), "Integer(2)", "FULL");
}

#[test]
fn opened_again_it_is_the_same() {
    let folder = Folder::new();
    assert!(folder.open().add_domain("example.org", 1).expect("added"));
    assert_eq!(folder.open().domains().expect("read"), ["example.org"]);
}

#[test]
fn two_may_make_it_at_once() {
    for _ in 0..20 {
        let folder = Folder::new();
        std::thread::scope(|scope| {
            let both: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| drop(folder.open())))
                .collect();
            both.into_iter()
                .for_each(|thread| thread.join().expect("opened"));
        });
        assert_eq!(folder.open().user_count().expect("read"), 0);
    }
}

#[test]
fn a_newer_schema_is_left_alone() {
    let folder = Folder::new();
    folder
        .open()
        .connection
        .pragma_update(None, "user_version", 1_000)
        .expect("set");
    let error = refused(&folder.file());
    assert_eq!(error.kind(), StoreErrorKind::Newer);
    assert!(error.to_string().contains("schema 1000"), "{error}");
}

/// A file as a version before wrote it, and its schema.
fn older(folder: &Folder) -> usize {
    let schema = MIGRATIONS.len() - 1;
    let path = folder.file();
    let _ = Database::prepare_file(&path);
    let connection = Connection::open(&path).expect("opens");
    for step in &MIGRATIONS[..schema] {
        connection.execute_batch(step).expect("made");
    }
    let set = |pragma, value| connection.pragma_update(None, pragma, value);
    set("application_id", APPLICATION_ID).expect("set");
    set("user_version", i32::try_from(schema).expect("few")).expect("set");
    schema
}

#[test]
fn an_older_schema_stays_where_that_is_asked_for() {
    let folder = Folder::new();
    let schema = older(&folder);
    let found = || {
        let connection = Connection::open(folder.file()).expect("opens");
        let version = connection.pragma_query_value(None, "user_version", |row| row.get(0));
        usize::try_from(version.map(|version: i64| version).expect("read")).expect("few")
    };
    let Err(error) = Database::open_as_it_is(&folder.file()) else {
        panic!("opened");
    };
    assert_eq!(error.kind(), StoreErrorKind::Older);
    assert!(error.to_string().contains("the next start"), "{error}");
    assert_eq!(found(), schema);
    drop(folder.open());
    assert_eq!(found(), MIGRATIONS.len());
    assert!(Database::open_as_it_is(&folder.file()).is_ok());
}

#[test]
fn what_is_to_stay_as_it_is_must_be_there() {
    let folder = Folder::new();
    assert!(Database::open_as_it_is(&folder.file()).is_err());
    assert!(!folder.file().exists());
}

#[test]
fn what_is_no_database_of_ours_is_left_alone() {
    let folder = Folder::new();
    let write = |text: &[u8]| {
        std::fs::write(folder.file(), text).expect("written");
        std::fs::set_permissions(folder.file(), std::fs::Permissions::from_mode(0o600))
            .expect("set");
    };
    write(&[b'x'; 5_000]);
    assert_eq!(refused(&folder.file()).kind(), StoreErrorKind::Damaged);
    assert_eq!(std::fs::read(folder.file()).expect("read"), [b'x'; 5_000]);
    std::fs::remove_file(folder.file()).expect("removed");
    let other = Connection::open(folder.file()).expect("opens");
    other
        .execute_batch("CREATE TABLE theirs (x)")
        .expect("made");
    drop(other);
    std::fs::set_permissions(folder.file(), std::fs::Permissions::from_mode(0o600)).expect("set");
    assert_eq!(refused(&folder.file()).kind(), StoreErrorKind::Damaged);
    let other = Connection::open(folder.file()).expect("opens");
    let tables: i64 = other
        .query_row("SELECT count(*) FROM sqlite_schema", (), |row| row.get(0))
        .expect("read");
    assert_eq!(tables, 1);
}

#[test]
fn a_folder_that_is_not_there_is_named() {
    let error = refused(Path::new("/nonexistent/signet.db"));
    assert!(
        error.to_string().contains("/nonexistent/signet.db"),
        "{error}"
    );
}
