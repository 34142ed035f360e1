//! Figures as people read them.

/// What stands where there is no figure.
pub const NONE: &str = "–";

/// In three significant digits, whole above 1,000, thousands apart: `0.0123`, `47.3`, `12,345`.
pub fn figure(value: f64) -> String {
    if !value.is_finite() {
        return NONE.to_owned();
    }
    let size = value.abs();
    if size == 0.0 {
        return "0".to_owned();
    }
    if !(1e-4..1e15).contains(&size) {
        return format!("{value:.1e}");
    }
    // The exponent of what is left after rounding: 9.999 is 10.0.
    let rounded = format!("{size:.2e}");
    let exponent = rounded
        .split_once('e')
        .and_then(|(_, exponent)| exponent.parse::<i32>().ok())
        .unwrap_or(0);
    let digits = usize::try_from(2 - exponent).unwrap_or(0);
    grouped(&format!("{value:.digits$}"))
}

/// A number of things, thousands apart.
pub fn count(count: u64) -> String {
    grouped(&count.to_string())
}

/// A share of 1 in percent: `4%`, `12.3%`.
pub fn percent(share: f64) -> String {
    if !share.is_finite() {
        return NONE.to_owned();
    }
    let text = figure(share * 100.0);
    let text = match text.contains('.') && !text.contains('e') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => text.as_str(),
    };
    format!("{text}%")
}

/// Bytes in the unit that suits: `640 B`, `1.20 KiB`, `85.3 MiB`.
pub fn bytes(bytes: f64) -> String {
    in_units(
        bytes,
        &[
            (1.0, "B"),
            (1024.0, "KiB"),
            (1_048_576.0, "MiB"),
            (1_073_741_824.0, "GiB"),
        ],
    )
}

/// Microseconds in the unit that suits: `850 µs`, `1.25 ms`, `2.10 s`.
pub fn microseconds(us: f64) -> String {
    in_units(us, &[(1.0, "µs"), (1e3, "ms"), (1e6, "s")])
}

/// Seconds as a length of time: `45 s`, `12 min`, `1 h 20 min`.
pub fn seconds(seconds: u64) -> String {
    let minutes = seconds.saturating_add(30) / 60;
    match (seconds, minutes) {
        (..120, _) => format!("{seconds} s"),
        (_, ..120) => format!("{minutes} min"),
        _ => format!("{} h {} min", minutes / 60, minutes % 60),
    }
}

/// A time, seconds since 1970: `2026-11-22 14:03 UTC`.
pub fn utc(unix_s: u64) -> String {
    i64::try_from(unix_s)
        .ok()
        .and_then(|seconds| time::OffsetDateTime::from_unix_timestamp(seconds).ok())
        .map_or_else(
            || NONE.to_owned(),
            |at| format!("{} {:02}:{:02} UTC", at.date(), at.hour(), at.minute()),
        )
}

/// In as few characters as tell it, for a narrow place: `131`, `7.9k`, `1.2M`.
pub fn short(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        return NONE.to_owned();
    }
    let scaled = [(1e9, "G"), (1e6, "M"), (1e3, "k")]
        .iter()
        // 999.6 is 1.0k and not 1000.
        .find(|(scale, _)| size >= scale * 0.9995);
    match scaled {
        _ if size >= 1e15 => format!("{value:.0e}"),
        Some((scale, suffix)) if size >= scale * 99.95 => format!("{:.0}{suffix}", value / scale),
        Some((scale, suffix)) => format!("{:.1}{suffix}", value / scale),
        None if size >= 9.95 || size == 0.0 => format!("{value:.0}"),
        None if size >= 0.01 => format!("{value:.2}"),
        None => format!("{value:.0e}"),
    }
}

/// The labels of an axis: all with as many decimals, and in one multiple.
pub(crate) fn ticks(values: &[f64]) -> Vec<String> {
    let most = values
        .iter()
        .fold(0.0, |most: f64, value| most.max(value.abs()));
    let step = values
        .windows(2)
        .filter_map(|pair| Some((pair.last()? - pair.first()?).abs()))
        .filter(|step| *step > 0.0)
        .fold(f64::INFINITY, f64::min);
    let (scale, suffix) = match most {
        m if m >= 1e15 => return values.iter().map(|value| short_power(*value)).collect(),
        m if m >= 2e9 => (1e9, "G"),
        m if m >= 2e6 => (1e6, "M"),
        m if m >= 2e4 => (1e3, "k"),
        _ => (1.0, ""),
    };
    let step = if step.is_finite() {
        step / scale
    } else {
        most / scale
    };
    let digits = if step > 0.0 {
        (-step.log10() - 1e-9).ceil().max(0.0)
    } else {
        0.0
    };
    if digits > 4.0 {
        return values.iter().map(|value| short_power(*value)).collect();
    }
    let digits = digits as usize;
    values
        .iter()
        .map(|value| match *value {
            0.0 => "0".to_owned(),
            value => format!(
                "{}{suffix}",
                grouped(&format!("{:.digits$}", value / scale))
            ),
        })
        .collect()
}

