//! Telephone numbers: how they are read, what they are worth, and how far a user may call
//! (`docs/decisions/0219-what-a-number-is.md`).
//!
//! A number is judged twice: as it was dialled, and as it leaves for the gateway after
//! everything that rewrites it. What counts is the worse of the two, so that no spelling of a
//! number is a way around what it costs.

mod rewrite;

use std::collections::BTreeMap;
use std::sync::Arc;

use sip_msg::Uri;

pub use rewrite::{BadRule, Rewrite};

/// The longest number that is read. E.164 has 15 digits; prefixes of operators come on top.
pub(crate) const DIGITS_MAX: usize = 64;

/// The most parts between `*` and `#`, and the most prefixes one behind the other, of a number that
/// is judged, and the most readings of one that `phone-context` and `rn` add to. The longest codes of
/// switches have seven parts, and nobody dials a prefix twice. Each of them is compared with both lists,
/// and whoever may call anybody may send them.
const PARTS_MAX: usize = 8;

/// How far a user may call; each goes as far as those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Deserialize),
    serde(rename_all = "lowercase")
)]
pub enum Permission {
    /// Emergency numbers alone.
    None,
    /// Users of our domains.
    Internal,
    /// Numbers of this country, and other domains.
    National,
    /// Numbers of all countries.
    International,
    /// Numbers that cost more than others.
    Premium,
}

impl Permission {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::None,
        Self::Internal,
        Self::National,
        Self::International,
        Self::Premium,
    ];

    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Internal => "internal",
            Self::National => "national",
            Self::International => "international",
            Self::Premium => "premium",
        }
    }
}

impl std::str::FromStr for Permission {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut all = Self::ALL.into_iter();
        let known = all.find(|permission| permission.name() == text);
        known.ok_or_else(|| "write none, internal, national, international or premium".to_owned())
    }
}

/// What a number is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Whoever proved who he is may call it.
    Emergency,
    /// Nobody may call it.
    Blocked,
    /// Who calls it needs this.
    Needs(Permission),
}

/// What holds for the users of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupRules {
    /// How far they may call.
    pub permission: Option<Permission>,
    /// How many outgoing calls each of them may have at a time; 0 for any number.
    pub calls_max: Option<u32>,
}

/// How numbers are read, and who may call which.
#[derive(Clone, Debug)]
pub struct NumberRules {
    /// The digits of this country's code; empty where none is known.
    pub country_code: Box<str>,
    /// What is dialled before the code of another country.
    pub international_prefix: Box<str>,
    /// What is dialled before an area's code; empty for nothing.
    pub national_prefix: Box<str>,
    /// Numbers that every user may call, however many calls he has.
    pub emergency: Vec<Box<str>>,
    /// Prefixes of numbers that nobody may call.
    pub blocked: Vec<Box<str>>,
    /// Prefixes of numbers that cost more.
    pub premium: Vec<Box<str>>,
    /// How far users may call where nothing else is set.
    pub permission: Permission,
    /// Groups of users, by name.
    pub groups: BTreeMap<Arc<str>, GroupRules>,
    /// How numbers are rewritten before anything is looked up for them; the first rule that
    /// fits counts.
    pub rewrites: Vec<Rewrite>,
}

impl Default for NumberRules {
    fn default() -> Self {
        Self {
            country_code: "".into(),
            international_prefix: "00".into(),
            national_prefix: "0".into(),
            emergency: Vec::new(),
            blocked: Vec::new(),
            premium: Vec::new(),
            permission: Permission::Premium,
            groups: BTreeMap::new(),
            rewrites: Vec::new(),
        }
    }
}

