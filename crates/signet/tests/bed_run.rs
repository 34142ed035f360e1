//! `signet bed run` over a tiny experiment: what is kept, what is told, and what is left of it
//! when something is in the way.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::fs;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use signet_bed::experiment::Experiment;
use signet_bed::record::{Record, Repeat, figure};
use sip_net::testing::free_ports;
use support::command::succeed;
use support::{Running, TestDir, have, signet};

/// How long a run of the tiny experiment may take.
const PATIENCE: Duration = Duration::from_secs(240);

/// Two cases, a rate each.
fn tiny(folder: &Path, repeats: u32) -> PathBuf {
    let path = folder.join("tiny.toml");
    let plan = format!("repeats = {repeats}\npeak_repeats = 1\nwarm_up_s = 1\nmeasure_s = 2\n");
    let text = format!(
        "version = 1\nname = \"tiny\"\ntitle = \"Two transports\"\nquestion = \"Does it run?\"\n\
         systems = [\"signet\"]\n\n[short]\n{plan}\n[long]\n{plan}\n\
         [common]\nrole = \"proxy\"\nflow = \"calls\"\n\n\
         [[axis]]\nname = \"transport\"\ntitle = \"transport\"\n\
         [[axis.value]]\nname = \"udp\"\ntitle = \"UDP\"\nset = {{ transport = \"udp\" }}\n\
         [[axis.value]]\nname = \"tcp\"\ntitle = \"TCP\"\nset = {{ transport = \"tcp\" }}\n\
         [[axis.value]]\nname = \"tls\"\ntitle = \"TLS\"\nset = {{ transport = \"tls\" }}\n\n\
         [[load]]\nrates_per_s = [50.0]\n"
    );
    fs::write(&path, text).unwrap();
    path
}

struct Bed {
    folder: TestDir,
    experiment: PathBuf,
    port: u16,
}

impl Bed {
    fn new(name: &str, repeats: u32) -> Self {
        let folder = TestDir::new(name);
        let experiment = tiny(folder.path(), repeats);
        Self {
            folder,
            experiment,
            port: free_ports(6),
        }
    }

    fn out(&self) -> PathBuf {
        self.folder.path().join("out")
    }

    fn start(&self, more: &[&str]) -> Running {
        let (experiment, out, port) = (
            self.experiment.display().to_string(),
            self.out().display().to_string(),
            self.port.to_string(),
        );
        let words = ["bed", "run", &experiment, "--out", &out, "--port", &port];
        let log = self.folder.path().join("bed.log");
        Running::start(signet(), &[&words[..], more].concat(), &log)
    }

    /// Runs it to its end; the exit code and what it said.
    fn run(&self, more: &[&str]) -> (i32, String) {
        let mut running = self.start(more);
        let code = running.wait(PATIENCE);
        (code.expect("it did not end"), self.said())
    }

    fn said(&self) -> String {
        fs::read_to_string(self.folder.path().join("bed.log")).unwrap()
    }

    fn record(&self) -> Option<Record> {
        signet_bed::record::read(&self.out().join("record.json")).ok()
    }

    /// Measurements so far.
    fn measured(&self) -> usize {
        self.record().map_or(0, |record| {
            record.results.iter().map(|one| one.repeats.len()).sum()
        })
    }

