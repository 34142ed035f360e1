//! Users in stores on other machines: the same configuration, another URL.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../../sip-userdb/tests/support/mod.rs"]
mod sql;
#[path = "../../sip-userdb/tests/stores/mod.rs"]
mod stores;
mod support;

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use sip_net::testing::uninterrupted;
use sip_userdb::Layout;
use sql::mariadb::MariaDb;
use sql::postgresql::PostgreSql;
use stores::suite::{REALM, password, user};
use support::command::{fail, succeed, text};
use support::figures::missing;
use support::openssl::{figure, page};
use support::phone::{Phone, field, md5};
use support::{Server, TestDir, ask_udp, free_port, unique};

const DOMAIN: &str = "example.com";
/// Between two requests that are refused: who is refused too often is not answered any more.
const PAUSE: Duration = Duration::from_millis(200);

/// Starts a server whose users are in a store; an empty password is none.
fn serve(folder: &Path, url: &str, password: &str, users: &str) -> Server {
    let password_file = match password {
        "" => "",
        _ => {
            let secret = folder.join("store.password");
            fs::write(&secret, format!("{password}\n")).unwrap();
            fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
            "password_file = \"store.password\"\n"
        }
    };
    let port = free_port();
    let config = format!(
        "version = 1\ndata = \"data\"\ndomains = [\"{DOMAIN}\", \"{REALM}\"]\n\
         [[listen]]\non = \"udp:127.0.0.1:{port}\"\n\
         [users]\nstores = [\"{url}\"]\n{password_file}{users}"
    );
    Server::start_with_config(folder, &config, ([127, 0, 0, 1], port).into())
}

/// A call from its first INVITE to the answer to its BYE.
fn call_through(caller: &mut Phone, called: &mut Phone, name: &str) {
    let mut call = caller.invite(name);
    let (answered, _) = called.answer();
    caller.established(&mut call);
    called.acknowledged(&answered);
    caller.hang_up(&mut call);
    called.ended(&answered);
    caller.hung_up(&call);
}

/// Two users register and call each other; who gives another password does not.
fn two_call_each_other(server: &Server) {
    let mut alice = Phone::udp(server.udp, "alice", DOMAIN);
    let mut bob = Phone::udp(server.udp, "bob", DOMAIN);
    alice.register();
    bob.register();
    call_through(&mut alice, &mut bob, "bob");
    let mut mallory = Phone::udp(server.udp, "alice", DOMAIN);
    mallory.set_password("guessed");
    assert!(mallory.try_register().starts_with("SIP/2.0 401 "));
    let mut nobody = Phone::udp(server.udp, "nobody", DOMAIN);
    assert!(nobody.try_register().starts_with("SIP/2.0 401 "));
}

/// The same of two users who are there already, in a store that nobody writes to by
/// `signet user`.
fn users_are_read_alone(folder: &Path, server: &Server) {
    let phone = |number| {
        let mut phone = Phone::udp(server.udp, &user(number), REALM);
        phone.set_password(&password(number));
        phone
    };
    let (mut caller, mut called) = (phone(0), phone(1));
    caller.register();
    called.register();
    call_through(&mut caller, &mut called, &user(1));
    caller.set_password("guessed");
    assert!(caller.try_register().starts_with("SIP/2.0 401 "));
    let config = folder.join("signet.toml");
    let words = [
        "user",
        "add",
        "carol",
        "--generate",
        "--config",
        text(&config),
    ];
    let error = fail(&words, "");
    assert!(
        error.contains("by its own tools") || error.contains("change them"),
        "{error}"
    );
}

