//! What a call says of how it was retargeted before, and what is said of it here: Diversion (RFC 5806)
//! and History-Info (RFC 7044).

use sip_msg::header::{NameAddr, elements};
use sip_msg::{HeaderName, Message, Method};

use crate::people::When;

/// How often a call was retargeted before it came here, as far as it says so.
pub(super) fn times_diverted(request: &Message) -> u8 {
    if request.method() != Method::Invite {
        return 0;
    }
    let values = |name: &'static [u8]| {
        let fields = request.fields_of(HeaderName::Other);
        let fields = fields.filter(move |field| field.raw_name.eq_ignore_ascii_case(name));
        fields.flat_map(|field| elements(field.value).map(|(element, _)| element))
    };
    let counts = values(b"Diversion").map(|element| {
        let counter = NameAddr::parse(element).and_then(|addr| addr.param("counter"));
        let counter = counter.and_then(|digits| str::from_utf8(digits).ok()?.parse::<u8>().ok());
        counter.unwrap_or(1).max(1)
    });
    let by_diversion = counts.fold(0, u8::saturating_add);
    // RFC 7544 7.2: what was forwarded has a cause (RFC 4458) in the URI of its entry; both may
    // tell of the same.
    let is_forwarded = |element: &&[u8]| {
        let addr = NameAddr::parse(element);
        addr.and_then(|addr| addr.uri()?.param("cause")).is_some()
    };
    let by_history = values(b"History-Info").filter(is_forwarded);
    by_diversion.max(u8::try_from(by_history.count()).unwrap_or(u8::MAX))
}

/// A line that says who forwarded a call, and why.
// RFC 5806 9.1, 9.2: the latest is the topmost.
pub(super) fn write_diversion(aor: &[u8], when: When, line: &mut Vec<u8>) {
    line.extend_from_slice(b"Diversion: <");
    line.extend_from_slice(aor);
    line.extend_from_slice(b">;reason=");
    line.extend_from_slice(when.reason().as_bytes());
    line.extend_from_slice(b";counter=1\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{parse, request};

    fn diverted(lines: &str) -> u8 {
        let alice = "<sip:a@example.org>;tag=a";
        let text = request(
            "INVITE",
            "sip:b@example.org",
            alice,
            "<sip:b@example.org>",
            lines,
        );
        times_diverted(&parse(text.as_bytes()))
    }

    #[test]
    fn what_says_that_a_call_was_retargeted_is_counted() {
        for (lines, times) in [
            ("", 0),
            ("Diversion: <sip:a@x>;reason=unconditional\r\n", 1),
            ("Diversion: <sip:a@x>;counter=3, <sip:b@x>\r\n", 4),
            (
                "diversion: <sip:a@x>;counter=0\r\nDIVERSION: nonsense <\r\n",
                2,
            ),
            ("Diversion: <sip:a@x>;counter=99999\r\n", 1),
            (
                "Diversion: <sip:a@x>;counter=255, <sip:a@x>;counter=255\r\n",
                255,
            ),
            (
                "History-Info: <sip:a@x>;index=1, <sip:b@x;cause=302>;index=1.1,\r\n \
                 <sip:c@x;cause=486?Reason=SIP>;index=1.1.1\r\n",
                2,
            ),
            (
                "History-Info: <sip:b@x;cause=302>;index=1.1\r\nDiversion: <sip:a@x>;counter=3\r\n",
                3,
            ),
        ] {
            assert_eq!(diverted(lines), times, "{lines}");
        }
    }

    #[test]
    fn a_line_names_who_forwarded() {
        let mut line = Vec::new();
        write_diversion(b"sip:alice@example.org", When::Busy, &mut line);
        assert_eq!(
            line,
            b"Diversion: <sip:alice@example.org>;reason=user-busy;counter=1\r\n"
        );
    }
}
