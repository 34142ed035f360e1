//! Connections on which many questions are under way at once, for protocols that answer in
//! order (Redis) or by number (LDAP).
//!
//! A lane is one connection and the task that has it. The task connects when it is asked
//! first, and again when it is asked after an end, so whoever drops his question drops no
//! connection that others wait on: his answer is read and thrown away.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use sip_lookup::BatchFailure;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use zeroize::Zeroizing;

use crate::net::Stream;

/// Questions under way on one lane at most.
const LANE_DEPTH: usize = 64;

/// With so many under way on a lane another is opened, while there may be more.
const LANE_BUSY: usize = 16;

/// The most lanes: one does the work of most, since questions do not wait for answers.
const LANES_MAX: usize = 16;

/// A lane that has said nothing for so long, while it was asked, is passed over: it may be dead,
/// and a store that is back is found by another.
const SILENCE: Duration = Duration::from_millis(500);

/// After so long it makes room for another. Nobody waits for a statement any more by then
/// ([`sip_lookup::PipelineConfig`]).
const SILENCE_LONG: Duration = Duration::from_secs(2);

/// The most bytes of answers that are not whole yet.
const INPUT_MAX: usize = 8 << 20;

/// Bytes that are written at once.
const WRITE_AT_ONCE: usize = 64 << 10;

/// The largest number of a question: LDAP's message ids end there (RFC 4511 4.1.1).
const NUMBER_MAX: u32 = i32::MAX as u32;

/// How a protocol begins.
pub(crate) trait Protocol: 'static {
    /// What is asked.
    type Question: 'static;
    /// What is said to it.
    type Answer: 'static;
    /// What one connection has to remember.
    type Dialogue: Dialogue<Self::Question, Self::Answer>;

    /// Whether a question that may have been answered may be asked once more: it changes nothing.
    fn may_be_repeated(question: &Self::Question) -> bool;

    /// Connects and logs in.
    async fn begin(&self) -> Result<(Stream, Self::Dialogue), BatchFailure>;

    /// How long a question may be without its answer before the connection counts as dead.
    fn patience(&self) -> Duration;
}

/// One connection's side of a protocol, without the connection.
pub(crate) trait Dialogue<Q, A> {
    /// Writes a question. Numbers differ among those under way.
    fn write(&mut self, number: u32, question: &Q, out: &mut Vec<u8>);

    /// Takes the first message of `input`; an error ends the connection, and is the answer to
    /// all that wait. A refusal is so only to the question that the message is about.
    fn read(&mut self, input: &[u8]) -> Result<Taken<A>, BatchFailure>;

    /// The number of the question that the first message of `input` is about, where that can be
    /// told although it is not whole, or none.
    fn about(&self, input: &[u8]) -> Option<u32>;
}

/// What has been taken from the input.
pub(crate) enum Taken<A> {
    /// Nothing: a message is not whole.
    Nothing,
    /// So many bytes, which end no answer.
    Part(usize),
    /// So many bytes, the last of the answer to the question with that number.
    Last(usize, u32, A),
}

/// Questions that so many lanes carry at once.
pub(crate) fn carried(lanes_max: usize) -> usize {
    lanes_max.clamp(1, LANES_MAX) * LANE_DEPTH
}

/// How often a question is asked again whose connection ended over another's answer. A question
/// whose answer cannot be read ends one connection, its part the next, and so on until it is alone:
/// that is how many of them that takes ([`sip_lookup::part_rows`]).
const ASKED_AGAIN_MAX: u8 = 4;

/// Why a connection ends.
struct End {
    why: BatchFailure,
    /// The question over whose answer it does, where that can be told.
    about: Option<u32>,
}

impl From<BatchFailure> for End {
    fn from(why: BatchFailure) -> Self {
        Self { why, about: None }
    }
}

/// The lanes to one store.
pub(crate) struct Lanes<P: Protocol> {
    protocol: Rc<P>,
    lanes: RefCell<Vec<Lane<P>>>,
    lanes_max: usize,
    turns: Arc<Semaphore>,
}

struct Lane<P: Protocol> {
    /// Without a bound of its own: each job has a turn, and turns are counted.
    jobs: mpsc::UnboundedSender<Job<P>>,
    load: Rc<Load>,
    task: JoinHandle<()>,
}

/// What a lane has to do.
struct Load {
    under_way: Cell<usize>,
    /// Since when it has said nothing, where anything is under way.
    silent_since: Cell<Instant>,
}

