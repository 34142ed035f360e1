//! Errors of a file in TOML: where, what, and what to write instead.
#![forbid(unsafe_code)]

mod secrets;
mod window;
mod written;

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use written::Place;

/// Something wrong that was found by comparing the parts with each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The keys from the root to the place: `listen.0.security.key`.
    pub at: String,
    /// What is wrong.
    pub what: String,
    /// What to write instead.
    pub remedy: String,
}

/// A configuration, or another file, that cannot be used. Its text names file, line and
/// column of each fault and what to write instead; it has no secret that stands in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The file, or `options` for the command line.
    pub path: PathBuf,
    /// What is wrong, in the order of the file.
    pub problems: Vec<Problem>,
}

/// One fault in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Line and column, from 1; none for a missing file or an option.
    pub place: Option<(usize, usize)>,
    /// The line, for the reader, with stars for what is a secret in it; of a long one the part
    /// around the column.
    pub line: String,
    /// How many characters of it stand in front of what is pointed at.
    pub skip: usize,
    /// The columns to point at.
    pub width: usize,
    /// What is wrong.
    pub what: String,
    /// What to write instead.
    pub remedy: String,
}

impl ConfigError {
    /// For a file that cannot be read; `if_missing` is the remedy where there is none.
    pub fn unreadable(path: &Path, error: &std::io::Error, if_missing: &str) -> Self {
        use std::io::ErrorKind;
        let (what, remedy) = match error.kind() {
            ErrorKind::NotFound => ("there is no such file", if_missing),
            ErrorKind::IsADirectory => ("it is a folder", "name the file in it"),
            ErrorKind::FileTooLarge => ("it is too large to be one", if_missing),
            ErrorKind::InvalidData => ("it is no text", "name a file in TOML"),
            ErrorKind::PermissionDenied => (
                "this user may not read it",
                "make the file readable for the user that runs this program",
            ),
            _ => ("", "look at the file and the disk that it is on"),
        };
        let what = match what.is_empty() {
            true => error.to_string(),
            false => format!("{what} ({error})"),
        };
        Self::single(path, Problem::new("", None, what, remedy.to_owned()))
    }

    /// What [`read_all`] found.
    pub fn of(path: &Path, problems: Vec<Problem>) -> Self {
        Self {
            path: path.to_owned(),
            problems,
        }
    }

    /// For a text that is no TOML, or has a key or a value that is unknown; `example` is where
    /// all keys are shown.
    pub fn unparsable(path: &Path, text: &str, error: &toml::de::Error, example: &str) -> Self {
        let place = Place::of(text, error.span());
        let (what, remedy) = explain(error.message(), example, place.as_ref());
        Self::single(path, Problem::new(text, error.span(), what, remedy))
    }

    /// For faults that were found by comparing parts; they are told in the order of the text,
    /// which is empty for options of the command line.
    pub fn faulty(path: &Path, text: &str, faults: Vec<Fault>) -> Self {
        let mut problems: Vec<Problem> = faults
            .into_iter()
            .map(|fault| {
                let span = (!text.is_empty())
                    .then(|| locate(text, &fault.at))
                    .flatten();
                Problem::new(text, span, fault.what, fault.remedy)
            })
            .collect();
        problems.sort_by_key(|problem| problem.place);
        Self {
            path: path.to_owned(),
            problems,
        }
    }

    fn single(path: &Path, problem: Problem) -> Self {
        Self {
            path: path.to_owned(),
            problems: vec![problem],
        }
    }
}

