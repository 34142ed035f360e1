//! Header field names and their compact forms (RFC 3261 7.3.3, 20).

/// A header that this project reads; all others are [`HeaderName::Other`].
/// Compact forms map to the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum HeaderName {
    Via,
    From,
    To,
    CallId,
    CSeq,
    MaxForwards,
    Contact,
    Route,
    RecordRoute,
    ContentLength,
    ContentType,
    Expires,
    MinExpires,
    Require,
    ProxyRequire,
    Supported,
    Unsupported,
    Allow,
    Accept,
    UserAgent,
    Server,
    Authorization,
    ProxyAuthorization,
    WwwAuthenticate,
    ProxyAuthenticate,
    AuthenticationInfo,
    Path,
    ServiceRoute,
    MaxBreadth,
    PAssertedIdentity,
    PPreferredIdentity,
    RetryAfter,
    Date,
    Subject,
    Timestamp,
    Warning,
    ContentEncoding,
    Event,
    Privacy,
    // RFC 3261 8.2.2: "If a UAS does not understand a header field in a request (that is, the header
    // field is not defined in this specification or in any supported extension), the server MUST ignore
    // that header field and continue processing the message."
    Other,
}

impl HeaderName {
    /// How many names there are, [`HeaderName::Other`] included.
    pub const COUNT: usize = Self::Other as usize + 1;

    /// The name in its usual spelling; empty for [`HeaderName::Other`].
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Via => "Via",
            Self::From => "From",
            Self::To => "To",
            Self::CallId => "Call-ID",
            Self::CSeq => "CSeq",
            Self::MaxForwards => "Max-Forwards",
            Self::Contact => "Contact",
            Self::Route => "Route",
            Self::RecordRoute => "Record-Route",
            Self::ContentLength => "Content-Length",
            Self::ContentType => "Content-Type",
            Self::Expires => "Expires",
            Self::MinExpires => "Min-Expires",
            Self::Require => "Require",
            Self::ProxyRequire => "Proxy-Require",
            Self::Supported => "Supported",
            Self::Unsupported => "Unsupported",
            Self::Allow => "Allow",
            Self::Accept => "Accept",
            Self::UserAgent => "User-Agent",
            Self::Server => "Server",
            Self::Authorization => "Authorization",
            Self::ProxyAuthorization => "Proxy-Authorization",
            Self::WwwAuthenticate => "WWW-Authenticate",
            Self::ProxyAuthenticate => "Proxy-Authenticate",
            Self::AuthenticationInfo => "Authentication-Info",
            Self::Path => "Path",
            Self::ServiceRoute => "Service-Route",
            Self::MaxBreadth => "Max-Breadth",
            Self::PAssertedIdentity => "P-Asserted-Identity",
            Self::PPreferredIdentity => "P-Preferred-Identity",
            Self::RetryAfter => "Retry-After",
            Self::Date => "Date",
            Self::Subject => "Subject",
            Self::Timestamp => "Timestamp",
            Self::Warning => "Warning",
            Self::ContentEncoding => "Content-Encoding",
            Self::Event => "Event",
            Self::Privacy => "Privacy",
            Self::Other => "",
        }
    }

    /// Reads a name, whatever its case (RFC 3261 7.3.1), compact or not.
    // RFC 3261 7.3.3: "Implementations MUST accept both the long and short forms of each header name."
    pub fn from_token(name: &[u8]) -> Self {
        // Most come in the usual spelling, which one look settles.
        if let Some(found) = usual(name) {
            return found;
        }
        let mut lower = [0u8; LONGEST];
        let Some(lower) = lower.get_mut(..name.len()) else {
            return Self::Other;
        };
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        lowered(lower).unwrap_or(Self::Other)
    }

    /// Whether the header's value is a list at whose commas it may be split,
    /// so that two fields and one with a comma mean the same
    /// (RFC 3261 7.3.1; the authentication headers are its exceptions).
    pub const fn is_list(self) -> bool {
        matches!(
            self,
            Self::Via
                | Self::Contact
                | Self::Route
                | Self::RecordRoute
                | Self::Require
                | Self::ProxyRequire
                | Self::Supported
                | Self::Unsupported
                | Self::Allow
                | Self::Accept
                | Self::Path
                | Self::ServiceRoute
                | Self::PAssertedIdentity
                | Self::PPreferredIdentity
                | Self::Warning
                | Self::ContentEncoding
        )
    }

    /// A set of names is a `u64`.
    pub(crate) const fn bit(self) -> u64 {
        const { assert!(Self::COUNT <= 64) };
        1 << self as u32
    }
}

/// The compact form of a name that has no [`HeaderName`] of its own (RFC 3515,
/// 3841, 3892, 4028, 4474, 6665, 8224).
pub(crate) fn compact_form(name: &str) -> Option<&'static [u8]> {
    const FORMS: [(&str, &[u8]); 9] = [
        ("Refer-To", b"r"),
        ("Referred-By", b"b"),
        ("Session-Expires", b"x"),
        ("Allow-Events", b"u"),
        ("Accept-Contact", b"a"),
        ("Reject-Contact", b"j"),
        ("Request-Disposition", b"d"),
        ("Identity", b"y"),
        ("Identity-Info", b"n"),
    ];
    let found = FORMS
        .iter()
        .find(|(long, _)| long.eq_ignore_ascii_case(name))?;
    Some(found.1)
}

const LONGEST: usize = "p-preferred-identity".len();

