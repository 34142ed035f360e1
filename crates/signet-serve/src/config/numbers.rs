//! Telephone numbers: how they are read and rewritten, who may call which, and when a route is
//! there.

use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Deserialize;
use sip_engine::hours::{Hours, Zone};
use sip_engine::numbers::{BadRule, GroupRules, NumberRules, Permission, Rewrite};

use super::Config;
use super::check::Faults;
use super::values::{NumberPrefix, some_within};

/// Where the operating system keeps the clocks of the world.
const ZONES: &str = "/usr/share/zoneinfo";
/// The largest of its files that is read.
const ZONE_BYTES_MAX: u64 = 1 << 20;
/// How far ahead the changes of clocks are known, and how far back.
const ZONE_YEARS_AHEAD: i64 = 60;
const DAY_S: i64 = 86_400;
const YEAR_S: i64 = 366 * DAY_S;
/// Changes that are kept.
const CHANGES_MAX: usize = 1_000;
/// Rules that rewrite numbers.
const RULES_MAX: usize = 1_000;

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
    /// Fronts of numbers that nobody may call.
    pub blocked: Vec<NumberPrefix>,
    /// Fronts of numbers that cost more than others.
    pub premium: Vec<NumberPrefix>,
    /// How far users may call of whom nothing else is written.
    pub permissions: Permission,
    /// The place whose hours routes have.
    pub timezone: Option<Place>,
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
    /// How many calls each of them may have begun at a time; 0 for any number.
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

/// A place, by the name that the operating system has for its clocks.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Place {
    name: String,
    zone: Zone,
}

impl TryFrom<String> for Place {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let fault = |what: &str| {
            format!(
                "`{name}` is no time zone: {what}\nwrite one that is in {ZONES} (the package tzdata), for example \"Europe/Berlin\" or \"UTC\""
            )
        };
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/_+-".contains(&byte);
        if name.is_empty() || name.starts_with('/') || !name.bytes().all(is_plain) {
            return Err(fault("it has other characters than a name"));
        }
        let zone = match name.as_str() {
            "UTC" => Zone::default(),
            _ => {
                let path = Path::new(ZONES).join(&name);
                let is_file = path
                    .metadata()
                    .is_ok_and(|of| of.is_file() && of.len() <= ZONE_BYTES_MAX);
                if !is_file {
                    return Err(fault("this machine does not know it"));
                }
                let bytes = std::fs::read(&path).map_err(|error| fault(&error.to_string()))?;
                let zone = TimeZone::tzif(&name, &bytes);
                let zone = zone.map_err(|_| fault("its file cannot be read"))?;
                changes_of(&zone, now_s()).ok_or_else(|| fault("its file cannot be read"))?
            }
        };
        Ok(Self { name, zone })
    }
}

fn now_s() -> i64 {
    i64::try_from(sip_net::clock::unix_ms() / 1_000).unwrap_or(0)
}

/// The changes of a place's clocks, from a year ago on.
fn changes_of(zone: &TimeZone, now_s: i64) -> Option<Zone> {
    // By days: what is read twice in a row is the same, and a reload finds that nothing has changed.
    let from_s = (now_s - YEAR_S) / DAY_S * DAY_S;
    let from = Timestamp::from_second(from_s).ok()?;
    let until_s = now_s + ZONE_YEARS_AHEAD * YEAR_S;
    let later = zone.following(from).take(CHANGES_MAX);
    let later = later.map(|change| (change.timestamp().as_second(), change.offset().seconds()));
    let first = (from_s, zone.to_offset(from).seconds());
    let changes = std::iter::once(first).chain(later.take_while(|(at_s, _)| *at_s < until_s));
    Some(Zone::new(changes.collect()))
}

/// Hours of the week: `Mo-Fr 08:00-18:00, Sa 09:00-12:00`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct When(pub Hours);

impl TryFrom<String> for When {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let mut spans = Vec::new();
        for part in text.split(',') {
            let read = days_and_hours(part.trim()).ok_or_else(|| {
                format!(
                    "`{}` are no hours\nwrite days and hours, for example \"Mo-Fr 08:00-18:00, Sa 09:00-12:00\"; hours that end before they begin go past midnight",
                    part.trim()
                )
            })?;
            spans.extend(read);
        }
        Ok(Self(Hours::new(spans)))
    }
}

