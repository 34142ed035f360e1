//! Steps of handshakes that wait for a thread, and the threads that do them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sip_msg::ConnId;

use super::{Class, Figures, Handshake, HandshakeConfig};
use crate::tls::HandshakeError;
use crate::waker::Waker;

/// Resumptions that have their turn before a full handshake has, while both
/// wait. Some full ones are among them however many resume, since a session
/// can be resumed by whoever recorded it.
const RESUMED_MAX: usize = 8;

/// A step to be done, and where its result goes.
pub(crate) struct Step {
    pub(crate) conn: ConnId,
    pub(crate) handshake: Box<Handshake>,
    /// What it waits for: the turn of a client's handshake; `None` for one
    /// that had its turn.
    pub(crate) class: Option<Class>,
    pub(crate) reply: Sender<Handshaken>,
    pub(crate) waker: Waker,
}

/// A handshake back from a thread.
pub(crate) struct Handshaken {
    pub(crate) conn: ConnId,
    pub(crate) handshake: Box<Handshake>,
    pub(crate) result: Result<(), HandshakeError>,
}

/// A step that waits for a thread or is with one. Dropped, it loses its place
/// in the queue, unless a thread has it already.
pub(crate) struct Away {
    ticket: Arc<AtomicU8>,
    class: Option<Class>,
    figures: Arc<Figures>,
}

impl Away {
    /// Whether it waits for the turn of its handshake.
    pub(crate) fn is_waiting(&self) -> bool {
        self.class.is_some() && self.ticket.load(Ordering::Acquire) == WAITING
    }
}

impl Drop for Away {
    fn drop(&mut self) {
        if change(&self.ticket, GONE)
            && let Some(class) = self.class
        {
            Figures::of(&self.figures.waiting, class).fetch_sub(1, Ordering::Relaxed);
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
    resumed_max: usize,
}

struct Waiting {
    /// Of handshakes that had their turn: the sooner they are done the sooner
    /// their places are free.
    begun: Line,
    resumed: Line,
    full: Line,
    pace: Pace,
    /// Resumptions since the last full handshake.
    resumed_since: usize,
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
                resumed: Line::new(),
                full: Line::new(),
                pace: Pace::new(config.full_per_s_max),
                resumed_since: 0,
                closed: false,
            }),
            come: Condvar::new(),
            figures,
            full_max: config.full_queue_max,
            resumed_max: config.resumed_queue_max,
        }
    }

    pub(super) fn push(&self, step: Step) -> Result<Away, Step> {
        let class = step.class;
        let max = match class {
            Some(Class::Full) => self.full_max,
            Some(Class::Resumed) => self.resumed_max,
            None => usize::MAX,
        };
        if let Some(class) = class {
            let waiting = Figures::of(&self.figures.waiting, class);
            if waiting.fetch_add(1, Ordering::Relaxed) >= max as u64 {
                waiting.fetch_sub(1, Ordering::Relaxed);
                Figures::of(&self.figures.refused, class).fetch_add(1, Ordering::Relaxed);
                return Err(step);
            }
        }
        let ticket = Arc::new(AtomicU8::new(WAITING));
        let away = Away {
            ticket: Arc::clone(&ticket),
            class,
            figures: Arc::clone(&self.figures),
        };
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let line = waiting.line(class);
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
            waker,
            ..
        } = step;
        let (result, cpu_ns) = handshake.step();
        self.figures.cpu_ns.fetch_add(cpu_ns, Ordering::Relaxed);
        // The worker may have ended.
        let _ = reply.send(Handshaken {
            conn,
            handshake,
            result,
        });
        waker.wake();
    }
}

impl Waiting {
    fn line(&mut self, class: Option<Class>) -> &mut Line {
        match class {
            None => &mut self.begun,
            Some(Class::Resumed) => &mut self.resumed,
            Some(Class::Full) => &mut self.full,
        }
    }

    /// Whose turn it is.
    fn turn(&mut self, now: Instant, figures: &Figures) -> Turn {
        if self.closed {
            return Turn::End;
        }
        if let Some(step) = take(&mut self.begun) {
            return Turn::Do(Box::new(step));
        }
        let pause = self.pace.wait(now);
        let full_first =
            self.resumed_since >= RESUMED_MAX && pause.is_zero() && !self.full.is_empty();
        if !full_first && let Some(step) = take(&mut self.resumed) {
            self.resumed_since += 1;
            begin(figures, Class::Resumed);
            return Turn::Do(Box::new(step));
        }
        self.resumed_since = 0;
        if pause.is_zero()
            && let Some(step) = take(&mut self.full)
        {
            self.pace.take(now);
            begin(figures, Class::Full);
            return Turn::Do(Box::new(step));
        }
        if let Some(step) = take(&mut self.resumed) {
            begin(figures, Class::Resumed);
            return Turn::Do(Box::new(step));
        }
        Turn::Wait((!self.full.is_empty()).then_some(pause))
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

fn begin(figures: &Figures, class: Class) {
    Figures::of(&figures.waiting, class).fetch_sub(1, Ordering::Relaxed);
    Figures::of(&figures.begun, class).fetch_add(1, Ordering::Relaxed);
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
