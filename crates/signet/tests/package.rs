//! The Debian package: built, installed by apt on a copy of this machine's root where a
//! systemd of its own runs, used, removed and purged.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use sip_tls::testing::TestCa;
use support::openssl::write_pair;
use support::{TestDir, signet};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn build(folder: &Path) -> PathBuf {
    let output = Command::new(repository().join("scripts/deb"))
        .arg(signet())
        .arg(folder)
        .env("DEB_COMPRESSION", "none")
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    PathBuf::from(String::from_utf8(output.stdout).unwrap().trim())
}

fn may_skip() -> bool {
    std::env::var_os("SIGNET_MAY_SKIP").is_some_and(|value| value == "1")
}

#[test]
fn the_package_is_installed_serves_and_goes() {
    if !nix::unistd::geteuid().is_root() {
        assert!(
            may_skip(),
            "only root can make the namespaces for this test; SIGNET_MAY_SKIP=1 skips it"
        );
        return;
    }
    let folder = TestDir::new("package");
    let package = build(folder.path());
    fs::rename(package, folder.path().join("signet.deb")).unwrap();
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/package");
    fs::copy(scripts.join("steps.sh"), folder.path().join("steps.sh")).unwrap();
    let expired = TestCa::new().issue_between(&["example.com"], 2001, 2002);
    write_pair(folder.path(), "expired", &expired);
    // One at a time on a machine: where two have the same control group, each finds the services
    // of the other among its own, and ends them.
    let lock = std::env::temp_dir().join("signet-package.lock");
    // A systemd that hangs is ended with all that it started: it is the first process of its
    // namespace.
    let output = Command::new("flock")
        .arg("--close")
        .arg(lock)
        .args(["timeout", "--signal=KILL", "400"])
        .args(["unshare", "--mount", "--pid", "--net", "--cgroup", "--uts"])
        .args(["--ipc", "--fork", "--kill-child", "bash"])
        .arg(scripts.join("boot.sh"))
        .arg(folder.path())
        .output()
        .unwrap();
    let log = fs::read_to_string(folder.path().join("steps.log")).unwrap_or_default();
    assert!(
        log.ends_with("ended with 0\n") && log.contains("step: purging leaves nothing"),
        "{log}\n{}",
        String::from_utf8_lossy(&output.stdout)
    );
    let rated = log.lines().find(|line| line.contains("exposure level"));
    assert!(rated.is_some_and(|line| line.contains("OK")), "{log}");
}