/// The spans of `Mo-Fr 08:00-18:00`, `Sa 22:00-06:00` or `Su`.
fn days_and_hours(text: &str) -> Option<Vec<(u16, u16)>> {
    const DAY_MIN: u16 = 24 * 60;
    let (days, hours) = match text.split_once(' ') {
        Some((days, hours)) => (days, hours.trim()),
        None => (text, "00:00-24:00"),
    };
    let (first, last) = days.split_once('-').unwrap_or((days, days));
    let (first, last) = (day_of(first)?, day_of(last)?);
    let (from, to) = hours.split_once('-')?;
    let (from, to) = (minute_of(from)?, minute_of(to)?);
    if from >= DAY_MIN {
        return None;
    }
    let to = match to > from {
        true => to,
        false => to + DAY_MIN,
    };
    let count = (last + 7 - first) % 7 + 1;
    let days = (0..count).map(|nth| (first + nth) % 7 * DAY_MIN);
    let spans = days.map(|day| (day + from, day + to));
    Some(spans.collect())
}

fn day_of(text: &str) -> Option<u16> {
    const DAYS: [&str; 7] = ["mo", "tu", "we", "th", "fr", "sa", "su"];
    let text = text.trim().to_ascii_lowercase();
    let nth = DAYS.iter().position(|day| *day == text)?;
    u16::try_from(nth).ok()
}

