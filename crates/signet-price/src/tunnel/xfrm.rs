//! ESP of the kernel in tunnel mode, by keys that the run sets: no key exchange is measured.

use std::net::Ipv4Addr;

use super::driver::{AtHand, Counted, End, Up};
use super::kind::Esp;
use super::link::{DEVICE, FAR, FAR_WITHIN, NEAR, NEAR_WITHIN, secret};

/// AES-128 and its salt (RFC 4106), AES-128, and HMAC-SHA-1, in bytes of key.
const GCM_BYTES: usize = 20;
const AES_BYTES: usize = 16;
const SHA1_BYTES: usize = 20;

/// Packets behind the newest that are taken once. Left out, the kernel refuses none that comes
/// again, and no other tunnel here is without that.
const REPLAY_WINDOW: u32 = 64;

const REMEDY: &str =
    "take a kernel with CONFIG_INET_ESP, CONFIG_XFRM_USER and the algorithms (modprobe esp4)";

pub(super) fn make(at_hand: &AtHand<'_>, esp: Esp) -> Result<Up, String> {
    let there = keys(esp)?;
    let back = keys(esp)?;
    let failed = |why: String| {
        let why = without_keys(why.trim_end_matches('.'));
        format!("the kernel does not take ESP ({why}): {REMEDY}")
    };
    for end in End::BOTH {
        let namespace = at_hand.namespace(end);
        for (source, destination, spi, key) in
            [(NEAR, FAR, "0x101", &there), (FAR, NEAR, "0x102", &back)]
        {
            let state = state((source, destination), spi, key);
            namespace.ip(&state).map_err(failed)?;
        }
        for (source, destination, from, to) in [
            (NEAR_WITHIN, FAR_WITHIN, NEAR, FAR),
            (FAR_WITHIN, NEAR_WITHIN, FAR, NEAR),
        ] {
            let way = if (end == End::Near) == (from == NEAR) {
                "out"
            } else {
                "in"
            };
            let policy = format!(
                "xfrm policy add src {source}/32 dst {destination}/32 dir {way} \
                 tmpl src {from} dst {to} proto esp mode tunnel"
            );
            namespace.ip(&policy).map_err(failed)?;
        }
    }
    at_hand.link.address_within()?;
    for (end, to, by, from) in [
        (End::Near, FAR_WITHIN, FAR, NEAR_WITHIN),
        (End::Far, NEAR_WITHIN, NEAR, FAR_WITHIN),
    ] {
        let route = format!("route add {to}/32 via {by} dev {DEVICE} src {from}");
        at_hand.namespace(end).ip(&route)?;
    }
    Ok(Up::within(Vec::new(), Counted::Nowhere))
}

/// The command for one way.
fn state((source, destination): (Ipv4Addr, Ipv4Addr), spi: &str, key: &str) -> String {
    format!(
        "xfrm state add src {source} dst {destination} proto esp spi {spi} mode tunnel \
         replay-window {REPLAY_WINDOW} {key}"
    )
}

/// Algorithms and keys as `ip xfrm` takes them.
fn keys(esp: Esp) -> Result<String, String> {
    Ok(match esp {
        Esp::Gcm => format!("aead rfc4106(gcm(aes)) 0x{} 128", secret(GCM_BYTES)?),
        Esp::CbcSha1 => format!(
            "enc cbc(aes) 0x{} auth-trunc hmac(sha1) 0x{} 96",
            secret(AES_BYTES)?,
            secret(SHA1_BYTES)?
        ),
    })
}

/// What is told, and so kept, of a command: keys of a run are nowhere but in it.
fn without_keys(told: &str) -> String {
    // An SPI is shorter.
    let is_key = |word: &&str| word.starts_with("0x") && word.len() > 2 + 8;
    let words = told.split(' ');
    let words = words.map(|word| if is_key(&word) { "KEY" } else { word });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_is_told() {
        for esp in [Esp::Gcm, Esp::CbcSha1] {
            let line = state((NEAR, FAR), "0x101", &keys(esp).unwrap());
            assert!(line.contains(" replay-window 64 "), "{line}");
            let told = without_keys(&line);
            assert!(told.contains("KEY") && told.contains("0x101"), "{told}");
            assert_eq!(told.matches("0x").count(), 1, "{told}");
        }
    }
}
