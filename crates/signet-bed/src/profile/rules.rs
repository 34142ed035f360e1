//! Which component a sample belongs to: the rules, and the file that they are read from.

use std::fmt;
use std::ops::Range;
use std::path::Path;

use invariant::broken;
use serde::Deserialize;
use toml::Spanned;

use super::Component;
use super::pattern::is_match;
use crate::Error;

/// The rules of this build, as text.
pub const RULES_TEXT: &str = include_str!("rules.toml");

const TEXT_BYTES_MAX: u64 = 1 << 20;
const RULES_MAX: usize = 1_000;

/// Where a sample was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin<'a> {
    /// The program that the process runs: `signet`, `kamailio`, `mariadbd`.
    pub system: &'a str,
    /// The thread's name.
    pub thread: &'a str,
    /// The file that the code is from, without its folder; `[kernel.kallsyms]` for the kernel.
    pub image: &'a str,
    /// The function; `[unknown]` where the file does not tell, and `~NAME` where it tells only
    /// which exported function is the nearest before it.
    pub symbol: &'a str,
}

/// What is known of a thread without samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account<'a> {
    /// Where its time outside of the kernel goes.
    pub component: Component,
    /// What else that time holds: threads do more than one thing.
    pub holds: &'a [Component],
}

/// Ordered rules; the first that matches counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    rules: Vec<Rule>,
    accounts: Vec<AccountRule>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    component: Component,
    #[serde(default)]
    system: Patterns,
    #[serde(default)]
    thread: Patterns,
    #[serde(default)]
    image: Patterns,
    #[serde(default)]
    symbol: Patterns,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct AccountRule {
    component: Component,
    #[serde(default)]
    system: Patterns,
    #[serde(default)]
    thread: Patterns,
    #[serde(default)]
    holds: Vec<Component>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    rule: Vec<Spanned<Rule>>,
    #[serde(default)]
    account: Vec<Spanned<AccountRule>>,
}

/// One pattern or several, of which one must match; none matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "OneOrMore")]
struct Patterns(Vec<String>);

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a pattern or a list of patterns")]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

impl From<OneOrMore> for Patterns {
    fn from(given: OneOrMore) -> Self {
        match given {
            OneOrMore::One(pattern) => Self(vec![pattern]),
            OneOrMore::More(patterns) => Self(patterns),
        }
    }
}

impl Patterns {
    fn matches(&self, text: &str) -> bool {
        self.0.is_empty() || self.0.iter().any(|pattern| is_match(pattern, text))
    }

    fn has_an_empty_one(&self) -> bool {
        self.0.iter().any(String::is_empty)
    }
}

impl Default for Rules {
    /// Those of this build: [`RULES_TEXT`].
    fn default() -> Self {
        match Self::from_text("the rules of this build", RULES_TEXT) {
            Ok(rules) => rules,
            Err(_) => broken!(
                "the rules of this build can be read",
                Self {
                    rules: Vec::new(),
                    accounts: Vec::new(),
                }
            ),
        }
    }
}

impl Rules {
    /// Reads a file of at most 1 MiB.
    ///
    /// # Errors
    /// A file that cannot be read, and what [`Rules::from_text`] says.
    pub fn from_file(path: &Path) -> Result<Self, Error> {
        let unreadable = |error: std::io::Error| {
            Error::new(
                format!("{}: {error}", path.display()),
                "name a file of rules; `signet bed profile --rules` prints one to begin with",
            )
        };
        let mut text = String::new();
        let file = std::fs::File::open(path).map_err(unreadable)?;
        let mut limited = std::io::Read::take(file, TEXT_BYTES_MAX + 1);
        std::io::Read::read_to_string(&mut limited, &mut text).map_err(unreadable)?;
        if text.len() as u64 > TEXT_BYTES_MAX {
            return Err(Error::new(
                format!("{} has more than 1 MiB", path.display()),
                "name a file of rules",
            ));
        }
        Self::from_text(&path.display().to_string(), &text)
    }

    /// Reads a text; `name` is for the errors.
    ///
    /// # Errors
    /// The first fault with its line and column, and what to write instead.
    pub fn from_text(name: &str, text: &str) -> Result<Self, Error> {
        let fault = |span: Option<Range<usize>>, what: &str, remedy: &str| {
            Error::new(
                format!("{name}{}: {what}", Position::of(text, span)),
                remedy,
            )
        };
        let document: Document = toml::from_str(text).map_err(|error| {
            fault(
                error.span(),
                error.message().trim(),
                "`signet bed profile --rules` prints rules that can be read",
            )
        })?;
        let is_too_many = document.rule.len().max(document.account.len()) > RULES_MAX;
        if is_too_many {
            return Err(fault(None, "more than 1,000 rules", "join some by lists"));
        }
        for rule in &document.rule {
            let Rule {
                system,
                thread,
                image,
                symbol,
                ..
            } = rule.get_ref();
            check(&fault, rule.span(), &[system, thread, image, symbol])?;
        }
        for rule in &document.account {
            let AccountRule { system, thread, .. } = rule.get_ref();
            check(&fault, rule.span(), &[system, thread])?;
        }
        Ok(Self {
            rules: inner(document.rule),
            accounts: inner(document.account),
        })
    }

    /// The component of a sample.
    #[must_use]
    pub fn component(&self, place: &Origin<'_>) -> Component {
        self.rules
            .iter()
            .find(|rule| {
                rule.system.matches(place.system)
                    && rule.image.matches(place.image)
                    && rule.thread.matches(place.thread)
                    && rule.symbol.matches(place.symbol)
            })
            .map_or(Component::Other, |rule| rule.component)
    }

    /// Where the time goes that a thread spends outside of the kernel, when nothing but its
    /// name is known.
    #[must_use]
    pub fn account(&self, system: &str, thread: &str) -> Account<'_> {
        self.accounts
            .iter()
            .find(|rule| rule.system.matches(system) && rule.thread.matches(thread))
            .map_or(
                Account {
                    component: Component::Other,
                    holds: &[],
                },
                |rule| Account {
                    component: rule.component,
                    holds: &rule.holds,
                },
            )
    }
}

fn inner<T>(rules: Vec<Spanned<T>>) -> Vec<T> {
    rules.into_iter().map(Spanned::into_inner).collect()
}

/// A rule without a condition would hide all that follow; an empty pattern matches nothing.
fn check(
    fault: &impl Fn(Option<Range<usize>>, &str, &str) -> Error,
    span: Range<usize>,
    conditions: &[&Patterns],
) -> Result<(), Error> {
    if conditions.iter().all(|patterns| patterns.0.is_empty()) {
        return Err(fault(
            Some(span),
            "this rule has no condition",
            "give it a system, a thread, an image or a symbol; what no rule knows is 'other'",
        ));
    }
    if conditions
        .iter()
        .any(|patterns| patterns.has_an_empty_one())
    {
        return Err(fault(
            Some(span),
            "an empty pattern matches nothing",
            "leave the key out or write \"*\"",
        ));
    }
    Ok(())
}

/// `:LINE:COLUMN`, from 1, or nothing.
struct Position(Option<(usize, usize)>);

impl Position {
    fn of(text: &str, span: Option<Range<usize>>) -> Self {
        Self(span.map(|span| {
            let before = text.get(..span.start).unwrap_or(text);
            let line_start = before.rfind('\n').map_or(0, |at| at + 1);
            let column = before
                .get(line_start..)
                .map_or(0, |line| line.chars().count());
            (before.matches('\n').count() + 1, column + 1)
        }))
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some((line, column)) => write!(f, ":{line}:{column}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
