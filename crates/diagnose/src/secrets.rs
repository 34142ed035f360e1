//! What of a file is not told again: an error goes to logs, and whoever reads those is not to read
//! the passwords that somebody wrote into the file by mistake.

use super::distance;

/// What stands in place of a secret, whatever its length.
const STARS: &str = "********";

/// Words in the names of keys whose values are secrets.
const SECRET_WORDS: [&str; 8] = [
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "secret",
    "token",
    "credential",
    "authorization",
];

/// How names end of keys that say where a secret is, or for how long it is good.
const NO_SECRET_ENDS: [&str; 3] = ["_file", "_env", "_s"];

/// How a private key begins, as all that is in PEM.
const PEM_BEGINS: &str = "-----BEGIN";

/// How a certificate begins, which everybody may see.
const CERTIFICATE_BEGINS: &str = "-----BEGIN CERTIFICATE";

/// The line at `line_start` of a text, without what is a secret in it. The value of a key that is
/// unknown may be one, whatever the key is called.
pub(crate) fn line(text: &str, line_start: usize, unknown_key: Option<&str>) -> String {
    let whole = text.get(line_start..).and_then(|rest| rest.lines().next());
    let whole = whole.unwrap_or("");
    if text.get(..line_start).is_some_and(is_inside_of_a_secret) {
        return STARS.to_owned();
    }
    let secret = secret_value(whole).into_iter();
    let secret = secret.chain(unknown_key.and_then(|key| value_of(whole, key)));
    match secret.min().and_then(|at| whole.get(..at)) {
        // What follows may be its rest, where quotes are missing.
        Some(front) => without_passwords(front, true) + STARS,
        None => without_passwords(whole, true),
    }
}

/// A sentence without the passwords of URLs and the private keys in it.
pub(crate) fn sentence(text: &str) -> String {
    without_passwords(text, false)
}

/// Whether the text ends within a text of several lines that is a secret.
fn is_inside_of_a_secret(before: &str) -> bool {
    ["\"\"\"", "'''"].iter().any(|mark| {
        let is_open = before.matches(mark).count() % 2 == 1;
        let opened = before.rfind(mark).and_then(|at| before.get(..at));
        let opened = opened.and_then(|front| front.lines().next_back());
        is_open && opened.is_some_and(|line| secret_value(line).is_some())
    })
}

/// Where the value begins of the first key in the line that is called as secrets are.
fn secret_value(line: &str) -> Option<usize> {
    let is_in_name = |sign: char| sign.is_alphanumeric() || matches!(sign, '_' | '-');
    let mut at = 0;
    while let Some(rest) = line.get(at..).filter(|rest| !rest.is_empty()) {
        let begin = at + rest.find(is_in_name)?;
        let rest = line.get(begin..)?;
        let end = begin
            + rest
                .find(|sign: char| !is_in_name(sign))
                .unwrap_or(rest.len());
        if is_secret_name(line.get(begin..end)?)
            && let Some(value) = value_behind(line, end)
        {
            return Some(value);
        }
        at = end;
    }
    None
}

/// Where the value begins of a key whose name ends at `end`: behind `=`, or `:` as other formats
/// have it.
fn value_behind(line: &str, end: usize) -> Option<usize> {
    let rest = line.get(end..)?;
    let sign = rest.trim_start_matches(['"', '\'', ' ', '\t']);
    let value = sign.strip_prefix(['=', ':'])?.trim_start();
    Some(line.len() - value.len())
}

/// Where the value of this key begins, unless that is a number or a yes or no.
fn value_of(line: &str, key: &str) -> Option<usize> {
    let is_plain = |value: &usize| {
        let given = line.get(*value..).unwrap_or("");
        let word = given.split([',', '}', ']', '#']).next().unwrap_or("");
        word.trim().parse::<f64>().is_ok() || matches!(word.trim(), "true" | "false")
    };
    line.match_indices(key)
        .filter_map(|(name, _)| value_behind(line, name + key.len()))
        .find(|value| !is_plain(value))
}

/// Whether the value of a key of this name is a secret, misspelt names included.
fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    if NO_SECRET_ENDS.iter().any(|end| name.ends_with(end)) {
        return false;
    }
    let is_misspelt = |word: &str| distance(word, "password") <= 2 || distance(word, "secret") <= 1;
    SECRET_WORDS.iter().any(|word| name.contains(word)) || name.split(['_', '-']).any(is_misspelt)
}

/// A text without the passwords of the URLs in it, and without private keys. A URL ends with the
/// quotes around it; `is_line` is for a line of a file, where it may have lost its slashes.
fn without_passwords(text: &str, is_line: bool) -> String {
    if let Some(front) = private_key(text).and_then(|at| text.get(..at)) {
        return without_passwords(front, is_line) + STARS;
    }
    text.split_inclusive(['"', '`', '\n'])
        .map(|part| without_password(part, is_line))
        .collect()
}

/// Where a private key begins.
fn private_key(text: &str) -> Option<usize> {
    let is_certificate = |at: usize| {
        let rest = text.get(at..).unwrap_or("");
        rest.starts_with(CERTIFICATE_BEGINS)
    };
    let mut begins = text.match_indices(PEM_BEGINS).map(|(at, _)| at);
    begins.find(|at| !is_certificate(*at))
}

