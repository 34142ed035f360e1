//! What a program answers, once it was checked.

use serde_json::Value;
use sip_msg::Uri;
use sip_msg::uri::Scheme;

use crate::headers::{Headers, shown};

/// The longest URI, in bytes.
const URI_MAX: usize = 1_024;
/// The longest name of a group of gateways.
const GROUP_MAX: usize = 128;
/// The longest words of a rejection, in bytes.
const WORDS_MAX: usize = 128;
/// The longest time that an answer may be given again.
const CACHE_S_MAX: u64 = 86_400;

/// An answer: made by the check of its JSON, and by nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    action: Action,
    headers: Headers,
    cache_s: u64,
}

/// What becomes of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// It goes on as if nobody had been asked.
    Continue,
    /// It is refused.
    Reject {
        /// With that status, from 400 to 699.
        status: u16,
        /// In these words; empty for the usual ones. They are printable.
        words: Box<str>,
    },
    /// It goes to a group of gateways.
    ToGroup {
        /// The group's name.
        name: Box<str>,
        /// With that Request-URI; without one, its own.
        request_uri: Option<Box<str>>,
    },
    /// It goes to a user of ours.
    ToUser {
        /// His URI.
        uri: Box<str>,
    },
    /// It goes on as if it had come with another Request-URI.
    Rewrite {
        /// That one.
        request_uri: Box<str>,
    },
}

impl Action {
    /// The names of the actions, in the order of [`Action::index`].
    pub(crate) const NAMES: [&'static str; 4] = ["continue", "reject", "route", "rewrite"];

    /// The place of its name.
    pub(crate) const fn index(&self) -> usize {
        match self {
            Self::Continue => 0,
            Self::Reject { .. } => 1,
            Self::ToGroup { .. } | Self::ToUser { .. } => 2,
            Self::Rewrite { .. } => 3,
        }
    }
}

impl Answer {
    /// What becomes of the request.
    pub fn action(&self) -> &Action {
        &self.action
    }

    /// The header fields that are added to what is forwarded.
    pub fn headers(&self) -> &Headers {
        &self.headers
    }

    /// For how long it may be given again.
    pub(crate) fn cache_s(&self) -> u64 {
        self.cache_s
    }

    /// Reads and checks one; an error says what is wrong with it.
    pub(crate) fn read(given: &Value) -> Result<Self, String> {
        if !given.is_object() {
            return Err("it is not an object".to_owned());
        }
        let action = match text(given, "action")? {
            None => return Err("it has no `action`".to_owned()),
            Some("continue") => Action::Continue,
            Some("reject") => reject(given)?,
            Some("route") => route(given)?,
            Some("rewrite") => Action::Rewrite {
                request_uri: uri(given, "request_uri")?.ok_or("`rewrite` needs a `request_uri`")?,
            },
            Some(other) => return Err(format!("there is no action {}", shown(other))),
        };
        let cache_s = match given.get("cache_s") {
            None | Some(Value::Null) => 0,
            Some(given) => given
                .as_u64()
                .ok_or("`cache_s` is not a number of seconds")?,
        };
        Ok(Self {
            action,
            headers: Headers::read(given.get("headers"))?,
            cache_s: cache_s.min(CACHE_S_MAX),
        })
    }
}

fn text<'v>(given: &'v Value, name: &str) -> Result<Option<&'v str>, String> {
    match given.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(format!("`{name}` is not a string")),
    }
}

fn uri(given: &Value, name: &str) -> Result<Option<Box<str>>, String> {
    let Some(text) = text(given, name)? else {
        return Ok(None);
    };
    match is_request_uri(text) {
        true => Ok(Some(text.into())),
        false => Err(format!(
            "`{name}` is not a URI that may be called: {}",
            shown(text)
        )),
    }
}

/// Whether it may stand in a start line: a `sip`, `sips` or `tel` URI of printable ASCII, without
/// headers (RFC 3261 19.1.1, table 1).
fn is_request_uri(text: &str) -> bool {
    let is_printable = text.bytes().all(|byte| matches!(byte, 0x21..=0x7e));
    let is_callable = |uri: Uri<'_>| {
        matches!(uri.scheme, Scheme::Sip | Scheme::Sips | Scheme::Tel)
            && uri.headers.is_empty()
            && !uri.has_param("method")
    };
    text.len() <= URI_MAX && is_printable && Uri::parse(text.as_bytes()).is_some_and(is_callable)
}

fn reject(given: &Value) -> Result<Action, String> {
    let status = match given.get("status") {
        None | Some(Value::Null) => 403,
        Some(status) => status.as_u64().unwrap_or(0),
    };
    // Without a challenge nobody can do anything about these.
    let status = u16::try_from(status)
        .ok()
        .filter(|status| matches!(status, 400..=699) && !matches!(status, 401 | 407))
        .ok_or("`status` is not a number from 400 to 699, or is 401 or 407")?;
    let words = text(given, "reason")?.unwrap_or_default().trim();
    if words.len() > WORDS_MAX || words.chars().any(char::is_control) {
        return Err(format!(
            "`reason` has a control character in it, or is longer than {WORDS_MAX} bytes"
        ));
    }
    Ok(Action::Reject {
        status,
        words: words.into(),
    })
}

