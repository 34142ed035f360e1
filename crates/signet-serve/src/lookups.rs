//! The thread that asks stores of users on other machines. It has a runtime of its own:
//! connections to the stores, and between them and the workers the pipeline, which decides
//! what is asked when.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use invariant::broken;
use sip_auth::Subject;
use sip_lookup::{
    Batch, BatchAnswer, BatchFailure, BatchId, Cache, Health, LookupFigures, Mode, Outcome,
    Pipeline, PipelineConfig, Question, Replica, Row, Rows,
};
use sip_net::Gather;
use sip_userdb::{Changed, Options, UserDb};
use tokio::sync::{Notify, mpsc};
use tokio::task::{AbortHandle, LocalSet};

use crate::Error;
use crate::store_link::{Tag, spawn};
use crate::userdb::store_error;

/// The shortest time between two emptyings of the cache by one store: whoever says without
/// end that anything may have changed must not leave the server without one.
const EMPTIED_EVERY: Duration = Duration::from_secs(1);
/// The shortest time between two complaints of the log about one store.
const COMPLAINT_EVERY: Duration = Duration::from_secs(10);
/// Questions taken from the workers before the stores get their turn.
const TAKEN_MAX: usize = 1_024;

/// Questions and answers in each interval, on average, from which on it pays to let them
/// gather: one look-up in two intervals, whose answer may then come with the next question.
pub(crate) const WORTH_GATHERING: u32 = 1;

/// The longest that the thread leaves everything alone while nothing is under way: what a store
/// says by itself, and a question that is refused, waits for so long at most.
const QUIET_MAX: Duration = Duration::from_millis(5);

/// How often the figures are copied for whoever asks for them.
const FIGURES_EVERY_US: u64 = 100_000;

counters::counters! {
    /// What one store was asked, and how it stands.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(crate) struct StoreFigures {
        /// Statements that a store of users has answered.
        pub(crate) answered: u64 = counter("signet_users_store_answered_total"),
        /// The time from statements to their answers, in sum.
        pub(crate) round_trip_us: u64 = counter("signet_users_store_round_trip_microseconds_total"),
        /// Bytes sent to a store of users.
        pub(crate) sent: u64 = counter("signet_users_store_sent_bytes_total"),
        /// Bytes received from a store of users.
        pub(crate) received: u64 = counter("signet_users_store_received_bytes_total"),
        /// Answers that did not prove to be the store's own, and were not believed.
        pub(crate) ignored: u64 = counter("signet_users_store_ignored_answers_total"),
        /// Rows of users of whom a store of users gives no HA1: they are refused as unknown.
        pub(crate) without_ha1: u64 = counter("signet_users_store_without_ha1_total"),
        /// 1 while a store of users is left alone because it failed.
        pub(crate) left_alone: u64 = gauge("signet_users_store_left_alone"),
    }
}

/// A question and who asks.
pub(crate) struct ToAsk {
    pub(crate) tag: Tag,
    pub(crate) question: Question,
    /// When its request expires, by the clock of [`Lookups::now_us`].
    pub(crate) deadline_us: u64,
}

/// The workers' end. The thread ends when the last of these is gone.
#[derive(Clone)]
pub(crate) struct Lookups {
    sender: mpsc::Sender<ToAsk>,
    shown: Shown,
}

/// What anybody may look at.
#[derive(Clone)]
pub(crate) struct Shown {
    cache: Option<Arc<Cache>>,
    figures: Arc<Mutex<LookupFigures>>,
    /// What each store is called on the page of figures.
    names: Arc<[String]>,
    stores: Arc<Mutex<Vec<StoreFigures>>>,
    began: Instant,
    /// Whether the stores know users as `user@realm`.
    names_have_realms: bool,
}

