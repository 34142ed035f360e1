//! Sessions of clients resume on every worker, after a restart and on another
//! node that has the same store or the same file; openssl tells.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use sip_store::{Database, TicketSecretStore};

use crate::support::TestDir;
use crate::support::command::{Serving, fail, succeed, text};
use crate::support::openssl::{PATIENCE, call, is_resumed, report_with, serve, write_config};

/// Both versions with tickets.
const VERSIONS: [(&str, &[&str]); 2] = [("1.3", &["-tls1_3"]), ("1.2", &["-tls1_2"])];
/// TLS 1.2 with session ids alone.
const IDS: [&str; 2] = ["-tls1_2", "-no_ticket"];

fn first(server: &Serving, with: &[&str], session: &Path) {
    let told = call(
        server.at("tls"),
        &[with, &["-sess_out", text(session)]].concat(),
    );
    assert!(!is_resumed(&told), "{told}");
    assert!(session.exists(), "no session was issued:\n{told}");
}

fn again(server: &Serving, with: &[&str], session: &Path) -> bool {
    is_resumed(&call(
        server.at("tls"),
        &[with, &["-sess_in", text(session)]].concat(),
    ))
}

fn stop(mut server: Serving) {
    server.process.signal("-TERM");
    assert_eq!(server.process.wait(Duration::from_secs(30)), Some(0));
}

#[test]
fn sessions_resume_on_every_worker_and_are_counted() {
    let folder = TestDir::new("tls-workers");
    let server = serve(folder.path(), "", "");
    let ids: (&str, &[&str]) = ("ids", &IDS);
    for (name, with) in VERSIONS.into_iter().chain([ids]) {
        let session = folder.path().join(format!("{name}.session"));
        first(&server, with, &session);
        // Connections fall on the two workers by their ports.
        for nth in 0..6 {
            assert!(again(&server, with, &session), "{name}, {nth}");
        }
    }
    let report = report_with(folder.path(), "21: 3 full, 18 resumed (85.7 %), 0 failed");
    for line in ["6 session_id", "6 ticket", "6 psk"] {
        assert!(report.contains(line), "{line} is not in:\n{report}");
    }
    assert!(report.starts_with("asked the running server, http://127.0.0.1:"));
}

/// The secrets in a store, as they would stand in a text.
fn secrets_of(store: &Path) -> Vec<String> {
    let mut database = Database::open_existing(store).unwrap();
    let rows = database.ticket_secrets(0).unwrap();
    let hex = |row: &sip_store::TicketSecretRow| {
        let digits = row.secret.iter().map(|byte| format!("{byte:02x}"));
        digits.collect::<String>()
    };
    rows.iter().map(hex).collect()
}

fn mode(file: &Path) -> u32 {
    fs::metadata(file).unwrap().permissions().mode() & 0o777
}

#[test]
fn tickets_outlive_a_restart_and_a_kill_and_the_secret_is_shown_nowhere() {
    let folder = TestDir::new("tls-restart");
    let mut server = serve(folder.path(), "", "");
    for (name, with) in VERSIONS {
        first(&server, with, &folder.path().join(name));
    }
    let store = folder.path().join("data/signet.db");
    assert_eq!(mode(&store), 0o600);
    let secrets = secrets_of(&store);
    assert_eq!(secrets.len(), 1);
    let by_id = folder.path().join("ids");
    first(&server, &IDS, &by_id);
    assert!(again(&server, &IDS, &by_id));

    server.process.signal("-KILL");
    server.process.wait(Duration::from_secs(30)).unwrap();
    fs::remove_file(folder.path().join("data/listeners.json")).unwrap();
    let server = serve(folder.path(), "", "");
    for (name, with) in VERSIONS {
        assert!(again(&server, with, &folder.path().join(name)), "{name}");
    }
    // What an id names was in the memory of the process.
    assert!(!again(&server, &IDS, &by_id));
    assert_eq!(secrets_of(&store), secrets);
    let log = fs::read_to_string(&server.log).unwrap();
    let report = report_with(folder.path(), "2 resumed");
    assert!(report.contains("secret from    store "), "{report}");
    let figures = crate::support::openssl::page(folder.path(), "/metrics");
    for told in [&log, &report, &figures] {
        assert!(!told.to_lowercase().contains(&secrets[0]), "{told}");
    }

    // Without the secret they begin anew.
    stop(server);
    let data = folder.path().join("data");
    let told = succeed(
        &[
            "tls",
            "rotate-secret",
            "--forget-old",
            "--data",
            text(&data),
        ],
        "",
    );
    assert!(told.contains("is the only one"), "{told}");
    assert_ne!(secrets_of(&store), secrets);
    let server = serve(folder.path(), "", "");
    for (name, with) in VERSIONS {
        assert!(!again(&server, with, &folder.path().join(name)), "{name}");
    }
    stop(server);
}

/// A node with a folder of its own.
fn node(folder: &TestDir, name: &str, more: &str) -> Serving {
    let own = folder.path().join(name);
    fs::create_dir_all(&own).unwrap();
    serve(&own, "", more)
}

/// What nodes on one store have in their configuration.
fn shared_store(folder: &TestDir) -> String {
    let store = folder.path().join("shared/tickets.db");
    fs::create_dir_all(store.parent().unwrap()).unwrap();
    format!(
        "[tls]\nticket_store = \"{}\"\nticket_poll_s = 1\n",
        store.display()
    )
}

