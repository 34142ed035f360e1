//! Columns of a result, found by their names.

use sip_auth::{Algorithm, Ha1, Secrets};
use sip_lookup::BadRow;

/// Where in a row what is needed stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Columns {
    user: usize,
    realm: Option<usize>,
    secrets: Vec<(usize, Algorithm)>,
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
    /// is the one algorithm, or MD5. An error says what is missing.
    pub(crate) fn find<'a>(
        names: impl Iterator<Item = &'a str>,
        algorithms: &[Algorithm],
    ) -> Result<Self, String> {
        let plain = match algorithms {
            [only] => *only,
            _ => Algorithm::Md5,
        };
        let (mut user, mut realm, mut secrets) = (None, None, Vec::new());
        for (at, name) in names.enumerate() {
            let algorithm = match name.to_ascii_lowercase().as_str() {
                "username" | "user" => {
                    user = user.or(Some(at));
                    continue;
                }
                "realm" | "domain" => {
                    realm = realm.or(Some(at));
                    continue;
                }
                "ha1" => plain,
                "ha1_md5" => Algorithm::Md5,
                "ha1_sha256" => Algorithm::Sha256,
                "ha1_sha512_256" => Algorithm::Sha512_256,
                _ => continue,
            };
            if algorithms.contains(&algorithm) {
                secrets.push((at, algorithm));
            }
        }
        let user = user.ok_or("the statement for users has no column called username")?;
        for algorithm in algorithms {
            if !secrets.iter().any(|(_, has)| has == algorithm) {
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

    /// Which columns are read, to see that they are text or bytes.
    pub(crate) fn used(&self) -> impl Iterator<Item = usize> {
        let secrets = self.secrets.iter().map(|(at, _)| *at);
        [Some(self.user), self.realm]
            .into_iter()
            .flatten()
            .chain(secrets)
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
        for &(at, algorithm) in &self.secrets {
            let Some(digest) = value(at) else {
                continue;
            };
            match (ha1(algorithm, digest), &mut secrets) {
                (Some(ha1), Ok(secrets)) => secrets.insert(ha1),
                (Some(_), Err(_)) => {}
                (None, secrets) => {
                    *secrets = Err(BadRow(format!(
                        "what is kept as HA1 for {} is no digest of it",
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

/// A digest, as bytes or in hexadecimal digits: their lengths differ.
fn ha1(algorithm: Algorithm, digest: &[u8]) -> Option<Ha1> {
    Ha1::from_bytes(algorithm, digest).or_else(|| Ha1::from_hex(algorithm, digest))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    const MD5: [Algorithm; 1] = [Algorithm::Md5];

    #[test]
    fn found_by_name_whatever_their_order() {
        let names = ["id", "HA1", "Domain", "username", "ha1_sha256"];
        let columns = Columns::find(names.into_iter(), &MD5).unwrap();
        assert_eq!(columns.used().collect::<Vec<_>>(), [3, 2, 1]);
        let sha = [Algorithm::Sha256];
        let columns = Columns::find(["user", "ha1"].into_iter(), &sha).unwrap();
        assert_eq!(columns.secrets, [(1, Algorithm::Sha256)]);
    }

    #[test]
    fn what_is_missing_is_named() {
        let error = Columns::find(["ha1"].into_iter(), &MD5).unwrap_err();
        assert!(error.contains("username"), "{error}");
        let error = Columns::find(["username", "ha1"].into_iter(), &Algorithm::ALL).unwrap_err();
        assert!(error.contains("SHA-512-256"), "{error}");
    }

    #[test]
    fn digests_are_bytes_or_digits_and_nothing_else() {
        let columns = Columns::find(["username", "ha1"].into_iter(), &MD5).unwrap();
        let read = |digest: Option<&'static [u8]>| {
            columns
                .read(&[Some(b"alice"), digest])
                .unwrap()
                .secrets
                .map(|secrets| secrets.get(Algorithm::Md5).is_some())
        };
        assert_eq!(read(Some(&[7; 16])), Ok(true));
        assert_eq!(read(Some(b"00112233445566778899aabbccddeeff")), Ok(true));
        assert_eq!(read(None), Ok(false));
        for damaged in [
            b"".as_slice(),
            b"secret",
            &[7; 15],
            b"00112233445566778899aabbccddeefg",
        ] {
            assert!(read(Some(damaged)).is_err(), "{damaged:?}");
        }
    }

    #[test]
    fn a_row_without_a_name_or_realm_is_nobodys() {
        let columns = Columns::find(["username", "realm", "ha1"].into_iter(), &MD5).unwrap();
        for values in [
            [None, Some(b"r".as_slice()), None],
            [Some(b"u"), None, None],
        ] {
            assert!(columns.read(&values).is_none());
        }
        assert!(columns.read(&[]).is_none());
    }
}