/// `signet user` manages the users of a store, and the running server knows at once.
fn users_are_managed(folder: &Path, server: &Server) {
    let config = folder.join("signet.toml");
    let user = |words: &[&str], input: &str| {
        let words = [&["user"], words, &["--config", text(&config)]].concat();
        succeed(&words, input)
    };
    for name in ["alice", "bob"] {
        user(
            &["add", name, "--password-stdin"],
            &format!("{name}-secret\n"),
        );
    }
    let again = fail(
        &[
            "user",
            "add",
            "alice",
            "--generate",
            "--config",
            text(&config),
        ],
        "",
    );
    assert!(
        again.contains("there is a user alice@example.com already"),
        "{again}"
    );
    assert!(user(&["list"], "").contains("alice@example.com\nbob@example.com\n"));
    two_call_each_other(server);

    // Another password counts at once, and the one before no more.
    user(&["passwd", "alice", "--password-stdin"], "other\n");
    let mut alice = Phone::udp(server.udp, "alice", DOMAIN);
    assert!(alice.try_register().starts_with("SIP/2.0 401 "));
    alice.set_password("other");
    alice.register();
    user(&["remove", "alice"], "");
    assert!(alice.try_register().starts_with("SIP/2.0 401 "));
    user(&["add", "alice", "--password-stdin"], "alice-secret\n");
}

#[test]
fn mariadb() {
    let Some(bed) = MariaDb::start() else { return };
    let folder = TestDir::new("users-mariadb");
    let server = serve(
        folder.path(),
        &bed.options(Layout::Signet, "").url,
        sql::mariadb::PASSWORD,
        "",
    );
    users_are_managed(folder.path(), &server);
}

#[test]
fn an_import_that_ends_halfway_leaves_no_password_of_before() {
    let Some(bed) = MariaDb::start() else { return };
    let folder = TestDir::new("users-halfway");
    let url = bed.options(Layout::Signet, "").url;
    let server = serve(folder.path(), &url, sql::mariadb::PASSWORD, "");
    let config = folder.path().join("signet.toml");
    let words = ["user", "add", "alice", "--password-stdin"];
    succeed(
        &[&words[..], &["--config", text(&config)]].concat(),
        "alice-secret\n",
    );
    let mut alice = Phone::udp(server.udp, "alice", DOMAIN);
    alice.register();
    bed.sql("ALTER TABLE sip.signet_users ADD CONSTRAINT few CHECK (username <> 'bob')");
    let list = folder.path().join("users.csv");
    fs::write(&list, "user,password\nalice,other\nbob,bob-secret\n").unwrap();
    let words = ["user", "import", text(&list), "--config", text(&config)];
    let error = fail(&words, "");
    assert!(error.contains("after 1 of 2 users: "), "{error}");
    assert!(alice.try_register().starts_with("SIP/2.0 401 "));
    alice.set_password("other");
    alice.register();
}

#[test]
fn the_table_of_kamailio() {
    let Some(bed) = MariaDb::start() else { return };
    let folder = TestDir::new("users-subscriber");
    let layout = "layout = \"subscriber\"\n";
    let server = serve(
        folder.path(),
        &bed.options(Layout::Signet, "").url,
        sql::mariadb::PASSWORD,
        layout,
    );
    users_are_managed(folder.path(), &server);
}

