//! Overload: a worker that falls behind refuses what begins, and finishes what
//! has begun.
//!
//! # The signal
//! A worker keeps up if it finds its sockets empty now and then. One that has
//! found more to read after each of its turns for [`QUEUE_MS`] has a standing
//! queue, however long the single message waited; a burst, or a process that
//! the kernel holds to a quota and lets run once in a period, has none. The
//! other signal is memory.
//!
//! # The law
//! Both become one number, the severity: 0 when all is well, and with each
//! whole step up a class is let in half as often. It rises faster the longer
//! the queue stands; once the queue is gone a part of the rise stays, and sinks
//! slowly at first and then faster until a queue stands again. So a backlog is worked
//! off at once, and what can be done is found by halves. The
//! classes follow each other: what registers for the first time is halved first, new work
//! [`NEW_WORK_AT`] steps later, what was half let in [`LET_IN_AT`] steps later.
//! Responses, ACK, CANCEL and requests within a dialog are never refused.
//!
//! A flood that begins nothing (noise, stray responses) keeps the sockets full
//! as well, and refusing calls would not help against it. So the severity
//! rises only while what was let in is a fair part of what was handled.

mod gate;
#[cfg(test)]
mod tests;

pub use gate::{Class, Gate};

/// How often the shares change.
pub const INTERVAL_MS: u64 = 100;
/// A queue that was not seen empty for so long stands.
pub const QUEUE_MS: u64 = 100;
/// The severity from which on new work is let in less often.
pub const NEW_WORK_AT: f32 = 3.0;
/// The severity from which on what was challenged before is let in less often.
pub const LET_IN_AT: f32 = 9.0;
/// There is no more than this.
const SEVERITY_MAX: f32 = 24.0;
/// The first step up; each in a row is twice as high.
const RISE_FIRST: f32 = 0.12;
const RISE_MAX: f32 = 1.0;
/// How much of what was added stays when the queue is gone.
const KEPT: f32 = 0.4;
/// A step down; twice as much after each [`FALL_DOUBLES_IN`] of them.
const FALL: f32 = 0.03;
const FALL_DOUBLES_IN: u32 = 8;
const FALL_MAX: f32 = 0.5;
/// One message in so many must begin something for a refusal to help.
const MESSAGES_PER_BEGUN_MAX: u64 = 24;
/// The share of the memory from which on less is let in, and at which next to nothing is.
const PRESSURE_FROM: f32 = 0.6;
const PRESSURE_FULL: f32 = 0.8;

/// A share of all, in 65,536ths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share(u32);

impl Share {
    /// Everything.
    pub const ALL: Self = Self(1 << 16);
    /// Nothing.
    pub const NONE: Self = Self(0);

    fn halved(times: f32) -> Self {
        let share = (-times.max(0.0)).exp2() * 65_536.0;
        // Never quite nothing: what is let in tells how things stand.
        Self((share as u32).clamp(1, 65_536))
    }

    /// In 65,536ths.
    pub const fn parts(self) -> u32 {
        self.0
    }

    /// In percent, rounded down.
    pub const fn percent(self) -> u32 {
        self.0 * 100 / 65_536
    }

    /// As a threshold for a random number of 32 bits, which passes below it.
    pub const fn threshold(self) -> u32 {
        match self.0 {
            65_536.. => u32::MAX,
            parts => parts << 16,
        }
    }

    /// So many times as much, at most all.
    fn times(self, factor: f32) -> Self {
        Self(((self.0 as f32 * factor) as u32).clamp(1, 65_536))
    }

    /// What must be let in of `of`, so that in all it is `self`.
    fn within(self, of: Self) -> Self {
        let share = (u64::from(self.0) << 16) / u64::from(of.0.max(1));
        Self(u32::try_from(share).unwrap_or(65_536).min(65_536))
    }
}

/// How much of each class is let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// Registrations of users that have no contact.
    pub first_registration: Share,
    /// Whatever else begins something.
    pub new_work: Share,
    /// What renews a registration, or answers a challenge.
    pub let_in: Share,
}

impl Shares {
    /// All is let in.
    pub const ALL: Self = Self {
        first_registration: Share::ALL,
        new_work: Share::ALL,
        let_in: Share::ALL,
    };

    /// Those of a severity.
    pub fn at(severity: f32) -> Self {
        if severity <= 0.0 {
            return Self::ALL;
        }
        Self {
            first_registration: Share::halved(severity),
            new_work: Share::halved(severity - NEW_WORK_AT),
            let_in: Share::halved(severity - LET_IN_AT),
        }
    }

    /// Whether nothing is refused.
    pub fn is_all(&self) -> bool {
        *self == Self::ALL
    }

    /// The smaller of each.
    #[must_use]
    pub fn min(&self, other: &Self) -> Self {
        Self {
            first_registration: self.first_registration.min(other.first_registration),
            new_work: self.new_work.min(other.new_work),
            let_in: self.let_in.min(other.let_in),
        }
    }

