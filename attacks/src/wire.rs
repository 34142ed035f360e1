//! Messages as bytes: a writer that refuses nothing, and a reader that knows
//! as much as a judge needs. Both are this crate's own, so that the parser of
//! the server under test has no say in the verdict on it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

/// The header in which a message says which attempt it is.
pub(crate) const MARK: &str = "X-Attack";

/// A number that this process gives out once.
pub(crate) fn unique() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A word that nobody used before.
pub(crate) fn word(beginning: &str) -> String {
    format!("{beginning}{}x{}", std::process::id(), unique())
}

/// A request that is being written.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    pub(crate) method: String,
    pub(crate) uri: String,
    pub(crate) from: String,
    pub(crate) from_tag: Option<String>,
    pub(crate) to: String,
    pub(crate) to_tag: Option<String>,
    pub(crate) call_id: String,
    pub(crate) cseq: u32,
    pub(crate) branch: String,
    pub(crate) via: Option<String>,
    pub(crate) contact: Option<String>,
    pub(crate) routes: Vec<String>,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Draft {
    /// A request from one URI to another, to be sent to the second.
    pub(crate) fn new(method: &str, from: &str, to: &str) -> Self {
        Self {
            method: method.to_owned(),
            uri: to.to_owned(),
            from: from.to_owned(),
            from_tag: Some(word("f")),
            to: to.to_owned(),
            to_tag: None,
            call_id: word("c"),
            cseq: 1,
            branch: word("z9hG4bK"),
            via: None,
            contact: None,
            routes: Vec::new(),
            headers: Vec::new(),
            body: Vec::new(),
        }
    }

    /// Another Request-URI.
    pub(crate) fn uri(mut self, uri: &str) -> Self {
        uri.clone_into(&mut self.uri);
        self
    }

    /// A header more.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The attempt that this is part of.
    pub(crate) fn mark(self, mark: &str) -> Self {
        self.with(MARK, mark)
    }

    /// A Contact, its brackets included where it has some.
    pub(crate) fn contact(mut self, contact: &str) -> Self {
        self.contact = Some(contact.to_owned());
        self
    }

    /// A Route value, brackets included, after those that there are.
    pub(crate) fn route(mut self, route: &str) -> Self {
        self.routes.push(route.to_owned());
        self
    }

    /// A body of so many bytes.
    pub(crate) fn body_bytes(mut self, bytes: usize) -> Self {
        self.body = vec![b'x'; bytes];
        self.with("Content-Type", "text/plain")
    }

    /// The same request as a new transaction.
    pub(crate) fn again(&self) -> Self {
        let mut next = self.clone();
        next.branch = word("z9hG4bK");
        next.cseq += 1;
        next
    }

    /// The CANCEL of this request, or the ACK to its refusal.
    pub(crate) fn hop_by_hop(&self, method: &str, to: Option<&str>) -> Self {
        let mut next = self.clone();
        method.clone_into(&mut next.method);
        next.contact = None;
        next.headers.retain(|(name, _)| name == MARK);
        next.body.clear();
        if let Some(tag) = to.and_then(tag_of) {
            next.to_tag = Some(tag);
        }
        next
    }

    /// The bytes, as they leave from `local`.
    pub(crate) fn render(&self, local: SocketAddr, transport: &str) -> Vec<u8> {
        let via = self
            .via
            .clone()
            .unwrap_or_else(|| format!("SIP/2.0/{transport} {local};rport;branch={}", self.branch));
        let tag = |tag: &Option<String>| {
            tag.as_ref()
                .map_or(String::new(), |tag| format!(";tag={tag}"))
        };
        let mut text = format!(
            "{} {} SIP/2.0\r\nVia: {via}\r\nMax-Forwards: 70\r\nFrom: <{}>{}\r\nTo: <{}>{}\r\nCall-ID: {}\r\nCSeq: {} {}\r\n",
            self.method,
            self.uri,
            self.from,
            tag(&self.from_tag),
            self.to,
            tag(&self.to_tag),
            self.call_id,
            self.cseq,
            self.method
        );
        for route in &self.routes {
            text.push_str(&format!("Route: {route}\r\n"));
        }
        if let Some(contact) = &self.contact {
            text.push_str(&format!("Contact: {contact}\r\n"));
        }
        for (name, value) in &self.headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str(&format!("Content-Length: {}\r\n\r\n", self.body.len()));
        let mut bytes = text.into_bytes();
        bytes.extend_from_slice(&self.body);
        bytes
    }
}

