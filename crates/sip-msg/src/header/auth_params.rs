//! Authorization, WWW-Authenticate and their kin: a scheme, then a
//! comma-separated list of `name=value` (RFC 3261 20.7, 25.1).

use crate::chars::{TOKEN, part, quoted_end, rest, skip, skip_lws, trim};

/// A challenge or credentials, unread: scheme and parameters.
#[derive(Clone, Copy, Debug)]
pub struct AuthParams<'a> {
    /// `Digest`, in whatever case it came.
    pub scheme: &'a [u8],
    list: &'a [u8],
}

/// One parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthParam<'a> {
    /// The name as it came; compare it without regard to case.
    pub name: &'a [u8],
    /// The value.
    pub value: AuthValue<'a>,
}

/// A value, quoted or not, without its quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthValue<'a> {
    /// The bytes between the quotes, or the token: backslashes are still there.
    pub raw: &'a [u8],
    /// Whether it came in quotes.
    pub is_quoted: bool,
}

impl<'a> AuthParams<'a> {
    /// Reads a field's value; `None` where it is no scheme with parameters.
    /// Every parameter is checked here, so the iterator cannot end early.
    pub fn parse(value: &'a [u8]) -> Option<Self> {
        let value = trim(value);
        let scheme_end = skip(value, 0, TOKEN);
        let list_start = skip_lws(value, scheme_end);
        if scheme_end == 0 || list_start == scheme_end || list_start == value.len() {
            return None;
        }
        let params = Self {
            scheme: part(value, 0, scheme_end),
            list: rest(value, list_start),
        };
        params.are_well_formed().then_some(params)
    }

    /// Reads a value without a scheme, such as Authentication-Info's.
    pub fn parse_list(value: &'a [u8]) -> Option<Self> {
        let params = Self {
            scheme: &[],
            list: trim(value),
        };
        params.are_well_formed().then_some(params)
    }

    /// Whether the scheme is `name`, without regard to case.
    pub fn is_scheme(&self, name: &str) -> bool {
        self.scheme.eq_ignore_ascii_case(name.as_bytes())
    }

    /// The parameters in order.
    pub fn iter(&self) -> impl Iterator<Item = AuthParam<'a>> + use<'a> {
        let list = self.list;
        let mut at = Some(0);
        std::iter::from_fn(move || {
            let (param, next) = param(list, at?)?;
            at = next;
            Some(param)
        })
    }

    /// The parameter of that name. Where it comes twice there is none: which
    /// of the two another element would read is anybody's guess.
    pub fn get(&self, name: &str) -> Option<AuthValue<'a>> {
        let mut same = self
            .iter()
            .filter(|p| p.name.eq_ignore_ascii_case(name.as_bytes()));
        let found = same.next()?;
        same.next().is_none().then_some(found.value)
    }

    /// Whether a parameter of that name is there, once or more often.
    pub fn has(&self, name: &str) -> bool {
        self.iter()
            .any(|p| p.name.eq_ignore_ascii_case(name.as_bytes()))
    }

    fn are_well_formed(&self) -> bool {
        let mut at = 0;
        loop {
            match param(self.list, at) {
                Some((_, Some(next))) => at = next,
                Some((_, None)) => return true,
                None => return false,
            }
        }
    }
}

impl<'a> AuthValue<'a> {
    /// The value's bytes, unescaped.
    pub fn bytes(&self) -> impl Iterator<Item = u8> + use<'a> {
        let mut raw = self.raw.iter().copied();
        let is_quoted = self.is_quoted;
        std::iter::from_fn(move || match raw.next()? {
            b'\\' if is_quoted => raw.next(),
            byte => Some(byte),
        })
    }

    /// The value as a slice, where it has no escapes.
    pub fn plain(&self) -> Option<&'a [u8]> {
        (!self.is_quoted || memchr::memchr(b'\\', self.raw).is_none()).then_some(self.raw)
    }

    /// Whether the value, unescaped, is `other`.
    pub fn is(&self, other: &[u8]) -> bool {
        self.bytes().eq(other.iter().copied())
    }

    /// Appends the value, unescaped.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        out.extend(self.bytes());
    }
}

/// The parameter at `at`, and where the next begins, if a comma follows.
fn param(list: &[u8], at: usize) -> Option<(AuthParam<'_>, Option<usize>)> {
    let start = skip_lws(list, at);
    let name_end = skip(list, start, TOKEN);
    let equals = skip_lws(list, name_end);
    if name_end == start || list.get(equals) != Some(&b'=') {
        return None;
    }
    let value_start = skip_lws(list, equals + 1);
    let (value, value_end) = if list.get(value_start) == Some(&b'"') {
        let end = quoted_end(list, value_start)?;
        (
            AuthValue {
                raw: part(list, value_start + 1, end - 1),
                is_quoted: true,
            },
            end,
        )
    } else {
        let end = skip(list, value_start, TOKEN);
        (
            AuthValue {
                raw: part(list, value_start, end),
                is_quoted: false,
            },
            end,
        )
    };
    if value_end == value_start {
        return None;
    }
    let param = AuthParam {
        name: part(list, start, name_end),
        value,
    };
    let comma = skip_lws(list, value_end);
    match list.get(comma) {
        None => Some((param, None)),
        Some(b',') => Some((param, Some(comma + 1))),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest() {
        let value =
            b"Digest username=\"bo\\\"b\", realm=\"a,b\" ,\r\n qop=auth,nc=00000001, cnonce=\"\"";
        let params = AuthParams::parse(value).expect("well formed");
        assert!(params.is_scheme("digest"));
        let names: Vec<_> = params.iter().map(|p| p.name).collect();
        assert_eq!(
            names,
            [&b"username"[..], b"realm", b"qop", b"nc", b"cnonce"]
        );
        let username = params.get("Username").expect("there");
        assert!(username.is(b"bo\"b"));
        assert_eq!(username.plain(), None);
        assert_eq!(
            params.get("realm").and_then(|v| v.plain()),
            Some(&b"a,b"[..])
        );
        assert_eq!(
            params.get("qop"),
            Some(AuthValue {
                raw: b"auth",
                is_quoted: false
            })
        );
        assert_eq!(params.get("cnonce").and_then(|v| v.plain()), Some(&b""[..]));
        assert_eq!(params.get("uri"), None);
    }

    #[test]
    fn a_parameter_that_comes_twice_is_none() {
        let params = AuthParams::parse(b"Digest nonce=\"a\", nonce=\"b\"").expect("well formed");
        assert_eq!(params.get("nonce"), None);
        assert!(params.has("nonce"));
    }

    #[test]
    fn refused() {
        for bad in [
            "",
            "Digest",
            "Digest ",
            "Digest a",
            "Digest a=",
            "Digest a=\"",
            "Digest a=b,",
            "Digest a=b,,c=d",
            "Digest a=b c=d",
            "=a",
            "Digest a=\"b\\",
            "Digest ,a=b",
        ] {
            assert!(AuthParams::parse(bad.as_bytes()).is_none(), "{bad}");
        }
    }

    #[test]
    fn a_list_without_scheme() {
        let params = AuthParams::parse_list(b"nextnonce=\"x\", qop=auth").expect("well formed");
        assert!(params.get("nextnonce").is_some_and(|v| v.is(b"x")));
    }
}
