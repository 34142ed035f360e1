//! Overload control: a worker that falls behind refuses new work, and finishes
//! what has begun.
//!
//! # Signals
//! The first signal is the queueing delay: how long messages wait in the socket before
//! they are read. For datagrams the kernel's time stamps tell; they are requested only
//! while there is a queue. For streams it is how long it takes until what was in the socket is
//! read; what waits with a sender, since a socket has only so much room, is not seen. So
//! for streams it counts too for how long the worker was never without something to do, up to
//! [`UNTOLD_MAX`] times the bound. Only a standing queue counts, the least delay over a while, so
//! that a burst counts for nothing, nor does a process that the kernel holds to a CPU
//! quota. The second signal is memory.
//!
//! # Control law
//! Both become one number, the severity: 0 when all is well, and each whole step up
//! halves the share of a class that is admitted. The queue is held at its bound and not
//! emptied: a server that waits for work while it refuses some does less than it could.
//! The excess over the bound raises the severity, by an integral part in each interval and
//! a proportional part while it lasts, so that the same law fits twice the capacity and
//! ten times. Without a queue the severity falls, slowly at first and then faster.
//!
//! A change of the shares shows only when what they admit has passed the queue. So there
//! is a brake beside them ([`Controller::brake`]), driven by the least delay of the last
//! two intervals.
//!
//! Classes are refused in order: first registrations are halved first, other new work
//! [`NEW_WORK_AT`] steps later, renewals and answers to challenges [`LET_IN_AT`] steps
//! later. Responses, ACK, CANCEL and requests within a dialog are never refused.
//!
//! A flood that begins nothing (noise, stray responses) fills the sockets as well, and
//! refusing calls does not help against it. So the severity rises only while new work is a
//! fair part of what was handled.

mod gate;
mod queue;
#[cfg(test)]
mod tests;

pub use gate::{Class, Gate};
use queue::Queue;

/// How often the shares change.
pub const INTERVAL_MS: u64 = 100;
/// The default bound of the queueing delay.
pub const QUEUE_MS: u64 = 100;
/// The severity above which less new work is admitted.
pub const NEW_WORK_AT: f32 = 3.0;
/// The severity above which fewer renewals and answers to challenges are admitted.
pub const LET_IN_AT: f32 = 9.0;
/// There is no more than this.
const SEVERITY_MAX: f32 = 24.0;
/// How many times its bound the queue is too long, at most, as far as the law goes.
const EXCESS_MAX: f32 = 4.0;
/// How many times its bound a queue is taken to be, at most, that nobody tells: for how long the
/// sockets were not empty says that there is too much, and not how much.
const UNTOLD_MAX: u64 = 3;
/// What is added in an interval for a queue of twice its bound, and for as long as
/// it is that long.
const RISE: f32 = 0.05;
const LIFT: f32 = 0.4;
/// The most that is added while what comes waits in the queue: only when it is read does
/// it tell whether it was enough.
const RISE_IN_QUEUE: f32 = 2.5;
/// How many times its bound the queue is when less is let in until it is shorter, and
/// when nothing new is. What is refused by it was read for nothing: a queue that sways
/// about its bound is the shares' to mend.
const BRAKE_FROM: f32 = 1.25;
const BRAKE_FULL: f32 = 2.5;
/// A step down; twice as much after each [`FALL_DOUBLES_IN`] of them.
const FALL: f32 = 0.06;
const FALL_DOUBLES_IN: u32 = 3;
const FALL_MAX: f32 = 0.3;
/// Intervals without a queue in which datagrams are still stamped.
const TIMED_FOR: u32 = 50;
/// One message in so many must begin something for a refusal to help.
const MESSAGES_PER_BEGUN_MAX: u64 = 24;
/// The share of the memory from which on less is let in, and at which next to nothing is.
const PRESSURE_FROM: f32 = 0.6;
const PRESSURE_FULL: f32 = 0.8;

