//! Request validation (RFC 3261 16.3), steps 2 to 5 and the breadth of
//! RFC 5393. Step 1, the syntax, is `sip-msg`'s; step 6 is the gate's.

use sip_msg::uri::Scheme;
use sip_msg::{HeaderName, HostPort, Message, Method};

use super::loops;
use crate::own::Own;
use crate::refusal::{Reason, StatusLine};

/// Why a request is not forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reject {
    /// Answered with this.
    Because(StatusLine),
    /// Answered 420, with the option tags of Proxy-Require as Unsupported.
    ProxyRequire,
    /// An OPTIONS that may go no further: answered as its recipient.
    ActAsRecipient,
}

/// What the checks found that forwarding needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Checked {
    /// Max-Breadth (RFC 5393): the configured one, or less where the request says so.
    pub(crate) breadth: u32,
    /// The hash of all that decides how the request is treated, for the branch; 0 for ACK and
    /// CANCEL, which bear none.
    pub(crate) loop_hash: u64,
}

// RFC 3261 16.3: "Before an element can proxy a request, it MUST verify the message's
// validity."
/// Checks a request that is to be forwarded.
pub(crate) fn check(
    request: &Message,
    scheme: Scheme,
    own: &Own,
    loop_key: &[u8; 16],
    breadth_max: u32,
) -> Result<Checked, Reject> {
    // RFC 3261 16.3: "Any components involved in the remainder of these Request
    // Validation steps or the Request Forwarding section MUST be well-formed." Those that
    // every message must have were looked at before.
    check_scheme(scheme)?;
    if is_our_own(request, own) {
        return Err(because(482, Reason::CameBack));
    }
    check_max_forwards(request)?;
    let breadth = max_breadth(request, breadth_max)?;
    // RFC 3261 16.3: "Notice that a proxy is not required to detect merged requests and
    // MUST NOT treat merged requests as an error condition." A spiral is one of those.
    let mut loop_hash = 0;
    // An ACK and a CANCEL end where their INVITE ended, and bear no hash.
    if !matches!(request.method(), Method::Ack | Method::Cancel) {
        loop_hash = loops::hash(loop_key, request);
        if loops::is_loop(request, loop_hash) {
            return Err(because(482, Reason::Loop));
        }
    }
    // RFC 3261 16.3: "If the request contains a Proxy-Require header field (Section
    // 20.29) with one or more option-tags this element does not understand, the
    // element MUST return a 420 (Bad Extension) response." It understands none.
    if !matches!(request.method(), Method::Ack | Method::Cancel)
        && request.values(HeaderName::ProxyRequire).next().is_some()
    {
        return Err(Reject::ProxyRequire);
    }
    Ok(Checked { breadth, loop_hash })
}

fn because(status: u16, reason: Reason) -> Reject {
    Reject::Because(StatusLine::refused(status, reason))
}

/// RFC 3261 16.3 step 2: "If the Request-URI has a URI whose scheme is not understood
/// by the proxy, the proxy SHOULD reject the request with a 416 (Unsupported URI
/// Scheme) response."
fn check_scheme(scheme: Scheme) -> Result<(), Reject> {
    match scheme {
        Scheme::Sip | Scheme::Sips | Scheme::Tel => Ok(()),
        Scheme::Other => Err(because(416, Reason::UnknownScheme)),
    }
}

/// Whether this server sent the request to itself: its own Via is on top, with
/// nobody's between. What a name led back here would be judged as if it came from
/// one of our own addresses, and go round until a loop is found.
fn is_our_own(request: &Message, own: &Own) -> bool {
    // This server begins no requests: below its Via there is another.
    if !request.has_several(HeaderName::Via) {
        return false;
    }
    request.top_via().is_ok_and(|via| {
        let default_port = via.transport.map_or(5060, |t| t.default_port());
        let port = via.sent_by.port.unwrap_or(default_port);
        own.is_listener_at(via.sent_by, port) && {
            // Another network may have our private address, and a proxy at it. Where
            // `received` says so, it is; a name is nobody else's.
            let source = via
                .received
                .and_then(|host| HostPort { host, port: None }.ip());
            via.sent_by.ip().is_none() || source.is_none_or(|ip| own.is_own_ip(ip))
        }
    })
}

