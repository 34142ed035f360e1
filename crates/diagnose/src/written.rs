//! Remedies for what is no TOML, or of another kind, made from what stands in the file.

use std::ops::Range;

use crate::secrets;

/// The longest value, or name, that is repeated, in characters.
const REPEATED_MAX: usize = 60;

/// How the reader of TOML says that something is no value.
const NO_VALUE: [&str; 22] = [
    "string values must be quoted",
    "missing opening quote",
    "invalid float",
    "invalid mantissa",
    "invalid fraction",
    "invalid exponent",
    "invalid boolean",
    "invalid integer number",
    "invalid hexadecimal number",
    "invalid octal number",
    "invalid binary number",
    "invalid datetime",
    "invalid date-time",
    "invalid date",
    "invalid time",
    "invalid offset",
    "redundant numeric sign",
    "redundant integer number prefix",
    "integers with a radix cannot be signed",
    "radix must be lowercase",
    "unexpected sign",
    "`_` may only go between digits",
];

/// What stands at the place of an error.
pub(crate) struct Place<'t> {
    line: &'t str,
    /// The line without what is a secret in it.
    shown: String,
    /// Where in the line the place begins.
    at: usize,
    /// What is pointed at, as far as it is in this line.
    marked: &'t str,
}

impl<'t> Place<'t> {
    pub(crate) fn of(text: &'t str, span: Option<Range<usize>>) -> Option<Self> {
        let span = span?;
        let before = text.get(..span.start)?;
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let line = text.get(line_start..)?.lines().next().unwrap_or("");
        Some(Self {
            line,
            shown: secrets::line(text, line_start, None),
            at: span.start - line_start,
            marked: text.get(span)?.lines().next().unwrap_or(""),
        })
    }

    /// The value without quotes that stands here, where it can be repeated: all of it is known
    /// to belong to it, and it is no secret.
    fn unquoted(&self) -> Option<&'t str> {
        let front = self.line.get(..self.at)?;
        let top = self.line.find('=').map_or(0, |at| at + 1);
        // An address of IPv6 with a port is no list.
        let top_value = self.line.get(top..)?.trim_start();
        let is_address = top_value.starts_with('[') && top_value.contains("]:");
        // In a list over several lines the key is above.
        let is_inside = !is_address && (front.contains(['[', '{']) || !front.contains('='));
        let begin = match is_address {
            true => top,
            false => front.rfind(['=', '[', ',', '{']).map_or(0, |at| at + 1),
        };
        let rest = self.line.get(begin..)?;
        let end = match is_inside {
            true => rest.find([',', ']', '}', '#']),
            false => rest.find('#'),
        };
        let (value, behind) = rest.split_at_checked(end.unwrap_or(rest.len()))?;
        // A comment begins with its sign wherever that stands, which the value may have meant.
        let is_whole = !behind.starts_with('#') || value.is_empty() || value.ends_with([' ', '\t']);
        let value = value.trim().trim_end_matches(['"', '\'']);
        let can_be_quoted = (is_address || !value.starts_with(['[', '{']))
            && !value.contains(|sign: char| sign.is_control() || matches!(sign, '"' | '\'' | '\\'))
            && value.chars().count() <= REPEATED_MAX;
        let is_shown = self.shown.get(begin..)?.trim_start().starts_with(value);
        (is_whole && can_be_quoted && is_shown).then_some(value)
    }

    /// Whether what stands here is a value without quotes and without blanks in it.
    fn is_one_word(&self) -> bool {
        let value = self.unquoted().unwrap_or("");
        self.head().is_none() && !value.is_empty() && !value.contains(char::is_whitespace)
    }

    /// The name in the head of a section that stands here, and whether that is one of a list.
    fn head(&self) -> Option<(&'t str, bool)> {
        let line = self.line.trim_start();
        let (rest, is_list) = match line.strip_prefix("[[") {
            Some(rest) => (rest, true),
            None => (line.strip_prefix('[')?, false),
        };
        let (name, _) = rest.split_once(']')?;
        let name = name.trim();
        let is_name = |sign: char| sign.is_alphanumeric() || matches!(sign, '_' | '-' | '.');
        let is_short = name.chars().count() <= REPEATED_MAX;
        (!name.is_empty() && is_short && name.chars().all(is_name)).then_some((name, is_list))
    }
}

/// How what stands there is written as a text.
pub(crate) fn in_quotes(place: Option<&Place<'_>>) -> String {
    let value = place
        .and_then(Place::unquoted)
        .filter(|value| !value.is_empty());
    format!("write it in quotes: \"{}\"", value.unwrap_or("…"))
}