impl Lookups {
    /// Starts the thread. Questions and answers may `gather` for so long, as messages do in
    /// the workers. `deliver` gets answers, many at a time, and drains them.
    pub(crate) fn start(
        stores: Vec<Options>,
        config: PipelineConfig,
        gather: Duration,
        cache: Option<Arc<Cache>>,
        hash_key: [u8; 16],
        deliver: impl FnMut(&mut Vec<(Tag, Outcome)>) + Send + 'static,
    ) -> Result<(Self, JoinHandle<()>), Error> {
        let (sender, asked) = mpsc::channel(config.questions_max);
        let shown = Shown {
            cache,
            figures: Arc::default(),
            names: names(stores.iter().map(|options| options.url.as_str()))?,
            stores: Arc::default(),
            began: Instant::now(),
            names_have_realms: stores
                .iter()
                .any(|options| options.layout.names_have_realms()),
        };
        let own = shown.clone();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| {
                Error::new(
                    format!("cannot ask the stores of users: {error}"),
                    "look at the limits of open files: ulimit -n",
                )
            })?;
        // What can be wrong with them is found before the thread is there.
        for options in &stores {
            UserDb::new(options.clone()).map_err(|error| store_error(&error))?;
        }
        // A process that waits takes each question when it comes.
        let gather = match config.mode {
            Mode::Blocking { .. } => Duration::ZERO,
            Mode::Tuned | Mode::Fixed { .. } => gather,
        };
        let thread = spawn("lookups", move || {
            let local = LocalSet::new();
            let now_us = own.now_us();
            let pipeline = Pipeline::new(now_us, hash_key, config, own.cache.clone());
            local.block_on(&runtime, run(own, stores, pipeline, gather, asked, deliver));
        })?;
        Ok((Self { sender, shown }, thread))
    }

    /// A workers' end without a thread: whoever has the receiver takes the questions.
    #[cfg(test)]
    pub(crate) fn unserved(
        cache: Arc<Cache>,
        names_have_realms: bool,
    ) -> (Self, mpsc::Receiver<ToAsk>) {
        let (sender, asked) = mpsc::channel(16);
        let shown = Shown {
            cache: Some(cache),
            figures: Arc::default(),
            names: Arc::default(),
            stores: Arc::default(),
            began: Instant::now(),
            names_have_realms,
        };
        (Self { sender, shown }, asked)
    }

    /// Leaves a question; false where too many wait already.
    pub(crate) fn ask(&self, asked: ToAsk) -> bool {
        self.sender.try_send(asked).is_ok()
    }

    /// What anybody may look at.
    pub(crate) fn shown(&self) -> &Shown {
        &self.shown
    }
}

impl Shown {
    /// What is remembered of users, where anything is.
    pub(crate) fn cache(&self) -> Option<&Arc<Cache>> {
        self.cache.as_ref()
    }

    /// Who is called, as the stores know him: an address has his name without the realm.
    pub(crate) fn called(&self, subject: Subject) -> Subject {
        match self.names_have_realms {
            true => {
                let name = [subject.user(), b"@", subject.realm().as_bytes()].concat();
                Subject::new(&name, subject.realm().clone())
            }
            false => subject,
        }
    }

    /// The time in microseconds, from an arbitrary beginning.
    pub(crate) fn now_us(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// What the pipeline has done.
    pub(crate) fn figures(&self) -> LookupFigures {
        let figures = self.figures.lock();
        *figures.unwrap_or_else(PoisonError::into_inner)
    }

    /// Copies the figures for whoever asks for them.
    fn note(&self, pipeline: &Pipeline<Tag>, stores: &[Rc<Store>]) {
        let figures = stores.iter().enumerate();
        let figures = figures.map(|(nth, store)| store.figures(pipeline.health(Replica(nth))));
        let figures = figures.collect();
        *self.stores.lock().unwrap_or_else(PoisonError::into_inner) = figures;
        *self.figures.lock().unwrap_or_else(PoisonError::into_inner) = pipeline.figures();
    }

    /// What each store was asked, by its name.
    pub(crate) fn stores(&self) -> Vec<(&str, StoreFigures)> {
        let stores = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        let names = self.names.iter().map(String::as_str);
        names.zip(stores.iter().copied()).collect()
    }
}

/// What stores are called: where each is, and its number where that is not enough.
fn names<'u>(urls: impl Iterator<Item = &'u str>) -> Result<Arc<[String]>, Error> {
    let mut names: Vec<String> = Vec::new();
    for (nth, url) in urls.enumerate() {
        let name = sip_userdb::store_name(url).map_err(|error| store_error(&error))?;
        names.push(match names.contains(&name) {
            true => format!("{name} #{}", nth + 1),
            false => name,
        });
    }
    Ok(names.into())
}

/// A store, and what was said of it.
struct Store {
    url: String,
    db: UserDb,
    /// When the log last complained about it, and about a user in it: they are apart, so that users
    /// with bad rows do not hide that the store fails.
    complained: Cell<Option<Instant>>,
    complained_of_user: Cell<Option<Instant>>,
    /// The log says that it fails.
    is_told_to_fail: Cell<bool>,
    answered: Cell<u64>,
    round_trip_us: Cell<u64>,
    without_ha1: Cell<u64>,
}

