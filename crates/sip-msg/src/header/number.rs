//! Numbers in headers.

use crate::chars::number;

/// Delta-seconds (RFC 3261 25.1: 1*DIGIT). Past 2^32 - 1 it stays there, which
/// RFC 3261 20.19 gives as its greatest value.
pub fn delta_seconds(value: &[u8]) -> Option<u32> {
    number(value).map(|seconds| u32::try_from(seconds).unwrap_or(u32::MAX))
}

/// A qvalue in thousandths, 0 to 1000 (RFC 3261 25.1: `0[.ddd]` or `1[.000]`).
pub fn q_thousandths(value: &[u8]) -> Option<u16> {
    let (&whole, tail) = value.split_first()?;
    let digits = match tail {
        [] => tail,
        [b'.', digits @ ..] if digits.len() <= 3 => digits,
        _ => return None,
    };
    let padded = digits
        .iter()
        .copied()
        .chain(std::iter::repeat(b'0'))
        .take(3);
    let thousandths = padded.into_iter().try_fold(0u16, |sum, d| {
        d.is_ascii_digit().then(|| sum * 10 + u16::from(d - b'0'))
    })?;
    match (whole, thousandths) {
        (b'0', thousandths) => Some(thousandths),
        (b'1', 0) => Some(1000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn q_values() {
        let cases: [(&str, Option<u16>); 14] = [
            ("0", Some(0)),
            ("1", Some(1000)),
            ("0.5", Some(500)),
            ("0.33", Some(330)),
            ("0.999", Some(999)),
            ("1.000", Some(1000)),
            ("1.", Some(1000)),
            ("0.", Some(0)),
            ("1.001", None),
            ("2", None),
            ("0.1234", None),
            ("", None),
            ("-0", None),
            (".5", None),
        ];
        for (text, expected) in cases {
            assert_eq!(q_thousandths(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn delta_seconds_saturate() {
        assert_eq!(delta_seconds(b"3600"), Some(3600));
        assert_eq!(delta_seconds(b"0000"), Some(0));
        assert_eq!(delta_seconds(b"280297596632815"), Some(u32::MAX));
        assert_eq!(delta_seconds(b""), None);
        assert_eq!(delta_seconds(b"-1"), None);
        assert_eq!(delta_seconds(b"1.5"), None);
    }
}
