//! One connection, asked one thing after the other; and the commands that both ways of
//! asking send.

use std::io;

use zeroize::Zeroizing;

use super::login::{Account, LoggedIn, log_in};
use super::response::{Answer, Asked, Prepared, Response, Rows};
use super::wire::{Garbled, put_string, send};
use crate::fault::Fault;
use crate::net::Connector;
use crate::sql::{Step, Value};

/// What every connection says first. Names are UTF-8, whatever the server would take them
/// for, and what does not fit a column is an error and is not cut.
const BEGIN: &str = "SET NAMES utf8mb4, \
     SESSION sql_mode = CONCAT(@@sql_mode, ',STRICT_ALL_TABLES'), SESSION autocommit = 1";

const COM_QUERY: u8 = 3;
const COM_STMT_PREPARE: u8 = 22;
const COM_STMT_EXECUTE: u8 = 23;
const COM_STMT_CLOSE: u8 = 25;

/// Types of parameters, by the manuals' numbers: a string in the connection's character
/// set, and bytes.
const VAR_STRING: u16 = 253;
const BLOB: u16 = 252;

/// A connection that is asked one thing after the other.
pub(crate) struct Connection {
    pub(crate) logged_in: LoggedIn,
}

impl Connection {
    /// Makes one and logs in, within the time for that. What is refused before it can be asked is
    /// the log-in.
    pub(crate) async fn make(connector: &Connector, account: &Account) -> Result<Self, Fault> {
        connector
            .in_time(async {
                let logged_in = log_in(connector, account).await?;
                let mut connection = Self { logged_in };
                connection.run(BEGIN).await?;
                Ok(connection)
            })
            .await
            .map_err(Fault::of_log_in)
    }

    /// Runs a statement as it stands, one that gives no rows.
    pub(crate) async fn run(&mut self, sql: &str) -> Result<(), Fault> {
        let answer = self.ask(Asked::Done, &query(sql)).await?;
        matches!(answer, Answer::Done(_))
            .then_some(())
            .ok_or_else(garbled)
    }

    /// Prepares statements, all in one round trip where `pipelined` says so.
    pub(crate) async fn prepare(
        &mut self,
        sql: &[String],
        pipelined: bool,
    ) -> Result<Vec<Prepared>, Fault> {
        let at_once = if pipelined { sql.len().max(1) } else { 1 };
        let mut all = Vec::with_capacity(sql.len());
        for part in sql.chunks(at_once) {
            for sql in part {
                send(&mut self.logged_in.stream, 0, &prepare(sql)).await?;
            }
            for _ in part {
                match self.answer(Asked::Prepare).await? {
                    Answer::Prepared(prepared) => all.push(prepared),
                    _ => return Err(garbled()),
                }
            }
        }
        Ok(all)
    }

    /// Runs a statement with its parameters bound.
    pub(crate) async fn step(&mut self, step: &Step) -> Result<Answer, Fault> {
        let prepared = self.prepare(std::slice::from_ref(&step.sql), false).await?;
        let prepared = prepared.first().ok_or_else(garbled)?;
        let parameters = step.values.iter().map(|value| match value {
            Value::Text(text) => (VAR_STRING, text.as_bytes()),
            Value::Bytes(bytes) => (BLOB, bytes.as_slice()),
        });
        let command = Zeroizing::new(execute(prepared.id, parameters));
        let answer = self.ask(Asked::Execute, &command).await;
        let mut close = vec![COM_STMT_CLOSE];
        close.extend(prepared.id.to_le_bytes());
        // It has no answer.
        send(&mut self.logged_in.stream, 0, &close).await?;
        answer
    }

    /// Runs a statement that gives rows.
    pub(crate) async fn rows(&mut self, step: &Step) -> Result<Rows, Fault> {
        match self.step(step).await? {
            Answer::Rows(rows) => Ok(rows),
            _ => Err(garbled()),
        }
    }

    /// Runs a statement that changes rows: how many.
    pub(crate) async fn change(&mut self, step: &Step) -> Result<u64, Fault> {
        match self.step(step).await? {
            Answer::Done(touched) => Ok(touched),
            _ => Err(garbled()),
        }
    }

    async fn ask(&mut self, asked: Asked, command: &[u8]) -> Result<Answer, Fault> {
        send(&mut self.logged_in.stream, 0, command).await?;
        self.answer(asked).await
    }

    async fn answer(&mut self, asked: Asked) -> Result<Answer, Fault> {
        let LoggedIn {
            stream,
            inbox,
            deprecates_eof,
        } = &mut self.logged_in;
        let mut response = Response::new(asked, *deprecates_eof);
        loop {
            let (_, payload) = inbox.packet(stream).await?;
            if let Some(answer) = response.packet(payload).map_err(io::Error::from)? {
                return answer;
            }
        }
    }
}

fn garbled() -> Fault {
    io::Error::from(Garbled).into()
}

fn query(sql: &str) -> Vec<u8> {
    [&[COM_QUERY], sql.as_bytes()].concat()
}

fn prepare(sql: &str) -> Vec<u8> {
    [&[COM_STMT_PREPARE], sql.as_bytes()].concat()
}

/// A command that runs a prepared statement; each parameter is a string.
pub(crate) fn execute_text<'a>(
    id: u32,
    parameters: impl Iterator<Item = &'a str> + Clone,
) -> Vec<u8> {
    execute(id, parameters.map(|text| (VAR_STRING, text.as_bytes())))
}

fn execute<'a>(id: u32, parameters: impl Iterator<Item = (u16, &'a [u8])> + Clone) -> Vec<u8> {
    let count = parameters.clone().count();
    let mut command = vec![COM_STMT_EXECUTE];
    command.extend(id.to_le_bytes());
    command.push(0); // no cursor
    command.extend(1_u32.to_le_bytes());
    if count > 0 {
        command.resize(command.len() + count.div_ceil(8), 0); // none is NULL
        command.push(1); // types follow
        for (kind, _) in parameters.clone() {
            command.extend(kind.to_le_bytes());
        }
        for (_, bytes) in parameters {
            put_string(bytes, &mut command);
        }
    }
    command
}
