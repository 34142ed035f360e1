//! What a look-up and a change of the location table cost, on one thread and
//! on two at once, against other forms of it.
//!
//! `cargo bench -p sip-engine --bench location [-- AORS...]`

#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs)]

use std::hash::{BuildHasher, Hasher};
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use sip_engine::{Binding, BindingChange, Location};
use sip_msg::{ConnId, Flow, ListenerId, Transport};
use siphasher::sip::SipHasher13;

const NOW: u64 = 1_800_000_000_000;
const HOUR_MS: u64 = 3_600_000;
/// How long a round lasts. The least of all rounds counts: on a machine that
/// others use too, it is the one that they left alone.
const TIME: Duration = Duration::from_millis(100);
const ROUNDS: usize = 10;

fn main() {
    let asked: Vec<usize> = std::env::args()
        .skip(1)
        .filter_map(|a| a.parse().ok())
        .collect();
    let sizes = if asked.is_empty() {
        vec![100_000, 1_000_000]
    } else {
        asked
    };
    println!(
        "ns for each operation of a thread; 'x2' is two threads at once, each on random users"
    );
    println!(
        "{:>9} {:28} {:>8} {:>8} {:>8} {:>8} {:>8}",
        "aors", "form", "find", "find x2", "apply", "apply x2", "9:1 x2"
    );
    for aors in sizes {
        let users = Users::new(aors);
        measure(
            &users,
            "256 mutexes (Location)",
            Location::new(aors, [7; 16]),
        );
        measure(&users, "256 rwlocks", Maps::<RwLock<Map>>::new(256));
        measure(&users, "one rwlock", Maps::<RwLock<Map>>::new(1));
        measure(&users, "one mutex", Maps::<Mutex<Map>>::new(1));
        measure(&users, "16 mutexes", Maps::<Mutex<Map>>::new(16));
    }
}

struct Users {
    changes: Vec<BindingChange>,
}

impl Users {
    fn new(count: usize) -> Self {
        let changes = (0..count)
            .map(|n| {
                let uri = format!("sip:user{n}@198.51.100.{}:5060", n % 250);
                BindingChange::Put {
                    aor: format!("sip:user{n}@example.org").into_bytes().into(),
                    key: uri.as_bytes().into(),
                    binding: Arc::new(binding(uri.as_bytes())),
                }
            })
            .collect();
        Self { changes }
    }
}

fn binding(uri: &[u8]) -> Binding {
    Binding {
        uri: uri.into(),
        q: 1_000,
        expires_unix_ms: NOW + HOUR_MS,
        call_id: b"0f2b3c4d5e6f@198.51.100.7".as_slice().into(),
        cseq: 1,
        instance: None,
        reg_id: None,
        path: Box::default(),
        flow: Some(Flow {
            transport: Transport::Udp,
            listener: ListenerId(0),
            local: "192.0.2.1:5060".parse().unwrap(),
            remote: "198.51.100.7:5060".parse().unwrap(),
            conn: ConnId::NONE,
        }),
        user_agent: b"phone 1.0".as_slice().into(),
        node: "".into(),
        since_unix_ms: 0,
        source: None,
        is_translated: false,
        had_flow: false,
    }
}

trait Table: Sync {
    fn find(&self, aor: &[u8], found: &mut Vec<Arc<Binding>>);
    fn apply(&self, change: &BindingChange);
}

impl Table for Location {
    fn find(&self, aor: &[u8], found: &mut Vec<Arc<Binding>>) {
        Self::find(self, aor, NOW, found);
    }

    fn apply(&self, change: &BindingChange) {
        Self::apply(self, std::slice::from_ref(change));
    }
}

type Map = HashMap<Arc<[u8]>, Vec<(Arc<[u8]>, Arc<Binding>)>, Key>;

#[derive(Clone, Default)]
struct Key;

impl BuildHasher for Key {
    type Hasher = SipHasher13;

    fn build_hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_key(&[7; 16])
    }
}

/// Plain maps, each behind a lock: no wheel, no order, nothing counted.
struct Maps<L> {
    parts: Vec<L>,
}

trait Lock: Sync {
    fn make() -> Self;
    fn read<R>(&self, act: impl FnOnce(&Map) -> R) -> R;
    fn write<R>(&self, act: impl FnOnce(&mut Map) -> R) -> R;
}

impl Lock for RwLock<Map> {
    fn make() -> Self {
        Self::default()
    }

