//! The bare primitives beside what `openssl speed` says of the same.

use std::process::{Command, Stdio};

use signet_bed::Error;

use crate::record::{Check, Item, PriceRecord};

/// How long openssl runs each.
const SECONDS: &str = "1";

/// Which arguments of `openssl speed` measure a primitive.
fn arguments(primitive: &str) -> Option<&'static [&'static str]> {
    const LEGACY: [&str; 4] = ["-provider", "legacy", "-provider", "default"];
    const DES: [&str; 6] = [
        LEGACY[0], LEGACY[1], LEGACY[2], LEGACY[3], "-evp", "des-cbc",
    ];
    const BLOWFISH: [&str; 6] = [LEGACY[0], LEGACY[1], LEGACY[2], LEGACY[3], "-evp", "bf-cbc"];
    let arguments: &'static [&'static str] = match primitive {
        "aes-128-cbc" => &["-evp", "aes-128-cbc"],
        "aes-192-cbc" => &["-evp", "aes-192-cbc"],
        "aes-256-cbc" => &["-evp", "aes-256-cbc"],
        "3des-cbc" => &["-evp", "des-ede3-cbc"],
        "des-cbc" => &DES,
        "blowfish-128-cbc" => &BLOWFISH,
        // With an IV and a tag for each, as ESP has them; but not ChaCha20, see [`Check::sentence`].
        "aes-128-gcm" => &["-aead", "-evp", "aes-128-gcm"],
        "aes-256-gcm" => &["-aead", "-evp", "aes-256-gcm"],
        "chacha20-poly1305" => &["-aead", "-evp", "chacha20-poly1305"],
        "hmac-md5-96" => &["-hmac", "md5"],
        "hmac-sha1-96" => &["-hmac", "sha1"],
        "hmac-sha-256-128" => &["-hmac", "sha256"],
        _ => return None,
    };
    Some(arguments)
}

/// The program that [`check`] compares with, by its name and version.
///
/// # Errors
/// There is no `openssl` to be run.
pub fn openssl() -> Result<String, Error> {
    version().ok_or_else(|| {
        Error::new(
            "there is no program openssl to compare with",
            "install it (apt-get install openssl), or leave --check-openssl out",
        )
    })
}

/// Runs openssl of this version for every primitive of a record, in the size that is nearest to
/// 1400 bytes.
pub fn check(record: &PriceRecord, version: &str, told: &mut dyn FnMut(&str)) -> Vec<Check> {
    let mut known: Vec<(String, u64, Option<f64>)> = Vec::new();
    let mut checks = Vec::new();
    for item in record.items.iter().filter(|item| is_compared(item)) {
        let nearest = item
            .points
            .iter()
            .min_by_key(|point| point.size_bytes.abs_diff(1_400));
        let Some(point) = nearest else { continue };
        let primitive = item.name.trim_start_matches("primitive/").to_owned();
        let Some(arguments) = arguments(&primitive) else {
            continue;
        };
        let size_bytes = point.size_bytes;
        let same = |(name, bytes, _): &&(String, u64, Option<f64>)| {
            *name == primitive && *bytes == size_bytes
        };
        let found = known.iter().find(same).map(|(_, _, openssl)| *openssl);
        let openssl = match found {
            Some(openssl) => openssl,
            None => {
                told(&primitive);
                let openssl = speed(arguments, size_bytes);
                known.push((primitive.clone(), size_bytes, openssl));
                openssl
            }
        };
        checks.push(Check {
            primitive,
            provider: item.provider.clone(),
            size_bytes,
            here_mbit_per_s: point.mbit_per_s(),
            there_mbit_per_s: openssl,
            there: version.to_owned(),
        });
    }
    checks
}

/// openssl measures encrypting.
fn is_compared(item: &Item) -> bool {
    item.family == "primitive" && item.operation != "decrypt"
}

/// The first line of `openssl version`, without what it says of its library.
pub(super) fn version() -> Option<String> {
    let output = Command::new("openssl").arg("version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().next()?.split('(').next()?.trim();
    (!line.is_empty()).then(|| line.to_owned())
}

/// Megabits a second; `None` where this openssl does not have it.
fn speed(arguments: &[&str], size_bytes: u64) -> Option<f64> {
    let output = Command::new("openssl")
        .arg("speed")
        .args(arguments)
        .args(["-bytes", &size_bytes.to_string(), "-seconds", SECONDS])
        .stderr(Stdio::null())
        .output()
        .ok()?;
    mbit_per_s(&String::from_utf8_lossy(&output.stdout))
}

/// The figure in the last line: thousands of bytes a second, with a `k` behind it.
fn mbit_per_s(text: &str) -> Option<f64> {
    let word = text.lines().rev().find_map(|line| {
        let word = line.split_whitespace().last()?;
        word.strip_suffix('k')
    })?;
    let kilobytes_per_s: f64 = word.parse().ok()?;
    (kilobytes_per_s > 0.0).then_some(kilobytes_per_s * 8.0 / 1_000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figure_is_read_from_the_last_line() {
        let text = "version: 3.0.11\noptions: bn(64,64)\n\
                    The 'numbers' are in 1000s of bytes per second processed.\n\
                    type           1400 bytes\nAES-128-GCM    3981250.00k\n";
        assert_eq!(mbit_per_s(text), Some(31_850.0));
        assert_eq!(mbit_per_s("type  1400 bytes\nhmac(md5)   0.00k\n"), None);
        assert_eq!(mbit_per_s(""), None);
    }

    #[test]
    fn every_primitive_but_the_longer_blowfish_is_known_there() {
        let missing: Vec<&str> = super::super::subject::Subject::all()
            .filter_map(|subject| subject.primitive())
            .filter(|primitive| arguments(primitive).is_none())
            .collect();
        assert_eq!(missing, ["blowfish-192-cbc"]);
    }
}