impl Problem {
    fn new(text: &str, span: Option<Range<usize>>, what: String, remedy: String) -> Self {
        let (what, remedy) = (secrets::sentence(&what), secrets::sentence(&remedy));
        let Some(span) = span else {
            return Self {
                place: None,
                line: String::new(),
                skip: 0,
                width: 0,
                what: window::sentence(what),
                remedy: window::sentence(remedy),
            };
        };
        let before = text.get(..span.start).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let unknown_key = what.strip_prefix(UNKNOWN_KEY);
        let unknown_key = unknown_key.map(|key| key.trim_matches([' ', '`']));
        let line = secrets::line(text, line_start, unknown_key);
        let column = before
            .get(line_start..)
            .map_or(0, |front| front.chars().count());
        // The line is shorter than it is in the file where a secret was left out.
        let (line, skip) = window::around(&line, column);
        let marked = text.get(span).map_or(1, |marked| {
            marked.lines().next().unwrap_or("").chars().count()
        });
        Self {
            place: Some((before.matches('\n').count() + 1, column + 1)),
            width: marked.clamp(1, line.chars().count().saturating_sub(skip).max(1)),
            line,
            skip,
            what: window::sentence(what),
            remedy: window::sentence(remedy),
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, problem) in self.problems.iter().enumerate() {
            if nth > 0 {
                writeln!(f)?;
            }
            write!(f, "{}", self.path.display())?;
            if let Some((line, column)) = problem.place {
                write!(f, ":{line}:{column}")?;
            }
            write!(f, ": {}", problem.what)?;
            if let Some((line, _)) = problem.place {
                let margin = " ".repeat(line.to_string().len());
                write!(f, "\n{line} | {}", problem.line)?;
                write!(
                    f,
                    "\n{margin} | {}{}",
                    window::blank(&problem.line, problem.skip),
                    "^".repeat(problem.width)
                )?;
            }
            if !problem.remedy.is_empty() {
                write!(f, "\n  {}", problem.remedy)?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

/// How it is told that a key is unknown; its name follows.
const UNKNOWN_KEY: &str = "unknown key";

/// The most faults of one text that are told at once.
const PROBLEMS_MAX: usize = 20;

/// Reads a text with `read`: what it says, and what is wrong with it. Past a line that cannot
/// be read it goes on without that line, so that all are told at once; `example` is where all
/// keys are shown.
pub fn read_all<T>(
    text: &str,
    example: &str,
    read: impl Fn(&str) -> Result<T, toml::de::Error>,
) -> (Option<T>, Vec<Problem>) {
    let mut problems = Vec::new();
    let value = read_on(text, example, read, &mut problems);
    problems.sort_by_key(|problem| problem.place);
    (value, problems)
}

fn read_on<T>(
    text: &str,
    example: &str,
    read: impl Fn(&str) -> Result<T, toml::de::Error>,
    problems: &mut Vec<Problem>,
) -> Option<T> {
    let mut rest = text.to_owned();
    loop {
        let error = match read(&rest) {
            Ok(value) => return Some(value),
            Err(error) => error,
        };
        // What a line that was left out would have said is no fault of its own.
        if !problems.is_empty() && error.message().starts_with("missing field") {
            return None;
        }
        let place = Place::of(text, error.span());
        let (what, remedy) = explain(error.message(), example, place.as_ref());
        problems.push(Problem::new(text, error.span(), what, remedy));
        let next = match problems.len() < PROBLEMS_MAX {
            true => error.span().and_then(|span| without_line(&rest, span)),
            false => None,
        };
        rest = next?;
    }
}

/// The text without the line of a key and its value, every other byte in its place; `None`
/// where that makes it another text: a table whose name goes away gives its keys to the table
/// before.
fn without_line(text: &str, span: Range<usize>) -> Option<String> {
    let start = text.get(..span.start)?.rfind('\n').map_or(0, |at| at + 1);
    let ends = text.get(span.end..)?.find('\n');
    let end = ends.map_or(text.len(), |at| span.end + at);
    let line = text.get(start..end)?;
    if line.trim_start().starts_with('[') || !line.contains('=') {
        return None;
    }
    let blank: String = line
        .bytes()
        .map(|byte| if byte == b'\n' { '\n' } else { ' ' })
        .collect();
    let mut without = text.to_owned();
    without.replace_range(start..end, &blank);
    DeTable::parse(&without).is_ok().then_some(without)
}

/// Splits a message of the TOML reader into fault and remedy, with a
/// suggestion for a misspelt word.
fn explain(message: &str, example: &str, place: Option<&Place<'_>>) -> (String, String) {
    if let Some((what, remedy)) = message.split_once('\n') {
        return (what.to_owned(), remedy.trim_end().to_owned());
    }
    let explained = of_another_kind(message, place)
        .or_else(|| of_another_form(message))
        .or_else(|| written::of_no_toml(message, place));
    if let Some(explained) = explained {
        return explained;
    }
    let mut words = message.split('`').skip(1).step_by(2);
    let expected = message
        .split_once("expected ")
        .map_or("", |(_, expected)| expected);
    let kind = if message.starts_with("unknown field") {
        UNKNOWN_KEY
    } else if message.starts_with("unknown variant") {
        "unknown value"
    } else if message.starts_with("missing field") {
        let field = words.next().unwrap_or("");
        return (
            format!("the key `{field}` is missing"),
            format!("add `{field} = …`; {example} shows how"),
        );
    } else {
        let remedy = if expected.is_empty() {
            String::new()
        } else {
            format!("write {expected}")
        };
        return (message.to_owned(), remedy);
    };
    let given = words.next().unwrap_or("");
    let known: Vec<&str> = words.collect();
    let remedy = match nearest(given, &known) {
        Some(word) => format!("did you mean `{word}`?"),
        None => format!("write one of: {}", known.join(", ")),
    };
    (format!("{kind} `{given}`"), remedy)
}

/// A value of one kind where another belongs: `invalid type: string "x", expected u32`.
fn of_another_kind(message: &str, place: Option<&Place<'_>>) -> Option<(String, String)> {
    let rest = message
        .strip_prefix("invalid type: ")
        .or_else(|| message.strip_prefix("invalid value: "))?;
    let (given, expected) = rest.rsplit_once(", expected ")?;
    let is_table = given == "map";
    let given = match given.split_once(' ') {
        Some(("string", text)) => format!("the text {text}"),
        Some(("integer", number)) => format!("the number {number}"),
        Some(("floating", rest)) => format!("the number{}", rest.trim_start_matches("point")),
        Some(("boolean", word)) => word.to_owned(),
        None if given == "sequence" => "a list".to_owned(),
        None if given == "map" => "a table".to_owned(),
        _ => given.to_owned(),
    };
    let (kind, remedy) = match expected {
        "u8" => ("a whole number", "write one from 0 to 255, without quotes"),
        "u16" => (
            "a whole number",
            "write one from 0 to 65535, without quotes",
        ),
        "u32" => (
            "a whole number",
            "write one from 0 to 4294967295, without quotes",
        ),
        "i64" | "i32" | "u64" | "usize" => (
            "a whole number",
            "write one without quotes or a point, for example 5",
        ),
        "f32" | "f64" => ("a number", "write one without quotes, for example 0.5"),
        "a boolean" => ("a yes or no", "write true or false, without quotes"),
        "a string" | "string" => ("a text", ""),
        "path string" => ("a path", ""),
        "a sequence" => ("a list", "write one in brackets, for example [\"…\"]"),
        "a tuple of size 2" => ("a pair", "write one in brackets: [\"…\", \"…\"]"),
        table if table == "a map" || table.starts_with("struct ") => {
            ("a table", "write { key = … }, or a section of that name")
        }
        _ => return None,
    };
    let what = format!("{given} stands where {kind} belongs");
    let remedy = match kind {
        "a text" | "a path" => written::in_quotes(place),
        "a list" if is_table => written::as_list(place),
        _ => remedy.to_owned(),
    };
    Some((what, remedy))
}

/// A text of another form than the library's own kinds have.
fn of_another_form(message: &str) -> Option<(String, String)> {
    let (what, remedy) = match message {
        escape if escape.starts_with("missing escaped value") => (
            "in double quotes a `\\` is the beginning of an escape",
            "write the text in single quotes, where it is itself, or `\\\\`",
        ),
        "invalid socket address syntax" => (
            "this is no address with a port",
            "write ADDRESS:PORT, for example \"127.0.0.1:9060\"",
        ),
        "invalid IP address syntax" => (
            "this is no address",
            "write an address without a port, for example \"192.0.2.53\"",
        ),
        _ => return None,
    };
    Some((what.to_owned(), remedy.to_owned()))
}

/// The word among `known` that `given` is most likely a misspelling of.
pub fn nearest<'a>(given: &str, known: &[&'a str]) -> Option<&'a str> {
    let given = given.to_ascii_lowercase().replace('-', "_");
    known
        .iter()
        .map(|word| {
            (
                distance(&given, &word.to_ascii_lowercase().replace('-', "_")),
                *word,
            )
        })
        .filter(|(distance, word)| {
            *distance <= 1 + word.len() / 4 || word.starts_with(&given) && given.len() > 2
        })
        .min()
        .map(|(_, word)| word)
}

/// How many letters must be changed, added, dropped or swapped with their
/// neighbour to make `a` of `b`.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().take(64).collect();
    let b: Vec<char> = b.chars().take(64).collect();
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, to) in b.iter().enumerate() {
            let at = |row: &[usize], j: usize| row.get(j).copied().unwrap_or(usize::MAX - 1);
            let mut cost = (at(&last, j) + usize::from(from != to))
                .min(at(&last, j + 1) + 1)
                .min(at(&row, j) + 1);
            if i > 0 && j > 0 && a.get(i - 1) == Some(to) && b.get(j - 1) == Some(from) {
                cost = cost.min(at(&before_last, j - 1) + 1);
            }
            row.push(cost);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or(0)
}

