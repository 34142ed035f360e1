//! Whom the other end of a connection has proved to be.

/// What the certificate of a connection's peer proves, once its chain, its
/// time, its use and its revocation were looked at: a proof.
///
/// It can be made by [`VerifiedPeer::attest`] alone, which `clippy.toml`
/// forbids everywhere but where certificates are verified. No header and no
/// address leads to one.
#[derive(Debug, PartialEq, Eq)]
pub struct VerifiedPeer {
    domains: Vec<Box<str>>,
    uris: Vec<Box<str>>,
    not_after_unix_s: u64,
    is_client: bool,
}

impl VerifiedPeer {
    /// What a certificate proves that was verified just now: the domains that
    /// it speaks for (RFC 5922 7.1), all of its URIs, and when the first
    /// certificate of its chain ends. `is_client` says which side the peer was
    /// on.
    pub fn attest(
        domains: Vec<Box<str>>,
        uris: Vec<Box<str>>,
        not_after_unix_s: u64,
        is_client: bool,
    ) -> Self {
        Self {
            domains,
            uris,
            not_after_unix_s,
            is_client,
        }
    }

    /// The domains that it speaks for, in lower case. None of them is a wildcard.
    pub fn domains(&self) -> &[Box<str>] {
        &self.domains
    }

    /// Every URI in its subjectAltName, as it stands there.
    pub fn uris(&self) -> &[Box<str>] {
        &self.uris
    }

    /// When the first certificate of its chain ends, in seconds since 1970.
    pub const fn not_after_unix_s(&self) -> u64 {
        self.not_after_unix_s
    }

    /// Whether the peer opened the connection, and so was asked for its
    /// certificate; else this server opened it.
    pub const fn is_client(&self) -> bool {
        self.is_client
    }

    /// Whether it speaks for `domain`, whatever its case, compared whole.
    pub fn speaks_for(&self, domain: &[u8]) -> bool {
        let domain = domain.strip_suffix(b".").unwrap_or(domain);
        self.domains
            .iter()
            .any(|known| known.as_bytes().eq_ignore_ascii_case(domain))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::disallowed_methods, reason = "what it compares is the test")]
    fn domains_are_compared_whole() {
        let peer = VerifiedPeer::attest(vec!["example.net".into()], Vec::new(), 7, true);
        for (domain, speaks) in [
            ("example.net", true),
            ("EXAMPLE.net.", true),
            ("sip.example.net", false),
            ("net", false),
            ("example.net.evil", false),
            ("", false),
        ] {
            assert_eq!(peer.speaks_for(domain.as_bytes()), speaks, "{domain}");
        }
    }
}
