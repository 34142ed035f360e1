//! The Date header (RFC 3261 20.17): `Sat, 13 Nov 2010 23:29:00 GMT`.

use crate::text::write_decimal;

const DAY_NAMES: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTH_NAMES: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// Appends a time in milliseconds since 1970.
pub(super) fn write_date(unix_ms: u64, out: &mut Vec<u8>) {
    // RFC 3261 20.17: "SIP restricts the time zone in SIP-date to "GMT", while RFC 1123 allows any time zone."
    let seconds = unix_ms / 1_000;
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    let name =
        |names: &[&'static str], at: u64| names.get(at as usize).copied().unwrap_or_default();
    out.extend_from_slice(name(&DAY_NAMES, days % 7).as_bytes());
    out.extend_from_slice(b", ");
    write_two(day, out);
    out.push(b' ');
    out.extend_from_slice(name(&MONTH_NAMES, month - 1).as_bytes());
    out.push(b' ');
    write_decimal(year, out);
    for (before, number) in [
        (b' ', second / 3_600),
        (b':', second / 60 % 60),
        (b':', second % 60),
    ] {
        out.push(before);
        write_two(number, out);
    }
    out.extend_from_slice(b" GMT");
}

/// Year, month and day of a number of days since 1970, in the Gregorian
/// calendar. Years begin in March here, so that the leap day is their last.
fn civil(days: u64) -> (u64, u64, u64) {
    const DAYS_TO_1970: u64 = 719_468;
    let days = days.saturating_add(DAYS_TO_1970);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

fn write_two(number: u64, out: &mut Vec<u8>) {
    out.push(b'0' + (number / 10 % 10) as u8);
    out.push(b'0' + (number % 10) as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn date(unix_s: u64) -> String {
        let mut out = Vec::new();
        write_date(unix_s * 1_000 + 999, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn dates() {
        // The first is RFC 3261 20.17's own example.
        for (unix_s, expected) in [
            (1_289_690_940, "Sat, 13 Nov 2010 23:29:00 GMT"),
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (951_782_399, "Mon, 28 Feb 2000 23:59:59 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (1_709_251_199, "Thu, 29 Feb 2024 23:59:59 GMT"),
            (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
            (1_795_219_200, "Sat, 21 Nov 2026 00:00:00 GMT"),
        ] {
            assert_eq!(date(unix_s), expected);
        }
    }

    #[test]
    fn every_day_follows_the_day_before() {
        let mut last = civil(0);
        for days in 1..200_000 {
            let (year, month, day) = civil(days);
            let is_next = (year, month, day) == (last.0, last.1, last.2 + 1)
                || ((year, month, day) == (last.0, last.1 + 1, 1) && last.2 >= 28)
                || ((year, month, day) == (last.0 + 1, 1, 1) && (last.1, last.2) == (12, 31));
            assert!(is_next, "{last:?} {year}-{month}-{day}");
            last = (year, month, day);
        }
    }
}
