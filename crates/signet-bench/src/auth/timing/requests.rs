//! What is sent, and what of an answer may depend on the name.

use sip_auth::{Attempt, ClientAuth, RequestParts};
use sip_msg::{HeaderName, Message};

use crate::auth::DOMAIN;
use crate::auth::server::NUMBER;

/// By which method a password is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    Register,
    Invite,
}

impl Method {
    pub(super) const ALL: [Self; 2] = [Self::Register, Self::Invite];

    const fn token(self) -> &'static str {
        match self {
            Self::Register => "REGISTER",
            Self::Invite => "INVITE",
        }
    }

    fn uri(self) -> String {
        match self {
            Self::Register => format!("sip:{DOMAIN}"),
            Self::Invite => format!("sip:{NUMBER}5550100@{DOMAIN}"),
        }
    }

    /// The status that asks for credentials.
    pub(super) const fn refusal(self) -> u16 {
        match self {
            Self::Register => 401,
            Self::Invite => 407,
        }
    }
}

/// A request. `number` tells it from all others, by its Call-ID too; `port` is the sender's. A
/// REGISTER has no contact: it asks for those that there are, and changes nothing.
pub(super) fn request(
    method: Method,
    name: &str,
    (number, port): (usize, u16),
    credentials: &str,
) -> Vec<u8> {
    let (token, uri) = (method.token(), method.uri());
    let to = match method {
        Method::Register => format!("sip:{name}@{DOMAIN}"),
        Method::Invite => uri.clone(),
    };
    let contact = match method {
        Method::Register => String::new(),
        Method::Invite => format!("Contact: <sip:{name}@127.0.0.1:{port}>\r\n"),
    };
    format!(
        "{token} {uri} SIP/2.0\r\n\
         Via: SIP/2.0/UDP 127.0.0.1:{port};rport;branch=z9hG4bK{number:08}\r\n\
         Max-Forwards: 70\r\nFrom: <sip:{name}@{DOMAIN}>;tag={number:08}\r\nTo: <{to}>\r\n\
         Call-ID: {number:08}@127.0.0.1\r\nCSeq: 1 {token}\r\n{contact}{credentials}\
         Content-Length: 0\r\n\r\n"
    )
    .into_bytes()
}

