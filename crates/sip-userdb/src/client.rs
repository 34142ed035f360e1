//! One store, whatever its protocol.

use std::cell::RefCell;
use std::sync::Arc;

use sip_auth::{Secrets, Subject};
use sip_lookup::{BatchAnswer, BatchFailure, Rows};

use crate::fault::Unanswered;
use crate::url::{Scheme, Url};
use crate::{Capabilities, Error, Options, http, ldap, mysql, postgres, radius, redis};

/// A store of users on another machine. It lives in one thread, on tokio's
/// current-thread runtime within a `LocalSet`; batches are asked side by side, and share
/// a few connections.
pub struct UserDb {
    client: Client,
    /// The realm of the last question that was answered.
    answered: RefCell<Option<Arc<str>>>,
}

/// What a store says has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changed {
    /// One user.
    User(Subject),
    /// Perhaps any: what was announced may have been missed.
    Everything,
}

enum Client {
    Mysql(mysql::Client),
    Postgres(postgres::Client),
    Redis(redis::Client),
    Ldap(ldap::Client),
    Radius(radius::Client),
    Http(http::Client),
}

/// Does the same with whatever client it is.
macro_rules! each {
    ($self:expr, $client:ident => $does:expr) => {
        match &$self.client {
            Client::Mysql($client) => $does,
            Client::Postgres($client) => $does,
            Client::Redis($client) => $does,
            Client::Ldap($client) => $does,
            Client::Radius($client) => $does,
            Client::Http($client) => $does,
        }
    };
}

impl UserDb {
    /// Takes the configuration. Nothing is connected yet.
    pub fn new(options: Options) -> Result<Self, Error> {
        let url = Url::parse(&options.url)?;
        let client = match url.scheme {
            Scheme::Mysql => Client::Mysql(mysql::Client::new(url, options)?),
            Scheme::Postgres => Client::Postgres(postgres::Client::new(url, options)?),
            Scheme::Redis => Client::Redis(redis::Client::new(url, options)?),
            Scheme::Ldap => Client::Ldap(ldap::Client::new(url, options)?),
            Scheme::Radius => Client::Radius(radius::Client::new(url, options)?),
            Scheme::Http => Client::Http(http::Client::new(&url, options)?),
        };
        Ok(Self {
            client,
            answered: RefCell::new(None),
        })
    }

    /// What it can do.
    pub fn capabilities(&self) -> &Capabilities {
        each!(self, client => client.capabilities())
    }

    /// Asks for many users in one statement, over a connection that may be shared with
    /// others' questions. Dropping the future gives the question up and harms no other.
    ///
    /// What a store does not like may be a name, which strangers choose, or all that it is asked
    /// about users. So where it refuses it is asked about somebody whom nobody knows: if it refuses
    /// that as well, no name is the reason.
    pub async fn ask(&self, rows: &Rows) -> Result<BatchAnswer, BatchFailure> {
        let Unanswered { failure, has_ended } = match self.ask_once(rows).await {
            Err(unanswered) if self.may_be_of_a_name(rows, &unanswered) => unanswered,
            answered => return answered.map_err(|unanswered| unanswered.failure),
        };
        match self.ask_about_nobody(rows).await {
            // Connections end at any time. Where a name is the reason, it ends the next one too.
            Ok(()) if has_ended => match self.ask_once(rows).await {
                Err(again) if again.has_ended => Err(of_a_name(again.failure)),
                answered => answered.map_err(|unanswered| unanswered.failure),
            },
            Ok(()) => Err(of_a_name(failure)),
            Err(BatchFailure::Refused(why)) => Err(BatchFailure::Unusable(why)),
            Err(other) => Err(other),
        }
    }

