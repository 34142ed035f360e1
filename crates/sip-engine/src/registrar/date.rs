//! The Date header (RFC 3261 20.17): `Sat, 13 Nov 2010 23:29:00 GMT`.

use time::OffsetDateTime;

use crate::text::write_decimal;

const DAY_NAMES: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const MONTH_NAMES: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// Appends a time in milliseconds since 1970. One past the year 9999, which no
/// clock tells, is written as 1970.
pub(super) fn write_date(unix_ms: u64, out: &mut Vec<u8>) {
    // RFC 3261 20.17: "SIP restricts the time zone in SIP-date to "GMT", while RFC 1123 allows any time zone."
    let seconds = i64::try_from(unix_ms / 1_000).unwrap_or_default();
    let at = OffsetDateTime::from_unix_timestamp(seconds).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let name = |names: &[&'static str], at: u8, out: &mut Vec<u8>| {
        let name = names.get(usize::from(at)).copied().unwrap_or_default();
        out.extend_from_slice(name.as_bytes());
    };
    name(&DAY_NAMES, at.weekday().number_days_from_sunday(), out);
    out.extend_from_slice(b", ");
    write_two(at.day(), out);
    out.push(b' ');
    name(&MONTH_NAMES, u8::from(at.month()) - 1, out);
    out.push(b' ');
    write_decimal(u64::from(at.year().unsigned_abs()), out);
    for (before, number) in [(b' ', at.hour()), (b':', at.minute()), (b':', at.second())] {
        out.push(before);
        write_two(number, out);
    }
    out.extend_from_slice(b" GMT");
}

fn write_two(number: u8, out: &mut Vec<u8>) {
    out.extend([b'0' + number / 10 % 10, b'0' + number % 10]);
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
}
