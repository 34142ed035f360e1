//! Which MUST of RFC 3261's sections on elements ([`SECTIONS`]) is quoted where
//! it is decided and where it is tested, and which is not.
//!
//! A quotation is a text in double quotes within line comments
//! (`// RFC 3261 16.3: "..."`, over as many lines as it needs). It covers a
//! sentence of the section that it names when it contains the sentence, or is
//! a part of it with at least one of its MUSTs and eight words.

use std::fs;
use std::path::Path;

use serde::Deserialize;

/// The list, `conformance/rfc3261/musts.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    must: Vec<Must>,
}

/// One sentence of the RFC.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Must {
    id: String,
    text: String,
    /// Why it does not bind this element, where it does not.
    exempt: Option<String>,
}

/// A quotation found in a source file.
struct Quotation {
    /// The section that it names, `16.3`.
    section: String,
    text: String,
    is_test: bool,
}

/// The sections whose sentences are listed, and how many MUSTs each has.
const SECTIONS: [(u8, usize); 17] = [
    (7, 18),
    (8, 76),
    (9, 8),
    (10, 38),
    (11, 2),
    (12, 57),
    (13, 27),
    (14, 10),
    (15, 9),
    (16, 134),
    (17, 69),
    (18, 28),
    (19, 19),
    (20, 30),
    (21, 10),
    (22, 25),
    (26, 8),
];

/// The fewest words by which a part of a sentence stands for the whole.
const PART_WORDS_MIN: usize = 8;

/// Prints the sentences that lack a quotation, and a count.
///
/// # Errors
/// When the list or the sources cannot be read.
pub(crate) fn report(root: &Path) -> Result<bool, String> {
    let path = root.join("conformance/rfc3261/musts.toml");
    let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let list: List = toml::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))?;
    let mut quotations = Vec::new();
    collect(&root.join("crates"), &mut quotations)?;
    let mut missing = 0_usize;
    let mut exempt = 0_usize;
    for must in &list.must {
        if must.exempt.is_some() {
            exempt += 1;
            continue;
        }
        let sentence = squeeze(&must.text);
        let section = section_of(&must.id);
        let covered = |is_test: bool| {
            quotations
                .iter()
                .filter(|q| q.is_test == is_test && q.section == section)
                .any(|q| covers(&q.text, &sentence))
        };
        let (decided, tested) = (covered(false), covered(true));
        if decided && tested {
            continue;
        }
        missing += 1;
        let lacks = match (decided, tested) {
            (false, false) => "decision, test",
            (false, true) => "decision",
            _ => "test",
        };
        eprintln!("{}: not quoted at its {lacks}: {}", must.id, must.text);
    }
    let total = list.must.len();
    let sections = SECTIONS.map(|(section, _)| section.to_string()).join(", ");
    eprintln!(
        "{total} sentences with MUST in RFC 3261 sections {sections}: {} quoted at decision and test, {exempt} exempt with a reason, {missing} missing",
        total - exempt - missing
    );
    Ok(missing == 0)
}

fn collect(folder: &Path, found: &mut Vec<Quotation>) -> Result<(), String> {
    let entries = fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    for entry in entries {
        let path = entry.map_err(|e| e.to_string())?.path();
        if path.is_dir() {
            if path.file_name().is_some_and(|n| n != "target") {
                collect(&path, found)?;
            }
        } else if path.extension().is_some_and(|e| e == "rs") {
            let source =
                fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
            let in_tests = path.components().any(|c| c.as_os_str() == "tests")
                || path
                    .file_stem()
                    .is_some_and(|s| s == "tests" || s.to_string_lossy().ends_with("_tests"));
            scan(&source, in_tests, found);
        }
    }
    Ok(())
}

/// Finds the quotations in one file. What follows `#[cfg(test)]` with a body is test.
fn scan(source: &str, in_tests: bool, found: &mut Vec<Quotation>) {
    let mut is_test = in_tests;
    let mut block = String::new();
    let mut lines = source.lines().peekable();
    while let Some(line) = lines.next() {
        let trimmed = line.trim_start();
        if trimmed.starts_with("#[cfg(test)]")
            && lines
                .peek()
                .is_some_and(|next| next.trim_end().ends_with('{'))
        {
            is_test = true;
        }
        let comment = trimmed
            .strip_prefix("//")
            .map(|c| c.trim_start_matches(['/', '!']));
        if let Some(comment) = comment {
            block.push(' ');
            block.push_str(comment);
            continue;
        }
        quoted(&block, is_test, found);
        block.clear();
    }
    quoted(&block, is_test, found);
}

