//! The users that a load plays: none, made from a pattern, or from a file.

mod form;

use std::fmt::{self, Write as _};
use std::path::Path;

pub(crate) use form::UsersForm;

/// Users and their passwords.
#[derive(Clone, Default)]
pub struct Users {
    kind: Kind,
}

#[derive(Clone, Default)]
enum Kind {
    #[default]
    Nobody,
    Pattern {
        user: Pattern,
        password: Option<Pattern>,
        /// How many users of the pattern come before the first.
        skipped: usize,
        count: usize,
    },
    /// All strings behind each other: 100,000 users are not 200,000 allocations.
    List {
        text: String,
        /// Where each user's name and password end.
        ends: Vec<(u32, u32)>,
        has_passwords: bool,
    },
}

/// A text in which `{n}` stands for the user's number, `{n:06}` for the same
/// with six digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    before: String,
    digits: Option<usize>,
    after: String,
}

impl Pattern {
    /// Reads a pattern.
    pub fn parse(text: &str) -> Result<Self, String> {
        let help =
            || format!("'{text}' has a brace that begins no number; write {{n}} or {{n:06}}");
        let Some((before, rest)) = text.split_once('{') else {
            return Ok(Self {
                before: text.to_owned(),
                digits: None,
                after: String::new(),
            });
        };
        let (inner, after) = rest.split_once('}').ok_or_else(help)?;
        let digits = match inner.strip_prefix('n').ok_or_else(help)? {
            "" => 0,
            width => width
                .strip_prefix(":0")
                .and_then(|digits| digits.parse().ok())
                .filter(|digits| *digits <= 20)
                .ok_or_else(help)?,
        };
        if after.contains(['{', '}']) || before.contains('}') {
            return Err(help());
        }
        Ok(Self {
            before: before.to_owned(),
            digits: Some(digits),
            after: after.to_owned(),
        })
    }

    /// Whether it is the same for every number.
    pub fn is_constant(&self) -> bool {
        self.digits.is_none()
    }

    /// The text for this number.
    pub(crate) fn of(&self, number: usize) -> String {
        let mut text = String::new();
        self.write(number, &mut text);
        text
    }

    fn write(&self, number: usize, out: &mut String) {
        out.push_str(&self.before);
        if let Some(digits) = self.digits {
            let _ = write!(out, "{number:0digits$}");
        }
        out.push_str(&self.after);
    }
}

impl Users {
    /// `count` users made from a pattern, numbered from 1.
    pub fn from_pattern(user: &str, password: Option<&str>, count: usize) -> Result<Self, String> {
        let user = Pattern::parse(user)?;
        if user.is_constant() && count > 1 {
            return Err(format!(
                "{count} agents need {count} names; write the number into the pattern: --user '{}{{n}}'",
                user.before
            ));
        }
        check_user(&user.before)?;
        check_user(&user.after)?;
        let password = password.map(Pattern::parse).transpose()?;
        Ok(Self {
            kind: Kind::Pattern {
                user,
                password,
                skipped: 0,
                count,
            },
        })
    }

    /// The users in a CSV file: the first line names the columns, of which
    /// `user` must be there and `password` may.
    pub fn from_file(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        Self::from_csv(&text).map_err(|error| format!("{}:{error}", path.display()))
    }

