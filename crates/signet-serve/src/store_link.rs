//! Between the workers and the store's two threads: questions go into bounded
//! queues, answers come into each worker's inbox, a batch with one wake-up.

use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use sip_auth::{Ha1, Reply};
use sip_engine::{BindingChange, Location, ParkId, Settings};
use sip_lookup::{Outcome, Question, Unavailable};
use sip_msg::Flow;
use sip_net::{Waker, clock};
use sip_store::{
    Answers, BindingStore, Database, Lookup, Save, ServiceConfig, ServiceCounters, ServiceFigures,
    queue, serve_lookups, serve_saves,
};
use sip_worker::{AtOnce, StoreAnswer};

use crate::Error;
use crate::data_dir::DataDir;

/// Look-ups and changes that wait for the store, of all workers together;
/// past it a request is answered as if the store were down.
const QUEUE_MAX: usize = 65_536;

/// The store of a server: the database, and what serves the workers.
pub(crate) struct Store {
    database: Database,
    lookups: Option<SyncSender<Lookup<Tag>>>,
    saves: Option<SyncSender<Save<Tag>>>,
    inboxes: Arc<Mutex<Vec<Arc<Inbox>>>>,
    threads: Vec<JoinHandle<()>>,
    counters: Arc<ServiceCounters>,
}

/// One worker's end.
pub(crate) struct StoreClient {
    worker: usize,
    lookups: SyncSender<Lookup<Tag>>,
    saves: SyncSender<Save<Tag>>,
    inbox: Arc<Inbox>,
}

#[derive(Clone, Copy, Debug)]
struct Tag {
    worker: usize,
    park: ParkId,
}

struct Inbox {
    answers: Mutex<Vec<StoreAnswer>>,
    waker: Waker,
}

impl Store {
    /// Opens the database and starts the threads.
    pub(crate) fn start(data: &DataDir) -> Result<Self, Error> {
        let database = Database::open(&data.database())?;
        let mut credentials = database.credentials()?;
        let mut bindings = database.bindings()?;
        let (lookups, asked) = queue(QUEUE_MAX);
        let (saves, ordered) = queue(QUEUE_MAX);
        let inboxes: Arc<Mutex<Vec<Arc<Inbox>>>> = Arc::default();
        let counters: Arc<ServiceCounters> = Arc::default();
        let mut post = Post {
            inboxes: inboxes.clone(),
            sorted: Vec::new(),
        };
        let counted = counters.clone();
        let reader = spawn("store-read", move || {
            let config = ServiceConfig::default();
            serve_lookups(&mut credentials, &asked, &config, &counted, |answers| {
                post.deliver(answers, |park, answer| {
                    StoreAnswer::Credential(park, outcome_of(answer))
                });
            });
        })?;
        let mut post = Post {
            inboxes: inboxes.clone(),
            sorted: Vec::new(),
        };
        let counted = counters.clone();
        let writer = spawn("store-write", move || {
            let config = ServiceConfig::default();
            serve_saves(
                &mut bindings,
                &ordered,
                &config,
                &counted,
                clock::unix_ms,
                |answers| {
                    post.deliver(answers, StoreAnswer::Saved);
                },
            );
        })?;
        Ok(Self {
            database,
            lookups: Some(lookups),
            saves: Some(saves),
            inboxes,
            threads: vec![reader, writer],
            counters,
        })
    }

    /// Fills the table of bindings with those that are alive.
    pub(crate) fn load_bindings(
        &self,
        location: &Location,
        settings: &Settings,
    ) -> Result<u64, Error> {
        let mut bindings = self.database.bindings()?;
        let loaded = bindings.load(clock::unix_ms(), &mut |mut change| {
            if let BindingChange::Put { binding, .. } = &mut change
                && binding.flow.is_some_and(|flow| !is_usable(&flow, settings))
            {
                Arc::make_mut(binding).flow = None;
            }
            location.apply(std::slice::from_ref(&change));
        });
        loaded.map_err(Error::from)
    }

