//! The XML that scenarios are written in, as bytes with their places.
//!
//! A reader of its own, because SIPp's files are XML by courtesy only: their
//! messages are bytes of no declared encoding, and their comments are full of
//! `--`, which XML forbids.

use crate::problem::{Problem, Source};

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
    /// The CDATA sections, one after the other.
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
pub(crate) fn read(source: Source<'_>) -> Result<Element, Problem> {
    let mut reader = Reader {
        source,
        at: 0,
        elements: 0,
    };
    if source.bytes.starts_with(&[0xef, 0xbb, 0xbf]) {
        reader.at = 3;
    }
    reader.skip_between()?;
    let root = match reader.peek() {
        Some(b'<') => reader.element(0)?,
        Some(_) => return Err(reader.here("text where an element is expected")),
        None => return Err(reader.here("the file holds no element; write <scenario>")),
    };
    reader.skip_between()?;
    match reader.peek() {
        None => Ok(root),
        Some(_) => Err(reader.here(format!("something follows </{}>; remove it", root.name))),
    }
}

struct Reader<'a> {
    source: Source<'a>,
    at: usize,
    elements: usize,
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
                let end = memchr::memchr2(b'>', b'[', self.rest()).unwrap_or(0);
                if self.rest().get(end) != Some(&b'>') {
                    return Err(self.here(
                        "a document type with declarations of its own is not read; \
                         write <!DOCTYPE scenario SYSTEM \"sipp.dtd\"> or nothing",
                    ));
                }
                self.at += end + 1;
            } else {
                return Ok(());
            }
        }
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
        loop {
            self.skip_space();
            match self.rest() {
                [b'/', b'>', ..] => {
                    self.at += 2;
                    return Ok(element);
                }
                [b'>', ..] => {
                    self.at += 1;
                    break;
                }
                [] => return Err(self.here(format!("<{}> is not ended", element.name))),
                _ => {
                    let attribute = self.attribute()?;
                    if element.attributes.iter().any(|a| a.name == attribute.name) {
                        return Err(self.source.problem(
                            attribute.at,
                            format!("the attribute \"{}\" is here twice", attribute.name),
                        ));
                    }
                    element.attributes.push(attribute);
                }
            }
        }
        self.content(&mut element, depth)?;
        Ok(element)
    }

    fn content(&mut self, element: &mut Element, depth: usize) -> Result<(), Problem> {
        loop {
            self.skip_between()?;
            if self.rest().starts_with(b"<![CDATA[") {
                self.at += 9;
                let at = self.at;
                self.skip_past(b"]]>", "a CDATA section")?;
                let bytes = self.source.bytes.get(at..self.at - 3).unwrap_or_default();
                match &mut element.cdata {
                    Some(cdata) => cdata.bytes.extend_from_slice(bytes),
                    None => {
                        element.cdata = Some(Cdata {
                            at,
                            bytes: bytes.to_vec(),
                        });
                    }
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
                    Some(_) => {
                        return Err(self.here(format!(
                            "text in <{}>; write a message as <![CDATA[ ... ]]>, \
                             a remark as <!-- ... -->",
                            element.name
                        )));
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

    fn attribute(&mut self) -> Result<Attribute, Problem> {
        let at = self.at;
        let name = self.name("an attribute")?;
        self.skip_space();
        if self.peek() != Some(b'=') {
            return Err(self.here(format!("write {name}=\"...\"")));
        }
        self.at += 1;
        self.skip_space();
        let Some(quote @ (b'"' | b'\'')) = self.peek() else {
            return Err(self.here(format!("write {name}=\"...\"")));
        };
        self.at += 1;
        let value_at = self.at;
        let Some(len) = memchr::memchr(quote, self.rest()) else {
            return Err(self.here(format!("the value of {name} is not ended")));
        };
        let value = unescape(self.rest().get(..len).unwrap_or_default());
        self.at += len + 1;
        Ok(Attribute {
            name,
            at,
            value_at,
            value,
        })
    }
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