    /// The same from memory; an error begins with line and column.
    pub fn from_csv(text: &str) -> Result<Self, String> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut lines = text.lines().enumerate();
        let header: Vec<&str> = lines
            .next()
            .map(|(_, line)| line.split(',').map(str::trim).collect())
            .unwrap_or_default();
        let column = |name: &str| header.iter().position(|h| *h == name);
        let Some(user_at) = column("user") else {
            return Err(
                "1:1: no column 'user'; write user,password into the first line".to_owned(),
            );
        };
        for (place, name) in header.iter().enumerate() {
            if !matches!(*name, "user" | "password") {
                let before: usize = header.iter().take(place).map(|h| h.len() + 1).sum();
                return Err(format!(
                    "1:{}: no column is called '{name}'; there are user and password",
                    before + 1
                ));
            }
        }
        let password_at = column("password");
        let (mut all, mut ends) = (String::new(), Vec::new());
        for (index, line) in lines {
            if line.trim().is_empty() {
                continue;
            }
            let number = index + 1;
            let fields: Vec<&str> = line.split(',').collect();
            if fields.len() != header.len() {
                return Err(format!(
                    "{number}:{}: {} fields where the first line has {}",
                    line.len() + 1,
                    fields.len(),
                    header.len()
                ));
            }
            let column_of = |place: usize| {
                fields
                    .iter()
                    .take(place)
                    .map(|f| f.len() + 1)
                    .sum::<usize>()
                    + 1
            };
            let user = fields.get(user_at).map_or("", |f| f.trim());
            if user.is_empty() {
                return Err(format!("{number}:{}: no user", column_of(user_at)));
            }
            check_user(user)
                .map_err(|error| format!("{number}:{}: {error}", column_of(user_at)))?;
            let password = password_at.and_then(|at| fields.get(at)).unwrap_or(&"");
            let too_long = |_| format!("{number}:1: more than 4 GiB of users");
            all.push_str(user);
            let user_end = u32::try_from(all.len()).map_err(too_long)?;
            all.push_str(password);
            ends.push((user_end, u32::try_from(all.len()).map_err(too_long)?));
        }
        if ends.is_empty() {
            return Err("2:1: no users; write one user,password a line".to_owned());
        }
        Ok(Self {
            kind: Kind::List {
                text: all,
                ends,
                has_passwords: password_at.is_some(),
            },
        })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        match &self.kind {
            Kind::Nobody => 0,
            Kind::Pattern { count, .. } => *count,
            Kind::List { ends, .. } => ends.len(),
        }
    }

    /// Keeps the first `most` users.
    pub fn truncate(&mut self, most: usize) {
        match &mut self.kind {
            Kind::Nobody => {}
            Kind::Pattern { count, .. } => *count = most.min(*count),
            Kind::List { ends, .. } => ends.truncate(most),
        }
    }

    /// Appends the name of the user in this place.
    pub(crate) fn write_user(&self, place: usize, out: &mut String) {
        match &self.kind {
            Kind::Nobody => {}
            Kind::Pattern { user, skipped, .. } => user.write(skipped + place + 1, out),
            Kind::List { text, ends, .. } => {
                let start = place
                    .checked_sub(1)
                    .and_then(|p| ends.get(p))
                    .map_or(0, |e| e.1);
                let end = ends.get(place).map_or(start, |e| e.0);
                out.push_str(text.get(start as usize..end as usize).unwrap_or_default());
            }
        }
    }

    /// The password of the user in this place.
    pub(crate) fn password(&self, place: usize) -> Option<String> {
        match &self.kind {
            Kind::Nobody => None,
            Kind::Pattern {
                password, skipped, ..
            } => password
                .as_ref()
                .map(|password| password.of(skipped + place + 1)),
            Kind::List {
                text,
                ends,
                has_passwords,
            } => {
                let (start, end) = *ends.get(place)?;
                has_passwords.then(|| {
                    text.get(start as usize..end as usize)
                        .unwrap_or_default()
                        .to_owned()
                })
            }
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.before)?;
        match self.digits {
            None => {}
            Some(0) => f.write_str("{n}")?,
            Some(digits) => write!(f, "{{n:0{digits}}}")?,
        }
        f.write_str(&self.after)
    }
}

/// Whether it may stand before the @ of a SIP URI as it is.
fn check_user(user: &str) -> Result<(), String> {
    match user.find(|c: char| !c.is_ascii_alphanumeric() && !"-_.!~*'()&=+$,;?/%".contains(c)) {
        None => Ok(()),
        Some(at) => Err(format!(
            "'{user}' cannot stand in a SIP URI because of its character {}; escape it as %xx",
            at + 1
        )),
    }
}

// Passwords are inside.
impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Users({})", self.count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(users: &Users, place: usize) -> (String, Option<String>) {
        let mut name = String::new();
        users.write_user(place, &mut name);
        (name, users.password(place))
    }

    #[test]
    fn patterns_count_from_one() {
        let users = Users::from_pattern("user{n:04}", Some("pw{n}"), 3).unwrap();
        assert_eq!(
            user(&users, 0),
            ("user0001".to_owned(), Some("pw1".to_owned()))
        );
        assert_eq!(
            user(&users, 2),
            ("user0003".to_owned(), Some("pw3".to_owned()))
        );
        let same = Users::from_pattern("u{n}", Some("secret"), 2).unwrap();
        assert_eq!(user(&same, 1), ("u2".to_owned(), Some("secret".to_owned())));
        for bad in ["u{n", "u{x}", "u{n}{n}", "u}{n}", "u{n:4}"] {
            assert!(Users::from_pattern(bad, None, 1).is_err(), "{bad}");
        }
        let error = Users::from_pattern("alice", None, 2).unwrap_err();
        assert!(error.contains("--user 'alice{n}'"), "{error}");
        assert!(Users::from_pattern("a b{n}", None, 2).is_err());
    }

    #[test]
    fn files_are_read_and_mistakes_have_a_place() {
        let mut users =
            Users::from_csv("user,password\r\nalice,wonder land\r\n\r\nbob,builder\r\n").unwrap();
        assert_eq!(users.count(), 2);
        assert_eq!(
            user(&users, 0),
            ("alice".to_owned(), Some("wonder land".to_owned()))
        );
        assert_eq!(
            user(&users, 1),
            ("bob".to_owned(), Some("builder".to_owned()))
        );
        users.truncate(1);
        assert_eq!(users.count(), 1);
        let without = Users::from_csv("user\nalice\n").unwrap();
        assert_eq!(user(&without, 0), ("alice".to_owned(), None));
        for (bad, place) in [
            ("", "1:1:"),
            ("name,password\n", "1:1:"),
            ("user,passwd\n", "1:6:"),
            ("user,password\n", "2:1:"),
            ("user,password\na,b\nc\n", "3:2:"),
            ("user,password\na,b,c\n", "2:6:"),
            ("password,user\nsecret,a b\n", "2:8:"),
            ("password,user\nsecret,\n", "2:8:"),
        ] {
            let error = Users::from_csv(bad).unwrap_err();
            assert!(error.starts_with(place), "{bad:?}: {error}");
        }
    }

    #[test]
    fn nothing_secret_is_shown() {
        let users = Users::from_csv("user,password\nalice,secret\n").unwrap();
        assert_eq!(format!("{users:?}"), "Users(1)");
    }
}
