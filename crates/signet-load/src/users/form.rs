//! Users as they are sent to another process, and the parts they are cut into.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Kind, Users, check_user};

/// The most users of one list: 100,000 are a few megabytes.
const LISTED_MAX: usize = 1_000_000;

/// Users, written down.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum UsersForm {
    #[default]
    Nobody,
    Pattern {
        user: String,
        password: Option<String>,
        skipped: usize,
        count: usize,
    },
    List(Vec<(String, Option<String>)>),
}

impl Users {
    /// One of so many parts, each as large as the next or larger by one. The parts are
    /// together all users, and nobody is in two.
    pub(crate) fn part(&self, index: usize, of: usize) -> Self {
        let of = of.max(1);
        let place = |index: usize| {
            let count = self.count() as u128 * index as u128 / of as u128;
            usize::try_from(count).unwrap_or(usize::MAX)
        };
        let (from, to) = (place(index), place(index + 1));
        let kind = match &self.kind {
            Kind::Nobody => Kind::Nobody,
            Kind::Pattern {
                user,
                password,
                skipped,
                ..
            } => Kind::Pattern {
                user: user.clone(),
                password: password.clone(),
                skipped: skipped + from,
                count: to - from,
            },
            Kind::List { .. } => return Self::listed((from..to).map(|place| self.entry(place))),
        };
        Self { kind }
    }

    /// As it is sent.
    pub(crate) fn form(&self) -> UsersForm {
        match &self.kind {
            Kind::Nobody => UsersForm::Nobody,
            Kind::Pattern {
                user,
                password,
                skipped,
                count,
            } => UsersForm::Pattern {
                user: user.to_string(),
                password: password.as_ref().map(ToString::to_string),
                skipped: *skipped,
                count: *count,
            },
            Kind::List { .. } => {
                UsersForm::List((0..self.count()).map(|place| self.entry(place)).collect())
            }
        }
    }

    /// From what was sent.
    ///
    /// # Errors
    /// What cannot be a user, or that there are too many.
    pub(crate) fn from_form(form: UsersForm) -> Result<Self, String> {
        match form {
            UsersForm::Nobody => Ok(Self::default()),
            UsersForm::Pattern {
                user,
                password,
                skipped,
                count,
            } => {
                let most = u32::MAX as usize;
                if skipped > most || count > most {
                    return Err(format!("{count} users are too many"));
                }
                let mut users = Self::from_pattern(&user, password.as_deref(), count)?;
                if let Kind::Pattern { skipped: of, .. } = &mut users.kind {
                    *of = skipped;
                }
                Ok(users)
            }
            UsersForm::List(all) => {
                if all.len() > LISTED_MAX {
                    return Err(format!("{} users are too many", all.len()));
                }
                for (user, _) in &all {
                    check_user(user)?;
                }
                Ok(Self::listed(all.into_iter()))
            }
        }
    }

    fn entry(&self, place: usize) -> (String, Option<String>) {
        let mut user = String::new();
        self.write_user(place, &mut user);
        (user, self.password(place))
    }

    fn listed(all: impl Iterator<Item = (String, Option<String>)>) -> Self {
        let (mut text, mut ends, mut has_passwords) = (String::new(), Vec::new(), false);
        for (user, password) in all {
            has_passwords |= password.is_some();
            text.push_str(&user);
            let user_end = u32::try_from(text.len()).unwrap_or(u32::MAX);
            text.push_str(&password.unwrap_or_default());
            ends.push((user_end, u32::try_from(text.len()).unwrap_or(u32::MAX)));
        }
        Self {
            kind: Kind::List {
                text,
                ends,
                has_passwords,
            },
        }
    }
}

// Passwords are inside.
impl fmt::Debug for UsersForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = match self {
            Self::Nobody => 0,
            Self::Pattern { count, .. } => *count,
            Self::List(all) => all.len(),
        };
        write!(f, "Users({count})")
    }
}

#[cfg(test)]
mod tests {
    use super::super::Pattern;
    use super::*;

    fn all(users: &Users) -> Vec<(String, Option<String>)> {
        (0..users.count()).map(|place| users.entry(place)).collect()
    }

    #[test]
    fn the_parts_are_together_all_and_nobody_is_in_two() {
        let csv = "user,password\nann,1\nbob,2\ncid,3\ndan,4\neve,5\n";
        let whole = [
            Users::from_pattern("u{n:03}", Some("p{n}"), 11).unwrap(),
            Users::from_pattern("u{n}", None, 2).unwrap(),
            Users::from_csv(csv).unwrap(),
            Users::default(),
        ];
        for users in &whole {
            for of in 1..=7 {
                let parts: Vec<Users> = (0..of).map(|index| users.part(index, of)).collect();
                let joined: Vec<_> = parts.iter().flat_map(all).collect();
                assert_eq!(joined, all(users), "{of}");
                let counts = || parts.iter().map(Users::count);
                assert!(counts().max() <= counts().min().map(|least| least + 1));
            }
        }
        // A part of a part is numbered on.
        let third = whole[0].part(1, 2).part(1, 2);
        assert_eq!(all(&third).last(), all(&whole[0]).last());
    }

    #[test]
    fn what_is_sent_is_what_was_meant() {
        let users = [
            Users::from_pattern("u{n:03}", Some("p{n}"), 11)
                .unwrap()
                .part(2, 3),
            Users::from_csv("user,password\nann,a b\n").unwrap(),
            Users::from_csv("user\nann\n").unwrap(),
            Users::default(),
        ];
        for users in users {
            let json = serde_json::to_string(&users.form()).unwrap();
            let form: UsersForm = serde_json::from_str(&json).unwrap();
            assert!(format!("{form:?}").starts_with("Users("), "{form:?}");
            assert_eq!(all(&Users::from_form(form).unwrap()), all(&users));
        }
        for text in ["a", "{n}", "a{n:06}b"] {
            assert_eq!(Pattern::parse(text).unwrap().to_string(), text);
        }
        let bad = UsersForm::List(vec![("a b".to_owned(), None)]);
        assert!(Users::from_form(bad).unwrap_err().contains("escape it"));
    }
}
