//! Contact (RFC 3261 20.10).

use crate::Uri;
use crate::header::number::{delta_seconds, q_thousandths};
use crate::header::{NameAddr, Params};

/// One element of Contact.
// It lives on the stack, for as long as it is looked at.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Copy, Debug)]
pub enum Contact<'a> {
    /// `*`: all of them (RFC 3261 10.2.2).
    Star,
    /// An address.
    Addr(ContactAddr<'a>),
}

/// An address of Contact with the parameters that a registrar and a proxy read.
#[derive(Clone, Copy, Debug)]
pub struct ContactAddr<'a> {
    /// The address.
    pub addr: NameAddr<'a>,
    /// The URI, parsed.
    pub uri: Uri<'a>,
    /// In thousandths; 1000 where it is absent or makes no sense.
    pub q: u16,
    /// The `expires` parameter, where there is one.
    pub expires_s: Option<u32>,
}

impl<'a> Contact<'a> {
    /// Parses one element.
    pub fn parse(value: &'a [u8]) -> Option<Self> {
        if value == b"*" {
            return Some(Self::Star);
        }
        let addr = NameAddr::parse(value)?;
        let uri = addr.uri()?;
        let mut contact = ContactAddr {
            addr,
            uri,
            q: 1000,
            expires_s: None,
        };
        for param in Params::new(addr.params, 0) {
            let value = param.value.unwrap_or_default();
            if param.name.eq_ignore_ascii_case(b"q") {
                contact.q = q_thousandths(value).unwrap_or(1000);
            } else if param.name.eq_ignore_ascii_case(b"expires") {
                // RFC 3261 10.2.1.1: "Malformed values SHOULD be treated as equivalent to 3600."
                contact.expires_s = Some(delta_seconds(value).unwrap_or(3600));
            }
        }
        Some(Self::Addr(contact))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: &str) -> Option<(u16, Option<u32>)> {
        match Contact::parse(value.as_bytes())? {
            Contact::Star => None,
            Contact::Addr(contact) => Some((contact.q, contact.expires_s)),
        }
    }

    #[test]
    fn parameters() {
        assert_eq!(read("<sip:a@b>"), Some((1000, None)));
        assert_eq!(read("<sip:a@b>;q=0.33;expires=60"), Some((330, Some(60))));
        assert_eq!(
            read("\"x\" <sip:a@b> ; newparam =\r\n x ;\r\n y ; q = 0.1"),
            Some((100, None))
        );
        assert_eq!(
            read("<sip:a@b>;q=7;expires=280297596632815"),
            Some((1000, Some(u32::MAX)))
        );
        // RFC 3261 10.2.1.1: "Malformed values SHOULD be treated as equivalent to 3600."
        assert_eq!(read("<sip:a@b>;expires=soon"), Some((1000, Some(3600))));
    }

    #[test]
    fn star_and_refusals() {
        assert!(matches!(Contact::parse(b"*"), Some(Contact::Star)));
        for bad in [
            "",
            "**",
            "*;q=1",
            "sip:a@b?Route=%3Csip:c%3E",
            "<sip:>",
            "<sip:a@>",
        ] {
            assert!(Contact::parse(bad.as_bytes()).is_none(), "{bad}");
        }
    }
}
