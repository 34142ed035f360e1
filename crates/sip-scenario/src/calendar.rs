//! Dates, as keywords and logs print them, in UTC.

use time::OffsetDateTime;

/// A moment, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Years of the common era.
    pub year: i64,
    /// From 1.
    pub month: u32,
    /// From 1.
    pub day: u32,
    /// From 0.
    pub hour: u32,
    /// From 0.
    pub minute: u32,
    /// From 0.
    pub second: u32,
    /// From 0.
    pub microsecond: u32,
    /// From 0, which is Sunday.
    pub weekday: u32,
    /// Microseconds since 1970.
    pub unix_us: u64,
}

const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

impl Moment {
    /// From microseconds since 1970.
    pub fn from_unix_us(unix_us: u64) -> Self {
        let seconds = i64::try_from(unix_us / 1_000_000).unwrap_or_default();
        let at = OffsetDateTime::from_unix_timestamp(seconds).unwrap_or(OffsetDateTime::UNIX_EPOCH);
        Self {
            year: at.year().into(),
            month: u8::from(at.month()).into(),
            day: at.day().into(),
            hour: at.hour().into(),
            minute: at.minute().into(),
            second: at.second().into(),
            microsecond: (unix_us % 1_000_000) as u32,
            weekday: at.weekday().number_days_from_sunday().into(),
            unix_us,
        }
    }

    /// `Sat, 13 Nov 2010 23:29:00 GMT` (RFC 3261 20.17).
    pub fn sip_date(&self) -> String {
        let pick = |names: &[&'static str], n: u32| names.get(n as usize).copied().unwrap_or("");
        format!(
            "{}, {:02} {} {} {:02}:{:02}:{:02} GMT",
            pick(&DAYS, self.weekday),
            self.day,
            pick(&MONTHS, self.month.wrapping_sub(1)),
            self.year,
            self.hour,
            self.minute,
            self.second
        )
    }

    /// Date, time and seconds since 1970, with tabs between them, as SIPp's
    /// files have them.
    pub fn stamp(&self) -> String {
        format!(
            "{}\t{}\t{}.{:06}",
            self.date(),
            self.time(),
            self.unix_us / 1_000_000,
            self.microsecond
        )
    }

    /// `2010-11-13`.
    pub fn date(&self) -> String {
        format!("{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }

    /// `23:29:00.000000`.
    pub fn time(&self) -> String {
        format!(
            "{:02}:{:02}:{:02}.{:06}",
            self.hour, self.minute, self.second, self.microsecond
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_their_dates() {
        let at = |seconds: u64| Moment::from_unix_us(seconds * 1_000_000);
        assert_eq!(at(0).sip_date(), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(at(951_782_400).sip_date(), "Tue, 29 Feb 2000 00:00:00 GMT");
        assert_eq!(
            at(1_795_266_948).sip_date(),
            "Sat, 21 Nov 2026 13:15:48 GMT"
        );
        assert_eq!(
            Moment::from_unix_us(1_795_266_948_019_182).stamp(),
            "2026-11-21\t13:15:48.019182\t1795266948.019182"
        );
        assert_eq!(at(1_767_225_599).date(), "2025-12-31");
    }
}
