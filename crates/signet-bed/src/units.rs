//! Times, shares and rates as text.

/// Reads `30ms`, `1.5s`, `200us`, or `0`; gives nanoseconds.
///
/// # Errors
/// Says what to write.
pub fn duration(text: &str) -> Result<u64, String> {
    let text = text.trim();
    if text == "0" {
        return Ok(0);
    }
    measure::pace::parse_duration_ns(text)
        .map_err(|_| format!("'{text}' is no time; write 30ms, 500us or 1s"))
}

/// Reads `1%`, `0.01` or `0`; gives a share from 0 to below 1.
///
/// # Errors
/// Says what to write.
pub fn share(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let (number, of) = text
        .strip_suffix('%')
        .map_or((text, 1.0), |number| (number, 100.0));
    number
        .trim()
        .parse::<f64>()
        .ok()
        .map(|number| number / of)
        // Where everything is lost nothing arrives, however often it is sent.
        .filter(|share| (0.0..1.0).contains(share))
        .ok_or_else(|| format!("'{text}' is no share below the whole; write 0, 1% or 0.01"))
}

/// Reads `100mbit`, `1gbit`, `64kbit`, `9600bit`; gives bits a second.
///
/// # Errors
/// Says what to write.
pub fn bit_rate(text: &str) -> Result<u64, String> {
    const LOW: f64 = 1_000.0;
    const HIGH: f64 = 1e12;
    let text = text.trim();
    let lower = text.to_ascii_lowercase();
    let units = [("kbit", 1e3), ("mbit", 1e6), ("gbit", 1e9), ("bit", 1.0)];
    units
        .iter()
        .find_map(|(unit, each)| {
            let number: f64 = lower.strip_suffix(unit)?.trim().parse().ok()?;
            Some(number * each)
        })
        .filter(|rate| (LOW..=HIGH).contains(rate))
        .map(|rate| rate as u64)
        .ok_or_else(|| {
            format!("'{text}' is no rate from 1kbit to 1000gbit a second; write 100mbit or 1gbit")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_shares_and_rates() {
        assert_eq!(duration("30ms"), Ok(30_000_000));
        assert_eq!(duration("0"), Ok(0));
        assert_eq!((share("1%"), share("0")), (Ok(0.01), Ok(0.0)));
        assert_eq!(bit_rate("100mbit"), Ok(100_000_000));
        assert_eq!(bit_rate("1.5Gbit"), Ok(1_500_000_000));
        assert_eq!(bit_rate("9600bit"), Ok(9_600));
    }

    #[test]
    fn what_is_none_says_what_to_write() {
        for wrong in ["30", "ms", "-1ms", ""] {
            assert!(duration(wrong).unwrap_err().contains("30ms"), "{wrong}");
        }
        for wrong in ["100%", "1", "-1%", "NaN", "x"] {
            assert!(share(wrong).unwrap_err().contains("1%"), "{wrong}");
        }
        for wrong in ["100", "0mbit", "infgbit", "NaNbit", "-1kbit", "2000gbit"] {
            assert!(bit_rate(wrong).unwrap_err().contains("100mbit"), "{wrong}");
        }
    }
}
