//! One thread of the handshake pool.

use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use mio::{Events, Interest, Poll, Token};
use slab::Slab;
use wheel::Wheel;

use super::job::{Handshake, Outcome, Stage};
use super::{
    Class, Figures, HandshakeConfig, HandshakeError, HandshakeFailure, Handshaken, Job, Secured,
    WAKER,
};
use crate::clock;
use crate::sys::thread_cpu_time;
use crate::waker::Waker;

/// Bytes read at a time: a record and its header.
const READ_BYTES: usize = 16_384 + 256;
/// Handshakes that have their turn before the sockets are looked at again: a
/// few milliseconds of either class. Some full ones are among them however
/// many resume, since a session can be resumed by whoever recorded it.
const RESUMED_MAX: usize = 32;
const FULL_MAX: usize = 4;

/// One thread of the pool.
pub(super) struct Worker {
    poll: Poll,
    inbox: Receiver<Job>,
    waker: Waker,
    jobs: Slab<Handshake>,
    /// Tells a job from one that had its place before.
    serial: u64,
    wheel: Wheel<(usize, u64)>,
    resumed: VecDeque<(usize, u64)>,
    full: VecDeque<(usize, u64)>,
    pace: Pace,
    figures: Arc<Figures>,
    config: HandshakeConfig,
    scratch: Vec<u8>,
}

impl Worker {
    pub(super) fn new(
        poll: Poll,
        inbox: Receiver<Job>,
        waker: Waker,
        figures: Arc<Figures>,
        config: HandshakeConfig,
    ) -> Self {
        Self {
            poll,
            inbox,
            waker,
            jobs: Slab::new(),
            serial: 0,
            wheel: Wheel::with_tick(clock::now_ms(), 100),
            resumed: VecDeque::new(),
            full: VecDeque::new(),
            pace: Pace::new(config.full_per_s_max, config.threads),
            figures,
            config,
            scratch: vec![0; READ_BYTES],
        }
    }

    pub(super) fn run(mut self) {
        let mut events = Events::with_capacity(256);
        let mut again: Vec<usize> = Vec::new();
        loop {
            let wait = if again.is_empty() {
                self.wait_at_most()
            } else {
                Some(Duration::ZERO)
            };
            if let Err(error) = self.poll.poll(&mut events, wait)
                && error.kind() != io::ErrorKind::Interrupted
            {
                tracing::error!(%error, "the handshake thread cannot wait for its sockets and ends");
                return;
            }
            self.waker.woken();
            let mut next = std::mem::take(&mut again);
            next.extend(
                events
                    .iter()
                    .map(|event| event.token().0)
                    .filter(|token| *token != WAKER.0),
            );
            for key in next {
                if self.drive(key) {
                    again.push(key);
                }
            }
            loop {
                match self.inbox.try_recv() {
                    Ok(job) => {
                        if let Some(key) = self.begin(job)
                            && self.drive(key)
                        {
                            again.push(key);
                        }
                    }
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return,
                }
            }
            self.run_queues(&mut again);
            let mut late = Vec::new();
            self.wheel.advance(clock::now_ms(), |key| late.push(key));
            for (key, serial) in late {
                if self.is_current(key, serial) {
                    self.end(key, Err(HandshakeError::new(HandshakeFailure::TimedOut)));
                }
            }
        }
    }

    fn wait_at_most(&self) -> Option<Duration> {
        if !self.resumed.is_empty() {
            return Some(Duration::ZERO);
        }
        let due = self
            .wheel
            .next_deadline_ms()
            .map(|due| Duration::from_millis(due.saturating_sub(clock::now_ms())));
        if self.full.is_empty() {
            return due;
        }
        let turn = self.pace.wait(Instant::now());
        Some(due.map_or(turn, |due| due.min(turn)))
    }