/// What stores have said and the pipeline has not heard yet.
#[derive(Default)]
struct Said {
    answers: RefCell<Vec<(BatchId, Result<BatchAnswer, BatchFailure>)>>,
    any: Notify,
}

async fn run(
    own: Shown,
    stores: Vec<Options>,
    mut pipeline: Pipeline<Tag>,
    interval: Duration,
    mut asked: mpsc::Receiver<ToAsk>,
    mut deliver: impl FnMut(&mut Vec<(Tag, Outcome)>),
) {
    let stores: Vec<Rc<Store>> = stores
        .into_iter()
        .filter_map(|options| Store::new(options).map(Rc::new))
        .collect();
    if let Some(cache) = &own.cache {
        for store in stores
            .iter()
            .filter(|store| store.db.capabilities().announces_changes)
        {
            let (store, cache) = (store.clone(), cache.clone());
            tokio::task::spawn_local(async move {
                listen(|| store.db.changed(), &cache).await;
            });
        }
    }
    let said = Rc::new(Said::default());
    let mut under_way: HashMap<BatchId, (Replica, AbortHandle)> = HashMap::new();
    let mut answers = Vec::new();
    let mut taken = Vec::with_capacity(TAKEN_MAX);
    let mut is_open = true;
    let mut figures_due_us = 0;
    let mut gather = Gather::new(Instant::now(), WORTH_GATHERING);
    let mut came: u64 = 0;
    // When the last worker is gone, nobody waits for what is under way.
    while is_open {
        let due_us = pipeline.next_deadline_us();
        let left =
            || due_us.map(|due_us| Duration::from_micros(due_us.saturating_sub(own.now_us())));
        let mut pause = gather.pause(interval, Instant::now());
        if let Some(until_us) = pipeline.quiet_until_us().filter(|_| !pause.is_zero()) {
            // Nobody else has to be looked after until the next batch leaves.
            let quiet = Duration::from_micros(until_us.saturating_sub(own.now_us()));
            pause = pause.max(quiet.min(QUIET_MAX));
        }
        rest(left().map_or(pause, |left| left.min(pause)), &said).await;
        let deadline = left().map(tokio::time::sleep);
        tokio::select! {
            count = asked.recv_many(&mut taken, TAKEN_MAX) => is_open = count > 0,
            () = said.any.notified() => {}
            () = async { match deadline { Some(sleep) => sleep.await, None => std::future::pending().await } } => {}
        }
        let now_us = own.now_us();
        came += (taken.len() + said.answers.borrow().len()) as u64;
        gather.looked(interval, Instant::now(), came);
        for ToAsk {
            tag,
            question,
            deadline_us,
        } in taken.drain(..)
        {
            if let Err(refused) = pipeline.submit(now_us, tag, question, deadline_us) {
                answers.push((tag, Err(refused)));
            }
        }
        for (id, answer) in said.answers.take() {
            under_way.remove(&id);
            match answer {
                Ok(answer) => pipeline.handle_answer(now_us, id, answer),
                Err(failure) => pipeline.handle_failure(now_us, id, failure),
            }
        }
        pipeline.handle_timeout(now_us);
        while let Some(batch) = pipeline.poll_batch(now_us) {
            let (id, replica) = (batch.id, batch.replica);
            under_way.insert(id, (replica, send(&stores, batch, said.clone())));
        }
        while let Some(id) = pipeline.poll_given_up() {
            if let Some((Replica(nth), question)) = under_way.remove(&id) {
                question.abort();
                if let Some(store) = stores.get(nth) {
                    store.fails(&BatchFailure::TimedOut);
                }
            }
        }
        while let Some(answer) = pipeline.poll_answer() {
            answers.push(answer);
        }
        if !answers.is_empty() {
            deliver(&mut answers);
            answers.clear();
        }
        if now_us >= figures_due_us {
            figures_due_us = now_us + FIGURES_EVERY_US;
            own.note(&pipeline, &stores);
        }
    }
}

/// Leaves questions and answers alone for a while, so that one wake-up serves many. What was
/// asked before goes out first, and what has come meanwhile is read afterwards.
async fn rest(pause: Duration, said: &Said) {
    if pause.is_zero() {
        return;
    }
    tokio::task::yield_now().await;
    if said.answers.borrow().is_empty() {
        std::thread::sleep(pause);
        tokio::task::yield_now().await;
    }
}

