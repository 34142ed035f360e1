//! A few connections to one store, made when they are asked for.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::fault::Fault;
use crate::net::Silence;

/// How long nobody tries again after a try to make a connection began that failed: this at
/// first, twice as long each time. At most [`BACKOFF_MAX`] where the store is away, which is
/// less than the time between two of the pipeline's probes: each of them is a try, and a
/// store that returns is found by the next. A store that refuses us is there, and hears of
/// us less often.
const BACKOFF_MIN: Duration = Duration::from_millis(50);
const BACKOFF_MAX: Duration = Duration::from_millis(150);
const BACKOFF_REFUSED_MAX: Duration = Duration::from_millis(400);

/// A connection that takes longer to be made than this is not waited for before another is
/// begun: a machine that is gone swallows what would find that it is back.
const HANGS: Duration = Duration::from_millis(500);

/// A connection that is silent for so long although it was asked is given up. Long before
/// that, others are preferred to it.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(5);
const SILENCE_LONG: Duration = Duration::from_secs(1);

/// Makes connections.
pub(crate) trait Maker {
    /// A connection, logged in.
    type Link: Link;

    /// Makes one, within the time for that.
    fn make(&self) -> impl Future<Output = Result<Self::Link, Fault>>;
}

/// A connection as the pool sees it.
pub(crate) trait Link {
    /// Whether it can be asked.
    fn is_up(&self) -> bool;

    /// How many statements wait on it.
    fn load(&self) -> usize;
}

/// The load of a connection, which is beyond any number while it is silent for long.
pub(crate) fn weighed(load: &Load, silence: &Silence) -> usize {
    match silence.lasts() < SILENCE_LONG {
        true => load.now(),
        false => usize::MAX,
    }
}

/// How many statements wait on one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Load(Rc<Cell<usize>>);

/// One statement, counted from when it is asked until this is dropped.
#[derive(Debug)]
pub(crate) struct Counted(Load);

impl Load {
    /// One more.
    pub(crate) fn one_more(&self) -> Counted {
        self.0.set(self.0.get() + 1);
        Counted(self.clone())
    }

    /// How many there are.
    pub(crate) fn now(&self) -> usize {
        self.0.get()
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let Load(count) = &self.0;
        count.set(count.get() - 1);
    }
}

/// The connections to one store.
pub(crate) struct Pool<M: Maker> {
    shared: Rc<Shared<M>>,
}

struct Shared<M: Maker> {
    maker: M,
    links_max: usize,
    /// The load of every connection at which another is made.
    busy: usize,
    links: RefCell<Vec<Rc<M::Link>>>,
    opening: Cell<usize>,
    /// When the last of those began.
    opened: Cell<Option<Instant>>,
    /// How often a connection could not be made, and what came of the last try.
    failures: Cell<u64>,
    last_fault: RefCell<Option<Fault>>,
    backoff: Cell<Duration>,
    not_before: Cell<Option<Instant>>,
    /// A connection was made, or could not be.
    settled: Notify,
}