/// The minute of the day; 24:00 is its end.
fn minute_of(text: &str) -> Option<u16> {
    let (hours, minutes) = text.trim().split_once(':')?;
    let number = |digits: &str| {
        let is_two = digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_digit());
        is_two.then(|| digits.parse::<u16>().ok()).flatten()
    };
    let minute = number(hours)? * 60 + number(minutes).filter(|minutes| *minutes < 60)?;
    (minute <= 24 * 60).then_some(minute)
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

    /// Whose hours routes have.
    pub(crate) fn zone(&self) -> Zone {
        let place = self.numbers.timezone.as_ref();
        place.map(|place| place.zone.clone()).unwrap_or_default()
    }

    pub(super) fn check_calls(&self, faults: &mut Faults) {
        self.check_rewriting(faults);
        let mut names = std::collections::BTreeSet::new();
        for (nth, group) in self.user_group.iter().enumerate() {
            let at = format!("user_group.{nth}.name");
            if group.name.is_empty() {
                faults.add(&at, "a group without a name", "write a name");
            } else if !names.insert(group.name.as_str()) {
                faults.add(
                    &at,
                    &format!("a group of users named `{}` stands above", group.name),
                    "give each group a name of its own",
                );
            }
        }
        for (nth, number) in self.numbers.emergency.iter().enumerate() {
            if number.0.is_empty() {
                faults.add(
                    &format!("numbers.emergency.{nth}"),
                    "an emergency number without digits",
                    "write its digits, for example \"112\"",
                );
            }
        }
        if self.numbers.timezone.is_none() {
            for (nth, route) in self.route.iter().enumerate() {
                if route.when.is_some() {
                    faults.add(
                        &format!("route.{nth}.when"),
                        "hours, and nobody knows of which place",
                        "write timezone = \"Europe/Berlin\", or your own, in [numbers]",
                    );
                }
            }
        }
    }

    fn check_rewriting(&self, faults: &mut Faults) {
        if self.rewrite.len() > RULES_MAX {
            faults.add("rewrite", "there are more than 1000 rules", "drop some");
            return;
        }
        let mut is_sound = true;
        for (nth, rule) in self.rewrite.iter().enumerate() {
            let (key, what, remedy) = match Rewrite::new(&rule.pattern, &rule.to) {
                Ok(_) => match undialled(&rule.to) {
                    None => continue,
                    Some(sign) => (
                        "to",
                        format!("`{sign}` cannot be dialled, so no number comes of this rule"),
                        "write digits, + at the front, * and #, and $1 for what the first group has matched",
                    ),
                },
                Err(BadRule::Pattern(why)) => (
                    "match",
                    format!("`{}` is no regular expression: {why}", rule.pattern),
                    "write one that whole numbers fit, for example \"0([1-9][0-9]*)\"",
                ),
                Err(BadRule::To(name)) => (
                    "to",
                    format!("`${name}` is no group of `{}`", rule.pattern),
                    "groups are numbered from 1 on, as they open; write ${1}0 where a digit follows",
                ),
            };
            is_sound = false;
            faults.add(&format!("rewrite.{nth}.{key}"), &what, remedy);
        }
        if !is_sound {
            return;
        }
        let rules = self.number_rules();
        for (nth, rule) in self.rewrite.iter().enumerate() {
            for (example, (from, to)) in rule.examples.iter().enumerate() {
                let is_bare = |sign: char| sign.is_ascii_digit() || "+*#".contains(sign);
                let what = match rules.rewritten(from) {
                    _ if !from.chars().all(is_bare) => {
                        format!(
                            "`{from}` is no number as rules get it, without what is there for the eye"
                        )
                    }
                    Some(written) if written == *to => continue,
                    None if rules.is_emergency(from) && from == to => continue,
                    None if rules.is_emergency(from) => {
                        format!("`{from}` is an emergency number, and no rule makes another of it")
                    }
                    Some(written) => format!("`{from}` becomes `{written}`, and not `{to}`"),
                    None => format!("`{from}` fits no rule, so it does not become `{to}`"),
                };
                faults.add(
                    &format!("rewrite.{nth}.examples.{example}"),
                    &what,
                    "mend the rule or the example; the first rule that fits counts",
                );
            }
        }
    }

    /// What becomes of calls for help that the operator may not expect.
    fn warn_of_help(&self, warnings: &mut Vec<String>) {
        let mut prefixes = self.route.iter().filter_map(|route| route.prefix.as_ref());
        let has_prefixes = prefixes.next().is_some();
        // Of a country that is not his, an operator has written no routes.
        let is_written = self.numbers.emergency != Numbers::default().emergency;
        for number in self.numbers.emergency.iter().map(|of| &*of.0) {
            for (nth, rule) in self.rewrite.iter().enumerate() {
                let fits = Rewrite::new(&rule.pattern, &rule.to);
                if let Some(other) = fits.ok().and_then(|rule| rule.apply(number))
                    && other != number
                {
                    warnings.push(format!(
                        "rewrite.{nth}: it would make `{other}` of the emergency number {number}, which stays what it is: an alias leads it elsewhere (signet alias add {number} TO)"
                    ));
                    break;
                }
            }
            let of_it = self.route.iter().filter_map(|route| {
                let prefix = &route.prefix.as_ref()?.0;
                number
                    .starts_with(&**prefix)
                    .then_some((prefix.len(), route))
            });
            let longest = of_it.clone().map(|(length, _)| length).max();
            if longest.is_none() && has_prefixes && is_written && self.forward.is_none() {
                warnings.push(format!(
                    "numbers.emergency: there is no route for {number}: write a [[route]] with prefix = \"{number}\", or have an alias lead it to who helps (signet alias add {number} TO)"
                ));
            }
            for (_, route) in of_it.filter(|(length, _)| Some(*length) == longest) {
                let group = self.gateway_group.iter().find(|of| of.name == route.group);
                let Some(group) = group else { continue };
                let front = group.prepend.as_ref().map_or("", |prepend| &*prepend.0);
                let kept = number.get(usize::from(group.strip)..).unwrap_or_default();
                if format!("{front}{kept}") != number {
                    warnings.push(format!(
                        "numbers.emergency: {number} leaves as `{front}{kept}` by the group {}: write a [[route]] with prefix = \"{number}\" to a group without strip and prepend",
                        group.name
                    ));
                }
            }
        }
    }

    pub(super) fn warn_of_numbers(&self, warnings: &mut Vec<String>) {
        self.warn_of_help(warnings);
        let numbers = &self.numbers;
        let needs_country = !numbers.blocked.is_empty()
            || !numbers.premium.is_empty()
            || numbers.permissions == Permission::National
            || (self.user_group.iter()).any(|of| of.permissions == Some(Permission::National));
        if numbers.country_code.is_none() && needs_country {
            warnings.push(
                "numbers.country_code: without it `0` and `+` are not known to lead to the same country, so a number may be blocked, or permitted, in one spelling alone"
                    .to_owned(),
            );
        }
        let has_limits = self.gateway_group.iter().any(|group| group.calls_max > 0)
            || (self.user_group.iter()).any(|of| of.calls_max.is_some_and(|max| max > 0));
        if has_limits && !self.proxy.record_route {
            warnings.push(
                "proxy.record_route: without it no BYE passes here, so calls are counted until they are answered and no longer"
                    .to_owned(),
            );
        }
        if has_limits && self.mode != super::Mode::Stateful {
            warnings.push(
                "calls_max: in this mode calls are not followed, so they are not counted; write mode = \"stateful\""
                    .to_owned(),
            );
        }
    }
}

