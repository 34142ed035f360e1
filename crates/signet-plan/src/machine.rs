//! Which machine this is, so that a profile of it is told from those of machines alike.

use std::fs;

use aws_lc_rs::hmac;

/// What identifiers are hashed with: a profile that is passed on does not tell the machine's own,
/// which machine-id(5) asks to keep.
const KEY: &[u8] = b"signet-plan-profile";
/// Where machines have it.
const PLACES: [&str; 2] = ["/etc/machine-id", "/var/lib/dbus/machine-id"];
/// Its length, in hexadecimal digits.
const DIGITS: usize = 32;

/// A name for this machine that is made of its identifier and does not tell it; `None` where it
/// has none.
pub fn this() -> Option<String> {
    PLACES
        .iter()
        .find_map(|place| name(&fs::read_to_string(place).ok()?))
}

fn name(text: &str) -> Option<String> {
    let id = text.trim();
    // It has the word "uninitialized" on a machine that starts for the first time.
    if id.len() != DIGITS || !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let key = hmac::Key::new(hmac::HMAC_SHA256, KEY);
    let tag = hmac::sign(&key, id.as_bytes());
    let half = tag.as_ref().first_chunk::<16>()?;
    Some(format!("{:032x}", u128::from_be_bytes(*half)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_the_machines_own_and_not_its_identifier() {
        let [one, other] = ["0123456789abcdef0123456789abcdef\n", &"f".repeat(32)];
        let named = name(one).unwrap();
        assert_eq!(name(one.trim()), Some(named.clone()));
        assert_ne!(name(other).unwrap(), named);
        assert!(!named.contains("0123456789abcdef"), "{named}");
    }

    #[test]
    fn what_is_no_identifier_names_nothing() {
        for text in ["", "uninitialized\n", "0123", &"g".repeat(32)] {
            assert_eq!(name(text), None, "{text}");
        }
    }
}
