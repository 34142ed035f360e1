//! A connection on which several statements are under way at once: the protocol's client
//! does that by itself.

use std::cell::{Cell, RefCell};
use std::error::Error as StdError;
use std::ops::Range;
use std::pin::pin;

use futures_util::TryStreamExt;
use tokio_postgres::types::{FromSql, ToSql, Type};
use tokio_postgres::{Column, Config, Row, Statement};

use super::login::{LoggedIn, Session, fault, log_in};
use crate::fault::Fault;
use crate::net::{Connector, Silence};
use crate::pool;
use crate::sql::{BATCH_MAX, Columns, Group, Kind, Parameter, Plan, Select, Sheet};

/// The most bytes that the rows of one answer may take.
const ANSWER_MAX: usize = 4 << 20;

/// Makes the connections of a [`pool::Pool`].
pub(crate) struct Maker {
    pub(crate) connector: Connector,
    pub(crate) config: Config,
    pub(crate) plan: Plan,
}

/// A connection with the statement for users prepared.
pub(crate) struct Link {
    session: Session,
    select: Select,
    statement: Statement,
    columns: Columns,
    /// Whether each row is of a name that was asked for.
    selects_by_name: bool,
    load: pool::Load,
    silence: Silence,
    is_over: Cell<bool>,
    /// Answers and questions have come apart: none that comes is believed any more.
    is_apart: Cell<bool>,
}

impl pool::Link for Link {
    fn is_up(&self) -> bool {
        !self.session.is_closed() && !self.is_over.get() && self.silence.lasts() < pool::SILENCE_MAX
    }

    fn load(&self) -> usize {
        pool::weighed(&self.load, &self.silence)
    }
}

impl pool::Maker for Maker {
    type Link = Link;

    async fn make(&self) -> Result<Link, Fault> {
        self.connector
            .in_time(async {
                let LoggedIn {
                    client,
                    connection,
                    silence,
                } = log_in(&self.connector, &self.config).await?;
                let session = Session::new(client, connection);
                let select = self.plan.select(BATCH_MAX);
                let statement = session.prepare(&select.sql).await;
                let statement = statement.map_err(|error| fault(&error).of_any_user())?;
                Ok(Link {
                    columns: self.check(&select, &statement)?,
                    selects_by_name: self.plan.selects_by_name(),
                    session,
                    select,
                    statement,
                    load: pool::Load::default(),
                    silence,
                    is_over: Cell::new(false),
                    is_apart: Cell::new(false),
                })
            })
            .await
    }
}

impl Maker {
    fn check(&self, select: &Select, statement: &Statement) -> Result<Columns, Fault> {
        if statement.params().len() != select.parameters.len() {
            return Err(Fault::Unusable(
                "the statement for users has a $1 of its own: it takes {users} and {realms} \
                 and nothing else"
                    .to_owned(),
            ));
        }
        let columns = statement.columns().iter();
        let columns = columns.map(|column| (column.name(), kind(column.type_())));
        self.plan.columns(columns).map_err(Fault::Unusable)
    }
}

impl Link {
    /// Asks for a group of users and puts the rows into `sheet`.
    pub(crate) async fn ask(&self, group: &Group, sheet: &RefCell<Sheet>) -> Result<(), Fault> {
        let _counted = self.load.one_more();
        let asked = self.rows(group, sheet).await;
        if let Err(Fault::Unreachable(_)) = asked {
            self.is_over.set(true);
        }
        asked
    }

    async fn rows(&self, group: &Group, sheet: &RefCell<Sheet>) -> Result<(), Fault> {
        let realms = [group.realm.as_str()];
        let realms: &[&str] = &realms;
        let names: Vec<&str> = group.names.iter().map(String::as_str).collect();
        let parameters = self.select.parameters.iter().map(|parameter| {
            let list: &(dyn ToSql + Sync) = match parameter {
                Parameter::User(_) => &names,
                Parameter::Realm => &realms,
            };
            list
        });
        let rows = self
            .session
            .query_raw(&self.statement, parameters.collect::<Vec<_>>())
            .await
            .map_err(|error| fault(&error))?;
        let mut rows = pin!(rows);
        let mut whole = Vec::new();
        let mut read = 0;
        while let Some(row) = rows.try_next().await.map_err(|error| fault(&error))? {
            read += size(&row);
            if read > ANSWER_MAX {
                return Err(Fault::Refused(format!(
                    "an answer of more than {} MiB: see what the statement for users selects",
                    ANSWER_MAX >> 20
                )));
            }
            whole.push(row);
        }
        // An error may come after some rows. They count once all have come: the statement may be
        // asked again, and nobody has two rows for that.
        for row in &whole {
            let Some(found) = self.columns.read(&values(row)?) else {
                continue;
            };
            let (user, realm) = (found.user, found.realm);
            let counts = sheet.borrow_mut().row(group, found);
            if !counts && self.selects_by_name && group.is_of_another(user, realm) {
                self.is_apart.set(true);
            }
        }
        // Whoever it was that found out, before more users seem not to exist.
        match self.is_apart.get() {
            true => Err(Fault::Unreachable(
                "the store answered another question than was asked".to_owned(),
            )),
            false => Ok(()),
        }
    }
}

/// What a row takes, whatever is in it.
fn size(row: &Row) -> usize {
    let columns = row.len() * size_of::<Option<Range<usize>>>();
    row.raw_size_bytes() + columns + size_of::<Row>()
}

/// What a row has in each column that is text or bytes.
fn values(row: &Row) -> Result<Vec<Option<&[u8]>>, Fault> {
    let columns = row.columns().iter().enumerate();
    let value = |(at, column): (usize, &Column)| match Bytes::accepts(column.type_()) {
        true => row
            .try_get::<_, Option<Bytes<'_>>>(at)
            .map(|value| value.map(|value| value.0))
            .map_err(|error| fault(&error)),
        false => Ok(None),
    };
    columns.map(value).collect()
}

/// Text or bytes, as they came.
pub(crate) struct Bytes<'a>(pub(crate) &'a [u8]);

impl<'a> FromSql<'a> for Bytes<'a> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn StdError + Sync + Send>> {
        Ok(Self(raw))
    }

    fn accepts(of: &Type) -> bool {
        kind(of) != Kind::Other
    }
}

fn kind(of: &Type) -> Kind {
    match *of {
        Type::BYTEA => Kind::Bytes,
        Type::TEXT | Type::VARCHAR | Type::BPCHAR | Type::NAME | Type::UNKNOWN => Kind::Text,
        _ if of.name() == "citext" => Kind::Text,
        _ => Kind::Other,
    }
}
