//! Steps of handshakes that wait for a thread, and the threads that do them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sip_msg::ConnId;

use super::{Figures, HandshakeConfig};
use crate::fault::HandshakeError;
use crate::handshake::Handshake;

/// A step to be done, and where its result goes.
pub struct Step {
    /// Whose handshake it is.
    pub conn: ConnId,
    /// How far it is.
    pub handshake: Box<Handshake>,
    /// Whether it waits for the turn of a client's full handshake, which has
    /// not had it.
    pub is_first: bool,
    /// Takes the result, on the thread that computed it: to a worker that may be
    /// asleep, or have ended.
    pub reply: Reply,
}

/// Where the results of a worker's steps go.
pub type Reply = Arc<dyn Fn(Handshaken) + Send + Sync>;

/// A handshake back from a thread.
pub struct Handshaken {
    /// Whose handshake it is.
    pub conn: ConnId,
    /// How far it is now.
    pub handshake: Box<Handshake>,
    /// What came of the step.
    pub result: Result<(), HandshakeError>,
}

/// A step that waits for a thread or is with one. Dropped, it loses its place
/// in the queue, unless a thread has it already.
pub struct QueuedStep {
    ticket: Arc<AtomicU8>,
    is_first: bool,
    figures: Arc<Figures>,
}

impl QueuedStep {
    /// Whether it waits for the turn of its handshake.
    pub fn is_waiting(&self) -> bool {
        self.is_first && self.ticket.load(Ordering::Acquire) == WAITING
    }
}

impl Drop for QueuedStep {
    fn drop(&mut self) {
        if change(&self.ticket, GONE) && self.is_first {
            self.figures.full_waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Where a step stands. Whoever changes it from `WAITING` takes it off the
/// count of those that wait.
const WAITING: u8 = 0;
const TAKEN: u8 = 1;
const GONE: u8 = 2;

fn change(ticket: &AtomicU8, to: u8) -> bool {
    ticket
        .compare_exchange(WAITING, to, Ordering::AcqRel, Ordering::Acquire)
        .is_ok()
}

/// The steps that wait, of all workers.
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    come: Condvar,
    figures: Arc<Figures>,
    full_max: usize,
}

struct Waiting {
    /// Of handshakes that had their turn: the sooner they are done the sooner
    /// their places are free.
    begun: Line,
    first: Line,
    pace: Pace,
    closed: bool,
}

type Line = VecDeque<(Step, Arc<AtomicU8>)>;

/// What a thread is to do.
enum Turn {
    Do(Box<Step>),
    Wait(Option<Duration>),
    End,
}

impl Queue {
    pub(super) fn new(config: &HandshakeConfig, figures: Arc<Figures>) -> Self {
        Self {
            waiting: Mutex::new(Waiting {
                begun: Line::new(),
                first: Line::new(),
                pace: Pace::new(config.full_per_s_max),
                closed: false,
            }),
            come: Condvar::new(),
            figures,
            full_max: config.full_queue_max,
        }
    }

    pub(super) fn push(&self, step: Step) -> Result<QueuedStep, Step> {
        let is_first = step.is_first;
        let max = if is_first { self.full_max } else { usize::MAX };
        if is_first {
            let waiting = &self.figures.full_waiting;
            if waiting.fetch_add(1, Ordering::Relaxed) >= max as u64 {
                waiting.fetch_sub(1, Ordering::Relaxed);
                self.figures.refused_full.fetch_add(1, Ordering::Relaxed);
                return Err(step);
            }
        }
        let ticket = Arc::new(AtomicU8::new(WAITING));
        let away = QueuedStep {
            ticket: Arc::clone(&ticket),
            is_first,
            figures: Arc::clone(&self.figures),
        };
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let line = if is_first {
            &mut waiting.first
        } else {
            &mut waiting.begun
        };
        // Those that went away while they waited left their places behind,
        // but no more of them than there may be others.
        if line.len() > max.saturating_mul(2).saturating_add(64) {
            line.retain(|(_, ticket)| ticket.load(Ordering::Acquire) == WAITING);
        }
        line.push_back((step, ticket));
        drop(waiting);
        self.come.notify_one();
        Ok(away)
    }

    /// The threads end.
    pub(super) fn close(&self) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.closed = true;
        drop(waiting);
        self.come.notify_all();
    }

    /// What a thread of the pool does.
    pub(super) fn run(&self) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match waiting.turn(Instant::now(), &self.figures) {
                Turn::End => return,
                Turn::Wait(None) => {
                    waiting = self
                        .come
                        .wait(waiting)
                        .unwrap_or_else(PoisonError::into_inner);
                }
                Turn::Wait(Some(time)) => {
                    waiting = self
                        .come
                        .wait_timeout(waiting, time)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0;
                }
                Turn::Do(step) => {
                    drop(waiting);
                    self.step(*step);
                    waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    fn step(&self, step: Step) {
        let Step {
            conn,
            mut handshake,
            reply,
            ..
        } = step;
        let (result, cpu_ns) = handshake.step();
        self.figures.cpu_ns.fetch_add(cpu_ns, Ordering::Relaxed);
        reply(Handshaken {
            conn,
            handshake,
            result,
        });
    }
}

impl Waiting {
    /// Whose turn it is.
    fn turn(&mut self, now: Instant, figures: &Figures) -> Turn {
        if self.closed {
            return Turn::End;
        }
        if let Some(step) = take(&mut self.begun) {
            return Turn::Do(Box::new(step));
        }
        let pause = self.pace.wait(now);
        if pause.is_zero()
            && let Some(step) = take(&mut self.first)
        {
            self.pace.take(now);
            figures.full_waiting.fetch_sub(1, Ordering::Relaxed);
            figures.full_begun.fetch_add(1, Ordering::Relaxed);
            return Turn::Do(Box::new(step));
        }
        Turn::Wait((!self.first.is_empty()).then_some(pause))
    }
}

/// The first of a line that is still there.
fn take(line: &mut Line) -> Option<Step> {
    while let Some((mut step, ticket)) = line.pop_front() {
        if change(&ticket, TAKEN) {
            step.handshake.have_turn();
            return Some(step);
        }
    }
    None
}

/// How fast full handshakes are begun.
struct Pace {
    /// `None` for as fast as can be.
    gap: Option<Duration>,
    next: Option<Instant>,
}

impl Pace {
    fn new(per_s_max: u32) -> Self {
        let gap = (per_s_max > 0).then(|| Duration::from_secs(1) / per_s_max);
        Self { gap, next: None }
    }

    /// How long until the next may begin.
    fn wait(&self, now: Instant) -> Duration {
        self.next
            .map_or(Duration::ZERO, |next| next.saturating_duration_since(now))
    }

    fn take(&mut self, now: Instant) {
        if let Some(gap) = self.gap {
            self.next = Some(self.next.map_or(now, |next| next.max(now)) + gap);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_handshakes_keep_their_distance() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut pace = Pace::new(50);
        assert!(pace.wait(at(0)).is_zero());
        pace.take(at(0));
        assert_eq!(pace.wait(at(5)), Duration::from_millis(15));
        assert!(pace.wait(at(20)).is_zero());
        pace.take(at(25));
        assert_eq!(pace.wait(at(25)), Duration::from_millis(20));
        // What was not used is not saved up.
        pace.take(at(1_000));
        assert_eq!(pace.wait(at(1_000)), Duration::from_millis(20));
        let mut free = Pace::new(0);
        free.take(at(0));
        assert!(free.wait(at(0)).is_zero());
    }
}
