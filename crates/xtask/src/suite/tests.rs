#![allow(clippy::unwrap_used)]

use std::path::PathBuf;

use super::built::{program, said};
use super::*;

fn named(name: &str) -> Program {
    Program {
        name: name.to_owned(),
        path: PathBuf::from("/target/debug/deps/it"),
        folder: PathBuf::from("/src/crates/it"),
    }
}

/// A line of cargo's, shortened.
fn line(kind: &str, name: &str, is_test: bool, executable: &str) -> String {
    format!(
        "{{\"reason\":\"compiler-artifact\",\"manifest_path\":\"/src/crates/sip-net/Cargo.toml\",\
         \"target\":{{\"kind\":[\"{kind}\"],\"name\":\"{name}\"}},\
         \"profile\":{{\"test\":{is_test},\"opt_level\":\"1\"}},\"executable\":{executable}}}"
    )
}

#[test]
fn test_programs_are_named_by_package_and_target() {
    let built = line("test", "tls", true, "\"/deps/tls-1\"");
    let expected = Program {
        name: "sip-net::tls".to_owned(),
        path: PathBuf::from("/deps/tls-1"),
        folder: PathBuf::from("/src/crates/sip-net"),
    };
    assert_eq!(program(&built), Some(expected));
    let beside = line("lib", "sip_net", true, "\"/deps/sip_net-1\"");
    assert_eq!(program(&beside).unwrap().name, "sip-net (lib)");
}

#[test]
fn what_is_no_test_program_is_passed_over() {
    for line in [
        line("bin", "signet", false, "\"/debug/signet\""),
        line("lib", "sip_net", false, "null"),
        line("bench", "parse", true, "\"/deps/parse-1\""),
        "{\"reason\":\"build-finished\",\"success\":true}".to_owned(),
        "no JSON".to_owned(),
    ] {
        assert_eq!(program(&line), None, "{line}");
    }
}

#[test]
fn a_warning_of_the_compiler_is_heard() {
    let warning = "{\"reason\":\"compiler-message\",\"package_id\":\"it\",\
                   \"message\":{\"level\":\"warning\",\"rendered\":\"unused\"}}";
    assert_eq!(said(warning).unwrap().level, "warning");
    assert!(said(&line("lib", "sip_net", true, "null")).is_none());
}

#[test]
fn the_longest_begin_and_those_alone_come_behind() {
    let names = ["a::b", ALONE[0], LONG[1], "a::a", LONG[0]];
    let (beside, alone) = order(names.map(named).to_vec());
    let names = |programs: Vec<Program>| {
        let names = programs.into_iter().map(|it| it.name);
        names.collect::<Vec<_>>()
    };
    assert_eq!(names(beside), [LONG[0], LONG[1], "a::b", "a::a"]);
    assert_eq!(names(alone), [ALONE[0]]);
}

#[test]
fn a_name_that_no_program_has_is_an_error() {
    let all = LONG.iter().chain(&ALONE).chain(&WITHOUT_HARNESS);
    let mut programs: Vec<Program> = all.map(|name| named(name)).collect();
    assert_eq!(known(&programs), Ok(()));
    programs.remove(0);
    assert!(known(&programs).unwrap_err().contains(LONG[0]));
}

#[test]
fn what_passed_is_what_the_programs_say() {
    let end = "test result: ok. 14 passed; 0 failed; 0 ignored; finished in 0.10s\n";
    assert_eq!(passed(&format!("running 14 tests\n\n{end}")), Some(14));
    assert_eq!(passed(&format!("{end}and another\n{end}")), Some(28));
    assert_eq!(passed("running 14 tests\n"), None);
}

#[test]
fn words_of_the_command_line() {
    let wish_of = |words: &[&str]| wish(words, 2).map(|wish| (wish.jobs, wish.programs));
    assert_eq!(wish_of(&[]), Ok((4, Vec::new())));
    let built = wish(&["--lint", "--legacy", "--no-run"], 2).unwrap();
    assert!(built.what.is_linted && built.what.is_legacy && built.is_built_only);
    let words = ["--jobs", "3", "--", "trunks"];
    assert_eq!(wish_of(&words), Ok((3, vec!["trunks".to_owned()])));
    for wrong in [&["--jobs", "0"][..], &["--jobs"], &["--many"]] {
        assert!(wish_of(wrong).is_err(), "{wrong:?}");
    }
}

#[test]
fn a_program_passes_if_it_ends_well_and_says_so() {
    let log = std::env::temp_dir().join(format!("signet-suite-{}", std::process::id()));
    let outcome = |script: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        wait("other::program", command, &log).unwrap()
    };
    let said = "echo 'test result: ok. 2 passed; 0 failed'";
    assert_eq!(outcome(said), Ok(2));
    assert!(outcome(&format!("{said}; exit 101")).is_err());
    assert!(outcome("true").is_err());
    fs::remove_file(&log).unwrap();
}