/// A number in the one form that it is compared in.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Form<'n> {
    /// `+`, country code and all.
    Global(String),
    /// Without an area's code, or of a country that is not known.
    Local(&'n str),
    /// No number that could be told: it has `*` or `#`, or a code that there is not.
    Odd(&'n str),
}

/// The prefixes of both lists as the rules read them.
#[derive(Debug)]
pub(crate) struct NumberLists {
    blocked: List,
    premium: List,
}

/// The prefixes of one list.
#[derive(Debug)]
struct List {
    prefixes: Vec<ListedPrefix>,
    /// How often they were compared with a reading of a number.
    #[cfg(test)]
    asked: std::sync::atomic::AtomicUsize,
}

/// A prefix in a list.
#[derive(Debug)]
struct ListedPrefix {
    /// As it is written.
    text: Box<str>,
    /// With `+` and the country's code, where that can be told.
    global: Option<String>,
}

impl List {
    fn new(rules: &NumberRules, prefixes: &[Box<str>]) -> Self {
        let prefixes = prefixes.iter().map(|text| ListedPrefix {
            text: text.clone(),
            global: rules.global(text),
        });
        Self {
            prefixes: prefixes.collect(),
            #[cfg(test)]
            asked: std::sync::atomic::AtomicUsize::new(0),
        }
    }

    /// Whether a reading of a number begins with one of them.
    fn has(&self, form: &Form<'_>) -> bool {
        #[cfg(test)]
        self.asked
            .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        self.prefixes.iter().any(|prefix| match form {
            Form::Global(number) => {
                let global = prefix.global.as_deref();
                global.is_some_and(|prefix| number.starts_with(prefix))
            }
            Form::Local(number) | Form::Odd(number) => number.starts_with(&*prefix.text),
        })
    }
}

impl NumberRules {
    /// Whether they hold anybody back, or lead anybody elsewhere.
    pub fn matter(&self) -> bool {
        self.permission < Permission::International
            || !self.blocked.is_empty()
            || !self.premium.is_empty()
            || !self.rewrites.is_empty()
    }

    /// The lists as these rules read them: once, when the rules are taken over.
    pub(crate) fn lists(&self) -> NumberLists {
        NumberLists {
            blocked: List::new(self, &self.blocked),
            premium: List::new(self, &self.premium),
        }
    }

    /// What a number is, that was dialled so and leaves so.
    pub(crate) fn class(&self, lists: &NumberLists, dialled: &str, leaving: &str) -> Class {
        match self.is_emergency(dialled) || self.is_emergency(leaving) {
            true => Class::Emergency,
            false => self.worst(lists, [dialled, leaving]),
        }
    }

    /// Whether it is an emergency number, and nothing more.
    pub fn is_emergency(&self, number: &str) -> bool {
        self.emergency.iter().any(|of| **of == *number)
    }

    /// Whether a URI names an emergency number, or one that a rule makes one of. Every request is
    /// asked this, so the numbers are compared where they stand.
    pub(crate) fn names_help(&self, uri: &Uri<'_>) -> bool {
        if self.emergency.is_empty() {
            return false;
        }
        let mut emergency = self.emergency.iter();
        let digits = || digits_of(uri).filter(|byte| !is_separator(*byte));
        emergency.any(|of| digits().eq(of.bytes()))
            || (!self.rewrites.is_empty()
                && number_of(uri)
                    .and_then(|number| self.rewritten(&number))
                    .is_some_and(|number| self.is_emergency(&number)))
    }

    /// The worst of what several readings of a number are; an emergency is a call in this
    /// country here.
    pub(crate) fn worst<'n>(
        &self,
        lists: &NumberLists,
        readings: impl IntoIterator<Item = &'n str>,
    ) -> Class {
        let mut needs = None;
        for (before, number) in readings.into_iter().enumerate() {
            // In which lists it is cannot be told without reading it to its end.
            let is_readable = before < PARTS_MAX && !self.is_tangled(number);
            if !is_readable || self.is_listed(&lists.blocked, number) {
                return Class::Blocked;
            }
            needs = needs.max(self.needs(lists, number));
        }
        // What cannot be told costs what is dearest of what needs no list.
        Class::Needs(needs.unwrap_or(Permission::International))
    }

    /// The number with `+` and the country's code; `None` where it cannot be told.
    pub fn global(&self, number: &str) -> Option<String> {
        match self.form(number) {
            Form::Global(number) => Some(number),
            Form::Local(_) | Form::Odd(_) => None,
        }
    }

    /// What the rules make of a number; `None` where none fits. An emergency number stays what it
    /// is: a rule for numbers of the town must not make 112 one of them.
    pub fn rewritten(&self, number: &str) -> Option<String> {
        if self.is_emergency(number) {
            return None;
        }
        let mut rules = self.rewrites.iter();
        rules.find_map(|rule| rule.apply(number))
    }

    fn needs(&self, lists: &NumberLists, number: &str) -> Option<Permission> {
        if self.is_listed(&lists.premium, number) {
            return Some(Permission::Premium);
        }
        match self.form(number) {
            Form::Global(number) => {
                let digits = number.trim_start_matches('+');
                let is_ours = !self.country_code.is_empty();
                match is_ours && digits.starts_with(&*self.country_code) {
                    true => Some(Permission::National),
                    false => Some(Permission::International),
                }
            }
            Form::Local(_) => Some(Permission::National),
            Form::Odd(_) => None,
        }
    }

    /// Whether there is more to read in a number than anybody dials.
    fn is_tangled(&self, number: &str) -> bool {
        let mut parts = number.split(is_code).filter(|part| !part.is_empty());
        let has_many_prefixes = |part: &str| {
            let cut = std::iter::successors(Some(part), |&rest| self.without_prefix(rest));
            cut.skip(1).nth(PARTS_MAX).is_some()
        };
        parts.clone().count() > PARTS_MAX || parts.any(has_many_prefixes)
    }

    /// Whether a number is in a list, in any way to read it. `0900123#` ends with the sign that
    /// whoever dials ends with, `*31#0900123` hides the caller and calls `0900123`, and `*21*0900123#`
    /// forwards to it. What stands behind a `*` or `#` is the same whatever is cut from the front, so
    /// it is read once.
    fn is_listed(&self, list: &List, number: &str) -> bool {
        let behind = number.split(is_code).skip(1);
        let mut behind = behind.filter(|part| !part.is_empty());
        self.begins_listed(list, number) || behind.any(|part| self.begins_listed(list, part))
    }

    /// The same of a number as a whole and of its first part, with all prefixes and without.
    fn begins_listed(&self, list: &List, number: &str) -> bool {
        let mut rest = Some(number);
        while let Some(whole) = rest {
            let form = self.form(whole);
            if list.has(&form) {
                return true;
            }
            // Of one that can be told nothing is cut.
            let Form::Odd(_) = form else {
                return false;
            };
            if let Some((first, _)) = whole.split_once(is_code)
                && list.has(&self.form(first))
            {
                return true;
            }
            rest = self.without_prefix(whole);
        }
        false
    }

    /// What is left of `+0900123` and `+0043`, which are no numbers, for whoever passes over the
    /// `+`, or over a prefix before another one. It is shorter, so this ends.
    fn without_prefix<'n>(&self, number: &'n str) -> Option<&'n str> {
        let prefix = &*self.international_prefix;
        let rest = number.strip_prefix('+').or_else(|| {
            let has_one = !prefix.is_empty();
            number.strip_prefix(prefix).filter(|_| has_one)
        });
        rest.filter(|rest| !rest.is_empty())
    }

    fn form<'n>(&self, number: &'n str) -> Form<'n> {
        let digits = number.strip_prefix('+').unwrap_or(number);
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Form::Odd(number);
        }
        let after = |front: &str| digits.strip_prefix(front).filter(|_| !front.is_empty());
        if digits.len() < number.len() {
            return self.global_form(number, digits);
        }
        if let Some(rest) = after(&self.international_prefix) {
            return self.global_form(number, rest);
        }
        match after(&self.national_prefix) {
            Some(rest) if !self.country_code.is_empty() => {
                let whole = format!("{}{rest}", self.country_code);
                self.global_form(number, &whole)
            }
            _ => Form::Local(number),
        }
    }

    /// `+49 (0) 30` is dialled too, and reaches what `+49 30` does.
    fn global_form<'n>(&self, number: &'n str, digits: &str) -> Form<'n> {
        // RFC 3966 5.1.4 and E.164: no country's code begins with 0.
        if digits.is_empty() || digits.starts_with('0') {
            return Form::Odd(number);
        }
        let code = &*self.country_code;
        let rest = digits.strip_prefix(code).filter(|_| !code.is_empty());
        Form::Global(match rest {
            Some(rest) if !self.national_prefix.is_empty() => {
                format!("+{code}{}", rest.trim_start_matches(&*self.national_prefix))
            }
            _ => format!("+{digits}"),
        })
    }
}