impl Load {
    fn silence(&self) -> Duration {
        match self.under_way.get() {
            0 => Duration::ZERO,
            _ => self.silent_since.get().elapsed(),
        }
    }
}

/// A question's part of the load, until it is answered or cannot be.
struct UnderWay(Rc<Load>);

impl UnderWay {
    fn new(load: &Rc<Load>) -> Self {
        if load.under_way.get() == 0 {
            load.silent_since.set(Instant::now());
        }
        load.under_way.set(load.under_way.get() + 1);
        Self(Rc::clone(load))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.under_way.set(self.0.under_way.get() - 1);
        self.0.silent_since.set(Instant::now());
    }
}

impl<P: Protocol> Drop for Lane<P> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Job<P: Protocol> {
    question: P::Question,
    /// How often it was asked again.
    again: u8,
    answer: oneshot::Sender<Result<P::Answer, BatchFailure>>,
    /// Kept until the answer is read or cannot come, whether or not somebody waits for it.
    _turn: OwnedSemaphorePermit,
    _under_way: UnderWay,
}

impl<P: Protocol> Lanes<P> {
    /// As many lanes as may be, none of them open yet.
    pub(crate) fn new(protocol: P, lanes_max: usize) -> Self {
        let lanes_max = lanes_max.clamp(1, LANES_MAX);
        Self {
            protocol: Rc::new(protocol),
            lanes: RefCell::default(),
            lanes_max,
            turns: Arc::new(Semaphore::new(carried(lanes_max))),
        }
    }

    /// Asks over the lane that has the least to do, among those that answer.
    pub(crate) async fn ask(&self, question: P::Question) -> Result<P::Answer, BatchFailure> {
        let closed = |_| BatchFailure::Unreachable("the connection was closed".to_owned());
        let turn = Arc::clone(&self.turns)
            .acquire_owned()
            .await
            .map_err(|error| BatchFailure::Unreachable(error.to_string()))?;
        let (answer, receiver) = oneshot::channel();
        self.send(|under_way| Job {
            question,
            again: 0,
            answer,
            _turn: turn,
            _under_way: under_way,
        });
        receiver.await.unwrap_or_else(|error| Err(closed(error)))
    }

    fn send(&self, job: impl FnOnce(UnderWay) -> Job<P>) {
        let mut lanes = self.lanes.borrow_mut();
        let load = |lane: &Lane<P>| lane.load.under_way.get();
        let answers = |lane: &&Lane<P>| lane.load.silence() < SILENCE;
        let least = lanes.iter().filter(answers).map(load).min();
        if least.is_none_or(|least| least > LANE_BUSY) {
            if least.is_none() && lanes.len() >= self.lanes_max {
                lanes.retain(|lane| lane.load.silence() < SILENCE_LONG);
            }
            if lanes.len() < self.lanes_max {
                lanes.push(Lane::open(Rc::clone(&self.protocol)));
            }
        }
        let best = lanes.iter().filter(answers).min_by_key(|lane| load(lane));
        if let Some(lane) = best.or_else(|| lanes.iter().min_by_key(|lane| load(lane))) {
            // The task lives as long as its lane; if it could not, the job is dropped and
            // who waits is told so.
            let _ = lane.jobs.send(job(UnderWay::new(&lane.load)));
        }
    }
}

impl<P: Protocol> Lane<P> {
    fn open(protocol: Rc<P>) -> Self {
        let (jobs, receiver) = mpsc::unbounded_channel();
        Self {
            jobs,
            load: Rc::new(Load {
                under_way: Cell::new(0),
                silent_since: Cell::new(Instant::now()),
            }),
            task: tokio::task::spawn_local(run(protocol, receiver)),
        }
    }
}

/// A lane: connects when there is something to ask.
async fn run<P: Protocol>(protocol: Rc<P>, mut jobs: mpsc::UnboundedReceiver<Job<P>>) {
    let mut again = VecDeque::new();
    loop {
        let first = match again.pop_front() {
            Some(job) => job,
            None => match jobs.recv().await {
                Some(job) => job,
                None => return,
            },
        };
        if first.answer.is_closed() {
            continue;
        }
        match protocol.begin().await {
            Ok((stream, dialogue)) => {
                let connection = Connection {
                    dialogue: RefCell::new(dialogue),
                    waiting: RefCell::default(),
                };
                let end = connection
                    .run(stream, first, &mut again, &mut jobs, protocol.patience())
                    .await;
                let mut bystanders = connection.tell(&end);
                bystanders.append(&mut again);
                again = bystanders;
            }
            Err(why) => {
                let _ = first.answer.send(Err(why.clone()));
                while let Some(job) = again.pop_front().or_else(|| jobs.try_recv().ok()) {
                    let _ = job.answer.send(Err(why.clone()));
                }
            }
        }
    }
}

