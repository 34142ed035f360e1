//! Who is on the stage in a measurement, on which core, and what each of them takes of it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::database::Database;
use super::relay::{Passed, Relay};
use super::server::{Lookups, Users};
use super::{Bench, RTT_MS, ports};
use crate::process::Process;

/// Which core each has. Server and relay share one by default, database and load the other.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub(super) struct Cores {
    /// The server's core.
    #[arg(long = "core-server", default_value = "0")]
    pub(super) server: String,
    /// The relay's.
    #[arg(long = "core-relay", default_value = "0")]
    pub(super) relay: String,
    /// The database's.
    #[arg(long = "core-database", default_value = "1")]
    pub(super) database: String,
    /// The load's: caller and called side.
    #[arg(long = "core-load", default_value = "1")]
    pub(super) load: String,
}

/// Those who take CPU, by index.
pub(super) const WHO: [&str; 4] = ["server", "relay", "database", "load"];

impl Cores {
    /// The core of each of [`WHO`].
    pub(super) fn all(&self) -> [&str; 4] {
        [&self.server, &self.relay, &self.database, &self.load]
    }
}

/// Server, relay and database.
pub(super) struct Scene<'a> {
    pub(super) server: Process,
    pub(super) relay: Relay,
    pub(super) database: &'a Database,
}

impl Bench<'_> {
    /// A server whose users are in `database`, which is the paper's distance away.
    pub(super) fn scene<'a>(
        &self,
        database: &'a Database,
        lookups: Lookups,
    ) -> Result<Scene<'a>, String> {
        let from = self.port(ports::RELAY);
        let relay = Relay::start(
            &self.arguments.signet,
            (SocketAddr::from(([127, 0, 0, 1], from)), database.port),
            RTT_MS,
            &self.arguments.cores.relay,
            &self.folder,
        )?;
        let server = self.start_signet(&Users::Database {
            kind: database.kind,
            port: from,
            lookups,
            cached: 0,
        })?;
        Ok(Scene {
            server,
            relay,
            database,
        })
    }
}

/// One look at all of them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Look {
    /// When, in seconds since the load began.
    pub(super) at_s: f64,
    /// CPU time so far, of each of [`WHO`].
    pub(super) cpu_ns: [u64; 4],
    /// What passed the relay so far.
    pub(super) passed: Passed,
}

/// Looks at all of them four times a second while a load runs.
pub(super) struct Watch {
    looks: Arc<Mutex<Vec<Look>>>,
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

/// How to look at a relay's report without the relay.
pub(super) type Glance = Box<dyn Fn() -> Option<Passed> + Send>;

impl Watch {
    /// Begins; `processes` are those of [`WHO`], where they are there.
    pub(super) fn begin(processes: [Option<u32>; 4], glance: Glance) -> Self {
        let looks = Arc::new(Mutex::new(Vec::new()));
        let is_over = Arc::new(AtomicBool::new(false));
        let (into, end) = (Arc::clone(&looks), Arc::clone(&is_over));
        let begun = Instant::now();
        let thread = std::thread::spawn(move || {
            while !end.load(Ordering::Relaxed) {
                let look = Look {
                    at_s: begun.elapsed().as_secs_f64(),
                    cpu_ns: processes.map(|id| id.map_or(0, crate::process::cpu_ns)),
                    passed: glance().unwrap_or_default(),
                };
                if let Ok(mut looks) = into.lock() {
                    looks.push(look);
                }
                std::thread::sleep(Duration::from_millis(250));
            }
        });
        Self {
            looks,
            is_over,
            thread,
        }
    }

    /// Ends; all looks in their order.
    pub(super) fn end(self) -> Vec<Look> {
        self.is_over.store(true, Ordering::Relaxed);
        let _ = self.thread.join();
        self.looks
            .lock()
            .map_or_else(|_| Vec::new(), |looks| looks.clone())
    }
}

/// What was taken between two moments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Taken {
    /// Cores, of each of [`WHO`].
    pub(super) cores: [f64; 4],
    pub(super) bytes_per_s: f64,
    pub(super) wire_bytes_per_s: f64,
    pub(super) packets_per_s: f64,
    pub(super) round_trips_per_s: f64,
    pub(super) relay_late_p99_us: f64,
}

