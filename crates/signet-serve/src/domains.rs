//! The domains that stores of users on other machines list. A thread of its own asks for them,
//! so that neither a worker nor whoever reloads waits for a store that is slow or gone.

use std::cell::Cell;
use std::future::pending;
use std::time::{Duration, Instant};

use sip_userdb::Options;
use tokio::sync::oneshot::{self, error::RecvError};

use crate::Error;
use crate::lookups::may_complain;
use crate::store_link::spawn;
use crate::userdb::{self, NoDomains};

type Answer = Result<Vec<String>, NoDomains>;

/// The first pause before what is due is asked for again. Each is twice as long as the one before,
/// up to the last.
const PAUSE_FIRST: Duration = Duration::from_secs(1);
const PAUSE_LAST: Duration = Duration::from_secs(30);

/// What the stores list.
#[derive(Default)]
pub(crate) struct StoreDomains {
    /// The stores; none where their lists do not count.
    stores: Vec<Options>,
    known: Vec<String>,
    /// A store has listed them since the start, or has said that it never will.
    were_listed: bool,
    /// The pause after which what is due is asked for again, and when it ends.
    pause: Duration,
    again_at: Option<Instant>,
    /// When the log was last told that they could not be asked for, or are not known.
    complained: Cell<Option<Instant>>,
    /// What was taken over has changed them, and nobody was told yet.
    have_changed: bool,
    asking: Option<oneshot::Receiver<Answer>>,
    /// Somebody asked while that was under way: what it answers may be from before.
    is_asked_again: bool,
    /// It was asked for behind another answer: whoever waits goes on after it.
    is_second: bool,
}

impl StoreDomains {
    /// Asks for the first time. A store that is away lists none for now; an error where it has
    /// no list at all.
    pub(crate) fn read(stores: Vec<Options>) -> Result<Self, Error> {
        let (known, were_listed) = match userdb::domains(&stores) {
            Ok(domains) => (domains, true),
            Err(NoDomains::Never(error)) => return Err(error),
            Err(NoDomains::Now(error)) => {
                tracing::error!(
                    "the domains of the store of users are not known, and only those of the configuration are served until they are: {error}"
                );
                (Vec::new(), false)
            }
        };
        Ok(Self {
            stores,
            known,
            were_listed,
            complained: Cell::new(Some(Instant::now())),
            ..Self::default()
        })
    }

    /// The domains that they listed last, in alphabetical order.
    pub(crate) fn known(&self) -> &[String] {
        &self.known
    }

    /// Whether they are known: not where the store was away at the start and has not answered
    /// since, so that a domain that is not known may be one of them.
    pub(crate) fn are_known(&self) -> bool {
        self.were_listed || self.stores.is_empty()
    }

    /// Has them asked again and again, and ever later, until they are known and none `are_due` to
    /// be taken over, however seldom they are asked otherwise. To be called every second.
    pub(crate) fn poll_what_is_due(&mut self, now: Instant, are_due: bool) {
        if self.are_known() && !are_due {
            (self.pause, self.again_at) = (Duration::ZERO, None);
            return;
        }
        if self.again_at.is_some_and(|at| now < at) || self.asking.is_some() {
            return;
        }
        self.pause = (self.pause * 2).clamp(PAUSE_FIRST, PAUSE_LAST);
        self.again_at = Some(now + self.pause);
        self.poll();
    }

    /// Has them asked now and then: not while an answer is awaited. A store that takes longer to
    /// answer than from one poll to the next is asked as often as it answers.
    pub(crate) fn poll(&mut self) {
        if !self.stores.is_empty() && self.asking.is_none() {
            self.begin();
        }
    }

    /// Has them asked once more, behind what is under way. False where their lists do not count:
    /// then there is no answer.
    pub(crate) fn ask(&mut self) -> bool {
        if self.stores.is_empty() {
            return false;
        }
        if self.asking.is_some() {
            self.is_asked_again = true;
            return true;
        }
        self.begin();
        self.asking.is_some()
    }

