//! POSIX extended regular expressions, as `regcomp` reads them with
//! `REG_EXTENDED`, on an engine that takes linear time.
//!
//! The expression is translated; what has no counterpart (back-references,
//! collating elements) is refused. The match is POSIX's leftmost and longest.
//! Inside that match, subexpressions are matched as Perl does it, greedily from
//! the left: where alternatives of different length compete inside one
//! subexpression, POSIX may divide the same match otherwise.

use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::meta;
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input, MatchKind};

/// The longest expression, in bytes.
const PATTERN_MAX: usize = 8_192;
/// What a compiled expression may take, in bytes.
const COMPILED_MAX: usize = 16 * 1024 * 1024;
/// `RE_DUP_MAX`, kept small: counted repetitions multiply the program.
const REPEAT_MAX: u32 = 1_000;

/// A compiled expression.
#[derive(Debug)]
pub struct Regex {
    first: meta::Regex,
    /// Finds where the longest match ends; absent where the first is the longest.
    longest: Option<Box<DFA>>,
    groups: usize,
}

/// Memory that searches use again.
#[derive(Debug)]
pub struct Scratch {
    captures: regex_automata::util::captures::Captures,
    cache: Option<Cache>,
}

impl Regex {
    /// Compiles an expression; the error says what is wrong and at which byte
    /// of the expression.
    pub fn new(pattern: &[u8], ignore_case: bool) -> Result<Self, (usize, String)> {
        if pattern.len() > PATTERN_MAX {
            return Err((0, format!("longer than {PATTERN_MAX} bytes")));
        }
        let mut translator = Translator {
            pattern,
            at: 0,
            out: String::new(),
            depth: 0,
            groups: 0,
            is_ambiguous: false,
        };
        translator.alternatives()?;
        let (out, groups, is_ambiguous) =
            (translator.out, translator.groups, translator.is_ambiguous);
        let options = syntax::Config::new()
            .unicode(false)
            .utf8(false)
            .dot_matches_new_line(true)
            .case_insensitive(ignore_case);
        let too_big = |_| (0, "too large when compiled".to_owned());
        let first = meta::Builder::new()
            .syntax(options)
            .configure(
                meta::Config::new()
                    .utf8_empty(false)
                    .nfa_size_limit(Some(COMPILED_MAX)),
            )
            .build(&out)
            .map_err(|_| (0, "too large when compiled".to_owned()))?;
        let longest = if is_ambiguous {
            let dfa = DFA::builder()
                .syntax(options)
                .configure(DFA::config().match_kind(MatchKind::All))
                .build(&out)
                .map_err(|e| too_big(Box::new(e)))?;
            Some(Box::new(dfa))
        } else {
            None
        };
        Ok(Self {
            first,
            longest,
            groups,
        })
    }

    /// How many parenthesised subexpressions there are.
    pub fn groups(&self) -> usize {
        self.groups
    }

    /// Memory for searches with this expression.
    pub fn scratch(&self) -> Scratch {
        Scratch {
            captures: self.first.create_captures(),
            cache: self.longest.as_ref().map(|dfa| dfa.create_cache()),
        }
    }

    /// Whether there is a match.
    pub fn is_match(&self, text: &[u8]) -> bool {
        self.first.is_match(text)
    }

    /// Finds the leftmost, longest match; [`Scratch::group`] gives its parts.
    pub fn find(&self, text: &[u8], scratch: &mut Scratch) -> bool {
        self.first.captures(text, &mut scratch.captures);
        let Some(found) = scratch.captures.get_match() else {
            return false;
        };
        let (Some(dfa), Some(cache)) = (&self.longest, &mut scratch.cache) else {
            return true;
        };
        let from = Input::new(text)
            .range(found.start()..)
            .anchored(Anchored::Yes);
        // The lazy automaton gives up only where it may not grow; the first
        // match is the answer then.
        if let Ok(Some(longest)) = dfa.try_search_fwd(cache, &from)
            && longest.offset() > found.end()
        {
            let input = Input::new(text)
                .range(found.start()..longest.offset())
                .anchored(Anchored::Yes);
            self.first.search_captures(&input, &mut scratch.captures);
            scratch.stretch(found.start(), longest.offset());
        }
        true
    }
}

