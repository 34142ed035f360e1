//! All tests of the workspace, several programs at a time: `cargo xtask test`.
//!
//! `cargo test` runs one test program after the other, and many of them mostly wait: for a
//! timer, a database that starts, a translation that forgets. Here what `cargo test --no-run`
//! builds runs side by side, what takes long first ([`LONG`]), and behind the rest, one by one,
//! what must have the machine to itself ([`ALONE`]). The tests of the documentation come last.

mod built;

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use built::{Program, What, build, cargo};

pub(crate) const USAGE: &str =
    "cargo xtask test [--lint] [--legacy] [--no-run] [--jobs N] [-- PROGRAM...]";

/// Programs at a time for each core: about half of their time they wait.
const JOBS_PER_CORE: usize = 2;
/// How long a program may run. It is killed then; what it started itself is not.
const DEADLINE: Duration = Duration::from_secs(600);
const POLL: Duration = Duration::from_millis(20);
/// How many of those that took longest are told at the end.
const TOLD: usize = 10;

/// What takes about twenty seconds and more, the longest first: what begins last is waited for.
const LONG: [&str; 21] = [
    "sip-sim::hostile",
    "sip-sim::simulation",
    "signet::clients",
    "signet::torture",
    "signet::package",
    "signet::office",
    "signet::calls",
    "signet::tls",
    "signet::operating",
    "sip-userdb::servers",
    "signet::load",
    "signet::users_elsewhere",
    "signet::load_workers",
    "signet::nat",
    "signet::kill",
    "sip-net::sockets",
    "signet-bench::demo",
    "signet-load::openssl",
    "signet-sipp::beside_sipp",
    "signet::media",
    "sip-lookup::model",
];

/// What must not run beside others.
const ALONE: [&str; 7] = [
    // Prices are measured on cores of its own.
    "signet::plan",
    // It loads both cores.
    "signet::bed_run",
    // It loads both cores, and SIPp gives up calls that are not answered for seconds.
    "signet::sipp",
    // It keeps all cores busy, and no tunnel may be missed.
    "signet::price_tunnel",
    // Its flood must be one, and none to others.
    "signet::refusals",
    // What honest callers feel is judged too.
    "signet::attacks",
    // Where all calls overlap, as on a busy machine, none finds a connection to share.
    "signet-load::direct",
];

/// What has no harness of tests, and tells by its exit alone that it passed.
const WITHOUT_HARNESS: [&str; 1] = ["sip-store::kill"];

/// What the command line asks for.
#[derive(Debug, PartialEq, Eq)]
struct Wish {
    what: What,
    jobs: usize,
    /// They are not run.
    is_built_only: bool,
    /// Parts of the names of programs; all where there are none.
    programs: Vec<String>,
}

struct Ended {
    name: String,
    took: Duration,
    /// How many tests passed, or what went wrong.
    outcome: Result<u64, String>,
}

/// Builds and runs them; whether all passed.
///
/// # Errors
/// When something does not build, or a list here names a program that there is not.
pub(crate) fn report(root: &Path, words: &[&str]) -> Result<bool, String> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let wish = wish(words, cores)?;
    let mut programs = build(root, wish.what)?;
    if wish.is_built_only {
        return Ok(true);
    }
    if !wish.what.is_legacy {
        known(&programs)?;
    }
    let is_all = wish.programs.is_empty();
    programs.retain(|it| is_all || wish.programs.iter().any(|part| it.name.contains(part)));
    if programs.is_empty() {
        return Err("no program has that in its name".to_owned());
    }
    let logs = root.join("target/tests");
    fs::create_dir_all(&logs).map_err(|e| format!("{}: {e}", logs.display()))?;
    let begun = Instant::now();
    let (beside, alone) = order(programs);
    let mut ended = run_all(beside, wish.jobs, &logs);
    ended.extend(run_all(alone, 1, &logs));
    if is_all && !wish.what.is_legacy {
        let (name, mut command) = ("documentation", cargo(root, wish.what));
        command.args(["test", "--workspace", "--doc"]);
        ended.push(run(name, command, &logs.join(name)));
    }
    Ok(sum_up(ended, begun.elapsed()))
}

fn wish(words: &[&str], cores: usize) -> Result<Wish, String> {
    let mut wish = Wish {
        what: What::default(),
        jobs: cores * JOBS_PER_CORE,
        is_built_only: false,
        programs: Vec::new(),
    };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "--jobs" => {
                let jobs: Option<usize> = words.next().and_then(|number| number.parse().ok());
                wish.jobs = jobs.filter(|jobs| *jobs > 0).ok_or("write --jobs 4")?;
            }
            "--lint" => wish.what.is_linted = true,
            "--legacy" => wish.what.is_legacy = true,
            "--no-run" => wish.is_built_only = true,
            "--" => {}
            option if option.starts_with('-') => return Err(format!("usage: {USAGE}")),
            part => wish.programs.push(part.to_owned()),
        }
    }
    Ok(wish)
}