    /// What may come to the worker at all, where the kernel can drop the rest:
    /// somewhat more than is let in, so that some can be told that it is
    /// refused. What follows a challenge cannot be told apart there.
    #[must_use]
    pub fn offered(&self) -> Self {
        /// What is read beyond what is let in: to be refused in words.
        const ROOM: f32 = 1.3;
        Self {
            first_registration: self.first_registration.times(ROOM),
            new_work: self.new_work.times(ROOM),
            let_in: Share::ALL,
        }
    }

    /// The shares of what has passed `offered` already.
    #[must_use]
    pub fn within(&self, offered: &Self) -> Self {
        Self {
            first_registration: self.first_registration.within(offered.first_registration),
            new_work: self.new_work.within(offered.new_work),
            let_in: self.let_in.within(offered.let_in),
        }
    }
}

/// What a worker says of itself at the end of a turn.
#[derive(Clone, Copy, Debug, Default)]
pub struct Signals {
    /// Whether its sockets have nothing more to read.
    pub is_drained: bool,
    /// Messages that it has handled since it began.
    pub handled: u64,
    /// Requests among them that it let begin something.
    pub begun: u64,
    /// The share of its memory that is taken, 0 to 1.
    pub pressure: f32,
}

/// The controller of one worker.
#[derive(Debug)]
pub struct Controller {
    /// What was found to be right.
    base: f32,
    /// What is added until the queue is gone.
    extra: f32,
    /// Both together, or what memory asks for.
    severity: f32,
    rise: f32,
    calm: u32,
    /// Since when the queue was not seen empty.
    behind_since_ms: Option<u64>,
    was_drained: bool,
    looked_ms: u64,
    handled: u64,
    begun: u64,
    queue_ms: u64,
    shares: Shares,
}

impl Controller {
    /// One that takes a queue as standing after `queue_ms`; 0 is never.
    pub fn new(queue_ms: u64) -> Self {
        Self {
            base: 0.0,
            extra: 0.0,
            severity: 0.0,
            rise: RISE_FIRST,
            calm: 0,
            behind_since_ms: None,
            was_drained: true,
            looked_ms: 0,
            handled: 0,
            begun: 0,
            queue_ms,
            shares: Shares::ALL,
        }
    }

    /// What is let in now.
    pub fn shares(&self) -> Shares {
        self.shares
    }

    /// How bad it is: 0 is well, and each whole number halves a class.
    pub fn severity(&self) -> f32 {
        self.severity
    }

    /// A turn is over. Gives the shares where an interval is, changed or not.
    pub fn turn(&mut self, now_ms: u64, signals: &Signals) -> Option<Shares> {
        if signals.is_drained {
            self.behind_since_ms = None;
            self.was_drained = true;
        } else if self.behind_since_ms.is_none() {
            self.behind_since_ms = Some(now_ms);
        }
        if now_ms < self.looked_ms.saturating_add(INTERVAL_MS) {
            return None;
        }
        let passed = (now_ms - self.looked_ms) / INTERVAL_MS;
        self.looked_ms = now_ms;
        let stands = self.queue_ms > 0
            && self
                .behind_since_ms
                .is_some_and(|since_ms| now_ms >= since_ms.saturating_add(self.queue_ms));
        let handled = signals.handled.saturating_sub(self.handled);
        let begun = signals.begun.saturating_sub(self.begun);
        (self.handled, self.begun) = (signals.handled, signals.begun);
        let would_help = begun.saturating_mul(MESSAGES_PER_BEGUN_MAX) >= handled;
        if stands && would_help {
            self.extra += self.rise;
            self.rise = (self.rise * 2.0).min(RISE_MAX);
            self.calm = 0;
        } else if stands {
            self.base -= FALL;
            self.extra -= FALL;
        } else if self.was_drained {
            self.rise = RISE_FIRST;
            if self.extra > 0.0 {
                self.base += self.extra * KEPT;
                self.extra = 0.0;
            } else {
                self.base -= fall(self.calm) * passed.min(1_000) as f32;
                self.calm = self.calm.saturating_add(1);
            }
        }
        self.was_drained = self.behind_since_ms.is_none();
        self.base = self.base.clamp(0.0, SEVERITY_MAX);
        self.extra = self.extra.clamp(0.0, SEVERITY_MAX - self.base);
        let own = self.base + self.extra;
        self.severity = own.max(of_pressure(signals.pressure));
        self.shares = Shares::at(self.severity);
        Some(self.shares)
    }
}

/// The step down after so many intervals without a queue that stands.
fn fall(calm: u32) -> f32 {
    (FALL * ((calm / FALL_DOUBLES_IN) as f32).exp2()).min(FALL_MAX)
}

/// The severity that memory alone asks for.
fn of_pressure(pressure: f32) -> f32 {
    let above = (pressure - PRESSURE_FROM) / (PRESSURE_FULL - PRESSURE_FROM);
    above.clamp(0.0, 1.0) * SEVERITY_MAX
}