/// How a table that stands there is written as a list.
pub(crate) fn as_list(place: Option<&Place<'_>>) -> String {
    let Some((place, (name, _))) = place.and_then(|place| Some((place, place.head()?))) else {
        return "write one in brackets, for example [{ key = … }]".to_owned();
    };
    // The head of a table within it makes the table around it.
    match name.split_once('.') {
        Some((outer, _)) if outer == place.marked => format!("write [[{outer}]] above it"),
        _ => format!("write [[{name}]]"),
    }
}

/// Fault and remedy of a text that is no TOML.
pub(crate) fn of_no_toml(message: &str, place: Option<&Place<'_>>) -> Option<(String, String)> {
    if message.starts_with("unknown ") {
        return None;
    }
    let (fault, expected) = message.split_once(", expected ").unwrap_or((message, ""));
    let told = |what: &str, remedy: &str| Some((what.to_owned(), remedy.to_owned()));
    match fault {
        "duplicate key" => Some(twice(place)),
        "unexpected leading zero" => {
            let quoted = in_quotes(place);
            let remedy = format!("leave the zero out; of a text, {quoted}");
            Some(("a number begins with a zero".to_owned(), remedy))
        }
        "missing value" => told(NOTHING.0, NOTHING.1),
        "key with no value" | "missing value for key" => {
            told("a key has no value", "write KEY = VALUE")
        }
        "unexpected key or value" if place.is_some_and(Place::is_one_word) => Some(no_value(place)),
        fault if NO_VALUE.contains(&fault) => Some(no_value(place)),
        fault if expected == "nothing" => told(fault, "leave it out"),
        fault => {
            let expected: Option<Vec<&str>> = expected.split(", ").map(plain).collect();
            Some((
                fault.to_owned(),
                format!("write {}", expected?.join(" or ")),
            ))
        }
    }
}

/// What is told of a key without a value.
const NOTHING: (&str, &str) = ("there is no value", "write one, or leave the key out");

fn no_value(place: Option<&Place<'_>>) -> (String, String) {
    match place.and_then(Place::unquoted) {
        Some("") => (NOTHING.0.to_owned(), NOTHING.1.to_owned()),
        Some(word) if is_yes_or_no(word) => (
            format!("`{word}` is no value"),
            format!("write true or false, or a text in quotes: \"{word}\""),
        ),
        _ => (
            "this is neither a number nor a text in quotes".to_owned(),
            in_quotes(place),
        ),
    }
}

fn is_yes_or_no(word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    matches!(&*word, "yes" | "no" | "on" | "off" | "true" | "false")
}

/// A key, or a section, that is there twice.
fn twice(place: Option<&Place<'_>>) -> (String, String) {
    match place.and_then(Place::head) {
        Some((name, true)) => (
            format!("`{name}` is there already, and not as [[{name}]]"),
            format!("write [[{name}]] each time"),
        ),
        Some((name, false)) => (
            format!("[{name}] is there twice"),
            format!("write it once, with all its keys below it, or [[{name}]] each time"),
        ),
        None => {
            let key = place
                .filter(|place| place.shown.contains(place.marked))
                .map(|place| place.marked)
                .filter(|key| !key.is_empty() && key.chars().count() <= REPEATED_MAX);
            let what = match key {
                Some(key) => format!("the key `{key}` is there twice"),
                None => "a key is there twice".to_owned(),
            };
            (what, "write it once".to_owned())
        }
    }
}

