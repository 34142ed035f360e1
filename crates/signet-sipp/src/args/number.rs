//! Numbers and times, as SIPp writes them.

/// A whole number.
pub(crate) fn whole(text: &str) -> Option<u64> {
    text.parse().ok()
}

/// A time in milliseconds: `500ms`, `20s`, `1.5m`, `2h`, `1:30`, `1:00:00`, or
/// a number of units.
pub(crate) fn duration_ms(text: &str, unit_ms: u64) -> Option<u64> {
    if text.contains(':') {
        let mut seconds = 0.0;
        for part in text.split(':') {
            let number: f64 = part.parse().ok().filter(|n: &f64| *n >= 0.0)?;
            seconds = seconds * 60.0 + number;
        }
        return from_ms(seconds * 1_000.0);
    }
    let units: [(&str, f64); 4] = [
        ("ms", 1.0),
        ("s", 1_000.0),
        ("m", 60_000.0),
        ("h", 3_600_000.0),
    ];
    for (suffix, ms) in units {
        if let Some(number) = text.strip_suffix(suffix) {
            return from_ms(number.parse::<f64>().ok()? * ms);
        }
    }
    from_ms(text.parse::<f64>().ok()? * unit_ms as f64)
}

fn from_ms(ms: f64) -> Option<u64> {
    (ms.is_finite() && (0.0..1e15).contains(&ms)).then_some(ms.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        for (text, unit_ms, ms) in [
            ("500", 1, Some(500)),
            ("20", 1_000, Some(20_000)),
            ("500ms", 1_000, Some(500)),
            ("1.5s", 1, Some(1_500)),
            ("2m", 1, Some(120_000)),
            ("1h", 1, Some(3_600_000)),
            ("1:30", 1, Some(90_000)),
            ("1:00:00", 1, Some(3_600_000)),
            ("-1", 1, None),
            ("x", 1, None),
            ("", 1, None),
            ("inf", 1, None),
        ] {
            assert_eq!(duration_ms(text, unit_ms), ms, "{text}");
        }
    }
}
