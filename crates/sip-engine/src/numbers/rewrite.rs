//! Rewriting numbers by regular expressions. They are matched in linear time, whatever they are,
//! and what they may take in memory is bounded when they are read.

use regex_automata::meta::{BuildError, Config, Regex};
use regex_automata::util::syntax;

use super::DIGITS_MAX;

/// The most bytes that a rule's automata may take.
const AUTOMATA_BYTES_MAX: usize = 1 << 20;
/// The most that one of their caches may take.
const CACHE_BYTES_MAX: usize = 1 << 18;

/// A rule: the number that fits the whole of it becomes another.
#[derive(Clone)]
pub struct Rewrite {
    regex: Regex,
    pattern: Box<str>,
    to: Box<str>,
}

/// What is wrong with a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadRule {
    /// The expression cannot be read, or is too large: why.
    Pattern(String),
    /// What is to be written in its place names a group that it has not.
    To(String),
}

impl Rewrite {
    /// Reads a rule. `to` has `$1` or `${1}` for what the first group of `pattern` has matched.
    pub fn new(pattern: &str, to: &str) -> Result<Self, BadRule> {
        let bad = |error: Box<BuildError>| BadRule::Pattern(reason(&error));
        // By itself first: a parenthesis too many must not end the group around it.
        build(pattern).map_err(bad)?;
        // All of the number: who writes 0 means 0, and not whatever has one in it.
        let regex = build(&format!("^(?:{pattern})$")).map_err(bad)?;
        for name in groups_named(to) {
            let is_known = match name.parse::<usize>() {
                Ok(number) => number < regex.captures_len(),
                Err(_) => false,
            };
            if !is_known {
                return Err(BadRule::To(name));
            }
        }
        Ok(Self {
            regex,
            pattern: pattern.into(),
            to: to.into(),
        })
    }

    /// What it makes of a number; `None` where it does not fit, or nothing that could be dialled
    /// would come of it.
    pub fn apply(&self, number: &str) -> Option<String> {
        if number.len() > DIGITS_MAX {
            return None;
        }
        let mut captures = self.regex.create_captures();
        self.regex.captures(number, &mut captures);
        if !captures.is_match() {
            return None;
        }
        let mut written = String::new();
        captures.interpolate_string_into(number, &self.to, &mut written);
        is_number(&written).then_some(written)
    }
}

impl std::fmt::Debug for Rewrite {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Rewrite({:?} to {:?})", self.pattern, self.to)
    }
}

impl PartialEq for Rewrite {
    fn eq(&self, other: &Self) -> bool {
        (&self.pattern, &self.to) == (&other.pattern, &other.to)
    }
}

fn build(pattern: &str) -> Result<Regex, Box<BuildError>> {
    let config = Config::new()
        .nfa_size_limit(Some(AUTOMATA_BYTES_MAX))
        .onepass_size_limit(Some(AUTOMATA_BYTES_MAX))
        .hybrid_cache_capacity(CACHE_BYTES_MAX);
    // Numbers are ASCII.
    let bytes = syntax::Config::new().unicode(false).utf8(false);
    let mut builder = Regex::builder();
    let regex = builder.configure(config).syntax(bytes).build(pattern);
    regex.map_err(Box::new)
}

/// What of the error an operator can use: its last line names the fault.
fn reason(error: &BuildError) -> String {
    if error.size_limit().is_some() {
        return "it needs too much memory".to_owned();
    }
    let text = match error.syntax_error() {
        Some(error) => error.to_string(),
        None => error.to_string(),
    };
    let last = text.lines().last().unwrap_or_default();
    last.trim_start_matches("error: ").to_owned()
}

/// The groups that a replacement names.
fn groups_named(to: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut rest = to;
    while let Some(at) = rest.find('$') {
        rest = rest.get(at + 1..).unwrap_or_default();
        if let Some(after) = rest.strip_prefix('$') {
            rest = after;
            continue;
        }
        let name = match rest.strip_prefix('{') {
            Some(braced) => braced.split('}').next().unwrap_or_default(),
            None => {
                let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
                let end = rest.find(|c| !is_of_name(c)).unwrap_or(rest.len());
                rest.get(..end).unwrap_or_default()
            }
        };
        names.push(name.to_owned());
    }
    names
}

fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix('+').unwrap_or(text);
    let is_dialled = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'*' | b'#');
    text.len() <= DIGITS_MAX
        && digits.bytes().any(|byte| byte.is_ascii_digit())
        && digits.bytes().all(is_dialled)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn apply(pattern: &str, to: &str, number: &str) -> Option<String> {
        Rewrite::new(pattern, to).unwrap().apply(number)
    }

    #[test]
    fn a_rule_is_for_whole_numbers() {
        let national = ("0([1-9][0-9]*)", "+49$1");
        assert_eq!(
            apply(national.0, national.1, "030123").as_deref(),
            Some("+4930123")
        );
        for other in ["0049301", "+4930", "1030123", "0", ""] {
            assert_eq!(apply(national.0, national.1, other), None, "{other}");
        }
        assert_eq!(apply("1|2", "77", "21"), None);
        assert_eq!(apply("(1)(2)?", "${1}0$2", "1").as_deref(), Some("10"));
        assert_eq!(
            apply("9(.*)", "$1", "9").as_deref(),
            None,
            "nothing is left"
        );
        assert_eq!(apply("1", "a", "1"), None, "no number comes of it");
        assert_eq!(
            apply("1*", "$0$0$0", &"1".repeat(60)),
            None,
            "it grows too long"
        );
    }

    #[test]
    fn bad_rules_are_told() {
        assert!(Rewrite::new("1)|(2", "1").is_err(), "it would not be whole");
        assert_eq!(apply(r"\d+", "7", "123").as_deref(), Some("7"));
        assert!(matches!(Rewrite::new("(", "1"), Err(BadRule::Pattern(_))));
        assert_eq!(Rewrite::new("(1)", "$2"), Err(BadRule::To("2".to_owned())));
        let glued = Rewrite::new("(1)", "$1a");
        assert_eq!(glued, Err(BadRule::To("1a".to_owned())));
        let huge = Rewrite::new("(([0-9]{1,500}){1,500}){1,500}", "1");
        assert!(matches!(huge, Err(BadRule::Pattern(_))), "{huge:?}");
        // What would take a backtracking engine for ever takes it no time.
        assert_eq!(apply("(1*)*(1*)*(1*)*2", "3", &"1".repeat(64)), None);
    }
}