fn check_max_forwards(request: &Message) -> Result<(), Reject> {
    let left = request
        .max_forwards()
        .map_err(|e| because(e.status(), Reason::Malformed))?;
    // RFC 3261 16.3: "If the request contains a Max-Forwards header field with a field
    // value of zero (0), the element MUST NOT forward the request.  If the request was
    // for OPTIONS, the element MAY act as the final recipient and respond per Section
    // 11.  Otherwise, the element MUST return a 483 (Too many hops) response."
    match (left, request.method()) {
        (Some(0), Method::Options) => Err(Reject::ActAsRecipient),
        (Some(0), _) => Err(because(483, Reason::TooManyHops)),
        _ => Ok(()),
    }
}

/// RFC 5393 5.3.3: a request without Max-Breadth has the configured one; one that
/// may not be forwarded even once is answered 440. What a sender allows beyond
/// `configured` is no error and no bound: he would choose how much he can make of
/// one message.
fn max_breadth(request: &Message, configured: u32) -> Result<u32, Reject> {
    let configured = configured.max(1);
    let Some(field) = request.first(HeaderName::MaxBreadth) else {
        return Ok(configured);
    };
    let digits = std::str::from_utf8(field.value).unwrap_or_default();
    let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    match (is_number, digits.parse::<u32>()) {
        (true, Ok(0)) => Err(because(440, Reason::BreadthSpent)),
        (true, Ok(breadth)) => Ok(breadth.min(configured)),
        // More digits than a number needs.
        (true, Err(_)) => Ok(configured),
        (false, _) => Err(because(400, Reason::Malformed)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sip_msg::Limits;

    fn checked(method: &str, uri: &str, extra: &str) -> Result<u32, Reject> {
        let text = format!(
            "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/UDP a.example;branch=z9hG4bK1\r\n\
             From: <sip:a@a.example>;tag=1\r\nTo: <sip:b@b.example>\r\nCall-ID: c\r\nCSeq: 7 {method}\r\n{extra}\r\n"
        );
        let message = Message::parse(text.as_bytes(), &Limits::default()).unwrap();
        let scheme = message.uri().unwrap().scheme;
        let own = Own::new(&crate::Settings::default());
        check(&message, scheme, &own, &[1; 16], 60).map(|checked| checked.breadth)
    }

    #[test]
    fn schemes() {
        assert_eq!(checked("INVITE", "sip:b@b.example", ""), Ok(60));
        assert_eq!(checked("INVITE", "sips:b@b.example", ""), Ok(60));
        assert_eq!(checked("INVITE", "tel:+4912", ""), Ok(60));
        assert_eq!(
            checked("INVITE", "nobodyKnowsThisScheme:totallyopaquecontent", ""),
            Err(because(416, Reason::UnknownScheme))
        );
    }

    #[test]
    fn an_unknown_method_or_header_passes() {
        // RFC 3261 16.3: "An element MUST NOT refuse to proxy a request because it contains a
        // method or header field it does not know about."
        assert_eq!(
            checked(
                "NEWMETHOD",
                "sip:b@b.example",
                "New-Header: x\r\nDate: no date\r\n"
            ),
            Ok(60)
        );
    }

    #[test]
    fn max_forwards() {
        // RFC 3261 16.3: "If the request contains a Max-Forwards header field with a field
        // value of zero (0), the element MUST NOT forward the request." and "Otherwise, the
        // element MUST return a 483 (Too many hops) response."
        let zero = "Max-Forwards: 0\r\n";
        let to_b = "sip:b@b.example";
        assert_eq!(
            checked("INVITE", to_b, zero),
            Err(because(483, Reason::TooManyHops))
        );
        assert_eq!(checked("OPTIONS", to_b, zero), Err(Reject::ActAsRecipient));
        assert_eq!(checked("INVITE", to_b, "Max-Forwards: 1\r\n"), Ok(60));
        let bad = checked("INVITE", to_b, "Max-Forwards: many\r\n");
        assert_eq!(bad, Err(because(400, Reason::Malformed)));
    }

    #[test]
    fn max_breadth_bounds() {
        let to_b = "sip:b@b.example";
        assert_eq!(checked("INVITE", to_b, "Max-Breadth: 3\r\n"), Ok(3));
        let none_left = checked("INVITE", to_b, "Max-Breadth: 0\r\n");
        assert_eq!(none_left, Err(because(440, Reason::BreadthSpent)));
        let huge = checked("INVITE", to_b, "Max-Breadth: 99999999999\r\n");
        assert_eq!(huge, Ok(60));
        let bad = checked("INVITE", to_b, "Max-Breadth: -1\r\n");
        assert_eq!(bad, Err(because(400, Reason::Malformed)));
    }

    #[test]
    fn proxy_require() {
        assert_eq!(
            checked("INVITE", "sip:b@b.example", "Proxy-Require: foo\r\n"),
            Err(Reject::ProxyRequire)
        );
    }
}
