//! Columns of a result, found by their names.

use sip_auth::{Algorithm, Ha1, Secrets};
use sip_lookup::BadRow;

/// Where in a row what is needed stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Columns {
    user: usize,
    realm: Option<usize>,
    secrets: Vec<(usize, Algorithm, Kind)>,
}

/// What a column's values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Text: a digest in it is in hexadecimal digits.
    Text,
    /// Bytes: a digest in it is itself, or hexadecimal digits.
    Bytes,
    /// Numbers, dates and the like.
    Other,
}

/// One row, as far as it says whose it is.
pub(crate) struct Read<'a> {
    /// The user's name.
    pub(crate) user: &'a [u8],
    /// His realm, where the statement tells it.
    pub(crate) realm: Option<&'a [u8]>,
    /// What he has.
    pub(crate) secrets: Result<Secrets, BadRow>,
}

impl Columns {
    /// Finds them: `username` (or `user`), `realm` (or `domain`, may be missing), and
    /// `ha1_md5`, `ha1_sha256`, `ha1_sha512_256` for the algorithms that are wanted. `ha1`
    /// is the one algorithm, or MD5. An error says what is missing, or is no text.
    pub(crate) fn find<'a>(
        columns: impl Iterator<Item = (&'a str, Kind)>,
        algorithms: &[Algorithm],
    ) -> Result<Self, String> {
        let plain = match algorithms {
            [only] => *only,
            _ => Algorithm::Md5,
        };
        let (mut user, mut realm, mut secrets) = (None, None, Vec::new());
        for (at, (name, kind)) in columns.enumerate() {
            let mut secret = |algorithm| {
                if algorithms.contains(&algorithm) {
                    secrets.push((at, algorithm, kind));
                }
            };
            match name.to_ascii_lowercase().as_str() {
                "username" | "user" => user = user.or(Some(at)),
                "realm" | "domain" => realm = realm.or(Some(at)),
                "ha1" => secret(plain),
                "ha1_md5" => secret(Algorithm::Md5),
                "ha1_sha256" => secret(Algorithm::Sha256),
                "ha1_sha512_256" => secret(Algorithm::Sha512_256),
                _ => continue,
            }
            if kind == Kind::Other {
                return Err(format!(
                    "the column {} of the statement for users is not text: cast it to text",
                    name.escape_default()
                ));
            }
        }
        let user = user.ok_or("the statement for users has no column called username")?;
        for algorithm in algorithms {
            if !secrets.iter().any(|(_, has, _)| has == algorithm) {
                return Err(format!(
                    "the statement for users has no column with the HA1 for {}",
                    algorithm.as_str()
                ));
            }
        }
        Ok(Self {
            user,
            realm,
            secrets,
        })
    }

    /// Reads a row, a value for each column; `None` where it says no user.
    pub(crate) fn read<'a>(&self, values: &[Option<&'a [u8]>]) -> Option<Read<'a>> {
        let value = |at: usize| values.get(at).copied().flatten();
        let realm = match self.realm {
            // Nobody's realm is NULL: a row that leaves it out answers no question.
            Some(at) => Some(value(at)?),
            None => None,
        };
        let mut secrets = Ok(Secrets::default());
        for &(at, algorithm, kind) in &self.secrets {
            let Some(digest) = value(at).filter(|digest| !digest.is_empty()) else {
                continue;
            };
            match (ha1(algorithm, digest, kind), &mut secrets) {
                (Some(ha1), Ok(secrets)) => secrets.insert(ha1),
                (Some(_), Err(_)) => {}
                (None, secrets) => {
                    *secrets = Err(BadRow::Bad(format!(
                        "what is kept as HA1 for {} is not a digest of that algorithm",
                        algorithm.as_str()
                    )));
                }
            }
        }
        Some(Read {
            user: value(self.user)?,
            realm,
            secrets,
        })
    }
}

/// A digest in hexadecimal digits or, where a column can have them, as bytes: their lengths
/// differ. Half of the digits in a column of text are not taken for bytes.
fn ha1(algorithm: Algorithm, digest: &[u8], kind: Kind) -> Option<Ha1> {
    let digits = Ha1::from_hex(algorithm, digest);
    match kind {
        Kind::Bytes => digits.or_else(|| Ha1::from_bytes(algorithm, digest)),
        Kind::Text | Kind::Other => digits,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    const MD5: [Algorithm; 1] = [Algorithm::Md5];

    fn find(names: &[&str], algorithms: &[Algorithm], kind: Kind) -> Result<Columns, String> {
        Columns::find(names.iter().map(|name| (*name, kind)), algorithms)
    }

    #[test]
    fn found_by_name_whatever_their_order() {
        let names = ["id", "HA1", "Domain", "username", "ha1_sha256"];
        let columns = find(&names, &MD5, Kind::Text).unwrap();
        assert_eq!((columns.user, columns.realm), (3, Some(2)));
        assert_eq!(columns.secrets, [(1, Algorithm::Md5, Kind::Text)]);
        let columns = find(&["user", "ha1"], &[Algorithm::Sha256], Kind::Text).unwrap();
        assert_eq!(columns.secrets, [(1, Algorithm::Sha256, Kind::Text)]);
    }

    #[test]
    fn what_is_missing_is_named() {
        for (names, algorithms, kind, named) in [
            (["ha1", "x"], MD5.as_slice(), Kind::Text, "username"),
            (
                ["username", "ha1"],
                &Algorithm::ALL,
                Kind::Text,
                "SHA-512-256",
            ),
            (["username", "ha1"], &MD5, Kind::Other, "column username"),
        ] {
            let error = find(&names, algorithms, kind).unwrap_err();
            assert!(error.contains(named), "{error}");
        }
        // What is not looked at may be anything.
        let columns = [
            ("id", Kind::Other),
            ("user", Kind::Text),
            ("ha1", Kind::Bytes),
        ];
        assert!(Columns::find(columns.into_iter(), &MD5).is_ok());
    }

    #[test]
    fn digests_are_bytes_or_digits_and_nothing_else() {
        const DIGITS: &[u8] = b"00112233445566778899aabbccddeeff";
        let read = |kind, digest: Option<&'static [u8]>| {
            let columns = find(&["username", "ha1"], &MD5, kind).unwrap();
            let row = columns.read(&[Some(b"alice"), digest]).unwrap();
            row.secrets
                .map(|secrets| secrets.get(Algorithm::Md5).is_some())
        };
        for kind in [Kind::Text, Kind::Bytes] {
            assert_eq!(read(kind, Some(DIGITS)), Ok(true));
            assert_eq!(read(kind, None), Ok(false));
            assert_eq!(read(kind, Some(b"")), Ok(false));
            for damaged in [
                b"secret".as_slice(),
                &[7; 15],
                b"00112233445566778899aabbccddeefg",
            ] {
                assert!(read(kind, Some(damaged)).is_err(), "{damaged:?}");
            }
        }
        assert_eq!(read(Kind::Bytes, Some(&DIGITS[..16])), Ok(true));
        assert!(read(Kind::Text, Some(&DIGITS[..16])).is_err());
    }

    #[test]
    fn a_row_without_a_name_or_realm_is_nobodys() {
        let columns = find(&["username", "realm", "ha1"], &MD5, Kind::Text).unwrap();
        for values in [
            [None, Some(b"r".as_slice()), None],
            [Some(b"u"), None, None],
        ] {
            assert!(columns.read(&values).is_none());
        }
        assert!(columns.read(&[]).is_none());
    }
}
