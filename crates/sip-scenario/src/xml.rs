//! The XML that scenarios are written in, as bytes with their places.
//!
//! A reader of its own, because SIPp's files are XML by courtesy only: their
//! messages are bytes of no declared encoding, and their comments are full of
//! `--`, which XML forbids. What SIPp passes over is passed over here too, with
//! a warning: text between elements, an attribute that is there twice, what
//! quotation marks without a backslash leave in a tag, declarations in the
//! document type, a last end tag that is missing.

use crate::problem::{Problem, Source, Warnings};

/// Elements inside one another.
const DEPTH_MAX: usize = 16;
/// Elements of a file.
const ELEMENTS_MAX: usize = 65_536;

/// An element.
#[derive(Debug)]
pub(crate) struct Element {
    pub(crate) name: String,
    /// Where its `<` is.
    pub(crate) at: usize,
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) children: Vec<Element>,
    /// The first CDATA section.
    pub(crate) cdata: Option<Cdata>,
}

/// A CDATA section: the bytes from `at` on stand in the file as they are here.
#[derive(Debug)]
pub(crate) struct Cdata {
    pub(crate) at: usize,
    pub(crate) bytes: Vec<u8>,
}

/// An attribute.
#[derive(Debug)]
pub(crate) struct Attribute {
    pub(crate) name: String,
    /// Where its name is.
    pub(crate) at: usize,
    /// Where its value is, behind the quotation mark.
    pub(crate) value_at: usize,
    pub(crate) value: Vec<u8>,
}

/// Reads a file down to its one outermost element.
pub(crate) fn read(source: Source<'_>, warnings: &mut Warnings) -> Result<Element, Problem> {
    let mut reader = Reader {
        source,
        at: 0,
        elements: 0,
        warnings,
    };
    if source.bytes.starts_with(&[0xef, 0xbb, 0xbf]) {
        reader.at = 3;
    }
    reader.skip_outside()?;
    if reader.peek().is_none() {
        return Err(reader.here("the file holds no element; write <scenario>"));
    }
    let root = reader.element(0)?;
    loop {
        reader.skip_outside()?;
        if reader.peek().is_none() {
            return Ok(root);
        }
        if !reader.rest().starts_with(b"</") {
            return Err(reader.here(format!("something follows </{}>; remove it", root.name)));
        }
        reader.warn("an end tag that ends nothing is passed over");
        reader.at += 2;
    }
}

struct Reader<'a> {
    source: Source<'a>,
    at: usize,
    elements: usize,
    warnings: &'a mut Warnings,
}