/// A message that was received, cut into lines.
#[derive(Clone, Debug)]
pub(crate) struct Text {
    pub(crate) start: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) from: Option<SocketAddr>,
}

impl Text {
    /// Reads a whole message; `None` where it has no head.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let end = find(bytes, b"\r\n\r\n")?;
        let head = String::from_utf8_lossy(bytes.get(..end)?).into_owned();
        let mut lines = head.split("\r\n");
        let start = lines.next()?.to_owned();
        let headers = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (long(name.trim()).to_owned(), value.trim().to_owned()))
            .collect();
        Some(Self {
            start,
            headers,
            from: None,
        })
    }

    /// The first value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut named = self.headers.iter();
        let found = named.find(|(n, _)| n.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// All lines of a header.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.headers
            .iter()
            .filter(move |(n, _)| n.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// The values of a header whose values are name-addrs.
    pub(crate) fn addresses(&self, name: &str) -> Vec<String> {
        let parts = self.all(name).flat_map(split_addresses);
        parts.collect()
    }

    /// The status of a response; `None` for a request.
    pub(crate) fn status(&self) -> Option<u16> {
        self.start.strip_prefix("SIP/2.0 ")?.get(..3)?.parse().ok()
    }

    /// The method of a request, or that of the CSeq of a response.
    pub(crate) fn method(&self) -> &str {
        if self.status().is_some() {
            let cseq = self.header("CSeq").unwrap_or("");
            cseq.split_whitespace().nth(1).unwrap_or("")
        } else {
            self.start.split(' ').next().unwrap_or("")
        }
    }

    /// The number of the CSeq.
    pub(crate) fn cseq(&self) -> Option<u32> {
        self.header("CSeq")?.split_whitespace().next()?.parse().ok()
    }

    /// Whether it answers this request.
    pub(crate) fn answers(&self, request: &Draft) -> bool {
        self.status().is_some()
            && self.header("Call-ID") == Some(request.call_id.as_str())
            && self.cseq() == Some(request.cseq)
            && self.method() == request.method
            && self
                .header("Via")
                .is_some_and(|via| request.via.is_some() || via.contains(&request.branch))
    }

    /// A response to this request.
    pub(crate) fn answer(&self, status: &str, tag: Option<&str>, contact: Option<&str>) -> Vec<u8> {
        let contact = contact.map(|contact| ("Contact", contact));
        self.answer_with(status, tag, contact.as_slice())
    }

    /// The same with headers of whatever kind.
    pub(crate) fn answer_with(
        &self,
        status: &str,
        tag: Option<&str>,
        headers: &[(&str, &str)],
    ) -> Vec<u8> {
        let mut text = format!("SIP/2.0 {status}\r\n");
        for (name, value) in &self.headers {
            let kept = ["Via", "From", "To", "Call-ID", "CSeq", "Record-Route"]
                .iter()
                .any(|k| name.eq_ignore_ascii_case(k));
            if !kept {
                continue;
            }
            text.push_str(&format!("{name}: {value}"));
            if let (true, Some(tag)) = (name.eq_ignore_ascii_case("To"), tag)
                && tag_of(value).is_none()
            {
                text.push_str(&format!(";tag={tag}"));
            }
            text.push_str("\r\n");
        }
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str("Content-Length: 0\r\n\r\n");
        text.into_bytes()
    }
}

/// The long form of a header's name.
fn long(name: &str) -> &str {
    match name {
        "v" => "Via",
        "f" => "From",
        "t" => "To",
        "i" => "Call-ID",
        "m" => "Contact",
        "l" => "Content-Length",
        other => other,
    }
}

/// The tag of a From or To.
pub(crate) fn tag_of(value: &str) -> Option<String> {
    let after = value.rsplit_once('>').map_or(value, |(_, rest)| rest);
    let (_, rest) = after.split_once(";tag=")?;
    let end = rest.find([';', ',', ' ']).unwrap_or(rest.len());
    rest.get(..end).map(str::to_owned)
}

/// What stands between the first angle brackets, or the value without parameters.
pub(crate) fn uri_of(value: &str) -> &str {
    match value.split_once('<') {
        Some((_, rest)) => rest.split('>').next().unwrap_or(rest),
        None => value.split(';').next().unwrap_or(value).trim(),
    }
}

/// Splits at commas outside of brackets and quotes.
fn split_addresses(line: &str) -> Vec<String> {
    let (mut parts, mut part, mut inside, mut quoted) = (Vec::new(), String::new(), false, false);
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            '<' if !quoted => inside = true,
            '>' if !quoted => inside = false,
            ',' if !quoted && !inside => {
                parts.push(part.trim().to_owned());
                part.clear();
                continue;
            }
            _ => {}
        }
        part.push(c);
    }
    if !part.trim().is_empty() {
        parts.push(part.trim().to_owned());
    }
    parts
}

