//! A connection on which several statements are under way at once.
//!
//! A server reads one command after the other and answers in their order, so nothing keeps
//! a client from sending the next before the last was answered. What was sent is kept in a
//! queue; what comes belongs to its front. Whoever asked may have gone away: the answer is
//! read all the same, and thrown away.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;

use tokio::io::{AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::{Notify, mpsc, oneshot};

use super::connection::{Connection, execute_text};
use super::login::{Account, LoggedIn};
use super::response::{Answer, Asked, Prepared, Response, Rows};
use super::wire::{Garbled, Inbox, frame};
use crate::fault::Fault;
use crate::net::{Connector, Silence, Stream};
use crate::pool;
use crate::sql::{BATCH_MAX, Group, Parameter, Plan, Select};

/// The most statements that wait on one connection.
pub(super) const JOBS_MAX: usize = 1_024;

/// The most bytes that are written at once.
const WRITE_MAX: usize = 256 << 10;

/// Makes the connections of a [`pool::Pool`].
pub(crate) struct Maker {
    pub(crate) connector: Connector,
    pub(crate) account: Account,
    pub(crate) plan: Plan,
    /// Whether a connection has several statements under way.
    pub(crate) is_pipelined: bool,
}

/// A connection with the statements for users prepared.
pub(crate) struct Link {
    jobs: mpsc::Sender<Job>,
    load: pool::Load,
    silence: Silence,
    /// For 1, 2, 4, 8 users and so on.
    selects: Vec<(Select, Prepared)>,
    end: Rc<End>,
}

/// Ends a connection from outside.
#[derive(Debug, Default)]
pub(crate) struct End {
    why: RefCell<Option<Fault>>,
    has_come: Notify,
}

impl End {
    /// Ends it: all who wait are told why, as is whoever calls this.
    pub(crate) fn because(&self, why: &str) -> Fault {
        let fault = Fault::Unreachable(why.to_owned());
        *self.why.borrow_mut() = Some(fault.clone());
        self.has_come.notify_one();
        fault
    }

    /// Why it is to end, once it is.
    async fn wanted(&self) -> Fault {
        loop {
            if let Some(fault) = self.why.borrow().clone() {
                return fault;
            }
            self.has_come.notified().await;
        }
    }
}

/// A command and who waits for its answer.
struct Job {
    command: Vec<u8>,
    waiter: Waiter,
}

struct Waiter {
    done: oneshot::Sender<Result<Rows, Fault>>,
    _counted: pool::Counted,
}

impl pool::Maker for Maker {
    type Link = Link;

    async fn make(&self) -> Result<Link, Fault> {
        self.connector
            .in_time(async {
                let mut connection = Connection::make(&self.connector, &self.account).await?;
                let sizes = std::iter::successors(Some(1), |size| Some(size * 2));
                let selects: Vec<Select> = sizes
                    .take_while(|&size| size <= BATCH_MAX)
                    .map(|size| self.plan.select(size))
                    .collect();
                let sql: Vec<String> = selects.iter().map(|select| select.sql.clone()).collect();
                let prepared = connection.prepare(&sql, self.is_pipelined).await;
                let prepared = prepared.map_err(Fault::of_any_user)?;
                let selects: Vec<_> = selects.into_iter().zip(prepared).collect();
                for (select, prepared) in &selects {
                    if select.parameters.len() != usize::from(prepared.parameters) {
                        return Err(Fault::Unusable(
                            "the statement for users has a ? of its own: it takes {users} and \
                             {realms} and nothing else"
                                .to_owned(),
                        ));
                    }
                }
                Ok(Link::start(
                    connection.logged_in,
                    selects,
                    self.is_pipelined,
                ))
            })
            .await
    }
}

impl pool::Link for Link {
    fn is_up(&self) -> bool {
        !self.jobs.is_closed()
            && self.end.why.borrow().is_none()
            && self.silence.lasts() < pool::SILENCE_MAX
    }

    fn load(&self) -> usize {
        pool::weighed(&self.load, &self.silence)
    }
}

impl Link {
    fn start(logged_in: LoggedIn, selects: Vec<(Select, Prepared)>, is_pipelined: bool) -> Self {
        let (jobs, queue) = mpsc::channel(JOBS_MAX);
        let silence = logged_in.stream.silence();
        let end = Rc::<End>::default();
        tokio::task::spawn_local(drive(logged_in, queue, is_pipelined, Rc::clone(&end)));
        Self {
            end,
            jobs,
            load: pool::Load::default(),
            silence,
            selects,
        }
    }

    /// What ends it.
    pub(crate) fn end(&self) -> Rc<End> {
        Rc::clone(&self.end)
    }

    /// Sends the question for a group of users on its way, once there is room for it. A batch is
    /// as many statements as it has realms, so that it may be more than there is room for.
    pub(crate) async fn ask(
        &self,
        group: &Group,
    ) -> Result<oneshot::Receiver<Result<Rows, Fault>>, Fault> {
        let (done, answer) = oneshot::channel();
        let users = group.names.len();
        let found = self
            .selects
            .iter()
            .enumerate()
            .find(|(at, _)| users <= 1 << at);
        let Some((_, (select, prepared))) = found else {
            return invariant::broken!(
                "a group has no more users than the largest statement",
                Err(Fault::Refused("too many users at once".to_owned()))
            );
        };
        // A statement has places for a power of two. What is left over asks for one of them
        // again, the shortest.
        let spare = group.names.iter().min_by_key(|name| name.len());
        let spare = spare.map(String::as_str).unwrap_or_default();
        let parameters = select.parameters.iter().map(|parameter| match parameter {
            Parameter::User(at) => group.names.get(*at).map_or(spare, String::as_str),
            Parameter::Realm => group.realm.as_str(),
        });
        let job = Job {
            command: execute_text(prepared.id, parameters),
            waiter: Waiter {
                done,
                _counted: self.load.one_more(),
            },
        };
        match self.jobs.send_timeout(job, pool::SILENCE_MAX).await {
            Ok(()) => Ok(answer),
            Err(mpsc::error::SendTimeoutError::Timeout(_)) => Err(Fault::Unreachable(format!(
                "{JOBS_MAX} statements wait on one connection, which answers none"
            ))),
            Err(mpsc::error::SendTimeoutError::Closed(_)) => {
                Err(Fault::Unreachable("the connection has ended".to_owned()))
            }
        }
    }
}

/// What reading and writing share.
#[derive(Default)]
struct Waiting {
    queue: RefCell<VecDeque<Waiter>>,
    /// The last one was answered.
    is_over: Notify,
}

/// Writes and reads until either fails, it is to end, or nobody holds the [`Link`] any more; then
/// all who wait are told.
async fn drive(
    logged_in: LoggedIn,
    mut jobs: mpsc::Receiver<Job>,
    is_pipelined: bool,
    end: Rc<End>,
) {
    let LoggedIn {
        stream,
        inbox,
        deprecates_eof,
    } = logged_in;
    let (from, to) = tokio::io::split(stream);
    let waiting = Waiting::default();
    let fault = tokio::select! {
        fault = write(to, &mut jobs, &waiting, is_pipelined) => fault,
        fault = read(from, inbox, &waiting, deprecates_eof) => fault,
        fault = end.wanted() => fault,
    };
    jobs.close();
    for waiter in waiting.queue.take() {
        let _ = waiter.done.send(Err(fault.clone()));
    }
    while let Some(job) = jobs.recv().await {
        let _ = job.waiter.done.send(Err(fault.clone()));
    }
}

async fn write(
    mut to: WriteHalf<Stream>,
    jobs: &mut mpsc::Receiver<Job>,
    waiting: &Waiting,
    is_pipelined: bool,
) -> Fault {
    let mut bytes = Vec::new();
    loop {
        let Some(first) = jobs.recv().await else {
            return Fault::Unreachable(
                "the store has not answered for seconds, and is not waited for".to_owned(),
            );
        };
        let mut next = Some(first);
        while let Some(Job { command, waiter }) = next {
            // Whoever has gone away meanwhile asks nothing.
            if !waiter.done.is_closed() {
                frame(0, &command, &mut bytes);
                waiting.queue.borrow_mut().push_back(waiter);
            }
            let has_room = is_pipelined && bytes.len() < WRITE_MAX;
            next = has_room.then(|| jobs.try_recv().ok()).flatten();
        }
        if let Err(error) = to.write_all(&bytes).await {
            return error.into();
        }
        if let Err(error) = to.flush().await {
            return error.into();
        }
        bytes.clear();
        bytes.shrink_to(WRITE_MAX);
        while !is_pipelined && !waiting.queue.borrow().is_empty() {
            waiting.is_over.notified().await;
        }
    }
}

async fn read(
    mut from: ReadHalf<Stream>,
    mut inbox: Inbox,
    waiting: &Waiting,
    deprecates_eof: bool,
) -> Fault {
    loop {
        let mut response = Response::new(Asked::Execute, deprecates_eof);
        let answer = loop {
            let payload = match inbox.packet(&mut from).await {
                Ok((_, payload)) => payload,
                Err(error) => return error.into(),
            };
            if waiting.queue.borrow().is_empty() {
                return unasked(payload);
            }
            match response.packet(payload) {
                Ok(Some(answer)) => break answer,
                Ok(None) => {}
                Err(garbled) => return io::Error::from(garbled).into(),
            }
        };
        let answer = match answer {
            Ok(Answer::Rows(rows)) => Ok(rows),
            Ok(_) => return io::Error::from(Garbled).into(),
            Err(fault @ Fault::Unreachable(_)) => return fault,
            Err(fault) => Err(fault),
        };
        if let Some(waiter) = waiting.queue.borrow_mut().pop_front() {
            let _ = waiter.done.send(answer);
        }
        if waiting.queue.borrow().is_empty() {
            waiting.is_over.notify_one();
        }
    }
}

/// What a server says of its own accord ends the connection: nobody knows any more what
/// belongs to which question.
fn unasked(payload: &[u8]) -> Fault {
    match payload.first() {
        Some(0xff) => Fault::Unreachable(super::login::refusal(payload).what().to_owned()),
        _ => Fault::Unreachable("the store answered what nobody asked".to_owned()),
    }
}
