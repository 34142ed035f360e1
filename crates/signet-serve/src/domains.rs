//! The domains that stores of users on other machines list. A thread of its own asks for them,
//! so that neither a worker nor whoever reloads waits for a store that is slow or gone.

use std::future::pending;

use sip_userdb::Options;
use tokio::sync::oneshot;

use crate::Error;
use crate::store_link::spawn;
use crate::userdb::{self, NoDomains};

type Answer = Result<Vec<String>, NoDomains>;

/// What the stores list.
#[derive(Default)]
pub(crate) struct StoreDomains {
    /// The stores; none where their lists do not count.
    stores: Vec<Options>,
    known: Vec<String>,
    asking: Option<oneshot::Receiver<Answer>>,
    /// Somebody asked while that was under way: what it answers may be from before.
    is_asked_again: bool,
}

impl StoreDomains {
    /// Asks for the first time. A store that is away lists none for now; an error where it has
    /// no list at all.
    pub(crate) fn read(stores: Vec<Options>) -> Result<Self, Error> {
        let known = match userdb::domains(&stores) {
            Ok(domains) => domains,
            Err(NoDomains::Never(error)) => return Err(error),
            Err(NoDomains::Now(error)) => {
                tracing::error!(
                    "the domains of the store of users are not known, and only those of the configuration are served until they are: {error}"
                );
                Vec::new()
            }
        };
        Ok(Self {
            stores,
            known,
            ..Self::default()
        })
    }

    /// The domains that they listed last, in alphabetical order.
    pub(crate) fn known(&self) -> &[String] {
        &self.known
    }

    /// Has them asked once more. False where their lists do not count: then there is no answer.
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
                tracing::warn!("the domains of the store of users were not read again: {error}");
            }
        }
    }

    /// Waits for the answer; for ever where nobody asks. Whether there are others than before:
    /// where the store could not say, those that are known stay.
    pub(crate) async fn answered(&mut self) -> bool {
        loop {
            let Some(asking) = &mut self.asking else {
                return pending().await;
            };
            let answer = asking.await;
            self.asking = None;
            if std::mem::take(&mut self.is_asked_again) {
                self.begin();
                if self.asking.is_some() {
                    continue;
                }
            }
            return match answer {
                Ok(Ok(domains)) => {
                    let have_changed = domains != self.known;
                    self.known = domains;
                    have_changed
                }
                Ok(Err(NoDomains::Never(error) | NoDomains::Now(error))) => {
                    tracing::warn!(
                        "the domains of the store of users were not read again, and those that were known go on: {error}"
                    );
                    false
                }
                // A thread that panicked has ended the process already.
                Err(_) => false,
            };
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
        assert!(!StoreDomains::default().ask());
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

    #[test]
    fn a_store_without_a_list_is_found_at_the_start() {
        let mut store = nowhere();
        store.url = "http://127.0.0.1:1/users".to_owned();
        let error = StoreDomains::read(vec![store]).map(|_| ()).unwrap_err();
        assert!(error.what().contains("lists no domains"), "{error}");
    }
}
