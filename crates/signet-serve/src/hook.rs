//! The thread that asks the operator's hook. It has a runtime of its own: connections to the
//! program, and between them and the workers the queue, which decides what is asked when.

#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use invariant::broken;
use sip_engine::ParkId;
use sip_hook::{
    Batch, Cache, CacheConfig, Failure, Field, HookCacheFigures, HookFigures, Outcome, Question,
    Queue, QueueConfig,
};
use sip_lookup::{BatchFailure, BatchId};
use sip_net::{Waker, clock};
use sip_userdb::{Endpoint, Layout, Options, Secret, Tls};
use tokio::sync::{Notify, mpsc};
use tokio::task::{AbortHandle, LocalSet};
use zeroize::Zeroizing;

use crate::config;
use crate::data_dir::{refuse_readable_by_others, unreadable};
use crate::store_link::spawn;
use crate::userdb::store_error;
use crate::{Error, random_bytes};

/// The shortest time between two lines of log about the hook.
const COMPLAINT_EVERY: Duration = Duration::from_secs(10);
/// Questions taken from the workers before the hook gets its turn.
const TAKEN_MAX: usize = 1_024;
/// Questions between the workers and the thread, whatever may wait in all.
const QUEUE_MAX: usize = 65_536;
/// How often the figures are copied for whoever asks for them.
const FIGURES_EVERY_US: u64 = 100_000;
/// The body of an answer has at most this many bytes, and so many more for each question.
const BODY_MAX: usize = 16 << 10;
const BODY_MAX_PER_QUESTION: usize = 8 << 10;

/// Whose question it is.
#[derive(Clone, Copy, Debug)]
struct Tag {
    worker: usize,
    park: ParkId,
}

/// A question and who asks.
struct ToAsk {
    tag: Tag,
    question: Box<Question>,
    /// When its request expires, by the clock of [`Shown::now_us`].
    deadline_us: u64,
}

/// The hook of a server: the way to its thread, or nothing.
pub(crate) struct HookDesk(Option<Running>);

struct Running {
    asker: Asker,
    inboxes: Inboxes,
    thread: JoinHandle<()>,
}

/// One worker's end.
pub(crate) struct WorkerHook(Option<Line>);

struct Line {
    worker: usize,
    asker: Asker,
    inbox: Arc<Inbox>,
}

/// The way to the thread, which ends when the last of these is gone.
#[derive(Clone)]
struct Asker {
    sender: mpsc::Sender<ToAsk>,
    shown: Shown,
}

/// What anybody may look at.
#[derive(Clone)]
pub(crate) struct Shown {
    cache: Arc<Cache>,
    figures: Arc<Mutex<HookFigures>>,
    began: Instant,
}

type Inboxes = Arc<Mutex<Vec<Arc<Inbox>>>>;

struct Inbox {
    answers: Mutex<Vec<(ParkId, Outcome)>>,
    waker: Waker,
}

/// Whether the hook that a configuration names can be asked; nothing is connected.
pub(crate) fn check(config: &config::Hook) -> Result<(), Error> {
    match options(config)? {
        Some(options) => endpoint(&options).map(drop),
        None => Ok(()),
    }
}

/// How the hook is reached.
fn options(config: &config::Hook) -> Result<Option<Options>, Error> {
    let Some(url) = &config.url else {
        return Ok(None);
    };
    let token = config.token_file.as_deref().map(token).transpose()?;
    Ok(Some(Options {
        url: url.0.clone(),
        password: token,
        tls: Tls::Auto,
        tls_roots: config.tls_roots.clone(),
        layout: Layout::Signet,
        algorithms: None,
        wanted: None,
        // One more than questions have, to find whether it is back.
        connections_max: config.connections_max + 1,
        connect_timeout_ms: config.timeout_ms,
    }))
}

fn endpoint(options: &Options) -> Result<Endpoint, Error> {
    Endpoint::new(options).map_err(|error| {
        let error = store_error(&error);
        Error::new(format!("hook: {}", error.what()), error.remedy())
    })
}

