//! The most forgiving reader of a message that another element could be: any of
//! CRLF, LF and CR ends a line, white space continues the line before, and a
//! NUL ends nothing. What this reads out of a message that we forward must be
//! what we read.

/// Names with unfolded values.
type Fields = Vec<(Vec<u8>, Vec<u8>)>;

/// The header fields and the body.
pub(crate) fn read(bytes: &[u8]) -> (Fields, &[u8]) {
    let mut fields = Fields::new();
    let (_, mut left) = line(bytes);
    loop {
        let (text, next) = line(left);
        left = next;
        if text.iter().all(|b| *b == b' ' || *b == b'\t') {
            break;
        }
        if let ([b' ' | b'\t', ..], Some((_, value))) = (text, fields.last_mut()) {
            value.push(b' ');
            value.extend_from_slice(text);
        } else {
            let colon = text.iter().position(|b| *b == b':').unwrap_or(text.len());
            let value = text.get(colon + 1..).unwrap_or_default();
            fields.push((text[..colon].trim_ascii_end().to_vec(), value.to_vec()));
        }
    }
    for (_, value) in &mut fields {
        *value = unfold(value);
    }
    (fields, left)
}

/// Without white space around it, and with one space for any inside it.
pub(crate) fn unfold(value: &[u8]) -> Vec<u8> {
    let is_space = |b: &u8| b" \t\r\n".contains(b);
    let words = value.split(is_space).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(&b' ')
}

/// The first line without its end, and what follows it.
fn line(bytes: &[u8]) -> (&[u8], &[u8]) {
    let Some(end) = bytes.iter().position(|b| *b == b'\r' || *b == b'\n') else {
        return (bytes, &[]);
    };
    let width = if bytes[end..].starts_with(b"\r\n") {
        2
    } else {
        1
    };
    (&bytes[..end], &bytes[end + width..])
}
