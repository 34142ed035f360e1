//! Between the workers and the threads of stores: questions go into bounded queues,
//! answers come into each worker's inbox, a batch with one wake-up. Registrations are in
//! the data folder's database; users are there, or in stores on other machines.

mod loading;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::HashMap;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ledger::{Component, enter, within};
use sip_auth::{Ha1, Reply, Subject};
use sip_engine::numbers::NumberRules;
use sip_engine::{BindingChange, Directory, Location, ParkId, Settings};
use sip_lookup::{Asked, Cache, Outcome, Question, Unavailable, Why};
use sip_net::{Gather, Waker, clock};
use sip_store::{
    Database, Lookup, Save, ServiceConfig, ServiceCounters, ServiceFigures, queue, serve_lookups,
    serve_saves,
};
use sip_userdb::Capabilities;
use sip_worker::{AtOnce, StoreAnswer};

use crate::config::{DigestAlgorithm, Users};
use crate::data_dir::DataDir;
use crate::domains::StoreDomains;
use crate::lookups::{Lookups, Shown, ToAsk, WORTH_GATHERING};
use crate::people::{self, Hosts};
use crate::{Error, random_bytes, userdb};

/// Look-ups and changes that wait for the store, of all workers together;
/// past it a request is answered as if the store were down.
const QUEUE_MAX: usize = 65_536;

/// The store of a server: the database, and what serves the workers.
pub(crate) struct Store {
    database: Database,
    lookups: Option<Credentials>,
    /// What the stores of users can do, where these are on other machines.
    capabilities: Option<Capabilities>,
    /// The domains that those list.
    foreign_domains: StoreDomains,
    saves: Option<SyncSender<Save<Tag>>>,
    inboxes: Arc<Mutex<Vec<Arc<Inbox>>>>,
    threads: Vec<JoinHandle<()>>,
    counters: Arc<ServiceCounters>,
}

/// Who is asked for credentials.
#[derive(Clone)]
enum Credentials {
    /// The data folder's database.
    Here(SyncSender<Lookup<Tag>>),
    /// Stores on other machines.
    Elsewhere(Lookups),
}

/// One worker's end.
pub(crate) struct StoreClient {
    worker: usize,
    lookups: Credentials,
    saves: SyncSender<Save<Tag>>,
    inbox: Arc<Inbox>,
    under_way: UnderWay,
}

/// Whom a worker has asked other machines for: later questions for them queue behind it.
struct UnderWay {
    asked: Asked,
    waiting: HashMap<ParkId, Subject>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Tag {
    worker: usize,
    park: ParkId,
}

struct Inbox {
    answers: Mutex<Vec<StoreAnswer>>,
    waker: Waker,
}

impl Store {
    /// Opens the database and starts the threads. `offered` are the algorithms that users are
    /// challenged with; look-ups may `gather` for so long.
    pub(crate) fn start(
        data: &DataDir,
        users: &Users,
        offered: &[DigestAlgorithm],
        gather: Duration,
    ) -> Result<Self, Error> {
        let database = Database::open(&data.database())?;
        let mut bindings = database.bindings()?;
        let (saves, ordered) = queue::<Save<Tag>>(QUEUE_MAX);
        let inboxes: Arc<Mutex<Vec<Arc<Inbox>>>> = Arc::default();
        let counters: Arc<ServiceCounters> = Arc::default();
        let post = || Post {
            inboxes: inboxes.clone(),
            sorted: Vec::new(),
        };
        let stores = userdb::options(users, Some(offered))?;
        let capabilities = userdb::capabilities(&stores)?;
        let mut foreign_domains = StoreDomains::default();
        let (lookups, reader) = match &capabilities {
            None => look_up_here(&database, counters.clone(), gather, post())?,
            Some(can) => {
                if users.domains_from_store {
                    foreign_domains = StoreDomains::read(stores.clone())?;
                }
                look_up_elsewhere(users, stores, can, gather, post())?
            }
        };
        let mut post = post();
        let counted = counters.clone();
        let writer = spawn("store-write", move || {
            let config = ServiceConfig::default();
            serve_saves(
                &mut bindings,
                &ordered,
                &config,
                &counted,
                clock::unix_ms,
                clock::now_ms,
                |answers| {
                    post.deliver(answers.drain(..).map(|(tag, answer)| {
                        let answer = answer.map_err(|_| ());
                        (tag, StoreAnswer::Saved(tag.park, answer))
                    }));
                },
            );
        })?;
        Ok(Self {
            database,
            lookups: Some(lookups),
            capabilities,
            foreign_domains,
            saves: Some(saves),
            inboxes,
            threads: vec![reader, writer],
            counters,
        })
    }

