//! Patterns of names.

/// Whether a text is of a pattern, in which `*` stands for any bytes or none and `?` for any
/// one byte; everything else stands for itself.
pub(crate) fn is_match(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut at, mut read) = (0, 0);
    // Where the last star was, and how far the text was when it stood for nothing.
    let mut star: Option<(usize, usize)> = None;
    while let Some(&byte) = text.get(read) {
        match (pattern.get(at), star) {
            (Some(b'*'), _) => {
                star = Some((at, read));
                at += 1;
            }
            (Some(&wanted), _) if wanted == b'?' || wanted == byte => {
                at += 1;
                read += 1;
            }
            (_, Some((star_at, star_read))) => {
                star = Some((star_at, star_read + 1));
                at = star_at + 1;
                read = star_read + 1;
            }
            (_, None) => return false,
        }
    }
    pattern
        .get(at..)
        .is_some_and(|rest| rest.iter().all(|&byte| byte == b'*'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_and_question_marks() {
        let cases = [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("*", "anything", true),
            ("tls.so", "tls.so", true),
            ("tls.so", "tls.so.1", false),
            ("lib*.so*", "libcrypto.so.3", true),
            ("worker-?", "worker-1", true),
            ("worker-?", "worker-12", false),
            ("*_RSA_*", "aws_lc_0_47_0_RSA_sign", true),
            ("*_RSA_*", "aws_lc_0_47_0_RSAZ", false),
            ("[kernel*", "[kernel.kallsyms]", true),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("*aab", "aaab", true),
            ("???", "ab", false),
            ("**", "", true),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(is_match(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_end_soon() {
        let pattern = "*a".repeat(50) + "b";
        assert!(!is_match(&pattern, &"a".repeat(20_000)));
    }
}