fn token(path: &Path) -> Result<Secret, Error> {
    let text = std::fs::read(path)
        .map_err(|error| unreadable("read the hook's token from", path, &error))?;
    let text = Zeroizing::new(text);
    refuse_readable_by_others("the hook's token in", path)?;
    let token = text.trim_ascii();
    if token.is_empty() {
        return Err(Error::new(
            format!("the hook's token in {} is empty", path.display()),
            "write it into that file, or drop hook.token_file",
        ));
    }
    Ok(Secret::new(token.to_vec()))
}

impl HookDesk {
    /// Starts the thread, if there is a hook.
    pub(crate) fn start(config: &config::Hook, workers: usize) -> Result<Self, Error> {
        let Some(options) = options(config)? else {
            return Ok(Self(None));
        };
        let cache = CacheConfig {
            fields: config.cache_by.iter().map(|of| Field::from(*of)).collect(),
            entries_max: config.cache_entries_max,
        };
        let queue = QueueConfig {
            questions_max: config.waiting_max.saturating_mul(workers.max(1)),
            batch_max: config.batch_max,
            in_flight_max: config.connections_max,
            timeout_us: config.timeout_ms.saturating_mul(1_000),
            ..QueueConfig::default()
        };
        let inboxes = Inboxes::default();
        let mut post = Post::new(Arc::clone(&inboxes));
        let deliver = move |answers: &mut Vec<(Tag, Outcome)>| post.deliver(answers);
        let (asker, thread) = Asker::start(options, queue, cache, deliver)?;
        Ok(Self(Some(Running {
            asker,
            inboxes,
            thread,
        })))
    }

    /// The end for the next worker; they are made in order.
    pub(crate) fn client(&self, waker: Waker) -> WorkerHook {
        WorkerHook(self.0.as_ref().map(|running| {
            let inbox = Arc::new(Inbox {
                answers: Mutex::default(),
                waker,
            });
            let mut inboxes = lock(&running.inboxes);
            let worker = inboxes.len();
            inboxes.push(Arc::clone(&inbox));
            Line {
                worker,
                asker: running.asker.clone(),
                inbox,
            }
        }))
    }

    /// What anybody may look at; `None` without a hook.
    pub(crate) fn shown(&self) -> Option<&Shown> {
        self.0.as_ref().map(|running| &running.asker.shown)
    }

    /// Forgets what it has answered.
    pub(crate) fn forget(&self) {
        if let Some(shown) = self.shown() {
            shown.cache.clear();
        }
    }

    /// Waits for the thread. The workers' ends are gone by now.
    pub(crate) fn end(&mut self) {
        if let Some(Running { asker, thread, .. }) = self.0.take() {
            drop(asker);
            // One that panicked has ended the process already.
            let _ = thread.join();
        }
    }
}

impl Asker {
    /// Starts the thread. `deliver` gets answers, many at a time, and drains them.
    fn start(
        options: Options,
        queue: QueueConfig,
        cache: CacheConfig,
        deliver: impl FnMut(&mut Vec<(Tag, Outcome)>) + Send + 'static,
    ) -> Result<(Self, JoinHandle<()>), Error> {
        // What can be wrong with it is found before the thread is there.
        endpoint(&options)?;
        let mut key = [0; 16];
        random_bytes(&mut key)?;
        let (sender, asked) = mpsc::channel(queue.questions_max.clamp(1, QUEUE_MAX));
        let shown = Shown {
            cache: Arc::new(Cache::new(key, cache)),
            figures: Arc::default(),
            began: Instant::now(),
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| {
                Error::new(
                    format!("cannot ask the hook: {error}"),
                    "look at the limits of open files: ulimit -n",
                )
            })?;
        let own = shown.clone();
        let thread = spawn("hook", move || {
            let queue = Queue::new(queue, Arc::clone(&own.cache));
            LocalSet::new().block_on(&runtime, run(own, options, queue, asked, deliver));
        })?;
        Ok((Self { sender, shown }, thread))
    }

