//! PostgreSQL, one that is started here and holds the paper's 10,000 subscribers.

use std::time::Duration;

use sip_auth::Algorithm;
use sip_lookup::BatchFailure;
use sip_userdb::{Changed, Layout, Options, Secret, Tls, UserDb};

use crate::support::postgresql::{PASSWORD, PostgreSql};
use crate::support::suite::{self, REALM, UMLAUT, ask, assert_is, name, secrets, subject};
use crate::support::{Authority, run};

fn subscriber(user_with_domain: bool) -> Layout {
    Layout::Subscriber {
        table: "subscriber".to_owned(),
        user_with_domain,
    }
}

fn query(table: &str) -> Layout {
    Layout::Query(format!(
        "SELECT id, username, domain, ha1 FROM {table} \
         WHERE username = ANY({{users}}) AND domain = ANY({{realms}})"
    ))
}

async fn all(options: Options) {
    let db = UserDb::new(options).unwrap();
    suite::known_and_unknown(&db).await;
    suite::many_at_once(&db).await;
    suite::hostile_names(&db).await;
    suite::dropped(&db).await;
    if db.capabilities().is_writable {
        suite::written(&db).await;
        suite::listed(&db).await;
    }
    let (sent, received) = db.traffic();
    assert!(sent > 100_000 && received > 500_000, "{sent} {received}");
}

/// Each layout, and the server ended in the middle at last.
#[test]
fn every_layout_does_what_all_stores_do() {
    let Some(mut bed) = PostgreSql::start() else {
        return;
    };
    run(async {
        for layout in [Layout::Signet, subscriber(false), query("subscriber")] {
            all(bed.options(layout, "")).await;
        }
        odd(&bed).await;
        domains(&bed).await;
        with_domain(&bed).await;
        own_tables(&bed).await;
        wrong_password(&bed).await;
        wrong_statement(&bed).await;
        overdue(&bed).await;
        lost_right(&bed).await;
        late_error(&bed).await;
        too_long(&bed).await;
        let db = UserDb::new(bed.options(Layout::Signet, "")).unwrap();
        suite::killed(&db, &mut bed, PostgreSql::kill, PostgreSql::resume).await;
    });
}

async fn odd(bed: &PostgreSql) {
    let db = UserDb::new(bed.options(query("odd"), "")).unwrap();
    suite::odd_rows(&db).await;
    assert!(!db.capabilities().is_writable);
    let error = db.remove(&subject("x")).await.unwrap_err();
    assert!(error.what().contains("only reads"), "{error}");
}

async fn domains(bed: &PostgreSql) {
    let listed = async |layout| {
        let db = UserDb::new(bed.options(layout, "")).unwrap();
        db.domains().await.unwrap()
    };
    let of = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect());
    assert_eq!(listed(Layout::Signet).await, of(&["example.com"]));
    let both = of(&["example.com", "example.org"]);
    assert_eq!(listed(subscriber(false)).await, both);
    bed.sql("ALTER TABLE domain RENAME TO elsewhere");
    assert_eq!(listed(subscriber(false)).await, None);
    bed.sql("ALTER TABLE elsewhere RENAME TO domain");
    let fill: Vec<String> = (1..10_000).map(|n| format!("('d{n}.example')")).collect();
    let fill = fill.join(",");
    bed.sql(&format!("INSERT INTO signet_domains VALUES {fill}"));
    let all = listed(Layout::Signet).await;
    assert_eq!(all.map(|all: Vec<String>| all.len()), Some(10_000));
    bed.sql("INSERT INTO signet_domains VALUES ('more.example')");
    let db = UserDb::new(bed.options(Layout::Signet, "")).unwrap();
    let error = db.domains().await.unwrap_err();
    assert!(error.what().contains("more than 10000 domains"), "{error}");
    assert!(error.is_lasting(), "{error}");
    bed.sql("DELETE FROM signet_domains WHERE domain <> 'example.com'");
}

/// Phones that give `user@domain`: `ha1b` counts, and nothing else does.
async fn with_domain(bed: &PostgreSql) {
    let db = UserDb::new(bed.options(subscriber(true), "")).unwrap();
    let full = format!("{}@{REALM}", name(5));
    let users = [full.as_str(), &name(5), "nobody@example.com"].map(subject);
    let rows = ask(&db, users.to_vec()).await.unwrap();
    let expected = secrets(&full);
    let found = rows[0].as_ref().unwrap().as_ref().unwrap();
    assert_eq!(
        found.get(Algorithm::Md5),
        Some(expected.get(Algorithm::Md5))
    );
    assert!(rows[1..].iter().all(|row| *row == Ok(None)), "{rows:?}");
}

