//! Profiles of real processes that burn CPU in a known way.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use signet_bed::profile::{
    Component, Ended, Options, ProcessProfile, Profiler, Source, Target, Walk, Wanted,
};

/// A process that ends with this value.
struct Burner(Child);

impl Burner {
    fn start(program: &str, arguments: &[&str]) -> Self {
        let child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self(child.unwrap_or_else(|error| panic!("{program}: {error}")))
    }

    fn target(&self, name: &str, system: &str) -> Target {
        Target::new(name, Some(system), self.0.id()).unwrap()
    }
}

impl Drop for Burner {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A missing program fails a test; with SIGNET_MAY_SKIP=1 it skips it.
fn has(program: &str) -> bool {
    let found = Command::new(program)
        .arg("version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok();
    let is_allowed = std::env::var_os("SIGNET_MAY_SKIP").is_some_and(|value| value == "1");
    assert!(
        found || is_allowed,
        "{program} is not installed (`make tools` does it); SIGNET_MAY_SKIP=1 skips such tests"
    );
    found
}

/// Looks at these for a second.
fn look(targets: &[Target], walk: Walk) -> Ended {
    let options = Options {
        walk,
        wanted: Wanted::Perf,
        ..Options::default()
    };
    let running = Profiler::start(targets, options).unwrap();
    std::thread::sleep(Duration::from_secs(1));
    running.end().unwrap()
}

fn largest(process: &ProcessProfile) -> Component {
    let largest = process.components.iter().max_by_key(|(_, ns)| **ns);
    *largest.unwrap().0
}

#[test]
fn components_are_what_processes_do_and_sum_to_what_they_used() {
    if !has("perf") || !has("openssl") {
        return;
    }
    let signer = Burner::start("openssl", &["speed", "-seconds", "60", "rsa2048"]);
    let cipher = Burner::start(
        "openssl",
        &["speed", "-seconds", "60", "-evp", "aes-128-gcm"],
    );
    let copier = Burner::start("dd", &["if=/dev/zero", "of=/dev/null", "bs=1"]);
    let shell = Burner::start("sh", &["-c", "while :; do :; done"]);
    let targets = [
        signer.target("signer", "openssl"),
        cipher.target("cipher", "openssl"),
        copier.target("copier", "dd"),
        shell.target("shell", "mariadbd"),
    ];
    let profile = look(&targets, Walk::None).profile;
    assert_eq!(profile.source, Source::Perf);
    for (name, expected) in [
        ("signer", Component::PublicKey),
        ("cipher", Component::Symmetric),
        ("copier", Component::Kernel),
        ("shell", Component::Database),
    ] {
        let process = profile.process(name).unwrap();
        assert_eq!(largest(process), expected, "{process:?}");
        assert_eq!(process.components.values().sum::<u64>(), process.cpu_ns);
        assert_eq!(process.threads.values().sum::<u64>(), process.cpu_ns);
        assert!(process.samples > 0 && process.cpu_ns > 0);
    }
}

#[test]
fn a_flame_graph_has_callers() {
    if !has("perf") || !has("openssl") {
        return;
    }
    let signer = Burner::start("openssl", &["speed", "-seconds", "60", "rsa2048"]);
    let ended = look(&[signer.target("signer", "openssl")], Walk::Tables);
    let stacks = ended.stacks.unwrap();
    let folded = stacks.folded();
    // Powers of big numbers are called by the program, whatever lies between.
    let has_callers =
        |line: &str| line.starts_with("signer;openssl;") && line.contains(";BN_mod_exp_mont");
    assert!(folded.lines().any(has_callers), "{folded}");
    assert!(stacks.svg(&ended.profile).contains("class=\"public_key\""));
    assert_eq!(largest(&ended.profile.processes[0]), Component::PublicKey);
}

#[test]
fn threads_and_children_that_come_and_go_count() {
    if !has("perf") {
        return;
    }
    let loops = "while :; do sh -c 'i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done'; done";
    let shell = Burner::start("sh", &["-c", loops]);
    let profile = look(&[shell.target("shell", "mariadbd")], Walk::None).profile;
    let process = &profile.processes[0];
    assert!(process.component_ns(Component::Database) > 0, "{process:?}");
    assert_eq!(process.components.values().sum::<u64>(), process.cpu_ns);
}

#[test]
fn a_process_that_dies_leaves_what_it_did() {
    if !has("perf") {
        return;
    }
    let mut shell = Burner::start("sh", &["-c", "while :; do :; done"]);
    let target = shell.target("shell", "mariadbd");
    let options = Options {
        wanted: Wanted::Perf,
        ..Options::default()
    };
    let running = Profiler::start(&[target], options).unwrap();
    std::thread::sleep(Duration::from_millis(500));
    shell.0.kill().unwrap();
    shell.0.wait().unwrap();
    let profile = running.end().unwrap().profile;
    assert_eq!(largest(&profile.processes[0]), Component::Database);
    let doubts = profile.doubts.join("; ");
    assert!(doubts.contains("shell ended meanwhile"), "{doubts}");
}

#[test]
fn a_process_that_is_not_there_is_told() {
    let target = Target {
        name: "server".to_owned(),
        system: "signet".to_owned(),
        pid: u32::MAX >> 1,
    };
    let error = Profiler::start(&[target], Options::default()).unwrap_err();
    assert!(error.to_string().contains("there is no process"), "{error}");
}