    /// Those whose ClientHello was read have their turn: first the cheap ones.
    fn run_queues(&mut self, again: &mut Vec<usize>) {
        for class in [Class::Resumed, Class::Full] {
            let turns = match class {
                Class::Resumed => RESUMED_MAX,
                Class::Full => FULL_MAX,
            };
            for _ in 0..turns {
                if class == Class::Full && !self.pace.wait(Instant::now()).is_zero() {
                    break;
                }
                let Some((key, serial)) = self.queue(class).pop_front() else {
                    break;
                };
                // One that ended while it waited left its place in the queue.
                if !self.is_current(key, serial) {
                    continue;
                }
                Figures::of(&self.figures.waiting, class).fetch_sub(1, Ordering::Relaxed);
                Figures::of(&self.figures.begun, class).fetch_add(1, Ordering::Relaxed);
                if class == Class::Full {
                    self.pace.take(Instant::now());
                }
                if let Some(job) = self.jobs.get_mut(key) {
                    job.have_turn();
                }
                if self.drive(key) {
                    again.push(key);
                }
            }
        }
    }

    /// Those that ended while they waited leave their places in the queue, but
    /// no more of them than there may be others.
    fn forget_gone(&mut self, class: Class, max: usize) {
        if self.queue(class).len() > max.saturating_mul(2).saturating_add(64) {
            let mut queue = std::mem::take(self.queue(class));
            queue.retain(|(key, serial)| self.is_current(*key, *serial));
            *self.queue(class) = queue;
        }
    }

    fn queue(&mut self, class: Class) -> &mut VecDeque<(usize, u64)> {
        match class {
            Class::Full => &mut self.full,
            Class::Resumed => &mut self.resumed,
        }
    }

    fn is_current(&self, key: usize, serial: u64) -> bool {
        self.jobs.get(key).is_some_and(|job| job.serial == serial)
    }

    /// Takes a job in.
    fn begin(&mut self, mut job: Job) -> Option<usize> {
        let key = self.jobs.vacant_key();
        let interest = Interest::READABLE | Interest::WRITABLE;
        let registered = self
            .poll
            .registry()
            .register(&mut job.socket, Token(key), interest);
        self.serial += 1;
        let mut handshake = Handshake::new(job, self.serial);
        let timeout_ms = match handshake.stage {
            Stage::Hello => self.config.hello_timeout_ms.min(self.config.timeout_ms),
            _ => self.config.timeout_ms,
        };
        handshake.timer = self
            .wheel
            .start(clock::now_ms() + timeout_ms, (key, self.serial));
        self.jobs.insert(handshake);
        if registered.is_err() {
            self.end(key, Err(HandshakeError::new(HandshakeFailure::Broken)));
            return None;
        }
        Some(key)
    }

    /// Goes on with a handshake; gives whether its turn ended before it had to wait.
    fn drive(&mut self, key: usize) -> bool {
        let Some(job) = self.jobs.get_mut(key) else {
            return false;
        };
        let before = thread_cpu_time().unwrap_or_default();
        let outcome = job.drive(&mut self.scratch);
        let after = thread_cpu_time().unwrap_or_default();
        let used = u64::try_from(after.saturating_sub(before).as_nanos()).unwrap_or(0);
        job.cpu_ns += used;
        self.figures.cpu_ns.fetch_add(used, Ordering::Relaxed);
        match outcome {
            Outcome::Waits => return false,
            Outcome::Again => return true,
            Outcome::Queue(class) => self.enqueue(key, class),
            Outcome::Done => self.end(key, Ok(())),
            Outcome::Cut => self.end(key, Err(HandshakeError::new(HandshakeFailure::Cut))),
            Outcome::Failed(error) => {
                tracing::debug!(%error, "a TLS handshake failed");
                self.end(key, Err(error));
            }
        }
        false
    }