    /// Leaves a question for whoever waits so long; what is known or cannot be asked is said at
    /// once.
    fn ask(&self, tag: Tag, question: Box<Question>, left_ms: u64) -> Option<Outcome> {
        let now_us = self.shown.now_us();
        if let Some(known) = self.shown.cache.get(now_us, &question) {
            return Some(Ok(known));
        }
        let to_ask = ToAsk {
            tag,
            question,
            deadline_us: now_us.saturating_add(left_ms.saturating_mul(1_000)),
        };
        match self.sender.try_send(to_ask) {
            Ok(()) => None,
            Err(_) => Some(Err(Failure::Full)),
        }
    }
}

impl Shown {
    /// What it has answered and may be given again.
    pub(crate) fn cache(&self) -> &Cache {
        &self.cache
    }

    /// What the queue has done.
    pub(crate) fn figures(&self) -> HookFigures {
        *lock(&self.figures)
    }

    /// What is remembered.
    pub(crate) fn cache_figures(&self) -> HookCacheFigures {
        self.cache.figures()
    }

    /// The time in microseconds, from an arbitrary beginning.
    fn now_us(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

impl sip_worker::Hook for WorkerHook {
    fn ask(&mut self, park: ParkId, question: Box<Question>, until_ms: u64) -> Option<Outcome> {
        let Some(line) = &self.0 else {
            // The settings of a server without one ask nothing.
            return broken!(
                "there is a hook where one is asked",
                Some(Err(Failure::Away))
            );
        };
        let tag = Tag {
            worker: line.worker,
            park,
        };
        let left_ms = until_ms.saturating_sub(clock::now_ms());
        line.asker.ask(tag, question, left_ms)
    }

    fn take_answers(&mut self, into: &mut Vec<(ParkId, Outcome)>) {
        if let Some(line) = &self.0 {
            std::mem::swap(into, &mut *lock(&line.inbox.answers));
        }
    }
}

/// Sorts answers by worker.
struct Post {
    inboxes: Inboxes,
    sorted: Vec<Vec<(ParkId, Outcome)>>,
}

impl Post {
    fn new(inboxes: Inboxes) -> Self {
        Self {
            inboxes,
            sorted: Vec::new(),
        }
    }

    fn deliver(&mut self, answers: &mut Vec<(Tag, Outcome)>) {
        let inboxes = lock(&self.inboxes);
        self.sorted.resize_with(inboxes.len(), Vec::new);
        for (tag, outcome) in answers.drain(..) {
            if let Some(batch) = self.sorted.get_mut(tag.worker) {
                batch.push((tag.park, outcome));
            }
        }
        for (batch, inbox) in self.sorted.iter_mut().zip(inboxes.iter()) {
            if !batch.is_empty() {
                lock(&inbox.answers).append(batch);
                inbox.waker.wake();
            }
        }
    }
}

/// The body of an answer, or why there is none.
type Body = Result<Zeroizing<Vec<u8>>, BatchFailure>;

/// What the hook has said and the queue has not heard yet.
#[derive(Default)]
struct Said {
    answers: RefCell<Vec<(BatchId, Body)>>,
    any: Notify,
}

/// What is told of the hook in the log: when it begins to fail, now and then while it does, and
/// when it answers again.
struct Complaints {
    name: String,
    told: Option<Instant>,
    /// The log says that it fails.
    is_told_to_fail: bool,
}

impl Complaints {
    /// About the program at that URL.
    fn about(url: &str) -> Self {
        Self {
            name: config::hook_name(url),
            told: None,
            is_told_to_fail: false,
        }
    }

    fn fails(&mut self, failure: &BatchFailure) {
        if self.is_due() {
            self.is_told_to_fail = true;
            tracing::error!(hook = self.name, "the hook fails: {failure}");
        }
    }

    /// One that fails and answers in turn is told of no oftener than one that fails.
    fn answers(&mut self) {
        if std::mem::take(&mut self.is_told_to_fail) {
            tracing::info!(hook = self.name, "the hook answers again");
        }
    }

    fn came(&mut self, outcome: &Outcome) {
        if let Err(failure @ (Failure::Bad(_) | Failure::Refused(_))) = outcome
            && self.is_due()
        {
            tracing::warn!(hook = self.name, "the hook: {failure}");
        }
    }

    fn is_due(&mut self) -> bool {
        let now = Instant::now();
        let is_due = self
            .told
            .is_none_or(|told| now.duration_since(told) >= COMPLAINT_EVERY);
        if is_due {
            self.told = Some(now);
        }
        is_due
    }
}

async fn run(
    own: Shown,
    options: Options,
    mut queue: Queue<Tag>,
    mut asked: mpsc::Receiver<ToAsk>,
    mut deliver: impl FnMut(&mut Vec<(Tag, Outcome)>),
) {
    let Ok(endpoint) = Endpoint::new(&options) else {
        return broken!("the same options were good before the thread began");
    };
    let endpoint = Rc::new(endpoint);
    let said = Rc::new(Said::default());
    let mut complaints = Complaints::about(&options.url);
    let mut under_way: HashMap<BatchId, AbortHandle> = HashMap::new();
    let mut answers = Vec::new();
    let mut taken = Vec::with_capacity(TAKEN_MAX);
    let mut is_open = true;
    let (mut figures, mut figures_due_us) = (HookFigures::default(), 0);
    // When the last worker is gone, nobody waits for what is under way.
    while is_open {
        // What was counted last is shown as well, though nothing may come after it.
        let uncopied = (figures != queue.figures()).then_some(figures_due_us);
        let deadline = queue.next_deadline_us().into_iter().chain(uncopied).min();
        let deadline = deadline.map(|due_us| {
            let left_us = due_us.saturating_sub(own.now_us());
            tokio::time::sleep(Duration::from_micros(left_us))
        });
        tokio::select! {
            count = asked.recv_many(&mut taken, TAKEN_MAX) => is_open = count > 0,
            () = said.any.notified() => {}
            () = async { match deadline { Some(sleep) => sleep.await, None => std::future::pending().await } } => {}
        }
        let now_us = own.now_us();
        for ToAsk {
            tag,
            question,
            deadline_us,
        } in taken.drain(..)
        {
            if let Err(failure) = queue.submit(now_us, tag, question, deadline_us) {
                answers.push((tag, Err(failure)));
            }
        }
        for (id, answer) in said.answers.take() {
            under_way.remove(&id);
            match answer {
                Ok(body) => {
                    complaints.answers();
                    queue.handle_answer(now_us, id, &body);
                }
                Err(failure) => {
                    complaints.fails(&failure);
                    queue.handle_failure(now_us, id, failure);
                }
            }
        }
        queue.handle_timeout(now_us);
        while let Some(batch) = queue.poll_batch(now_us) {
            let id = batch.id;
            under_way.insert(id, send(&endpoint, batch, &said));
        }
        while let Some(id) = queue.poll_given_up() {
            if let Some(request) = under_way.remove(&id) {
                request.abort();
                complaints.fails(&BatchFailure::TimedOut);
            }
        }
        while let Some((tag, outcome)) = queue.poll_answer() {
            complaints.came(&outcome);
            answers.push((tag, outcome));
        }
        if !answers.is_empty() {
            deliver(&mut answers);
            answers.clear();
        }
        if now_us >= figures_due_us {
            figures_due_us = now_us + FIGURES_EVERY_US;
            figures = queue.figures();
            *lock(&own.figures) = figures;
        }
    }
}

/// Posts a request, beside whatever else is asked.
fn send(endpoint: &Rc<Endpoint>, batch: Batch, said: &Rc<Said>) -> AbortHandle {
    let (endpoint, said) = (Rc::clone(endpoint), Rc::clone(said));
    let asking = tokio::task::spawn_local(async move {
        let body_max = BODY_MAX + BODY_MAX_PER_QUESTION * batch.questions;
        let answer = endpoint.post(batch.body, body_max).await;
        said.answers.borrow_mut().push((batch.id, answer));
        said.any.notify_one();
    });
    asking.abort_handle()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is behind these locks is whole whenever they are free.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