/// What of the text in the place of a number cannot be dialled, beside its groups.
fn undialled(to: &str) -> Option<char> {
    let mut rest = to;
    let mut is_front = true;
    while let Some(sign) = rest.chars().next() {
        rest = rest.get(sign.len_utf8()..).unwrap_or_default();
        match sign {
            '$' if rest.starts_with('{') => {
                rest = rest.split_once('}').map_or("", |(_, after)| after);
            }
            '$' => rest = rest.trim_start_matches(|sign: char| sign.is_ascii_digit()),
            '+' if is_front => {}
            '0'..='9' | '*' | '#' => {}
            other => return Some(other),
        }
        is_front = false;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, String> {
        let text = format!("version = 1\n{text}");
        Config::from_text(Path::new("t.toml"), &text).map_err(|error| error.to_string())
    }

    fn spans(text: &str) -> Option<Hours> {
        When::try_from(text.to_owned()).ok().map(|when| when.0)
    }

    #[test]
    fn hours_are_read() {
        const DAY: u16 = 24 * 60;
        for (text, expected) in [
            ("Mo 08:00-18:00", vec![(480, 1_080)]),
            (
                "mo-tu 08:00-18:30",
                vec![(480, 1_110), (DAY + 480, DAY + 1_110)],
            ),
            ("Sa", vec![(5 * DAY, 6 * DAY)]),
            ("Su 22:00-06:00", vec![(6 * DAY + 1_320, 7 * DAY + 360)]),
            ("Su-Mo 00:00-24:00", vec![(6 * DAY, 7 * DAY), (0, DAY)]),
            (
                "Mo 01:00-02:00, Tu 03:00-04:00",
                vec![(60, 120), (DAY + 180, DAY + 240)],
            ),
        ] {
            assert_eq!(spans(text), Some(Hours::new(expected)), "{text}");
        }
        for bad in [
            "",
            "Mo,",
            "Xx",
            "Mo 8:00-18:00",
            "Mo 08:00",
            "Mo 08:60-09:00",
            "Mo 24:00-25:00",
            "Mo 08:00-18:00 Tu",
            "Mo-",
        ] {
            assert_eq!(spans(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_place_has_the_clocks_that_the_system_has() {
        let bytes = std::fs::read(Path::new(ZONES).join("Europe/Berlin")).unwrap();
        let berlin = TimeZone::tzif("Europe/Berlin", &bytes).unwrap();
        // Of January and July 2026, and forty years later.
        for (unix_s, offset_min) in [
            (1_768_464_000, 60),
            (1_784_102_400, 120),
            (1_768_464_000 + 40 * 31_557_600, 60),
            (1_784_102_400 + 40 * 31_557_600, 120),
        ] {
            let zone = changes_of(&berlin, 1_768_464_000).unwrap();
            let unix_ms = unix_s * 1_000;
            let utc = Zone::default().minute_of_week(unix_ms);
            assert_eq!(zone.minute_of_week(unix_ms), utc + offset_min, "{unix_s}");
        }
        assert!(Place::try_from("Europe/Berlin".to_owned()).is_ok());
        assert_eq!(
            Place::try_from("UTC".to_owned()).unwrap().zone,
            Zone::default()
        );
        for bad in [
            "",
            "Berlin",
            "../../etc/passwd",
            "/etc/localtime",
            "Europe",
            "a b",
        ] {
            let error = Place::try_from(bad.to_owned()).unwrap_err();
            assert!(error.contains("is no time zone"), "{error}");
        }
    }

    #[test]
    fn examples_are_tried_and_a_bad_one_is_pointed_at() {
        let rule = "[[rewrite]]\nmatch = \"0([1-9][0-9]*)\"\nto = \"+49$1\"\n";
        let good = format!("{rule}examples = [[\"030\", \"+4930\"]]\n");
        let config = parse(&good).unwrap();
        assert_eq!(
            config.number_rules().rewritten("030").as_deref(),
            Some("+4930")
        );
        for (text, line, told) in [
            (
                format!("{rule}examples = [[\"030\", \"+4930\"],\n[\"040\", \"40\"]]\n"),
                6,
                "`040` becomes `+4940`, and not `40`",
            ),
            (
                format!("{rule}examples = [[\"0030\", \"+30\"]]\n"),
                5,
                "`0030` fits no rule",
            ),
            (
                "[[rewrite]]\nmatch = \"(\"\nto = \"1\"\n".to_owned(),
                3,
                "`(` is no regular expression",
            ),
            (
                format!("{rule}examples = [[\"030 1\", \"+49301\"]]\n"),
                5,
                "`030 1` is no number as rules get it",
            ),
            (
                format!("{rule}examples = [\"030\", \"+4930\"]\n"),
                5,
                "stands where a pair belongs",
            ),
            (
                "[[rewrite]]\nmatch = \"([0-9]+)\"\nto = \"+49$1\"\nexamples = [[\"112\", \"+49112\"]]\n"
                    .to_owned(),
                5,
                "no rule makes another of it",
            ),
            (
                "[[rewrite]]\nmatch = \"0(.*)\"\nto = '+49\\1'\n".to_owned(),
                4,
                "`\\` cannot be dialled",
            ),
            (
                "[[rewrite]]\nmatch = \"0(.*)\"\nto = \"$1+\"\n".to_owned(),
                4,
                "`+` cannot be dialled",
            ),
            (
                "[[rewrite]]\nmatch = \"0(\\d*)\"\nto = \"$1\"\n".to_owned(),
                3,
                "write the text in single quotes",
            ),
            (
                "[[rewrite]]\nmatch = \"(1)\"\nto = \"$2\"\n".to_owned(),
                4,
                "`$2` is no group",
            ),
            (
                "[[gateway_group]]\nname = \"g\"\ngateways = [{ uri = \"sip:a\" }]\n\
                 [[route]]\nprefix = \"0\"\ngroup = \"g\"\nwhen = \"Sa\"\n"
                    .to_owned(),
                8,
                "write timezone = ",
            ),
            (
                "[[user_group]]\nname = \"a\"\n[[user_group]]\nname = \"a\"\n".to_owned(),
                5,
                "stands above",
            ),
            (
                "[numbers]\ncountry_code = \"049\"\n".to_owned(),
                3,
                "is no country's code",
            ),
            (
                "[numbers]\nemergency = [\"\"]\n".to_owned(),
                3,
                "without digits",
            ),
            (
                "[numbers]\npermissions = \"all\"\n".to_owned(),
                3,
                "international",
            ),
        ] {
            let error = parse(&text).unwrap_err();
            assert!(error.contains(&format!("t.toml:{line}")), "{text}{error}");
            assert!(error.contains(told), "{text}{error}");
        }
    }

    #[test]
    fn what_would_become_of_calls_for_help_is_told() {
        let group = |name: &str, more: &str| {
            format!(
                "[[gateway_group]]\nname = \"{name}\"\n{more}gateways = [{{ uri = \"sip:192.0.2.1\" }}]\n"
            )
        };
        let route = |prefix: &str, name: &str| {
            format!("[[route]]\nprefix = \"{prefix}\"\ngroup = \"{name}\"\n")
        };
        let (plain, plus) = (group("plain", ""), group("plus", "prepend = \"+\"\n"));
        let numbers = "[numbers]\ncountry_code = \"49\"\nemergency = [\"110\"]\n";
        let town = "[[rewrite]]\nmatch = \"([1-9][0-9]+)\"\nto = \"+4930$1\"\n";
        for (text, told) in [
            (String::new(), None),
            (format!("{numbers}{plain}{}", route("1", "plain")), None),
            // Of other countries' numbers, which stand there without being written, nothing is said.
            (format!("{plain}{}", route("0", "plain")), None),
            (
                format!("{numbers}{plain}{}", route("0", "plain")),
                Some("there is no route for 110"),
            ),
            (
                format!("{numbers}{plus}{}", route("1", "plus")),
                Some("110 leaves as `+110` by the group plus"),
            ),
            (
                format!(
                    "{numbers}{plain}{plus}{}{}",
                    route("1", "plus"),
                    route("110", "plain")
                ),
                None,
            ),
            (
                format!("{numbers}{town}"),
                Some("rewrite.0: it would make `+4930110` of the emergency number 110"),
            ),
        ] {
            let warnings = parse(&text).unwrap().warnings();
            let of_help: Vec<_> = (warnings.iter())
                .filter(|of| of.contains("emergency"))
                .collect();
            match told {
                None => assert!(of_help.is_empty(), "{text}{of_help:?}"),
                Some(told) => assert!(
                    of_help.len() == 1 && of_help[0].contains(told),
                    "{text}{of_help:?}"
                ),
            }
        }
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
