//! MariaDB, one that is started here and holds the paper's 10,000 subscribers.

use sip_auth::{Algorithm, Subject};
use sip_lookup::BatchFailure;
use sip_userdb::{Layout, Options, Secret, Tls, UserDb};

use crate::support::mariadb::{MariaDb, PASSWORD};
use crate::support::suite::{
    self, REALM, UMLAUT, ask, assert_is, name, of_realm, secrets, subject,
};
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
         WHERE username IN ({{users}}) AND domain IN ({{realms}})"
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

/// Each layout, pipelined and not, and the server killed in the middle at last.
#[test]
fn every_layout_does_what_all_stores_do() {
    let Some(mut bed) = MariaDb::start() else {
        return;
    };
    run(async {
        for (layout, url) in [
            (Layout::Signet, ""),
            (Layout::Signet, "?pipelined=no"),
            (subscriber(false), ""),
            (query("subscriber"), ""),
        ] {
            all(bed.options(layout, url)).await;
        }
        odd(&bed).await;
        domains(&bed).await;
        with_domain(&bed).await;
        without_domain(&bed).await;
        narrow(&bed).await;
        own_tables(&bed).await;
        lost_table(&bed).await;
        wrong_password(&bed).await;
        for url in ["", "?pipelined=no"] {
            let db = UserDb::new(bed.options(Layout::Signet, url)).unwrap();
            suite::killed(&db, &mut bed, MariaDb::kill, MariaDb::resume).await;
        }
    });
}

async fn odd(bed: &MariaDb) {
    let db = UserDb::new(bed.options(query("odd"), "")).unwrap();
    suite::odd_rows(&db).await;
    assert!(!db.capabilities().is_writable);
    let error = db
        .put(&subject("x"), &secrets("x").into())
        .await
        .unwrap_err();
    assert!(error.what().contains("only reads"), "{error}");
}

async fn domains(bed: &MariaDb) {
    let listed = async |layout| {
        let db = UserDb::new(bed.options(layout, "")).unwrap();
        db.domains().await.unwrap()
    };
    let of = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect());
    assert_eq!(listed(Layout::Signet).await, of(&["example.com"]));
    let both = of(&["example.com", "example.org"]);
    assert_eq!(listed(subscriber(false)).await, both);
    assert_eq!(listed(query("odd")).await, None);
    bed.sql("RENAME TABLE sip.domain TO sip.elsewhere");
    assert_eq!(listed(subscriber(false)).await, None);
    bed.sql("RENAME TABLE sip.elsewhere TO sip.domain");
    let fill: Vec<String> = (1..10_000).map(|n| format!("('d{n}.example')")).collect();
    let fill = fill.join(",");
    bed.sql(&format!("INSERT INTO sip.signet_domains VALUES {fill}"));
    let all = listed(Layout::Signet).await;
    assert_eq!(all.map(|all: Vec<String>| all.len()), Some(10_000));
    bed.sql("INSERT INTO sip.signet_domains VALUES ('more.example')");
    let db = UserDb::new(bed.options(Layout::Signet, "")).unwrap();
    let error = db.domains().await.unwrap_err();
    assert!(error.what().contains("more than 10000 domains"), "{error}");
    assert!(error.is_lasting(), "{error}");
    bed.sql("DELETE FROM sip.signet_domains WHERE domain <> 'example.com'");
}