/// The digits of the number that a URI names, with its `+` and without visual separators; `None`
/// where the user is no number. Escapes are undone first: `%2B` is `+` (RFC 3261 19.1.4).
pub(crate) fn number_of(uri: &Uri<'_>) -> Option<String> {
    let mut number = String::with_capacity(16);
    for byte in digits_of(uri) {
        match byte {
            b'+' if may_have_plus(&number) => number.push('+'),
            b'0'..=b'9' | b'*' | b'#' => number.push(char::from(byte)),
            _ if is_separator(byte) => {}
            _ => return None,
        }
        if number.len() > DIGITS_MAX {
            return None;
        }
    }
    number
        .bytes()
        .any(|byte| byte.is_ascii_digit())
        .then_some(number)
}

/// What whoever dials by this URI may take for its number: as far as it can be dialled; with
/// the code that `phone-context` gives it (RFC 3966 5.1.5); and what `rn` has, by which a number
/// that has moved is routed (RFC 4694 5). For a request that leaves with its Request-URI as it
/// came. Empty where it is no number.
pub(crate) fn readings_of(uri: &Uri<'_>) -> Vec<String> {
    let number = front_of(digits_of(uri));
    let mut contexts = Vec::new();
    let mut others = Vec::new();
    for (name, value) in params_of(uri) {
        let digits = front_of(value.into_iter());
        match digits {
            Some(digits) if name == b"phone-context" => contexts.push(digits),
            Some(digits) if name == b"rn" => others.push(digits),
            _ => {}
        }
    }
    let Some(number) = number else {
        return others;
    };
    if !number.starts_with('+') {
        others.extend(contexts.iter().map(|context| format!("{context}{number}")));
    }
    others.insert(0, number);
    others
}