    /// The ClientHello of a handshake was read: it waits for its turn, or is
    /// refused.
    fn enqueue(&mut self, key: usize, class: Class) {
        let max = match class {
            Class::Full => self.config.full_queue_max,
            Class::Resumed => self.config.resumed_queue_max,
        };
        let waiting = Figures::of(&self.figures.waiting, class);
        if waiting.fetch_add(1, Ordering::Relaxed) >= max as u64 {
            waiting.fetch_sub(1, Ordering::Relaxed);
            Figures::of(&self.figures.refused, class).fetch_add(1, Ordering::Relaxed);
            if let Some(job) = self.jobs.get_mut(key) {
                job.reset();
            }
            self.end(key, Err(HandshakeError::new(HandshakeFailure::Refused)));
            return;
        }
        let Some(job) = self.jobs.get_mut(key) else {
            return;
        };
        job.stage = Stage::Queued(class);
        let serial = job.serial;
        self.wheel.cancel(job.timer);
        let deadline = clock::now_ms() + self.config.timeout_ms;
        job.timer = self.wheel.start(deadline, (key, serial));
        self.queue(class).push_back((key, serial));
        self.forget_gone(class, max);
    }

    /// A handshake is over: what is left of it goes back to its owner.
    fn end(&mut self, key: usize, result: Result<(), HandshakeError>) {
        let Some(mut job) = self.jobs.try_remove(key) else {
            return;
        };
        self.wheel.cancel(job.timer);
        if let Stage::Queued(class) = job.stage {
            Figures::of(&self.figures.waiting, class).fetch_sub(1, Ordering::Relaxed);
        }
        let released = self.poll.registry().deregister(&mut job.socket);
        let result =
            result.and(released.map_err(|_| HandshakeError::new(HandshakeFailure::Broken)));
        let (conn, reply, waker) = (job.conn, job.reply.clone(), job.waker.clone());
        let resumption_refused = job.context.refused.is_some();
        if let Some(source) = job.source {
            self.figures.leave(source);
        }
        let (wall_us, cpu_us) = (micros(job.begun.elapsed()), job.cpu_ns / 1_000);
        let result = match result.and_then(|()| job.finish()) {
            Ok((session, mut info)) => {
                self.figures.under_way.fetch_sub(1, Ordering::Relaxed);
                self.figures.done.fetch_add(1, Ordering::Relaxed);
                info.wall_us = wall_us;
                info.cpu_us = cpu_us;
                Ok(Box::new(Secured {
                    socket: job.socket,
                    session,
                    info,
                    plaintext: job.plaintext,
                    sealed: job.input,
                }))
            }
            Err(error) => {
                self.figures.count_failure(error.failure);
                Err(HandshakeError {
                    wall_us,
                    cpu_us,
                    ..error
                })
            }
        };
        let _ = reply.send(Handshaken {
            conn,
            resumption_refused,
            result,
        });
        waker.wake();
    }
}

/// How fast full handshakes are begun.
struct Pace {
    /// `None` for as fast as can be.
    gap: Option<Duration>,
    next: Option<Instant>,
}

impl Pace {
    fn new(per_s_max: u32, threads: usize) -> Self {
        let threads = u32::try_from(threads.max(1)).unwrap_or(u32::MAX);
        let gap = (per_s_max > 0).then(|| Duration::from_secs(1) * threads / per_s_max);
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

pub(super) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Whom a job is counted for.
pub(super) type Source = Option<IpAddr>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_handshakes_keep_their_distance() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut pace = Pace::new(100, 2);
        assert!(pace.wait(at(0)).is_zero());
        pace.take(at(0));
        assert_eq!(pace.wait(at(5)), Duration::from_millis(15));
        assert!(pace.wait(at(20)).is_zero());
        pace.take(at(25));
        assert_eq!(pace.wait(at(25)), Duration::from_millis(20));
        // What was not used is not saved up.
        pace.take(at(1_000));
        assert_eq!(pace.wait(at(1_000)), Duration::from_millis(20));
        let mut free = Pace::new(0, 1);
        free.take(at(0));
        assert!(free.wait(at(0)).is_zero());
    }
}