/// Phones that give `user@domain`: `ha1b` counts, and nothing else does.
async fn with_domain(bed: &MariaDb) {
    let db = UserDb::new(bed.options(subscriber(true), "")).unwrap();
    let full = format!("{}@{REALM}", name(5));
    let other = format!("{}@example.org", name(5));
    let users = [full.as_str(), &other, &name(5), "nobody@example.com"].map(subject);
    let rows = ask(&db, users.to_vec()).await.unwrap();
    let expected = secrets(&full);
    let found = rows[0].as_ref().unwrap().as_ref().unwrap();
    assert_eq!(
        found.get(Algorithm::Md5),
        Some(expected.get(Algorithm::Md5))
    );
    assert!(rows[1..].iter().all(|row| *row == Ok(None)), "{rows:?}");

    // The digest that is not known must not be one that anybody can make.
    let user = subject("carol@example.com");
    db.put(&user, &secrets("carol@example.com").into())
        .await
        .unwrap();
    let plain = UserDb::new(bed.options(subscriber(false), "")).unwrap();
    let row = ask(&plain, vec![subject("carol")]).await.unwrap().remove(0);
    assert!(row.unwrap().unwrap().get(Algorithm::Md5).is_some());
    assert!(
        db.list(None, 1).await.unwrap()[0]
            .user()
            .ends_with(b"@example.com")
    );
    assert!(db.remove(&user).await.unwrap());
    let error = db
        .put(&subject("carol"), &secrets("carol").into())
        .await
        .unwrap_err();
    assert!(error.remedy().contains("user@example.com"), "{error}");
}

/// Installations whose table has no domain in it.
async fn without_domain(bed: &MariaDb) {
    bed.sql("USE sip; UPDATE subscriber SET domain = '' WHERE username = 'user00009'");
    let db = UserDb::new(bed.options(subscriber(false), "?domain=no")).unwrap();
    let rows = ask(&db, vec![subject(&name(9)), subject("nobody")]).await;
    let rows = rows.unwrap();
    assert_is(&db, &rows[0], &name(9));
    assert_eq!(rows[1], Ok(None));
    assert!(db.list(None, 10).await.is_err());
    bed.sql("USE sip; UPDATE subscriber SET domain = 'example.com' WHERE username = 'user00009'");
}

/// A table whose character set lacks most letters: whoever has one of these is not there,
/// and nobody else notices.
async fn narrow(bed: &MariaDb) {
    let layout = Layout::Subscriber {
        table: "narrow".to_owned(),
        user_with_domain: false,
    };
    let db = UserDb::new(bed.options(layout, "")).unwrap();
    suite::known_and_unknown(&db).await;
    suite::hostile_names(&db).await;
    let names = ["日本", UMLAUT, "\u{1f600}", &name(6)].map(subject);
    let rows = ask(&db, names.to_vec()).await.unwrap();
    assert_is(&db, &rows[1], UMLAUT);
    assert_is(&db, &rows[3], &name(6));
}

/// Our own tables are made where they are missing, and only ours.
async fn own_tables(bed: &MariaDb) {
    bed.sql("CREATE DATABASE empty; GRANT ALL ON empty.* TO signet");
    let mut options = bed.options(Layout::Signet, "");
    options.url = options.url.replace("/sip", "/empty");
    let db = UserDb::new(options).unwrap();
    let missing = ask(&db, vec![subject("alice")]).await.unwrap_err();
    assert!(matches!(&missing, BatchFailure::Unusable(why) if why.contains("signet_users")));
    assert_eq!(db.domains().await, Ok(None));
    db.create_tables().await.unwrap();
    db.create_tables().await.unwrap();
    db.put(&subject("alice"), &secrets("alice").into())
        .await
        .unwrap();
    let row = suite::until_it_answers_after_refusal(&db, "alice").await;
    assert_is(&db, &row, "alice");
    let theirs = UserDb::new(bed.options(subscriber(false), "")).unwrap();
    assert!(theirs.create_tables().await.is_err());
}

/// A table that is lost while statements are prepared, or a right to it: whoever is asked for, the
/// database refuses, and it is of no use until that is mended.
async fn lost_table(bed: &MariaDb) {
    let db = UserDb::new(bed.options(subscriber(false), "")).unwrap();
    let users = [name(5), UMLAUT.to_owned()].map(|user| subject(&user));
    assert_is(&db, &ask(&db, users.to_vec()).await.unwrap()[0], &name(5));
    bed.sql("RENAME TABLE sip.subscriber TO sip.elsewhere");
    for user in users {
        let refused = ask(&db, vec![user]).await.unwrap_err();
        assert!(
            matches!(&refused, BatchFailure::Unusable(why) if why.contains("subscriber")),
            "{refused:?}"
        );
    }
    bed.sql("RENAME TABLE sip.elsewhere TO sip.subscriber");
    assert_is(&db, &suite::until_it_answers(&db, &name(5)).await, &name(5));
}