impl Store {
    fn new(options: Options) -> Option<Self> {
        let url = options.url.clone();
        let Ok(db) = UserDb::new(options) else {
            return broken!("the same options were good before the thread began", None);
        };
        Some(Self {
            url,
            db,
            complained: Cell::new(None),
            complained_of_user: Cell::new(None),
            is_told_to_fail: Cell::new(false),
            answered: Cell::new(0),
            round_trip_us: Cell::new(0),
            without_ha1: Cell::new(0),
        })
    }

    /// Asks it, and tells the log when it begins to fail, now and then while it does, and
    /// when it is back.
    async fn ask(&self, rows: &Rows) -> Result<BatchAnswer, BatchFailure> {
        let asked = Instant::now();
        let answer = self.db.ask(rows).await;
        match &answer {
            Err(failure) => self.fails(failure),
            Ok(answer) => {
                self.answers();
                let took_us = u64::try_from(asked.elapsed().as_micros()).unwrap_or(u64::MAX);
                self.answered.set(self.answered.get() + 1);
                self.round_trip_us
                    .set(self.round_trip_us.get().saturating_add(took_us));
                if let (Rows::Secrets(subjects), BatchAnswer::Rows(answers)) = (rows, answer) {
                    self.tell_of_bad_rows(subjects, answers);
                    self.count_without_ha1(answers);
                }
            }
        }
        answer
    }

    fn figures(&self, health: Health) -> StoreFigures {
        let (sent, received) = self.db.traffic();
        StoreFigures {
            answered: self.answered.get(),
            round_trip_us: self.round_trip_us.get(),
            sent,
            received,
            ignored: self.db.ignored_answers(),
            without_ha1: self.without_ha1.get(),
            left_alone: u64::from(health != Health::Healthy),
        }
    }

    fn fails(&self, failure: &BatchFailure) {
        if may_complain(&self.complained) {
            self.is_told_to_fail.set(true);
            tracing::error!(store = self.url, "the store of users fails: {failure}");
        }
    }

    /// One that fails and answers in turn is told of no oftener than one that fails.
    fn answers(&self) {
        if self.is_told_to_fail.replace(false) {
            tracing::info!(store = self.url, "the store of users answers again");
        }
    }

    fn tell_of_bad_rows(&self, subjects: &[Subject], answers: &[Row]) {
        for (subject, answer) in subjects.iter().zip(answers) {
            if let Err(why) = answer
                && may_complain(&self.complained_of_user)
            {
                tracing::warn!(store = self.url, user = ?subject, "a user cannot be let in: {why}");
            }
        }
    }

    fn count_without_ha1(&self, answers: &[Row]) {
        let is_bare = |row: &&Row| matches!(row, Ok(Some(secrets)) if secrets.is_empty());
        let bare = answers.iter().filter(is_bare).count() as u64;
        self.without_ha1.set(self.without_ha1.get() + bare);
    }
}

/// Whether the log may be told now, the last time being what `told` says; then that is now.
pub(crate) fn may_complain(told: &Cell<Option<Instant>>) -> bool {
    let now = Instant::now();
    let last = told.get();
    let may = last.is_none_or(|last| now.duration_since(last) >= COMPLAINT_EVERY);
    if may {
        told.set(Some(now));
    }
    may
}

/// Asks a store, beside whatever else is asked.
fn send(stores: &[Rc<Store>], batch: Batch, said: Rc<Said>) -> AbortHandle {
    let Replica(nth) = batch.replica;
    let store = stores.get(nth).cloned();
    let asking = tokio::task::spawn_local(async move {
        let answer = match store {
            Some(store) => store.ask(&batch.rows).await,
            None => Err(BatchFailure::Refused("there is no such store".to_owned())),
        };
        said.answers.borrow_mut().push((batch.id, answer));
        said.any.notify_one();
    });
    asking.abort_handle()
}