/// The number of the request that this answers.
pub(super) fn number_of(answer: &Message) -> Option<usize> {
    let digits = answer.call_id().get(..8)?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// The ACK that the refusal of an INVITE is due (RFC 3261 17.1.1.3); `None` for the answer to
/// anything else.
pub(super) fn ack_of(answer: &Message) -> Option<Vec<u8>> {
    if answer.status() < 300 || answer.cseq().ok()?.method != b"INVITE" {
        return None;
    }
    let mut ack = format!("ACK {} SIP/2.0\r\n", Method::Invite.uri()).into_bytes();
    for name in [
        HeaderName::Via,
        HeaderName::From,
        HeaderName::To,
        HeaderName::CallId,
    ] {
        ack.extend_from_slice(answer.slice(answer.first(name)?.line_span));
    }
    ack.extend_from_slice(b"CSeq: 1 ACK\r\nMax-Forwards: 70\r\nContent-Length: 0\r\n\r\n");
    Some(ack)
}

/// Credentials in answer to a challenge, one header line. `client` keeps the nonce and counts.
pub(super) fn credentials(client: &mut ClientAuth, method: Method, number: usize) -> String {
    let uri = method.uri();
    let parts = RequestParts {
        method: method.token().as_bytes(),
        uri: uri.as_bytes(),
        body: b"",
    };
    let mut line = Vec::new();
    let mut attempt = Attempt::default();
    client.write_credentials(&mut attempt, parts, number as u64, &mut line);
    String::from_utf8_lossy(&line).into_owned()
}

/// Who answers challenges with this password, having taken up one.
pub(super) fn client_of(
    name: &str,
    password: &str,
    challenge: &Message,
) -> Result<ClientAuth, String> {
    let mut client = ClientAuth::new();
    client.add(DOMAIN, name, password);
    client
        .handle_challenge(&mut Attempt::default(), challenge)
        .map_err(|error| format!("the server's challenge: {error}"))?;
    Ok(client)
}

/// All of an answer that could depend on what is known of the name. What repeats the
/// request counts by its length alone, and so does the nonce.
pub(super) fn form_of(answer: &Message) -> String {
    let whole = String::from_utf8_lossy(answer.bytes());
    let mut form = whole.lines().next().unwrap_or_default().to_owned();
    for field in answer.fields() {
        let line = String::from_utf8_lossy(answer.slice(field.line_span));
        let line = line.trim_end();
        form.push('\n');
        match field.name {
            HeaderName::Via | HeaderName::From | HeaderName::To | HeaderName::CallId => {
                let name = String::from_utf8_lossy(field.raw_name);
                form += &format!("{name}: {} bytes", line.len());
            }
            _ => form += &without_nonce(line),
        }
    }
    form + &format!("\n{} bytes", answer.body().len())
}

fn without_nonce(line: &str) -> String {
    const NONCE: &str = " nonce=\"";
    let Some((before, rest)) = line.split_once(NONCE) else {
        return line.to_owned();
    };
    let (nonce, after) = rest.split_once('"').unwrap_or((rest, ""));
    format!("{before}{NONCE}{} bytes\"{after}", nonce.len())
}

#[cfg(test)]
mod tests {
    use sip_msg::Limits;

    use super::*;

    fn parsed(bytes: &[u8]) -> Message {
        let message = Message::parse(bytes, &Limits::default()).unwrap();
        message.validate().unwrap();
        message
    }

    fn refusal(request: &Message, nonce: &str, more: &str) -> Message {
        let mut text = "SIP/2.0 407 Proxy Authentication Required\r\n".to_owned();
        for name in [
            HeaderName::Via,
            HeaderName::From,
            HeaderName::To,
            HeaderName::CallId,
            HeaderName::CSeq,
        ] {
            let line = request.slice(request.first(name).unwrap().line_span);
            text += &String::from_utf8_lossy(line);
        }
        text += &format!(
            "Proxy-Authenticate: Digest realm=\"bench.test\", nonce=\"{nonce}\", algorithm=MD5, qop=\"auth\"{more}\r\nContent-Length: 0\r\n\r\n"
        );
        parsed(text.as_bytes())
    }

    #[test]
    fn requests_of_two_names_are_alike_and_are_told_apart_by_their_number() {
        for method in Method::ALL {
            let [one, other] = [("user0000001", 7), ("user000000a", 12_345_678)];
            let one = parsed(&request(method, one.0, (one.1, 5_062), ""));
            let other = parsed(&request(method, other.0, (other.1, 5_062), ""));
            assert_eq!(one.bytes().len(), other.bytes().len());
            assert_eq!(number_of(&one), Some(7));
            assert_eq!(number_of(&other), Some(12_345_678));
        }
    }

    #[test]
    fn a_refused_invite_is_acknowledged_in_its_own_transaction() {
        let invite = parsed(&request(Method::Invite, "user0000001", (7, 5_062), ""));
        let refusal = refusal(&invite, "abc", "");
        let ack = parsed(&ack_of(&refusal).unwrap());
        assert_eq!(ack.method(), sip_msg::Method::Ack);
        assert_eq!(ack.request_uri(), invite.request_uri());
        let branch = |message: &Message| message.top_via().unwrap().branch.to_vec();
        assert_eq!(branch(&ack), branch(&invite));
        let register = parsed(&request(Method::Register, "user0000001", (8, 5_062), ""));
        assert!(ack_of(&register).is_none());
    }

    #[test]
    fn credentials_are_those_of_the_name_and_the_password() {
        let invite = parsed(&request(Method::Invite, "user0000001", (7, 5_062), ""));
        let refusal = refusal(&invite, "abc", "");
        let mut client = client_of("user0000001", "wrong", &refusal).unwrap();
        let first = credentials(&mut client, Method::Invite, 9);
        assert!(first.starts_with("Proxy-Authorization: Digest username=\"user0000001\""));
        assert!(first.contains("nc=00000001"));
        let second = credentials(&mut client, Method::Invite, 10);
        assert!(second.contains("nc=00000002"));
        let whole = request(Method::Invite, "user0000001", (9, 5_062), &first);
        assert!(parsed(&whole).has(HeaderName::ProxyAuthorization));
    }

    #[test]
    fn the_form_of_a_refusal_leaves_out_what_is_the_requests_own_and_nothing_else() {
        let of = |name: &str, number, nonce: &str, more: &str| {
            let invite = parsed(&request(Method::Invite, name, (number, 5_062), ""));
            form_of(&refusal(&invite, nonce, more))
        };
        let one = of("user0000001", 7, "abcdef", "");
        assert_eq!(one, of("user000000a", 8, "fedcba", ""));
        assert!(one.starts_with("SIP/2.0 407 Proxy Authentication Required\nVia: "));
        assert!(one.contains("nonce=\"6 bytes\", algorithm=MD5"));
        assert_ne!(one, of("user0000001", 7, "abcde", ""), "its length");
        assert_ne!(one, of("user0000001", 7, "abcdef", ", stale=true"));
        assert_ne!(one, of("user00000001", 7, "abcdef", ""), "a longer name");
    }
}