/// One connection.
struct Connection<P: Protocol> {
    dialogue: RefCell<P::Dialogue>,
    /// Those without their answers, in the order of their questions.
    waiting: RefCell<VecDeque<Waiting<P>>>,
}

struct Waiting<P: Protocol> {
    number: u32,
    since: Instant,
    job: Job<P>,
}

impl<P: Protocol> Connection<P> {
    /// Writes and reads until one of them ends; says why.
    async fn run(
        &self,
        stream: Stream,
        first: Job<P>,
        again: &mut VecDeque<Job<P>>,
        jobs: &mut mpsc::UnboundedReceiver<Job<P>>,
        patience: Duration,
    ) -> End {
        let (reader, writer) = tokio::io::split(stream);
        tokio::select! {
            why = self.write(writer, first, again, jobs) => why.into(),
            end = self.read(reader) => end,
            why = self.watch(patience) => why.into(),
        }
    }

    /// Tells those who wait why it has ended. What cannot be read is one question's matter: the
    /// others are given back to be asked on the next connection, a few times. Where nobody can say
    /// whose matter it is, to all it is a connection that is gone.
    fn tell(self, end: &End) -> VecDeque<Job<P>> {
        let waiting = self.waiting.into_inner();
        let is_alone = waiting.len() == 1;
        let is_one = |about| waiting.iter().any(|one: &Waiting<P>| one.number == about);
        let is_known = end.about.is_some_and(is_one);
        let mut again = VecDeque::new();
        for Waiting {
            number, mut job, ..
        } in waiting
        {
            let is_his = end.about.map_or(is_alone, |about| about == number);
            let may = P::may_be_repeated(&job.question) && job.again < ASKED_AGAIN_MAX;
            let failure = match &end.why {
                BatchFailure::Refused(_) if !is_his && is_known && may => {
                    job.again += 1;
                    again.push_back(job);
                    continue;
                }
                BatchFailure::Refused(why) if !is_his => BatchFailure::Unreachable(why.clone()),
                why => why.clone(),
            };
            let _ = job.answer.send(Err(failure));
        }
        again
    }

    async fn write(
        &self,
        mut writer: WriteHalf<Stream>,
        first: Job<P>,
        again: &mut VecDeque<Job<P>>,
        jobs: &mut mpsc::UnboundedReceiver<Job<P>>,
    ) -> BatchFailure {
        let mut buffer = Vec::new();
        let mut last_number = 0;
        let mut next = Some(first);
        loop {
            let Some(job) = next.take().or_else(|| again.pop_front()) else {
                match jobs.recv().await {
                    Some(job) => next = Some(job),
                    None => return BatchFailure::Unreachable("the store was dropped".to_owned()),
                }
                continue;
            };
            last_number = last_number % NUMBER_MAX + 1;
            self.put(last_number, job, &mut buffer);
            if buffer.len() < WRITE_AT_ONCE
                && let Some(job) = again.pop_front().or_else(|| jobs.try_recv().ok())
            {
                next = Some(job);
                continue;
            }
            let written = async {
                writer.write_all(&buffer).await?;
                writer.flush().await
            };
            if let Err(error) = written.await {
                return BatchFailure::Unreachable(error.to_string());
            }
            buffer.clear();
        }
    }

    /// Appends a question, unless nobody waits for its answer any more.
    fn put(&self, number: u32, job: Job<P>, buffer: &mut Vec<u8>) {
        if job.answer.is_closed() {
            return;
        }
        self.dialogue
            .borrow_mut()
            .write(number, &job.question, buffer);
        self.waiting.borrow_mut().push_back(Waiting {
            number,
            since: Instant::now(),
            job,
        });
    }

    async fn read(&self, mut reader: ReadHalf<Stream>) -> End {
        let gone = |why: &str| End::from(BatchFailure::Unreachable(why.to_owned()));
        let spoilt = |why, input: &[u8]| End {
            why,
            about: self.dialogue.borrow().about(input),
        };
        // Rows are in it, so it is wiped.
        let mut input = Zeroizing::new(Vec::with_capacity(16 << 10));
        loop {
            match reader.read_buf(&mut *input).await {
                Ok(0) => return gone("the store closed the connection"),
                Ok(_) => {}
                Err(error) => return gone(&error.to_string()),
            }
            let mut taken = 0;
            loop {
                let rest = input.get(taken..).unwrap_or_default();
                match self.take(rest) {
                    Ok(0) => break,
                    Ok(len) => taken += len,
                    Err(why) => return spoilt(why, rest),
                }
            }
            input.drain(..taken);
            if input.len() > INPUT_MAX {
                let why = format!("the store sent more than {INPUT_MAX} bytes in one answer");
                return spoilt(BatchFailure::Refused(why), &input);
            }
            if input.capacity() - input.len() < 4 << 10 {
                grow(&mut input);
            }
        }
    }

