//! A hundred times `kill -9` under load: no acknowledged binding is lost.
//!
//! The test starts itself again as the writer. That one says on its standard
//! output what it has acknowledged, until it is killed. Each user has one
//! change under way at a time, so what must be on the disk afterwards is the
//! state after his last acknowledged change, or after the one behind it.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test without the harness"
)]

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use sip_engine::{Binding, BindingChange};
use sip_store::{BindingStore, Database, Save, ServiceConfig, ServiceCounters, queue, serve_saves};

const KILLS: u32 = 100;
const USERS: u32 = 200;
/// Never reached.
const EXPIRES_UNIX_MS: u64 = u64::MAX >> 1;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [_, "write-until-killed", path, first_step] => {
            write_until_killed(Path::new(path), first_step.parse().unwrap())
        }
        // Another test was asked for by name, or a list of them.
        [_, ..]
            if args.iter().skip(1).any(|arg| {
                arg == "--list" || (!arg.starts_with('-') && !"kill".contains(&**arg))
            }) => {}
        _ => kill_again_and_again(),
    }
}

fn kill_again_and_again() {
    let folder =
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("kill-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("signet.db");
    let mut random = 1u64;
    let mut total = 0;
    let mut before = HashMap::new();
    for kill in 1..=KILLS {
        let mut writer = Command::new(std::env::current_exe().unwrap())
            .arg("write-until-killed")
            .arg(&path)
            .arg(first_step(kill).to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(writer.stdout.take().unwrap());
        let (first, begun) = channel();
        let reader = std::thread::spawn(move || {
            let mut said = Vec::new();
            let mut line = String::new();
            while lines.read_line(&mut line).unwrap_or(0) > 0 {
                // A line that was cut by the kill acknowledges nothing.
                if let Some(whole) = line.strip_suffix('\n') {
                    let (user, step) = whole.split_once(' ').unwrap();
                    said.push((user.parse::<u32>().unwrap(), step.parse::<u32>().unwrap()));
                }
                line.clear();
                let _ = first.send(());
            }
            said
        });
        begun
            .recv()
            .unwrap_or_else(|_| panic!("kill {kill}: the writer ended without a word"));
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        std::thread::sleep(Duration::from_micros((random >> 33) % 40_000));
        writer.kill().unwrap();
        writer.wait().unwrap();
        let said = reader.join().unwrap();
        total += said.len();
        let acknowledged: HashMap<u32, u32> = said.into_iter().collect();
        let after = stored(&path);
        for user in 0..USERS {
            let allowed = match acknowledged.get(&user) {
                Some(&step) => [state_after(step), state_after(step + 1)],
                None => [before.get(&user).copied(), state_after(first_step(kill))],
            };
            let found = after.get(&user).copied();
            assert!(
                allowed.contains(&found),
                "kill {kill}: user {user} has {found:?}, not one of {allowed:?}"
            );
        }
        before = after;
    }
    assert!(total > KILLS as usize, "there was hardly any load");
    std::fs::remove_dir_all(&folder).unwrap();
    println!("kill -9, {KILLS} times: {total} acknowledged changes, none lost");
}

/// Where a writer begins to count: at a put, far behind all before.
fn first_step(kill: u32) -> u32 {
    kill * 1_000_000
}

/// Of every five steps the last removes the binding.
fn is_removal(step: u32) -> bool {
    step % 5 == 4
}

/// The CSeq that is stored after a step, if the binding is there at all.
fn state_after(step: u32) -> Option<u32> {
    (!is_removal(step)).then_some(step)
}

fn stored(path: &Path) -> HashMap<u32, u32> {
    let mut stored = HashMap::new();
    let mut store = Database::open(path).unwrap().bindings().unwrap();
    let each = &mut |change: BindingChange| {
        let BindingChange::Put { aor, binding, .. } = change else {
            return;
        };
        stored.insert(String::from_utf8_lossy(&aor).parse().unwrap(), binding.cseq);
    };
    store.load(0, each).unwrap();
    stored
}

fn change(user: u32, step: u32) -> BindingChange {
    let (aor, key) = (user.to_string().into_bytes().into(), b"contact"[..].into());
    if is_removal(step) {
        return BindingChange::Remove { aor, key };
    }
    let binding = Binding {
        uri: b"sip:user@192.0.2.1"[..].into(),
        q: 1_000,
        expires_unix_ms: EXPIRES_UNIX_MS,
        call_id: b"call"[..].into(),
        cseq: step,
        instance: None,
        reg_id: None,
        path: Box::default(),
        flow: None,
        user_agent: Box::default(),
        node: "".into(),
        since_unix_ms: 0,
        source: None,
        is_translated: false,
        had_flow: false,
    };
    BindingChange::Put {
        aor,
        key,
        binding: Arc::new(binding),
    }
}

fn write_until_killed(path: &Path, step: u32) {
    let mut store = Database::open(path).unwrap().bindings().unwrap();
    let (orders, from_users) = queue(USERS as usize);
    for user in 0..USERS {
        orders
            .try_send(Save {
                tag: (user, step),
                changes: vec![change(user, step)],
            })
            .unwrap();
    }
    // Many small commits: more moments at which to be killed.
    let config = ServiceConfig {
        batch_max: 16,
        ..ServiceConfig::default()
    };
    let counters = ServiceCounters::default();
    let mut out = std::io::stdout();
    let mut text = Vec::new();
    serve_saves(
        &mut store,
        &from_users,
        &config,
        &counters,
        || 0,
        || 0,
        |answers| {
            text.clear();
            for ((user, step), result) in answers.drain(..) {
                result.unwrap();
                writeln!(text, "{user} {step}").unwrap();
                let step = step + 1;
                orders
                    .try_send(Save {
                        tag: (user, step),
                        changes: vec![change(user, step)],
                    })
                    .unwrap();
            }
            out.write_all(&text).unwrap();
            out.flush().unwrap();
        },
    );
}