/// Where the value at `path` stands in the text, or the nearest table around it.
fn locate(text: &str, path: &str) -> Option<Range<usize>> {
    let root = DeTable::parse(text).ok()?;
    let mut steps = path.split('.');
    let mut value = root.get_ref().get(steps.next()?)?;
    let mut span = value.span();
    for step in steps {
        let inner = match value.get_ref() {
            DeValue::Table(table) => table.get(step),
            DeValue::Array(array) => step.parse::<usize>().ok().and_then(|nth| array.get(nth)),
            _ => None,
        };
        let Some(inner) = inner else { break };
        value = inner;
        span = value.span();
    }
    Some(span)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn misspelt_words_are_recognised() {
        assert_eq!(nearest("lisen", &["listen", "route"]), Some("listen"));
        assert_eq!(nearest("domain", &["domains", "data"]), Some("domains"));
        assert_eq!(
            nearest("drain-timeout-ms", &["drain_timeout_ms"]),
            Some("drain_timeout_ms")
        );
        assert_eq!(nearest("weihgt", &["weight", "uri"]), Some("weight"));
        assert_eq!(nearest("banana", &["listen", "route"]), None);
        assert_eq!(distance("ab", "ba"), 1);
        assert_eq!(distance("", "abc"), 3);
    }

    #[test]
    fn all_lines_that_cannot_be_read_are_told_at_once() {
        #[derive(Debug, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        #[allow(dead_code)]
        struct Read {
            a: u16,
            b: Option<Vec<String>>,
            c: Option<bool>,
        }
        let wrong = "a = \"1\"\nb = [\n 5,\n]\nx = 1 # what\nc = \"yes\"\n";
        let (read, problems) = read_all(wrong, "e.toml", |text| toml::from_str::<Read>(text));
        assert!(read.is_none());
        let places: Vec<_> = problems.iter().map(|of| of.place.unwrap().0).collect();
        assert_eq!(places[0], 1, "{problems:?}");
        assert!(
            problems.iter().all(|of| !of.what.contains("missing")),
            "{problems:?}"
        );
        let wrong = "a = 1\nx = 1\nc = 7\n";
        let (read, problems) = read_all(wrong, "e.toml", |text| toml::from_str::<Read>(text));
        assert!(read.is_some());
        let told: Vec<_> = problems.iter().map(|of| (of.place, &*of.what)).collect();
        assert_eq!(
            told,
            [
                (Some((2, 1)), "unknown key `x`"),
                (
                    Some((3, 5)),
                    "the number `7` stands where a yes or no belongs"
                )
            ]
        );
    }

    /// What is told of a text that is no TOML.
    fn told(text: &str) -> String {
        let error = toml::from_str::<toml::Table>(text).unwrap_err();
        ConfigError::unparsable(Path::new("e.toml"), text, &error, "e.toml").to_string()
    }

    /// The line of an error, and what stands in it above the first caret.
    fn pointed_at(told: &str) -> (&str, Option<char>) {
        let mut lines = told.lines().skip(1);
        let (line, marks) = (lines.next().unwrap(), lines.next().unwrap());
        let skip = marks.chars().position(|sign| sign == '^').unwrap();
        (line, line.chars().nth(skip))
    }

    #[test]
    fn a_line_of_any_length_is_told_in_part() {
        for fill in ["x", "é", "漢"] {
            let fill = fill.repeat(88_000);
            for (text, column) in [
                (format!("a = @b # {fill}\n"), 5),
                (format!("a = [\"{fill}\", @b, \"{fill}\"]\n"), 88_010),
                (format!("b = 1\na = [\"{fill}\", @b]"), 88_010),
            ] {
                let told = told(&text);
                let (line, sign) = pointed_at(&told);
                assert_eq!(sign, Some('@'), "{told}");
                assert!(line.contains('…') && line.chars().count() < 130, "{told}");
                assert!(told.contains(&format!(":{column}: ")), "{told}");
            }
        }
        let value = "7".repeat(88_000);
        let told = told(&format!("a = x{value}\n"));
        assert!(told.chars().count() < 1_000, "{told}");
        assert_eq!(pointed_at(&told).1, Some('x'), "{told}");
        let text = format!("a = \"{value}\"\n");
        let error = toml::from_str::<BTreeMap<String, bool>>(&text).unwrap_err();
        let told =
            ConfigError::unparsable(Path::new("e.toml"), &text, &error, "e.toml").to_string();
        assert!(told.contains("stands where a yes or no belongs"), "{told}");
        assert!(told.chars().count() < 3_000, "{told}");
    }

    #[test]
    fn a_secret_in_a_long_line_is_not_told() {
        let fill = "x".repeat(70_000);
        for text in [
            format!("a = [\"{fill}\", {{ password = S3cretPw }}]\n"),
            format!("a = [\"{fill}\", \"mysql://u:S3cretPw@db/k\", @b]\n"),
            format!("a = [@b, \"mysql://u:S3cretPw{fill}@db/k\"]\n"),
            format!("a = [\"mysql://u:S3cretPw{fill}S3cretPw@db/k\", @b]\n"),
            format!("a = {{ password = \"{fill}S3cretPw\", b = @b }}\n"),
        ] {
            let told = told(&text);
            assert!(told.contains("***") && !told.contains("S3cret"), "{told}");
        }
    }

    #[test]
    fn the_mark_stands_below_its_place_behind_tabs() {
        let told = told("\ta =\t@b\n");
        assert!(told.contains("\n1 | \ta =\t@b\n  | \t   \t^^\n"), "{told}");
    }

    #[test]
    fn a_place_in_the_text_is_found_by_its_path() {
        let text = "a = 1\n[[b]]\nc = { d = \"x\" }\n[[b]]\nc = { d = \"y\" }\n";
        let span = locate(text, "b.1.c.d").unwrap();
        assert_eq!(text.get(span), Some("\"y\""));
        assert!(locate(text, "b.1.missing").is_some());
        assert_eq!(locate(text, "missing"), None);
    }
}
