//! What the store costs: CPU and time for each durable upsert by the size of
//! its group, and for each look-up by the size of its batch.
//!
//! `cargo bench -p sip-store`
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a measuring tool")]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use sip_auth::{Algorithm, CredentialKey};
use sip_engine::{Binding, BindingChange};
use sip_store::{BindingStore, CredentialStore, Database};

const USERS: u32 = 20_000;
/// Groups are run until this many upserts were made.
const UPSERTS: usize = 60_000;

fn main() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("store-bench");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("signet.db");
    upserts(&path);
    lookups(&path);
    std::fs::remove_dir_all(&folder).unwrap();
}

fn upserts(path: &std::path::Path) {
    let mut store = Database::open(path).unwrap().bindings().unwrap();
    let all: Vec<_> = (0..USERS).map(|user| change(user, 0)).collect();
    store.save(&mut all.iter()).unwrap();
    println!("{USERS} bindings; a user's registration replaces his row, users in no order");
    println!(
        "{:>8}{:>16}{:>16}{:>16}",
        "group", "CPU us/upsert", "us/upsert", "upserts/s"
    );
    let mut random = 1u32;
    for group in [1usize, 64, 256, 1_024, 4_096] {
        let rounds = (UPSERTS / group).clamp(1, 2_000);
        let groups: Vec<Vec<_>> = (0..rounds)
            .map(|round| {
                (0..group)
                    .map(|_| {
                        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                        change((random >> 8) % USERS, round as u32 + 1)
                    })
                    .collect()
            })
            .collect();
        let (cpu, begun) = (cpu_us(), Instant::now());
        for changes in &groups {
            store.save(&mut changes.iter()).unwrap();
        }
        let (cpu, wall) = (cpu_us() - cpu, begun.elapsed().as_secs_f64() * 1e6);
        let upserts = (rounds * group) as f64;
        println!(
            "{group:>8}{:>16.2}{:>16.2}{:>16.0}",
            cpu / upserts,
            wall / upserts,
            upserts / wall * 1e6
        );
    }
}

fn lookups(path: &std::path::Path) {
    let mut database = Database::open(path).unwrap();
    let mut list = String::from("user,realm,password\n");
    for user in 0..USERS {
        list.push_str(&format!("user{user:06},example.org,secret{user}\n"));
    }
    database.import_users(&list, None, 0).unwrap();
    let mut store = database.credentials().unwrap();
    let realm: Arc<str> = "example.org".into();
    println!("{USERS} subscribers");
    println!("{:>8}{:>16}{:>16}", "batch", "known us", "unknown us");
    for batch in [1usize, 16, 256] {
        let rounds = UPSERTS / batch;
        let mut cost = [0.0; 2];
        for (cost, name) in cost.iter_mut().zip(["user", "nobody"]) {
            let keys: Vec<_> = (0..rounds * batch)
                .map(|at| {
                    let user = format!("{name}{:06}", (at * 7_919) % USERS as usize);
                    CredentialKey::new(user.as_bytes(), realm.clone(), Algorithm::Sha256)
                })
                .collect();
            let mut answers = Vec::new();
            let begun = Instant::now();
            for keys in keys.chunks(batch) {
                answers.clear();
                store.find(keys, &mut answers);
            }
            *cost = begun.elapsed().as_secs_f64() * 1e6 / keys.len() as f64;
        }
        let [known, unknown] = cost;
        println!("{batch:>8}{known:>16.2}{unknown:>16.2}");
    }
}

fn change(user: u32, cseq: u32) -> BindingChange {
    let uri = format!(
        "sip:user{user:06}@192.0.2.{}:{}",
        user % 250,
        1_024 + user % 60_000
    );
    BindingChange::Put {
        aor: format!("sip:user{user:06}@example.org").into_bytes().into(),
        key: uri.clone().into_bytes().into(),
        binding: Arc::new(Binding {
            uri: uri.into_bytes().into(),
            q: 1_000,
            expires_unix_ms: 1_790_000_000_000 + u64::from(cseq) * 60_000,
            call_id: format!("{:032x}@192.0.2.1", u64::from(user) * 7_919)
                .into_bytes()
                .into(),
            cseq,
            instance: None,
            reg_id: None,
            path: Box::default(),
            flow: None,
            user_agent: b"SIPp"[..].into(),
            node: "".into(),
            since_unix_ms: 0,
            source: None,
            is_translated: false,
            had_flow: false,
        }),
    }
}

/// The CPU time of this process: all threads, user and system.
fn cpu_us() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap();
    stat.split(' ')
        .next()
        .and_then(|ns| ns.parse::<f64>().ok())
        .unwrap()
        / 1e3
}
