//! The engines, as all workers of a process see them.

use std::hash::Hasher;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use siphasher::sip::SipHasher13;

/// Engines that are known, at most so many: those of a few configurations, one after the other.
const KNOWN_MAX: usize = 64;

/// What an engine is called in the tokens of dialogs: a hash of its address, so that it has the
/// same name after a reload, after a restart and at another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EngineId(pub u32);

impl EngineId {
    /// The name of the engine at that address.
    pub fn of(address: SocketAddr) -> Self {
        // No secret: who knows the address may know the name.
        let mut hasher = SipHasher13::new();
        match address.ip().to_canonical() {
            IpAddr::V4(ip) => hasher.write(&ip.octets()),
            IpAddr::V6(ip) => hasher.write(&ip.octets()),
        }
        hasher.write(&address.port().to_be_bytes());
        Self(hasher.finish() as u32)
    }
}

/// What is held against an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It gave no answer.
    Silent,
    /// Nobody listens at its port.
    Unreachable,
}

impl Why {
    /// As programs read it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Silent => "silent",
            Self::Unreachable => "unreachable",
        }
    }

    /// As people do.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Silent => "it gave no answer",
            Self::Unreachable => "nobody listens at its port",
        }
    }

    const fn code(self) -> u8 {
        match self {
            Self::Silent => 1,
            Self::Unreachable => 2,
        }
    }

    const fn of(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Silent),
            2 => Some(Self::Unreachable),
            _ => None,
        }
    }
}

/// An engine. Its atomics change when it fails or returns, and with each ping.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) address: SocketAddr,
    pub(crate) id: EngineId,
    /// What is held against it; 0 for nothing.
    why: AtomicU8,
    /// Since when that is so, by the clock that only goes forward.
    since_ms: AtomicU64,
    is_drained: AtomicBool,
    /// When it last answered a ping, plus one; 0 for never.
    heard_ms: AtomicU64,
    times_out: AtomicU64,
    pings_good: AtomicU64,
    pings_failed: AtomicU64,
}

impl Engine {
    fn new(address: SocketAddr) -> Self {
        Self {
            address,
            id: EngineId::of(address),
            why: AtomicU8::new(0),
            since_ms: AtomicU64::new(0),
            is_drained: AtomicBool::new(false),
            heard_ms: AtomicU64::new(0),
            times_out: AtomicU64::new(0),
            pings_good: AtomicU64::new(0),
            pings_failed: AtomicU64::new(0),
        }
    }

    /// Whether it has failed and has not been heard from since.
    pub(crate) fn is_out(&self) -> bool {
        self.why.load(Ordering::Acquire) != 0
    }

    /// Whether it may be given a call that begins.
    pub(crate) fn takes_calls(&self) -> bool {
        !self.is_out() && !self.is_drained.load(Ordering::Relaxed)
    }

    /// It has failed; whether it had not before.
    pub(crate) fn failed(&self, now_ms: u64, why: Why) -> bool {
        let was_in_use = self.why.swap(why.code(), Ordering::AcqRel) == 0;
        if was_in_use {
            self.since_ms.store(now_ms, Ordering::Relaxed);
            self.times_out.fetch_add(1, Ordering::Relaxed);
        }
        was_in_use
    }

    /// It was heard from; whether it had failed before.
    pub(crate) fn heard(&self, now_ms: u64) -> bool {
        let has_returned = self.is_out() && self.why.swap(0, Ordering::AcqRel) != 0;
        if has_returned {
            self.since_ms.store(now_ms, Ordering::Relaxed);
        }
        has_returned
    }

    pub(crate) fn pinged(&self, now_ms: u64, is_good: bool) {
        match is_good {
            true => {
                self.heard_ms.store(now_ms + 1, Ordering::Relaxed);
                self.pings_good.fetch_add(1, Ordering::Relaxed);
            }
            false => _ = self.pings_failed.fetch_add(1, Ordering::Relaxed),
        }
    }

    fn shown(&self, now_ms: u64) -> Shown {
        let heard_ms = self.heard_ms.load(Ordering::Relaxed).checked_sub(1);
        let why = Why::of(self.why.load(Ordering::Acquire));
        let since_ms = self.since_ms.load(Ordering::Relaxed);
        Shown {
            address: self.address,
            why,
            out_ms: why.map(|_| now_ms.saturating_sub(since_ms)),
            is_drained: self.is_drained.load(Ordering::Relaxed),
            heard_ago_ms: heard_ms.map(|heard_ms| now_ms.saturating_sub(heard_ms)),
            times_out: self.times_out.load(Ordering::Relaxed),
            pings_good: self.pings_good.load(Ordering::Relaxed),
            pings_failed: self.pings_failed.load(Ordering::Relaxed),
        }
    }
}