impl Reader<'_> {
    fn rest(&self) -> &[u8] {
        self.source.bytes.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<u8> {
        self.rest().first().copied()
    }

    fn here(&self, what: impl Into<String>) -> Problem {
        self.source.problem(self.at, what)
    }

    fn warn(&mut self, what: impl Into<String>) {
        self.warnings.add(self.source, self.at, what);
    }

    fn skip_space(&mut self) {
        let spaces = self.rest().iter().take_while(|b| is_space(**b)).count();
        self.at += spaces;
    }

    /// Goes behind the next `end`.
    fn skip_past(&mut self, end: &[u8], what: &str) -> Result<(), Problem> {
        match memchr::memmem::find(self.rest(), end) {
            Some(found) => {
                self.at += found + end.len();
                Ok(())
            }
            None => Err(self.here(format!(
                "{what} is not ended; write {}",
                String::from_utf8_lossy(end)
            ))),
        }
    }

    /// Skips white space, comments, declarations and the document type.
    fn skip_between(&mut self) -> Result<(), Problem> {
        loop {
            self.skip_space();
            if self.rest().starts_with(b"<!--") {
                self.skip_past(b"-->", "a comment")?;
            } else if self.rest().starts_with(b"<?") {
                self.skip_past(b"?>", "a declaration")?;
            } else if self.rest().starts_with(b"<!DOCTYPE") {
                self.skip_document_type()?;
            } else {
                return Ok(());
            }
        }
    }

    fn skip_document_type(&mut self) -> Result<(), Problem> {
        let end = memchr::memchr2(b'>', b'[', self.rest()).unwrap_or(0);
        if self.rest().get(end) != Some(&b'[') {
            return self.skip_past(b">", "a document type");
        }
        self.warn(
            "the declarations in the document type are passed over: \
             entities stay as they are written",
        );
        self.at += end;
        self.skip_past(b"]", "a document type")?;
        self.skip_past(b">", "a document type")
    }

    /// Skips what stands between elements where no element is open.
    fn skip_outside(&mut self) -> Result<(), Problem> {
        loop {
            self.skip_between()?;
            match self.peek() {
                Some(b'<') | None => return Ok(()),
                Some(_) => self.skip_text(),
            }
        }
    }

    /// Skips text that is in no CDATA section.
    fn skip_text(&mut self) {
        self.warn(
            "text is passed over; write a message as <![CDATA[ ... ]]>, \
             a remark as <!-- ... -->",
        );
        let len = memchr::memchr(b'<', self.rest()).unwrap_or(self.rest().len());
        self.at += len;
    }

    fn name(&mut self, what: &str) -> Result<String, Problem> {
        let name: String = self
            .rest()
            .iter()
            .take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b':'))
            .map(|&b| char::from(b))
            .collect();
        if name.is_empty() {
            return Err(self.here(format!("the name of {what} is expected here")));
        }
        self.at += name.len();
        Ok(name)
    }

    fn element(&mut self, depth: usize) -> Result<Element, Problem> {
        let at = self.at;
        self.elements += 1;
        if depth >= DEPTH_MAX || self.elements > ELEMENTS_MAX {
            return Err(self.here("too many elements, or too many inside one another"));
        }
        self.at += 1;
        let mut element = Element {
            name: self.name("an element")?,
            at,
            attributes: Vec::new(),
            children: Vec::new(),
            cdata: None,
        };
        let Some(end) = self.tag_end() else {
            let what = format!(
                "<{}> is not ended, or a quotation mark in it is not",
                element.name
            );
            return Err(self.source.problem(at, what));
        };
        self.attributes(&mut element, end)?;
        let is_empty = self.peek() == Some(b'/');
        self.at += if is_empty { 2 } else { 1 };
        if !is_empty {
            self.content(&mut element, depth)?;
        }
        Ok(element)
    }

    /// Where the tag that is being read ends: at the first `>` or `/>` that
    /// stands in no quotation marks, counted as SIPp counts them.
    fn tag_end(&self) -> Option<usize> {
        let bytes = self.source.bytes;
        let mut at = self.at;
        let mut is_value = false;
        loop {
            let rest = bytes.get(at..)?;
            let quote = match rest {
                [b'>', ..] | [b'/', b'>', ..] => return Some(at),
                [b'<', ..] if rest.starts_with(b"<!--") => {
                    at += memchr::memmem::find(rest, b"-->")? + 3;
                    continue;
                }
                [b'<', ..] | [] => return None,
                [b'"', ..] => Some(b'"'),
                [b'\'', ..] if is_value => Some(b'\''),
                [byte, ..] => {
                    is_value = *byte == b'=' || (is_value && is_space(*byte));
                    None
                }
            };
            at += 1;
            if let Some(quote) = quote {
                at += quoted_len(bytes.get(at..)?, quote)? + 1;
                is_value = false;
            }
        }
    }

    /// The attributes of a tag that ends at `end`, and goes there.
    fn attributes(&mut self, element: &mut Element, end: usize) -> Result<(), Problem> {
        loop {
            self.skip_space();
            if self.at >= end {
                self.at = end;
                return Ok(());
            }
            let at = self.at;
            if self.rest().starts_with(b"<!--") {
                self.skip_past(b"-->", "a comment")?;
                continue;
            }
            match self.attribute() {
                Some(attribute) => {
                    if element.attributes.iter().any(|a| a.name == attribute.name) {
                        self.warnings.add(
                            self.source,
                            at,
                            format!(
                                "the attribute \"{}\" is here twice; the first one counts",
                                attribute.name
                            ),
                        );
                    } else {
                        element.attributes.push(attribute);
                    }
                }
                None => {
                    self.at = at;
                    self.warn(
                        "this is no attribute and is passed over; write NAME=\"VALUE\", \
                         and \\\" or &quot; for a quotation mark in a value",
                    );
                    let junk = self.rest().iter().take_while(|b| !is_space(**b)).count();
                    self.at += junk.max(1);
                }
            }
        }
    }

    fn content(&mut self, element: &mut Element, depth: usize) -> Result<(), Problem> {
        loop {
            self.skip_between()?;
            if self.rest().starts_with(b"<![CDATA[") {
                self.at += 9;
                let at = self.at;
                self.skip_past(b"]]>", "a CDATA section")?;
                let bytes = self.source.bytes.get(at..self.at - 3).unwrap_or_default();
                if element.cdata.is_none() {
                    element.cdata = Some(Cdata {
                        at,
                        bytes: bytes.to_vec(),
                    });
                } else {
                    let what = "a second CDATA section is passed over";
                    self.warnings.add(self.source, at, what);
                }
            } else if self.rest().starts_with(b"</") {
                let at = self.at;
                self.at += 2;
                let name = self.name("an element")?;
                self.skip_space();
                if name != element.name || self.peek() != Some(b'>') {
                    return Err(self.source.problem(
                        at,
                        format!("</{}> is expected here, not </{name}>", element.name),
                    ));
                }
                self.at += 1;
                return Ok(());
            } else {
                match self.peek() {
                    Some(b'<') => element.children.push(self.element(depth + 1)?),
                    Some(_) => self.skip_text(),
                    None if depth == 0 => {
                        let what = format!("</{}> is missing at the end", element.name);
                        self.warn(what);
                        return Ok(());
                    }
                    None => {
                        return Err(self.source.problem(
                            element.at,
                            format!("<{0}> is not ended; write </{0}>", element.name),
                        ));
                    }
                }
            }
        }
    }

    /// An attribute, if one begins here.
    fn attribute(&mut self) -> Option<Attribute> {
        let at = self.at;
        let name = self.name("an attribute").ok()?;
        self.skip_space();
        if self.peek() != Some(b'=') {
            return None;
        }
        self.at += 1;
        self.skip_space();
        let first = self.peek()?;
        let quote = if first == b'\'' { first } else { b'"' };
        self.at += 1;
        let value_at = self.at;
        let len = quoted_len(self.rest(), quote)?;
        let bytes = self.source.bytes;
        let raw = bytes.get(value_at..value_at + len).unwrap_or_default();
        if first != quote {
            // SIPp takes whatever follows the sign for the quotation mark.
            if is_space(first) || raw.iter().any(|b| is_space(*b)) {
                return None;
            }
            let what = format!(
                "no quotation mark before the value of {name}: as in SIPp its first character is lost"
            );
            self.warnings.add(self.source, at, what);
        }
        let value = unescape(&without_backslashes(raw, quote));
        self.at += len + 1;
        Some(Attribute {
            name,
            at,
            value_at,
            value,
        })
    }
}

