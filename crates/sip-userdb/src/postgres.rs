//! PostgreSQL.
//!
//! One statement with an array of names is prepared on each of a few connections, on which
//! the protocol's client keeps several under way.

mod link;
mod listen;
mod login;
mod writer;

use std::cell::RefCell;
use std::error::Error as StdError;

use bytes::BytesMut;
use futures_util::future::join_all;
use sip_auth::{Secrets, Subject};
use sip_lookup::{BatchAnswer, BatchFailure, Rows};
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Config, Row};

use self::link::{Bytes, Maker};
use self::listen::Listener;
use self::login::{LoggedIn, Session, fault, log_in};
pub(crate) use self::writer::Writer;
use crate::fault::Fault;
use crate::net::Connector;
use crate::pool::Pool;
use crate::sql::{
    BATCH_MAX, DOMAINS_MAX, Dialect, Group, Plan, Sheet, Step, Suspects, Value, apart,
    check_domains, groups, only,
};
use crate::url::Url;
use crate::{Capabilities, Changed, Error, Options, Secret};

/// How many statements wait on each connection when another one is made.
const BUSY: usize = 4;

/// The most statements that should wait on one connection; its client has no bound.
const WAITING_MAX: usize = 1_024;

/// Users in PostgreSQL.
pub(crate) struct Client {
    capabilities: Capabilities,
    pool: Pool<Maker>,
    /// The connection for what is asked one by one, while nobody uses it.
    idle: RefCell<Option<Session>>,
    suspects: RefCell<Suspects>,
    listener: Listener,
}

impl Client {
    pub(crate) fn new(url: Url, options: Options) -> Result<Self, Error> {
        only(&url, &["socket", "domain"])?;
        let plan = Plan::new(Dialect::Postgres, &url, &options)?;
        let maker = Maker {
            connector: Connector::new(&url, &options)?,
            config: account(&url, &options)?,
            plan,
        };
        let in_flight_max = options.connections_max.max(1).saturating_mul(WAITING_MAX);
        Ok(Self {
            capabilities: maker.plan.capabilities(true, in_flight_max),
            pool: Pool::new(maker, options.connections_max, BUSY),
            idle: RefCell::new(None),
            suspects: RefCell::default(),
            listener: Listener::new(),
        })
    }

    pub(crate) fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    pub(crate) fn traffic(&self) -> (u64, u64) {
        self.pool.maker().connector.traffic().so_far()
    }

    pub(crate) async fn ask(&self, rows: &Rows) -> Result<BatchAnswer, BatchFailure> {
        let Rows::Secrets(subjects) = rows else {
            return Err(BatchFailure::Refused(
                "a database verifies no digests".to_owned(),
            ));
        };
        let groups = groups(subjects, BATCH_MAX, |subject| self.plan().sent(subject));
        let groups = self.suspects.borrow_mut().apart(groups);
        let asked = groups.len();
        let sheet = RefCell::new(Sheet::new(subjects.len()));
        let mut refused = self.ask_groups(groups, &sheet).await?;
        // One of them has a name that the table cannot have. In parts, the others are answered.
        // Where nobody is refused as well, it is not the name. Beside names that are answered, those
        // that were refused before are why by themselves: the others wait for no other round. A name
        // that was refused before and is alone says nothing of the table.
        let has_answered = refused.len() < asked;
        let is_known = has_answered
            && refused
                .iter()
                .all(|(group, _)| self.suspects.borrow().has(group));
        let mut nobody = (!is_known).then(Group::nobody);
        while !refused.is_empty() {
            let (singles, mut parts) = apart(refused);
            parts.extend(nobody.take());
            refused = self.ask_groups(parts, &sheet).await?;
            for (single, why) in singles {
                self.suspects.borrow_mut().note(&single);
                sheet.borrow_mut().refused(&single, &why);
            }
        }
        Ok(BatchAnswer::Rows(sheet.into_inner().finish()))
    }

    /// Asks for all at once; gives back those with names beyond ASCII that were refused.
    async fn ask_groups(
        &self,
        groups: Vec<Group>,
        sheet: &RefCell<Sheet>,
    ) -> Result<Vec<(Group, String)>, Fault> {
        let mut refused = Vec::new();
        if groups.is_empty() {
            return Ok(refused);
        }
        let link = self.pool.link().await?;
        let answers = join_all(groups.iter().map(|group| link.ask(group, sheet))).await;
        for (group, answer) in groups.into_iter().zip(answers) {
            match answer {
                Ok(()) => {}
                Err(Fault::Refused(why)) if !group.is_ascii => refused.push((group, why)),
                Err(fault) => return Err(fault),
            }
        }
        Ok(refused)
    }

