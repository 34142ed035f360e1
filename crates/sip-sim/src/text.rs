//! Messages as text, for those who do not use the project's own user agent:
//! what they read and write owes nothing to the code that it tries.

/// A message taken apart as far as its readers here need it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Text {
    start: String,
    headers: Vec<(String, String)>,
}

/// A URI as two names of the same party are compared: user, host without port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Name {
    pub(crate) user: String,
    pub(crate) host: String,
}

impl Text {
    pub(crate) fn read(bytes: &[u8]) -> Self {
        let all = String::from_utf8_lossy(bytes);
        let head = all.split("\r\n\r\n").next().unwrap_or("");
        let mut lines = head.split("\r\n");
        let start = lines.next().unwrap_or("").to_owned();
        let headers = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (long(name.trim()), value.trim().to_owned()))
            .collect();
        Self { start, headers }
    }

    pub(crate) fn is_request(&self) -> bool {
        !self.start.starts_with("SIP/")
    }

    pub(crate) fn method(&self) -> &str {
        if self.is_request() {
            self.start.split(' ').next().unwrap_or("")
        } else {
            self.header("cseq").split(' ').nth(1).unwrap_or("")
        }
    }

    pub(crate) fn uri(&self) -> &str {
        self.start.split(' ').nth(1).unwrap_or("")
    }

    pub(crate) fn status(&self) -> u16 {
        let status = self.start.split(' ').nth(1).and_then(|s| s.parse().ok());
        status.filter(|_| !self.is_request()).unwrap_or(0)
    }

    /// The first of that name, or nothing.
    pub(crate) fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(found, _)| found == name);
        found.map_or("", |(_, value)| value)
    }

    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.headers
            .iter()
            .filter(move |(found, _)| found == name)
            .map(|(_, value)| value.as_str())
    }

    /// The values of all of that name, split at the commas between `<...>`.
    pub(crate) fn values(&self, name: &str) -> Vec<String> {
        let mut values = Vec::new();
        for line in self.all(name) {
            let (mut depth, mut value) = (0_i32, String::new());
            for c in line.chars() {
                match c {
                    '<' => depth += 1,
                    '>' => depth -= 1,
                    ',' if depth == 0 => {
                        values.push(std::mem::take(&mut value).trim().to_owned());
                        continue;
                    }
                    _ => {}
                }
                value.push(c);
            }
            values.push(value.trim().to_owned());
        }
        values
    }

    pub(crate) fn call_id(&self) -> &str {
        self.header("call-id")
    }

    pub(crate) fn cseq(&self) -> u32 {
        let number = self.header("cseq").split(' ').next();
        number.and_then(|n| n.parse().ok()).unwrap_or(0)
    }

    pub(crate) fn branch(&self) -> &str {
        param(self.header("via"), "branch").unwrap_or("")
    }

    pub(crate) fn from(&self) -> Name {
        Name::of(inner(self.header("from")))
    }

    pub(crate) fn to(&self) -> Name {
        Name::of(inner(self.header("to")))
    }

    /// An answer to it.
    pub(crate) fn answer(&self, status: u16, tag: &str, contact: &str, more: &str) -> String {
        let mut text = format!("SIP/2.0 {status} x\r\n");
        for (name, value) in &self.headers {
            let value = match name.as_str() {
                "to" if param(value, "tag").is_none() && status > 100 => {
                    format!("{value};tag={tag}")
                }
                "via" | "from" | "to" | "call-id" | "cseq" | "record-route" => value.clone(),
                _ => continue,
            };
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str(&format!(
            "Contact: <{contact}>\r\n{more}Content-Length: 0\r\n\r\n"
        ));
        text
    }
}

impl Name {
    pub(crate) fn of(uri: &str) -> Self {
        let rest = uri.split_once(':').map_or(uri, |(_, rest)| rest);
        let rest = rest.split('>').next().unwrap_or("");
        // A user may have `;` and `?` in its name (RFC 3261 25.1, user-unreserved).
        let (user, host) = rest.split_once('@').unwrap_or(("", rest));
        let user = user.split(':').next().unwrap_or("");
        let host = host.split([';', '?', ':']).next().unwrap_or("");
        Self {
            user: user.replace("%75", "u"),
            host: host.to_ascii_lowercase(),
        }
    }

