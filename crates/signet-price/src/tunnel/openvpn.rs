//! OpenVPN: two peers with certificates, over UDP and TUN, in user space.

use signet_bed::certificates::Kind;

use super::driver::{AtHand, Counted, End, Up, must_be, words};
use super::link::{FAR, FAR_WITHIN, NEAR, NEAR_WITHIN};

const PORT: u16 = 1_194;
const DEVICE: &str = "tun0";

pub(super) fn make(
    at_hand: &AtHand<'_>,
    cipher: &str,
    auth: &str,
    is_legacy: bool,
) -> Result<Up, String> {
    must_be(
        "/dev/net/tun",
        "take a kernel with CONFIG_TUN (modprobe tun)",
    )?;
    let mut members = Vec::new();
    for end in End::BOTH {
        let mut text = configuration(at_hand, end);
        text.push_str(&format!(
            "data-ciphers {cipher}\ndata-ciphers-fallback {cipher}\nauth {auth}\n"
        ));
        if is_legacy {
            text.push_str("providers legacy default\n");
        }
        let file = at_hand
            .folder
            .put(&format!("openvpn-{}.conf", end.name()), &text)?;
        members.push(at_hand.start(end, "openvpn", &words(&["--config", &file]))?);
    }
    Ok(Up {
        says: format!("cipher={cipher}\n"),
        ..Up::within(members, Counted::Device(DEVICE.to_owned()))
    })
}

fn configuration(at_hand: &AtHand<'_>, end: End) -> String {
    let certificates = at_hand.certificates;
    let own = match end {
        End::Near => format!(
            "tls-client\nlocal {NEAR}\nremote {FAR} {PORT}\nlport {PORT}\nifconfig {NEAR_WITHIN} {FAR_WITHIN}\n\
             remote-cert-eku \"TLS Web Server Authentication\"\n"
        ),
        End::Far => format!(
            "tls-server\ndh none\nlocal {FAR}\nremote {NEAR} {PORT}\nlport {PORT}\nifconfig {FAR_WITHIN} {NEAR_WITHIN}\n\
             remote-cert-eku \"TLS Web Client Authentication\"\n"
        ),
    };
    // Without the kernel's data channel: what is measured is the program.
    format!(
        "dev {DEVICE}\ndev-type tun\nproto udp4\ndisable-dco\nverb 3\nca {}\ncert {}\nkey {}\n{own}",
        certificates.root(),
        certificates.chain(Kind::P256),
        certificates.key(Kind::P256)
    )
}
