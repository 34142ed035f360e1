//! Equality of URIs (RFC 3261 19.1.4; tel: RFC 3966 4).

use super::parts::{Part, Parts, canonical, fold_case};
use super::{Scheme, Uri, aor};

impl Uri<'_> {
    /// Equality of RFC 3261 19.1.4. It is not transitive.
    pub fn equals(&self, other: &Uri<'_>) -> bool {
        // RFC 3261 19.1.4: "A SIP and SIPS URI are never equivalent."
        if self.scheme != other.scheme {
            return false;
        }
        match self.scheme {
            Scheme::Sip | Scheme::Sips => {}
            Scheme::Tel => return tel_equals(self, other),
            Scheme::Other => return self.raw == other.raw,
        }
        // RFC 3261 19.1.4: "Comparison of the userinfo of SIP and SIPS URIs is case-sensitive. This
        // includes userinfo containing passwords or formatted as telephone-subscribers."
        same_or_absent(self.user, other.user)
            && same_or_absent(self.password, other.password)
            && same_host(self, other)
            && self.host_port.port == other.host_port.port
            && params_match(self.params, other.params)
            && headers_match(self.headers, other.headers)
    }
}

/// Parameters that count even where only one URI has them.
// RFC 3261 19.1.4: "A user, ttl, or method uri-parameter appearing in only one URI never matches, even
// if it contains the default value." and "A URI that includes an maddr parameter will not match a URI
// that contains no maddr parameter." and, of omitted components, "The same is true for the
// transport-parameter, ttl-parameter, user-parameter, and method components."
const NEVER_IGNORED: [&str; 5] = ["user", "ttl", "method", "maddr", "transport"];

fn same_or_absent(left: Option<&[u8]>, right: Option<&[u8]>) -> bool {
    match (left, right) {
        (None, None) => true,
        (Some(left), Some(right)) => left == right || canonical(left).eq(canonical(right)),
        _ => false,
    }
}

fn same_host(left: &Uri<'_>, right: &Uri<'_>) -> bool {
    let (left, right) = (left.host_port, right.host_port);
    // Two spellings of one IPv6 address are one host; a name is never an address.
    left.host.eq_ignore_ascii_case(right.host)
        || (left.host.first() == Some(&b'[') && left.ip().is_some() && left.ip() == right.ip())
}

fn same_text(left: &[u8], right: &[u8]) -> bool {
    left.eq_ignore_ascii_case(right)
        || canonical(left)
            .map(fold_case)
            .eq(canonical(right).map(fold_case))
}

fn find<'a>(mut parts: Parts<'a>, name: &[u8]) -> Option<Part<'a>> {
    parts.find(|p| same_text(p.name, name))
}

fn params_match(left: &[u8], right: &[u8]) -> bool {
    let one_way = |left, right| {
        Parts::params(left).all(|param| match find(Parts::params(right), param.name) {
            Some(twin) => same_text(param.value, twin.value) && param.has_value == twin.has_value,
            // RFC 3261 19.1.4: "All other uri-parameters appearing in only one URI are ignored when
            // comparing the URIs."
            None => !NEVER_IGNORED
                .iter()
                .any(|name| same_text(param.name, name.as_bytes())),
        })
    };
    left == right || (one_way(left, right) && one_way(right, left))
}

fn headers_match(left: &[u8], right: &[u8]) -> bool {
    // RFC 3261 19.1.4: "URI header components are never ignored. Any present header component MUST be
    // present in both URIs and match for the URIs to match."
    let one_way = |left, right| {
        Parts::headers(left).all(|header| {
            find(Parts::headers(right), header.name)
                .is_some_and(|twin| canonical(header.value).eq(canonical(twin.value)))
        })
    };
    let count = |headers| Parts::headers(headers).count();
    left == right || (count(left) == count(right) && one_way(left, right) && one_way(right, left))
}

fn tel_equals(left: &Uri<'_>, right: &Uri<'_>) -> bool {
    let number = |uri: &Uri<'_>| uri.user.is_some_and(|n| n.first() == Some(&b'+'));
    // RFC 3966 4: global and local numbers never match; visual separators do not count; parameters are
    // compared in any order and none is ignored.
    let params = |left: &Uri<'_>, right: &Uri<'_>| {
        left.params().all(|p| {
            find(right.params(), p.name).is_some_and(|twin| same_text(p.value, twin.value))
        })
    };
    number(left) == number(right)
        && aor::phone_digits(left.user.unwrap_or_default())
            .eq(aor::phone_digits(right.user.unwrap_or_default()))
        && params(left, right)
        && params(right, left)
}