/// A fraction, in 65,536ths.
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

    /// This share of a share; it may be nothing.
    fn of(self, other: Self) -> Self {
        Self(((u64::from(self.0) * u64::from(other.0)) >> 16) as u32)
    }

    /// Whether a sixteenth more or less is all that lies between them.
    const fn is_about(self, other: Self) -> bool {
        self.0.abs_diff(other.0) <= other.0 / 16
    }

    /// What must be let in of `of`, so that in all it is `self`.
    fn within(self, of: Self) -> Self {
        let share = (u64::from(self.0) << 16) / u64::from(of.0.max(1));
        Self(u32::try_from(share).unwrap_or(65_536).min(65_536))
    }
}

/// The share of each class that is admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// Registrations of users that have no contact.
    pub first_registration: Share,
    /// Other new work: calls, messages, subscriptions.
    pub new_work: Share,
    /// Renewals of registrations, and answers to challenges.
    pub let_in: Share,
}

impl Shares {
    /// Everything is admitted.
    pub const ALL: Self = Self {
        first_registration: Share::ALL,
        new_work: Share::ALL,
        let_in: Share::ALL,
    };

    /// The shares at a severity.
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

    /// What may reach the worker at all, where a filter in the kernel drops the rest:
    /// somewhat more than is admitted, so that some can be answered 503. Answers to
    /// challenges cannot be told apart there, and all pass.
    #[must_use]
    pub fn offered(&self) -> Self {
        /// Some more than is admitted, to be answered 503.
        const ROOM: f32 = 1.12;
        Self {
            first_registration: self.first_registration.times(ROOM),
            new_work: self.new_work.times(ROOM),
            let_in: Share::ALL,
        }
    }

    /// Whether they differ by so little that a filter for the one does for the other:
    /// [`Shares::offered`] leaves more room than that.
    pub const fn is_about(&self, other: &Self) -> bool {
        self.first_registration.is_about(other.first_registration)
            && self.new_work.is_about(other.new_work)
            && self.let_in.is_about(other.let_in)
    }

    /// The shares to apply to what has passed `offered` already.
    #[must_use]
    pub fn within(&self, offered: &Self) -> Self {
        Self {
            first_registration: self.first_registration.within(offered.first_registration),
            new_work: self.new_work.within(offered.new_work),
            let_in: self.let_in.within(offered.let_in),
        }
    }
}

/// The state of a worker at the end of a turn.
#[derive(Clone, Copy, Debug, Default)]
pub struct Signals {
    /// Whether its sockets have nothing more to read.
    pub is_drained: bool,
    /// How long the message that it read last had waited, in milliseconds, if known.
    pub waiting_ms: Option<u64>,
    /// Whether it may have waited for longer, where that cannot be seen.
    pub may_more_wait: bool,
    /// Messages that it has handled since it began, and keep-alives.
    pub handled: u64,
    /// New work among them, admitted or not.
    pub begun: u64,
    /// The share of its memory that is in use, 0 to 1.
    pub pressure: f32,
}

/// Recent traffic, by which it is judged whether refusing new work would help. One
/// interval alone does not tell: requests within dialogs come in bursts.
#[derive(Clone, Copy, Debug, Default)]
struct Recent {
    /// The counts at the last look.
    seen: (u64, u64),
    /// What came since, and of what came before a part that is less with each interval.
    handled: u64,
    begun: u64,
}

impl Recent {
    fn interval(&mut self, signals: &Signals) {
        let (handled, begun) = self.seen;
        self.seen = (signals.handled, signals.begun);
        self.handled = self.handled * 3 / 4 + signals.handled.saturating_sub(handled);
        self.begun = self.begun * 3 / 4 + signals.begun.saturating_sub(begun);
    }

    /// Whether enough of it was to begin something.
    const fn would_help(&self) -> bool {
        self.begun * MESSAGES_PER_BEGUN_MAX >= self.handled
    }
}