/// The labels of a logarithmic axis, each by itself.
pub(crate) fn powers(values: &[f64]) -> Vec<String> {
    values
        .iter()
        .map(|&value| match value {
            v if !(1e-4..1e12).contains(&v) => short_power(v),
            v if v >= 1e9 => trimmed(v / 1e9, "G"),
            v if v >= 1e6 => trimmed(v / 1e6, "M"),
            v if v >= 1e4 => trimmed(v / 1e3, "k"),
            v => grouped(&trimmed(v, "")),
        })
        .collect()
}

fn trimmed(value: f64, suffix: &str) -> String {
    let text = format!("{value:.4}");
    format!(
        "{}{suffix}",
        text.trim_end_matches('0').trim_end_matches('.')
    )
}

fn short_power(value: f64) -> String {
    if value == 0.0 {
        "0".to_owned()
    } else {
        format!("{value:.0e}")
    }
}

fn in_units(value: f64, units: &[(f64, &str)]) -> String {
    if !value.is_finite() {
        return NONE.to_owned();
    }
    let unit = units
        .iter()
        .rev()
        .find(|(size, _)| value.abs() >= *size)
        .or(units.first());
    unit.map_or_else(
        || figure(value),
        |(size, name)| format!("{} {name}", figure(value / size)),
    )
}

/// Thousands apart.
fn grouped(number: &str) -> String {
    let (sign, rest) = match number.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", number),
    };
    let (whole, part) = match rest.split_once('.') {
        Some((whole, part)) => (whole, Some(part)),
        None => (rest, None),
    };
    let mut text = sign.to_owned();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    if let Some(part) = part {
        text.push('.');
        text.push_str(part);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits_that_count() {
        for (value, text) in [
            (0.0, "0"),
            (0.012_34, "0.0123"),
            (0.5, "0.500"),
            (9.999, "10.0"),
            (47.26, "47.3"),
            (-47.26, "-47.3"),
            (999.6, "1,000"),
            (12_345.4, "12,345"),
            (1_234_567.0, "1,234,567"),
            (1e15, "1.0e15"),
            (1e-9, "1.0e-9"),
            (f64::NAN, NONE),
            (f64::INFINITY, NONE),
        ] {
            assert_eq!(figure(value), text, "{value:e}");
        }
    }

    #[test]
    fn units_suit_their_figures() {
        assert_eq!(microseconds(850.0), "850 µs");
        assert_eq!(microseconds(1_250.0), "1.25 ms");
        assert_eq!(microseconds(2_100_000.0), "2.10 s");
        assert_eq!(microseconds(0.0), "0 µs");
        assert_eq!(bytes(89_478_485.0), "85.3 MiB");
        assert_eq!(
            (percent(0.04), percent(0.123)),
            ("4%".into(), "12.3%".into())
        );
        assert_eq!((percent(0.0), percent(1.0)), ("0%".into(), "100%".into()));
        assert_eq!(
            (percent(0.000_1), percent(f64::NAN)),
            ("0.01%".into(), NONE.into())
        );
        assert_eq!(count(1_000), "1,000");
        assert_eq!(
            (seconds(45), seconds(720), seconds(7_300)),
            ("45 s".into(), "12 min".into(), "2 h 2 min".into())
        );
        assert_eq!(utc(0), "1970-01-01 00:00 UTC");
        assert_eq!(utc(u64::MAX), NONE);
    }

    #[test]
    fn short_ones_are_short() {
        for (value, text) in [
            (131.0, "131"),
            (999.6, "1.0k"),
            (7_900.0, "7.9k"),
            (123_456.0, "123k"),
            (1.2e6, "1.2M"),
            (0.25, "0.25"),
            (0.0, "0"),
            (1e200, "1e200"),
            (f64::NAN, NONE),
        ] {
            assert_eq!(short(value), text, "{value:e}");
        }
    }

    #[test]
    fn labels_of_an_axis_have_as_many_decimals() {
        assert_eq!(ticks(&[0.0, 0.5, 1.0]), ["0", "0.5", "1.0"]);
        assert_eq!(ticks(&[0.0, 5_000.0, 10_000.0]), ["0", "5,000", "10,000"]);
        assert_eq!(ticks(&[0.0, 20_000.0, 40_000.0]), ["0", "20k", "40k"]);
        assert_eq!(ticks(&[0.0, 1e-7]), ["0", "1e-7"]);
        assert_eq!(ticks(&[1e20]), ["1e20"]);
        assert_eq!(ticks(&[]), Vec::<String>::new());
        assert_eq!(
            powers(&[0.1, 1.0, 2_000.0, 50_000.0, 1e6]),
            ["0.1", "1", "2,000", "50k", "1M"]
        );
    }
}