    /// Whether it stands in the place of a caller who hides: any other user before that host is a
    /// stranger's name.
    pub(crate) fn is_nobody(&self) -> bool {
        let is_unnamed = self.user.is_empty() || self.user.eq_ignore_ascii_case("anonymous");
        self.host == "anonymous.invalid" && is_unnamed
    }
}

/// What stands between `<` and `>`, or before the first parameter.
pub(crate) fn inner(value: &str) -> &str {
    match value.split_once('<') {
        Some((_, rest)) => rest.split('>').next().unwrap_or(""),
        None => value.split(';').next().unwrap_or("").trim(),
    }
}

/// A parameter of a header's value, behind the URI.
pub(crate) fn param<'a>(value: &'a str, name: &str) -> Option<&'a str> {
    let behind = value.rsplit('>').next().unwrap_or(value);
    behind.split(';').skip(1).find_map(|part| {
        let (found, value) = part.trim().split_once('=')?;
        (found == name).then_some(value)
    })
}

fn long(name: &str) -> String {
    let lower = name.to_ascii_lowercase();
    match lower.as_str() {
        "v" => "via".to_owned(),
        "f" => "from".to_owned(),
        "t" => "to".to_owned(),
        "i" => "call-id".to_owned(),
        "m" => "contact".to_owned(),
        _ => lower,
    }
}

/// One side of a dialog, as it was seen.
#[derive(Clone, Debug)]
pub(crate) struct Dialog {
    pub(crate) call_id: String,
    pub(crate) local: String,
    pub(crate) remote: String,
    pub(crate) target: String,
    pub(crate) routes: Vec<String>,
}

impl Dialog {
    /// The caller's side, from the answer that made it.
    pub(crate) fn of_caller(answer: &Text) -> Self {
        let mut routes = answer.values("record-route");
        routes.reverse();
        Self {
            call_id: answer.call_id().to_owned(),
            local: answer.header("from").to_owned(),
            remote: answer.header("to").to_owned(),
            target: inner(answer.header("contact")).to_owned(),
            routes,
        }
    }

    /// The called side, from the request and the tag that it answered with.
    pub(crate) fn of_called(request: &Text, tag: &str) -> Self {
        Self {
            call_id: request.call_id().to_owned(),
            local: format!("{};tag={tag}", request.header("to")),
            remote: request.header("from").to_owned(),
            target: inner(request.header("contact")).to_owned(),
            routes: request.values("record-route"),
        }
    }

    /// A request within it. An ACK has the number of its INVITE.
    pub(crate) fn request(&self, method: &str, cseq: u32, via: &str, contact: &str) -> String {
        let mut text = format!(
            "{method} {} SIP/2.0\r\nVia: {via}\r\nMax-Forwards: 70\r\n",
            self.target
        );
        for route in &self.routes {
            text.push_str(&format!("Route: {route}\r\n"));
        }
        text.push_str(&format!(
            "From: {}\r\nTo: {}\r\nCall-ID: {}\r\nCSeq: {cseq} {method}\r\nContact: <{contact}>\r\nContent-Length: 0\r\n\r\n",
            self.local, self.remote, self.call_id
        ));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: &[u8] = b"INVITE sip:a@h SIP/2.0\r\nv: SIP/2.0/UDP 1.2.3.4;branch=z9hG4bKx\r\n\
        From: \"A\" <sip:%75ser0@Sim.Test:5060;x=y>;tag=1\r\nTo: sip:b@c;tag=2\r\ni: id\r\nCSeq: 7 INVITE\r\n\
        Record-Route: <sip:p,1@h;lr>, <sip:q@h;lr>\r\n\r\nbody: x\r\n";

    #[test]
    fn a_message_is_read() {
        let text = Text::read(REQUEST);
        assert_eq!(
            (text.method(), text.uri(), text.cseq()),
            ("INVITE", "sip:a@h", 7)
        );
        assert_eq!((text.branch(), text.call_id()), ("z9hG4bKx", "id"));
        let from = text.from();
        assert_eq!(
            (from.user.as_str(), from.host.as_str()),
            ("user0", "sim.test")
        );
        assert_eq!(text.to().user, "b");
        assert_eq!(
            text.values("record-route"),
            ["<sip:p,1@h;lr>", "<sip:q@h;lr>"]
        );
    }
}
