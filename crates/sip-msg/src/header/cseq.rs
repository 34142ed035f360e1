//! CSeq (RFC 3261 20.16).

use crate::HeaderName;
use crate::chars::{TOKEN, part, rest, skip, skip_lws};
use crate::parse::ParseErrorKind;

/// A CSeq (RFC 3261 20.16).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct CSeq<'a> {
    /// Less than 2^31 (RFC 3261 8.1.1.5).
    pub number: u32,
    pub method: &'a [u8],
}

impl<'a> CSeq<'a> {
    /// Parses the header's value.
    pub fn parse(value: &'a [u8]) -> Result<Self, ParseErrorKind> {
        const MALFORMED: ParseErrorKind = ParseErrorKind::Malformed(HeaderName::CSeq);
        let digits = value.iter().take_while(|b| b.is_ascii_digit()).count();
        let number = crate::chars::number(part(value, 0, digits)).ok_or(MALFORMED)?;
        let method_start = skip_lws(value, digits);
        let method = rest(value, method_start);
        if method_start == digits
            || method.is_empty()
            || skip(value, method_start, TOKEN) != value.len()
        {
            return Err(MALFORMED);
        }
        // RFC 3261 8.1.1.5: "The sequence number value MUST be expressible as a 32-bit unsigned integer and
        // MUST be less than 2**31."
        // RFC 3261 20.16: "The sequence number MUST be expressible as a 32-bit unsigned integer."
        match u32::try_from(number) {
            Ok(number) if number < 1 << 31 => Ok(Self { number, method }),
            _ => Err(ParseErrorKind::CSeqNumber),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_methods() {
        let parsed = |v: &'static str| CSeq::parse(v.as_bytes()).map(|c| (c.number, c.method));
        assert_eq!(parsed("0009\r\n  INVITE"), Ok((9, &b"INVITE"[..])));
        assert_eq!(parsed("0 ACK"), Ok((0, &b"ACK"[..])));
        // RFC 3261 8.1.1.5: "The sequence number value MUST be expressible as a 32-bit unsigned integer and
        // MUST be less than 2**31."
        assert_eq!(parsed("2147483647 BYE"), Ok((2_147_483_647, &b"BYE"[..])));
        assert_eq!(parsed("2147483648 BYE"), Err(ParseErrorKind::CSeqNumber));
        assert_eq!(
            // RFC 3261 20.16: "The sequence number MUST be expressible as a 32-bit unsigned integer."
            parsed("36893488147419103232 REGISTER"),
            Err(ParseErrorKind::CSeqNumber)
        );
        for bad in [
            "",
            "1",
            "1 ",
            "INVITE",
            "1INVITE",
            "-1 INVITE",
            "1 INV ITE",
            "1 INVITE;x",
            "+1 INVITE",
        ] {
            assert_eq!(
                parsed(bad),
                Err(ParseErrorKind::Malformed(HeaderName::CSeq)),
                "{bad}"
            );
        }
    }
}
