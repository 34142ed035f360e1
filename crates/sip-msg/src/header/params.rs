//! Header parameters: `;name=value`, with white space and quoted strings
//! (RFC 3261 25.1, generic-param).

use crate::chars::{TOKEN, part, quoted_end, skip, skip_lws, skip_value};

/// One parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Param<'a> {
    /// The name as it came.
    pub name: &'a [u8],
    /// The value as it came, quotes included; `None` for a bare name.
    pub value: Option<&'a [u8]>,
    /// Where the name begins in the bytes that are read.
    pub start: usize,
    /// Where the parameter ends, the value included.
    pub end: usize,
}

/// Reads parameters one after the other; `Err` where the grammar ends, and
/// nothing after that.
#[derive(Clone, Debug)]
pub struct Params<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// What broke the list of parameters, at that offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadParam;

impl<'a> Params<'a> {
    /// Reads parameters from the `;` at or behind `at`.
    pub(crate) fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at }
    }

    /// The next parameter; `Ok(None)` at the end.
    pub(crate) fn step(&mut self) -> Result<Option<Param<'a>>, BadParam> {
        let semicolon = skip_lws(self.bytes, self.at);
        match self.bytes.get(semicolon) {
            None => return Ok(None),
            Some(b';') => {}
            Some(_) => return self.fail(),
        }
        let start = skip_lws(self.bytes, semicolon + 1);
        let name_end = skip(self.bytes, start, TOKEN);
        if name_end == start {
            return self.fail();
        }
        let name = part(self.bytes, start, name_end);
        let equals = skip_lws(self.bytes, name_end);
        if self.bytes.get(equals) != Some(&b'=') {
            self.at = name_end;
            return Ok(Some(Param {
                name,
                value: None,
                start,
                end: name_end,
            }));
        }
        let value_start = skip_lws(self.bytes, equals + 1);
        let value_end = match self.bytes.get(value_start) {
            Some(b'"') => match quoted_end(self.bytes, value_start) {
                Some(end) => end,
                None => return self.fail(),
            },
            _ => skip_value(self.bytes, value_start),
        };
        if value_end == value_start {
            return self.fail();
        }
        self.at = value_end;
        Ok(Some(Param {
            name,
            value: Some(part(self.bytes, value_start, value_end)),
            start,
            end: value_end,
        }))
    }

    fn fail(&mut self) -> Result<Option<Param<'a>>, BadParam> {
        self.at = self.bytes.len();
        Err(BadParam)
    }
}

impl<'a> Iterator for Params<'a> {
    type Item = Param<'a>;

    fn next(&mut self) -> Option<Param<'a>> {
        self.step().ok().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<Vec<(String, Option<String>)>> {
        let text_of = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
        let mut params = Params::new(text.as_bytes(), 0);
        let mut read = Vec::new();
        while let Some(param) = params.step().ok()? {
            read.push((text_of(param.name), param.value.map(text_of)));
        }
        Some(read)
    }

    #[test]
    fn white_space_and_quotes() {
        let read = read("; a ;b=1 ;\r\n c = \"x;y\\\"\"").unwrap_or_default();
        let expected = [("a", None), ("b", Some("1")), ("c", Some("\"x;y\\\"\""))];
        assert_eq!(
            read,
            expected.map(|(n, v)| (n.to_owned(), v.map(str::to_owned)))
        );
    }

    #[test]
    fn what_the_grammar_refuses() {
        for bad in [
            ";", ";;a", ";a=", ";a=\"x", ";a b", "a", ";a=1,b", ";=1", ";a=<x>",
        ] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
