//! A connection that rows are added by.

use tokio_postgres::Config;

use super::login::{LoggedIn, Session, log_in};
use super::{account, execute};
use crate::fault::Fault;
use crate::net::Connector;
use crate::sql::{Step, only};
use crate::url::Url;
use crate::{Error, Options};

/// Makes its connection when it is needed, and keeps it.
pub(crate) struct Writer {
    connector: Connector,
    config: Config,
    /// `None` while a statement is under way: one that is given up takes it along.
    idle: Option<Session>,
}

impl Writer {
    pub(crate) fn new(url: &Url, options: &Options) -> Result<Self, Error> {
        only(url, &["socket"])?;
        Ok(Self {
            connector: Connector::new(url, options)?,
            config: account(url, options)?,
            idle: None,
        })
    }

    /// Runs a statement that may be run twice: the connection may have been closed meanwhile,
    /// and then it is begun again on a new one.
    pub(crate) async fn run(&mut self, step: &Step) -> Result<(), Fault> {
        if let Some(session) = self.idle.take() {
            match execute(&session, step).await {
                Err(Fault::Unreachable(_)) => {}
                done => {
                    self.idle = Some(session);
                    return done.map(drop);
                }
            }
        }
        let LoggedIn {
            client, connection, ..
        } = log_in(&self.connector, &self.config).await?;
        let session = Session::new(client, connection);
        let done = execute(&session, step).await;
        if !matches!(done, Err(Fault::Unreachable(_))) {
            self.idle = Some(session);
        }
        done.map(drop)
    }
}