/// With `user_with_domain` phones give their name with the domain; everybody else says the
/// name alone.
#[test]
fn the_table_of_kamailio_with_names_that_have_their_domain() {
    let Some(bed) = MariaDb::start() else { return };
    let folder = TestDir::new("users-with-domain");
    let users = "layout = \"subscriber\"\nuser_with_domain = true\n";
    let url = bed.options(Layout::Signet, "").url;
    let server = serve(folder.path(), &url, sql::mariadb::PASSWORD, users);
    let config = folder.path().join("signet.toml");
    let user = |words: &[&str], input: &str| {
        let words = [&["user"], words, &["--config", text(&config)]].concat();
        succeed(&words, input)
    };
    user(&["add", "alice", "--password-stdin"], "alice-secret\n");
    let list = folder.path().join("users.csv");
    fs::write(&list, "user,password\nbob,bob-secret\n").unwrap();
    user(&["import", text(&list)], "");
    assert!(user(&["list"], "").contains("alice@example.com\nbob@example.com\n"));
    let says = |whom: &str, password: &str| message(&server, "alice", whom, password);
    assert!(says("bob", "guessed").starts_with("SIP/2.0 407 "));
    // His phone is off, and there is nobody of the other name.
    let absent = says("bob", "alice-secret");
    assert!(absent.starts_with("SIP/2.0 480 "), "{absent}");
    let unknown = says("nobody", "alice-secret");
    assert!(unknown.starts_with("SIP/2.0 404 "), "{unknown}");
    let other = message(&server, "bob", "alice", "bob-secret");
    assert!(other.starts_with("SIP/2.0 480 "), "{other}");

    user(&["passwd", "alice", "--password-stdin"], "other\n");
    assert!(says("bob", "alice-secret").starts_with("SIP/2.0 407 "));
    assert!(says("bob", "other").starts_with("SIP/2.0 480 "));
    user(&["remove", "alice"], "");
    assert!(says("bob", "other").starts_with("SIP/2.0 407 "));
    let again = message(&server, "bob", "alice", "bob-secret");
    assert!(again.starts_with("SIP/2.0 404 "), "{again}");
    // An HA1 of the name alone is not that which counts.
    fs::write(
        &list,
        format!("user,ha1\ncarol,{}\n", md5("carol:x:secret")),
    )
    .unwrap();
    let words = ["user", "import", text(&list), "--config", text(&config)];
    let error = fail(&words, "");
    assert!(error.contains("carol@example.com"), "{error}");
}

/// The final answer to a MESSAGE from a phone that gives its name with the domain.
fn message(server: &Server, from: &str, to: &str, password: &str) -> String {
    let uri = format!("sip:{to}@{DOMAIN}");
    let name = format!("{from}@{DOMAIN}");
    let send = |proof: &str| {
        let number = unique();
        let request = format!(
            "MESSAGE {uri} SIP/2.0\r\n\
             Via: SIP/2.0/UDP 127.0.0.1:9;rport;branch=z9hG4bK{number}\r\n\
             From: <sip:{name}>;tag={number}\r\nTo: <{uri}>\r\n\
             Call-ID: {number}\r\nCSeq: 1 MESSAGE\r\nMax-Forwards: 70\r\n\
             {proof}Content-Length: 0\r\n\r\n"
        );
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.send_to(request.as_bytes(), server.udp).unwrap();
        let mut buffer = [0; 65_535];
        loop {
            let len = uninterrupted(|| socket.recv(&mut buffer)).expect("it is answered");
            let answer = String::from_utf8_lossy(&buffer[..len]);
            if !answer.starts_with("SIP/2.0 1") {
                return answer.into_owned();
            }
        }
    };
    let challenged = send("");
    let challenge = field(&challenged, "Proxy-Authenticate");
    let part = |name: &str| {
        let (_, rest) = challenge.split_once(&format!("{name}=\"")).unwrap();
        rest.split_once('"').unwrap().0.to_owned()
    };
    let (realm, nonce) = (part("realm"), part("nonce"));
    let ha1 = md5(&format!("{name}:{realm}:{password}"));
    let ha2 = md5(&format!("MESSAGE:{uri}"));
    let response = md5(&format!("{ha1}:{nonce}:00000001:cafe:auth:{ha2}"));
    send(&format!(
        "Proxy-Authorization: Digest username=\"{name}\", realm=\"{realm}\", nonce=\"{nonce}\", \
         uri=\"{uri}\", response=\"{response}\", algorithm=MD5, qop=auth, nc=00000001, \
         cnonce=\"cafe\"\r\n"
    ))
}