fn usual(name: &[u8]) -> Option<HeaderName> {
    use HeaderName as N;
    Some(match name {
        b"Via" | b"v" => N::Via,
        b"From" | b"f" => N::From,
        b"To" | b"t" => N::To,
        b"Call-ID" | b"i" => N::CallId,
        b"CSeq" => N::CSeq,
        b"Max-Forwards" => N::MaxForwards,
        b"Contact" | b"m" => N::Contact,
        b"Route" => N::Route,
        b"Record-Route" => N::RecordRoute,
        b"Content-Length" | b"l" => N::ContentLength,
        b"Content-Type" | b"c" => N::ContentType,
        b"Expires" => N::Expires,
        b"Supported" | b"k" => N::Supported,
        b"Allow" => N::Allow,
        b"User-Agent" => N::UserAgent,
        b"Subject" | b"s" => N::Subject,
        b"Authorization" => N::Authorization,
        b"Proxy-Authorization" => N::ProxyAuthorization,
        _ => return None,
    })
}

fn lowered(name: &[u8]) -> Option<HeaderName> {
    use HeaderName as N;
    Some(match name {
        b"via" | b"v" => N::Via,
        b"from" | b"f" => N::From,
        b"to" | b"t" => N::To,
        b"call-id" | b"i" => N::CallId,
        b"cseq" => N::CSeq,
        b"max-forwards" => N::MaxForwards,
        b"contact" | b"m" => N::Contact,
        b"route" => N::Route,
        b"record-route" => N::RecordRoute,
        b"content-length" | b"l" => N::ContentLength,
        b"content-type" | b"c" => N::ContentType,
        b"expires" => N::Expires,
        b"min-expires" => N::MinExpires,
        b"require" => N::Require,
        b"proxy-require" => N::ProxyRequire,
        b"supported" | b"k" => N::Supported,
        b"unsupported" => N::Unsupported,
        b"allow" => N::Allow,
        b"accept" => N::Accept,
        b"user-agent" => N::UserAgent,
        b"server" => N::Server,
        b"authorization" => N::Authorization,
        b"proxy-authorization" => N::ProxyAuthorization,
        b"www-authenticate" => N::WwwAuthenticate,
        b"proxy-authenticate" => N::ProxyAuthenticate,
        b"authentication-info" => N::AuthenticationInfo,
        b"path" => N::Path,
        b"service-route" => N::ServiceRoute,
        b"max-breadth" => N::MaxBreadth,
        b"p-asserted-identity" => N::PAssertedIdentity,
        b"p-preferred-identity" => N::PPreferredIdentity,
        b"retry-after" => N::RetryAfter,
        b"date" => N::Date,
        b"subject" | b"s" => N::Subject,
        b"timestamp" => N::Timestamp,
        b"warning" => N::Warning,
        b"content-encoding" | b"e" => N::ContentEncoding,
        b"event" | b"o" => N::Event,
        b"privacy" => N::Privacy,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_in_any_case() {
        let mut seen = 0;
        let names = [
            "Via",
            "From",
            "To",
            "Call-ID",
            "CSeq",
            "Max-Forwards",
            "Contact",
            "Route",
            "Record-Route",
            "Content-Length",
            "Content-Type",
            "Expires",
            "Min-Expires",
            "Require",
            "Proxy-Require",
            "Supported",
            "Unsupported",
            "Allow",
            "Accept",
            "User-Agent",
            "Server",
            "Authorization",
            "Proxy-Authorization",
            "WWW-Authenticate",
            "Proxy-Authenticate",
            "Authentication-Info",
            "Path",
            "Service-Route",
            "Max-Breadth",
            "P-Asserted-Identity",
            "P-Preferred-Identity",
            "Retry-After",
            "Date",
            "Subject",
            "Timestamp",
            "Warning",
            "Content-Encoding",
            "Event",
            "Privacy",
        ];
        for name in names {
            let found = HeaderName::from_token(name.as_bytes());
            assert_eq!(found.as_str(), name);
            assert_eq!(
                HeaderName::from_token(name.to_uppercase().as_bytes()),
                found
            );
            assert_eq!(
                HeaderName::from_token(name.to_lowercase().as_bytes()),
                found
            );
            assert_eq!(found as usize, seen, "{name} is out of the enum's order");
            seen += 1;
        }
        assert_eq!(seen + 1, HeaderName::COUNT);
    }

    #[test]
    fn compact_forms_are_the_long_ones() {
        // RFC 3261 7.3.3: "SIP provides a mechanism to represent common header field names in an
        // abbreviated form."
        for (compact, long) in [
            ("v", HeaderName::Via),
            ("f", HeaderName::From),
            ("t", HeaderName::To),
            ("i", HeaderName::CallId),
            ("m", HeaderName::Contact),
            ("l", HeaderName::ContentLength),
            ("c", HeaderName::ContentType),
            ("k", HeaderName::Supported),
            ("s", HeaderName::Subject),
            ("e", HeaderName::ContentEncoding),
            ("o", HeaderName::Event),
        ] {
            // RFC 3261 7.3.3: "Implementations MUST accept both the long and short forms of each header
            // name."
            assert_eq!(HeaderName::from_token(compact.as_bytes()), long);
            assert_eq!(
                HeaderName::from_token(compact.to_uppercase().as_bytes()),
                long
            );
        }
    }

    #[test]
    fn strangers_are_other() {
        for name in [
            "",
            "x",
            "Vi",
            "Vias",
            "C%6Fntact",
            "P-Preferred-Identity-",
            "X-Custom",
        ] {
            assert_eq!(
                HeaderName::from_token(name.as_bytes()),
                HeaderName::Other,
                "{name}"
            );
        }
    }
}