    /// Takes one message; how many bytes it had.
    fn take(&self, input: &[u8]) -> Result<usize, BatchFailure> {
        if input.is_empty() {
            return Ok(0);
        }
        let taken = self.dialogue.borrow_mut().read(input)?;
        let (len, number, answer) = match taken {
            Taken::Nothing => return Ok(0),
            Taken::Part(len) => return Ok(len),
            Taken::Last(len, number, answer) => (len, number, answer),
        };
        let mut waiting = self.waiting.borrow_mut();
        let at = waiting.iter().position(|waiting| waiting.number == number);
        let Some(done) = at.and_then(|at| waiting.remove(at)) else {
            return Err(BatchFailure::Refused(
                "the store answered what it was not asked".to_owned(),
            ));
        };
        // Who asked may have given up meanwhile.
        let _ = done.job.answer.send(Ok(answer));
        Ok(len)
    }

    /// Ends when the oldest question has waited for too long: a connection that has died
    /// without a word is not asked again, and what will never be answered holds no turn.
    async fn watch(&self, patience: Duration) -> BatchFailure {
        loop {
            let oldest = self.waiting.borrow().front().map(|first| first.since);
            let waited = oldest.map_or(Duration::ZERO, |since| since.elapsed());
            match patience.checked_sub(waited) {
                Some(left) if !left.is_zero() => sleep(left).await,
                _ => return BatchFailure::TimedOut,
            }
        }
    }
}

/// Makes room for as much again; what was there before is wiped.
fn grow(input: &mut Zeroizing<Vec<u8>>) {
    let mut larger = Zeroizing::new(Vec::with_capacity(input.capacity() * 2));
    larger.extend_from_slice(input);
    *input = larger;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often the pipeline tries a store that is away, as it is in service.
    const PROBE_INTERVAL: Duration = Duration::from_millis(200);

    /// A store whose connections never come about.
    #[derive(Default)]
    struct Hangs {
        tries: Rc<Cell<usize>>,
    }

    struct Mute;

    impl Dialogue<(), ()> for Mute {
        fn write(&mut self, _: u32, (): &(), _: &mut Vec<u8>) {}

        fn read(&mut self, _: &[u8]) -> Result<Taken<()>, BatchFailure> {
            Ok(Taken::Nothing)
        }

        fn about(&self, _: &[u8]) -> Option<u32> {
            None
        }
    }

    impl Protocol for Hangs {
        type Question = ();
        type Answer = ();
        type Dialogue = Mute;

        fn may_be_repeated((): &()) -> bool {
            true
        }

        async fn begin(&self) -> Result<(Stream, Mute), BatchFailure> {
            self.tries.set(self.tries.get() + 1);
            std::future::pending().await
        }

        fn patience(&self) -> Duration {
            Duration::from_secs(5)
        }
    }

    /// The tries to connect in so many probes.
    fn tries(lanes_max: usize, probes: usize) -> usize {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build();
        let hangs = Hangs::default();
        let tries = Rc::clone(&hangs.tries);
        let probing = async {
            let lanes = Lanes::new(hangs, lanes_max);
            let mut interval = tokio::time::interval(PROBE_INTERVAL);
            for _ in 0..probes {
                interval.tick().await;
                let asked = tokio::time::timeout(PROBE_INTERVAL / 2, lanes.ask(())).await;
                assert!(asked.is_err(), "nothing comes of it");
            }
        };
        if let Ok(runtime) = runtime {
            tokio::task::LocalSet::new().block_on(&runtime, probing);
        }
        tries.get()
    }

    #[test]
    fn a_store_that_is_back_is_found_though_tries_hang() {
        assert_eq!(tries(4, 3), 1);
        assert_eq!(tries(4, 4), 2, "another when the first hangs");
        assert_eq!(tries(4, 7), 3);
        // Where there may be no more, the one that hangs longest makes room.
        assert_eq!(tries(1, 10), 1);
        assert_eq!(tries(1, 12), 2);
    }
}
