//! The subscribers, in the form that each database takes fastest.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use sip_auth::{Algorithm, Ha1Set};

/// The domain and realm of all of them.
pub const DOMAIN: &str = "bench.test";
/// Their names, as the load counts them.
pub const NAME_PATTERN: &str = "user{n:07}";
/// Their passwords.
pub const PASSWORD_PATTERN: &str = "pw{n:07}";

/// A subscriber.
pub struct User {
    /// The user part of the address.
    pub name: String,
    ha1s: Ha1Set,
}

/// Name and password of so many of them, the first with number 1.
pub fn names(count: usize) -> impl Iterator<Item = (String, String)> {
    (1..=count).map(|number| (format!("user{number:07}"), format!("pw{number:07}")))
}

/// So many of them, the first with number 1.
pub fn users(count: usize) -> impl Iterator<Item = User> {
    names(count).map(|(name, password)| {
        let ha1s = Ha1Set::compute(name.as_bytes(), DOMAIN.as_bytes(), password.as_bytes());
        User { name, ha1s }
    })
}

impl User {
    /// The HA1 in hexadecimal digits.
    pub fn ha1(&self, algorithm: Algorithm) -> String {
        let bytes = self.ha1s.get(algorithm).expose();
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Writes a line for each of so many users.
///
/// # Errors
/// Names the file that cannot be written.
pub fn write(path: &Path, count: usize, line: impl Fn(&User) -> String) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    let mut file = BufWriter::new(File::create(path).map_err(failed)?);
    for user in users(count) {
        file.write_all(line(&user).as_bytes()).map_err(failed)?;
    }
    file.flush().map_err(failed)
}

/// Realm, name and the three HA1s between tabs: the columns of `signet_users`.
pub fn tabbed(user: &User, prefix: &str) -> String {
    format!(
        "{DOMAIN}\t{}\t{prefix}{}\t{prefix}{}\t{prefix}{}\n",
        user.name,
        user.ha1(Algorithm::Md5),
        user.ha1(Algorithm::Sha256),
        user.ha1(Algorithm::Sha512_256)
    )
}

/// A command of Redis's protocol, RESP.
pub fn resp(words: &[&str]) -> String {
    let mut text = format!("*{}\r\n", words.len());
    for word in words {
        text += &format!("${}\r\n{word}\r\n", word.len());
    }
    text
}

/// What Redis is told of a user.
pub fn redis(user: &User) -> String {
    let value = format!(
        "{{\"MD5\":\"{}\",\"SHA-256\":\"{}\",\"SHA-512-256\":\"{}\"}}",
        user.ha1(Algorithm::Md5),
        user.ha1(Algorithm::Sha256),
        user.ha1(Algorithm::Sha512_256)
    );
    resp(&[
        "SET",
        &format!("signet:user:{DOMAIN}:{}", user.name),
        &value,
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_load_and_digests_those_of_rfc_7616() {
        let all: Vec<User> = users(12).collect();
        let last = all.last().unwrap();
        assert_eq!(last.name, "user0000012");
        // printf user0000012:bench.test:pw0000012 | md5sum
        let md5 = "b138c547c3ee6a6884371db78d2ec04a";
        assert_eq!(last.ha1(Algorithm::Md5), md5);
        let columns = tabbed(last, "");
        let columns: Vec<&str> = columns.trim_end().split('\t').collect();
        assert_eq!(columns.len(), 5);
        assert_eq!(columns.get(..2), Some(&["bench.test", "user0000012"][..]));
        assert_eq!(columns.get(2), Some(&md5));
    }

    #[test]
    fn redis_is_spoken_to_by_lengths() {
        assert_eq!(
            resp(&["SET", "a:b", ""]),
            "*3\r\n$3\r\nSET\r\n$3\r\na:b\r\n$0\r\n\r\n"
        );
        let text = redis(&users(1).last().unwrap());
        assert!(
            text.contains("signet:user:bench.test:user0000001"),
            "{text}"
        );
        assert!(text.contains("{\"MD5\":\""), "{text}");
    }
}
