//! strongSwan with ESP in user space (`libipsec`): packets come from a TUN device and leave in
//! UDP, and the kernel has no part in it but that.

use super::driver::{AtHand, Counted, End, Up, must_be, words};
use super::kind::STARTER;
use super::link::{FAR, FAR_WITHIN, NEAR, NEAR_WITHIN, secret};

/// The device that the daemon makes.
const DEVICE: &str = "ipsec0";
/// What a log says once the connection is known.
const READY: &str = "added configuration 'tunnel'";
/// Bytes of the secret that both ends prove they know.
const SECRET_BYTES: usize = 32;

pub(super) fn make(at_hand: &AtHand<'_>, esp: &str, says: &str) -> Result<Up, String> {
    must_be(
        "/dev/net/tun",
        "take a kernel with CONFIG_TUN (modprobe tun)",
    )?;
    at_hand.link.address_within()?;
    let secret = secret(SECRET_BYTES)?;
    let mut members = Vec::new();
    for end in End::BOTH {
        let file = |name: &str| format!("strongswan-{}-{name}", end.name());
        let secrets = at_hand.folder.put(
            &file("ipsec.secrets"),
            &format!("{NEAR} {FAR} : PSK 0x{secret}\n"),
        )?;
        let settings = at_hand
            .folder
            .put(&file("strongswan.conf"), &settings(&secrets))?;
        let connections = at_hand
            .folder
            .put(&file("ipsec.conf"), &connection(end, esp))?;
        // Sockets and ids of processes have fixed names below /run, and each end needs its own.
        let script = "mount -t tmpfs tmpfs /run && exec env STRONGSWAN_CONF=\"$1\" \"$2\" --nofork --conf \"$3\"";
        let script = ["-c", script, "sh", &settings, STARTER, &connections];
        let mut member = at_hand.start(end, "sh", &words(&script))?;
        // Whoever is asked before it knows its connection refuses, and is not asked again.
        at_hand.wait_for(end, &mut member, READY)?;
        members.push(member);
    }
    Ok(Up {
        says: format!("selected proposal: ESP:{says}"),
        ..Up::within(members, Counted::Device(DEVICE.to_owned()))
    })
}

/// What the daemon loads, and where its secrets are. What is not named here is not there, what
/// else is configured on this machine neither.
fn settings(secrets: &str) -> String {
    format!(
        "charon {{\n  load = random nonce aes sha1 sha2 hmac kdf gmp socket-default \
         kernel-libipsec kernel-netlink stroke\n  plugins {{\n    stroke {{\n      \
         secrets_file = {secrets}\n    }}\n  }}\n  filelog {{\n    stderr {{\n      default = 1\n    }}\n  }}\n}}\n"
    )
}

fn connection(end: End, esp: &str) -> String {
    let (left, left_within, right, right_within) = match end {
        End::Near => (NEAR, NEAR_WITHIN, FAR, FAR_WITHIN),
        End::Far => (FAR, FAR_WITHIN, NEAR, NEAR_WITHIN),
    };
    // The far end is there by the time that the near one begins.
    let begins = match end {
        End::Near => "start",
        End::Far => "add",
    };
    format!(
        "config setup\n\nconn tunnel\n  keyexchange=ikev2\n  type=tunnel\n  authby=secret\n  \
         left={left}\n  leftsubnet={left_within}/32\n  right={right}\n  rightsubnet={right_within}/32\n  \
         ike=aes128-sha256-modp2048!\n  esp={esp}!\n  forceencaps=yes\n  mobike=no\n  \
         keyingtries=%forever\n  auto={begins}\n"
    )
}