/// What was taken from `from_s` to `to_s` of the load; `None` where there were no two looks
/// in that time.
pub(super) fn taken(looks: &[Look], from_s: f64, to_s: f64) -> Option<Taken> {
    let within = |look: &&Look| look.at_s >= from_s && look.at_s <= to_s;
    let first = looks.iter().find(within)?;
    let last = looks.iter().rev().find(within)?;
    let elapsed_s = last.at_s - first.at_s;
    if elapsed_s <= 0.0 {
        return None;
    }
    let mut cores = [0.0; 4];
    for ((core, last_ns), first_ns) in cores.iter_mut().zip(last.cpu_ns).zip(first.cpu_ns) {
        *core = last_ns.saturating_sub(first_ns) as f64 / 1e9 / elapsed_s;
    }
    // The relay tells with a clock of its own, and less often.
    let (a, b) = (first.passed, last.passed);
    let relay_s = b.at_ns.saturating_sub(a.at_ns) as f64 / 1e9;
    let rate = |a: u64, b: u64| {
        if relay_s > 0.0 {
            b.saturating_sub(a) as f64 / relay_s
        } else {
            0.0
        }
    };
    Some(Taken {
        cores,
        bytes_per_s: rate(a.bytes, b.bytes),
        wire_bytes_per_s: rate(a.wire_bytes, b.wire_bytes),
        packets_per_s: rate(a.packets, b.packets),
        round_trips_per_s: rate(a.round_trips, b.round_trips),
        relay_late_p99_us: b.late_p99_us,
    })
}

/// From this share of a core on it is the core that bounds.
const FULL: f64 = 0.9;

/// What bounds a rate: the fullest core and who is on it, or nothing but waiting.
pub(super) fn bound(cores: &Cores, taken: &Taken) -> String {
    let places = cores.all();
    let mut fullest: Option<(&str, f64)> = None;
    for place in places {
        let share = taken
            .cores
            .iter()
            .zip(places)
            .filter(|(_, other)| *other == place)
            .map(|(share, _)| share)
            .sum();
        if fullest.is_none_or(|(_, most)| share > most) {
            fullest = Some((place, share));
        }
    }
    let Some((place, share)) = fullest else {
        return "not seen".to_owned();
    };
    let mut on_it: Vec<(f64, &str)> = taken
        .cores
        .iter()
        .zip(WHO)
        .zip(places)
        .filter(|(_, other)| *other == place)
        .map(|((share, who), _)| (*share, who))
        .collect();
    on_it.sort_by(|a, b| b.0.total_cmp(&a.0));
    let parts: Vec<String> = on_it
        .iter()
        .map(|(share, who)| format!("{who} {:.0}%", share * 100.0))
        .collect();
    let parts = parts.join(", ");
    if share >= FULL {
        format!("core {place}: {parts}")
    } else {
        format!("waiting; the fullest core is {place} with {parts}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cores() -> Cores {
        Cores {
            server: "0".to_owned(),
            relay: "0".to_owned(),
            database: "1".to_owned(),
            load: "1".to_owned(),
        }
    }

    #[test]
    fn what_is_taken_lies_between_two_looks() {
        let look = |at_s: f64, cpu_ms: u64, bytes: u64| Look {
            at_s,
            cpu_ns: [cpu_ms * 1_000_000, 0, 0, 0],
            passed: Passed {
                at_ns: (at_s * 1e9) as u64 + 77,
                bytes,
                ..Passed::default()
            },
        };
        let looks = [
            look(0.0, 0, 0),
            look(1.0, 100, 500),
            look(3.0, 1_100, 2_500),
        ];
        let found = taken(&looks, 1.0, 3.0).unwrap();
        assert_eq!(found.cores, [0.5, 0.0, 0.0, 0.0]);
        assert_eq!(found.bytes_per_s, 1_000.0);
        assert_eq!(taken(&looks, 1.5, 2.5), None);
    }

    #[test]
    fn the_fullest_core_bounds_or_waiting_does() {
        let with = |cores: [f64; 4]| Taken {
            cores,
            ..Taken::default()
        };
        let found = bound(&cores(), &with([0.5, 0.1, 0.6, 0.38]));
        assert_eq!(found, "core 1: database 60%, load 38%");
        let found = bound(&cores(), &with([0.3, 0.1, 0.1, 0.1]));
        assert_eq!(
            found,
            "waiting; the fullest core is 0 with server 30%, relay 10%"
        );
    }
}