impl<M: Maker + 'static> Pool<M> {
    /// An empty pool of at most `links_max` connections. Another is made while each has
    /// `busy` statements waiting.
    pub(crate) fn new(maker: M, links_max: usize, busy: usize) -> Self {
        Self {
            shared: Rc::new(Shared {
                maker,
                links_max: links_max.max(1),
                busy,
                links: RefCell::default(),
                opening: Cell::new(0),
                opened: Cell::new(None),
                failures: Cell::new(0),
                last_fault: RefCell::new(None),
                backoff: Cell::new(BACKOFF_MIN),
                not_before: Cell::new(None),
                settled: Notify::new(),
            }),
        }
    }

    /// What makes the connections.
    pub(crate) fn maker(&self) -> &M {
        &self.shared.maker
    }

    /// The connection on which fewest statements wait. Where there is none it is waited for;
    /// soon after a failure that is the answer, without another try.
    pub(crate) async fn link(&self) -> Result<Rc<M::Link>, Fault> {
        let shared = &self.shared;
        let failures = shared.failures.get();
        loop {
            let best = shared.best();
            let is_short = best.as_ref().is_none_or(|link| link.load() >= shared.busy);
            if is_short && shared.may_open() {
                self.open();
            }
            if let Some(link) = best {
                return Ok(link);
            }
            if shared.failures.get() != failures || shared.opening.get() == 0 {
                let fault = shared.last_fault.borrow().clone();
                return Err(fault.unwrap_or_else(|| {
                    Fault::Unreachable("no connection is being made".to_owned())
                }));
            }
            shared.settled.notified().await;
        }
    }

    /// Makes one more connection; whoever asked for it may go away meanwhile.
    fn open(&self) {
        let shared = Rc::clone(&self.shared);
        shared.opening.set(shared.opening.get() + 1);
        let began = Instant::now();
        shared.opened.set(Some(began));
        tokio::task::spawn_local(async move {
            let made = shared.maker.make().await;
            shared.opening.set(shared.opening.get() - 1);
            match made {
                Ok(link) => {
                    shared.links.borrow_mut().push(Rc::new(link));
                    shared.backoff.set(BACKOFF_MIN);
                    shared.not_before.set(None);
                }
                Err(fault) => {
                    let most = match fault {
                        Fault::Unreachable(_) => BACKOFF_MAX,
                        Fault::LogInRefused(_)
                        | Fault::Refused(_)
                        | Fault::Unusable(_)
                        | Fault::Cancelled(_) => BACKOFF_REFUSED_MAX,
                    };
                    let backoff = shared.backoff.get().min(most);
                    shared.not_before.set(Some(began + backoff));
                    shared.backoff.set((backoff * 2).min(most));
                    shared.failures.set(shared.failures.get() + 1);
                    *shared.last_fault.borrow_mut() = Some(fault);
                }
            }
            shared.settled.notify_waiters();
        });
    }
}

impl<M: Maker> Shared<M> {
    fn best(&self) -> Option<Rc<M::Link>> {
        let mut links = self.links.borrow_mut();
        links.retain(|link| link.is_up());
        links.iter().min_by_key(|link| link.load()).cloned()
    }