impl Scratch {
    /// The bytes of a part of the last match: 0 is the whole.
    pub fn group<'t>(&self, text: &'t [u8], index: usize) -> Option<&'t [u8]> {
        let span = self.captures.get_group(index)?;
        text.get(span.start..span.end)
    }

    /// The whole match is what POSIX says, whatever its parts are.
    fn stretch(&mut self, start: usize, end: usize) {
        let slots = self.captures.slots_mut();
        if let [first, second, ..] = slots {
            *first = regex_automata::util::primitives::NonMaxUsize::new(start);
            *second = regex_automata::util::primitives::NonMaxUsize::new(end);
        }
    }
}

struct Translator<'a> {
    pattern: &'a [u8],
    at: usize,
    out: String,
    depth: usize,
    groups: usize,
    /// Whether the first match that is found may not be the longest.
    is_ambiguous: bool,
}

type Translated = Result<(), (usize, String)>;

impl Translator<'_> {
    fn peek(&self) -> Option<u8> {
        self.pattern.get(self.at).copied()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    fn wrong(&self, what: &str) -> (usize, String) {
        (self.at, what.to_owned())
    }

    fn literal(&mut self, byte: u8) {
        // Spelled out, no byte has a meaning of its own.
        self.out.push_str(&format!("\\x{byte:02x}"));
    }

    fn alternatives(&mut self) -> Translated {
        loop {
            self.branch()?;
            match self.peek() {
                Some(b'|') => {
                    self.at += 1;
                    self.is_ambiguous = true;
                    self.out.push('|');
                }
                _ => return Ok(()),
            }
        }
    }

    fn branch(&mut self) -> Translated {
        loop {
            let start = self.out.len();
            match self.peek() {
                None | Some(b'|') => return Ok(()),
                Some(b')') if self.depth > 0 => return Ok(()),
                Some(b'*' | b'+' | b'?') => {
                    return Err(self.wrong("nothing stands before it that could be repeated"));
                }
                _ => {}
            }
            let is_group = self.atom()?;
            self.repeats(start, is_group)?;
        }
    }

    /// One atom; gives whether it is a group.
    fn atom(&mut self) -> Result<bool, (usize, String)> {
        let Some(byte) = self.next() else {
            return Ok(false);
        };
        match byte {
            b'(' => {
                self.depth += 1;
                if self.depth > 64 {
                    return Err(self.wrong("too many parentheses inside one another"));
                }
                self.groups += 1;
                self.out.push('(');
                self.alternatives()?;
                if self.next() != Some(b')') {
                    return Err(self.wrong("a parenthesis is not closed"));
                }
                self.depth -= 1;
                self.out.push(')');
                return Ok(true);
            }
            b'.' => self.out.push('.'),
            b'^' => self.out.push_str("\\A"),
            b'$' => self.out.push_str("\\z"),
            b'[' => self.bracket()?,
            b'{' => {
                self.at -= 1;
                return Err(self.wrong("nothing stands before it; write \\{ for the brace itself"));
            }
            b'\\' => self.escape()?,
            byte => self.literal(byte),
        }
        Ok(false)
    }

    fn escape(&mut self) -> Translated {
        let Some(byte) = self.next() else {
            return Err(self.wrong("a backslash at the end; write \\\\"));
        };
        match byte {
            b'1'..=b'9' => {
                self.at -= 1;
                return Err(self.wrong("a back-reference, which needs exponential time"));
            }
            // What GNU adds.
            b'w' => self.out.push_str("[0-9A-Za-z_]"),
            b'W' => self.out.push_str("[^0-9A-Za-z_]"),
            b's' => self.out.push_str("[ \\t\\n\\r\\x0b\\x0c]"),
            b'S' => self.out.push_str("[^ \\t\\n\\r\\x0b\\x0c]"),
            b'b' => self.out.push_str("\\b"),
            b'B' => self.out.push_str("\\B"),
            b'<' => self.out.push_str("\\b{start}"),
            b'>' => self.out.push_str("\\b{end}"),
            b'`' => self.out.push_str("\\A"),
            b'\'' => self.out.push_str("\\z"),
            byte => self.literal(byte),
        }
        Ok(())
    }

    /// A bracket expression: a backslash has no meaning in it.
    fn bracket(&mut self) -> Translated {
        let opened = self.at;
        self.out.push('[');
        if self.peek() == Some(b'^') {
            self.at += 1;
            self.out.push('^');
        }
        let mut is_first = true;
        loop {
            let Some(byte) = self.next() else {
                return Err((opened, "a bracket is not closed".to_owned()));
            };
            match (byte, self.peek()) {
                (b']', _) if !is_first => break,
                (b'[', Some(b':')) => self.class()?,
                (b'[', Some(b'.' | b'=')) => {
                    return Err(self.wrong("a collating element; write its characters"));
                }
                (from, Some(b'-')) if self.pattern.get(self.at + 1).is_some_and(|b| *b != b']') => {
                    self.at += 1;
                    let Some(to) = self.next() else {
                        return Err((opened, "a bracket is not closed".to_owned()));
                    };
                    if to < from {
                        return Err(self.wrong("a range that ends before it begins"));
                    }
                    self.literal(from);
                    self.out.push('-');
                    self.literal(to);
                }
                (byte, _) => self.literal(byte),
            }
            is_first = false;
        }
        self.out.push(']');
        Ok(())
    }

    fn class(&mut self) -> Translated {
        const NAMES: [&str; 12] = [
            "alnum", "alpha", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
            "space", "upper", "xdigit",
        ];
        let rest = self.pattern.get(self.at + 1..).unwrap_or_default();
        let name = NAMES.iter().find(|name| {
            rest.strip_prefix(name.as_bytes())
                .is_some_and(|behind| behind.starts_with(b":]"))
        });
        let Some(name) = name else {
            return Err(self.wrong("no such class of characters"));
        };
        self.out.push_str(&format!("[:{name}:]"));
        self.at += name.len() + 3;
        Ok(())
    }

    /// The repetitions behind the atom that was written from `start` on.
    fn repeats(&mut self, start: usize, is_group: bool) -> Translated {
        let mut is_wrapped = false;
        loop {
            let suffix = match self.peek() {
                Some(sign @ (b'*' | b'+' | b'?')) => {
                    self.at += 1;
                    char::from(sign).to_string()
                }
                Some(b'{') => self.interval()?,
                _ => return Ok(()),
            };
            // A repeated group may be taken in more than one way, and so may
            // what is optional.
            if is_group || is_wrapped || suffix != "*" {
                self.is_ambiguous |= is_group || is_wrapped || suffix == "?";
            }
            // In a group of its own, so that no sign modifies the one before.
            self.out.insert_str(start, "(?:");
            self.out.push_str(&suffix);
            self.out.push(')');
            is_wrapped = true;
        }
    }

    fn interval(&mut self) -> Result<String, (usize, String)> {
        let opened = self.at;
        let wrong = || {
            (
                opened,
                format!("write {{n}}, {{n,}} or {{n,m}} with n <= m <= {REPEAT_MAX}, or \\{{"),
            )
        };
        let rest = self.pattern.get(opened + 1..).unwrap_or_default();
        let len = memchr::memchr(b'}', rest).ok_or_else(wrong)?;
        let text = std::str::from_utf8(rest.get(..len).unwrap_or_default()).map_err(|_| wrong())?;
        let number = |digits: &str| digits.parse::<u32>().ok().filter(|n| *n <= REPEAT_MAX);
        let is_right = match text.split_once(',') {
            None => number(text).is_some(),
            // GNU's: from none on.
            Some(("", to)) => number(to).is_some(),
            Some((from, "")) => number(from).is_some(),
            Some((from, to)) => match (number(from), number(to)) {
                (Some(from), Some(to)) => from <= to,
                _ => false,
            },
        };
        if !is_right {
            return Err(wrong());
        }
        self.at += len + 2;
        if text.starts_with(',') {
            return Ok(format!("{{0{text}}}"));
        }
        Ok(format!("{{{text}}}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(pattern: &str, text: &str) -> Option<Vec<String>> {
        let regex =
            Regex::new(pattern.as_bytes(), false).unwrap_or_else(|e| panic!("{pattern}: {e:?}"));
        let mut scratch = regex.scratch();
        regex.find(text.as_bytes(), &mut scratch).then(|| {
            (0..=regex.groups())
                .map(|n| {
                    let part = scratch.group(text.as_bytes(), n).unwrap_or_default();
                    String::from_utf8_lossy(part).into_owned()
                })
                .collect()
        })
    }

    #[test]
    fn the_match_is_leftmost_and_longest() {
        for (pattern, text, expected) in [
            ("a|ab", "xaby", &["ab"][..]),
            ("(a|ab)(c|bcd)", "abcd", &["abcd"]),
            ("(a?)(ab)?", "ab", &["ab"]),
            ("x*", "aaa", &[""]),
            ("[0-9]+", "CSeq: 17 INVITE", &["17"]),
            (
                "sip:([^@]*)@([^;>]+)",
                "<sip:a@b.c;x>",
                &["sip:a@b.c", "a", "b.c"],
            ),
            (".*?", "abc", &["abc"]),
            ("a.c", "a\nc", &["a\nc"]),
            ("[]a]+", "x]a]", &["]a]"]),
            ("[\\.]", "\\", &["\\"]),
            ("a-b[a-]+", "a-b-a", &["a-b-a"]),
            ("^ab$", "ab", &["ab"]),
            ("\\d", "5d", &["d"]),
            ("(^|x)y", "y", &["y", ""]),
            ("[[:digit:][:space:]]+", "a1 2", &["1 2"]),
            ("a{2,3}", "aaaa", &["aaa"]),
            ("a**", "aa", &["aa"]),
            ("\\<b", "ab b", &["b"]),
            ("a)", "a)", &["a)"]),
        ] {
            let found = find(pattern, text).unwrap_or_else(|| panic!("{pattern} in {text}"));
            assert_eq!(found[0], expected[0], "{pattern} in {text}");
            for (n, part) in expected.iter().enumerate() {
                assert_eq!(&found[n], part, "{pattern} in {text}, group {n}");
            }
        }
        assert_eq!(find("^b", "a\nb"), None);
        assert_eq!(find("a{2}", "a"), None);
    }

    #[test]
    fn what_cannot_be_mapped_is_refused() {
        for pattern in [
            "(a)\\1",
            "[[.x.]]",
            "[[=x=]]",
            "[[:foo:]]",
            "*a",
            "a|*",
            "(a",
            "[a",
            "a{2",
            "a{3,2}",
            "{2}",
            "a\\",
            "[b-a]",
            "a{1001}",
        ] {
            assert!(Regex::new(pattern.as_bytes(), false).is_err(), "{pattern}");
        }
        assert!(Regex::new(&vec![b'('; 1_000], false).is_err());
    }

    #[test]
    fn case_is_ignored_where_asked() {
        assert!(Regex::new(b"AbC", true).unwrap().is_match(b"xaBc"));
        assert!(!Regex::new(b"AbC", false).unwrap().is_match(b"xaBc"));
    }
}
