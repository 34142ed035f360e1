//! Numbers: E.164 inside this server, and at its edge what a provider writes and wants to read
//! (`docs/decisions/0216-numbers-are-e164-inside.md`).

use std::sync::Arc;

/// The most digits of a number in E.164.
const DIGITS_MAX: usize = 15;
/// What is shorter is no whole number, though it may begin like one.
const WHOLE_MIN: usize = 8;
/// The fewest digits, with a country's code, that somebody may be reached by.
const REACHED_MIN: usize = 7;

/// How numbers are written where a trunk is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NumberPlan {
    /// The country's code, without `+`; empty for none.
    pub country_code: Arc<str>,
    /// What stands before a number of another town; empty for nothing.
    pub national_prefix: Arc<str>,
    /// What stands before a number of another country; empty for nothing.
    pub international_prefix: Arc<str>,
    /// What the provider gets.
    pub format: NumberFormat,
}

/// How a provider wants numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NumberFormat {
    /// As they were dialled.
    #[default]
    AsIs,
    /// `+4930123`.
    E164,
    /// `4930123`.
    E164NoPlus,
    /// `030123`, and `001212` to other countries.
    National,
}

/// Whose numbers there are, and how they are written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// How they are written.
    pub plan: NumberPlan,
    /// The number of whoever has none of his own, in E.164.
    pub main: Option<Arc<str>>,
    /// Numbers and the users that have them; the first of a user is shown for him.
    pub users: Vec<(Arc<str>, Arc<str>)>,
    /// Who gets the calls to a number that nobody has.
    pub to: Option<Arc<str>>,
}

impl NumberPlan {
    /// A number as it is dialled here in E.164; `None` where it is none of this plan: an
    /// extension, an emergency call, a number within the town.
    pub fn read(&self, text: &str) -> Option<String> {
        let digits = bare(text)?;
        let international = &*self.international_prefix;
        let national = &*self.national_prefix;
        let e164 = if digits.starts_with('+') {
            digits
        } else if !international.is_empty() && digits.starts_with(international) {
            format!("+{}", digits.get(international.len()..)?)
        } else if !national.is_empty()
            && !self.country_code.is_empty()
            && digits.starts_with(national)
        {
            format!("+{}{}", self.country_code, digits.get(national.len()..)?)
        } else {
            return None;
        };
        let is_whole = (2..=DIGITS_MAX + 1).contains(&e164.len());
        is_whole.then_some(e164)
    }

    /// The same of a number as the provider writes it: one that wants them without `+` leaves
    /// it out itself.
    pub fn read_inbound(&self, text: &str) -> Option<String> {
        self.read(text).or_else(|| {
            let digits = bare(text)?;
            let is_without_plus = self.format == NumberFormat::E164NoPlus
                && digits.len() >= WHOLE_MIN
                && digits.len() <= DIGITS_MAX
                && digits.bytes().all(|byte| byte.is_ascii_digit())
                && digits.starts_with(&*self.country_code);
            is_without_plus.then(|| format!("+{digits}"))
        })
    }

    /// What the provider takes a dialled number for: one that wants numbers without `+` reads a
    /// country's code out of bare digits, whatever they were meant for.
    pub(crate) fn understood(&self, dialled: &str) -> Option<String> {
        self.read(dialled).or_else(|| {
            let is_read = self.format == NumberFormat::E164NoPlus
                && dialled.len() >= REACHED_MIN
                && dialled.bytes().all(|byte| byte.is_ascii_digit());
            is_read.then(|| format!("+{dialled}"))
        })
    }

    /// A number in E.164 as the provider wants it.
    pub fn write(&self, e164: &str) -> String {
        let Some(digits) = e164.strip_prefix('+') else {
            return e164.to_owned();
        };
        match self.format {
            NumberFormat::AsIs | NumberFormat::E164 => e164.to_owned(),
            NumberFormat::E164NoPlus => digits.to_owned(),
            NumberFormat::National => {
                let own = (!self.country_code.is_empty())
                    .then(|| digits.strip_prefix(&*self.country_code))
                    .flatten();
                match own {
                    Some(rest) => format!("{}{rest}", self.national_prefix),
                    None => format!("{}{digits}", self.international_prefix),
                }
            }
        }
    }

