//! The HA1s of a user as JSON: `{"MD5": "HEX", "SHA-256": "HEX", "SHA-512-256": "HEX"}`.

use sip_auth::{Algorithm, Ha1, Secrets};
use sip_lookup::BadRow;
use zeroize::{Zeroize, Zeroizing};

/// Reads the text of one user.
pub(crate) fn read(text: &[u8]) -> Result<Secrets, BadRow> {
    let mut value = serde_json::from_slice(text).map_err(|error| {
        BadRow::Bad(format!(
            "what is kept of him is not JSON: {}",
            place(&error)
        ))
    })?;
    let secrets = from_value(&value);
    wipe(&mut value);
    secrets
}

/// Takes what is known from an object; algorithms of others' may stand beside.
pub(crate) fn from_value(value: &serde_json::Value) -> Result<Secrets, BadRow> {
    let object = value.as_object().ok_or_else(|| {
        BadRow::Bad("what is kept of him is not a JSON object of HA1s".to_owned())
    })?;
    let mut secrets = Secrets::default();
    for algorithm in Algorithm::ALL {
        let Some(digits) = object.get(algorithm.as_str()) else {
            continue;
        };
        if digits.is_null() {
            continue;
        }
        let ha1 = digits
            .as_str()
            .and_then(|digits| Ha1::from_hex(algorithm, digits.as_bytes()))
            .ok_or_else(|| {
                BadRow::Bad(format!(
                    "has an HA1 for {} that is not {} hexadecimal digits",
                    algorithm.as_str(),
                    2 * algorithm.digest_len()
                ))
            })?;
        secrets.insert(ha1);
    }
    Ok(secrets)
}

/// Writes those that are there.
pub(crate) fn write(secrets: &Secrets) -> Zeroizing<Vec<u8>> {
    // Room for all, so that nothing is left behind where it was too small.
    let mut out = Zeroizing::new(Vec::with_capacity(256));
    out.push(b'{');
    for algorithm in Algorithm::ALL {
        let Some(ha1) = secrets.get(algorithm) else {
            continue;
        };
        let before: &[u8] = if out.len() > 1 { b",\"" } else { b"\"" };
        out.extend_from_slice(before);
        out.extend_from_slice(algorithm.as_str().as_bytes());
        out.extend_from_slice(b"\":\"");
        for byte in ha1.expose() {
            for digit in [byte >> 4, byte & 15] {
                out.push(match digit {
                    0..=9 => b'0' + digit,
                    _ => b'a' - 10 + digit,
                });
            }
        }
        out.push(b'"');
    }
    out.push(b'}');
    out
}

/// Wipes all strings in a value.
pub(crate) fn wipe(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::String(text) => text.zeroize(),
        serde_json::Value::Array(items) => items.iter_mut().for_each(wipe),
        serde_json::Value::Object(fields) => fields.values_mut().for_each(wipe),
        _ => {}
    }
}

/// Where JSON ends to be JSON, without what is there.
pub(crate) fn place(error: &serde_json::Error) -> String {
    format!("line {}, column {}", error.line(), error.column())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use sip_auth::Ha1Set;

    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let set = Ha1Set::compute(b"alice", b"example.org", b"secret");
        let text = write(&set.clone().into());
        assert!(text.capacity() == 256, "it never moved");
        let secrets = read(&text).unwrap();
        for algorithm in Algorithm::ALL {
            assert_eq!(secrets.get(algorithm), Some(set.get(algorithm)));
        }
    }

    #[test]
    fn some_algorithms_are_enough_and_others_are_passed_over() {
        let text = br#"{"MD5":"0123456789ABCDEF0123456789abcdef","SHA-256":null,"X":[1]}"#;
        let secrets = read(text).unwrap();
        assert!(secrets.get(Algorithm::Md5).is_some());
        assert!(secrets.get(Algorithm::Sha256).is_none());
    }

    #[test]
    fn a_user_may_have_none() {
        for text in ["{}", r#"{"md5":"0123456789abcdef0123456789abcdef"}"#] {
            assert_eq!(read(text.as_bytes()), Ok(Secrets::default()));
        }
    }

    #[test]
    fn a_bad_row_is_described_and_not_shown() {
        for text in [
            "",
            "0123456789abcdef0123456789abcdef",
            r#""0123456789abcdef0123456789abcdef""#,
            "[]",
            "{",
            r#"{"MD5":"deadbeef"}"#,
            r#"{"MD5":"deadbeefdeadbeefdeadbeefdeadbeeg"}"#,
            r#"{"MD5":1}"#,
        ] {
            let why = read(text.as_bytes()).unwrap_err().to_string();
            assert!(!why.contains("deadbeef") && !why.contains("0123"), "{why}");
        }
    }
}
