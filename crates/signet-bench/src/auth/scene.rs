//! Who is on the stage in a measurement, on which core, and what each of them takes of it.

use std::net::SocketAddr;
use std::time::Duration;

use serde::Serialize;
use signet_bed::watch::{Looks, Subject, Watch};

use super::database::Database;
use super::load::Load;
use super::relay::{Passed, RelayProcess};
use super::server::{Lookups, Users};
use super::{Bench, RTT_MS, ports};
use crate::process::Process;

/// How often they are looked at.
const EVERY: Duration = Duration::from_millis(250);

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

/// One of those who take CPU.
pub(super) type Who = &'static str;
/// All of them.
pub(super) const WHO: [Who; 4] = ["server", "relay", "database", "load"];

impl Cores {
    /// The core of each of [`WHO`].
    pub(super) fn all(&self) -> [&str; 4] {
        [&self.server, &self.relay, &self.database, &self.load]
    }
}

/// The cache's room where passwords are guessed: a quarter of it is for names that do not exist.
const CACHED_OF_GUESSES: usize = 400_000;

/// Server, relay and database.
pub(super) struct Scene<'a> {
    pub(super) server: Process,
    pub(super) relay: RelayProcess,
    pub(super) database: &'a Database,
}

impl Bench<'_> {
    /// A server whose users are in `database`, which is the paper's distance away.
    pub(super) fn scene<'a>(
        &self,
        database: &'a Database,
        lookups: Lookups,
    ) -> Result<Scene<'a>, String> {
        self.scene_with(database, |port| Users::Database {
            kind: database.kind,
            port,
            lookups,
            cached: 0,
            is_killed: false,
            is_guessed_at: false,
        })
    }

    /// The same with a cache that has room for all names, and no bounds on guesses.
    pub(super) fn scene_of_guesses<'a>(&self, database: &'a Database) -> Result<Scene<'a>, String> {
        self.scene_with(database, |port| Users::Database {
            kind: database.kind,
            port,
            lookups: Lookups::Tuned,
            cached: CACHED_OF_GUESSES,
            is_killed: false,
            is_guessed_at: true,
        })
    }

    fn scene_with<'a>(
        &self,
        database: &'a Database,
        users: impl FnOnce(u16) -> Users,
    ) -> Result<Scene<'a>, String> {
        let from = self.port(ports::RELAY);
        let relay = RelayProcess::start(
            &self.arguments.signet,
            (SocketAddr::from(([127, 0, 0, 1], from)), database.port),
            RTT_MS,
            &self.arguments.cores.relay,
            &self.folder,
        )?;
        let server = self.start_signet(&users(from))?;
        Ok(Scene {
            server,
            relay,
            database,
        })
    }
}

impl Scene<'_> {
    /// Begins to look at all of them while a load runs.
    pub(super) fn watch(&self, load: &Load) -> Watch<Who> {
        let ids = [
            self.server.id(),
            self.relay.process.id(),
            self.database.process.id(),
            load.generator.process.id(),
        ];
        Watch::begin(
            Subject {
                processes: WHO.into_iter().zip(ids).collect(),
                cores: Vec::new(),
                glance: Some(Box::new(self.relay.glance())),
                weighs: None,
            },
            EVERY,
        )
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

/// What was taken from `from_s` to `to_s` of the load, or of as much of that as was seen; `None`
/// where nothing was.
pub(super) fn taken(looks: &Looks<Who>, from_s: f64, to_s: f64) -> Option<Taken> {
    let (begun_s, ended_s) = looks.ends_s()?;
    let (from_s, to_s) = (begun_s + from_s, ended_s.min(begun_s + to_s));
    let elapsed_s = to_s - from_s;
    if elapsed_s <= 0.0 {
        return None;
    }
    let cores = WHO.map(|who| {
        let cpu_ns = looks.cpu_ns(who, from_s, to_s).unwrap_or(0.0);
        cpu_ns / 1e9 / elapsed_s
    });
    // The relay tells with a clock of its own, and less often.
    let relay_ns = looks.passed(from_s, to_s, |passed| passed.at_ns)?;
    let rate = |count: fn(&Passed) -> u64| {
        let passed = looks.passed(from_s, to_s, count).unwrap_or(0.0);
        if relay_ns > 0.0 {
            passed / (relay_ns / 1e9)
        } else {
            0.0
        }
    };
    Some(Taken {
        cores,
        bytes_per_s: rate(|passed| passed.bytes),
        wire_bytes_per_s: rate(|passed| passed.wire_bytes),
        packets_per_s: rate(|passed| passed.packets),
        round_trips_per_s: rate(|passed| passed.round_trips),
        relay_late_p99_us: looks.relay_late_p99_us(to_s),
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
    fn what_was_not_seen_was_not_taken() {
        assert_eq!(taken(&Looks::default(), 0.0, 1.0), None);
        let subject = Subject {
            processes: vec![(WHO[0], std::process::id())],
            cores: Vec::new(),
            glance: None,
            weighs: None,
        };
        let looks = Watch::begin(subject, EVERY).end();
        assert_eq!(taken(&looks, 1_000.0, 1_001.0), None, "it was over before");
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
