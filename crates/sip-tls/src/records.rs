//! Where TLS records end (RFC 8446 5.1, RFC 5246 6.2.3).

/// The longest record: what may be added to its data is more in TLS 1.2 than in 1.3.
const RECORD_MAX: usize = (1 << 14) + 2_048;
/// Kinds of records: change_cipher_spec, alert, handshake, application_data, heartbeat.
const KINDS: std::ops::RangeInclusive<u8> = 20..=24;

/// The end of those records that are whole, from where one begins. `None` where what comes is no
/// record: whoever opens it will tell.
pub(crate) fn end_of_whole(input: &[u8], begin: usize) -> Option<usize> {
    let mut end = begin;
    loop {
        let rest = input.get(end..).unwrap_or_default();
        let Some((header, data)) = rest.split_first_chunk::<5>() else {
            return Some(end);
        };
        let len = usize::from(u16::from_be_bytes([header[3], header[4]]));
        if !KINDS.contains(&header[0]) || header[1] != 3 || len > RECORD_MAX {
            return None;
        }
        if data.len() < len {
            return Some(end);
        }
        end += header.len() + len;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_counts_once_it_is_whole() {
        let input = [22, 3, 3, 0, 2, 7, 7, 20, 3, 3, 0, 1, 1];
        for (len, end) in [(0, 0), (4, 0), (6, 0), (7, 7), (8, 7), (12, 7), (13, 13)] {
            assert_eq!(end_of_whole(&input[..len], 0), Some(end), "{len}");
        }
        assert_eq!(end_of_whole(&input, 7), Some(13));
        assert_eq!(end_of_whole(&input[..7], 7), Some(7));
        for no_record in [[71, 69, 84, 32, 47], [22, 2, 0, 0, 1], [23, 3, 3, 0x48, 1]] {
            assert_eq!(end_of_whole(&no_record, 0), None);
        }
    }
}
