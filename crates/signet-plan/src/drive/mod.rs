//! Drives a server with loads and takes what it needs.
//!
//! Each run has a server that has just started, on a core of its own; loads, gateways and
//! database have another.

mod figures;
mod load;
mod mixture;
mod server;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use measure::{RunResult, Watcher};
use signet_bed::calibrate::{self, Speed};
use signet_bed::certificates::Certificates;
use signet_bed::database::{Database, Kind};
use signet_bed::distance::RelayProcess;
use signet_bed::process::{SERVER_CORE, load_core};
use signet_bed::system::Server;

pub use mixture::{Connection, Flow, Mixture, PasswordStore, Stream};
pub use server::Ports;

use crate::demand::Transport;
use crate::event::{Event, Rates};
use crate::profile::Run;
use figures::Figures;
use load::{Around, Load};
use server::{USERS, here};

/// More failures than this, as a share, and a run does not count.
const FAILED_MAX: f64 = 0.01;
/// The same for arrivals that were never sent.
const UNSENT_MAX: f64 = 0.02;
/// A rate that is further from what was asked for, as a share, is no rate that was held; what
/// chance does to arrivals of a second comes on top.
const RATE_OFF_MAX: f64 = 0.15;
/// What leads this program to the loops that say how fast the machine is.
const LOOPS: [&str; 2] = ["bed", "calibrate"];
/// The relay's report is from so long ago, at most; what passes is taken between two reports.
const REPORT: Duration = Duration::from_millis(150);

/// What all runs have in common.
#[derive(Debug)]
pub struct Bench {
    signet: PathBuf,
    folder: PathBuf,
    ports: Ports,
    certificates: Certificates,
    database: Option<Database>,
}

/// The lengths of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lengths {
    /// Before the measuring.
    pub warm_up: Duration,
    /// The measuring.
    pub measure: Duration,
}

/// What was taken at one moment.
struct Look {
    at: Instant,
    at_unix_s: f64,
    cpu_ns: u64,
    database_ns: Option<u64>,
    bytes: f64,
    wire_bytes: Option<f64>,
}

impl Bench {
    /// Makes certificates, and starts a database where it is wanted.
    ///
    /// # Errors
    /// What cannot be made or started.
    pub fn open(
        signet: &Path,
        folder: &Path,
        ports: Ports,
        wants_database: bool,
    ) -> Result<Self, String> {
        std::fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let database = match wants_database {
            true => Some(Database::start(
                Kind::MariaDb,
                folder,
                ports.database(),
                load_core(),
                USERS as usize,
            )?),
            false => None,
        };
        Ok(Self {
            signet: signet.to_owned(),
            folder: folder.to_owned(),
            ports,
            certificates: Certificates::make(folder)?,
            database,
        })
    }

