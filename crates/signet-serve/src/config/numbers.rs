//! Telephone numbers: how they are read and rewritten, who may call which, and when a route is
//! there.

mod check;
mod hours;
mod warnings;

use std::sync::Arc;

use serde::Deserialize;
use sip_engine::numbers::{GroupRules, NumberRules, Permission, Rewrite};

use super::Config;
use super::values::{NumberPrefix, some_within};

pub use hours::{When, ZoneName};

/// How telephone numbers are read, and who may call which.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Numbers {
    /// This country's code.
    pub country_code: Option<CountryCode>,
    /// What is dialled before the code of another country.
    pub international_prefix: Dialled,
    /// What is dialled before an area's code.
    pub national_prefix: Dialled,
    /// Numbers that every user may call.
    pub emergency: Vec<Dialled>,
    /// Prefixes of numbers that nobody may call.
    pub blocked: Vec<NumberPrefix>,
    /// Prefixes of numbers that cost more.
    pub premium: Vec<NumberPrefix>,
    /// How far users may call where nothing else is set.
    pub permissions: Permission,
    /// The place whose hours routes have.
    pub timezone: Option<ZoneName>,
}

impl Default for Numbers {
    fn default() -> Self {
        let dialled = |digits: &str| Dialled(digits.into());
        Self {
            country_code: None,
            international_prefix: dialled("00"),
            national_prefix: dialled("0"),
            emergency: vec![dialled("112"), dialled("911")],
            blocked: Vec::new(),
            premium: Vec::new(),
            permissions: Permission::International,
            timezone: None,
        }
    }
}

/// A rule by which numbers are rewritten.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RewriteRule {
    /// The regular expression that the whole number must fit.
    #[serde(rename = "match")]
    pub pattern: String,
    /// What takes its place; `$1` is what the first group has matched.
    pub to: String,
    /// Numbers, and what they must become.
    #[serde(default)]
    pub examples: Vec<(String, String)>,
}

/// A group of users, and what each of them may.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserGroup {
    /// Its name, for `signet user set --group`.
    pub name: String,
    /// How far they may call; without it as far as all.
    pub permissions: Option<Permission>,
    /// How many outgoing calls each of them may have at a time; 0 for any number.
    #[serde(default, deserialize_with = "some_within::<_, _, 0, 1_000_000>")]
    pub calls_max: Option<u32>,
}

/// The code of a country, without its `+`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct CountryCode(pub Arc<str>);

impl TryFrom<String> for CountryCode {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let digits = text.strip_prefix('+').unwrap_or(&text);
        let is_code = (1..=3).contains(&digits.len())
            && digits.bytes().all(|byte| byte.is_ascii_digit())
            && !digits.starts_with('0');
        match is_code {
            true => Ok(Self(digits.into())),
            false => Err(format!(
                "`{text}` is no country's code\nwrite one to three digits, for example \"49\""
            )),
        }
    }
}

/// Digits as they are dialled.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Dialled(pub Arc<str>);

impl TryFrom<String> for Dialled {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let is_dialled = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'*' | b'#');
        match text.len() <= 16 && text.bytes().all(is_dialled) {
            true => Ok(Self(text.as_str().into())),
            false => Err(format!(
                "`{text}` cannot be dialled\nwrite digits, for example \"112\" or \"00\""
            )),
        }
    }
}

impl Config {
    /// What the engine is told of numbers.
    pub(crate) fn number_rules(&self) -> NumberRules {
        let numbers = &self.numbers;
        let boxed = |text: &Arc<str>| Box::<str>::from(&**text);
        let groups = self.user_group.iter().map(|group| {
            let rules = GroupRules {
                permission: group.permissions,
                calls_max: group.calls_max,
            };
            (Arc::from(group.name.as_str()), rules)
        });
        let rules = self.rewrite.iter();
        NumberRules {
            country_code: numbers
                .country_code
                .as_ref()
                .map_or_else(Box::default, |code| boxed(&code.0)),
            international_prefix: boxed(&numbers.international_prefix.0),
            national_prefix: boxed(&numbers.national_prefix.0),
            emergency: numbers.emergency.iter().map(|of| boxed(&of.0)).collect(),
            blocked: numbers.blocked.iter().map(|of| boxed(&of.0)).collect(),
            premium: numbers.premium.iter().map(|of| boxed(&of.0)).collect(),
            permission: numbers.permissions,
            groups: groups.collect(),
            // Those that cannot be read were told of.
            rewrites: rules
                .filter_map(|rule| Rewrite::new(&rule.pattern, &rule.to).ok())
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    pub(super) fn parse(text: &str) -> Result<Config, String> {
        let text = format!("version = 1\n{text}");
        Config::from_text(Path::new("t.toml"), &text).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_written_reaches_the_engine() {
        let config = parse(
            "[numbers]\ncountry_code = \"+49\"\nemergency = [\"110\"]\nblocked = [\"0900\"]\n\
             permissions = \"internal\"\n[[user_group]]\nname = \"staff\"\npermissions = \"national\"\n\
             calls_max = 2\n",
        )
        .unwrap();
        let rules = config.number_rules();
        assert_eq!(
            (&*rules.country_code, rules.permission),
            ("49", Permission::Internal)
        );
        assert_eq!(rules.emergency, ["110".into()]);
        let staff = rules.groups.get("staff").unwrap();
        assert_eq!(staff.calls_max, Some(2));
        assert_eq!(staff.permission, Some(Permission::National));
        assert!(!Config::default().number_rules().matter());
    }
}
