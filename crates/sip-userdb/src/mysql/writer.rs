//! A connection that rows are added by.

use super::account;
use super::connection::Connection;
use super::login::Account;
use crate::fault::Fault;
use crate::net::Connector;
use crate::sql::{Step, only};
use crate::url::Url;
use crate::{Error, Options};

/// Makes its connection when it is needed, and keeps it.
pub(crate) struct Writer {
    connector: Connector,
    account: Account,
    /// `None` while a statement is under way: one that is given up takes it along.
    idle: Option<Connection>,
}

impl Writer {
    pub(crate) fn new(url: &Url, options: &Options) -> Result<Self, Error> {
        only(url, &["socket"])?;
        Ok(Self {
            connector: Connector::new(url, options)?,
            account: account(url, options)?,
            idle: None,
        })
    }

    /// Runs a statement that may be run twice: the connection may have been closed meanwhile,
    /// and then it is begun again on a new one.
    pub(crate) async fn run(&mut self, step: &Step) -> Result<(), Fault> {
        if let Some(mut connection) = self.idle.take() {
            match connection.change(step).await {
                Err(Fault::Unreachable(_)) => {}
                done => {
                    self.idle = Some(connection);
                    return done.map(drop);
                }
            }
        }
        let mut connection = Connection::make(&self.connector, &self.account).await?;
        let done = connection.change(step).await;
        if !matches!(done, Err(Fault::Unreachable(_))) {
            self.idle = Some(connection);
        }
        done.map(drop)
    }
}
