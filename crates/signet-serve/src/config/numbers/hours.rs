//! The hours of routes, and the clocks of the place whose hours they are.

use std::path::Path;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Deserialize;
use sip_engine::hours::{Hours, Zone};

use crate::config::Config;

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

/// A place, by the name that the operating system has for its clocks.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct ZoneName {
    name: String,
    zone: Zone,
}

impl TryFrom<String> for ZoneName {
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
    /// Whose hours routes have.
    pub(crate) fn zone(&self) -> Zone {
        let place = self.numbers.timezone.as_ref();
        place.map(|place| place.zone.clone()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(ZoneName::try_from("Europe/Berlin".to_owned()).is_ok());
        assert_eq!(
            ZoneName::try_from("UTC".to_owned()).unwrap().zone,
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
            let error = ZoneName::try_from(bad.to_owned()).unwrap_err();
            assert!(error.contains("is no time zone"), "{error}");
        }
    }
}