    /// A number as it is dialled, in the form that the provider wants.
    pub fn outbound(&self, dialled: &str) -> String {
        if self.format == NumberFormat::AsIs {
            return dialled.to_owned();
        }
        match self.read(dialled) {
            Some(e164) => self.write(&e164),
            None => dialled.to_owned(),
        }
    }
}

impl Numbers {
    /// The user of a called number, whatever form that came in.
    pub(crate) fn user_of(&self, called: &str) -> Option<&str> {
        let e164 = self.plan.read_inbound(called);
        let is_it = |number: &str| Some(number) == e164.as_deref() || number == called;
        let mut users = self.users.iter();
        users
            .find(|(number, _)| is_it(number))
            .map(|(_, user)| &**user)
    }

    /// Whether a number is one of this trunk's.
    pub(crate) fn has(&self, called: &str) -> bool {
        let e164 = self.plan.read_inbound(called);
        let is_it = |number: &str| Some(number) == e164.as_deref() || number == called;
        self.users.iter().any(|(number, _)| is_it(number))
            || self.main.as_deref().is_some_and(is_it)
    }

    /// The number that is shown for a user of that name, in E.164.
    pub(crate) fn shown_for(&self, user: &str) -> Option<String> {
        let listed = self.users.iter().find(|(_, of)| **of == *user);
        if let Some((number, _)) = listed {
            return Some(number.to_string());
        }
        // Who is called like a number has it where none is listed: else it may be another's.
        let own = self.plan.read(user).filter(|_| self.users.is_empty());
        own.or_else(|| self.main.as_deref().map(str::to_owned))
    }

    /// A number that a caller may show beside the one that is listed for him.
    pub(crate) fn preferred_by(&self, user: &str, number: &str) -> Option<String> {
        let e164 = self.plan.read(number)?;
        let is_his = |of: &&(Arc<str>, Arc<str>)| *of.1 == *user && *of.0 == *e164;
        self.users.iter().find(is_his).map(|_| e164)
    }

    /// A number that a peer may show for whom it calls: any where none is listed, else those
    /// that are.
    pub(crate) fn accepted(&self, number: &str) -> Option<String> {
        let e164 = self.plan.read(number)?;
        let is_listed =
            self.users.iter().any(|(of, _)| **of == *e164) || self.main.as_deref() == Some(&*e164);
        (is_listed || self.users.is_empty()).then_some(e164)
    }
}