/// The controller of one worker.
#[derive(Debug)]
pub struct Controller {
    queue: Queue,
    /// What was found to be right.
    base: f32,
    /// With what the queue asks for beside that, or what memory asks for.
    severity: f32,
    calm: u32,
    recent: Recent,
    looked_ms: u64,
    queue_ms_max: u64,
    shares: Shares,
}

impl Controller {
    /// A controller that holds the queueing delay at `queue_ms_max`; 0 is no bound.
    pub fn new(queue_ms_max: u64) -> Self {
        Self {
            queue: Queue::default(),
            base: 0.0,
            severity: 0.0,
            calm: TIMED_FOR,
            recent: Recent::default(),
            looked_ms: 0,
            queue_ms_max,
            shares: Shares::ALL,
        }
    }

    /// The shares that are admitted now.
    pub fn shares(&self) -> Shares {
        self.shares
    }

    /// The severity of the overload: 0 is none, and each whole step halves a class.
    pub fn severity(&self) -> f32 {
        self.severity
    }

    /// Whether time stamps are worth their cost now ([`Signals::waiting_ms`]).
    pub fn wants_times(&self) -> bool {
        let is_behind = self.queue.behind_ms(self.looked_ms) >= INTERVAL_MS / 2;
        self.queue_ms_max > 0 && (is_behind || self.calm < TIMED_FOR)
    }

    /// How much of what the shares admit may be admitted at this moment. It follows the
    /// queue at once, where the shares take effect only after the queue has passed. Where
    /// noise is what keeps the queue long, it refuses nothing.
    pub fn brake(&self) -> Share {
        let max_ms = self.queue_ms_max as f32;
        let over = self.queue.waits_ms() as f32 / max_ms - BRAKE_FROM;
        let over = over / (BRAKE_FULL - BRAKE_FROM);
        if self.queue_ms_max == 0 || over <= 0.0 || !self.recent.would_help() {
            return Share::ALL;
        }
        Share(((1.0 - over.min(1.0)) * 65_536.0) as u32)
    }

    /// Takes the state at the end of a turn. Gives the shares at the end of each
    /// interval, changed or not.
    pub fn turn(&mut self, now_ms: u64, signals: &Signals) -> Option<Shares> {
        let most_untold_ms = self.queue_ms_max.saturating_mul(UNTOLD_MAX);
        self.queue.seen(now_ms, signals, most_untold_ms);
        let passed_ms = now_ms.saturating_sub(self.looked_ms);
        if passed_ms < INTERVAL_MS {
            return None;
        }
        self.looked_ms = now_ms;
        self.recent.interval(signals);
        let (queue_ms, is_falling) = self.queue.stands_ms();
        let would_help = self.recent.would_help();
        let excess = if self.queue_ms_max == 0 {
            -1.0
        } else {
            let max_ms = self.queue_ms_max as f32;
            ((queue_ms as f32 - max_ms) / max_ms).clamp(-1.0, EXCESS_MAX)
        };
        if excess > 0.0 && !would_help {
            self.base -= FALL;
        } else if queue_ms > 0 {
            // Far off, it goes faster, but no faster than the queue tells what came of it.
            let most = RISE_IN_QUEUE * INTERVAL_MS as f32 / queue_ms as f32;
            let change = (excess * RISE * (excess - 1.0).max(1.0)).min(most);
            if excess < 0.0 || !is_falling {
                self.base += change;
            }
            self.calm = 0;
        } else {
            let intervals = (passed_ms / INTERVAL_MS).min(1_000);
            self.base -= fall(self.calm) * intervals as f32;
            self.calm = self.calm.saturating_add(1);
        }
        self.base = self.base.clamp(0.0, SEVERITY_MAX);
        let lift = if would_help { excess * LIFT } else { 0.0 };
        let own = (self.base + lift).clamp(0.0, SEVERITY_MAX);
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
