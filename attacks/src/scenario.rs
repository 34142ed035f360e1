//! A scenario: what is tried, what must not come of it, and what did.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::caller::{Callers, Delays};
use crate::target::Setup;
use crate::world::{World, fresh_source};

/// An attack by name.
#[derive(Clone, Copy)]
pub(crate) struct Scenario {
    /// Its name: group and case.
    pub(crate) name: &'static str,
    /// What is tried.
    pub(crate) tries: &'static str,
    /// What counts as having got through.
    pub(crate) through: &'static str,
    /// What it wants of the configuration.
    pub(crate) setup: fn(&mut Setup),
    /// Why Kamailio is left out, where it is.
    pub(crate) not_kamailio: Option<&'static str>,
    /// Makes the attempts.
    pub(crate) run: fn(&mut World, &Scale) -> Result<Tally, String>,
}

/// How much of each scenario is made.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// Whether verdicts come from what got through alone, and nothing is timed.
    pub quick: bool,
}

impl Scale {
    /// A number of attempts.
    pub(crate) fn of(self, quick: u64, full: u64) -> u64 {
        if self.quick { quick } else { full }
    }
}

/// What a flood did to callers and memory.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Felt {
    /// Calls before it.
    pub(crate) before: Delays,
    /// Calls during it.
    pub(crate) during: Delays,
    /// Bytes before it.
    pub(crate) memory_before: Option<u64>,
    /// The most bytes during it.
    pub(crate) memory_during: Option<u64>,
    /// Bytes when it was over, after at most a minute.
    pub(crate) memory_after: Option<u64>,
    /// How long it took until memory was back; a minute at most.
    pub(crate) memory_back_s: Option<f64>,
}

/// What came of a scenario.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Tally {
    pub(crate) tried: u64,
    pub(crate) got_through: u64,
    pub(crate) notes: Vec<String>,
    pub(crate) felt: Option<Felt>,
}

/// Notes that are kept of one scenario.
const NOTES_MAX: usize = 12;

impl Tally {
    /// Counts attempts.
    pub(crate) fn try_many(&mut self, attempts: u64) {
        self.tried += attempts;
    }

    /// Counts one attempt, and what it did where it got through.
    pub(crate) fn judge(&mut self, got_through: bool, what: impl FnOnce() -> String) {
        self.tried += 1;
        if got_through {
            self.break_in(1, what);
        }
    }

    /// Counts what got through of attempts that were counted before.
    pub(crate) fn break_in(&mut self, times: u64, what: impl FnOnce() -> String) {
        if times > 0 {
            self.got_through += times;
            self.note(what());
        }
    }

    /// Keeps a sentence for the report.
    pub(crate) fn note(&mut self, what: String) {
        if self.notes.len() < NOTES_MAX {
            self.notes.push(what);
        }
    }

    /// What is wrong with what callers felt and with memory, once it was measured.
    pub(crate) fn faults(&self) -> Vec<String> {
        let Some(felt) = &self.felt else {
            return Vec::new();
        };
        let mut faults = Vec::new();
        if felt.during.lost * 100 > felt.during.calls {
            let (lost, calls) = (felt.during.lost, felt.during.calls);
            faults.push(format!("callers lost {lost} of {calls} calls"));
        }
        if felt.during.p99_us > P99_US_MAX {
            faults.push(format!(
                "one caller in a hundred waited {} ms and more",
                felt.during.p99_us / 1_000
            ));
        }
        if let (Some(before), Some(after)) = (felt.memory_before, felt.memory_after)
            && after > allowed_after(before)
        {
            faults.push(format!(
                "{} MB remain of {} MB a minute after",
                after / 1_000_000,
                before / 1_000_000
            ));
        }
        faults
    }
}

/// Callers wait no longer than this for a call to be set up, one in a hundred
/// excepted. Generous: who attacks, who calls and who serves share the processors
/// of one machine, and a packet that was dropped costs a caller half a second.
const P99_US_MAX: u64 = 1_000_000;

/// What may stay of a flood beside a fifth of the memory before it: tables of a
/// fixed size whose pages are touched once there are many sources, and what an
/// allocator keeps at hand. A server of 20 MB is not judged by single megabytes.
const ALLOWANCE_BYTES: u64 = 16 * 1_024 * 1_024;