    fn may_open(&self) -> bool {
        let now = Instant::now();
        let is_time = self.not_before.get().is_none_or(|at| at <= now);
        let (links, opening) = (self.links.borrow().len(), self.opening.get());
        let hangs = self.opened.get().is_some_and(|at| at + HANGS <= now);
        // As many again as there are: a store that is gone is tried once, and one that is
        // there has all its connections after a few round trips.
        is_time && (opening < links.max(1) || hangs) && links + opening < self.links_max
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    /// How often the pipeline tries a store that is away, as it is in service.
    const PROBE_INTERVAL: Duration = Duration::from_millis(200);

    /// Makes connections that count, as long as it is told to.
    #[derive(Default)]
    struct Fake {
        tries: Cell<usize>,
        fails: Cell<bool>,
        refuses: Cell<bool>,
        hangs: Cell<bool>,
    }

    #[derive(Default)]
    struct FakeLink {
        is_down: Cell<bool>,
        load: Cell<usize>,
    }

    impl Link for FakeLink {
        fn is_up(&self) -> bool {
            !self.is_down.get()
        }

        fn load(&self) -> usize {
            self.load.get()
        }
    }

    impl Maker for Fake {
        type Link = FakeLink;

        async fn make(&self) -> Result<FakeLink, Fault> {
            self.tries.set(self.tries.get() + 1);
            if self.hangs.get() {
                return std::future::pending().await;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
            if self.fails.get() {
                return Err(Fault::Unreachable("gone".to_owned()));
            }
            if self.refuses.get() {
                return Err(Fault::Refused("no".to_owned()));
            }
            Ok(FakeLink::default())
        }
    }

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(tokio::task::LocalSet::new().run_until(test));
    }

    #[test]
    fn one_connection_is_made_for_all_who_wait() {
        run(async {
            let pool = Pool::new(Fake::default(), 4, 8);
            let (a, b) = tokio::join!(pool.link(), pool.link());
            assert!(Rc::ptr_eq(&a.unwrap(), &b.unwrap()));
            assert_eq!(pool.maker().tries.get(), 1);
        });
    }

    #[test]
    fn another_is_made_under_load_and_no_more_than_allowed() {
        run(async {
            let pool = Pool::new(Fake::default(), 2, 3);
            let first = pool.link().await.unwrap();
            first.load.set(3);
            // The one that is there serves until the other has come.
            assert!(Rc::ptr_eq(&first, &pool.link().await.unwrap()));
            tokio::time::sleep(Duration::from_millis(20)).await;
            let second = pool.link().await.unwrap();
            assert!(!Rc::ptr_eq(&first, &second));
            second.load.set(9);
            assert!(Rc::ptr_eq(&first, &pool.link().await.unwrap()));
            tokio::time::sleep(Duration::from_millis(20)).await;
            assert_eq!(pool.maker().tries.get(), 2);
        });
    }

    #[test]
    fn they_double_under_load() {
        run(async {
            let pool = Pool::new(Fake::default(), 8, 1);
            for expected in [1, 2, 4, 8, 8] {
                let links: Vec<_> = (0..9).map(|_| pool.link()).collect();
                for link in links {
                    link.await.unwrap().load.set(1);
                }
                assert_eq!(pool.maker().tries.get().max(1), expected);
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
    }

    #[test]
    fn a_failure_is_told_to_all_who_wait_and_holds_for_a_while() {
        run(async {
            let pool = Pool::new(Fake::default(), 2, 3);
            pool.maker().fails.set(true);
            let (a, b) = tokio::join!(pool.link(), pool.link());
            assert!(a.is_err() && b.is_err());
            assert!(pool.link().await.is_err());
            assert_eq!(pool.maker().tries.get(), 1);
            pool.maker().fails.set(false);
            // It began when the try did, ten milliseconds before.
            tokio::time::sleep(BACKOFF_MIN).await;
            assert!(pool.link().await.is_ok());
            assert_eq!(pool.maker().tries.get(), 2);
        });
    }

    #[test]
    fn whoever_asks_now_and_then_finds_a_store_that_is_back_by_the_first_try() {
        run(async {
            let pool = Pool::new(Fake::default(), 2, 3);
            pool.maker().fails.set(true);
            let mut probes = tokio::time::interval(PROBE_INTERVAL);
            for asked in 1..=20 {
                probes.tick().await;
                assert!(pool.link().await.is_err());
                assert_eq!(pool.maker().tries.get(), asked, "it was not tried");
            }
            pool.maker().fails.set(false);
            probes.tick().await;
            assert!(pool.link().await.is_ok());
        });
    }

    #[test]
    fn a_store_that_is_back_is_found_though_tries_hang() {
        run(async {
            let pool = Pool::new(Fake::default(), 4, 3);
            pool.maker().hangs.set(true);
            let mut probes = tokio::time::interval(PROBE_INTERVAL);
            for _ in 0..4 {
                probes.tick().await;
                let found = tokio::time::timeout(PROBE_INTERVAL / 2, pool.link()).await;
                assert!(found.is_err(), "nothing comes of it");
            }
            assert_eq!(pool.maker().tries.get(), 2, "another when the first hangs");
            pool.maker().hangs.set(false);
            for _ in 0..3 {
                probes.tick().await;
                let found = tokio::time::timeout(PROBE_INTERVAL / 2, pool.link()).await;
                if found.is_ok() {
                    return;
                }
            }
            panic!("it is not found");
        });
    }

    #[test]
    fn a_store_that_refuses_us_is_tried_less_often() {
        run(async {
            let pool = Pool::new(Fake::default(), 2, 3);
            pool.maker().refuses.set(true);
            let mut probes = tokio::time::interval(PROBE_INTERVAL);
            for _ in 0..20 {
                probes.tick().await;
                assert!(matches!(pool.link().await, Err(Fault::Refused(_))));
            }
            let tries = pool.maker().tries.get();
            assert!((8..=12).contains(&tries), "{tries}");
        });
    }

    #[test]
    fn who_goes_away_stops_no_connection() {
        run(async {
            let pool = Pool::new(Fake::default(), 2, 3);
            let gave_up = tokio::time::timeout(Duration::from_millis(1), pool.link()).await;
            assert!(gave_up.is_err());
            pool.link().await.unwrap();
            assert_eq!(pool.maker().tries.get(), 1);
        });
    }

    #[test]
    fn one_that_is_down_is_replaced() {
        run(async {
            let pool = Pool::new(Fake::default(), 1, 3);
            let first = pool.link().await.unwrap();
            first.is_down.set(true);
            assert!(!Rc::ptr_eq(&first, &pool.link().await.unwrap()));
        });
    }
}
