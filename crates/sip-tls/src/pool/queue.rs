//! Steps of handshakes that wait for a thread, and the threads that do them.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sip_msg::ConnId;

use super::line::{Line, Waiting};
use super::{Figures, HandshakeConfig};
use crate::fault::{HandshakeError, HandshakeFailure};
use crate::handshake::Handshake;

/// Of all full handshakes that may wait, the part that one source may have before its last gives
/// way to another's: 64 of as many as there are by default.
const SOURCE_PART: usize = 32;

/// A step to be done, and where its result goes.
pub struct Step {
    /// Whose handshake it is.
    pub conn: ConnId,
    /// Where its peer is: an IPv4 address, an IPv6 /64.
    pub source: IpAddr,
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
    queue: Arc<Queue>,
    number: u64,
    is_first: bool,
    waits: Arc<AtomicBool>,
}

impl QueuedStep {
    /// Whether it waits for the turn of its handshake.
    pub fn is_waiting(&self) -> bool {
        self.is_first && self.waits.load(Ordering::Acquire)
    }
}

impl Drop for QueuedStep {
    fn drop(&mut self) {
        if self.waits.load(Ordering::Acquire) {
            self.queue.take_out(self.is_first, self.number);
        }
    }
}

/// The steps that wait, of all workers.
pub(super) struct Queue {
    lines: Mutex<Lines>,
    come: Condvar,
    figures: Arc<Figures>,
    full_max: usize,
}

struct Lines {
    /// Of handshakes that had their turn: the sooner they are done the sooner
    /// their places are free.
    begun: Line,
    first: Line,
    /// Steps that ever came.
    numbered: u64,
    pace: Pace,
    closed: bool,
}

/// What a thread is to do.
enum Turn {
    Do(Box<Step>),
    Wait(Option<Duration>),
    End,
}

impl Queue {
    pub(super) fn new(config: &HandshakeConfig, figures: Arc<Figures>) -> Self {
        Self {
            lines: Mutex::new(Lines {
                begun: Line::default(),
                first: Line::default(),
                numbered: 0,
                pace: Pace::new(config.full_per_s_max),
                closed: false,
            }),
            come: Condvar::new(),
            figures,
            full_max: config.full_queue_max,
        }
    }

    /// Takes a step in. Where too many full handshakes wait, the last of the source that has
    /// most of them gives way, or this one does.
    pub(super) fn push(self: &Arc<Self>, step: Step) -> Result<QueuedStep, Step> {
        let is_first = step.is_first;
        let waits = Arc::new(AtomicBool::new(true));
        let mut displaced = None;
        let mut lines = self.lock();
        if is_first && lines.first.len() >= self.full_max {
            self.figures.refused_full.fetch_add(1, Ordering::Relaxed);
            displaced = lines
                .first
                .give_way(step.source, self.full_max / SOURCE_PART);
            if displaced.is_none() {
                return Err(step);
            }
        }
        lines.numbered += 1;
        let queued = QueuedStep {
            queue: Arc::clone(self),
            number: lines.numbered,
            is_first,
            waits: Arc::clone(&waits),
        };
        let line = lines.line(is_first);
        line.put(queued.number, Waiting { step, waits });
        lines.tell(&self.figures);
        drop(lines);
        self.come.notify_one();
        if let Some(displaced) = displaced {
            displaced.refuse();
        }
        Ok(queued)
    }

    /// Nobody waits for the result of a step any more.
    fn take_out(&self, is_first: bool, number: u64) {
        let mut lines = self.lock();
        let step = lines.line(is_first).take_out(number);
        lines.tell(&self.figures);
        drop(lines);
        // A session is freed with it.
        drop(step);
    }