/// How much stands before the quotation mark that ends a value; one behind a
/// backslash does not.
fn quoted_len(rest: &[u8], quote: u8) -> Option<usize> {
    let mut at = 0;
    loop {
        at += memchr::memchr2(quote, b'\\', rest.get(at..)?)?;
        if rest.get(at) == Some(&quote) {
            return Some(at);
        }
        at += 2;
    }
}

/// Resolves the escapes that SIPp knows in a value: `\\`, `\"`, `\n`, `\t` and
/// `\r`. A backslash before anything else stays, as regular expressions want it.
fn without_backslashes(value: &[u8], quote: u8) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len());
    let mut rest = value;
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        let Some((&escaped, behind)) = rest.split_first() else {
            out.push(byte);
            break;
        };
        rest = behind;
        match escaped {
            b'n' => out.push(b'\n'),
            b't' => out.push(b'\t'),
            b'r' => out.push(b'\r'),
            b'\\' => out.push(escaped),
            _ if escaped == quote => out.push(escaped),
            _ => out.extend_from_slice(&[byte, escaped]),
        }
    }
    out
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// Resolves the five entities of XML. An `&` that begins none stays, since
/// SIPp's files are full of those.
fn unescape(value: &[u8]) -> Vec<u8> {
    const ENTITIES: [(&[u8], u8); 5] = [
        (b"&lt;", b'<'),
        (b"&gt;", b'>'),
        (b"&amp;", b'&'),
        (b"&quot;", b'"'),
        (b"&apos;", b'\''),
    ];
    let mut out = Vec::with_capacity(value.len());
    let mut rest = value;
    while let Some((&byte, behind)) = rest.split_first() {
        let entity = ENTITIES.iter().find(|(name, _)| rest.starts_with(name));
        if let Some((name, meaning)) = entity {
            out.push(*meaning);
            rest = rest.get(name.len()..).unwrap_or_default();
        } else {
            out.push(byte);
            rest = behind;
        }
    }
    out
}

#[cfg(test)]
mod tests;