fn route(given: &Value) -> Result<Action, String> {
    let to = text(given, "to")?.ok_or("`route` needs `to`")?;
    let is_uri = |scheme: &str| {
        let front = to.get(..scheme.len());
        front.is_some_and(|front| front.eq_ignore_ascii_case(scheme))
    };
    let request_uri = uri(given, "request_uri")?;
    if is_uri("sip:") || is_uri("sips:") {
        if request_uri.is_some() {
            return Err("`request_uri` does not go with a user".to_owned());
        }
        let uri = uri(given, "to")?.ok_or("`route` needs `to`")?;
        return Ok(Action::ToUser { uri });
    }
    if to.is_empty() || to.len() > GROUP_MAX {
        return Err(format!(
            "`to` is neither the name of a group nor a URI: {}",
            shown(to)
        ));
    }
    Ok(Action::ToGroup {
        name: to.into(),
        request_uri,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use serde_json::json;

    #[test]
    fn each_action_is_read() {
        let action = |given: Value| Answer::read(&given).unwrap().action;
        assert_eq!(action(json!({"action": "continue"})), Action::Continue);
        assert_eq!(
            action(json!({"action": "reject"})),
            Action::Reject {
                status: 403,
                words: "".into()
            }
        );
        assert_eq!(
            action(json!({"action": "reject", "status": 603, "reason": " No credit. "})),
            Action::Reject {
                status: 603,
                words: "No credit.".into()
            }
        );
        assert_eq!(
            action(json!({"action": "route", "to": "outside", "request_uri": "tel:+4930"})),
            Action::ToGroup {
                name: "outside".into(),
                request_uri: Some("tel:+4930".into())
            }
        );
        assert_eq!(
            action(json!({"action": "route", "to": "SIP:bob@example.com"})),
            Action::ToUser {
                uri: "SIP:bob@example.com".into()
            }
        );
        assert_eq!(
            action(json!({"action": "rewrite", "request_uri": "sips:a@b:5061;user=phone"})),
            Action::Rewrite {
                request_uri: "sips:a@b:5061;user=phone".into()
            }
        );
        let far = Answer::read(&json!({"action": "continue", "cache_s": 10_000_000})).unwrap();
        assert_eq!(far.cache_s(), CACHE_S_MAX);
    }

    #[test]
    fn what_is_no_answer_is_none() {
        let long = format!("sip:{}@example.com", "a".repeat(URI_MAX));
        for bad in [
            json!(null),
            json!(1),
            json!([]),
            json!({}),
            json!({"action": "let it"}),
            json!({"action": 1}),
            json!({"action": "reject", "status": 200}),
            json!({"action": "reject", "status": 302}),
            json!({"action": "reject", "status": 399}),
            json!({"action": "reject", "status": 401}),
            json!({"action": "reject", "status": 407}),
            json!({"action": "reject", "status": 700}),
            json!({"action": "reject", "status": "403"}),
            json!({"action": "reject", "status": -1}),
            json!({"action": "reject", "status": 403.5}),
            json!({"action": "reject", "reason": "a\r\nVia: x"}),
            json!({"action": "reject", "reason": "x".repeat(WORDS_MAX + 1)}),
            json!({"action": "route"}),
            json!({"action": "route", "to": ""}),
            json!({"action": "route", "to": "sip:"}),
            json!({"action": "route", "to": "sip:bob@example.com", "request_uri": "sip:a@b"}),
            json!({"action": "route", "to": "g".repeat(GROUP_MAX + 1)}),
            json!({"action": "rewrite"}),
            json!({"action": "rewrite", "request_uri": "bob"}),
            json!({"action": "rewrite", "request_uri": "sip:bob@x y"}),
            json!({"action": "rewrite", "request_uri": "sip:bob@x\r\nVia: y"}),
            json!({"action": "rewrite", "request_uri": "sip:bob@x?Subject=y"}),
            json!({"action": "rewrite", "request_uri": "sip:bob@x;method=BYE"}),
            json!({"action": "rewrite", "request_uri": "urn:service:sos"}),
            json!({"action": "rewrite", "request_uri": "sip:bøb@x"}),
            json!({"action": "rewrite", "request_uri": long}),
            json!({"action": "continue", "cache_s": -1}),
            json!({"action": "continue", "cache_s": "60"}),
            json!({"action": "continue", "headers": {"Via": "x"}}),
        ] {
            let error = Answer::read(&bad).unwrap_err();
            assert!(!error.contains('\r') && error.len() < 200, "{error:?}");
        }
    }
}
