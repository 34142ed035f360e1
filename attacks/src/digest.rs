//! The answer to a digest challenge (RFC 7616), with qop `auth`.

use md5::{Digest, Md5};
use sha2::Sha256;

/// A name and a password.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    pub(crate) user: String,
    pub(crate) password: String,
}

impl Account {
    pub(crate) fn new(user: &str, password: &str) -> Self {
        Self {
            user: user.to_owned(),
            password: password.to_owned(),
        }
    }
}

/// A challenge, as far as it is needed.
#[derive(Clone, Debug)]
pub(crate) struct Challenge {
    realm: String,
    nonce: String,
    opaque: Option<String>,
    algorithm: Option<String>,
    has_qop: bool,
}

impl Challenge {
    /// Reads the value of WWW-Authenticate or Proxy-Authenticate; `None` where
    /// the algorithm is not known here.
    pub(crate) fn read(value: &str) -> Option<Self> {
        let rest = value.trim().strip_prefix("Digest")?;
        let algorithm = parameter(rest, "algorithm");
        if let Some(name) = &algorithm
            && !["MD5", "SHA-256"]
                .iter()
                .any(|k| name.eq_ignore_ascii_case(k))
        {
            return None;
        }
        Some(Self {
            realm: parameter(rest, "realm")?,
            nonce: parameter(rest, "nonce")?,
            opaque: parameter(rest, "opaque"),
            algorithm,
            has_qop: parameter(rest, "qop").is_some(),
        })
    }

    /// The value of Authorization or Proxy-Authorization for the n-th use of
    /// the nonce.
    pub(crate) fn answer(&self, account: &Account, method: &str, uri: &str, count: u32) -> String {
        let cnonce = format!("{:08x}", crate::wire::unique());
        let response = self.response(account, method, uri, &format!("{count:08x}"), &cnonce);
        let mut value = format!(
            "Digest username=\"{}\", realm=\"{}\", nonce=\"{}\", uri=\"{uri}\", response=\"{response}\"",
            account.user, self.realm, self.nonce
        );
        if let Some(algorithm) = &self.algorithm {
            value.push_str(&format!(", algorithm={algorithm}"));
        }
        if let Some(opaque) = &self.opaque {
            value.push_str(&format!(", opaque=\"{opaque}\""));
        }
        if self.has_qop {
            value.push_str(&format!(", qop=auth, cnonce=\"{cnonce}\", nc={count:08x}"));
        }
        value
    }

    fn response(
        &self,
        account: &Account,
        method: &str,
        uri: &str,
        count: &str,
        cnonce: &str,
    ) -> String {
        let ha1 = self.hash(&format!(
            "{}:{}:{}",
            account.user, self.realm, account.password
        ));
        let ha2 = self.hash(&format!("{method}:{uri}"));
        if self.has_qop {
            self.hash(&format!("{ha1}:{}:{count}:{cnonce}:auth:{ha2}", self.nonce))
        } else {
            self.hash(&format!("{ha1}:{}:{ha2}", self.nonce))
        }
    }

    fn hash(&self, text: &str) -> String {
        match &self.algorithm {
            Some(name) if name.eq_ignore_ascii_case("SHA-256") => hex(&Sha256::digest(text)),
            _ => hex(&Md5::digest(text)),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether credentials were computed from the password of an account, under whatever realm
/// and nonce.
pub(crate) fn is_proof(value: &str, account: &Account, method: &str) -> bool {
    let response = parameter(value, "response");
    response.is_some() && expected(value, account, method) == response
}

/// What the response in credentials is where they are an account's; `None` where something is
/// missing in them.
pub(crate) fn expected(value: &str, account: &Account, method: &str) -> Option<String> {
    let get = |name| parameter(value, name);
    let uri = get("uri")?;
    let challenge = Challenge {
        realm: get("realm")?,
        nonce: get("nonce")?,
        opaque: None,
        algorithm: get("algorithm"),
        has_qop: get("qop").is_some(),
    };
    let (count, cnonce) = (
        get("nc").unwrap_or_default(),
        get("cnonce").unwrap_or_default(),
    );
    Some(challenge.response(account, method, &uri, &count, &cnonce))
}

/// The value of a parameter, without its quotes.
pub(crate) fn parameter(text: &str, name: &str) -> Option<String> {
    let lower = text.to_ascii_lowercase();
    let pattern = format!("{name}=");
    let mut from = 0;
    let at = loop {
        let at = from + lower.get(from..)?.find(&pattern)?;
        // `nonce=` is also the end of `cnonce=`.
        let before = lower.as_bytes().get(at.wrapping_sub(1)).copied();
        if before.is_none_or(|c| !c.is_ascii_alphanumeric()) {
            break at + pattern.len();
        }
        from = at + pattern.len();
    };
    let rest = text.get(at..)?;
    match rest.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next().map(str::to_owned),
        None => rest
            .split([',', ' '])
            .next()
            .map(|value| value.trim().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_of_rfc_2617_without_qop() {
        let challenge = Challenge::read(
            "Digest realm=\"testrealm@host.com\", nonce=\"dcd98b7102dd2f0e8b11d0f600bfb0c093\", opaque=\"o\"",
        );
        let account = Account::new("Mufasa", "Circle Of Life");
        let value = challenge
            .unwrap()
            .answer(&account, "GET", "/dir/index.html", 1);
        // The same inputs without qop: RFC 2069's form, computed by hand.
        assert!(
            value.contains("response=\"670fd8c2df070c60b045671b8b24ff02\""),
            "{value}"
        );
    }

    #[test]
    fn what_was_computed_from_a_password_is_told_from_what_was_not() {
        for end in ["", ", qop=\"auth\"", ", qop=\"auth\", algorithm=SHA-256"] {
            let asked = format!("Digest realm=\"r\", nonce=\"n\"{end}");
            let (right, wrong) = (Account::new("a", "b"), Account::new("a", "c"));
            let challenge = Challenge::read(&asked).unwrap();
            let value = challenge.answer(&right, "BYE", "sip:x@y", 3);
            assert!(is_proof(&value, &right, "BYE"), "{value}");
            assert!(!is_proof(&value, &wrong, "BYE"), "{value}");
            assert!(!is_proof(&value, &right, "INVITE"), "{value}");
        }
    }

    #[test]
    fn parameters_are_found_by_their_whole_names() {
        let text = " cnonce=\"c\", nonce=\"n\", qop=\"auth,auth-int\", algorithm=SHA-256";
        assert_eq!(parameter(text, "nonce").unwrap(), "n");
        assert_eq!(parameter(text, "algorithm").unwrap(), "SHA-256");
        assert_eq!(parameter(text, "qop").unwrap(), "auth,auth-int");
        assert!(
            Challenge::read("Digest realm=\"r\", nonce=\"n\", algorithm=SHA-512-256").is_none()
        );
    }
}