    fn read<R>(&self, act: impl FnOnce(&Map) -> R) -> R {
        act(&Self::read(self).unwrap())
    }

    fn write<R>(&self, act: impl FnOnce(&mut Map) -> R) -> R {
        act(&mut Self::write(self).unwrap())
    }
}

impl Lock for Mutex<Map> {
    fn make() -> Self {
        Self::default()
    }

    fn read<R>(&self, act: impl FnOnce(&Map) -> R) -> R {
        act(&self.lock().unwrap())
    }

    fn write<R>(&self, act: impl FnOnce(&mut Map) -> R) -> R {
        act(&mut self.lock().unwrap())
    }
}

impl<L: Lock> Maps<L> {
    fn new(parts: usize) -> Self {
        Self {
            parts: (0..parts).map(|_| L::make()).collect(),
        }
    }

    fn part(&self, aor: &[u8]) -> &L {
        let mut hasher = SipHasher13::new_with_key(&[7; 16]);
        hasher.write(aor);
        &self.parts[(hasher.finish() >> 32) as usize % self.parts.len()]
    }
}

impl<L: Lock> Table for Maps<L> {
    fn find(&self, aor: &[u8], found: &mut Vec<Arc<Binding>>) {
        self.part(aor).read(|map| {
            let entries = map.get(aor).into_iter().flatten();
            found.extend(
                entries
                    .filter(|(_, b)| b.expires_unix_ms > NOW)
                    .map(|(_, b)| b.clone()),
            );
        });
    }

    fn apply(&self, change: &BindingChange) {
        let BindingChange::Put { aor, key, binding } = change else {
            return;
        };
        self.part(aor).write(|map| {
            let entries = map.entry(aor.clone()).or_default();
            match entries.iter_mut().find(|(k, _)| k == key) {
                Some((_, old)) => *old = binding.clone(),
                None => entries.push((key.clone(), binding.clone())),
            }
        });
    }
}

fn measure(users: &Users, form: &str, table: impl Table) {
    for change in &users.changes {
        table.apply(change);
    }
    let find = |_: usize, change: &BindingChange, found: &mut Vec<Arc<Binding>>| {
        found.clear();
        table.find(change.aor(), found);
        assert_eq!(found.len(), 1);
    };
    let apply = |_: usize, change: &BindingChange, _: &mut Vec<Arc<Binding>>| table.apply(change);
    let mixed = |n: usize, change: &BindingChange, found: &mut Vec<Arc<Binding>>| {
        if n.is_multiple_of(10) {
            table.apply(change)
        } else {
            find(n, change, found)
        }
    };
    let figures = [
        run(users, 1, &find),
        run(users, 2, &find),
        run(users, 1, &apply),
        run(users, 2, &apply),
        run(users, 2, &mixed),
    ];
    print!("{:>9} {form:28}", users.changes.len());
    for figure in figures {
        print!(" {figure:>8.0}");
    }
    println!();
}

/// How long the thread at hand was ready to run while another process had its
/// processor. Waiting for a lock is not in it.
fn kept_off_cpu_ns() -> u64 {
    let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    schedstat.split(' ').nth(1).unwrap().parse().unwrap()
}

/// Nanoseconds for each operation of a thread, the time that other processes
/// took left out.
fn run(
    users: &Users,
    threads: u64,
    act: &(impl Fn(usize, &BindingChange, &mut Vec<Arc<Binding>>) + Sync),
) -> f64 {
    let one = |thread: u64| {
        let mut random = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(thread + 1);
        let mut found = Vec::with_capacity(4);
        let (start, kept_off_ns, mut done) = (Instant::now(), kept_off_cpu_ns(), 0_usize);
        while start.elapsed() < TIME {
            for _ in 0..1_000 {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let at = (random >> 16) as usize % users.changes.len();
                act(done, &users.changes[at], &mut found);
                done += 1;
            }
        }
        let elapsed_ns = start.elapsed().as_nanos() as u64;
        (elapsed_ns - (kept_off_cpu_ns() - kept_off_ns)) as f64 / done as f64
    };
    let round = || {
        std::thread::scope(|scope| {
            let handles: Vec<_> = (0..threads)
                .map(|thread| scope.spawn(move || one(thread)))
                .collect();
            let figures = handles.into_iter().map(|handle| handle.join().unwrap());
            figures.sum::<f64>() / threads as f64
        })
    };
    (0..ROUNDS).map(|_| round()).fold(f64::INFINITY, f64::min)
}
