//! What is said below a drawing.

use std::collections::BTreeSet;

use super::Sheet;
use crate::experiment::{self, Found, Least, counted};
use crate::names;
use crate::profile::Source;
use crate::record::{CaseResult, figure};

/// Which peaks are only the least that a server can do, and why.
pub(super) fn least(sheet: &Sheet<'_>) -> Option<String> {
    let told = |why: Least, in_words: &str| {
        let results = sheet.results.iter().filter(|result| {
            let is_least = matches!(sheet.found(result), Found::AtLeast(_));
            is_least && experiment::least(result).is_some_and(|(_, known)| known == why)
        });
        let cases: Vec<String> = results
            .map(|result| {
                let system = names::system(&result.system);
                super::joined(&system, &sheet.names.case(result))
            })
            .collect();
        (!cases.is_empty()).then(|| format!("At least, since {in_words}: {}.", cases.join("; ")))
    };
    let all: Vec<String> = [
        told(Least::Room, "the server was not full there"),
        told(
            Least::CoresUnknown,
            "nobody knows how many cores the server may use",
        ),
        told(
            Least::EndedEarly,
            "the search ended early, far below the rate that was not held",
        ),
    ]
    .into_iter()
    .flatten()
    .collect();
    (!all.is_empty()).then(|| all.join(" "))
}

/// Where components are from, and what speaks against them.
pub(super) fn sources(results: &[&CaseResult]) -> Vec<String> {
    let taken_apart = || {
        results.iter().flat_map(|result| {
            counted(result, figure::SERVER_CPU_US).filter(|repeat| !repeat.profile.is_empty())
        })
    };
    let count = |source: Option<Source>| {
        taken_apart()
            .filter(|repeat| repeat.profile_source == source)
            .count()
    };
    let of: Vec<String> = [
        (count(Some(Source::Perf)), "by samples of perf"),
        (
            count(Some(Source::Accounting)),
            "by the kernel's figures of threads, which are told apart by their names alone",
        ),
        (count(None), "by a way that the record does not name"),
    ]
    .into_iter()
    .filter(|(count, _)| *count > 0)
    .map(|(count, way)| format!("{count} {way}"))
    .collect();
    if of.is_empty() {
        return Vec::new();
    }
    let mut notes = vec![format!("Measurements taken apart: {}.", of.join("; "))];
    let wanted = results.iter().flat_map(|result| &result.repeats);
    let doubts: BTreeSet<&str> = wanted
        .flat_map(|repeat| repeat.profile_doubts.iter().map(String::as_str))
        .collect();
    let void: BTreeSet<&str> = results
        .iter()
        .flat_map(|result| &result.repeats)
        .filter_map(|repeat| repeat.profile_void.as_deref())
        .collect();
    if !void.is_empty() {
        let void: Vec<&str> = void.into_iter().collect();
        notes.push(format!("Not counted: {}.", void.join("; ")));
    }
    if !doubts.is_empty() {
        let doubts: Vec<&str> = doubts.into_iter().collect();
        notes.push(format!("In doubt: {}.", doubts.join("; ")));
    }
    notes
}
