//! What is known of a handshake that is done, and what is counted of all.

use crate::algorithms::{GROUP_NAMES, SUITE_NAMES, TlsVersion, engine_at};
use crate::engine::TlsEngine;
use crate::fault::{CertificateFault, HandshakeError, HandshakeFailure};
use crate::resumption::Resumption;

/// What came of a connection's handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlsInfo {
    /// The version.
    pub version: TlsVersion,
    /// The cipher suite's place in [`SUITE_NAMES`].
    pub(crate) suite: u8,
    /// The group's place in [`GROUP_NAMES`], where there was a key exchange.
    pub(crate) group: Option<u8>,
    /// How the session was resumed; `None` after a full handshake.
    pub resumed: Option<Resumption>,
    /// From the moment at which the connection was up to the end of the
    /// handshake, in microseconds.
    pub wall_us: u64,
    /// What it took of that to come to its turn, in microseconds.
    pub queued_us: u64,
    /// What it took on the processor, in microseconds.
    pub cpu_us: u64,
}

impl TlsInfo {
    /// The name of the cipher suite in IANA's registry.
    pub fn suite_name(&self) -> &'static str {
        SUITE_NAMES
            .get(usize::from(self.suite))
            .copied()
            .unwrap_or("unknown")
    }

    /// The engine that spoke.
    pub const fn engine(&self) -> TlsEngine {
        engine_at(self.suite as usize)
    }

    /// The name of the key-exchange group; `None` in TLS 1.2 when resumed, and
    /// where keys are exchanged by RSA encryption.
    pub fn group_name(&self) -> Option<&'static str> {
        GROUP_NAMES.get(usize::from(self.group?)).copied()
    }
}

/// What was counted of handshakes, by their outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HandshakeTally {
    /// Full handshakes, in the order of [`TlsVersion::ALL`].
    pub full: [u64; TlsVersion::ALL.len()],
    /// Resumed ones, in the same order.
    pub resumed: [u64; TlsVersion::ALL.len()],
    /// Resumed ones, in the order of [`Resumption::ALL`].
    pub resumed_by: [u64; Resumption::ALL.len()],
    /// By cipher suite, in the order of [`SUITE_NAMES`].
    pub suites: [u64; SUITE_NAMES.len()],
    /// By key-exchange group, in the order of [`GROUP_NAMES`].
    pub groups: [u64; GROUP_NAMES.len()],
    /// Those that failed, in the order of [`HandshakeFailure::ALL`].
    pub failed: [u64; HandshakeFailure::ALL.len()],
    /// Certificates not accepted, in the order of [`CertificateFault::ALL`].
    pub faults: [u64; CertificateFault::ALL.len()],
    /// Sessions not resumed because the client's certificate would not be
    /// accepted any more.
    pub resumptions_refused: u64,
    /// Time on the clock of full handshakes and of resumed ones, in microseconds.
    pub full_wall_us: u64,
    /// See `full_wall_us`.
    pub resumed_wall_us: u64,
    /// Time on the processor of full handshakes, of resumed ones and of those
    /// that failed, in microseconds.
    pub full_cpu_us: u64,
    /// See `full_cpu_us`.
    pub resumed_cpu_us: u64,
    /// See `full_cpu_us`.
    pub failed_cpu_us: u64,
}

impl HandshakeTally {
    /// Counts a handshake that was done.
    pub fn count(&mut self, info: &TlsInfo) {
        let version = info.version as usize;
        match info.resumed {
            None => {
                add(&mut self.full, version);
                self.full_wall_us += info.wall_us;
                self.full_cpu_us += info.cpu_us;
            }
            Some(how) => {
                add(&mut self.resumed, version);
                add(&mut self.resumed_by, how as usize);
                self.resumed_wall_us += info.wall_us;
                self.resumed_cpu_us += info.cpu_us;
            }
        }
        add(&mut self.suites, usize::from(info.suite));
        if let Some(group) = info.group {
            add(&mut self.groups, usize::from(group));
        }
    }

    /// Counts one that failed.
    pub fn count_failed(&mut self, error: &HandshakeError) {
        add(&mut self.failed, error.failure as usize);
        if let Some(fault) = error.fault {
            add(&mut self.faults, fault as usize);
        }
        self.failed_cpu_us += error.cpu_us;
    }

    /// Adds another's figures: a listener's on another worker.
    pub fn add(&mut self, other: &Self) {
        fn each(mine: &mut [u64], theirs: &[u64]) {
            mine.iter_mut()
                .zip(theirs)
                .for_each(|(mine, theirs)| *mine += theirs);
        }
        each(&mut self.full, &other.full);
        each(&mut self.resumed, &other.resumed);
        each(&mut self.resumed_by, &other.resumed_by);
        each(&mut self.suites, &other.suites);
        each(&mut self.groups, &other.groups);
        each(&mut self.failed, &other.failed);
        each(&mut self.faults, &other.faults);
        self.resumptions_refused += other.resumptions_refused;
        self.full_wall_us += other.full_wall_us;
        self.resumed_wall_us += other.resumed_wall_us;
        self.full_cpu_us += other.full_cpu_us;
        self.resumed_cpu_us += other.resumed_cpu_us;
        self.failed_cpu_us += other.failed_cpu_us;
    }

    /// Full handshakes of all versions.
    pub fn full_total(&self) -> u64 {
        self.full.iter().sum()
    }

    /// Resumed handshakes of all versions.
    pub fn resumed_total(&self) -> u64 {
        self.resumed.iter().sum()
    }
}

fn add(counts: &mut [u64], place: usize) {
    if let Some(count) = counts.get_mut(place) {
        *count += 1;
    }
}