    /// Asks about somebody whom nobody knows, in the same realm. A store may refuse one realm and
    /// no other, as an endpoint that serves others' domains: then in the realm that it answered
    /// last.
    async fn ask_about_nobody(&self, rows: &Rows) -> Result<(), BatchFailure> {
        let Some(realm) = rows.realm() else {
            return Ok(());
        };
        let Err(unanswered) = self.ask_once(&rows.about_nobody(&realm)).await else {
            return Ok(());
        };
        let is_unusable = matches!(unanswered.failure, BatchFailure::Unusable(_));
        let may_be_of_the_realm = is_unusable || self.may_be_of_a_name(rows, &unanswered);
        let answered = self.answered.borrow().clone();
        match answered.filter(|answered| may_be_of_the_realm && *answered != realm) {
            Some(answered) => {
                let nobody = self.ask_once(&rows.about_nobody(&answered)).await;
                nobody.map(drop).map_err(|_| unanswered.failure)
            }
            None => Err(unanswered.failure),
        }
    }

    async fn ask_once(&self, rows: &Rows) -> Result<BatchAnswer, Unanswered> {
        let answer = each!(self, client => client.ask(rows).await?);
        if let Some(realm) = rows.realm() {
            *self.answered.borrow_mut() = Some(realm);
        }
        Ok(answer)
    }

    /// Whether a failure may be of a name in the question. What stands before an endpoint may
    /// forbid names, too, and says then what it says to who may not log in.
    fn may_be_of_a_name(&self, rows: &Rows, unanswered: &Unanswered) -> bool {
        let is_answerable = matches!(rows, Rows::Verify(_)) == self.capabilities().verifies;
        let is_of_name = match unanswered.failure {
            BatchFailure::Refused(_) => true,
            BatchFailure::LogInRefused(_) => matches!(self.client, Client::Http(_)),
            _ => unanswered.has_ended,
        };
        is_answerable && is_of_name
    }

    /// The bytes sent and received so far.
    pub fn traffic(&self) -> (u64, u64) {
        each!(self, client => client.traffic())
    }

    /// Answers that did not prove to be the store's own, and were not believed.
    pub fn ignored_answers(&self) -> u64 {
        match &self.client {
            Client::Radius(client) => client.ignored_answers(),
            // Over a connection, who answers is who was connected to.
            _ => 0,
        }
    }

    /// The domains that the store lists; `None` where its layout has none.
    pub async fn domains(&self) -> Result<Option<Vec<String>>, Error> {
        each!(self, client => client.domains().await)
    }

    /// The next user who has changed, where the store says so by itself; else it never
    /// comes.
    pub async fn changed(&self) -> Changed {
        each!(self, client => client.changed().await)
    }

    /// Makes Signet's own tables where they are missing; an error where the layout is not
    /// Signet's, and where a store has no tables.
    pub async fn create_tables(&self) -> Result<(), Error> {
        match &self.client {
            Client::Mysql(client) => client.create_tables().await,
            Client::Postgres(client) => client.create_tables().await,
            _ => Err(Error::new(
                "this kind of store has no tables to make",
                "leave that out",
            )),
        }
    }

    /// Adds a user or gives him another password.
    pub async fn put(&self, subject: &Subject, secrets: &Secrets) -> Result<(), Error> {
        each!(self, client => client.put(subject, secrets).await)
    }

    /// Removes a user; false where there was none.
    pub async fn remove(&self, subject: &Subject) -> Result<bool, Error> {
        each!(self, client => client.remove(subject).await)
    }

    /// Users in the order of their realms and names, at most `max`, after `after`.
    pub async fn list(&self, after: Option<&Subject>, max: usize) -> Result<Vec<Subject>, Error> {
        each!(self, client => client.list(after, max).await)
    }
}

/// The same of a name in the question.
fn of_a_name(failure: BatchFailure) -> BatchFailure {
    match failure {
        BatchFailure::LogInRefused(why) => BatchFailure::Refused(why),
        BatchFailure::Unreachable(why) => BatchFailure::Ended(why),
        other => other,
    }
}
