//! Injection files: a line of fields for each call.

use std::collections::HashMap;

use invariant::broken;

use crate::problem::{Problem, Source};
use crate::random::Random;

/// Lines of a file.
const LINES_MAX: usize = 10_000_000;

/// What some editors put before a text in UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// What is wrong with a file without an order.
const NO_ORDER: &str = "write SEQUENTIAL, RANDOM or USER in the first line";

/// Which line a call gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// One after the other, from the first again after the last.
    Sequential,
    /// Any.
    Random,
    /// The line of the call's user (`-users`).
    User,
}

/// An injection file (`-inf`), read and checked.
#[derive(Clone, Debug)]
pub struct InjectionFile {
    name: String,
    order: Order,
    bytes: Vec<u8>,
    /// The fields of all lines, as places in `bytes`.
    fields: Vec<(u32, u32)>,
    /// Where each line's fields begin; one more than there are lines.
    lines: Vec<u32>,
    columns: usize,
    printf: Option<Printf>,
    /// The lines by the value of the indexed field.
    index: Option<HashMap<Vec<u8>, u32>>,
    next: u64,
    /// What is passed over.
    warnings: Vec<Problem>,
}

/// Lines that are made from a pattern.
#[derive(Clone, Copy, Debug)]
struct Printf {
    lines: u64,
    offset: i64,
    multiple: i64,
}

impl InjectionFile {
    /// Reads a file: `SEQUENTIAL`, `RANDOM` or `USER` somewhere in the first line, then a
    /// line for each call, `;` between its fields, `#` before remarks. A line without a
    /// byte ends it; one with only a carriage return is a line with one empty field. The
    /// carriage return of a line end is no part of a field.
    pub fn parse(name: &str, bytes: &[u8]) -> Result<Self, Problem> {
        let source = Source { name, bytes };
        if bytes.len() >= u32::MAX as usize {
            return Err(source.problem(0, "larger than 4 GiB"));
        }
        let mut file = Self {
            name: name.to_owned(),
            order: Order::Sequential,
            bytes: bytes.to_vec(),
            fields: Vec::new(),
            lines: vec![0],
            columns: 0,
            printf: None,
            index: None,
            next: 0,
            warnings: Vec::new(),
        };
        let mut at = 0;
        let mut has_order = false;
        while at < bytes.len() {
            let rest = bytes.get(at..).unwrap_or_default();
            let len = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            let whole = rest.get(..len).unwrap_or_default();
            let line = whole.strip_suffix(b"\r").unwrap_or(whole);
            if !has_order {
                file.read_order(source, line, at)?;
                has_order = true;
            } else if whole.is_empty() {
                file.end_at(source, at, rest);
                break;
            } else if !line.starts_with(b"#") {
                file.read_line(source, line, at)?;
            }
            at += len + 1;
        }
        if !has_order {
            return Err(source.problem(0, NO_ORDER));
        }
        if file.lines.len() < 2 {
            return Err(source.problem(bytes.len(), "the file has no line of fields"));
        }
        Ok(file)
    }

    /// Tells of an empty line, unless nothing comes behind it.
    fn end_at(&mut self, source: Source<'_>, at: usize, rest: &[u8]) {
        if !rest.trim_ascii().is_empty() {
            let what = "an empty line ends the file: what follows is not read";
            self.warnings.push(source.problem(at, what));
        }
    }

    /// What is in the file and was passed over.
    pub fn warnings(&self) -> &[Problem] {
        &self.warnings
    }

    /// Makes lines findable by the value of a field (`-infindex`).
    pub fn set_index(&mut self, column: usize) -> Result<(), String> {
        if self.printf.is_some() {
            return Err(format!("{} makes its lines from a pattern", self.name));
        }
        if column >= self.columns {
            return Err(format!("{} has no field {column}", self.name));
        }
        let mut index = HashMap::new();
        let mut value = Vec::new();
        for line in 0..self.line_count() {
            value.clear();
            self.write_field(line, column, &mut value);
            index.insert(value.clone(), u32::try_from(line).unwrap_or(u32::MAX));
        }
        self.index = Some(index);
        Ok(())
    }