/// Where `what` begins in `bytes`.
pub(crate) fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|part| part == what)
}

/// Takes whole messages from the front of what a stream brought.
pub(crate) fn cut(buffer: &mut Vec<u8>) -> Option<Vec<u8>> {
    while buffer.starts_with(b"\r\n") {
        buffer.drain(..2);
    }
    let end = find(buffer, b"\r\n\r\n")? + 4;
    let head = Text::read(buffer.get(..end)?)?;
    let body: usize = head
        .header("Content-Length")
        .and_then(|n| n.parse().ok())
        .unwrap_or(0);
    (buffer.len() >= end + body).then(|| buffer.drain(..end + body).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_is_read_as_it_stands() {
        let bytes = b"SIP/2.0 200 OK\r\nv: SIP/2.0/UDP h;branch=z9\r\nRecord-Route: <sip:a;lr>, \"x,<\" <sip:b,c;lr>\r\n\
            To: <sip:b;tag=no>;x=1;tag=yes\r\nCSeq: 7 INVITE\r\nContent-Length: 2\r\n\r\nab";
        let text = Text::read(bytes).unwrap();
        assert_eq!(text.status(), Some(200));
        assert_eq!((text.cseq(), text.method()), (Some(7), "INVITE"));
        assert_eq!(text.header("Via"), Some("SIP/2.0/UDP h;branch=z9"));
        assert_eq!(
            text.addresses("record-route"),
            ["<sip:a;lr>", "\"x,<\" <sip:b,c;lr>"]
        );
        assert_eq!(tag_of(text.header("To").unwrap()).unwrap(), "yes");
        assert_eq!(uri_of("\"x\" <sip:a@b;lr>;q=1"), "sip:a@b;lr");
    }

    #[test]
    fn a_stream_is_cut_by_its_lengths() {
        let local = SocketAddr::from(([127, 0, 0, 1], 5060));
        let one = Draft::new("MESSAGE", "sip:a@b", "sip:c@d").body_bytes(5);
        let mut stream = b"\r\n\r\n".to_vec();
        stream.extend(one.render(local, "TCP"));
        stream.extend(one.render(local, "TCP"));
        let rest = stream.split_off(stream.len() - 1);
        assert!(cut(&mut stream).unwrap().ends_with(b"xxxxx"));
        assert!(cut(&mut stream).is_none());
        stream.extend(rest);
        assert!(cut(&mut stream).is_some() && stream.is_empty());
    }
}
