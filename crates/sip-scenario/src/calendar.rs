//! Dates, as keywords and logs print them, in UTC.

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

const DAY_S: u64 = 86_400;
const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

impl Moment {
    /// From microseconds since 1970.
    pub fn from_unix_us(unix_us: u64) -> Self {
        let seconds = unix_us / 1_000_000;
        let (days, of_day) = (seconds / DAY_S, seconds % DAY_S);
        // Days since 0000-03-01, in eras of 400 years (Hinnant's civil_from_days).
        let shifted = days + 719_468;
        let (era, of_era) = (shifted / 146_097, shifted % 146_097);
        let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let day_of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
        let month = if shifted_month < 10 {
            shifted_month + 3
        } else {
            shifted_month - 9
        };
        let year = year_of_era + era * 400 + u64::from(month <= 2);
        let small = |n: u64| u32::try_from(n).unwrap_or(0);
        Self {
            year: i64::try_from(year).unwrap_or(0),
            month: small(month),
            day: small(day),
            hour: small(of_day / 3_600),
            minute: small(of_day / 60 % 60),
            second: small(of_day % 60),
            microsecond: small(unix_us % 1_000_000),
            weekday: small((days + 4) % 7),
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