/// What the reader of TOML wants to be written, in plain words; `None` for other readers' words.
fn plain(expected: &str) -> Option<&str> {
    match expected {
        "newline" => Some("the rest on a line of its own"),
        "`#`" => Some("a comment behind `#`"),
        "key" => Some("a key"),
        "value" => Some("a value"),
        "digits" | "letters" | "numbers" => Some(expected),
        sign if sign.starts_with('`') && sign.ends_with('`') => Some(expected),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use crate::ConfigError;

    #[derive(Debug, serde::Deserialize)]
    #[allow(dead_code)]
    struct Read {
        version: Option<u32>,
        name: Option<String>,
        data: Option<PathBuf>,
        servers: Option<Vec<String>>,
        listen: Option<Vec<Listen>>,
    }

    #[derive(Debug, serde::Deserialize)]
    #[allow(dead_code)]
    struct Listen {
        on: Option<String>,
    }

    const NEITHER: &str = "this is neither a number nor a text in quotes";
    const LIST: &str = "a table stands where a list belongs";

    /// What is written, and the cause and the remedy that are told of it.
    const MISTAKES: [(&str, &str, &str); 36] = [
        (
            "listen = 127.0.0.1:9060",
            NEITHER,
            "write it in quotes: \"127.0.0.1:9060\"",
        ),
        (
            "listen = 192.0.2.1 # inside",
            NEITHER,
            "write it in quotes: \"192.0.2.1\"",
        ),
        (
            "on = udp:0.0.0.0:5060",
            NEITHER,
            "write it in quotes: \"udp:0.0.0.0:5060\"",
        ),
        (
            "on = udp:[::]:5060",
            NEITHER,
            "write it in quotes: \"udp:[::]:5060\"",
        ),
        ("level = info", NEITHER, "write it in quotes: \"info\""),
        (
            "mode = transport",
            NEITHER,
            "write it in quotes: \"transport\"",
        ),
        ("at = 25:00", NEITHER, "write it in quotes: \"25:00\""),
        ("a = [one, \"two\"]", NEITHER, "write it in quotes: \"one\""),
        ("a = [\n one,\n]", NEITHER, "write it in quotes: \"one\""),
        (
            "a = { b = one, c = 2 }",
            NEITHER,
            "write it in quotes: \"one\"",
        ),
        (
            "a = [::1]:5060",
            NEITHER,
            "write it in quotes: \"[::1]:5060\"",
        ),
        ("a = one#two", NEITHER, "write it in quotes: \"…\""),
        ("a = c:\\one", NEITHER, "write it in quotes: \"…\""),
        ("a = one\"", NEITHER, "write it in quotes: \"one\""),
        ("password = S3cretPw", NEITHER, "write it in quotes: \"…\""),
        (
            "a = mysql://u:S3cretPw@h/d",
            NEITHER,
            "write it in quotes: \"…\"",
        ),
        (
            "pin = yes",
            "`yes` is no value",
            "write true or false, or a text in quotes: \"yes\"",
        ),
        (
            "pin = True",
            "`True` is no value",
            "write true or false, or a text in quotes: \"True\"",
        ),
        (
            "prefix = 0049",
            "a number begins with a zero",
            "leave the zero out; of a text, write it in quotes: \"0049\"",
        ),
        (
            "workers = ",
            "there is no value",
            "write one, or leave the key out",
        ),
        (
            "workers = # none\nb = 1",
            "there is no value",
            "write one, or leave the key out",
        ),
        ("workers", "a key has no value", "write KEY = VALUE"),
        ("a = = 1", "extra `=`", "leave it out"),
        (
            "a = 1 \"b\"",
            "unexpected key or value",
            "write the rest on a line of its own or a comment behind `#`",
        ),
        ("a = [1, 2", "unclosed array", "write `]`"),
        (
            "a = 1\na = 2",
            "the key `a` is there twice",
            "write it once",
        ),
        (
            "[a]\n[a]",
            "[a] is there twice",
            "write it once, with all its keys below it, or [[a]] each time",
        ),
        (
            "a = 1\n[[a]]",
            "`a` is there already, and not as [[a]]",
            "write [[a]] each time",
        ),
        (
            "data = 5",
            "the number `5` stands where a path belongs",
            "write it in quotes: \"5\"",
        ),
        (
            "data = [\"x\"]",
            "a list stands where a path belongs",
            "write it in quotes: \"…\"",
        ),
        (
            "name = true",
            "`true` stands where a text belongs",
            "write it in quotes: \"true\"",
        ),
        (
            "servers = \"x\"",
            "the text \"x\" stands where a list belongs",
            "write one in brackets, for example [\"…\"]",
        ),
        ("[listen]\non = \"x\"", LIST, "write [[listen]]"),
        ("version = 1\n[ listen ]\n", LIST, "write [[listen]]"),
        (
            "[listen.security]\na = 1",
            LIST,
            "write [[listen]] above it",
        ),
        (
            "listen = { on = \"x\" }",
            LIST,
            "write one in brackets, for example [{ key = … }]",
        ),
    ];

    /// What is told of a text, in its line of cause and its line of remedy.
    fn told(text: &str) -> String {
        let error = toml::from_str::<Read>(text).unwrap_err();
        ConfigError::unparsable(Path::new("e.toml"), text, &error, "e.toml").to_string()
    }

    #[test]
    fn each_mistake_has_a_remedy_that_can_be_typed() {
        for (text, what, remedy) in MISTAKES {
            let told = told(text);
            let cause = told.lines().next().unwrap();
            assert!(cause.ends_with(&format!(": {what}")), "{text}: {told}");
            assert!(told.ends_with(&format!("\n  {remedy}")), "{text}: {told}");
            assert!(!told.contains("S3cret"), "{text}: {told}");
        }
    }

    #[test]
    fn a_long_value_is_not_repeated() {
        let told = told(&format!("a = {}\n", "é".repeat(70_000)));
        assert!(told.ends_with("write it in quotes: \"…\""), "{told}");
    }
}
