//! How much of a line is shown: a file may have one of any length.

/// The most characters of a line that are shown.
const SHOWN_MAX: usize = 120;

/// Of them, those in front of the place that is pointed at.
const SHOWN_BEFORE: usize = 60;

/// The most characters of a sentence that are shown, of its beginning and of its end.
const SENTENCE_ENDS: (usize, usize) = (1_500, 400);

/// What stands where something was left out.
const CUT: char = '…';

/// The part of a line around a column, which counts characters from 0, and how many characters
/// of that part stand in front of the column.
pub(crate) fn around(line: &str, column: usize) -> (String, usize) {
    let length = line.chars().count();
    let column = column.min(length);
    if length <= SHOWN_MAX {
        return (line.to_owned(), column);
    }
    let begin = column
        .saturating_sub(SHOWN_BEFORE)
        .min(length.saturating_sub(SHOWN_MAX));
    let mut shown = String::new();
    if begin > 0 {
        shown.push(CUT);
    }
    shown.extend(line.chars().skip(begin).take(SHOWN_MAX));
    if begin + SHOWN_MAX < length {
        shown.push(CUT);
    }
    (shown, column - begin + usize::from(begin > 0))
}

/// What goes below the first `count` characters of a line, so that what follows stands below the
/// next: a tab is as wide as the one above it.
pub(crate) fn blank(line: &str, count: usize) -> String {
    line.chars()
        .take(count)
        .map(|sign| if sign == '\t' { '\t' } else { ' ' })
        .collect()
}

/// A sentence without its middle, where a value in it is very long.
pub(crate) fn sentence(text: String) -> String {
    let (front, back) = SENTENCE_ENDS;
    let length = text.chars().count();
    if length <= front + back {
        return text;
    }
    let mut shown: String = text.chars().take(front).collect();
    shown.push(CUT);
    shown.extend(text.chars().skip(length - back));
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_line_is_shown_whole() {
        assert_eq!(around("a = 1", 4), ("a = 1".to_owned(), 4));
        assert_eq!(around("a = 1", 70_000), ("a = 1".to_owned(), 5));
        assert_eq!(around("", 0), (String::new(), 0));
        let full = "é".repeat(SHOWN_MAX);
        assert_eq!(around(&full, SHOWN_MAX), (full.clone(), SHOWN_MAX));
    }

    #[test]
    fn of_a_long_line_the_part_around_the_column_is_shown() {
        let line = format!(
            "{}X{}Y{}Z",
            "é".repeat(100),
            "漢".repeat(70_000),
            "z".repeat(99)
        );
        let place = |mark: char| line.chars().position(|sign| sign == mark).unwrap();
        for (mark, is_cut) in [
            ('X', (true, true)),
            ('Y', (true, true)),
            ('Z', (true, false)),
        ] {
            let (shown, skip) = around(&line, place(mark));
            assert_eq!(shown.chars().nth(skip), Some(mark), "{shown}");
            assert_eq!((shown.starts_with(CUT), shown.ends_with(CUT)), is_cut);
            assert!(shown.chars().count() <= SHOWN_MAX + 2, "{shown}");
        }
        let (shown, skip) = around(&line, 0);
        assert_eq!(skip, 0);
        assert!(shown.starts_with('é') && shown.ends_with(CUT), "{shown}");
        // A place past the end, as where a secret was left out.
        let (shown, skip) = around(&line, usize::MAX);
        assert_eq!(skip, shown.chars().count());
    }

    #[test]
    fn a_tab_stands_below_a_tab() {
        assert_eq!(blank("\ta é\tb", 5), "\t   \t");
        assert_eq!(blank("a", 9), " ");
    }

    #[test]
    fn a_long_sentence_loses_its_middle() {
        assert_eq!(sentence("short".to_owned()), "short");
        let long = format!("the text {} stands there", "é".repeat(70_000));
        let shown = sentence(long);
        assert!(shown.starts_with("the text é") && shown.ends_with("é stands there"));
        assert_eq!(shown.chars().count(), 1_901);
    }
}
