//! Each attack of `make attacks`, small: what must not get through does not.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use signet_attacks::{Scale, Target};
use support::{TestDir, signet};

#[test]
fn every_attack_is_held_off() {
    let folder = TestDir::new("attacks");
    let target = Target::Signet(signet().into());
    let scale = Scale { quick: true };
    let report = signet_attacks::run(&[target], &[], scale, folder.path(), |_| {});
    assert!(
        report.rows().len() >= 60,
        "only {} scenarios were made",
        report.rows().len()
    );
    let bad = report.bad_rows("signet");
    let told: Vec<String> = bad.iter().map(|row| row.text()).collect();
    assert!(told.is_empty(), "{}", told.join("\n"));
}
