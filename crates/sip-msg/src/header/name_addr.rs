//! From, To, Contact, Route and the like: `name-addr / addr-spec`, then
//! parameters (RFC 3261 20.10).

use crate::Uri;
use crate::chars::{DISPLAY, LWS, is, part, quoted_end, rest, skip, skip_lws, trim};
use crate::header::Params;

/// A From, To, Contact, Route or the like: display name, URI, parameters.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct NameAddr<'a> {
    /// As it came, quotes included.
    pub display: &'a [u8],
    /// The URI's bytes, without angle brackets.
    pub uri: &'a [u8],
    /// The header parameters, from their first `;` on.
    pub params: &'a [u8],
    pub(crate) tag: Tag<&'a [u8]>,
    /// The URI, where it was parsed before.
    pub(crate) parsed: Option<Uri<'a>>,
}

/// The tag, as the one walk over the parameters found it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tag<T> {
    None,
    One(T),
    Several,
}

impl<T> Tag<T> {
    pub(crate) fn map<U>(self, change: impl FnOnce(T) -> U) -> Tag<U> {
        match self {
            Self::None => Tag::None,
            Self::One(tag) => Tag::One(change(tag)),
            Self::Several => Tag::Several,
        }
    }
}

impl<'a> NameAddr<'a> {
    /// Parses one element of a header. The URI is only cut out: see
    /// [`NameAddr::uri`].
    pub fn parse(value: &'a [u8]) -> Option<Self> {
        let value = trim(value);
        let display_end = match value.first()? {
            b'"' => quoted_end(value, 0)?,
            b'<' => 0,
            _ => skip(value, 0, DISPLAY | LWS),
        };
        let bracket = skip_lws(value, display_end);
        let (display, uri, after) = if value.get(bracket) == Some(&b'<') {
            let length = memchr::memchr(b'>', rest(value, bracket))?;
            (
                trim(part(value, 0, display_end)),
                part(value, bracket + 1, bracket + length),
                bracket + length + 1,
            )
        } else {
            // RFC 3261 20.10: "Even if the "display-name" is empty, the "name-addr" form MUST be used if
            // the "addr-spec" contains a comma, semicolon, or question mark."
            let end = value
                .iter()
                .position(|&b| is(b, LWS) || matches!(b, b';' | b',' | b'?' | b'<' | b'"'));
            let end = end.unwrap_or(value.len());
            (&value[..0], part(value, 0, end), end)
        };
        let params_start = skip_lws(value, after);
        if uri.is_empty() {
            return None;
        }
        let tag = walk(Params::new(value, params_start))?;
        Some(Self {
            display,
            uri,
            params: rest(value, params_start),
            tag,
            parsed: None,
        })
    }

    /// A header parameter's value as it came, quotes included; `Some(b"")` for
    /// one without a value.
    pub fn param(&self, name: &str) -> Option<&'a [u8]> {
        let mut params = self.params();
        let found = params.find(|p| p.name.eq_ignore_ascii_case(name.as_bytes()))?;
        Some(found.value.unwrap_or_default())
    }

    /// All header parameters in order.
    pub fn params(&self) -> Params<'a> {
        Params::new(self.params, 0)
    }

    /// The tag, where there is one and no other.
    pub fn tag(&self) -> Option<&'a [u8]> {
        match self.tag {
            Tag::One(tag) => Some(tag),
            Tag::None | Tag::Several => None,
        }
    }

    /// Whether there is no tag, or one with a value.
    pub fn has_sound_tag(&self) -> bool {
        match self.tag {
            Tag::None => true,
            Tag::One(tag) => !tag.is_empty(),
            Tag::Several => false,
        }
    }

    /// The URI, parsed.
    pub fn uri(&self) -> Option<Uri<'a>> {
        self.parsed.or_else(|| Uri::parse(self.uri))
    }
}

/// Checks that all parameters are well formed, and finds the tag.
fn walk(mut params: Params<'_>) -> Option<Tag<&[u8]>> {
    let mut tag = Tag::None;
    while let Some(param) = params.step().ok()? {
        if param.name.eq_ignore_ascii_case(b"tag") {
            tag = match tag {
                Tag::None => Tag::One(param.value.unwrap_or_default()),
                Tag::One(_) | Tag::Several => Tag::Several,
            };
        }
    }
    Some(tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(value: &str) -> Option<(&str, &str, &str)> {
        let text = |b| std::str::from_utf8(b).unwrap_or("not UTF-8");
        NameAddr::parse(value.as_bytes()).map(|n| (text(n.display), text(n.uri), text(n.params)))
    }

    #[test]
    fn forms() {
        // RFC 3261 20.10: "Even if the "display-name" is empty, the "name-addr" form MUST be used if
        // the "addr-spec" contains a comma, semicolon, or question mark."
        assert_eq!(parts("sip:a@b"), Some(("", "sip:a@b", "")));
        assert_eq!(parts("sip:a@b;tag=1"), Some(("", "sip:a@b", ";tag=1")));
        assert_eq!(
            parts("sip:a@b ;  tag = 1"),
            Some(("", "sip:a@b", ";  tag = 1"))
        );
        assert_eq!(
            parts("<sip:a@b;lr>;tag=1"),
            Some(("", "sip:a@b;lr", ";tag=1"))
        );
        assert_eq!(parts("caller<sip:a@b>"), Some(("caller", "sip:a@b", "")));
        assert_eq!(
            parts("Jos\u{e9} (1/2) <sip:a@b>"),
            Some(("Jos\u{e9} (1/2)", "sip:a@b", ""))
        );
        assert_eq!(parts("A. Bell <sip:a@b>"), Some(("A. Bell", "sip:a@b", "")));
        assert_eq!(
            parts("\"J \\\"R\\\\\" <sip:a@b>\r\n  ;tag=x"),
            Some(("\"J \\\"R\\\\\"", "sip:a@b", ";tag=x"))
        );
        assert_eq!(
            parts("sip:a@b;+sip.instance=\"<urn:uuid:1>\""),
            Some(("", "sip:a@b", ";+sip.instance=\"<urn:uuid:1>\""))
        );
    }

    #[test]
    fn refused() {
        for bad in [
            "",
            " ",
            "\"open <sip:a@b>",
            "Bell, A <sip:a@b>",
            "<sip:a@b",
            "<>",
            "sip:a@b?Route=x",
            "sip:a@b,c",
            "<sip:a@b>;;",
            "<sip:a@b>x",
            "\"a\" sip:a@b",
            "a b sip:a@b",
            "<sip:a@b>;tag=",
        ] {
            assert_eq!(parts(bad), None, "{bad}");
        }
    }

    #[test]
    fn parameters() {
        let value = b"<sip:a@b>;Tag=x;ob;+sip.instance=\"<urn:x>\"";
        let addr = NameAddr::parse(value).expect("well formed");
        assert_eq!(addr.tag(), Some(&b"x"[..]));
        assert_eq!(addr.param("OB"), Some(&b""[..]));
        assert_eq!(addr.param("+sip.instance"), Some(&b"\"<urn:x>\""[..]));
        assert_eq!(addr.param("q"), None);
    }
}
