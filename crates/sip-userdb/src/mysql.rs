//! MariaDB and MySQL.
//!
//! Users are asked for by statements that are prepared for 1, 2, 4, … 256 of them. Several
//! are under way on one connection, which the protocol allows although drivers do not do
//! it; a server in between that cannot take that gets `?pipelined=no`, one statement at a
//! time and more connections.

mod connection;
mod link;
mod login;
mod response;
mod wire;
mod writer;

use std::cell::RefCell;

use sip_auth::{Secrets, Subject};
use sip_lookup::{BatchAnswer, BatchFailure};

use self::connection::Connection;
use self::link::{End, Maker};
use self::login::Account;
use self::response::Rows;
pub(crate) use self::writer::Writer;
use crate::fault::Fault;
use crate::net::Connector;
use crate::pool::Pool;
use crate::sql::{
    BATCH_MAX, DOMAINS_MAX, Dialect, Group, Plan, Sheet, Step, Suspects, apart, check_domains,
    groups, only, switch,
};
use crate::url::Url;
use crate::{Capabilities, Changed, Error, Options};

/// How many statements wait on each connection when another one is made.
const BUSY: usize = 4;

/// Users in MariaDB or MySQL.
pub(crate) struct Client {
    capabilities: Capabilities,
    pool: Pool<Maker>,
    /// The connection for what is asked one by one, while nobody uses it.
    idle: RefCell<Option<Connection>>,
    suspects: RefCell<Suspects>,
}

impl Client {
    pub(crate) fn new(url: Url, options: Options) -> Result<Self, Error> {
        only(&url, &["socket", "domain", "pipelined"])?;
        let plan = Plan::new(Dialect::Mysql, &url, &options)?;
        let account = account(&url, &options)?;
        let is_pipelined = switch(&url, "pipelined")?.unwrap_or(true);
        let maker = Maker {
            connector: Connector::new(&url, &options)?,
            account,
            plan,
            is_pipelined,
        };
        let (busy, carried) = match is_pipelined {
            true => (BUSY, link::JOBS_MAX),
            false => (1, 1),
        };
        let in_flight_max = options.connections_max.max(1).saturating_mul(carried);
        Ok(Self {
            capabilities: maker.plan.capabilities(false, in_flight_max),
            pool: Pool::new(maker, options.connections_max, busy),
            idle: RefCell::new(None),
            suspects: RefCell::default(),
        })
    }

    pub(crate) fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    pub(crate) fn traffic(&self) -> (u64, u64) {
        self.pool.maker().connector.traffic().so_far()
    }