    /// Processes that have the run's folder in their command line.
    fn processes(&self) -> Vec<(u32, String)> {
        let out = self.out().display().to_string();
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let id = entry.file_name().to_str().and_then(|n| n.parse().ok());
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            if let Some(id) = id
                && line.contains(&out)
            {
                found.push((id, line));
            }
        }
        found
    }

    fn wait_for(&self, what: &str, is_so: impl Fn() -> bool) {
        let until = Instant::now() + PATIENCE;
        while !is_so() {
            assert!(Instant::now() < until, "{what}: {}", self.said());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn a_run_keeps_what_it_measured_of_each_system() {
    let bed = Bed::new("bed-run", 1);
    let mut systems = vec!["signet"];
    if have("kamailio") {
        systems.push("kamailio");
    }
    // What a run left behind that was killed: no process has so high a number, and no other run of
    // this test makes the same.
    let nobody = u32::MAX - std::process::id();
    let leftover = std::env::temp_dir().join(format!("signet-bed-{nobody}"));
    fs::create_dir_all(leftover.join("MariaDB")).unwrap();
    let (code, said) = bed.run(&["--systems", &systems.join(",")]);
    assert_eq!(code, 0, "{said}");
    assert!(!leftover.exists());
    let record = bed.record().unwrap();
    assert!(record.ended_unix_s.is_some());
    assert_eq!((record.seed, record.form.as_str()), (1, "short"));
    assert_eq!(record.results.len(), 3 * systems.len());
    assert_eq!(record.machine.network, "loopback");
    for system in &systems {
        assert!(record.versions.contains_key(*system), "{system}");
    }
    assert!(record.versions.contains_key("signet-program"));
    for result in &record.results {
        let place = format!("{} {}: {result:?}", result.case.id, result.system);
        let [repeat] = result.repeats.as_slice() else {
            panic!("{place}")
        };
        for name in [
            figure::RATE_PER_S,
            figure::SERVER_CPU_US,
            figure::SERVER_CORES,
            figure::LOAD_CORES,
            figure::SERVER_MEMORY_BYTES,
            figure::SRD_P50_MS,
        ] {
            let found = repeat.figures.get(name).copied().unwrap_or(0.0);
            assert!(found > 0.0, "{name}: {place}");
        }
        for core in ["server", "load"] {
            let busy = repeat.core_busy.get(core).copied().unwrap_or(0.0);
            assert!(busy > 0.0 && busy <= 1.0, "{core}: {place}");
        }
        let (before, after) = (repeat.calibration_before, repeat.calibration_after);
        assert!(before < after, "{place}");
        let after = record.calibrations.get(after.unwrap()).unwrap();
        assert!(after.compute_us > 0.0 && after.kernel_us > 0.0);
    }
    assert!(said.contains("to go"), "{said}");
    assert_eq!(bed.processes(), []);
    // It is not written over.
    let (code, said) = bed.run(&[]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("--resume"), "{said}");
}

/// Where the kernel has no groups for this user the server has its core whole, and that is said.
#[test]
fn a_server_is_held_to_its_share_of_a_core() {
    let bed = Bed::new("bed-share", 1);
    let text = fs::read_to_string(&bed.experiment).unwrap();
    let text = text.replace("flow =", "server_share = 0.5\nflow =");
    fs::write(&bed.experiment, text).unwrap();
    let mut running = bed.start(&["--cases", "udp"]);
    let id = running.child.id();
    let code = running.wait(PATIENCE);
    let said = bed.said();
    assert_eq!(code, Some(0), "{said}");
    let record = bed.record().unwrap();
    let mut repeats = record.results.iter().flat_map(|result| &result.repeats);
    let share = repeats.next().expect("a repeat").server_share;
    assert_eq!(
        share.is_none(),
        said.contains("a whole core and not 0.5 of it")
    );
    assert!(share.is_none() || share == Some(0.5), "{share:?}");
    let out = bed.out().display().to_string();
    succeed(&["bed", "report", &out], "");
    let page = fs::read_to_string(bed.out().join("record.html")).unwrap();
    let told = match share {
        Some(_) => "50% of its core by a quota",
        None => "did not hold it to the share",
    };
    assert!(page.contains(told), "{page}");
    for within in ["/sys/fs/cgroup", "/sys/fs/cgroup/cpu"] {
        let group = Path::new(within).join(format!("signet-bed-{id}"));
        assert!(!group.exists(), "{} is left", group.display());
    }
}

#[test]
fn a_port_in_use_is_told_before_anything_starts() {
    let bed = Bed::new("bed-port", 1);
    let taken = UdpSocket::bind(("127.0.0.1", bed.port + 2)).unwrap();
    let (code, said) = bed.run(&[]);
    assert_eq!(code, 2, "{said}");
    let port = (bed.port + 2).to_string();
    assert!(
        said.contains(&port) && said.contains("the called side"),
        "{said}"
    );
    assert!(said.contains("--port"), "{said}");
    assert!(bed.record().is_none());
    drop(taken);
}

#[test]
fn what_is_unknown_or_missing_is_told_before_anything_starts() {
    let bed = Bed::new("bed-missing", 1);
    for (more, expected) in [
        (&["--systems", "kamalio"][..], "`kamalio`"),
        (&["--signet", "no/such/build"], "no/such/build"),
        (&["--cases", "udq*"], "udp"),
        (&["--watch", "server=1"], "--to"),
        (&["--form", "middle"], "short or long"),
    ] {
        let (code, said) = bed.run(more);
        assert_eq!(code, 2, "{more:?}: {said}");
        assert!(said.contains(expected), "{more:?}: {said}");
        assert!(bed.record().is_none(), "{more:?}");
    }
}

#[test]
fn a_server_that_dies_is_missed_and_the_run_goes_on() {
    let bed = Bed::new("bed-dies", 1);
    let mut running = bed.start(&["--cases", "t*"]);
    let server = || {
        let all = bed.processes();
        let found = all.iter().find(|(_, line)| line.contains("serve --config"));
        found.map(|(id, _)| *id)
    };
    bed.wait_for("no server", || server().is_some());
    // In the middle of what is measured.
    bed.wait_for("no load", || {
        let all = bed.processes();
        all.iter().any(|(_, line)| line.contains(" load call"))
    });
    let id = server().unwrap().to_string();
    assert!(
        Command::new("kill")
            .args(["-KILL", &id])
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(running.wait(PATIENCE), Some(1), "{}", bed.said());
    let record = bed.record().unwrap();
    assert_eq!(record.results.len(), 2);
    let missed: Vec<_> = record
        .results
        .iter()
        .filter(|r| r.missed.is_some())
        .collect();
    let [missed] = missed.as_slice() else {
        panic!("{record:?}")
    };
    let why = missed.missed.as_deref().unwrap();
    assert!(why.contains("the server has ended"), "{why}");
    assert!(missed.repeats.is_empty());
    let other = record.results.iter().find(|r| r.missed.is_none()).unwrap();
    assert_eq!(other.repeats.len(), 1);
    assert_eq!(bed.processes(), []);
}

#[test]
fn an_interrupted_run_goes_on_to_the_same_set() {
    let bed = Bed::new("bed-resume", 2);
    let mut running = bed.start(&[]);
    bed.wait_for("nothing was measured", || bed.measured() >= 2);
    running.signal("-INT");
    assert_eq!(running.wait(PATIENCE), Some(130), "{}", bed.said());
    assert!(bed.said().contains("--resume"), "{}", bed.said());
    assert_eq!(bed.processes(), []);
    let cut = bed.record().unwrap();
    assert_eq!(cut.ended_unix_s, None);
    let done = bed.measured();
    assert!((2..6).contains(&done), "{done}");
    // Another seed is another order.
    let (code, said) = bed.run(&["--resume", "--seed", "6"]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("seed `1`"), "{said}");
    let (code, said) = bed.run(&["--resume"]);
    assert_eq!(code, 0, "{said}");
    let whole = bed.record().unwrap();
    assert!(whole.ended_unix_s.is_some());
    for (before, after) in cut.results.iter().zip(&whole.results) {
        assert_eq!(after.repeats.len(), 2, "{}", after.case.id);
        let kept = after.repeats.get(..before.repeats.len());
        assert_eq!(
            kept,
            Some(before.repeats.as_slice()),
            "what was measured is kept"
        );
    }
    // But for what was measured it has become the record that one run makes.
    let other = Bed::new("bed-whole", 2);
    let (code, said) = other.run(&[]);
    assert_eq!(code, 0, "{said}");
    let uncut = other.record().unwrap();
    assert_eq!(page_without_numbers(&whole), page_without_numbers(&uncut));
    // So it is the page that tells them apart where one has something less.
    let mut less = uncut;
    less.results[0].repeats[0]
        .figures
        .remove(figure::SERVER_CPU_US);
    less.results[0].repeats[1]
        .figures
        .remove(figure::SERVER_CPU_US);
    assert_ne!(page_without_numbers(&whole), page_without_numbers(&less));
}

/// The page of a record in which every figure of one name has one value, and no time is told.
fn page_without_numbers(record: &Record) -> String {
    let mut record = record.clone();
    for repeat in record.results.iter_mut().flat_map(|one| &mut one.repeats) {
        let (before, after) = (repeat.calibration_before, repeat.calibration_after);
        assert!(before < after && after < Some(record.calibrations.len()));
        *repeat = Repeat {
            figures: repeat
                .figures
                .keys()
                .map(|name| (name.clone(), 1.0))
                .collect(),
            ..Repeat::default()
        };
    }
    let experiment = Experiment::from_text(Path::new("tiny.toml"), &record.experiment_toml);
    let record = Record {
        command: String::new(),
        started_unix_s: 0,
        ended_unix_s: record.ended_unix_s.map(|_| 1),
        calibrations: Vec::new(),
        ..record
    };
    signet_bed::page::render(&experiment.unwrap(), &record, "record.json")
}