    fn begin(&mut self) {
        let stores = self.stores.clone();
        let (answer, asking) = oneshot::channel();
        let begun = spawn("domains", move || {
            // Who asked may have ended meanwhile.
            let _ = answer.send(userdb::domains(&stores));
        });
        match begun {
            Ok(_) => self.asking = Some(asking),
            Err(error) => {
                if may_complain(&self.complained) {
                    tracing::warn!(
                        "the domains of the store of users were not read again: {error}"
                    );
                }
            }
        }
    }

    /// Waits for the answer; for ever where nobody asks. Whether there are others than before, or
    /// they are known only now: where the store could not say, those that are known stay. Who asked
    /// meanwhile has one more answer waited for, not one for each time.
    pub(crate) async fn answered(&mut self) -> bool {
        loop {
            let Some(asking) = &mut self.asking else {
                return pending().await;
            };
            let answer = asking.await;
            self.asking = None;
            self.take_over(answer);
            let was_second = std::mem::take(&mut self.is_second);
            if std::mem::take(&mut self.is_asked_again) {
                self.begin();
                self.is_second = !was_second && self.asking.is_some();
            }
            if !self.is_second {
                return std::mem::take(&mut self.have_changed);
            }
        }
    }

    fn take_over(&mut self, answer: Result<Answer, RecvError>) {
        match answer {
            Ok(Ok(domains)) => {
                // With the first list, what is not on it is foreign.
                self.have_changed |= domains != self.known || !self.were_listed;
                self.known = domains;
                self.were_listed = true;
            }
            Ok(Err(NoDomains::Never(error) | NoDomains::Now(error))) if self.were_listed => {
                tracing::warn!(
                    "the domains of the store of users were not read again, and those that were known go on: {error}"
                );
            }
            // To wait for a list helps nobody: without one, what is not known is foreign.
            Ok(Err(NoDomains::Never(error))) => {
                tracing::warn!(
                    "the store of users has no list of domains that can be read, and only those of the configuration are served: {error}"
                );
                self.have_changed = true;
                self.were_listed = true;
            }
            Ok(Err(NoDomains::Now(error))) => {
                if may_complain(&self.complained) {
                    tracing::warn!(
                        "the domains of the store of users are still not known: {error}"
                    );
                }
            }
            // A thread that panicked has ended the process already.
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use sip_userdb::{Layout, Tls};

    use super::*;

    /// A database at a port where there is none.
    fn nowhere() -> Options {
        Options {
            url: "mysql://signet@127.0.0.1:1/signet".to_owned(),
            password: None,
            tls: Tls::Never,
            tls_roots: None,
            layout: Layout::Signet,
            algorithms: None,
            wanted: None,
            connections_max: 1,
            connect_timeout_ms: 1_000,
        }
    }

    fn run<T>(future: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(future)
    }

    #[test]
    fn where_lists_do_not_count_nobody_is_asked() {
        let mut domains = StoreDomains::default();
        assert!(!domains.ask() && domains.are_known());
        domains.poll_what_is_due(Instant::now(), false);
        assert!(domains.asking.is_none());
    }

    #[test]
    fn what_is_known_stays_while_the_store_is_away() {
        let mut domains = StoreDomains::read(vec![nowhere()]).unwrap();
        assert!(domains.known().is_empty());
        domains.known = vec!["example.org".to_owned()];
        assert!(domains.ask() && domains.ask());
        assert!(!run(domains.answered()), "nothing is different");
        assert_eq!(domains.known(), ["example.org"]);
        assert!(domains.asking.is_none() && !domains.is_asked_again);
    }

    /// Stores that are away, and where the answer to come is given.
    fn asked() -> (StoreDomains, oneshot::Sender<Answer>) {
        let (answer, asking) = oneshot::channel();
        let domains = StoreDomains {
            stores: vec![nowhere()],
            asking: Some(asking),
            ..StoreDomains::default()
        };
        (domains, answer)
    }

    fn give(answer: oneshot::Sender<Answer>) {
        assert!(answer.send(Ok(vec!["example.org".to_owned()])).is_ok());
    }

    #[test]
    fn until_they_are_known_they_are_asked_for_again_and_ever_later() {
        let mut domains = StoreDomains::read(vec![nowhere()]).unwrap();
        let mut now = Instant::now();
        for pause_s in [1, 2, 4, 8, 16, 30, 30] {
            domains.poll_what_is_due(now, false);
            assert!(domains.asking.is_some(), "{pause_s}");
            assert!(!run(domains.answered()), "the store is away");
            assert!(!domains.are_known());
            let before = now + Duration::from_millis(pause_s * 1_000 - 1);
            domains.poll_what_is_due(before, false);
            assert!(domains.asking.is_none(), "{pause_s}");
            now += Duration::from_secs(pause_s);
        }
    }

    #[test]
    fn what_was_not_taken_over_is_asked_for_again() {
        let (mut domains, answer) = asked();
        give(answer);
        assert!(run(domains.answered()));
        let now = Instant::now();
        domains.poll_what_is_due(now, false);
        assert!(domains.asking.is_none());
        domains.poll_what_is_due(now, true);
        assert!(domains.asking.is_some());
    }

    #[test]
    fn a_store_that_comes_back_without_a_list_lists_none() {
        let never = || NoDomains::Never(Error::new("it lists none", "name them elsewhere"));
        let (mut domains, answer) = asked();
        assert!(answer.send(Err(never())).is_ok());
        assert!(run(domains.answered()), "what is not known is foreign");
        assert!(domains.are_known() && domains.known().is_empty());
        // A list that there was before goes on.
        let (answer, asking) = oneshot::channel();
        domains.known = vec!["example.org".to_owned()];
        domains.asking = Some(asking);
        assert!(answer.send(Err(never())).is_ok());
        assert!(!run(domains.answered()));
        assert_eq!(domains.known(), ["example.org"]);
    }

    #[test]
    fn the_first_list_counts_where_it_is_empty() {
        let (mut domains, answer) = asked();
        assert!(!domains.are_known());
        assert!(answer.send(Ok(Vec::new())).is_ok());
        assert!(run(domains.answered()), "what is not on it is foreign now");
        assert!(domains.are_known());
        domains.poll_what_is_due(Instant::now(), false);
        assert!(domains.asking.is_none());
    }

    #[test]
    fn a_poll_while_an_answer_is_awaited_asks_nothing() {
        let (mut domains, answer) = asked();
        domains.poll();
        give(answer);
        assert!(run(domains.answered()));
        assert_eq!(domains.known(), ["example.org"]);
        assert!(domains.asking.is_none());
        domains.poll();
        assert!(domains.asking.is_some());
    }

    #[test]
    fn an_answer_counts_where_somebody_asked_again_meanwhile() {
        let (mut domains, answer) = asked();
        assert!(domains.ask());
        give(answer);
        // The second answer is that the store is away.
        assert!(run(domains.answered()));
        assert_eq!(domains.known(), ["example.org"]);
        assert!(domains.asking.is_none());
    }

    #[test]
    fn who_waits_goes_on_after_the_second_answer() {
        let (mut domains, answer) = asked();
        domains.is_second = true;
        assert!(domains.ask());
        give(answer);
        assert!(run(domains.answered()));
        assert!(domains.asking.is_some(), "there is a third to come");
        assert!(!run(domains.answered()));
        assert!(domains.asking.is_none());
    }

    #[test]
    fn a_store_without_a_list_is_found_at_the_start() {
        let mut store = nowhere();
        store.url = "http://127.0.0.1:1/users".to_owned();
        let error = StoreDomains::read(vec![store]).map(|_| ()).unwrap_err();
        assert!(error.what().contains("lists no domains"), "{error}");
    }
}
