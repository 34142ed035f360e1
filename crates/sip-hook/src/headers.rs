//! Header fields that an answer adds.

use serde_json::Value;
use sip_msg::HeaderName;

/// Fields in one answer.
const FIELDS_MAX: usize = 16;
/// The longest value, in bytes.
const VALUE_MAX: usize = 1_024;
/// The longest name.
const NAME_MAX: usize = 64;
/// All lines of one answer, in bytes.
const LINES_MAX: usize = 4_096;

/// Names that have no [`HeaderName`] and mean something to proxies, transactions, dialogs or
/// bodies, or that only elements of a handshake may say.
const OWNED: [&str; 17] = [
    "Allow-Events",
    "Flow-Timer",
    "Join",
    "MIME-Version",
    "Min-SE",
    "RAck",
    "Refer-Sub",
    "Refer-To",
    "Replaces",
    "RSeq",
    "Session-Expires",
    "SIP-ETag",
    "SIP-If-Match",
    "Subscription-State",
    "Target-Dialog",
    "Trigger-Consent",
    "Permission-Missing",
];

/// Beginnings of such names.
const OWNED_FAMILIES: [&str; 3] = ["Content-", "Proxy-", "Security-"];

/// Whether a header of that name may be set by an answer. What routes a message, frames it, ties
/// it to its transaction or dialog, or proves who sends it is set by nobody's program; nor is a
/// name of one letter, which is another one's short form (RFC 3261 7.3.3).
pub fn may_be_set(name: &str) -> bool {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-.!%*_+`'~".contains(&byte);
    let is_name = (2..=NAME_MAX).contains(&name.len()) && name.bytes().all(is_token);
    let is_free = matches!(
        HeaderName::from_token(name.as_bytes()),
        HeaderName::Other
            | HeaderName::PAssertedIdentity
            | HeaderName::Privacy
            | HeaderName::Subject
    );
    let is_owned = OWNED.iter().any(|owned| owned.eq_ignore_ascii_case(name));
    let is_of_family = OWNED_FAMILIES.iter().any(|family| {
        let front = name.get(..family.len());
        front.is_some_and(|front| front.eq_ignore_ascii_case(family))
    });
    is_name && is_free && !is_owned && !is_of_family
}

/// Header fields, as whole lines. They are made by the check alone: no line end, no control
/// character and no name that a proxy lives by is in them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers {
    names: Box<[Box<str>]>,
    lines: Box<[u8]>,
}

impl Headers {
    /// The lines, each with its end; empty for none.
    pub fn lines(&self) -> &[u8] {
        &self.lines
    }

    /// The names, in the order of the lines.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|name| &**name)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Reads the object of an answer: a string for each name.
    pub(crate) fn read(given: Option<&Value>) -> Result<Self, String> {
        let given = match given {
            None | Some(Value::Null) => return Ok(Self::default()),
            Some(Value::Object(given)) => given,
            Some(_) => return Err("`headers` is not an object".to_owned()),
        };
        if given.len() > FIELDS_MAX {
            return Err(format!("it sets more than {FIELDS_MAX} headers"));
        }
        let mut names: Vec<Box<str>> = Vec::with_capacity(given.len());
        let mut lines = Vec::new();
        for (name, value) in given {
            let told = shown(name);
            if !may_be_set(name) {
                return Err(format!("an answer may not set the header {told}"));
            }
            if names.iter().any(|other| other.eq_ignore_ascii_case(name)) {
                return Err(format!("it sets the header {told} twice"));
            }
            let value = match value {
                Value::String(value) => value.trim(),
                // It is cut from the request like all of its name, and there is no other.
                Value::Null => continue,
                _ => return Err(format!("the header {told} is not a string")),
            };
            if value.is_empty() {
                continue;
            }
            if value.len() > VALUE_MAX || value.chars().any(char::is_control) {
                return Err(format!(
                    "the header {told} has a control character in it, or is longer than {VALUE_MAX} bytes"
                ));
            }
            lines.extend_from_slice(name.as_bytes());
            lines.extend_from_slice(b": ");
            lines.extend_from_slice(value.as_bytes());
            lines.extend_from_slice(b"\r\n");
            names.push(name.as_str().into());
        }
        if lines.len() > LINES_MAX {
            return Err(format!("its headers are longer than {LINES_MAX} bytes"));
        }
        Ok(Self {
            names: names.into(),
            lines: lines.into(),
        })
    }
}

/// A text of somebody else's, short and fit to be logged.
pub(crate) fn shown(text: &str) -> String {
    const SHOWN_MAX: usize = 64;
    let cut: String = text.chars().take(SHOWN_MAX).collect();
    format!("`{}`", cut.escape_debug())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use serde_json::json;

    #[test]
    fn what_a_proxy_lives_by_is_not_set() {
        for name in [
            "X-Account",
            "P-Asserted-Identity",
            "Identity",
            "Diversion",
            "Privacy",
            "Subject",
            "History-Info",
        ] {
            assert!(may_be_set(name), "{name}");
        }
        for name in [
            "Via",
            "v",
            "Route",
            "record-route",
            "Contact",
            "m",
            "From",
            "To",
            "Call-ID",
            "CSeq",
            "Content-Length",
            "l",
            "Content-Type",
            "content-disposition",
            "Authorization",
            "Proxy-Authorization",
            "proxy-anything",
            "Security-Verify",
            "Max-Forwards",
            "Require",
            "Session-Expires",
            "x",
            "Replaces",
            "r",
            "z",
            "",
            "a b",
            "a:b",
            "a\r\nb",
            "é",
        ] {
            assert!(!may_be_set(name), "{name:?}");
        }
        assert!(!may_be_set(&"x".repeat(NAME_MAX + 1)));
    }

    #[test]
    fn a_value_stays_in_its_line() {
        let read = |value: Value| Headers::read(Some(&value));
        let good = read(json!({"X-Account": " 42 ", "X-Name": "Zoë, \"a\"", "X-None": null}));
        let good = good.unwrap();
        assert_eq!(
            good.lines(),
            "X-Account: 42\r\nX-Name: Zoë, \"a\"\r\n".as_bytes()
        );
        assert_eq!(good.names().collect::<Vec<_>>(), ["X-Account", "X-Name"]);
        for bad in [
            json!({"X-A": "1\r\nX-B: 2"}),
            json!({"X-A": "1\n2"}),
            json!({"X-A": "1\u{0}2"}),
            json!({"X-A": "1\u{85}2"}),
            json!({"X-A": "1\t2"}),
            json!({"X-A": 1}),
            json!({"X-A": ["1"]}),
            json!({"X-A\r\nX-B": "1"}),
            json!({"X-A": "1", "x-a": "2"}),
            json!({"X-A": "x".repeat(VALUE_MAX + 1)}),
            json!(["X-A"]),
            json!("X-A: 1"),
        ] {
            assert!(read(bad.clone()).is_err(), "{bad}");
        }
        let many = |count: usize, len: usize| -> Value {
            let field = |nth| (format!("X-{nth}"), Value::from("x".repeat(len)));
            Value::Object((0..count).map(field).collect())
        };
        assert!(read(many(FIELDS_MAX, 200)).is_ok());
        assert!(read(many(FIELDS_MAX + 1, 1)).is_err());
        assert!(read(many(5, 1_000)).is_err());
        assert!(Headers::read(None).unwrap().is_empty());
    }
}