/// The digits of a number, with the `+` before them; `None` where it is no number.
fn bare(text: &str) -> Option<String> {
    let mut digits = String::with_capacity(text.len());
    for (at, char) in text.chars().enumerate() {
        match char {
            '+' if at == 0 => digits.push('+'),
            '0'..='9' => digits.push(char),
            '-' | '.' | '(' | ')' | ' ' => {}
            _ => return None,
        }
    }
    digits
        .bytes()
        .any(|byte| byte.is_ascii_digit())
        .then_some(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn german(format: NumberFormat) -> NumberPlan {
        NumberPlan {
            country_code: "49".into(),
            national_prefix: "0".into(),
            international_prefix: "00".into(),
            format,
        }
    }

    #[test]
    fn what_is_dialled_is_read() {
        let plan = german(NumberFormat::E164);
        for (dialled, e164) in [
            ("+49-30(1)", Some("+49301")),
            ("0301", Some("+49301")),
            ("0049301", Some("+49301")),
            ("001 212 5551234", Some("+12125551234")),
            ("112", None),
            ("4711", None),
            ("alice", None),
            ("", None),
            ("+", None),
            ("00", None),
            ("*21#", None),
            ("+1234567890123456", None),
        ] {
            assert_eq!(plan.read(dialled).as_deref(), e164, "{dialled}");
        }
        // Without a plan only what is E.164 already is.
        let none = NumberPlan::default();
        assert_eq!(none.read("0301"), None);
        assert_eq!(none.read("+49301").as_deref(), Some("+49301"));
        // In North America the trunk prefix is the country's code.
        let american = NumberPlan {
            country_code: "1".into(),
            national_prefix: "1".into(),
            international_prefix: "011".into(),
            format: NumberFormat::E164,
        };
        assert_eq!(
            american.read("12125551234").as_deref(),
            Some("+12125551234")
        );
        assert_eq!(american.read("011 49 30 1").as_deref(), Some("+49301"));
    }

    #[test]
    fn bare_digits_are_what_a_provider_reads_in_them() {
        let plain = german(NumberFormat::E164NoPlus);
        assert_eq!(
            plain.understood("4412345678").as_deref(),
            Some("+4412345678")
        );
        assert_eq!(
            plain.understood("030123456").as_deref(),
            Some("+4930123456")
        );
        assert_eq!(plain.understood("112"), None);
        assert_eq!(plain.understood("*214412345"), None);
        assert_eq!(german(NumberFormat::E164).understood("4412345678"), None);
    }

    #[test]
    fn a_provider_gets_the_form_that_it_wants() {
        for (format, own, other, extension) in [
            (NumberFormat::AsIs, "0301", "001212", "4711"),
            (NumberFormat::E164, "+49301", "+1212", "4711"),
            (NumberFormat::E164NoPlus, "49301", "1212", "4711"),
            (NumberFormat::National, "0301", "001212", "4711"),
        ] {
            let plan = german(format);
            assert_eq!(plan.outbound("0301"), own, "{format:?}");
            assert_eq!(plan.outbound("001212"), other, "{format:?}");
            assert_eq!(plan.outbound("4711"), extension, "{format:?}");
        }
        assert_eq!(german(NumberFormat::National).outbound("+49301"), "0301");
    }

    #[test]
    fn what_a_provider_writes_is_read() {
        let without = german(NumberFormat::E164NoPlus);
        let read = |text: &str| without.read_inbound(text);
        assert_eq!(read("493012345").as_deref(), Some("+493012345"));
        assert_eq!(read("03012345").as_deref(), Some("+493012345"));
        assert_eq!(read("4930"), None, "too short to be whole");
        let with = german(NumberFormat::E164);
        assert_eq!(with.read_inbound("493012345"), None);
    }

    #[test]
    fn numbers_lead_to_users_and_back() {
        let numbers = Numbers {
            plan: german(NumberFormat::E164),
            main: Some("+49300".into()),
            users: vec![
                ("+49301".into(), "alice".into()),
                ("+49302".into(), "alice".into()),
                ("+49303".into(), "bob".into()),
            ],
            to: None,
        };
        for (called, user) in [
            ("+49302", Some("alice")),
            ("0303", Some("bob")),
            ("0049301", Some("alice")),
            ("+49309", None),
            ("alice", None),
        ] {
            assert_eq!(numbers.user_of(called), user, "{called}");
        }
        assert!(numbers.has("0300") && numbers.has("+49303") && !numbers.has("+49309"));
        assert_eq!(numbers.shown_for("alice").as_deref(), Some("+49301"));
        assert_eq!(numbers.shown_for("carol").as_deref(), Some("+49300"));
        assert_eq!(
            numbers.preferred_by("alice", "0302").as_deref(),
            Some("+49302")
        );
        assert_eq!(numbers.preferred_by("alice", "0303"), None, "that is bob's");
        // A user may be called like a number, but not like one that is another's to show.
        assert_eq!(numbers.shown_for("+49309").as_deref(), Some("+49300"));
        let nobodys = Numbers {
            users: Vec::new(),
            ..numbers
        };
        assert_eq!(nobodys.shown_for("0309").as_deref(), Some("+49309"));
        assert_eq!(nobodys.shown_for("carol").as_deref(), Some("+49300"));
    }
}