/// A way to a database on which the answer to a DELETE is lost after it was carried out.
fn lossy_way(to: u16) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let client = client.unwrap();
            let Ok(store) = TcpStream::connect(("127.0.0.1", to)) else {
                continue;
            };
            let is_lost = Arc::new(AtomicBool::new(false));
            let (from, into) = (client.try_clone().unwrap(), store.try_clone().unwrap());
            let seen = is_lost.clone();
            std::thread::spawn(move || {
                let mut deletes = false;
                pass(from, into, |bytes| {
                    // A packet's fifth byte is the command: 23 has a prepared statement run.
                    seen.fetch_or(deletes && bytes.get(4) == Some(&23), Ordering::SeqCst);
                    deletes |= bytes.windows(6).any(|word| word == b"DELETE");
                    true
                });
            });
            std::thread::spawn(move || {
                pass(store, client, |_| !is_lost.load(Ordering::SeqCst));
            });
        }
    });
    port
}

/// Passes on what comes until either end closes, or what has come is not to be passed on.
fn pass(mut from: TcpStream, mut into: TcpStream, mut may: impl FnMut(&[u8]) -> bool) {
    let mut buffer = [0; 65_536];
    while let Ok(len @ 1..) = from.read(&mut buffer) {
        if !may(&buffer[..len]) || into.write_all(&buffer[..len]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = into.shutdown(Shutdown::Both);
}

#[test]
fn a_removal_whose_answer_is_lost_leaves_no_password() {
    let Some(bed) = MariaDb::start() else { return };
    let url = bed.options(Layout::Signet, "").url;
    let (_, rest) = url.split_once("127.0.0.1:").unwrap();
    let (port, _) = rest.split_once('/').unwrap();
    let way = lossy_way(port.parse().unwrap());
    let url = url.replace(&format!(":{port}/"), &format!(":{way}/"));
    let folder = TestDir::new("users-lost");
    let server = serve(folder.path(), &url, sql::mariadb::PASSWORD, "");
    let config = folder.path().join("signet.toml");
    let words = ["user", "add", "alice", "--password-stdin", "--config"];
    succeed(&[&words[..], &[text(&config)]].concat(), "alice-secret\n");
    let mut alice = Phone::udp(server.udp, "alice", DOMAIN);
    alice.register();
    fail(&["user", "remove", "alice", "--config", text(&config)], "");
    assert!(alice.try_register().starts_with("SIP/2.0 401 "));
}

#[test]
fn postgresql() {
    let Some(bed) = PostgreSql::start() else {
        return;
    };
    let folder = TestDir::new("users-postgresql");
    let server = serve(
        folder.path(),
        &bed.options(Layout::Signet, "").url,
        sql::postgresql::PASSWORD,
        "",
    );
    users_are_managed(folder.path(), &server);
}

#[test]
fn redis() {
    if !stores::have("redis-server") {
        return;
    }
    let bed = stores::redis::Server::start();
    let folder = TestDir::new("users-redis");
    let server = serve(folder.path(), &bed.url(), "secret", "");
    users_are_managed(folder.path(), &server);
}

#[test]
fn a_directory() {
    if !stores::have("slapd") {
        return;
    }
    let bed = stores::ldap::Server::start();
    let folder = TestDir::new("users-ldap");
    let server = serve(folder.path(), &bed.options().url, "secret", "");
    users_are_read_alone(folder.path(), &server);
}

/// Who may not read the HA1s sees entries without them, and no error.
#[test]
fn of_a_directory_that_hides_the_ha1s_the_operator_is_told() {
    if !stores::have("slapd") {
        return;
    }
    let bed = stores::ldap::Server::start();
    let folder = TestDir::new("users-hidden");
    let place = format!("ldap://127.0.0.1:{}", bed.port);
    let url = format!("{place}/{}", stores::ldap::BASE);
    let metrics = "[metrics]\nlisten = \"127.0.0.1:0\"\n";
    let server = serve(folder.path(), &url, "", metrics);
    let mut phone = Phone::udp(server.udp, &user(0), REALM);
    phone.set_password(&password(0));
    assert!(phone.try_register().starts_with("SIP/2.0 401 "));
    wait_for_log(&server, "has no attribute signetHA1SHA512256, or");
    let name = format!("signet_users_store_without_ha1_total{{store=\"{place}\"}}");
    let until = Instant::now() + PATIENCE;
    while figure(folder.path(), &name) == 0 {
        assert!(Instant::now() < until, "nobody is counted");
        std::thread::sleep(Duration::from_millis(50));
    }
    let of_stores = ["signet_lookups_", "signet_users_store_"];
    let missing = missing(&page(folder.path(), "/metrics"), |name| {
        of_stores.iter().any(|of| name.starts_with(of))
    });
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn a_radius_server_that_verifies() {
    if !stores::have("freeradius") {
        return;
    }
    let bed = stores::radius::Server::start(true);
    let folder = TestDir::new("users-radius");
    let url = format!("radius://127.0.0.1:{}", bed.port);
    let server = serve(folder.path(), &url, stores::radius::SECRET, "");
    users_are_read_alone(folder.path(), &server);
}

#[test]
fn an_endpoint() {
    let bed = stores::http::Server::start();
    let folder = TestDir::new("users-http");
    let url = format!("http://127.0.0.1:{}/v1/users", bed.port);
    let server = serve(folder.path(), &url, "a token", "");
    users_are_read_alone(folder.path(), &server);
}

#[test]
fn the_database_of_the_data_folder() {
    let folder = TestDir::new("users-sqlite");
    let server = serve(folder.path(), "sqlite:", "nobody's", "");
    users_are_managed(folder.path(), &server);
}

/// How long a database may take until it is asked again, on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// An answer that says when to try again.
fn assert_later(answer: &str, status: u16) {
    assert!(
        answer.starts_with(&format!("SIP/2.0 {status} ")),
        "{answer}"
    );
    let seconds = field(answer, "Retry-After").parse::<u32>();
    assert!(seconds.is_ok_and(|seconds| seconds > 0), "{answer}");
}

/// Somebody calls a user who is not there: what he is told. 480 says that he was let in.
fn told(caller: &mut Phone) -> String {
    let call = caller.invite("dave");
    caller.refused(&call)
}

#[test]
fn a_database_that_is_killed_lets_nobody_in_and_keeps_nobody_out() {
    let Some(mut bed) = MariaDb::start() else {
        return;
    };
    // What is committed is to survive: whoever is not in the database any more is rightly
    // told that he is nobody.
    bed.sql("SET GLOBAL innodb_flush_log_at_trx_commit = 1");
    let url = bed.options(Layout::Signet, "").url;
    let secret = sql::mariadb::PASSWORD;
    outage(&mut bed, &url, secret, MariaDb::kill, MariaDb::resume);
}

/// Waits until a line of the log has that in it.
fn wait_for_log(server: &Server, part: &str) {
    let until = Instant::now() + PATIENCE;
    loop {
        let log = fs::read_to_string(&server.log).unwrap();
        if log.contains(part) {
            return;
        }
        assert!(Instant::now() < until, "{part} is not in:\n{log}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_database_that_refuses_our_log_in_is_as_one_that_is_away() {
    let Some(bed) = MariaDb::start() else { return };
    let knows_us = bed.options(Layout::Signet, "").url;
    let refuses = knows_us.replace("//signet@", "//stranger@");
    let secret = sql::mariadb::PASSWORD;
    let phone = |server: &Server, number: usize| {
        let name = sql::suite::name(number);
        let mut phone = Phone::udp(server.udp, &name, DOMAIN);
        phone.set_password(&format!("secret of {name}"));
        phone
    };
    let in_the_log = "it refused our log-in (the store says 1045: Access denied";

    // The next replica stands in for it, and nobody is kept out.
    let folder = TestDir::new("users-refused-by-one");
    let both = format!("{refuses}\", \"{knows_us}");
    let by_one = serve(folder.path(), &both, secret, "");
    for number in 0..10 {
        phone(&by_one, number).register();
    }
    wait_for_log(&by_one, in_the_log);

    // Where it is the only one, nobody is told that he is wrong.
    let folder = TestDir::new("users-refused");
    let by_all = serve(folder.path(), &refuses, secret, "");
    for _ in 0..3 {
        let mut right = phone(&by_all, 1);
        let mut wrong = phone(&by_all, 1);
        wrong.set_password("guessed");
        for phone in [&mut right, &mut wrong] {
            assert_later(&phone.try_register(), 500);
            assert_later(&told(phone), 503);
        }
    }
    wait_for_log(&by_all, in_the_log);

    // Both find by themselves that they are let in.
    bed.sql(&format!(
        "CREATE USER stranger IDENTIFIED BY '{secret}'; GRANT ALL ON sip.* TO stranger"
    ));
    for server in [&by_one, &by_all] {
        wait_for_log(server, "answers again");
        phone(server, 11).register();
        let log = fs::read_to_string(&server.log).unwrap();
        assert!(!log.contains(secret), "{log}");
    }
}

/// Its end is no reason to forget anybody, although it announces who has changed.
#[test]
fn so_does_one_that_announces_changes() {
    let Some(mut bed) = PostgreSql::start() else {
        return;
    };
    let url = bed.options(Layout::Signet, "").url;
    let secret = sql::postgresql::PASSWORD;
    outage(&mut bed, &url, secret, PostgreSql::kill, PostgreSql::resume);
}

fn outage<B>(
    bed: &mut B,
    url: &str,
    secret: &str,
    stop: impl AsyncFnOnce(&mut B),
    start: impl FnOnce(&mut B),
) {
    let folder = TestDir::new("users-killed");
    let server = serve(folder.path(), url, secret, "");
    let config = folder.path().join("signet.toml");
    for name in ["alice", "bob", "carol", "dave"] {
        let words = ["user", "add", name, "--password-stdin", "--config"];
        succeed(
            &[&words[..], &[text(&config)]].concat(),
            &format!("{name}-secret\n"),
        );
    }
    let phone = |name: &str, password: &str| {
        let mut phone = Phone::udp(server.udp, name, DOMAIN);
        phone.set_password(password);
        phone
    };
    let mut alice = phone("alice", "alice-secret");
    let mut bob = phone("bob", "bob-secret");
    let mut carol = phone("carol", "carol-secret");
    let mut guessers = ["alice", "carol", "nobody"].map(|name| phone(name, "guessed"));
    alice.register();
    bob.register();
    call_through(&mut alice, &mut bob, "bob");

    sql::run(stop(bed));
    for _ in 0..3 {
        // She is remembered, and so goes on.
        call_through(&mut alice, &mut bob, "bob");
        alice.register();
        // Others cannot be let in, and are not told that they are wrong. A REGISTER gets 500,
        // as it does where bindings cannot be stored (RFC 3261 10.3).
        assert_later(&told(&mut carol), 503);
        assert_later(&carol.try_register(), 500);
        for guesser in &mut guessers {
            assert_later(&told(guesser), 503);
            assert_later(&guesser.try_register(), 500);
        }
    }

    start(bed);
    let until = Instant::now() + PATIENCE;
    loop {
        let answer = told(&mut carol);
        if answer.starts_with("SIP/2.0 480 ") {
            break;
        }
        assert_later(&answer, 503);
        assert!(Instant::now() < until, "the database is not asked again");
        std::thread::sleep(Duration::from_millis(50));
    }
    carol.register();
    call_through(&mut alice, &mut bob, "bob");
    call_through(&mut carol, &mut bob, "bob");
    for guesser in &mut guessers {
        assert!(told(guesser).starts_with("SIP/2.0 407 "));
        assert!(guesser.try_register().starts_with("SIP/2.0 401 "));
    }
}

/// What is answered to who registers in a domain without credentials.
fn asked_to_register(server: &Server, domain: &str) -> String {
    let number = unique();
    let request = format!(
        "REGISTER sip:{domain} SIP/2.0\r\n\
         Via: SIP/2.0/UDP 127.0.0.1:9;rport;branch=z9hG4bK{number}\r\n\
         From: <sip:alice@{domain}>;tag={number}\r\nTo: <sip:alice@{domain}>\r\n\
         Call-ID: {number}\r\nCSeq: 1 REGISTER\r\nMax-Forwards: 70\r\n\
         Content-Length: 0\r\n\r\n"
    );
    ask_udp(server.udp, request.as_bytes())
}

/// Whether the server is responsible for a domain: who registers there is asked who he is.
fn serves(server: &Server, domain: &str) -> bool {
    asked_to_register(server, domain).starts_with("SIP/2.0 401 ")
}

#[test]
fn a_server_that_started_without_its_store_tells_nobody_that_he_is_foreign() {
    const LISTED: &str = "listed.example";
    let Some(mut bed) = MariaDb::start() else {
        return;
    };
    // It is killed, and must not lose what it was told last.
    bed.sql(&format!(
        "SET GLOBAL innodb_flush_log_at_trx_commit = 1; \
         INSERT INTO sip.signet_domains VALUES ('{LISTED}')"
    ));
    sql::run(bed.kill());
    let folder = TestDir::new("users-domains-later");
    let url = bed.options(Layout::Signet, "").url;
    let users = "domains_from_store = true\ndomains_poll_s = 0\n";
    let server = serve(folder.path(), &url, sql::mariadb::PASSWORD, users);
    assert!(serves(&server, DOMAIN));
    assert_later(&asked_to_register(&server, LISTED), 500);

    bed.resume();
    let until = Instant::now() + PATIENCE;
    while !serves(&server, LISTED) {
        let log = fs::read_to_string(&server.log).unwrap();
        assert!(Instant::now() < until, "{log}");
        std::thread::sleep(PAUSE);
    }
    let answer = asked_to_register(&server, "foreign.example");
    assert!(answer.starts_with("SIP/2.0 403 "), "{answer}");
}

#[test]
fn domains_follow_the_store_by_themselves_or_at_a_reload() {
    const ADDED: &str = "added.example";
    let Some(mut bed) = MariaDb::start() else {
        return;
    };
    let url = bed.options(Layout::Signet, "").url;
    let add = format!("INSERT INTO sip.signet_domains VALUES ('{ADDED}')");
    let remove = format!("DELETE FROM sip.signet_domains WHERE domain = '{ADDED}'");
    let mut last = None;
    // Where the first store is away the next one is asked, for its domains too.
    let one_is_away = format!("mysql://signet@127.0.0.1:{}/sip\", \"{url}", free_port());
    for (poll_s, stores) in [(1, &one_is_away), (0, &url)] {
        let folder = TestDir::new(&format!("users-domains-{poll_s}"));
        let users = format!("domains_from_store = true\ndomains_poll_s = {poll_s}\n");
        let server = serve(folder.path(), stores, sql::mariadb::PASSWORD, &users);
        assert!(serves(&server, DOMAIN) && !serves(&server, ADDED));
        let becomes = |is_served: bool| {
            if poll_s == 0 {
                server.process.signal("-HUP");
            }
            let until = Instant::now() + PATIENCE;
            while serves(&server, ADDED) != is_served {
                let log = fs::read_to_string(&server.log).unwrap();
                assert!(Instant::now() < until, "{poll_s} {is_served}: {log}");
                std::thread::sleep(PAUSE);
            }
        };
        bed.sql(&add);
        becomes(true);
        bed.sql(&remove);
        becomes(false);
        bed.sql(&add);
        becomes(true);
        if poll_s > 0 {
            bed.sql(&remove);
        } else {
            last = Some((folder, server));
        }
    }
    let Some((_folder, server)) = last else {
        panic!("there is a last one");
    };
    // A store that is away takes none with it, and the rest is reloaded.
    sql::run(bed.kill());
    server.process.signal("-HUP");
    let until = Instant::now() + PATIENCE;
    loop {
        let log = fs::read_to_string(&server.log).unwrap();
        if log.contains("those that were known go on") && log.matches("reloaded").count() == 4 {
            break;
        }
        assert!(Instant::now() < until, "{log}");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(serves(&server, ADDED) && serves(&server, DOMAIN));
}
