//! Small pieces of text that several parts write.

/// A number in sixteen lower-case hexadecimal digits.
pub(crate) fn hex16(number: u64) -> [u8; 16] {
    let mut text = [0; 16];
    for (at, digit) in text.iter_mut().enumerate() {
        let nibble = (number >> (60 - 4 * at)) & 0xf;
        *digit = match u8::try_from(nibble) {
            Ok(n @ 0..=9) => b'0' + n,
            Ok(n) => b'a' - 10 + n,
            Err(_) => b'0',
        };
    }
    text
}

/// Appends a number in decimal digits.
pub(crate) fn write_decimal(mut number: u64, out: &mut Vec<u8>) {
    let mut text = [0_u8; 20];
    let mut at = text.len();
    for digit in text.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
        at -= 1;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(text.get(at..).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_they_should() {
        for number in [0, 9, 10, 255, 1 << 40, u64::MAX] {
            assert_eq!(
                hex16(number).to_vec(),
                format!("{number:016x}").into_bytes()
            );
            let mut out = Vec::new();
            write_decimal(number, &mut out);
            assert_eq!(out, number.to_string().into_bytes());
        }
    }
}
