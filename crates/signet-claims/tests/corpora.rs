//! Every claim, tried on every input that was worth keeping (`fuzz/corpus`), and
//! on every input that once refuted one (`fuzz/found`).
#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use signet_claims::{CLAIMS, Claim, OTHER_PARSER, is_other_here};

fn fuzz_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

/// The inputs of a target: every file in its folder, in the order of names.
fn inputs(folder: &str, target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let Ok(dir) = std::fs::read_dir(fuzz_dir().join(folder).join(target)) else {
        return Vec::new();
    };
    let mut paths: Vec<_> = dir.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    let read = |path: PathBuf| {
        let bytes = std::fs::read(&path).expect("a file");
        (path, bytes)
    };
    paths.into_iter().map(read).collect()
}

/// Tries a claim on each input; how many there were.
fn replay(claim: Claim, inputs: &[(PathBuf, Vec<u8>)]) -> usize {
    for (path, bytes) in inputs {
        if catch_unwind(AssertUnwindSafe(|| claim(bytes))).is_err() {
            panic!("the claim does not hold of {}", path.display());
        }
    }
    inputs.len()
}

fn replay_target(target: &str) {
    let (_, claim) = CLAIMS
        .iter()
        .find(|(name, _)| *name == target)
        .expect("a target");
    let kept = replay(*claim, &inputs("corpus", target));
    let found = replay(*claim, &inputs("found", target));
    assert!(kept >= 5, "{target}: {kept} inputs are no corpus");
    println!("{target}: {kept} inputs, and {found} that once refuted it");
}

#[test]
fn every_folder_is_that_of_a_claim() {
    for folder in ["corpus", "found"] {
        let Ok(dir) = std::fs::read_dir(fuzz_dir().join(folder)) else {
            assert_eq!(folder, "found", "there is no corpus");
            continue;
        };
        for entry in dir {
            let name = entry.expect("an entry").file_name();
            assert!(
                CLAIMS.iter().any(|(target, _)| name == *target),
                "{folder}/{} is of no target",
                name.display()
            );
        }
    }
}

#[test]
fn what_validates_reads_alike() {
    replay_target("parse");
}

#[test]
fn streams_are_cut_at_messages() {
    replay_target("frame");
}

#[test]
fn edits_are_those_of_a_model() {
    replay_target("edit");
}

#[test]
fn websockets_are_read_alike_however_they_come() {
    replay_target("websocket");
}

#[test]
fn nobody_is_reached_without_proof() {
    replay_target("route");
}

#[test]
fn only_the_right_password_passes() {
    replay_target("digest");
}

#[test]
fn no_hello_leads_to_a_session() {
    replay_target("tls_hello");
}

#[test]
fn scenarios_compile_or_have_a_problem() {
    replay_target("scenario");
}

#[test]
fn packets_are_opened_for_whom_has_the_keys() {
    replay_target("packets");
}

#[test]
fn no_stranger_answers_for_a_media_engine() {
    replay_target("bencode");
}

#[test]
fn nobody_else_signs_in_her_name() {
    replay_target("bodies");
}

#[test]
fn what_a_hook_answers_stays_in_its_place() {
    replay_target("hook");
}

#[test]
fn what_is_forwarded_is_read_alike_elsewhere() {
    let is_allowed = std::env::var_os("SIGNET_MAY_SKIP").is_some_and(|value| value == "1");
    assert!(
        is_other_here() || is_allowed,
        "{OTHER_PARSER} names no other parser: set it to what scripts/other-parser prints, or \
         SIGNET_MAY_SKIP=1"
    );
    replay_target("differential");
}