    /// The end for the next worker; they are made in order.
    pub(crate) fn client(&self, waker: Waker) -> Result<StoreClient, Error> {
        let (Some(lookups), Some(saves)) = (self.lookups.clone(), self.saves.clone()) else {
            return Err(Error::new(
                "the threads of the database have ended",
                "look at the log for the reason",
            ));
        };
        let inbox = Arc::new(Inbox {
            answers: Mutex::default(),
            waker,
        });
        let mut inboxes = lock(&self.inboxes);
        let worker = inboxes.len();
        inboxes.push(inbox.clone());
        Ok(StoreClient {
            worker,
            lookups,
            saves,
            inbox,
        })
    }

    /// The domains that the operator added.
    pub(crate) fn domains(&mut self) -> Result<Vec<String>, Error> {
        self.database.domains().map_err(Error::from)
    }

    /// How many users there are.
    pub(crate) fn user_count(&mut self) -> Result<u64, Error> {
        self.database.user_count().map_err(Error::from)
    }

    /// What the threads have done, for any thread.
    pub(crate) fn counters(&self) -> Arc<ServiceCounters> {
        self.counters.clone()
    }

    /// Waits until everything that was ordered is done. The workers' ends are
    /// gone by now.
    pub(crate) fn end(&mut self) -> ServiceFigures {
        self.lookups = None;
        self.saves = None;
        for thread in self.threads.drain(..) {
            // A thread that panicked has ended the process already.
            let _ = thread.join();
        }
        self.counters.figures()
    }
}

impl sip_worker::Store for StoreClient {
    fn find_credential(&mut self, park: ParkId, question: Question, _: u64) -> AtOnce {
        let tag = Tag {
            worker: self.worker,
            park,
        };
        let key = question.subject.into_key(question.algorithm);
        match self.lookups.try_send(Lookup { tag, key }) {
            Ok(()) => AtOnce::Pending,
            Err(_) => AtOnce::Refused(NO_ANSWER),
        }
    }

    fn save_bindings(&mut self, park: ParkId, changes: Vec<BindingChange>) -> bool {
        self.saves
            .try_send(Save {
                tag: Tag {
                    worker: self.worker,
                    park,
                },
                changes,
            })
            .is_ok()
    }

    fn take_answers(&mut self, into: &mut Vec<StoreAnswer>) {
        std::mem::swap(into, &mut *lock(&self.inbox.answers));
    }
}

/// What the database gives to a look-up that it cannot answer.
const NO_ANSWER: Unavailable = Unavailable {
    retry_after_s: None,
};

fn outcome_of(answer: Result<Option<Ha1>, ()>) -> Outcome {
    match answer {
        Ok(found) => Ok(found.map_or(Reply::Unknown, Reply::Secret)),
        Err(()) => Err(NO_ANSWER),
    }
}

/// Sorts a batch of answers by worker.
struct Post {
    inboxes: Arc<Mutex<Vec<Arc<Inbox>>>>,
    sorted: Vec<Vec<StoreAnswer>>,
}

impl Post {
    fn deliver<A>(
        &mut self,
        answers: &mut Answers<Tag, A>,
        make: impl Fn(ParkId, Result<A, ()>) -> StoreAnswer,
    ) {
        let inboxes = lock(&self.inboxes);
        self.sorted.resize_with(inboxes.len(), Vec::new);
        for (tag, answer) in answers.drain(..) {
            if let Some(batch) = self.sorted.get_mut(tag.worker) {
                batch.push(make(tag.park, answer.map_err(|_| ())));
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

/// After a restart the listeners may be others.
fn is_usable(flow: &Flow, settings: &Settings) -> bool {
    settings
        .listeners
        .get(usize::from(flow.listener.0))
        .is_some_and(|listener| {
            listener.transport == flow.transport
                && listener.bound.port() == flow.local.port()
                && (listener.bound.ip().is_unspecified() || listener.bound.ip() == flow.local.ip())
                && listener.bound.is_ipv4() == flow.local.is_ipv4()
        })
}

pub(crate) fn spawn(
    name: &str,
    body: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, Error> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(body)
        .map_err(|error| {
            Error::new(
                format!("cannot start a thread: {error}"),
                "look at the limits of processes: ulimit -a",
            )
        })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is behind these locks is whole whenever they are free.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
