//! stunnel: each service's connections in TLS, one port after the other.

use std::net::Ipv4Addr;

use signet_bed::certificates::Kind;

use super::driver::{AtHand, Counted, End, PORTS, Up, words};
use super::kind::Suite;
use super::link::FAR;

/// What is added to a service's port for the port where its TLS is.
const TLS: u16 = 10_000;

pub(super) fn make(at_hand: &AtHand<'_>, suite: Suite) -> Result<Up, String> {
    let mut members = Vec::new();
    for end in End::BOTH {
        let name = format!("stunnel-{}.conf", end.name());
        let file = at_hand
            .folder
            .put(&name, &configuration(at_hand, end, suite))?;
        members.push(at_hand.start(end, "stunnel", &words(&[&file]))?);
    }
    Ok(Up {
        to: Ipv4Addr::LOCALHOST,
        at: Ipv4Addr::LOCALHOST,
        members,
        counted: Counted::Log(at_hand.log(End::Near), carried),
        says: String::new(),
        by: None,
    })
}

fn configuration(at_hand: &AtHand<'_>, end: End, suite: Suite) -> String {
    let mut text = String::from(
        "foreground = yes\npid =\ndebug = notice\nsocket = l:TCP_NODELAY=1\nsocket = r:TCP_NODELAY=1\n",
    );
    text.push_str(match suite {
        Suite::Gcm => "sslVersion = TLSv1.3\nciphersuites = TLS_AES_128_GCM_SHA256\n",
        Suite::CbcSha1 => "sslVersion = TLSv1.2\nciphers = ECDHE-ECDSA-AES128-SHA\n",
    });
    for port in PORTS {
        let (plain, tls) = (
            format!("{}:{port}", Ipv4Addr::LOCALHOST),
            format!("{FAR}:{}", port + TLS),
        );
        text.push_str(&match end {
            End::Near => format!(
                "[port-{port}]\nclient = yes\naccept = {plain}\nconnect = {tls}\n\
                 verifyChain = yes\ncheckIP = {FAR}\nCAfile = {}\n",
                at_hand.certificates.root()
            ),
            End::Far => format!(
                "[port-{port}]\naccept = {tls}\nconnect = {plain}\ncert = {}\nkey = {}\n",
                at_hand.certificates.chain(Kind::P256),
                at_hand.certificates.key(Kind::P256)
            ),
        });
    }
    text
}

/// What a line says of a connection that has ended, both ways.
fn carried(line: &str) -> Option<u64> {
    let (_, rest) = line.split_once("Connection ")?;
    // It is closed, or reset.
    let (_, counts) = rest.split_once(": ")?;
    let (to_tls, rest) = counts.split_once(" byte(s) sent to TLS, ")?;
    let (to_socket, _) = rest.split_once(" byte(s) sent to socket")?;
    Some(to_tls.trim().parse::<u64>().ok()? + to_socket.trim().parse::<u64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_carried_is_in_the_log() {
        let line = "2026.11.23 22:14:57 LOG5[0]: Connection closed: 40 byte(s) sent to TLS, 2 byte(s) sent to socket";
        assert_eq!(carried(line), Some(42));
        let reset = line.replace("closed", "reset");
        assert_eq!(carried(&reset), Some(42));
        for other in [
            "",
            "LOG5[0]: Service [port-5201] accepted connection",
            "Connection closed: x",
        ] {
            assert_eq!(carried(other), None, "{other}");
        }
    }
}