    /// The name under which it was given.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Which line a call gets.
    pub fn order(&self) -> Order {
        self.order
    }

    /// How many lines there are.
    pub fn line_count(&self) -> u64 {
        match self.printf {
            Some(printf) => printf.lines,
            None => self.lines.len() as u64 - 1,
        }
    }

    /// The most fields that a line has.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Appends a field; nothing where there is no such line, or it has no such field.
    pub fn write_field(&self, line: u64, column: usize, out: &mut Vec<u8>) {
        if line >= self.line_count() {
            return;
        }
        // The lines of a pattern are made from those that are there, in turn.
        let count = (self.lines.len() - 1).max(1);
        let place = usize::try_from(line).unwrap_or(usize::MAX) % count;
        let (Some(&start), Some(&end)) = (self.lines.get(place), self.lines.get(place + 1)) else {
            return;
        };
        let fields = self.fields.get(start as usize..end as usize);
        let fields = fields.unwrap_or_else(|| broken!("a line's fields are in the file", &[]));
        let Some(&(from, to)) = fields.get(column) else {
            return;
        };
        let field = self.bytes.get(from as usize..to as usize);
        let field = field.unwrap_or_else(|| broken!("a field lies within the file", b""));
        match self.printf {
            None => out.extend_from_slice(field),
            Some(printf) => {
                let number = i64::try_from(line)
                    .unwrap_or(i64::MAX)
                    .saturating_mul(printf.multiple)
                    .saturating_add(printf.offset);
                print(field, number, out);
            }
        }
    }

    /// Whether a name stands for it: its path as it was given or, as in SIPp, the path's
    /// last part.
    pub fn is_named(&self, name: &str) -> bool {
        Self::is_name_of(&self.name, name)
    }

    /// Whether a name stands for the file with this path.
    pub fn is_name_of(path: &str, name: &str) -> bool {
        path == name || path.rsplit('/').next() == Some(name)
    }

    pub(crate) fn is_indexed(&self) -> bool {
        self.index.is_some()
    }

    /// The line whose indexed field has this value.
    pub(crate) fn lookup(&self, key: &[u8]) -> Option<u32> {
        self.index.as_ref()?.get(key).copied()
    }

    /// The line for a new call.
    pub(crate) fn next_line(&mut self, user: Option<u32>, random: &mut Random) -> u64 {
        match (self.order, user) {
            (Order::Random, _) => random.below(self.line_count()),
            (Order::User, Some(user)) => u64::from(user.saturating_sub(1)) % self.line_count(),
            (Order::Sequential | Order::User, _) => {
                let line = self.next;
                self.next = (self.next + 1) % self.line_count();
                line
            }
        }
    }

    /// Reads the first line. As SIPp, which looks for words in it: what stands around them
    /// has no meaning.
    fn read_order(&mut self, source: Source<'_>, line: &[u8], at: usize) -> Result<(), Problem> {
        let has = |word: &[u8]| memchr::memmem::find(line, word).is_some();
        self.order = if has(b"RANDOM") {
            Order::Random
        } else if has(b"SEQUENTIAL") {
            Order::Sequential
        } else if has(b"USER") {
            Order::User
        } else {
            return Err(source.problem(at, NO_ORDER));
        };
        if has(b"PRINTF") {
            let lines = setting(source, line, at, b"PRINTF=")?.unwrap_or(0);
            if lines <= 0 {
                return Err(source.problem(at, "PRINTF= and the number of lines is missing"));
            }
            self.printf = Some(Printf {
                lines: lines.unsigned_abs(),
                offset: setting(source, line, at, b"PRINTFOFFSET=")?.unwrap_or(0),
                multiple: setting(source, line, at, b"PRINTFMULTIPLE=")?.unwrap_or(1),
            });
        }
        let mut part_at = at;
        for part in line.split(|byte| *byte == b',') {
            if !is_known(part) {
                let what = format!(
                    "{:?} is passed over: SEQUENTIAL, RANDOM or USER has a meaning here, and \
                     behind a comma PRINTF=, PRINTFOFFSET= or PRINTFMULTIPLE= and a number",
                    String::from_utf8_lossy(part)
                );
                self.warnings.push(source.problem(part_at, what));
                break;
            }
            part_at += part.len() + 1;
        }
        Ok(())
    }