/// Our own tables are made where they are missing, and made again without harm.
async fn own_tables(bed: &PostgreSql) {
    bed.sql("CREATE DATABASE empty");
    let mut options = bed.options(Layout::Signet, "");
    options.url = options.url.replace("/postgres", "/empty");
    let db = UserDb::new(options).unwrap();
    let missing = ask(&db, vec![subject("alice")]).await.unwrap_err();
    assert!(matches!(&missing, BatchFailure::Unusable(why) if why.contains("signet_users")));
    db.create_tables().await.unwrap();
    db.create_tables().await.unwrap();
    db.put(&subject("alice"), &secrets("alice").into())
        .await
        .unwrap();
    let row = suite::until_it_answers_after_refusal(&db, "alice").await;
    assert_is(&db, &row, "alice");
}

async fn wrong_password(bed: &PostgreSql) {
    for secret in [Some("hunter2"), None] {
        let mut options = bed.options(Layout::Signet, "");
        options.password = secret.map(|secret| Secret::new(secret.into()));
        let db = UserDb::new(options).unwrap();
        let refused = ask(&db, vec![subject("alice")]).await.unwrap_err();
        let BatchFailure::LogInRefused(why) = &refused else {
            panic!("{refused:?}");
        };
        assert!(why.contains("password"), "{why}");
        assert!(!why.contains("hunter2") && !why.contains(PASSWORD), "{why}");
    }
}

/// What an operator may get wrong in a statement of his own is said to him.
async fn wrong_statement(bed: &PostgreSql) {
    for (sql, said) in [
        (
            "SELECT username FROM odd WHERE username = ANY({users})",
            "HA1 for MD5",
        ),
        (
            "SELECT ha1 FROM odd WHERE username = ANY({users})",
            "username",
        ),
        (
            "SELECT id AS username, ha1 FROM odd WHERE username = ANY({users})",
            "cast it",
        ),
        (
            "SELECT username, ha1 FROM none WHERE username = ANY({users})",
            "none",
        ),
    ] {
        let db = UserDb::new(bed.options(Layout::Query(sql.to_owned()), "")).unwrap();
        let refused = ask(&db, vec![subject("alice")]).await.unwrap_err();
        assert!(
            matches!(&refused, BatchFailure::Unusable(why) if why.contains(said)),
            "{sql}: {refused:?}"
        );
    }
}

/// A statement that the server cancels for taking too long may be answered the next time, and the
/// server is there.
async fn overdue(bed: &PostgreSql) {
    let sql = "SELECT username, domain, ha1 FROM subscriber, pg_sleep(20) \
               WHERE username = ANY({users}) AND domain = ANY({realms})";
    bed.sql("ALTER DATABASE postgres SET statement_timeout = '300ms'");
    let db = UserDb::new(bed.options(Layout::Query(sql.to_owned()), "")).unwrap();
    let failed = ask(&db, vec![subject(&name(5))]).await.unwrap_err();
    bed.sql("ALTER DATABASE postgres RESET statement_timeout");
    assert!(
        matches!(&failed, BatchFailure::Cancelled(why) if why.contains("57014")),
        "{failed:?}"
    );
}

/// A right that is taken away while the statement is prepared: whoever is asked for, the database
/// refuses, and it is of no use until that is mended.
async fn lost_right(bed: &PostgreSql) {
    bed.sql("CREATE TABLE shut AS SELECT * FROM subscriber WHERE username <= 'user00010'");
    let db = UserDb::new(bed.options(query("shut"), "")).unwrap();
    let users = [name(5), UMLAUT.to_owned()].map(|user| subject(&user));
    assert_is(&db, &ask(&db, users.to_vec()).await.unwrap()[0], &name(5));
    bed.sql("ALTER TABLE shut RENAME TO elsewhere");
    for user in users {
        let refused = ask(&db, vec![user]).await.unwrap_err();
        assert!(
            matches!(&refused, BatchFailure::Unusable(why) if why.contains("shut")),
            "{refused:?}"
        );
    }
    bed.sql("ALTER TABLE elsewhere RENAME TO shut");
    assert_is(&db, &suite::until_it_answers(&db, &name(5)).await, &name(5));
}

/// A row that cannot be made after others were sent is its own user's matter.
async fn late_error(bed: &PostgreSql) {
    const BROKEN: &str = "zoë";
    bed.sql(&format!(
        "CREATE TABLE late AS SELECT username, domain, ha1, 1 AS divisor FROM subscriber \
         WHERE username = '{UMLAUT}'; \
         INSERT INTO late VALUES ('{BROKEN}', '{REALM}', '', 0)"
    ));
    let sql = "SELECT username, domain, CASE WHEN 1 / divisor = 1 THEN ha1 END AS ha1 FROM late \
               WHERE username = ANY({users}) AND domain = ANY({realms})";
    let db = UserDb::new(bed.options(Layout::Query(sql.to_owned()), "")).unwrap();
    let rows = ask(&db, [UMLAUT, BROKEN].map(subject).to_vec()).await;
    let rows = rows.unwrap();
    assert_is(&db, &rows[0], UMLAUT);
    assert!(rows[1].is_err(), "{:?}", rows[1]);
}