/// The most that memory may be after a flood.
fn allowed_after(before: u64) -> u64 {
    before + before / 5 + ALLOWANCE_BYTES
}

/// Makes an attack beside callers, and watches them and the memory before,
/// during and after it. When it is quick it makes the attack, and one call then.
pub(crate) fn beside(
    world: &World,
    scale: &Scale,
    tally: &mut Tally,
    attack: impl FnOnce() -> Result<u64, String> + Send,
) -> Result<(), String> {
    if scale.quick {
        tally.try_many(attack()?);
        let called = world.call_works();
        if let Err(why) = called {
            tally.break_in(1, || format!("afterwards: {why}"));
        }
        return Ok(());
    }
    let callers = Callers::start(world, 50)?;
    std::thread::sleep(Duration::from_secs(4));
    let before = callers.finish();
    std::thread::sleep(Duration::from_secs(1));
    let memory_before = world.server.memory_bytes();
    let callers = Callers::start(world, 50)?;
    let over = AtomicBool::new(false);
    let (tried, memory_during) = std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut most = world.server.memory_bytes();
            while !over.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(200));
                most = most.max(world.server.memory_bytes());
            }
            most
        });
        let tried = attack();
        std::thread::sleep(Duration::from_secs(1));
        over.store(true, Ordering::Relaxed);
        (tried, watch.join().unwrap_or(None))
    });
    let during = callers.finish();
    tally.try_many(tried?);
    let end = Instant::now();
    let mut memory_after = world.server.memory_bytes();
    while let (Some(now), Some(base)) = (memory_after, memory_before)
        && now > allowed_after(base)
        && end.elapsed() < Duration::from_secs(60)
    {
        std::thread::sleep(Duration::from_secs(1));
        memory_after = world.server.memory_bytes();
    }
    tally.felt = Some(Felt {
        before,
        during,
        memory_before,
        memory_during,
        memory_after,
        memory_back_s: memory_after.map(|_| end.elapsed().as_secs_f64()),
    });
    Ok(())
}

/// Packets of a flood.
pub(crate) struct Flood {
    /// Packets in all.
    pub(crate) packets: u64,
    /// Sources that take turns.
    pub(crate) sources: usize,
    /// Packets a second at most.
    pub(crate) per_s: u64,
}

impl Flood {
    /// So many packets, from a few sources, for some seconds.
    pub(crate) fn of(scale: &Scale, full: u64) -> Self {
        Self {
            packets: scale.of(200, full),
            sources: 8,
            per_s: 30_000,
        }
    }

    /// Sends what `make` makes for each number and source; how many were sent.
    pub(crate) fn send(
        &self,
        world: &World,
        make: impl Fn(u64, std::net::SocketAddr) -> Vec<u8>,
    ) -> Result<u64, String> {
        let sockets: Result<Vec<UdpSocket>, String> =
            (0..self.sources).map(|_| fresh_source()).collect();
        self.send_from(world, &sockets?, make)
    }

    /// The same from given sockets.
    pub(crate) fn send_from(
        &self,
        world: &World,
        sockets: &[UdpSocket],
        make: impl Fn(u64, std::net::SocketAddr) -> Vec<u8>,
    ) -> Result<u64, String> {
        let begun = Instant::now();
        // A machine that cannot keep the pace sends less, not longer.
        let longest = Duration::from_micros(2 * self.packets * 1_000_000 / self.per_s.max(1));
        let longest = longest.max(Duration::from_secs(5));
        for (n, socket) in (0..self.packets).zip(sockets.iter().cycle()) {
            let local = socket.local_addr().map_err(|e| e.to_string())?;
            let _ = socket.send_to(&make(n, local), world.to());
            if begun.elapsed() > longest {
                return Ok(n + 1);
            }
            let due = Duration::from_micros(n * 1_000_000 / self.per_s.max(1));
            if let Some(ahead) = due.checked_sub(begun.elapsed())
                && ahead > Duration::from_millis(1)
            {
                std::thread::sleep(ahead);
            }
        }
        Ok(self.packets)
    }
}
