//! An amount of memory: a share of what there is, or a number of bytes.

use serde::Deserialize;

/// The memory that messages may hold: `50%`, `512MiB`, `4GiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum MemoryMax {
    /// So many hundredths of what the process may have.
    Percent(u8),
    /// So many bytes.
    Bytes(u64),
}

/// Below it a handful of the largest messages would be all.
const BYTES_MIN: u64 = 16 << 20;

impl MemoryMax {
    /// The bytes that it comes to where the process may have `limit`.
    pub(crate) fn bytes_of(self, limit: u64) -> u64 {
        match self {
            Self::Percent(percent) => (limit / 100 * u64::from(percent)).max(BYTES_MIN),
            Self::Bytes(bytes) => bytes,
        }
    }
}

impl std::str::FromStr for MemoryMax {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fault = || {
            format!(
                "`{text}` is no amount of memory\nwrite a share of what there is, from 1% to 90%, or an amount from 16MiB on, for example 512MiB or 4GiB"
            )
        };
        if let Some(percent) = text.strip_suffix('%') {
            return match percent.trim().parse() {
                Ok(percent @ 1..=90) => Ok(Self::Percent(percent)),
                _ => Err(fault()),
            };
        }
        let (number, shift) = if let Some(number) = text.strip_suffix("MiB") {
            (number, 20)
        } else if let Some(number) = text.strip_suffix("GiB") {
            (number, 30)
        } else {
            return Err(fault());
        };
        number
            .trim()
            .parse::<u64>()
            .ok()
            .and_then(|number| number.checked_mul(1 << shift))
            .filter(|bytes| *bytes >= BYTES_MIN)
            .map(Self::Bytes)
            .ok_or_else(fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_amounts() {
        let bytes = |text: &str| text.parse::<MemoryMax>().map(|max| max.bytes_of(8 << 30));
        assert_eq!(bytes("50%"), Ok(((8 << 30) / 100) * 50));
        assert_eq!(bytes("64 MiB"), Ok(64 << 20));
        assert_eq!(bytes("3GiB"), Ok(3 << 30));
        let small: MemoryMax = "1%".parse().unwrap();
        assert_eq!(small.bytes_of(64 << 20), BYTES_MIN);
        for bad in [
            "",
            "0%",
            "95%",
            "5",
            "15MiB",
            "4GB",
            "-1GiB",
            "99999999999999GiB",
        ] {
            let error = bytes(bad).unwrap_err();
            assert!(error.contains("from 1% to 90%"), "{bad}: {error}");
        }
    }
}