/// What of these bytes can be dialled, up to the first that cannot; `None` where that has no digit.
fn front_of(bytes: impl Iterator<Item = u8>) -> Option<String> {
    let mut number = String::with_capacity(16);
    for byte in bytes {
        match byte {
            b'+' if may_have_plus(&number) => number.push('+'),
            b'0'..=b'9' | b'*' | b'#' => number.push(char::from(byte)),
            // What nobody dials may stand before it and is passed over, as blanks are.
            _ if is_separator(byte) || byte.is_ascii_control() => {}
            _ => break,
        }
        if number.len() > DIGITS_MAX {
            break;
        }
    }
    let has_digit = number.bytes().any(|byte| byte.is_ascii_digit());
    has_digit.then_some(number)
}

/// Whether a `+` may follow: at the front, of which `(+49)` has it too, and behind a code of a
/// switch, as in `#31#+49`.
fn may_have_plus(number: &str) -> bool {
    number.is_empty() || number.ends_with(['*', '#'])
}

/// The user without its parameters, unescaped.
fn digits_of<'u>(uri: &'u Uri<'_>) -> impl Iterator<Item = u8> + 'u {
    uri.user_bytes().take_while(|byte| *byte != b';')
}

/// The parameters of a number, unescaped, their names in lower case. They stand among those of
/// `tel:`, and within the user of `sip:` (RFC 3261 19.1.6).
fn params_of(uri: &Uri<'_>) -> Vec<(Vec<u8>, Vec<u8>)> {
    // Escapes are undone in a user.
    let as_user = Uri {
        user: Some(uri.params),
        ..*uri
    };
    let of_uri: Vec<u8> = as_user.user_bytes().collect();
    let user: Vec<u8> = uri.user_bytes().collect();
    let within = user.split(|byte| *byte == b';').skip(1);
    let params = within.chain(of_uri.split(|byte| *byte == b';'));
    let pairs = params.filter_map(|param| {
        let at = param.iter().position(|byte| *byte == b'=')?;
        let (name, value) = (param.get(..at)?, param.get(at + 1..)?);
        Some((name.trim_ascii().to_ascii_lowercase(), value.to_vec()))
    });
    pairs.collect()
}