#[test]
fn nodes_on_one_store_resume_each_others_sessions() {
    let folder = TestDir::new("tls-one-store");
    let shared = shared_store(&folder);
    let (one, two) = (node(&folder, "one", &shared), node(&folder, "two", &shared));
    let stranger = node(&folder, "three", "");
    assert_eq!(mode(&folder.path().join("shared/tickets.db")), 0o600);
    for (name, with) in VERSIONS {
        for (from, to) in [(&one, &two), (&two, &one)] {
            let session = folder.path().join(name);
            let _ = fs::remove_file(&session);
            first(from, with, &session);
            assert!(again(to, with, &session), "{name}");
            assert!(!again(&stranger, with, &session), "{name}");
        }
    }
    // Session ids of TLS 1.2 are a node's own.
    let session = folder.path().join("ids");
    first(&one, &IDS, &session);
    assert!(!again(&two, &IDS, &session));
    assert!(again(&one, &IDS, &session));
}

#[test]
fn a_new_secret_reaches_every_node_and_the_ones_before_end() {
    let folder = TestDir::new("tls-rotate");
    let shared = shared_store(&folder);
    let one = node(&folder, "one", &shared);
    let config = folder.path().join("one/signet.toml");
    let rotate = |more: &[&str]| {
        let command = [&["tls", "rotate-secret", "--config", text(&config)], more].concat();
        succeed(&command, "")
    };
    let session = folder.path().join("session");
    first(&one, &["-tls1_3"], &session);
    // Another node starts while this one is given new secrets.
    let two = std::thread::scope(|scope| {
        let starts = scope.spawn(|| node(&folder, "two", &shared));
        for _ in 0..3 {
            rotate(&[]);
        }
        starts.join().unwrap()
    });
    assert!(again(&one, &["-tls1_3"], &session));
    assert!(again(&two, &["-tls1_3"], &session));
    let report = report_with(&folder.path().join("two"), "opens tickets");
    assert_eq!(report.matches(" old, the newest").count(), 1, "{report}");

    // Put out of service, the ones before open nothing.
    rotate(&["--forget-old"]);
    let store = folder.path().join("shared/tickets.db");
    assert_eq!(secrets_of(&store).len(), 1);
    for server in [&one, &two] {
        let until = Instant::now() + PATIENCE;
        while again(server, &["-tls1_3"], &session) {
            assert!(Instant::now() < until, "it resumes still");
        }
    }
    first(&two, &["-tls1_2"], &folder.path().join("later"));
    assert!(again(&one, &["-tls1_2"], &folder.path().join("later")));
}

#[test]
fn a_node_whose_store_is_away_goes_on_with_what_it_has() {
    let folder = TestDir::new("tls-store-away");
    let shared = shared_store(&folder);
    let (one, two) = (node(&folder, "one", &shared), node(&folder, "two", &shared));
    let (store, away) = (folder.path().join("shared"), folder.path().join("away"));
    let session = folder.path().join("session");
    first(&one, &["-tls1_3"], &session);
    fs::rename(&store, &away).unwrap();
    for server in [&one, &two] {
        // Asked to look again, the node sees that it is gone.
        server.process.signal("-HUP");
        server.wait_for_log("those in use stay");
    }
    assert!(again(&two, &["-tls1_3"], &session));
    first(&two, &["-tls1_2"], &folder.path().join("meanwhile"));
    assert!(again(&one, &["-tls1_2"], &folder.path().join("meanwhile")));
    report_with(
        &folder.path().join("one"),
        "WARNING the store with the secrets of session tickets cannot be read",
    );
    fs::rename(&away, &store).unwrap();
    for server in [&one, &two] {
        server.wait_for_log("can be read again");
    }
    assert!(again(&two, &["-tls1_3"], &session));
}

#[test]
fn nodes_with_one_secret_in_a_file_resume_each_others_sessions() {
    let folder = TestDir::new("tls-nodes");
    let secret = folder.path().join("shared.secret");
    fs::write(&secret, "5a".repeat(32)).unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    let shared = format!(
        "[tls]\nticket_keys = \"file\"\nticket_secret_file = \"{}\"\n",
        secret.display()
    );
    let (one, two) = (node(&folder, "one", &shared), node(&folder, "two", &shared));
    let stranger = node(&folder, "three", "[tls]\nticket_keys = \"file\"\n");
    let own = folder.path().join("three/data/ticket.secret");
    assert_eq!(mode(&own), 0o600);
    for (name, with) in VERSIONS {
        let session = folder.path().join(name);
        first(&one, with, &session);
        assert!(again(&two, with, &session), "{name}");
        assert!(!again(&stranger, with, &session), "{name}");
    }
    // A file is its owner's to replace.
    let config = folder.path().join("one/signet.toml");
    let error = fail(&["tls", "rotate-secret", "--config", text(&config)], "");
    assert!(error.contains("openssl rand -hex 32"), "{error}");
}

#[test]
fn a_new_secret_in_a_file_takes_effect_without_a_restart() {
    let folder = TestDir::new("tls-new-secret");
    let server = serve(folder.path(), "", "[tls]\nticket_keys = \"file\"\n");
    let session = folder.path().join("session");
    first(&server, &["-tls1_3"], &session);
    server.process.signal("-HUP");
    server.wait_for_count(" reloaded", 1);
    assert!(again(&server, &["-tls1_3"], &session));

    // A secret that others can read is none, and changes nothing.
    let secret = folder.path().join("new.secret");
    fs::write(&secret, "5a".repeat(32)).unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o644)).unwrap();
    let more = "[tls]\nticket_keys = \"file\"\nticket_secret_file = \"new.secret\"\n";
    write_config(folder.path(), "", more);
    server.process.signal("-HUP");
    server.wait_for_log("reload refused");
    assert!(again(&server, &["-tls1_3"], &session));

    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    server.process.signal("-HUP");
    server.wait_for_count(" reloaded", 2);
    assert!(!again(&server, &["-tls1_3"], &session));
}