    fn around(&self) -> Around<'_> {
        Around {
            signet: &self.signet,
            folder: &self.folder,
            core: load_core(),
            ports: self.ports,
            certificates: &self.certificates,
        }
    }

    fn server(&self, mixture: &Mixture) -> Result<Server, String> {
        server::start(
            &self.signet,
            &self.folder,
            SERVER_CORE,
            (self.ports, &self.certificates),
            mixture,
        )
    }

    /// Runs a mixture for so long and takes what the server needs for it.
    ///
    /// # Errors
    /// A server or a load that does not run, with what it said.
    pub fn run(&self, mixture: &Mixture, lengths: Lengths) -> Result<Run, String> {
        let relay = self.relay(mixture)?;
        let mut server = self.server(mixture)?;
        let around = self.around();
        let _gateways = match mixture.has_gateway() {
            true => Some(around.answer()?),
            false => None,
        };
        let before = calibrate::measure(SERVER_CORE, &LOOPS)?;
        let length = lengths.warm_up + lengths.measure + Duration::from_millis(300);
        let streams = mixture.streams.iter().enumerate();
        let loads = streams
            .map(|stream| around.load(stream, mixture.users, length))
            .collect::<Result<Vec<Load>, String>>()?;
        std::thread::sleep(lengths.warm_up);
        let from = self.look(&server, relay.as_ref())?;
        std::thread::sleep(lengths.measure);
        let to = self.look(&server, relay.as_ref())?;
        server.must_run()?;
        let told = loads
            .into_iter()
            .map(Load::end)
            .collect::<Result<Vec<RunResult>, String>>()?;
        let after = calibrate::measure(SERVER_CORE, &LOOPS)?;
        Ok(taken(mixture, &told, [&from, &to], between(before, after)))
    }

    fn relay(&self, mixture: &Mixture) -> Result<Option<RelayProcess>, String> {
        let Some(database) = self.database.as_ref().filter(|_| mixture.rtt_ms > 0) else {
            return Ok(None);
        };
        let ends = (here(self.ports.relay()), database.port);
        RelayProcess::start(
            &self.signet,
            ends,
            mixture.rtt_ms,
            load_core(),
            &self.folder,
        )
        .map(Some)
    }

    fn look(&self, server: &Server, relay: Option<&RelayProcess>) -> Result<Look, String> {
        let figures = Figures::ask(here(self.ports.metrics()))?;
        let wire_bytes = relay.and_then(|relay| {
            std::thread::sleep(REPORT);
            let passed = relay.glance()()?;
            Some(passed.wire_bytes as f64)
        });
        Ok(Look {
            at: Instant::now(),
            at_unix_s: unix_s(),
            cpu_ns: server.watched.map_or(0, cpu_ns),
            database_ns: self.database.as_ref().map(|one| cpu_ns(one.process.id())),
            bytes: figures.bytes(),
            wire_bytes,
        })
    }

    /// What so many agents hold in the server's memory, twice: bytes for each of the first half
    /// and for each of the second.
    ///
    /// # Errors
    /// As [`Bench::run`], and agents who do not come up.
    pub fn held(&self, transport: Transport, agents: u32) -> Result<[f64; 2], String> {
        let server = self.server(&Mixture::default())?;
        let around = self.around();
        let half = (agents / 2).max(1);
        let mut readings = vec![self.memory(&server)];
        let mut running = Vec::new();
        for name in ["first", "second"] {
            running.push(around.idle(name, transport, half, half.max(100) / 2)?);
            let wanted = f64::from(half) * running.len() as f64;
            self.until_registered(wanted)?;
            readings.push(self.memory(&server));
        }
        // They would say good-bye one by one, which nobody waits for.
        for idle in &mut running {
            idle.signal("KILL");
        }
        let [empty, one, two] = readings.as_slice() else {
            return Err("memory was not read".to_owned());
        };
        let each = |from: f64, to: f64| (to - from).max(0.0) / f64::from(half);
        Ok([each(*empty, *one), each(*one, *two)])
    }

    fn memory(&self, server: &Server) -> f64 {
        let process = server.process.as_ref();
        process.map_or(0.0, |process| process.memory_bytes() as f64)
    }

    fn until_registered(&self, wanted: f64) -> Result<(), String> {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let there = Figures::ask(here(self.ports.metrics()))?.sum("signet_users_registered");
            if there >= wanted {
                return Ok(());
            }
            if Instant::now() > until {
                return Err(format!("{there:.0} of {wanted:.0} agents registered"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The long run: calls that end at once, until transactions end as fast as others begin.
    ///
    /// # Errors
    /// As [`Bench::run`].
    pub fn long(&self, per_s: f64, lengths: Lengths, kept: Duration) -> Result<Long, String> {
        let mixture = Mixture {
            name: "long".to_owned(),
            streams: vec![Stream::new(
                Flow::Calls(Transport::Udp),
                Transport::Udp,
                per_s,
            )],
            ..Mixture::default()
        };
        let server = self.server(&mixture)?;
        let around = self.around();
        let _gateways = around.answer()?;
        let before = calibrate::measure(SERVER_CORE, &LOOPS)?;
        let length = kept + lengths.warm_up * 2 + lengths.measure + Duration::from_millis(500);
        let load = self.first(&around, &mixture, length)?;
        std::thread::sleep(lengths.warm_up);
        let (empty, began) = (self.memory(&server), Instant::now());
        let first = self.spent(&server, lengths.measure);
        // Memory grows until the first of them end.
        let until = kept.saturating_sub(lengths.warm_up + Duration::from_millis(200));
        std::thread::sleep(until.saturating_sub(began.elapsed()));
        let grown = self.memory(&server) - empty;
        let growth_s = began.elapsed().as_secs_f64();
        std::thread::sleep((kept + lengths.warm_up).saturating_sub(began.elapsed()));
        let last = self.spent(&server, lengths.measure);
        let told = load.end()?;
        let after = calibrate::measure(SERVER_CORE, &LOOPS)?;
        let came_per_s =
            [&first, &last].map(|spent| started_per_s(&told, spent.from_unix_s, spent.to_unix_s));
        let doubts = doubts(&came_per_s.map(|came_per_s| (&told, per_s, came_per_s)));
        if let Some(doubt) = doubts.first() {
            return Err(doubt.clone());
        }
        let kept_per_s = mixture.rates().kept_per_s();
        let stretch = |spent: &Spent, came_per_s: f64| Stretch {
            cores: spent.cores,
            kept_per_s: came_per_s * kept_per_s / per_s,
        };
        let [came_first_per_s, came_last_per_s] = came_per_s;
        Ok(Long {
            first: stretch(&first, came_first_per_s),
            last: stretch(&last, came_last_per_s),
            speeds: [before, after],
            bytes: (grown / (growth_s * kept_per_s)).max(0.0),
        })
    }

    fn first(
        &self,
        around: &Around<'_>,
        mixture: &Mixture,
        length: Duration,
    ) -> Result<Load, String> {
        let stream = mixture.streams.first().ok_or("there is no load")?;
        around.load((0, stream), mixture.users, length)
    }

    /// CPU time that a server takes in so long.
    fn spent(&self, server: &Server, length: Duration) -> Spent {
        let spent_ns = || server.watched.map_or(0, cpu_ns);
        let from_unix_s = unix_s();
        let (began, before) = (Instant::now(), spent_ns());
        std::thread::sleep(length);
        let cores = spent_ns().saturating_sub(before) as f64 / 1e9 / began.elapsed().as_secs_f64();
        Spent {
            cores,
            from_unix_s,
            to_unix_s: unix_s(),
        }
    }

    /// Memory of a server with nothing to do, and bytes for each call that stands, what
    /// transactions hold included.
    ///
    /// # Errors
    /// As [`Bench::run`].
    pub fn standing(&self, per_s: f64, length: Duration) -> Result<(f64, f64), String> {
        let server = self.server(&Mixture::default())?;
        let around = self.around();
        let _gateways = around.answer()?;
        let empty = self.memory(&server);
        let mut load = around.standing(per_s, length)?;
        std::thread::sleep(length + Duration::from_millis(500));
        let grown = (self.memory(&server) - empty).max(0.0);
        load.signal("KILL");
        Ok((empty, grown / (per_s * length.as_secs_f64()).max(1.0)))
    }
}

/// What the long run showed of transactions that stay for 64*T1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Long {
    /// Before any transaction ended.
    pub first: Stretch,
    /// Once as many end as begin.
    pub last: Stretch,
    /// How fast the machine was before and after the run.
    pub speeds: [Speed; 2],
    /// What one of them holds, in bytes.
    pub bytes: f64,
}

/// Some seconds of the long run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stretch {
    /// CPU time of the server, in cores.
    pub cores: f64,
    /// Transactions that began in a second of it, and stay.
    pub kept_per_s: f64,
}

/// CPU time between two moments.
struct Spent {
    cores: f64,
    from_unix_s: f64,
    to_unix_s: f64,
}

/// CPU time of a process and its descendants, in nanoseconds; 0 where it is gone.
fn cpu_ns(id: u32) -> u64 {
    Watcher::new(&[id]).map_or(0, |mut watcher| watcher.sample_light().cpu_ns)
}

/// What a run took between two moments.
fn taken(mixture: &Mixture, told: &[RunResult], [from, to]: [&Look; 2], speed: Speed) -> Run {
    let length_s = to.at.duration_since(from.at).as_secs_f64().max(1e-9);
    let mut rates = Rates::default();
    let mut held = Vec::new();
    for (stream, result) in mixture.streams.iter().zip(told) {
        let per_s = started_per_s(result, from.at_unix_s, to.at_unix_s);
        rates.add_all(&stream.rates(mixture.users, per_s));
        held.push((result, stream.per_s, per_s));
    }
    let share = |after: u64, before: u64| after.saturating_sub(before) as f64 / 1e9 / length_s;
    let mut doubts = doubts(&held);
    doubts.extend(resumed_otherwise(&rates, told));
    let database = to.database_ns.zip(from.database_ns);
    let wire = to.wire_bytes.zip(from.wire_bytes);
    Run {
        mixture: mixture.clone(),
        rates,
        cores: share(to.cpu_ns, from.cpu_ns),
        database_cores: database
            .filter(|_| mixture.users == PasswordStore::Database)
            .map(|(after, before)| share(after, before)),
        bytes_per_s: (to.bytes - from.bytes).max(0.0) / length_s,
        database_bits_per_s: wire.map(|(after, before)| (after - before).max(0.0) * 8.0 / length_s),
        speed: Some(speed),
        doubts,
    }
}

/// Attempts a second between two moments, as if they came evenly within each second.
fn started_per_s(result: &RunResult, from_unix_s: f64, to_unix_s: f64) -> f64 {
    let setup_ms = result.counters.get("setup_ms").copied().unwrap_or(0);
    let began_s = (result.started_unix_ms + setup_ms) as f64 / 1e3;
    let started: f64 = result
        .series
        .iter()
        .map(|second| {
            let begins_s = began_s + second.at_s as f64;
            let overlap_s = (begins_s + 1.0).min(to_unix_s) - begins_s.max(from_unix_s);
            second.started as f64 * overlap_s.clamp(0.0, 1.0)
        })
        .sum();
    started / (to_unix_s - from_unix_s).max(1e-9)
}

/// Why loads do not count: each with the rate that was asked for and the one that was seen.
fn doubts(loads: &[(&RunResult, f64, f64)]) -> Vec<String> {
    let mut doubts = Vec::new();
    for (result, asked_per_s, per_s) in loads {
        let mut sum = [0_u64; 3];
        for second in &result.series {
            let [started, failed, due] = &mut sum;
            *started += second.started;
            *failed += second.failed;
            *due += second.due;
        }
        let [started, failed, due] = sum.map(|count| count as f64);
        if started <= 0.0 {
            doubts.push("a load sent nothing".to_owned());
            continue;
        }
        if failed / started > FAILED_MAX {
            doubts.push(format!("{:.1}% failed", failed / started * 100.0));
        }
        if (due - started) / started > UNSENT_MAX {
            doubts.push(format!("{:.0} arrivals were not sent", due - started));
        }
        let off_max = RATE_OFF_MAX * asked_per_s + 4.0 * asked_per_s.sqrt();
        if (per_s - asked_per_s).abs() > off_max {
            doubts.push(format!("{per_s:.0}/s in the place of {asked_per_s:.0}/s"));
        }
    }
    doubts
}

/// That another share of handshakes was resumed than was asked for.
fn resumed_otherwise(rates: &Rates, told: &[RunResult]) -> Option<String> {
    let asked = rates.get(Event::Resumed) / rates.handshakes_per_s().max(1e-9);
    let resumed: u64 = told.iter().map(|one| one.handshakes.resumed).sum();
    let full: u64 = told.iter().map(|one| one.handshakes.full).sum();
    let seen = resumed as f64 / (resumed + full).max(1) as f64;
    // Each agent's first session is a new one.
    let is_off = rates.handshakes_per_s() > 0.0 && (seen - asked).abs() > 0.35;
    is_off.then(|| format!("{:.0}% of handshakes resumed", seen * 100.0))
}

/// The machine's speed over a run.
fn between(before: Speed, after: Speed) -> Speed {
    Speed {
        compute_us: before.compute_us.midpoint(after.compute_us),
        kernel_us: before.kernel_us.midpoint(after.kernel_us),
    }
}

fn unix_s() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0.0, |since| since.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use measure::Second;

    use super::*;

    fn result(per_s: &[u64], failed: u64) -> RunResult {
        let series = per_s.iter().enumerate().map(|(at_s, started)| Second {
            at_s: at_s as u64,
            started: *started,
            due: *started,
            failed,
            ..Second::default()
        });
        RunResult {
            started_unix_ms: 100_000,
            series: series.collect(),
            ..RunResult::default()
        }
    }

    #[test]
    fn a_rate_is_that_of_the_time_that_is_looked_at() {
        let result = result(&[10, 20, 40], 0);
        assert_eq!(started_per_s(&result, 101.0, 102.0), 20.0);
        assert_eq!(started_per_s(&result, 101.5, 102.5), 30.0);
        assert_eq!(started_per_s(&result, 200.0, 201.0), 0.0);
    }

    #[test]
    fn what_failed_or_was_not_held_is_in_doubt() {
        let good = result(&[100, 100], 0);
        assert!(doubts(&[(&good, 100.0, 100.0)]).is_empty());
        assert_eq!(
            doubts(&[(&good, 300.0, 100.0)]),
            ["100/s in the place of 300/s"]
        );
        assert_eq!(
            doubts(&[(&result(&[100], 5), 100.0, 100.0)]),
            ["5.0% failed"]
        );
        assert_eq!(
            doubts(&[(&result(&[], 0), 1.0, 0.0)]),
            ["a load sent nothing"]
        );
        let mut late = result(&[100], 0);
        late.series[0].due = 110;
        assert_eq!(
            doubts(&[(&late, 100.0, 100.0)]),
            ["10 arrivals were not sent"]
        );
    }

    #[test]
    fn resumption_that_did_not_happen_is_in_doubt() {
        let stream = Stream::per_call(Transport::Tls, 10.0, crate::demand::Key::P256, 1.0);
        let rates = stream.rates(PasswordStore::None, 10.0);
        let mut told = result(&[10], 0);
        told.handshakes.full = 10;
        assert!(resumed_otherwise(&rates, std::slice::from_ref(&told)).is_some());
        told.handshakes.resumed = 40;
        assert!(resumed_otherwise(&rates, std::slice::from_ref(&told)).is_none());
        assert!(resumed_otherwise(&Rates::default(), &[told]).is_none());
    }
}
