//! What SIP really does: TLS handshakes and records by the server's own TLS, digest
//! authentication, S/MIME, and the key operations below them.

mod digest;
mod handshake;
pub mod keys;
mod made;
mod records;
mod smime;
mod text;
mod tls;

use std::collections::BTreeMap;

use signet_bed::Error;

use crate::record::{Item, Missed};
use crate::timing::Job;

pub use text::{is_sip, table, told};

/// The families of names that are here.
pub const FAMILIES: [&str; 5] = [
    "handshake",
    "handshake-keys",
    "tls-record",
    "digest",
    "smime",
];

/// Those of them that are priced by size.
pub const SIZED_FAMILIES: [&str; 2] = ["tls-record", "smime"];

/// Whose code TLS, keys and S/MIME are.
const AWS_LC: &str = "aws-lc";
/// Whose code the hashes of digest authentication are.
const RUSTCRYPTO: &str = "rustcrypto";

/// The work of these families, all where none is named; TLS records and S/MIME bodies of these
/// sizes in bytes. And what this build cannot do.
///
/// # Errors
/// A name that is no family, or what could not be made ready.
pub fn jobs(sizes_bytes: &[u64], families: &[&str]) -> Result<(Vec<Job>, Vec<Missed>), Error> {
    if let Some(unknown) = families.iter().find(|name| !FAMILIES.contains(name)) {
        return Err(Error::new(
            format!("there is no family {unknown:?} of SIP's work"),
            format!("write one of: {}", FAMILIES.join(", ")),
        ));
    }
    let wants = |name: &str| families.is_empty() || families.contains(&name);
    let (mut jobs, mut missed) = (Vec::new(), Vec::new());
    if wants("handshake") {
        handshake::jobs(&mut jobs)?;
    }
    if wants("handshake-keys") {
        keys::jobs(&mut jobs)?;
    }
    if wants("tls-record") {
        records::jobs(sizes_bytes, &mut jobs, &mut missed)?;
    }
    if wants("digest") {
        digest::jobs(&mut jobs)?;
    }
    if wants("smime") {
        smime::jobs(sizes_bytes, &mut jobs)?;
    }
    Ok((jobs, missed))
}

/// An item without points. Its family is the first word of its name.
fn item(
    name: String,
    algorithms: &[&str],
    labels: &[(&str, &str)],
    provider: &str,
    operation: &str,
) -> Item {
    let labels: BTreeMap<String, String> = labels
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    Item {
        family: name.split('/').next().unwrap_or_default().to_owned(),
        name,
        algorithms: algorithms.iter().map(|name| (*name).to_owned()).collect(),
        labels,
        provider: provider.to_owned(),
        operation: operation.to_owned(),
        ..Item::default()
    }
}

/// An error that no input can lead to.
fn fault(what: &str, why: impl std::fmt::Display) -> Error {
    Error::new(
        format!("{what}: {why}"),
        "this is a fault of this program; report it with the command",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Clock;
    use crate::timing::{Timing, run};

    /// Runs a family's work a few times and gives its items.
    fn timed(family: &str) -> Vec<Item> {
        let timing = Timing {
            batch_ns: 1,
            rounds: 3,
            ..Timing::default()
        };
        let (jobs, missed) = jobs(&[64, 700, 1_400], &[family]).unwrap();
        assert!(missed.iter().all(|missed| missed.name.starts_with(family)));
        run(jobs, &timing, &Clock::default(), &mut |_, _| {}).unwrap()
    }

    fn check(family: &str, names: usize, operations: &[&str]) {
        let items = timed(family);
        assert_eq!(items.len(), names, "{family}");
        for item in &items {
            assert_eq!(item.family, family);
            assert!(operations.contains(&item.operation.as_str()), "{item:?}");
            assert!(
                item.points.iter().all(|point| point.median_ns > 0.0),
                "{item:?}"
            );
        }
    }

    #[test]
    fn every_handshake_is_done_and_each_side_counted_apart() {
        // Four keys and three groups in TLS 1.3, one group in 1.2, and the two groups that P-256
        // alone has; three ways; two sides.
        check(
            "handshake",
            (4 * (3 + 1) + 2) * 3 * 2,
            &["client", "server"],
        );
    }

    #[test]
    fn every_key_operation_is_done() {
        check("handshake-keys", 4 * 3, &["server"]);
    }

    #[test]
    fn every_suite_carries_records_of_every_size() {
        let items = timed("tls-record");
        let suites = sip_tls::SUITE_NAMES.len();
        assert_eq!(items.len(), 2 * suites);
        assert!(
            items
                .iter()
                .all(|item| item.points.len() == 3 && item.line.is_some())
        );
    }

    #[test]
    fn every_algorithm_of_digest_is_challenged_answered_and_checked() {
        check("digest", 3 * 3, &["challenge", "answer", "check"]);
    }

    #[test]
    fn bodies_are_signed_verified_encrypted_and_decrypted() {
        // Of each key, signatures, and encryption by each cipher.
        check(
            "smime",
            2 * (2 + 2 * 4),
            &["sign", "verify", "encrypt", "decrypt"],
        );
    }

    #[test]
    fn what_is_no_family_is_refused_with_those_that_are() {
        let told = jobs(&[64], &["telepathy"])
            .map(|_| ())
            .unwrap_err()
            .to_string();
        assert!(
            told.contains("telepathy") && told.contains("tls-record"),
            "{told}"
        );
    }
}