/// That the lists here name programs only.
fn known(programs: &[Program]) -> Result<(), String> {
    let mut listed = LONG.iter().chain(&ALONE).chain(&WITHOUT_HARNESS);
    match listed.find(|name| programs.iter().all(|it| it.name != **name)) {
        Some(name) => Err(format!("{name}, in a list of suite.rs, is no test program")),
        None => Ok(()),
    }
}

/// Those that run side by side, in the order in which they begin, and those that run alone.
fn order(mut programs: Vec<Program>) -> (Vec<Program>, Vec<Program>) {
    let place = |it: &Program| LONG.iter().position(|name| *name == it.name);
    programs.sort_by_key(|it| place(it).unwrap_or(LONG.len()));
    let is_alone = |it: &Program| ALONE.contains(&it.name.as_str());
    programs.into_iter().partition(|it| !is_alone(it))
}

fn run_all(programs: Vec<Program>, jobs: usize, logs: &Path) -> Vec<Ended> {
    let waiting = Mutex::new(VecDeque::from(programs));
    let ended = Mutex::new(Vec::new());
    let next = || locked(&waiting).pop_front();
    let work = || {
        while let Some(program) = next() {
            let log = program.path.file_name().unwrap_or_default();
            let mut command = Command::new(&program.path);
            command.current_dir(&program.folder);
            command.env("CARGO_MANIFEST_DIR", &program.folder);
            let one = run(&program.name, command, &logs.join(log));
            locked(&ended).push(one);
        }
    };
    thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(work);
        }
    });
    ended.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a program to its end and tells of it; what it says is in `log` then. It is written to a
/// file of this process's own: two suites may run at once, and each reads what its programs said.
fn run(name: &str, command: Command, log: &Path) -> Ended {
    let begun = Instant::now();
    let own = log.with_extension(std::process::id().to_string());
    let outcome = wait(name, command, &own).unwrap_or_else(|error| Err(error.to_string()));
    let took = begun.elapsed();
    let line = format!("{:6.1} s  {name}", took.as_secs_f64());
    match &outcome {
        Ok(tests) => eprintln!("ok      {line}  {tests} tests"),
        Err(why) => {
            let said = fs::read(&own).unwrap_or_default();
            let said = String::from_utf8_lossy(&said);
            eprintln!("FAILED  {line}  {why}\n{said}");
        }
    }
    // Where it cannot have that name it keeps its own.
    let _ = fs::rename(&own, log);
    let name = name.to_owned();
    Ended {
        name,
        took,
        outcome,
    }
}

/// How many tests passed, or what went wrong.
fn wait(name: &str, mut command: Command, log: &Path) -> io::Result<Result<u64, String>> {
    let out = File::create(log)?;
    command
        .stdin(Stdio::null())
        .stderr(out.try_clone()?)
        .stdout(out);
    let until = Instant::now() + DEADLINE;
    let mut child = command.spawn()?;
    loop {
        if let Some(status) = child.try_wait()? {
            let passed = match WITHOUT_HARNESS.contains(&name) {
                true => Some(1),
                false => passed(&String::from_utf8_lossy(&fs::read(log)?)),
            };
            return Ok(match status.success() {
                true => passed.ok_or_else(|| "it does not say what passed".to_owned()),
                false => Err(status.to_string()),
            });
        }
        if Instant::now() > until {
            child.kill()?;
            child.wait()?;
            return Ok(Err(format!("killed after {} s", DEADLINE.as_secs())));
        }
        thread::sleep(POLL);
    }
}

/// How many tests passed, by what their programs say at their ends.
fn passed(said: &str) -> Option<u64> {
    let ends = said
        .lines()
        .filter_map(|line| line.strip_prefix("test result: "));
    let counts = ends.map(|end| {
        end.split(". ")
            .nth(1)?
            .split(' ')
            .next()?
            .parse::<u64>()
            .ok()
    });
    let counts: Vec<u64> = counts.collect::<Option<_>>()?;
    (!counts.is_empty()).then(|| counts.iter().sum())
}

/// The end of it all; whether all passed.
fn sum_up(mut ended: Vec<Ended>, took: Duration) -> bool {
    ended.sort_by_key(|one| std::cmp::Reverse(one.took));
    eprintln!("\nwhat took longest:");
    for one in ended.iter().take(TOLD) {
        eprintln!("{:8.1} s  {}", one.took.as_secs_f64(), one.name);
    }
    let passed = ended.iter().filter_map(|one| one.outcome.as_ref().ok());
    let (programs, passed, took) = (ended.len(), passed.sum::<u64>(), took.as_secs());
    eprintln!("\n{programs} programs, {passed} tests passed, {took} s");
    let failed = ended.iter().filter(|one| one.outcome.is_err());
    let failed: Vec<&str> = failed.map(|one| one.name.as_str()).collect();
    if !failed.is_empty() {
        eprintln!("FAILED: {}", failed.join(", "));
    }
    failed.is_empty()
}

#[cfg(test)]
mod tests;
