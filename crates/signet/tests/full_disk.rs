//! A full disk: registrations are answered 500 with Retry-After, calls go on,
//! and nothing that was answered 200 is lost.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::collections::BTreeSet;
use std::time::Duration;

use sip_net::testing::uninterrupted;
use support::command::{Serving, succeed, text};
use support::{phone_socket, small_disk, with_small_disk};

/// Registrations that are tried at most; the disk is full long before.
const USERS_MAX: u32 = 5_000;

#[test]
fn nothing_acknowledged_is_lost() {
    with_small_disk("nothing_acknowledged_is_lost", || {
        let disk = small_disk();
        let data = disk.join("data");
        let arguments = [
            "--data",
            text(&data),
            "--listen",
            "udp:127.0.0.1:0",
            "--domain",
            "example.com",
            "--no-auth",
            "--metrics",
            "127.0.0.1:0",
        ];
        // The log has a folder beside the small disk: it must not fill that.
        let folder = support::TestDir::new("full-disk");
        let mut server = Serving::start(folder.path(), &data, &arguments);
        let phone = phone_socket("127.0.0.1");
        phone
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        let local = phone.local_addr().unwrap();

        let mut acknowledged = BTreeSet::new();
        let mut refused = 0;
        for user in 0..USERS_MAX {
            let request = format!(
                "REGISTER sip:example.com SIP/2.0\r\nVia: SIP/2.0/UDP {local};branch=z9hG4bKfull{user}\r\nMax-Forwards: 70\r\n\
                 From: <sip:u{user}@example.com>;tag=1\r\nTo: <sip:u{user}@example.com>\r\nCall-ID: {user}{}\r\n\
                 CSeq: 1 REGISTER\r\nContact: <sip:u{user}@{local}>\r\nContent-Length: 0\r\n\r\n",
                "x".repeat(500)
            );
            phone.send_to(request.as_bytes(), server.at("udp")).unwrap();
            let mut answer = [0; 65_535];
            let length = uninterrupted(|| phone.recv(&mut answer)).unwrap();
            let answer = String::from_utf8_lossy(&answer[..length]);
            if answer.starts_with("SIP/2.0 200 ") {
                acknowledged.insert(format!("sip:u{user}@example.com"));
            } else {
                assert!(
                    answer.starts_with("SIP/2.0 500 ") && answer.contains("\r\nRetry-After: "),
                    "{answer}"
                );
                refused += 1;
                if refused == 5 {
                    break;
                }
            }
        }
        assert_eq!(refused, 5, "the disk was never full");
        assert!(acknowledged.len() > 10);
        assert_eq!(server.options(), "SIP/2.0 200 OK");
        let ready = support::openssl::page(&disk, "/ready");
        assert!(ready.starts_with("HTTP/1.1 503 "), "{ready}");
        server.wait_for_log("make room on the disk");

        server.process.signal("-KILL");
        server.process.wait(Duration::from_secs(20)).unwrap();
        // Room again: what was answered is there.
        let status = std::process::Command::new("mount")
            .args(["-o", "remount,size=8m", text(&disk)])
            .status();
        assert!(status.unwrap().success());
        let listed = succeed(&["bindings", "--data", text(&data)], "");
        let found: BTreeSet<String> = listed
            .lines()
            .filter_map(|line| line.split(' ').next())
            .map(str::to_owned)
            .collect();
        assert!(
            acknowledged.is_subset(&found),
            "lost: {:?}",
            acknowledged.difference(&found)
        );
    });
}