fn without_password(part: &str, is_line: bool) -> String {
    hidden(part, is_line).unwrap_or_else(|| part.to_owned())
}

/// The part with stars where its URL has a password; `None` where it has none.
fn hidden(part: &str, is_line: bool) -> Option<String> {
    let user = match part.find("://") {
        Some(scheme) => scheme + 3,
        None if is_line => after_scheme(part),
        None => return None,
    };
    // A password may have an @ in it, and the last one is before the host.
    let host = user + part.get(user..)?.rfind('@')?;
    let password = user + part.get(user..host)?.find(':')? + 1;
    Some(format!(
        "{}{STARS}{}",
        part.get(..password)?,
        part.get(host..)?
    ))
}

/// Where the user of a URI begins that has no slashes, as `sip:alice@example.com`.
fn after_scheme(part: &str) -> usize {
    let Some((scheme, _)) = part.split_once(':') else {
        return 0;
    };
    let mut words = scheme.rsplit(|sign: char| !sign.is_ascii_alphanumeric());
    match words.next() {
        Some("sip" | "sips" | "tel") => scheme.len() + 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> String {
        line(text, 0, None)
    }

    #[test]
    fn passwords_in_urls_are_not_told() {
        for (written, shown) in [
            (
                r#"stores = ["mysql://u:S3cretPw@db.example.com/k"]"#,
                r#"stores = ["mysql://u:********@db.example.com/k"]"#,
            ),
            (
                "stores = ['mysql://u:S3/c@ret@db/k']",
                "stores = ['mysql://u:********@db/k']",
            ),
            (
                r#"url = "redis://:S3cret@db" # for now"#,
                r#"url = "redis://:********@db" # for now"#,
            ),
            (
                r#"url = "mysql:u:S3cret@db""#,
                r#"url = "mysql:********@db""#,
            ),
            (
                r#"to = "sip:alice:S3cret@h""#,
                r#"to = "sip:alice:********@h""#,
            ),
            (
                r#"a = ["http://u:S3@h", "http://v:S3@h"]"#,
                r#"a = ["http://u:********@h", "http://v:********@h"]"#,
            ),
            (
                r#"url = "https://h/p?token=S3cret&x=1""#,
                r#"url = "https://h/p?token=********"#,
            ),
        ] {
            assert_eq!(told(written), shown);
        }
        assert_eq!(
            sentence("the text \"mysql://u:S3cret@h/d\" stands where a list belongs"),
            "the text \"mysql://u:********@h/d\" stands where a list belongs"
        );
        assert_eq!(
            sentence("cannot read -----BEGIN PRIVATE KEY-----\nMII: no such file"),
            "cannot read ********"
        );
        assert_eq!(
            sentence("-----BEGIN CERTIFICATE-----\nMII\n-----BEGIN RSA PRIVATE KEY-----\nMII"),
            "-----BEGIN CERTIFICATE-----\nMII\n********"
        );
        let none = "a.pem: has no certificate in it (-----BEGIN CERTIFICATE-----)";
        assert_eq!(sentence(none), none);
    }

    #[test]
    fn values_of_secret_keys_are_not_told() {
        for (written, shown) in [
            (r#"password = "S3cret""#, "password = ********"),
            ("password = S3cret \"Pw", "password = ********"),
            (r#"pasword="S3cret""#, "pasword=********"),
            (
                r#"{ user = "x", auth_password = "S3", y = 1 }"#,
                r#"{ user = "x", auth_password = ********"#,
            ),
            (
                r#"headers = "Authorization: Bearer S3""#,
                "headers = \"Authorization: ********",
            ),
            (r#"key = "-----BEGIN PRIVATE KEY-----""#, "key = \"********"),
        ] {
            assert_eq!(told(written), shown);
        }
        let long = "secret = '''\nS3cret\n'''\n";
        assert_eq!(line(long, 13, None), "********");
        assert_eq!(
            line(r#"{ topin = 1, pin = "1234" }"#, 0, Some("pin")),
            "{ topin = 1, pin = ********"
        );
    }

    #[test]
    fn all_else_is_told_as_it_is_written() {
        for written in [
            r#"password_file = "db.password""#,
            "dialog_token_lifetime_s = \"x\"",
            r#"on = "udp:127.0.0.1:5060""#,
            r#"security = { certificate = "a.pem", key = "a.key" }"#,
            r#"uri = "sip:alice@example.com:5060""#,
            r#"url = "http://127.0.0.1:8090/""#,
            r#"stores = ["mysql://signet@db.example.com/kamailio"]"#,
            "secrets are not written here",
        ] {
            assert_eq!(told(written), written);
        }
        assert_eq!(
            line("expires_mni_s = 60", 0, Some("expires_mni_s")),
            "expires_mni_s = 60"
        );
        let long = "query = '''\nSELECT 1\n'''\n";
        assert_eq!(line(long, 12, None), "SELECT 1");
    }
}