/// What separates the parts of a code that a switch reads.
const fn is_code(c: char) -> bool {
    matches!(c, '*' | '#')
}

/// RFC 3966 3: visual separators; a space stands there only where it was escaped.
const fn is_separator(byte: u8) -> bool {
    matches!(byte, b'-' | b'.' | b'(' | b')' | b' ')
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn german() -> NumberRules {
        NumberRules {
            country_code: "49".into(),
            emergency: vec!["110".into(), "112".into()],
            blocked: vec!["+49900".into(), "+882".into(), "118".into()],
            premium: vec!["0137".into(), "+4191".into()],
            ..NumberRules::default()
        }
    }

    fn class(number: &str) -> Class {
        let rules = german();
        rules.class(&rules.lists(), number, number)
    }

    #[test]
    fn a_call_for_help_is_known_by_its_number_in_any_spelling() {
        let mut rules = german();
        let rule = Rewrite::new("9(1..)", "$1").unwrap();
        for (uri, is_help) in [
            ("sip:112@example.org", true),
            ("tel:1-1.2", true),
            ("sip:%31%31%32@example.org;user=phone", true),
            ("sip:112;phone-context=+43@example.org", true),
            ("sip:1120@example.org", false),
            ("sip:11@example.org", false),
            ("sip:+112@example.org", false),
            ("sip:112x@example.org", false),
            ("sip:bob@example.org", false),
            ("sip:example.org", false),
        ] {
            let uri = Uri::parse(uri.as_bytes()).unwrap();
            assert_eq!(rules.names_help(&uri), is_help, "{uri:?}");
            let number = number_of(&uri);
            assert_eq!(number.is_some_and(|of| rules.is_emergency(&of)), is_help);
        }
        let behind_nine = Uri::parse(b"sip:9112@example.org").unwrap();
        assert!(!rules.names_help(&behind_nine));
        rules.rewrites.push(rule);
        assert!(rules.names_help(&behind_nine));
    }

    #[test]
    fn a_number_is_what_it_is_however_it_is_written() {
        use Permission::*;
        for (numbers, expected) in [
            (&["110", "112"][..], Class::Emergency),
            (
                &[
                    "030123",
                    "+4930123",
                    "004930123",
                    "+49030123",
                    "00490030123",
                ],
                Class::Needs(National),
            ),
            (&["123456"], Class::Needs(National)),
            (&["+4312", "004312", "+1900"], Class::Needs(International)),
            (
                &[
                    "0900123",
                    "+49900123",
                    "0049900123",
                    "+490900123",
                    "00490900123",
                ],
                Class::Blocked,
            ),
            (&["+8821", "008821"], Class::Blocked),
            (&["11880"], Class::Blocked),
            (
                &["0137", "+49137999", "0049137999", "+490137999"],
                Class::Needs(Premium),
            ),
            (&["+41911", "0041911"], Class::Needs(Premium)),
            // What a switch reads in it: an end of dialling, a hidden caller, a forward.
            (
                &["0900123#", "*31#0900123", "#31#+49900123", "*21*0900123#"],
                Class::Blocked,
            ),
            (&["*31#0137", "+49137#"], Class::Needs(Premium)),
            (&["*31#030123", "030#"], Class::Needs(International)),
            // What is left for whoever passes over a `+`, or a prefix that is there twice.
            (
                &[
                    "+0900123",
                    "+0049900",
                    "000049900",
                    "+00008821",
                    "*31#+0900",
                    "+#31#0900",
                ],
                Class::Blocked,
            ),
            (&["+0137", "000137", "+0041911"], Class::Needs(Premium)),
            (
                &["*21#", "+0043", "+030", "+", "00", "+00", "+*#"],
                Class::Needs(International),
            ),
        ] {
            for number in numbers {
                assert_eq!(class(number), expected, "{number}");
            }
        }
    }

    #[test]
    fn a_number_is_read_to_its_end_or_blocked() {
        use Permission::*;
        // GSM has these for a forward with its time, and for a new password.
        for ordinary in ["**61*030123*11*20#", "**03**1234*5678*5678#", "##002#"] {
            assert_eq!(class(ordinary), Class::Needs(International), "{ordinary}");
        }
        let parts = |count: usize| vec!["1"; count].join("*");
        let prefixes = |count: usize| format!("*31#{}30", "00".repeat(count));
        for read in [parts(8), prefixes(8), format!("{}30", "00".repeat(8))] {
            assert_eq!(class(&read), Class::Needs(International), "{read}");
        }
        for tangled in [parts(9), parts(16), prefixes(9), prefixes(16)] {
            assert_eq!(class(&tangled), Class::Blocked, "{tangled}");
        }
    }

    #[test]
    fn no_more_readings_of_a_number_are_judged_than_it_may_have_parts() {
        let rules = german();
        let lists = rules.lists();
        let worst = |count: usize| rules.worst(&lists, vec!["030123"; count]);
        assert_eq!(worst(8), Class::Needs(Permission::National));
        assert_eq!(worst(9), Class::Blocked);
    }

    #[test]
    fn what_a_number_is_compared_with_grows_with_its_length_alone() {
        use std::sync::atomic::Ordering;
        let mut rules = german();
        rules.premium.clear();
        rules.blocked = (0..1_000).map(|of| format!("+88{of}").into()).collect();
        let lists = rules.lists();
        let compared = |number: &str| {
            lists.blocked.asked.store(0, Ordering::Relaxed);
            rules.class(&lists, number, number);
            lists.blocked.asked.load(Ordering::Relaxed)
        };
        // It is judged as it was dialled and as it leaves.
        assert_eq!(compared("+4930123"), 2);
        assert_eq!(compared("030123"), 2);
        // Every prefix that is cut once, with what stands before the next code, and each part behind
        // it once.
        let part = "0000000030*";
        let longest = part.repeat(DIGITS_MAX / part.len());
        assert_eq!(longest.len(), 55);
        assert_eq!(compared(&longest), 2 * (5 * 2 + 4 * 4));
        let tangled = "0*".repeat(DIGITS_MAX / 2);
        assert_eq!(compared(&tangled), 0);
    }

    #[test]
    fn the_worse_of_two_spellings_counts() {
        let rules = german();
        let lists = rules.lists();
        let of = |dialled, leaving| rules.class(&lists, dialled, leaving);
        // 9 for a line, which the group cuts.
        assert_eq!(of("90900123", "0900123"), Class::Blocked);
        assert_eq!(
            of("9004312", "004312"),
            Class::Needs(Permission::International)
        );
        // The provider's own prefix.
        assert_eq!(
            of("030123", "77#030123"),
            Class::Needs(Permission::National)
        );
        assert_eq!(of("9112", "112"), Class::Emergency);
        assert_eq!(of("0900123", "900123"), Class::Blocked);
    }

    #[test]
    fn without_a_country_everything_with_a_code_is_abroad() {
        let rules = NumberRules::default();
        let lists = rules.lists();
        let needs = |number| match rules.class(&lists, number, number) {
            Class::Needs(needs) => needs,
            other => panic!("{other:?}"),
        };
        assert_eq!(needs("+4930"), Permission::International);
        assert_eq!(needs("0030"), Permission::International);
        assert_eq!(needs("030"), Permission::National);
        assert!(!rules.matter());
    }

    #[test]
    fn other_countries_have_other_prefixes() {
        let american = NumberRules {
            country_code: "1".into(),
            international_prefix: "011".into(),
            national_prefix: "1".into(),
            premium: vec!["+1900".into()],
            ..NumberRules::default()
        };
        let lists = american.lists();
        let of = |number| american.class(&lists, number, number);
        assert_eq!(of("12125551212"), Class::Needs(Permission::National));
        assert_eq!(of("+12125551212"), Class::Needs(Permission::National));
        assert_eq!(of("2125551212"), Class::Needs(Permission::National));
        assert_eq!(of("0114930"), Class::Needs(Permission::International));
        for number in [
            "19005551212",
            "+19005551212",
            "01119005551212",
            "+119005551212",
        ] {
            assert_eq!(of(number), Class::Needs(Permission::Premium), "{number}");
        }
    }

    #[test]
    fn numbers_in_uris() {
        let number = |uri: &str| number_of(&Uri::parse(uri.as_bytes()).unwrap());
        assert_eq!(number("sip:+49-30(1)@x").as_deref(), Some("+49301"));
        assert_eq!(number("tel:+49-30-1").as_deref(), Some("+49301"));
        assert_eq!(number("sip:0301@x;user=phone").as_deref(), Some("0301"));
        assert_eq!(number("sip:%2B49%2030%2e1@x").as_deref(), Some("+49301"));
        assert_eq!(number("sip:%30%31%31%32@x").as_deref(), Some("0112"));
        assert_eq!(number("sip:alice@x"), None);
        assert_eq!(number("sip:+@x"), None);
        assert_eq!(number("sip:1+2@x"), None);
        assert_eq!(number("sip:(+49)30@x").as_deref(), Some("+4930"));
        assert_eq!(number("sip:%2331%23+49@x").as_deref(), Some("#31#+49"));
        assert_eq!(number("sip:++49@x"), None);
        assert_eq!(number(&format!("sip:{}@x", "1".repeat(65))), None);
    }

    #[test]
    fn what_may_be_taken_for_a_number() {
        for (uri, expected) in [
            ("sip:0900123,1@x", &["0900123"][..]),
            ("sip:+49900;ext=1@x", &["+49900"]),
            ("sip:(+49)900@x", &["+49900"]),
            ("sip:%20%09+49900@x", &["+49900"]),
            ("tel:123;phone-context=+49-900", &["123", "+49900123"]),
            ("tel:123;PHONE-context=%2B49900", &["123", "+49900123"]),
            (
                "sip:123;phone-context=%2B49900@x;user=phone",
                &["123", "+49900123"],
            ),
            ("sip:123@x;phone-context=0049900", &["123", "0049900123"]),
            (
                "tel:1;phone-context=+49;phone-context=+43",
                &["1", "+491", "+431"],
            ),
            ("tel:+4930;phone-context=+43", &["+4930"]),
            ("tel:123;phone-context=x.example", &["123"]),
            ("tel:+4930;npdi;rn=+49-900-1", &["+4930", "+499001"]),
            ("sip:+4930;rn=+499001@x", &["+4930", "+499001"]),
            ("sip:alice;rn=+499001@x", &["+499001"]),
            ("sip:alice@x", &[]),
        ] {
            let read = readings_of(&Uri::parse(uri.as_bytes()).unwrap());
            assert_eq!(read, expected, "{uri}");
        }
    }

    #[test]
    fn permissions_are_in_order() {
        assert!(Permission::ALL.windows(2).all(|pair| pair[0] < pair[1]));
        for permission in Permission::ALL {
            assert_eq!(permission.name().parse(), Ok(permission));
        }
        assert!("all".parse::<Permission>().is_err());
    }
}