    pub(crate) async fn ask(&self, rows: &sip_lookup::Rows) -> Result<BatchAnswer, BatchFailure> {
        let sip_lookup::Rows::Secrets(subjects) = rows else {
            return Err(BatchFailure::Refused(
                "a database verifies no digests".to_owned(),
            ));
        };
        let groups = groups(subjects, BATCH_MAX, |subject| self.plan().sent(subject));
        let groups = self.suspects.borrow_mut().apart(groups);
        let asked = groups.len();
        let mut sheet = Sheet::new(subjects.len());
        let mut refused = self.ask_groups(groups, &mut sheet).await?;
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
            refused = self.ask_groups(parts, &mut sheet).await?;
            for (single, why) in singles {
                self.suspects.borrow_mut().note(&single);
                sheet.refused(&single, &why);
            }
        }
        Ok(BatchAnswer::Rows(sheet.finish()))
    }

    /// Asks for all at once; gives back those with names beyond ASCII that were refused.
    async fn ask_groups(
        &self,
        groups: Vec<Group>,
        sheet: &mut Sheet,
    ) -> Result<Vec<(Group, String)>, Fault> {
        let mut refused = Vec::new();
        if groups.is_empty() {
            return Ok(refused);
        }
        let mut asked = Vec::with_capacity(groups.len());
        let end = {
            // It is not held while its answers are waited for: the pool ends one that is silent.
            let link = self.pool.link().await?;
            for group in groups {
                let answer = link.ask(&group).await?;
                asked.push((group, answer));
            }
            link.end()
        };
        for (group, answer) in asked {
            let answer = answer
                .await
                .unwrap_or_else(|_| Err(Fault::Unreachable("the connection has ended".to_owned())));
            match answer {
                Ok(rows) => self.take(&group, &rows, sheet, &end)?,
                Err(Fault::Refused(why)) if !group.is_ascii => refused.push((group, why)),
                Err(fault) => return Err(fault),
            }
        }
        Ok(refused)
    }

    /// Takes the rows of an answer. One that answers another question shows that answers and
    /// questions on this connection have come apart: it ends, before more users seem not to exist.
    fn take(&self, group: &Group, rows: &Rows, sheet: &mut Sheet, end: &End) -> Result<(), Fault> {
        let columns = self.plan().columns(rows.columns());
        let columns = columns.map_err(Fault::Unusable)?;
        for row in rows.iter() {
            let row = row.map_err(std::io::Error::from)?;
            let Some(read) = columns.read(&row) else {
                continue;
            };
            let (user, realm) = (read.user, read.realm);
            let counts = sheet.row(group, read);
            if !counts && self.plan().selects_by_name() && group.is_of_another(user, realm) {
                return Err(end.because("the store answered another question than was asked"));
            }
        }
        Ok(())
    }

    pub(crate) async fn domains(&self) -> Result<Option<Vec<String>>, Error> {
        let Some(sql) = self.plan().domains() else {
            return Ok(None);
        };
        let step = Step {
            sql: format!("{sql} LIMIT {}", DOMAINS_MAX + 1),
            values: Vec::new(),
        };
        let found = self.one_by_one(async |connection| match connection.rows(&step).await {
            Ok(rows) => Ok(Some(rows)),
            // 1146: there is no such table.
            Err(Fault::Refused(why)) if why.contains("1146") => Ok(None),
            Err(fault) => Err(fault),
        });
        let Some(rows) = found.await? else {
            return Ok(None);
        };
        check_domains(rows.len())?;
        let mut domains = Vec::with_capacity(rows.len());
        for row in rows.iter() {
            let row = row.map_err(|garbled| Fault::from(std::io::Error::from(garbled)));
            let row = row.map_err(Fault::into_error)?;
            if let Some(Some(domain)) = row.first() {
                domains.extend(str::from_utf8(domain).ok().map(str::to_owned));
            }
        }
        Ok(Some(domains))
    }

    #[allow(clippy::unused_async, reason = "the shape that all have")]
    pub(crate) async fn changed(&self) -> Changed {
        std::future::pending().await
    }

    pub(crate) async fn create_tables(&self) -> Result<(), Error> {
        let schema = self.plan().schema()?;
        // Comments go first: a statement ends at a semicolon, and so may a line of theirs.
        let lines = schema.lines().filter(|line| !line.starts_with("--"));
        let sql = lines.collect::<Vec<_>>().join("\n");
        self.one_by_one(async |connection| {
            for statement in sql.split(';').map(str::trim).filter(|s| !s.is_empty()) {
                connection.run(statement).await?;
            }
            Ok(())
        })
        .await
    }

    pub(crate) async fn put(&self, subject: &Subject, secrets: &Secrets) -> Result<(), Error> {
        let (first, second) = self.plan().put(subject, secrets)?;
        self.one_by_one(async |connection| {
            let touched = connection.change(&first).await?;
            if let (0, Some(second)) = (touched, &second) {
                connection.change(second).await?;
            }
            Ok(())
        })
        .await
    }

    pub(crate) async fn remove(&self, subject: &Subject) -> Result<bool, Error> {
        let step = self.plan().remove(subject)?;
        self.one_by_one(async |connection| Ok(connection.change(&step).await? > 0))
            .await
    }

    pub(crate) async fn list(
        &self,
        after: Option<&Subject>,
        max: usize,
    ) -> Result<Vec<Subject>, Error> {
        let step = self.plan().list(after, max)?;
        let rows = self
            .one_by_one(async |connection| connection.rows(&step).await)
            .await?;
        let mut subjects = Vec::with_capacity(rows.len());
        for row in rows.iter() {
            let row = row.map_err(|garbled| Fault::from(std::io::Error::from(garbled)));
            if let [Some(user), Some(realm)] = row.map_err(Fault::into_error)?.as_slice() {
                subjects.extend(self.plan().listed(user, realm));
            }
        }
        Ok(subjects)
    }

    fn plan(&self) -> &Plan {
        &self.pool.maker().plan
    }

    /// Does `work` on a connection that nobody else uses. One that was left idle may have
    /// been closed meanwhile: the work, which may be done twice, is then begun again on a
    /// new one. A connection whose user goes away is not used again.
    async fn one_by_one<T>(
        &self,
        work: impl AsyncFn(&mut Connection) -> Result<T, Fault>,
    ) -> Result<T, Error> {
        let idle = self.idle.take();
        if let Some(mut connection) = idle {
            match work(&mut connection).await {
                Err(Fault::Unreachable(_)) => {}
                done => {
                    self.idle.replace(Some(connection));
                    return done.map_err(Fault::into_error);
                }
            }
        }
        let Maker {
            connector, account, ..
        } = self.pool.maker();
        let mut connection = Connection::make(connector, account)
            .await
            .map_err(Fault::into_error)?;
        let done = work(&mut connection).await;
        if !matches!(done, Err(Fault::Unreachable(_))) {
            self.idle.replace(Some(connection));
        }
        done.map_err(Fault::into_error)
    }
}

/// Who logs in, by the URL and the password.
fn account(url: &Url, options: &Options) -> Result<Account, Error> {
    let missing = |what: &str| {
        Error::new(
            format!("the URL of a store names no {what}"),
            "write it as mysql://user@db.example.com/database",
        )
    };
    Ok(Account {
        user: url.user.clone().ok_or_else(|| missing("user"))?,
        password: options.password.clone(),
        database: Some(url.path.clone())
            .filter(|path| !path.is_empty())
            .ok_or_else(|| missing("database"))?,
    })
}
