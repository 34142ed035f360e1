//! The records that are kept beside the documents, as this program reads them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::path::Path;

use signet_bed::experiment::{Case, Load, Setting};
use signet_bed::record::{CaseResult, FORMAT, Record, Repeat, VERSION, figure, is_record, read};

fn kept() -> Vec<(String, Record)> {
    let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/results");
    let mut all = Vec::new();
    for entry in fs::read_dir(results).unwrap() {
        let path = entry.unwrap().path().join("record.json");
        if is_record(&path) {
            all.push((path.display().to_string(), read(&path).unwrap()));
        }
    }
    all
}

/// Records of a server that was given by its address have not always said so of each repeat.
#[test]
fn a_server_by_its_address_is_not_one_that_the_run_started() {
    let folder = std::env::temp_dir().join(format!("signet-bed-kept-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join("record.json");
    let of = |address: Option<&str>| {
        let record = Record {
            format: FORMAT.to_owned(),
            version: VERSION,
            address: address.map(str::to_owned),
            results: vec![CaseResult {
                case: Case {
                    id: "udp".to_owned(),
                    labels: [].into(),
                    setting: Setting::default(),
                    loads: Vec::new(),
                    below: Vec::new(),
                },
                system: "mine".to_owned(),
                load: Load::Peak {
                    failures_max: 0.0,
                    guess_per_s: 100.0,
                },
                repeats: vec![Repeat::default()],
                missed: None,
            }],
            ..Record::default()
        };
        fs::write(&path, serde_json::to_string(&record).unwrap()).unwrap();
        read(&path).unwrap().results[0].repeats[0].is_foreign
    };
    assert!(of(Some("127.0.0.1:5060")));
    assert!(!of(None));
    fs::remove_dir_all(&folder).unwrap();
}

/// What ended at a peak may have waited since before the measuring.
#[test]
fn no_peak_that_counts_is_a_rate_that_was_not_held() {
    let (mut counting, mut in_doubt) = (0, 0);
    for (path, record) in kept() {
        let peaks = record.results.iter();
        let peaks = peaks.filter(|result| matches!(result.load, Load::Peak { .. }));
        for (result, repeat) in peaks.flat_map(|peak| peak.repeats.iter().map(move |it| (peak, it)))
        {
            let Some(not_held) = &repeat.not_held else {
                continue;
            };
            let ended_per_s = repeat.figures[figure::RATE_PER_S];
            if repeat.counts_for(figure::RATE_PER_S) {
                counting += 1;
                assert!(
                    ended_per_s < not_held.per_s,
                    "{path}: {} {}: {ended_per_s}, and {} was not held",
                    result.system,
                    result.case.id,
                    not_held.per_s
                );
            } else if ended_per_s >= not_held.per_s {
                in_doubt += 1;
            }
        }
    }
    assert!(counting > 30, "only {counting} peaks count");
    assert_eq!(
        in_doubt, 0,
        "a peak that is in doubt for what had waited is no figure to keep"
    );
}
