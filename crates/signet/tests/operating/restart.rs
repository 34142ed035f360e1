//! What a restart leaves of calls and of contacts, through the real program. Of calls that were
//! up the ACK, re-INVITE and BYE pass without a password.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use crate::support::command::{succeed, text};
use crate::support::phone::Phone;
use crate::support::{Server, TestDir, add_user, free_port};

const DOMAIN: &str = "example.com";

struct Ports {
    main: u16,
    websocket: u16,
}

/// A server with the users alice and bob; the second start finds them.
fn start(folder: &Path, ports: &Ports) -> Server {
    let websocket = format!("ws:127.0.0.1:{}", ports.websocket);
    let arguments = ["--domain", DOMAIN, "--workers", "2", "--listen", &websocket];
    Server::start_at(folder, ports.main, &arguments)
}

fn restart(server: Server, signal: &str, folder: &Path, ports: &Ports) -> Server {
    end(server, signal);
    start(folder, ports)
}

/// Ends a server; its log.
fn end(mut server: Server, signal: &str) -> String {
    server.process.signal(signal);
    assert!(
        server.process.wait(Duration::from_secs(30)).is_some(),
        "it does not end"
    );
    fs::read_to_string(&server.log).unwrap()
}

/// A server by a file that has `before` and `after` around its listener for phones.
fn start_by_file(folder: &Path, port: u16, before: &str, after: &str) -> Server {
    let config = format!(
        "version = 1\ndata = \"data\"\ndomains = [\"{DOMAIN}\"]\nworkers = 2\n\
         {before}[[listen]]\non = \"udp:127.0.0.1:{port}\"\n{after}"
    );
    Server::start_with_config(folder, &config, ([127, 0, 0, 1], port).into())
}

/// A folder with the users alice and bob, where no server runs yet.
fn users_alone(name: &str) -> TestDir {
    let folder = TestDir::new(name);
    let data = folder.path().join("data");
    for user in ["alice", "bob"] {
        add_user(&data, user, DOMAIN, &format!("{user}-secret"));
    }
    folder
}

/// Who is registered, as the running server says.
fn bindings(folder: &Path) -> String {
    let config = folder.join("signet.toml");
    succeed(&["bindings", "--config", text(&config)], "")
}

fn folder_with_users(name: &str, ports: &Ports) -> (TestDir, Server) {
    let folder = TestDir::new(name);
    let server = start(folder.path(), ports);
    for user in ["alice", "bob"] {
        server.add_user(user, DOMAIN, &format!("{user}-secret"));
    }
    (folder, server)
}

#[test]
fn a_call_survives_a_restart_and_a_kill() {
    let ports = Ports {
        main: free_port(),
        websocket: free_port(),
    };
    let (folder, mut server) = folder_with_users("restart", &ports);
    let mode = server.data.join("tokens.keys").metadata().unwrap().mode();
    assert_eq!(mode & 0o777, 0o600);
    for signal in ["-TERM", "-KILL"] {
        let mut alice = Phone::udp(server.udp, "alice", DOMAIN);
        let mut bob = Phone::udp(server.udp, "bob", DOMAIN);
        alice.register();
        bob.register();
        let mut calling = alice.invite("bob");
        let (mut called, _) = bob.answer();
        alice.accepted(&mut calling);
        server = restart(server, signal, folder.path(), &ports);
        alice.acknowledge(&mut calling);
        bob.acknowledged(&called);
        // Both ways, as a phone does that has been moved or holds the call.
        alice.invite_again(&mut calling);
        bob.accept_again(&called);
        alice.established(&mut calling);
        bob.acknowledged(&called);
        server = restart(server, signal, folder.path(), &ports);
        bob.invite_again(&mut called);
        alice.accept_again(&calling);
        bob.established(&mut called);
        alice.acknowledged(&calling);
        bob.hang_up(&mut called);
        alice.ended(&calling);
        bob.hung_up(&called);
    }
}

#[test]
fn a_phone_that_connects_again_after_a_restart_keeps_its_call() {
    let ports = Ports {
        main: free_port(),
        websocket: free_port(),
    };
    let (folder, server) = folder_with_users("restart-connected", &ports);
    let at = SocketAddr::from(([127, 0, 0, 1], ports.websocket));
    let mut alice = Phone::websocket(at, "alice", DOMAIN);
    let mut bob = Phone::udp(server.udp, "bob", DOMAIN);
    alice.register();
    bob.register();
    // She calls, and he does; each hangs up once.
    let mut calling = alice.invite("bob");
    let (mut called, _) = bob.answer();
    alice.established(&mut calling);
    bob.acknowledged(&called);
    let mut calling_her = bob.invite("alice");
    let (called_by_him, _) = alice.answer();
    bob.established(&mut calling_her);
    alice.acknowledged(&called_by_him);
    let server = restart(server, "-TERM", folder.path(), &ports);
    alice.reconnect(at);
    alice.register();
    bob.hang_up(&mut called);
    alice.ended(&calling);
    bob.hung_up(&called);
    bob.hang_up(&mut calling_her);
    alice.ended(&called_by_him);
    bob.hung_up(&calling_her);
    drop(server);
}

#[test]
fn phones_are_called_by_their_flows_when_the_listeners_have_another_order() {
    let folder = users_alone("restart-order");
    let (at, port, websocket) = (folder.path(), free_port(), free_port());
    let nat = "nat = \"always\"\n";
    let server = start_by_file(at, port, "", nat);
    let mut alice = Phone::udp(server.udp, "alice", DOMAIN);
    let mut bob = Phone::udp(server.udp, "bob", DOMAIN);
    alice.register();
    bob.register();
    let on_flows = || bindings(at).matches(", on its flow").count();
    assert_eq!(on_flows(), 2, "{}", bindings(at));
    end(server, "-TERM");

    let first = format!("[[listen]]\non = \"ws:127.0.0.1:{websocket}\"\n");
    let server = start_by_file(at, port, &first, nat);
    assert_eq!(on_flows(), 2, "{}", bindings(at));
    let mut calling = alice.invite("bob");
    let (mut called, _) = bob.answer();
    alice.established(&mut calling);
    bob.acknowledged(&called);
    bob.hang_up(&mut called);
    alice.ended(&calling);
    bob.hung_up(&called);
    let log = end(server, "-TERM");
    assert!(!log.contains("where no listener is now"), "{log}");
}

#[test]
fn what_was_stored_does_not_come_back_after_a_time_without_durable() {
    let folder = users_alone("restart-durable");
    let (at, port) = (folder.path(), free_port());
    let start = |durable: &str| {
        let registrar = format!("[registrar]\ndurable = {durable}\n");
        start_by_file(at, port, "", &registrar)
    };
    let server = start("true");
    Phone::udp(server.udp, "alice", DOMAIN).register();
    assert!(bindings(at).contains("alice@"), "{}", bindings(at));
    end(server, "-TERM");

    let server = start("false");
    assert_eq!(bindings(at), "nobody has contacts\n");
    Phone::udp(server.udp, "bob", DOMAIN).register();
    assert!(bindings(at).contains("bob@"), "{}", bindings(at));
    let log = end(server, "-TERM");
    assert!(log.contains("registrar.durable is false"), "{log}");

    let server = start("true");
    assert_eq!(bindings(at), "nobody has contacts\n");
    drop(server);
}
