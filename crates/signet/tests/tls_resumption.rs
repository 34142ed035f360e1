//! Sessions resume on every worker, after a restart and on another node that
//! has the same secret; openssl tells.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use support::TestDir;
use support::command::{Serving, text};
use support::openssl::{call, is_resumed, report_with, serve, write_config};

/// Both versions, and how each resumes. `-no_ticket` leaves TLS 1.2 its
/// session ids.
const VERSIONS: [(&str, &[&str]); 2] = [("1.3", &["-tls1_3"]), ("1.2", &["-tls1_2"])];

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
    let ids: (&str, &[&str]) = ("ids", &["-tls1_2", "-no_ticket"]);
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

#[test]
fn tickets_outlive_a_restart_and_a_kill() {
    let folder = TestDir::new("tls-restart");
    let mut server = serve(folder.path(), "", "");
    for (name, with) in VERSIONS {
        first(&server, with, &folder.path().join(name));
    }
    let secret = folder.path().join("data/ticket.secret");
    assert_eq!(
        fs::metadata(&secret).unwrap().permissions().mode() & 0o777,
        0o600
    );

    server.process.signal("-KILL");
    server.process.wait(Duration::from_secs(30)).unwrap();
    fs::remove_file(folder.path().join("data/listeners.json")).unwrap();
    let server = serve(folder.path(), "", "");
    for (name, with) in VERSIONS {
        assert!(again(&server, with, &folder.path().join(name)), "{name}");
    }
    let log = fs::read_to_string(&server.log).unwrap();
    let digits = fs::read_to_string(&secret).unwrap();
    assert!(!log.contains(digits.trim()));

    // Without the secret they begin anew.
    stop(server);
    fs::remove_file(&secret).unwrap();
    let server = serve(folder.path(), "", "");
    for (name, with) in VERSIONS {
        assert!(!again(&server, with, &folder.path().join(name)), "{name}");
    }
    stop(server);
}

#[test]
fn nodes_with_one_secret_resume_each_others_sessions() {
    let folder = TestDir::new("tls-nodes");
    let secret = folder.path().join("shared.secret");
    fs::write(&secret, "5a".repeat(32)).unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    let shared = format!("[tls]\nticket_secret_file = \"{}\"\n", secret.display());
    let node = |name: &str, more: &str| {
        let own = folder.path().join(name);
        fs::create_dir_all(&own).unwrap();
        serve(&own, "", more)
    };
    let (one, two, stranger) = (
        node("one", &shared),
        node("two", &shared),
        node("three", ""),
    );
    for (name, with) in VERSIONS {
        let session = folder.path().join(name);
        first(&one, with, &session);
        assert!(again(&two, with, &session), "{name}");
        assert!(!again(&stranger, with, &session), "{name}");
    }
}

#[test]
fn a_new_secret_takes_effect_without_a_restart() {
    let folder = TestDir::new("tls-new-secret");
    let server = serve(folder.path(), "", "");
    let session = folder.path().join("session");
    first(&server, &["-tls1_3"], &session);
    server.process.signal("-HUP");
    server.wait_for_count(" reloaded", 1);
    assert!(again(&server, &["-tls1_3"], &session));

    // A secret that others can read is none, and changes nothing.
    let secret = folder.path().join("new.secret");
    fs::write(&secret, "5a".repeat(32)).unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o644)).unwrap();
    let more = "[tls]\nticket_secret_file = \"new.secret\"\n";
    write_config(folder.path(), "", more);
    server.process.signal("-HUP");
    server.wait_for_log("reload refused");
    assert!(again(&server, &["-tls1_3"], &session));

    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    server.process.signal("-HUP");
    server.wait_for_count(" reloaded", 2);
    assert!(!again(&server, &["-tls1_3"], &session));
}
