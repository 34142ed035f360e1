//! Users in a store on another machine.

use std::cell::RefCell;
use std::future::Future;
use std::path::PathBuf;

use sip_auth::{Ha1Set, Secrets, Subject};
use sip_lookup::{BatchAnswer, Rows};
use sip_store::ListedUser;
use sip_userdb::{Options, UserDb};
use tokio::runtime::Runtime;
use tokio::task::LocalSet;

use super::forget::tell_forget;
use crate::Error;
use crate::userdb::store_error;

/// Users listed by one question.
const PAGE: usize = 1_000;

/// The users of a store on another machine.
pub(super) struct Elsewhere {
    runtime: Runtime,
    local: RefCell<LocalSet>,
    store: UserDb,
    /// Whether the store knows users as `user@realm`.
    names_have_realms: bool,
    /// The data folder, where a running server is told of changes.
    data: PathBuf,
}

impl Elsewhere {
    /// Takes the first of the stores: it is the one that is written to.
    pub(super) fn open(options: Options, data: PathBuf) -> Result<Self, Error> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| {
                Error::new(
                    format!("cannot ask the store of users: {error}"),
                    "look at the limits of processes and open files: ulimit -a",
                )
            })?;
        let names_have_realms = options.layout.names_have_realms();
        let store = UserDb::new(options).map_err(|error| store_error(&error))?;
        Ok(Self {
            runtime,
            local: RefCell::new(LocalSet::new()),
            store,
            names_have_realms,
            data,
        })
    }

    /// Whether there is such a user.
    pub(super) fn has(&self, realm: &str, user: &str) -> Result<bool, Error> {
        if !self.tells() {
            return Err(Error::new(
                "the store of users does not say who is in it",
                "manage its users by its own tools",
            ));
        }
        let rows = Rows::Secrets(vec![self.subject(realm, user)]);
        match self.wait(self.store.ask(&rows)) {
            Ok(BatchAnswer::Rows(rows)) => match rows.first() {
                Some(Ok(found)) => Ok(found.is_some()),
                // What is there is of no use, and is there.
                Some(Err(_)) => Ok(true),
                None => Err(unreachable("it answered nothing")),
            },
            Ok(BatchAnswer::Verified(_)) => Err(unreachable("it answered something else")),
            Err(failure) => Err(unreachable(&failure.to_string())),
        }
    }

    /// Whether the store says who is in it.
    pub(super) fn tells(&self) -> bool {
        self.store.capabilities().tells_unknown_users
    }

    /// Adds a user or gives him another password. A running server is told even where the store
    /// fails: its answer may have been lost after the change.
    pub(super) fn put(&self, realm: &str, user: &str, password: &str) -> Result<(), Error> {
        let subject = self.subject(realm, user);
        let set = Ha1Set::compute(subject.user(), realm.as_bytes(), password.as_bytes());
        let put = self.wait(self.store.put(&subject, &set.into()));
        let told = tell_forget(&self.data, &[subject]);
        put.map_err(|error| store_error(&error))?;
        told
    }

    /// Removes a user, false where there was none; and whether a running server was told, which
    /// it is even where the store fails, as by [`Self::put`].
    pub(super) fn remove(
        &self,
        realm: &str,
        user: &str,
    ) -> Result<(bool, Result<(), Error>), Error> {
        let subject = self.subject(realm, user);
        let removed = self.wait(self.store.remove(&subject));
        let told = tell_forget(&self.data, &[subject]);
        let removed = removed.map_err(|error| store_error(&error))?;
        Ok((removed, told))
    }

    /// Gives every user to `each`, in the order of realms and names.
    pub(super) fn list(&self, each: &mut dyn FnMut(&str, &str)) -> Result<(), Error> {
        let mut after: Option<Subject> = None;
        loop {
            let page = self.wait(self.store.list(after.as_ref(), PAGE));
            let page = page.map_err(|error| store_error(&error))?;
            for subject in &page {
                let user = String::from_utf8_lossy(subject.user());
                each(self.bare(&user, subject.realm()), subject.realm());
            }
            after = match page.last() {
                Some(last) if page.len() == PAGE => Some(last.clone()),
                _ => return Ok(()),
            };
        }
    }

    /// Adds or changes users, in the order of the list; an error says after how many. A running
    /// server is told of all that were tried: what went wrong may have come after the change.
    pub(super) fn import(&self, users: &[ListedUser]) -> Result<(), Error> {
        let rows = users.iter().map(|listed| self.row(listed));
        let rows = rows.collect::<Result<Vec<_>, _>>()?;
        let mut tried = Vec::new();
        let put = rows.into_iter().enumerate().try_for_each(|(done, row)| {
            let (subject, secrets) = row;
            let put = self.wait(self.store.put(&subject, secrets));
            tried.push(subject);
            put.map_err(|error| (done, error))
        });
        let told = tell_forget(&self.data, &tried);
        let Err((done, error)) = put else {
            return told;
        };
        let mut what = format!("after {done} of {} users: {}", users.len(), error.what());
        if let Err(untold) = told {
            what = format!("{what}; {}", untold.what());
        }
        Err(Error::new(what, error.remedy()))
    }

    /// What is to be put for a user of a list.
    fn row<'l>(&self, listed: &'l ListedUser) -> Result<(Subject, &'l Secrets), Error> {
        let ListedUser {
            realm,
            user,
            secrets,
            with_domain,
        } = listed;
        let has_domain = user.contains('@');
        if self.names_have_realms && has_domain && self.bare(user, realm) == user.as_str() {
            return Err(Error::new(
                format!("with user_with_domain {user} is no name in {realm}; nothing was imported"),
                format!("write user@{realm}"),
            ));
        }
        if !self.names_have_realms || has_domain {
            return Ok((
                Subject::new(user.as_bytes(), realm.as_str().into()),
                secrets,
            ));
        }
        match with_domain {
            Some(secrets) => Ok((self.subject(realm, user), secrets)),
            None => Err(Error::new(
                format!(
                    "{user} in {realm} has an HA1 of that name, and with user_with_domain that of {user}@{realm} counts; nothing was imported"
                ),
                format!("give his password, or the HA1 of {user}@{realm} and that for his name"),
            )),
        }
    }

    /// A user as the store knows him.
    fn subject(&self, realm: &str, user: &str) -> Subject {
        match self.names_have_realms {
            true => Subject::new(format!("{user}@{realm}").as_bytes(), realm.into()),
            false => Subject::new(user.as_bytes(), realm.into()),
        }
    }

    /// His name as it stands in an address.
    fn bare<'n>(&self, user: &'n str, realm: &str) -> &'n str {
        let bare = user
            .strip_suffix(realm)
            .and_then(|rest| rest.strip_suffix('@'));
        bare.filter(|_| self.names_have_realms).unwrap_or(user)
    }

    fn wait<T>(&self, answer: impl Future<Output = T>) -> T {
        self.local.borrow().block_on(&self.runtime, answer)
    }
}

fn unreachable(why: &str) -> Error {
    Error::new(
        format!("the store of users cannot be asked: {why}"),
        "look whether it runs, and whether users.stores names it rightly",
    )
}