/// What is selected beside users and their HA1s counts, too.
async fn too_long(bed: &PostgreSql) {
    let sql = "SELECT username, domain, ha1, to_json(repeat('x', 100000)) AS note FROM subscriber \
               WHERE username = ANY({users}) AND domain = ANY({realms})";
    let db = UserDb::new(bed.options(Layout::Query(sql.to_owned()), "")).unwrap();
    let many = (0..256).map(|nth| subject(&name(nth))).collect();
    let refused = ask(&db, many).await.unwrap_err();
    assert!(
        matches!(&refused, BatchFailure::Refused(why) if why.contains("4 MiB")),
        "{refused:?}"
    );
    let few = ask(&db, vec![subject(&name(5))]).await.unwrap();
    assert_is(&db, &few[0], &name(5));
}

/// TLS with a certificate of a private authority, and none but that.
#[test]
fn the_certificate_is_verified() {
    let Some(bed) = PostgreSql::start() else {
        return;
    };
    let stranger = Authority::new(&bed.folder, "stranger");
    run(async {
        let mut options = bed.options(Layout::Signet, "");
        options.tls = Tls::Always;
        options.tls_roots = Some(bed.authority.roots.clone());
        all(options.clone()).await;
        options.tls_roots = Some(stranger.roots.clone());
        let db = UserDb::new(options.clone()).unwrap();
        let refused = ask(&db, vec![subject("alice")]).await.unwrap_err();
        assert!(
            matches!(&refused, BatchFailure::Unreachable(why) if why.contains("TLS")),
            "{refused:?}"
        );
        // Its certificate is for localhost and 127.0.0.1.
        options.tls_roots = Some(bed.authority.roots.clone());
        options.url = options.url.replace("127.0.0.1", "127.0.0.2");
        assert!(
            ask(&UserDb::new(options).unwrap(), vec![subject("alice")])
                .await
                .is_err()
        );
        by_socket(&bed).await;
    });
}

async fn by_socket(bed: &PostgreSql) {
    let mut options = bed.options(Layout::Signet, "");
    let port = options.url.rsplit(':').next().unwrap();
    let port = port.split('/').next().unwrap();
    let socket = bed.folder.file(&format!(".s.PGSQL.{port}"));
    options.url = format!(
        "postgresql://signet@localhost/postgres?socket={}",
        socket.display()
    );
    suite::known_and_unknown(&UserDb::new(options).unwrap()).await;
}

/// The next change, which must come.
async fn changed(db: &UserDb) -> Changed {
    let next = tokio::time::timeout(Duration::from_secs(20), db.changed());
    next.await.expect("no change was announced")
}

/// Who was changed is announced, and what may have been missed is, too.
#[test]
fn changes_are_announced() {
    let Some(mut bed) = PostgreSql::start() else {
        return;
    };
    run(async {
        let db = UserDb::new(bed.options(Layout::Signet, "")).unwrap();
        assert!(db.capabilities().announces_changes);
        assert_eq!(changed(&db).await, Changed::Everything);
        let user = subject("zoë \"the\" user");
        db.put(&user, &secrets("x").into()).await.unwrap();
        assert_eq!(changed(&db).await, Changed::User(user.clone()));
        // Giving up one wait loses nothing.
        let given_up = tokio::time::timeout(Duration::from_millis(50), db.changed()).await;
        assert!(given_up.is_err());
        db.remove(&user).await.unwrap();
        assert_eq!(changed(&db).await, Changed::User(user));
        bed.sql("NOTIFY signet_users");
        assert_eq!(changed(&db).await, Changed::Everything);
        // While it is away nothing has changed that could be asked for.
        bed.kill().await;
        let said = tokio::time::timeout(Duration::from_secs(1), db.changed()).await;
        assert!(said.is_err(), "{said:?}");
        bed.resume();
        assert_eq!(changed(&db).await, Changed::Everything);
        let user = subject(&name(1));
        db.put(&user, &secrets(&name(1)).into()).await.unwrap();
        assert_eq!(changed(&db).await, Changed::User(user));
    });
}

/// A hot standby has the users and no LISTEN. That is not to say that any may have changed.
#[test]
fn a_standby_announces_nothing() {
    let Some(mut bed) = PostgreSql::start() else {
        return;
    };
    run(async {
        bed.stand_by().await;
        let db = UserDb::new(bed.options(Layout::Signet, "")).unwrap();
        let rows = ask(&db, vec![subject(&name(1))]).await.unwrap();
        assert_is(&db, &rows[0], &name(1));
        let said = tokio::time::timeout(Duration::from_secs(1), db.changed()).await;
        assert!(said.is_err(), "{said:?}");
    });
}