/// A quotation runs from `RFC 3261 ...: "` to the last quote before the next RFC
/// and section, so that quotes and RFCs within the sentence do no harm.
fn quoted(block: &str, is_test: bool, found: &mut Vec<Quotation>) {
    let starts: Vec<usize> = (block.match_indices("RFC "))
        .map(|(at, rfc)| at + rfc.len())
        .filter(|&at| section_at(&block[at..]).is_some())
        .collect();
    for (nth, &start) in starts.iter().enumerate() {
        let part = &block[start..starts.get(nth + 1).copied().unwrap_or(block.len())];
        if let (Some(section), Some(open), Some(close)) = (
            part.strip_prefix("3261 ").and(section_at(part)),
            part.find('"'),
            part.rfind('"'),
        ) && open < close
        {
            found.push(Quotation {
                section: section.to_owned(),
                text: squeeze(&part[open + 1..close]),
                is_test,
            });
        }
    }
}

/// The section in `3261 16.3: ...`; none in `2914 [43] congestion ...`.
fn section_at(citation: &str) -> Option<&str> {
    let mut words = citation.split([' ', ':', ',', ')']);
    words.next()?.parse::<u16>().ok()?;
    words
        .next()
        .filter(|word| word.starts_with(|c: char| c.is_ascii_digit()))
}

/// `16.3` of `16.3-2`.
fn section_of(id: &str) -> &str {
    id.split('-').next().unwrap_or_default()
}

fn squeeze(text: &str) -> String {
    let plain: String = text.chars().filter(|c| !matches!(c, '"' | '`')).collect();
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn covers(quotation: &str, sentence: &str) -> bool {
    if quotation.contains(sentence) {
        return true;
    }
    let whole = quotation.trim_end_matches(['.', ' ', ':']);
    sentence.contains(whole)
        && ["MUST", "REQUIRED", "SHALL"]
            .iter()
            .any(|w| whole.contains(w))
        && whole.split(' ').count() >= PART_WORDS_MIN.min(sentence.split(' ').count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quotation_over_lines_covers_its_sentence() {
        let mut found = Vec::new();
        scan(
            "// RFC 3261 16.3: \"If any of these checks fail, the element MUST behave\n// as a user agent server (see\n// Section 8.2)\"\nfn f() {}\n",
            false,
            &mut found,
        );
        assert_eq!(found.len(), 1);
        assert!(!found[0].is_test);
        assert_eq!(found[0].section, "16.3");
        let sentence = "If any of these checks fail, the element MUST behave as a user agent server (see Section 8.2) and respond with an error code.";
        assert!(covers(&found[0].text, sentence));
        assert!(!covers(
            &found[0].text,
            "The request MUST be well-formed enough to be handled with a server transaction."
        ));
    }

    #[test]
    fn an_rfc_within_a_sentence_does_not_end_it() {
        let mut found = Vec::new();
        scan(
            "// RFC 3261 18.1.1: \"the request MUST be sent using an RFC 2914 [43] transport\"\n// RFC 3581 4: \"x\"\n",
            false,
            &mut found,
        );
        assert_eq!(found.len(), 1);
        assert_eq!(
            found[0].text,
            "the request MUST be sent using an RFC 2914 [43] transport"
        );
    }

    #[test]
    fn what_stands_under_cfg_test_is_a_test() {
        let mut found = Vec::new();
        scan(
            "fn f() {}\n#[cfg(test)]\nmod tests {\n// RFC 3261 17: \"a MUST b\"\n}\n",
            false,
            &mut found,
        );
        assert!(found[0].is_test);
    }

    #[test]
    fn a_scrap_covers_nothing() {
        assert!(!covers(
            "MUST be",
            "The request MUST be passed to the transport layer for transmission."
        ));
        assert!(covers(
            "request MUST be passed to the transport layer for",
            "The request MUST be passed to the transport layer for transmission."
        ));
    }

    #[test]
    fn the_list_holds_every_must_of_its_sections() {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/rfc3261/musts.toml");
        let list: List = toml::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        let chapter = |must: &Must| section_of(&must.id).split('.').next().unwrap().to_owned();
        for (section, count) in SECTIONS {
            let found: usize = list
                .must
                .iter()
                .filter(|must| chapter(must) == section.to_string())
                .map(|must| must.text.matches("MUST").count())
                .sum();
            assert_eq!(found, count, "section {section}");
        }
        let is_listed = |must: &Must| SECTIONS.iter().any(|s| s.0.to_string() == chapter(must));
        assert!(list.must.iter().all(is_listed));
        assert!(
            list.must
                .iter()
                .all(|m| m.exempt.as_ref().is_none_or(|e| e.len() > 20))
        );
    }
}