/// Forgets what a store says has changed. A user is forgotten at once, also while everything
/// waits to be forgotten once more.
async fn listen<F: Future<Output = Changed>>(mut changed: impl FnMut() -> F, cache: &Cache) {
    let mut not_before = tokio::time::Instant::now();
    let mut is_due = false;
    loop {
        tokio::select! {
            change = changed() => match change {
                Changed::User(subject) => cache.invalidate(&subject),
                Changed::Everything => is_due = true,
            },
            () = tokio::time::sleep_until(not_before), if is_due => {
                is_due = false;
                cache.invalidate_all();
                not_before = tokio::time::Instant::now() + EMPTIED_EVERY;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use sip_lookup::{BadRow, CacheConfig};

    use super::*;
    use crate::testing::logged;

    fn options(url: &str) -> Options {
        Options {
            url: url.to_owned(),
            password: None,
            tls: sip_userdb::Tls::Auto,
            tls_roots: None,
            layout: sip_userdb::Layout::Signet,
            algorithms: None,
            wanted: None,
            connections_max: 1,
            connect_timeout_ms: 1_000,
        }
    }

    #[test]
    fn stores_are_called_by_where_they_are_and_never_alike() {
        let urls = [
            "mysql://signet@db.example.com:3307/sip",
            "ldap://cn=signet,dc=x@[2001:db8::1]/ou=a@b,dc=x",
            "mysql://other@db.example.com:3307/sip",
            "mysql://other@db.example.com/sip?socket=/run/x",
            "radius://127.0.0.1",
        ];
        let expected = [
            "mysql://db.example.com:3307",
            "ldap://[2001:db8::1]:389",
            "mysql://db.example.com:3307 #3",
            "mysql:///run/x",
            "radius://127.0.0.1:1812",
        ];
        let found = names(urls.into_iter()).ok();
        assert_eq!(found.as_deref(), Some(&expected.map(str::to_owned)[..]));
    }

    #[test]
    fn what_was_asked_goes_out_first_and_answers_that_are_there_wait_for_nothing() {
        let said = Rc::new(Said::default());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        LocalSet::new().block_on(&runtime, async {
            let answers = said.clone();
            tokio::task::spawn_local(async move {
                let answer = Err(BatchFailure::TimedOut);
                answers.answers.borrow_mut().push((BatchId(7), answer));
            });
            // A test that waited for others to gather would not end.
            rest(Duration::from_secs(3_600), &said).await;
        });
        assert_eq!(said.answers.take().len(), 1);
    }

    #[test]
    fn whoever_asks_for_a_user_with_a_bad_row_does_not_hide_that_the_store_fails() {
        let text = logged(|| {
            let store = Store::new(options("http://127.0.0.1:1/")).unwrap();
            let alice = Subject::new(b"alice", "example.org".into());
            store.tell_of_bad_rows(&[alice], &[Err(BadRow::Bad("has no digest".to_owned()))]);
            store.fails(&BatchFailure::TimedOut);
        });
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            matches!(lines[..], [row, fails]
                if row.contains("has no digest") && fails.contains("the store of users fails")),
            "{text}"
        );
    }

    #[test]
    fn a_store_that_fails_and_answers_in_turn_is_not_told_of_each_time() {
        let text = logged(|| {
            let store = Store::new(options("http://127.0.0.1:1/")).unwrap();
            for _ in 0..100 {
                store.fails(&BatchFailure::TimedOut);
                store.answers();
            }
        });
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            matches!(lines[..], [fails, answers]
                if fails.contains("fails") && answers.contains("answers again")),
            "{text}"
        );
    }

    #[test]
    fn what_has_changed_is_remembered_no_more() {
        let alice = Subject::new(b"alice", Arc::from("example.org"));
        for change in [Changed::User(alice.clone()), Changed::Everything] {
            let cache = crate::store_link::tests::cache();
            let is_known = || cache.get(2, &alice, sip_auth::Algorithm::Md5).is_some();
            assert!(is_known());
            let said = RefCell::new(Some(change));
            let changed = || async {
                let next = said.borrow_mut().take();
                match next {
                    Some(change) => change,
                    None => std::future::pending().await,
                }
            };
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            runtime.enable_all().build().unwrap().block_on(async {
                tokio::select! {
                    () = listen(changed, &cache) => {}
                    () = tokio::time::sleep(std::time::Duration::from_millis(20)) => {}
                }
            });
            assert!(!is_known());
        }
    }

    #[test]
    fn who_has_changed_is_forgotten_while_everything_waits_to_be_once_more() {
        let user = |name: &str| Changed::User(Subject::new(name.as_bytes(), Arc::from("a.org")));
        let said = [
            Changed::Everything,
            Changed::Everything,
            user("alice"),
            user("bob"),
        ];
        let said = RefCell::new(VecDeque::from(said));
        let changed = || async {
            let next = said.borrow_mut().pop_front();
            match next {
                Some(changed) => changed,
                None => std::future::pending().await,
            }
        };
        let cache = Cache::new([1; 16], CacheConfig::default());
        let turns = async {
            for _ in 0..1_000 {
                tokio::task::yield_now().await;
            }
        };
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_all().build().unwrap().block_on(async {
            tokio::select! {
                () = listen(changed, &cache) => {}
                () = turns => {}
            }
        });
        assert!(said.borrow().is_empty(), "{said:?}");
    }
}
