//! The canonical form of an address-of-record (RFC 3261 10.3 step 5).

use super::parts::unescaped;
use super::{Scheme, Uri};

impl Uri<'_> {
    /// Appends the canonical address-of-record (RFC 3261 10.3 step 5): scheme
    /// `sip` or `sips`, user unescaped, host in lower case, no parameters.
    ///
    /// Password, port and a host's final dot are left out: a user of a domain is
    /// the same one however the domain was reached. The last `@` separates, as
    /// an unescaped user may hold one and a host cannot.
    pub fn write_aor(&self, out: &mut Vec<u8>) {
        match self.scheme {
            Scheme::Sip => out.extend_from_slice(b"sip:"),
            Scheme::Sips => out.extend_from_slice(b"sips:"),
            Scheme::Tel => {
                out.extend_from_slice(b"tel:");
                out.extend(phone_digits(self.user.unwrap_or_default()));
                return;
            }
            Scheme::Other => {
                out.extend_from_slice(self.raw);
                return;
            }
        }
        if self.user.is_some() {
            self.write_user(out);
            out.push(b'@');
        }
        let host = self.host_port.host;
        let host = host.strip_suffix(b".").unwrap_or(host);
        out.extend(host.iter().map(u8::to_ascii_lowercase));
    }

    /// Appends the user, unescaped.
    pub fn write_user(&self, out: &mut Vec<u8>) {
        // RFC 3261 10.3: "The URI MUST then be converted to a canonical form.  To do that, all URI
        // parameters MUST be removed (including the user-param), and any escaped characters MUST be
        // converted to their unescaped form."
        out.extend(self.user_bytes());
    }

    /// The user's bytes, unescaped; none where there is no user.
    pub fn user_bytes(&self) -> impl Iterator<Item = u8> + '_ {
        unescaped(self.user.unwrap_or_default()).map(|(byte, _)| byte)
    }
}

/// A telephone number without its visual separators (RFC 3966 4), in lower case.
pub(crate) fn phone_digits(number: &[u8]) -> impl Iterator<Item = u8> + '_ {
    number
        .iter()
        .filter(|b| !b"-.()".contains(b))
        .map(u8::to_ascii_lowercase)
}
