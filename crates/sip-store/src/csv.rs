//! Comma-separated values (RFC 4180), as far as lists of users need them.

use crate::{StoreError, StoreErrorKind};

/// A record and the number of the line on which it begins.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) line: usize,
    pub(crate) fields: Vec<String>,
}

/// Splits `text` into records. Empty lines are skipped.
pub(crate) fn parse(text: &str) -> Result<Vec<Record>, StoreError> {
    // Spreadsheets put a byte order mark before the first name.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut records = Vec::new();
    let mut rest = text;
    let mut line = 1;
    while !rest.is_empty() {
        let mut record = Record {
            line,
            fields: Vec::new(),
        };
        loop {
            let (field, after) = field(rest).map_err(|error| error.at_line(line))?;
            line += field.matches('\n').count();
            record.fields.push(field);
            rest = after;
            match rest.strip_prefix(',') {
                Some(after) => rest = after,
                None => break,
            }
        }
        rest = match rest.strip_prefix("\r\n").or(rest.strip_prefix('\n')) {
            Some(after) => after,
            None if rest.is_empty() => rest,
            None => {
                let text =
                    "there is something behind a closing quote; write a quote within a field twice";
                return Err(StoreError::new(StoreErrorKind::Input, text).at_line(line));
            }
        };
        line += 1;
        if record.fields.iter().any(|field| !field.is_empty()) {
            records.push(record);
        }
    }
    Ok(records)
}

/// Appends a record.
pub(crate) fn write(fields: &[&str], out: &mut String) {
    for (at, field) in fields.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        if field.contains(['"', ',', '\n', '\r']) {
            out.push('"');
            out.push_str(&field.replace('"', "\"\""));
            out.push('"');
        } else {
            out.push_str(field);
        }
    }
    out.push('\n');
}

fn field(text: &str) -> Result<(String, &str), StoreError> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([',', '\n']).unwrap_or(text.len());
        let (field, rest) = text.split_at(end);
        // A carriage return belongs to the line's end.
        return Ok(match field.strip_suffix('\r') {
            Some(field) if !rest.starts_with(',') => (field.to_owned(), rest),
            _ => (field.to_owned(), rest),
        });
    };
    let mut field = String::new();
    let mut rest = quoted;
    loop {
        let Some((part, after)) = rest.split_once('"') else {
            return Err(StoreError::new(
                StoreErrorKind::Input,
                "a quote is opened and never closed",
            ));
        };
        field.push_str(part);
        match after.strip_prefix('"') {
            Some(after) => {
                field.push('"');
                rest = after;
            }
            None => return Ok((field, after)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fields(text: &str) -> Vec<(usize, Vec<String>)> {
        parse(text)
            .expect("good")
            .into_iter()
            .map(|r| (r.line, r.fields))
            .collect()
    }

    #[test]
    fn records() {
        let of = |line, fields: &[&str]| {
            (
                line,
                fields.iter().map(|f| (*f).to_owned()).collect::<Vec<_>>(),
            )
        };
        assert_eq!(
            fields("\u{feff}user,realm\r\n\r\nalice,\"a, \"\"b\"\"\nc\"\n\n,x\nlast,"),
            [
                of(1, &["user", "realm"]),
                of(3, &["alice", "a, \"b\"\nc"]),
                of(6, &["", "x"]),
                of(7, &["last", ""])
            ]
        );
        assert_eq!(fields(""), []);
    }

    #[test]
    fn errors_name_the_line() {
        for (text, says) in [
            ("a\n\"b", "line 2: a quote is opened"),
            ("\"a\"b", "line 1: there is something behind"),
        ] {
            assert!(
                parse(text).expect_err("bad").to_string().starts_with(says),
                "{text}"
            );
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(rows in prop::collection::vec(prop::collection::vec("[a\",\n é]{1,6}", 1..4), 1..5)) {
            let mut text = String::new();
            for row in &rows {
                write(&row.iter().map(String::as_str).collect::<Vec<_>>(), &mut text);
            }
            prop_assert_eq!(parse(&text).expect("good").into_iter().map(|r| r.fields).collect::<Vec<_>>(), rows);
        }

        #[test]
        fn nothing_panics(text in "[a\",\r\n]{0,30}") {
            let _ = parse(&text);
        }
    }
}