/// How an engine is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Where it is.
    pub address: SocketAddr,
    /// What is held against it; none while calls go to it.
    pub why: Option<Why>,
    /// For how long that has been so; none while calls go to it.
    pub out_ms: Option<u64>,
    /// Whether it gets no calls that begin.
    pub is_drained: bool,
    /// How long ago it answered a ping; none before the first.
    pub heard_ago_ms: Option<u64>,
    /// How often it was found gone.
    pub times_out: u64,
    /// Pings that it answered.
    pub pings_good: u64,
    /// Pings that it did not.
    pub pings_failed: u64,
}

/// All engines of a process: what one worker finds out of one, all know. It outlives a reload.
#[derive(Debug, Default)]
pub struct SharedEngines(Mutex<Vec<Arc<Engine>>>);

impl SharedEngines {
    /// The engine at that address. Those that are nobody's any more are forgotten for another.
    pub(crate) fn at(&self, address: SocketAddr) -> Arc<Engine> {
        let mut known = self.lock();
        if let Some(engine) = known.iter().find(|of| of.address == address) {
            return Arc::clone(engine);
        }
        if known.len() >= KNOWN_MAX {
            known.retain(|engine| Arc::strong_count(engine) > 1);
        }
        let engine = Arc::new(Engine::new(address));
        known.push(Arc::clone(&engine));
        engine
    }

    /// How those at these addresses are, in that order.
    pub fn shown(&self, addresses: &[SocketAddr], now_ms: u64) -> Vec<Shown> {
        let of = |address: &SocketAddr| self.at(*address).shown(now_ms);
        addresses.iter().map(of).collect()
    }

    /// How those are that are in some client's configuration.
    pub fn in_use(&self, now_ms: u64) -> Vec<Shown> {
        let known = self.lock();
        let used = known.iter().filter(|of| Arc::strong_count(of) > 1);
        used.map(|engine| engine.shown(now_ms)).collect()
    }

    /// Has an engine get no calls that begin, or ends that; whether it was otherwise before.
    pub fn drain(&self, address: SocketAddr, is_drained: bool) -> bool {
        let engine = self.at(address);
        engine.is_drained.swap(is_drained, Ordering::Relaxed) != is_drained
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Engine>>> {
        // The list is whole whenever its lock is free.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(port: u16) -> SocketAddr {
        ([127, 0, 0, 1], port).into()
    }

    #[test]
    fn an_engine_is_called_the_same_by_all() {
        let mapped: SocketAddr = "[::ffff:127.0.0.1]:2223".parse().unwrap();
        assert_eq!(EngineId::of(at(2223)), EngineId::of(mapped));
        assert_ne!(EngineId::of(at(2223)), EngineId::of(at(2224)));
    }

    #[test]
    fn what_befalls_an_engine_is_told_once() {
        let shared = SharedEngines::default();
        let engine = shared.at(at(1));
        assert!(engine.takes_calls());
        assert!(!engine.heard(5), "it had not failed");
        assert!(engine.failed(10, Why::Silent));
        assert!(!engine.failed(11, Why::Unreachable), "it had failed before");
        assert!(!shared.at(at(1)).takes_calls());
        let shown = shared.shown(&[at(1)], 30);
        assert_eq!(shown[0].why, Some(Why::Unreachable));
        assert_eq!((shown[0].out_ms, shown[0].times_out), (Some(20), 1));
        assert!(engine.heard(40) && !engine.heard(41));
        engine.pinged(50, true);
        engine.pinged(60, false);
        let shown = shared.shown(&[at(1)], 60)[0];
        assert_eq!((shown.why, shown.out_ms), (None, None));
        assert_eq!(shown.heard_ago_ms, Some(10));
        assert_eq!((shown.pings_good, shown.pings_failed), (1, 1));
    }

    #[test]
    fn an_engine_that_is_drained_gets_no_calls() {
        let shared = SharedEngines::default();
        let engine = shared.at(at(1));
        assert!(shared.drain(at(1), true) && !shared.drain(at(1), true));
        assert!(!engine.takes_calls() && !engine.is_out());
        assert!(shared.drain(at(1), false));
        assert!(engine.takes_calls());
    }

    #[test]
    fn engines_that_are_nobodys_make_room() {
        let shared = SharedEngines::default();
        let kept = shared.at(at(1));
        kept.failed(1, Why::Silent);
        for port in 2..1_000 {
            shared.at(at(port));
        }
        assert!(shared.lock().len() <= KNOWN_MAX);
        assert!(shared.at(at(1)).is_out(), "somebody has it");
        let shown = shared.in_use(1);
        assert_eq!(shown.len(), 1);
        assert_eq!(shown[0].address, at(1));
    }
}