    /// Fills the table of bindings with those of the database that are alive; how many.
    pub(crate) fn load_bindings(
        &self,
        location: &Location,
        settings: &Settings,
    ) -> Result<u64, Error> {
        let mut bindings = self.database.bindings()?;
        loading::load(&mut bindings, location, settings, clock::unix_ms()).map_err(Error::from)
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
            under_way: UnderWay {
                asked: Asked::new(hash_key()?),
                waiting: HashMap::new(),
            },
        })
    }

    /// The domains that the operator added, and those that the stores of users list.
    pub(crate) fn domains(&mut self) -> Result<Vec<String>, Error> {
        let mut domains = self.database.domains()?;
        domains.extend(self.foreign_domains.known().iter().cloned());
        Ok(domains)
    }

    /// Aliases, and what is written of users.
    pub(crate) fn people(
        &mut self,
        rules: &NumberRules,
        hosts: Hosts<'_>,
    ) -> Result<Directory, Error> {
        people::read(&mut self.database, rules, hosts)
    }

    /// The domains that the stores of users list, to be asked for again.
    pub(crate) fn foreign_domains(&mut self) -> &mut StoreDomains {
        &mut self.foreign_domains
    }

    /// What the stores of users can do, where these are on other machines.
    pub(crate) fn capabilities(&self) -> Option<&Capabilities> {
        self.capabilities.as_ref()
    }

    /// What is remembered of users, where anything is.
    pub(crate) fn cache(&self) -> Option<&Arc<Cache>> {
        self.elsewhere()?.cache()
    }

    /// What is to be seen of who asks stores on other machines.
    pub(crate) fn elsewhere(&self) -> Option<&Shown> {
        match &self.lookups {
            Some(Credentials::Elsewhere(lookups)) => Some(lookups.shown()),
            _ => None,
        }
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

impl UnderWay {
    /// Asks stores on other machines. Where users are remembered, the first question about a digest
    /// is answered from the cache, with [`Reply::NotCached`] where that knows nothing: so the way
    /// to the stores is the same for everybody whom it does not let in.
    fn find(
        &mut self,
        lookups: &Lookups,
        tag: Tag,
        mut question: Question,
        until_ms: u64,
    ) -> AtOnce {
        let shown = lookups.shown();
        let now_us = shown.now_us();
        let cache = shown.cache().filter(|_| question.digest.is_none());
        if let Some(cache) = cache
            && question.why == Why::Digest
        {
            // What was asked first is answered first.
            let known = match self.asked.holds(&question.subject) {
                true => None,
                false => cache.get(now_us, &question.subject, question.algorithm),
            };
            return AtOnce::Known(known.unwrap_or(Reply::NotCached));
        }
        // Who is called may go on meanwhile: what he sends changes nothing in the answer.
        let is_his = question.why != Why::Existence;
        if !is_his {
            question.subject = shown.called(question.subject);
        }
        let subject = cache.filter(|_| is_his).map(|_| question.subject.clone());
        let left_ms = until_ms.saturating_sub(clock::now_ms());
        let to_ask = ToAsk {
            tag,
            question,
            deadline_us: now_us.saturating_add(left_ms.saturating_mul(1_000)),
        };
        if !lookups.ask(to_ask) {
            return AtOnce::Refused(NO_ANSWER);
        }
        if let Some(subject) = subject {
            self.asked.begin(&subject);
            self.waiting.insert(tag.park, subject);
        }
        AtOnce::Pending
    }

    /// Looks for answers to what was asked.
    fn end(&mut self, answers: &[StoreAnswer]) {
        if self.waiting.is_empty() {
            return;
        }
        for answer in answers {
            if let StoreAnswer::Credential(park, _) = answer
                && let Some(subject) = self.waiting.remove(park)
            {
                self.asked.end(&subject);
            }
        }
    }
}

impl StoreClient {
    const fn tag(&self, park: ParkId) -> Tag {
        Tag {
            worker: self.worker,
            park,
        }
    }
}

impl sip_worker::Store for StoreClient {
    fn find_credential(&mut self, park: ParkId, question: Question, until_ms: u64) -> AtOnce {
        let _store = enter(Component::Store);
        let tag = self.tag(park);
        match &self.lookups {
            Credentials::Here(lookups) => {
                let lookup = Lookup {
                    tag,
                    key: question.subject.into_key(question.algorithm),
                    until_ms,
                };
                match lookups.try_send(lookup) {
                    Ok(()) => AtOnce::Pending,
                    Err(_) => AtOnce::Refused(NO_ANSWER),
                }
            }
            Credentials::Elsewhere(lookups) => {
                self.under_way.find(lookups, tag, question, until_ms)
            }
        }
    }

    fn proved(&mut self, subject: &Subject) {
        if let Credentials::Elsewhere(lookups) = &self.lookups
            && let Some(cache) = lookups.shown().cache()
        {
            cache.confirm(subject);
        }
    }

    fn save_bindings(&mut self, park: ParkId, changes: Vec<BindingChange>) -> bool {
        let save = Save {
            tag: self.tag(park),
            changes,
        };
        within(Component::Store, || self.saves.try_send(save).is_ok())
    }

    fn take_answers(&mut self, into: &mut Vec<StoreAnswer>) {
        std::mem::swap(into, &mut *lock(&self.inbox.answers));
        self.under_way.end(into);
    }
}

/// Starts the thread that reads the data folder's database.
fn look_up_here(
    database: &Database,
    counters: Arc<ServiceCounters>,
    interval: Duration,
    mut post: Post,
) -> Result<(Credentials, JoinHandle<()>), Error> {
    let mut credentials = database.credentials()?;
    let (lookups, asked) = queue::<Lookup<Tag>>(QUEUE_MAX);
    let thread = spawn("store-read", move || {
        let config = ServiceConfig::default();
        let mut gather = Gather::new(Instant::now(), WORTH_GATHERING);
        let mut came: u64 = 0;
        let mut looked = Instant::now();
        serve_lookups(
            &mut credentials,
            &asked,
            &config,
            &counters,
            clock::now_ms,
            |answers| {
                // A question and an answer each.
                came += 2 * answers.len() as u64;
                post.deliver(answers.drain(..).map(|(tag, answer)| {
                    (tag, StoreAnswer::Credential(tag.park, outcome_of(answer)))
                }));
                // Who has worked for an interval does not rest: questions wait already.
                gather.looked(interval, looked, came);
                std::thread::sleep(gather.pause(interval, Instant::now()));
                looked = Instant::now();
            },
        );
    })?;
    Ok((Credentials::Here(lookups), thread))
}

/// Starts the thread that asks stores on other machines.
fn look_up_elsewhere(
    users: &Users,
    stores: Vec<sip_userdb::Options>,
    capabilities: &Capabilities,
    gather: Duration,
    mut post: Post,
) -> Result<(Credentials, JoinHandle<()>), Error> {
    let cache = userdb::cache_config(users, capabilities)
        .map(|config| Ok::<_, Error>(Arc::new(Cache::new(hash_key()?, config))))
        .transpose()?;
    let pipeline = userdb::pipeline_config(users, stores.len(), capabilities)?;
    let deliver = move |answers: &mut Vec<(Tag, Outcome)>| {
        post.deliver(
            answers
                .drain(..)
                .map(|(tag, outcome)| (tag, StoreAnswer::Credential(tag.park, outcome))),
        );
    };
    let (lookups, thread) = Lookups::start(stores, pipeline, gather, cache, hash_key()?, deliver)?;
    Ok((Credentials::Elsewhere(lookups), thread))
}

fn hash_key() -> Result<[u8; 16], Error> {
    let mut key = [0; 16];
    random_bytes(&mut key)?;
    Ok(key)
}

/// What the database gives to a look-up that it cannot answer.
const NO_ANSWER: Unavailable = Unavailable {
    retry_after_s: None,
};

fn outcome_of(answer: Result<Option<Ha1>, sip_store::Unavailable>) -> Outcome {
    match answer {
        Ok(found) => Ok(found.map_or(Reply::Unknown, Reply::Secret)),
        Err(sip_store::Unavailable) => Err(NO_ANSWER),
    }
}

/// Sorts a batch of answers by worker.
struct Post {
    inboxes: Arc<Mutex<Vec<Arc<Inbox>>>>,
    sorted: Vec<Vec<StoreAnswer>>,
}

impl Post {
    fn deliver(&mut self, answers: impl Iterator<Item = (Tag, StoreAnswer)>) {
        let inboxes = lock(&self.inboxes);
        self.sorted.resize_with(inboxes.len(), Vec::new);
        for (tag, answer) in answers {
            if let Some(batch) = self.sorted.get_mut(tag.worker) {
                batch.push(answer);
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