    fn read_line(&mut self, source: Source<'_>, line: &[u8], at: usize) -> Result<(), Problem> {
        if self.lines.len() > LINES_MAX {
            return Err(source.problem(at, format!("more than {LINES_MAX} lines")));
        }
        let place = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let mut from = at;
        let mut count = 0;
        for field in line.split(|b| *b == b';') {
            if self.printf.is_some()
                && let Some(wrong) = wrong_format(field)
            {
                return Err(source.problem(
                    from + wrong,
                    "only %d, %0Nd and %% are understood in a file with PRINTF",
                ));
            }
            if let Some(control) = field.iter().position(|b| *b == 0) {
                return Err(source.problem(from + control, "a zero byte"));
            }
            self.fields.push((place(from), place(from + field.len())));
            from += field.len() + 1;
            count += 1;
        }
        self.columns = self.columns.max(count);
        self.lines.push(place(self.fields.len()));
        Ok(())
    }
}

/// The number behind a word of the first line; `None` without the word.
fn setting(
    source: Source<'_>,
    line: &[u8],
    at: usize,
    word: &[u8],
) -> Result<Option<i64>, Problem> {
    let Some(found) = memchr::memmem::find(line, word) else {
        return Ok(None);
    };
    let behind = found + word.len();
    let text = line.get(behind..).unwrap_or_default();
    let len = memchr::memchr(b',', text).unwrap_or(text.len());
    let digits = text.get(..len).unwrap_or_default().trim_ascii();
    match std::str::from_utf8(digits)
        .ok()
        .and_then(|text| text.parse().ok())
    {
        Some(number) => Ok(Some(number)),
        None => Err(source.problem(at + behind, "a number and a comma or the line end")),
    }
}

/// Whether a part of the first line has a meaning as a whole.
fn is_known(part: &[u8]) -> bool {
    let word = part.strip_prefix(BYTE_ORDER_MARK).unwrap_or(part);
    let word = word.trim_ascii();
    let name = word.split(|byte| *byte == b'=').next();
    match name.unwrap_or_default() {
        b"SEQUENTIAL" | b"RANDOM" | b"USER" | b"USERS" => name == Some(word),
        b"PRINTF" | b"PRINTFOFFSET" | b"PRINTFMULTIPLE" => name != Some(word),
        _ => false,
    }
}

/// The length of `%d`, `%5d`, `%05d` or `%%`, its width and its padding.
fn format_at(text: &[u8]) -> Option<(usize, Option<(usize, bool)>)> {
    if text.get(1) == Some(&b'%') {
        return Some((2, None));
    }
    let digits = text
        .iter()
        .skip(1)
        .take_while(|b| b.is_ascii_digit())
        .count();
    if digits > 2 || text.get(1 + digits) != Some(&b'd') {
        return None;
    }
    let spec = text.get(1..1 + digits).unwrap_or_default();
    let width = spec.iter().fold(0usize, |width, digit| {
        width * 10 + usize::from(digit - b'0')
    });
    Some((digits + 2, Some((width, spec.first() == Some(&b'0')))))
}

fn wrong_format(field: &[u8]) -> Option<usize> {
    let mut at = 0;
    while let Some(found) = field.get(at..).and_then(|rest| memchr::memchr(b'%', rest)) {
        at += found;
        match format_at(field.get(at..).unwrap_or_default()) {
            Some((len, _)) => at += len,
            None => return Some(at),
        }
    }
    None
}

fn print(field: &[u8], number: i64, out: &mut Vec<u8>) {
    let mut rest = field;
    while let Some(found) = memchr::memchr(b'%', rest) {
        out.extend_from_slice(rest.get(..found).unwrap_or_default());
        rest = rest.get(found..).unwrap_or_default();
        let Some((len, spec)) = format_at(rest) else {
            break;
        };
        match spec {
            None => out.push(b'%'),
            Some((width, true)) => out.extend_from_slice(format!("{number:0width$}").as_bytes()),
            Some((width, false)) => out.extend_from_slice(format!("{number:width$}").as_bytes()),
        }
        rest = rest.get(len..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
}

#[cfg(test)]
mod tests;