    /// The threads end.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.come.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a thread of the pool does.
    pub(super) fn run(&self) {
        let mut lines = self.lock();
        loop {
            match lines.turn(Instant::now(), &self.figures) {
                Turn::End => return,
                Turn::Wait(None) => {
                    lines = self
                        .come
                        .wait(lines)
                        .unwrap_or_else(PoisonError::into_inner);
                }
                Turn::Wait(Some(time)) => {
                    lines = self
                        .come
                        .wait_timeout(lines, time)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0;
                }
                Turn::Do(step) => {
                    drop(lines);
                    self.step(*step);
                    lines = self.lock();
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

impl Step {
    /// It gave its place to another.
    fn refuse(self) {
        (self.reply)(Handshaken {
            conn: self.conn,
            handshake: self.handshake,
            result: Err(HandshakeError::new(HandshakeFailure::Refused)),
        });
    }
}

impl Lines {
    fn line(&mut self, is_first: bool) -> &mut Line {
        if is_first {
            &mut self.first
        } else {
            &mut self.begun
        }
    }

    /// Tells how many wait.
    fn tell(&self, figures: &Figures) {
        let waiting = self.first.len() as u64;
        figures.full_waiting.store(waiting, Ordering::Relaxed);
    }

    /// Whose turn it is.
    fn turn(&mut self, now: Instant, figures: &Figures) -> Turn {
        if self.closed {
            return Turn::End;
        }
        if let Some(mut step) = self.begun.take_first() {
            step.handshake.have_turn();
            return Turn::Do(Box::new(step));
        }
        let pause = self.pace.wait(now);
        if pause.is_zero()
            && let Some(mut step) = self.first.take_first()
        {
            step.handshake.have_turn();
            self.pace.take(now);
            self.tell(figures);
            figures.full_begun.fetch_add(1, Ordering::Relaxed);
            return Turn::Do(Box::new(step));
        }
        Turn::Wait((self.first.len() > 0).then_some(pause))
    }
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
    use std::sync::mpsc::{Receiver, channel};

    use super::*;
    use crate::handshake::Side;
    use crate::server::ServerTls;
    use crate::testing::TestCa;

    /// A queue without threads, and the results that workers got.
    struct Bench {
        queue: Arc<Queue>,
        tls: Arc<ServerTls>,
        reply: Reply,
        replies: Receiver<Handshaken>,
    }

    impl Bench {
        fn new(full_queue_max: usize) -> Self {
            let (chain, key) = TestCa::new().issue(&["example.com"]);
            let tls = ServerTls::from_pem(&[(chain.as_bytes(), key.as_bytes())]).unwrap();
            let config = HandshakeConfig {
                full_queue_max,
                ..HandshakeConfig::default()
            };
            let (send, replies) = channel();
            Self {
                queue: Arc::new(Queue::new(&config, Arc::default())),
                tls: Arc::new(tls),
                reply: Arc::new(move |done| send.send(done).unwrap()),
                replies,
            }
        }

        /// The first step of a client's full handshake, whose connection has this number.
        fn push(&self, number: u64, source: u8) -> Option<QueuedStep> {
            self.push_as(number, source, true)
        }

        fn push_as(&self, number: u64, source: u8, is_first: bool) -> Option<QueuedStep> {
            let source = IpAddr::from([192, 0, 2, source]);
            let side = Side::Server(Arc::clone(&self.tls));
            let step = Step {
                conn: ConnId(number),
                source,
                handshake: Box::new(Handshake::new(side, (source, 5061).into())),
                is_first,
                reply: Arc::clone(&self.reply),
            };
            self.queue.push(step).ok()
        }

        /// Who is served next.
        fn turn(&self) -> Option<u64> {
            let turn = self.queue.lock().turn(Instant::now(), &self.queue.figures);
            match turn {
                Turn::Do(step) => Some(step.conn.0),
                _ => None,
            }
        }

        fn waiting(&self) -> u64 {
            self.queue.figures.full_waiting.load(Ordering::Relaxed)
        }
    }

    /// Else one address has the handshakes of all others refused by saying many hellos at once.
    #[test]
    fn the_source_that_waits_with_most_gives_a_place_up() {
        let bench = Bench::new(64);
        let mut flood: Vec<_> = (0..64).map(|n| bench.push(100 + n, 9).unwrap()).collect();
        // It has most itself.
        assert!(bench.push(200, 9).is_none());
        let others: Vec<_> = (1..=8).map(|n| bench.push(n, n as u8).unwrap()).collect();
        let gone: Vec<_> = bench.replies.try_iter().collect();
        let numbers: Vec<_> = gone.iter().map(|gone| gone.conn.0).collect();
        // Its last ones.
        assert_eq!(numbers, [163, 162, 161, 160, 159, 158, 157, 156]);
        let is_refused = |gone: &Handshaken| {
            gone.result
                .as_ref()
                .is_err_and(|error| error.failure == HandshakeFailure::Refused)
        };
        assert!(gone.iter().all(is_refused));
        for (place, step) in flood.iter().enumerate() {
            assert_eq!(step.is_waiting(), place < 56, "{place}");
        }
        assert_eq!(bench.waiting(), 64);
        let refused = bench.queue.figures.refused_full.load(Ordering::Relaxed);
        assert_eq!(refused, 9);
        // Who came first is served first, whoever that is.
        let turns: Vec<_> = (0..64).filter_map(|_| bench.turn()).collect();
        let expected: Vec<u64> = (100..156).chain(1..=8).collect();
        assert_eq!(turns, expected);
        assert!(others.iter().chain(&flood).all(|step| !step.is_waiting()));
        flood.clear();
        assert_eq!((bench.turn(), bench.waiting()), (None, 0));
    }

    /// An office is not to be refused for sources that have a few less each.
    #[test]
    fn who_waits_with_few_keeps_them_all() {
        let bench = Bench::new(64);
        let kept: Vec<_> = (0..64).map(|n| bench.push(n, (n / 2) as u8)).collect();
        assert!(kept.iter().all(Option::is_some));
        assert!(bench.push(100, 200).is_none());
        // One that has more is no longer one of these.
        drop(kept);
        let first: Vec<_> = (0..3).map(|n| bench.push(200 + n, 7)).collect();
        let others: Vec<_> = (0..61).map(|n| bench.push(n, 100 + n as u8)).collect();
        let new = bench.push(300, 200).unwrap();
        let gone = bench.replies.try_recv().unwrap();
        assert_eq!(gone.conn, ConnId(202));
        assert!(bench.push(301, 201).is_none());
        drop((first, others, new));
    }

    /// What waits for nobody would hold memory that nobody counts.
    #[test]
    fn nothing_is_kept_of_who_is_gone() {
        let bench = Bench::new(8);
        for is_first in [true, false] {
            for number in 0..100 {
                drop(bench.push_as(number, number as u8, is_first).unwrap());
            }
        }
        let held = |bench: &Bench| {
            let lines = bench.queue.lock();
            (lines.first.len(), lines.begun.len())
        };
        assert_eq!(held(&bench), (0, 0));
        let kept = [bench.push(1, 1), bench.push_as(2, 1, false)];
        assert_eq!((held(&bench), bench.waiting()), ((1, 1), 1));
        // Those that had their turn go first.
        assert_eq!([bench.turn(), bench.turn()], [Some(2), Some(1)]);
        drop(kept);
        assert_eq!((held(&bench), bench.waiting()), ((0, 0), 0));
    }

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