    pub(crate) async fn domains(&self) -> Result<Option<Vec<String>>, Error> {
        let Some(sql) = self.plan().domains() else {
            return Ok(None);
        };
        let step = Step {
            sql: format!("{sql} LIMIT {}", DOMAINS_MAX + 1),
            values: Vec::new(),
        };
        let found = self.one_by_one(async |session| match query(session, &step).await {
            Ok(rows) => Ok(Some(rows)),
            // 42P01: there is no such table.
            Err(Fault::Refused(why)) if why.contains("42P01") => Ok(None),
            Err(fault) => Err(fault),
        });
        let Some(rows) = found.await? else {
            return Ok(None);
        };
        check_domains(rows.len())?;
        let domains = rows
            .iter()
            .filter_map(|row| Some(str::from_utf8(bytes(row, 0)?).ok()?.to_owned()));
        Ok(Some(domains.collect()))
    }

    pub(crate) async fn changed(&self) -> Changed {
        let maker = self.pool.maker();
        self.listener.next(&maker.connector, &maker.config).await
    }

    pub(crate) async fn create_tables(&self) -> Result<(), Error> {
        let schema = self.plan().schema()?;
        self.one_by_one(async |session| {
            let done = session.batch_execute(schema).await;
            done.map_err(|error| fault(&error))
        })
        .await
    }

    pub(crate) async fn put(&self, subject: &Subject, secrets: &Secrets) -> Result<(), Error> {
        let (first, second) = self.plan().put(subject, secrets)?;
        self.one_by_one(async |session| {
            let touched = execute(session, &first).await?;
            if let (0, Some(second)) = (touched, &second) {
                execute(session, second).await?;
            }
            Ok(())
        })
        .await
    }

    pub(crate) async fn remove(&self, subject: &Subject) -> Result<bool, Error> {
        let step = self.plan().remove(subject)?;
        self.one_by_one(async |session| Ok(execute(session, &step).await? > 0))
            .await
    }

    pub(crate) async fn list(
        &self,
        after: Option<&Subject>,
        max: usize,
    ) -> Result<Vec<Subject>, Error> {
        let step = self.plan().list(after, max)?;
        let rows = self
            .one_by_one(async |session| query(session, &step).await)
            .await?;
        let subject = |row: &Row| self.plan().listed(bytes(row, 0)?, bytes(row, 1)?);
        Ok(rows.iter().filter_map(subject).collect())
    }

    fn plan(&self) -> &Plan {
        &self.pool.maker().plan
    }

    /// Does `work` on a connection of its own. One that was left idle may have been closed
    /// meanwhile: the work, which may be done twice, is then begun again on a new one.
    async fn one_by_one<T>(
        &self,
        work: impl AsyncFn(&Session) -> Result<T, Fault>,
    ) -> Result<T, Error> {
        let idle = self.idle.take();
        if let Some(session) = idle {
            match work(&session).await {
                Err(Fault::Unreachable(_)) => {}
                done => {
                    self.idle.replace(Some(session));
                    return done.map_err(Fault::into_error);
                }
            }
        }
        let maker = self.pool.maker();
        let LoggedIn {
            client, connection, ..
        } = log_in(&maker.connector, &maker.config)
            .await
            .map_err(Fault::into_error)?;
        let session = Session::new(client, connection);
        let done = work(&session).await;
        if !matches!(done, Err(Fault::Unreachable(_))) {
            self.idle.replace(Some(session));
        }
        done.map_err(Fault::into_error)
    }
}

/// Who logs in, by the URL and the password.
fn account(url: &Url, options: &Options) -> Result<Config, Error> {
    let missing = |what: &str| {
        Error::new(
            format!("the URL of a store names no {what}"),
            "write it as postgresql://user@db.example.com/database",
        )
    };
    let mut config = Config::new();
    config.user(url.user.as_deref().ok_or_else(|| missing("user"))?);
    config.application_name("signet");
    if url.path.is_empty() {
        return Err(missing("database"));
    }
    config.dbname(&url.path);
    if let Some(password) = options.password.as_ref().map(Secret::expose) {
        config.password(password);
    }
    Ok(config)
}

async fn query(session: &Session, step: &Step) -> Result<Vec<Row>, Fault> {
    let rows = session.query(step.sql.as_str(), &bound(step)).await;
    rows.map_err(|error| fault(&error))
}

async fn execute(session: &Session, step: &Step) -> Result<u64, Fault> {
    let touched = session.execute(step.sql.as_str(), &bound(step)).await;
    touched.map_err(|error| fault(&error))
}

fn bound(step: &Step) -> Vec<&(dyn ToSql + Sync)> {
    let values = step.values.iter();
    values.map(|value| value as &(dyn ToSql + Sync)).collect()
}

fn bytes(row: &Row, column: usize) -> Option<&[u8]> {
    let value = row.try_get::<_, Option<Bytes<'_>>>(column).ok()?;
    value.map(|Bytes(bytes)| bytes)
}

/// The protocol's client logs parameters while it is debugged: what may be secret is masked.
impl std::fmt::Debug for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

impl ToSql for Value {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
        match self {
            Self::Text(text) => text.as_str().to_sql(kind, out),
            Self::Bytes(bytes) => bytes.as_slice().to_sql(kind, out),
        }
    }

    fn accepts(kind: &Type) -> bool {
        <&str as ToSql>::accepts(kind) || <&[u8] as ToSql>::accepts(kind)
    }

    to_sql_checked!();
}