async fn wrong_password(bed: &MariaDb) {
    for secret in [Some("hunter2"), None] {
        let mut options = bed.options(Layout::Signet, "");
        options.password = secret.map(|secret| Secret::new(secret.into()));
        let shown = format!("{options:?}");
        let db = UserDb::new(options).unwrap();
        let error = db.list(None, 1).await.unwrap_err().to_string();
        let refused = ask(&db, vec![subject("alice")]).await.unwrap_err();
        let BatchFailure::LogInRefused(why) = &refused else {
            panic!("{refused:?}");
        };
        assert!(
            why.contains("Access denied") && why.contains("signet"),
            "{why}"
        );
        for text in [&shown, &error, why] {
            assert!(
                !text.contains("hunter2") && !text.contains(PASSWORD),
                "{text}"
            );
        }
    }
    let mut options = bed.options(Layout::Signet, "");
    options.url = options.url.replace("/sip", "/nowhere");
    let db = UserDb::new(options).unwrap();
    let error = db.list(None, 1).await.unwrap_err();
    assert!(error.what().contains("nowhere"), "{error}");
    let refused = ask(&db, vec![subject("alice")]).await.unwrap_err();
    assert!(
        matches!(&refused, BatchFailure::LogInRefused(why) if why.contains("nowhere")),
        "{refused:?}"
    );
}

/// TLS with a certificate of a private authority, and none but that.
#[test]
fn the_certificate_is_verified() {
    let Some(bed) = MariaDb::start() else {
        return;
    };
    bed.sql("ALTER USER signet REQUIRE SSL");
    let stranger = Authority::new(&bed.folder, "stranger");
    run(async {
        let with = |tls, roots: &std::path::Path| {
            let mut options = bed.options(Layout::Signet, "");
            options.tls = tls;
            options.tls_roots = Some(roots.to_owned());
            UserDb::new(options).unwrap()
        };
        for url in ["", "?pipelined=no"] {
            let mut options = bed.options(Layout::Signet, url);
            options.tls = Tls::Always;
            options.tls_roots = Some(bed.authority.roots.clone());
            all(options).await;
        }
        let db = with(Tls::Always, &stranger.roots);
        let refused = ask(&db, vec![subject("alice")]).await.unwrap_err();
        assert!(
            matches!(&refused, BatchFailure::Unreachable(why) if why.contains("TLS")),
            "{refused:?}"
        );
        // The server asks for TLS, so plain text is an error too.
        let db = with(Tls::Never, &bed.authority.roots);
        let refused = ask(&db, vec![subject("alice")]).await.unwrap_err();
        assert!(
            matches!(refused, BatchFailure::LogInRefused(_)),
            "{refused:?}"
        );
        // Its certificate is for localhost and 127.0.0.1.
        let mut options = bed.options(Layout::Signet, "");
        options.url = options.url.replace("127.0.0.1", "127.0.0.2");
        options.tls = Tls::Always;
        options.tls_roots = Some(bed.authority.roots.clone());
        let db = UserDb::new(options).unwrap();
        assert!(ask(&db, vec![subject("alice")]).await.is_err());
    });
}

/// By the socket, which needs no port and no TLS.
#[test]
fn a_socket_of_this_machine_will_do() {
    let Some(bed) = MariaDb::start() else {
        return;
    };
    run(async {
        let mut options = bed.options(Layout::Signet, "");
        let socket = bed.folder.file("socket");
        options.url = format!("mysql://signet@localhost/sip?socket={}", socket.display());
        let db = UserDb::new(options).unwrap();
        suite::known_and_unknown(&db).await;
        let realms: Vec<Subject> = (0..300)
            .map(|realm| of_realm(name(1).as_bytes(), &format!("realm{realm}.example")))
            .chain([subject(&name(1))])
            .collect();
        let rows = ask(&db, realms).await.unwrap();
        assert_is(&db, &rows[300], &name(1));
        assert!(rows[..300].iter().all(|row| *row == Ok(None)));
    });
}
