//! Calls that were up before a restart: their ACK, re-INVITE and BYE pass
//! without a password, through the real program.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use crate::support::phone::Phone;
use crate::support::{Server, TestDir, free_port};

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

fn restart(mut server: Server, signal: &str, folder: &Path, ports: &Ports) -> Server {
    server.process.signal(signal);
    assert!(
        server.process.wait(Duration::from_secs(30)).is_some(),
        "it does not end"
    );
    drop(server);
    start(folder, ports)
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
