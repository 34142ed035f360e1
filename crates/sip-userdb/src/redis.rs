//! Redis and Valkey. A user is a string of JSON with his HA1s ([`crate::ha1s`]) under a key
//! of his realm and name ([`key`]); a batch is one MGET.

mod announce;
mod key;
mod resp;

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use sip_auth::{Algorithm, Secrets, Subject};
use sip_lookup::{BadRow, BatchAnswer, BatchFailure, Row, Rows};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinHandle;

use self::announce::Announcements;
use self::resp::Reply;
use crate::fault::of_log_in;
use crate::lane::{self, Dialogue, Lanes, Protocol, Taken};
use crate::net::{Connector, Stream};
use crate::url::Url;
use crate::{Capabilities, Changed, Error, Layout, Options, Secret, ha1s, names};

/// The set of domains.
const DOMAINS: &[u8] = b"signet:domains";

/// Users in one MGET: more would keep Redis, which has one thread, from all others.
const BATCH_MAX: usize = 1_000;

/// Keys that one SCAN looks at.
const SCAN_COUNT: &[u8] = b"10000";

/// A Redis or Valkey server.
pub(crate) struct Client {
    login: Rc<Login>,
    lanes: Lanes<Wire>,
    capabilities: Capabilities,
    with_keyspace_events: bool,
    announcements: Rc<Announcements>,
    /// Begun when somebody wants to hear.
    listener: RefCell<Option<Listener>>,
}

struct Listener(JoinHandle<()>);

impl Drop for Listener {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// How connections are made and who makes them.
pub(super) struct Login {
    connector: Connector,
    name: String,
    user: Option<String>,
    password: Option<Secret>,
    database: u32,
}

impl std::fmt::Display for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the Redis at {}", self.name)
    }
}

impl Client {
    pub(crate) fn new(url: Url, options: Options) -> Result<Self, Error> {
        let connector = Connector::new(&url, &options)?;
        if options.layout != Layout::Signet {
            return Err(Error::new(
                "users in Redis have a layout of Signet's own",
                "take away layout, and see docs/STORES.md for the keys",
            ));
        }
        if url.user.is_some() && options.password.is_none() {
            return Err(Error::new(
                "the URL of Redis has a user, and there is no password",
                "give it by password_file or password_env",
            ));
        }
        let database = match url.path.as_str() {
            "" => 0,
            path => path.parse().map_err(|_| {
                Error::new(
                    format!("the URL of Redis has the path {path}, which is not the number of a database"),
                    "write it as redis://host/0",
                )
            })?,
        };
        let mut with_keyspace_events = false;
        for (name, value) in &url.query {
            match (name.as_str(), value.as_str()) {
                ("socket", _) => {}
                ("keyspace_events", "true") => with_keyspace_events = true,
                ("keyspace_events", "false") => {}
                _ => {
                    return Err(Error::new(
                        format!("the URL of Redis says {name}={value}"),
                        "it takes keyspace_events=true and socket=/path",
                    ));
                }
            }
        }
        let login = Rc::new(Login {
            connector,
            name: names::place(&url),
            user: url.user,
            password: options.password,
            database,
        });
        Ok(Self {
            lanes: Lanes::new(Wire(Rc::clone(&login)), options.connections_max),
            login,
            capabilities: Capabilities {
                algorithms: options
                    .algorithms
                    .unwrap_or_else(|| Algorithm::ALL.to_vec()),
                verifies: false,
                tells_unknown_users: true,
                is_writable: true,
                announces_changes: true,
                batch_max: BATCH_MAX,
                in_flight_max: lane::carried(options.connections_max),
            },
            with_keyspace_events,
            announcements: Rc::default(),
            listener: RefCell::default(),
        })
    }

    pub(crate) fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    pub(crate) async fn ask(&self, rows: &Rows) -> Result<BatchAnswer, BatchFailure> {
        let Rows::Secrets(subjects) = rows else {
            return Err(BatchFailure::Refused(
                "Redis holds secrets and verifies no digests".to_owned(),
            ));
        };
        if subjects.is_empty() {
            return Ok(BatchAnswer::Rows(Vec::new()));
        }
        let keys: Vec<_> = subjects.iter().map(key::of).collect();
        let mut command: Vec<&[u8]> = vec![b"MGET"];
        command.extend(keys.iter().map(Vec::as_slice));
        match self.command(&command).await? {
            Reply::Array(Some(items)) if items.len() == subjects.len() => {
                Ok(BatchAnswer::Rows(items.into_iter().map(row).collect()))
            }
            reply => Err(unexpected("MGET", reply)),
        }
    }

    pub(crate) fn traffic(&self) -> (u64, u64) {
        self.login.connector.traffic().so_far()
    }

    pub(crate) async fn domains(&self) -> Result<Option<Vec<String>>, Error> {
        let reply = self.command(&[b"SMEMBERS", DOMAINS]).await;
        let Reply::Array(Some(items)) = reply.map_err(|failure| self.error(&failure))? else {
            return Err(self.error(&BatchFailure::Refused("no set of domains".to_owned())));
        };
        let mut domains = Vec::with_capacity(items.len());
        for item in items {
            let text = match &item {
                Reply::Bulk(Some(bytes)) => std::str::from_utf8(bytes).ok(),
                _ => None,
            };
            domains.push(text.map(str::to_owned).ok_or_else(|| {
                Error::new(
                    format!(
                        "{} has a domain in signet:domains that is not UTF-8",
                        self.login
                    ),
                    "remove it with SREM",
                )
            })?);
        }
        domains.sort();
        Ok(Some(domains))
    }

    pub(crate) async fn changed(&self) -> Changed {
        self.listener.borrow_mut().get_or_insert_with(|| {
            Listener(tokio::task::spawn_local(announce::listen(
                Rc::clone(&self.login),
                self.with_keyspace_events,
                Rc::clone(&self.announcements),
            )))
        });
        self.announcements.next().await
    }

    pub(crate) async fn put(&self, subject: &Subject, secrets: &Secrets) -> Result<(), Error> {
        let value = ha1s::write(secrets);
        self.change(subject, &[b"SET", &key::of(subject), &value])
            .await
            .map(drop)
    }

    pub(crate) async fn remove(&self, subject: &Subject) -> Result<bool, Error> {
        let reply = self.change(subject, &[b"DEL", &key::of(subject)]).await?;
        Ok(reply == Reply::Integer(1))
    }

    /// Looks at every key there is for each call, since Redis has them in no order.
    pub(crate) async fn list(
        &self,
        after: Option<&Subject>,
        max: usize,
    ) -> Result<Vec<Subject>, Error> {
        // The first `max` so far, by what they are sorted by.
        let mut first: BTreeMap<(String, Vec<u8>), Subject> = BTreeMap::new();
        let order = |subject: &Subject| (subject.realm().to_string(), subject.user().to_vec());
        let after = after.map(order);
        let mut cursor = b"0".to_vec();
        let pattern = [key::PREFIX, b"*"].concat();
        loop {
            let reply = self
                .command(&[b"SCAN", &cursor, b"MATCH", &pattern, b"COUNT", SCAN_COUNT])
                .await
                .map_err(|failure| self.error(&failure))?;
            let Some((next, keys)) = scanned(reply) else {
                return Err(self.error(&BatchFailure::Refused("no answer to SCAN".to_owned())));
            };
            for subject in keys.iter().filter_map(|key| key::read(key)) {
                let at = order(&subject);
                if after.as_ref().is_none_or(|after| at > *after) {
                    first.insert(at, subject);
                }
                if first.len() > max {
                    first.pop_last();
                }
            }
            if next == b"0" {
                return Ok(first.into_values().collect());
            }
            cursor = next;
        }
    }

    /// Changes a user and announces it, both or neither.
    async fn change(&self, subject: &Subject, command: &[&[u8]]) -> Result<Reply, Error> {
        let mut commands = Vec::new();
        resp::write(&[b"MULTI"], &mut commands);
        resp::write(command, &mut commands);
        let name = key::name(subject);
        resp::write(&[b"PUBLISH", announce::CHANNEL, &name], &mut commands);
        resp::write(&[b"EXEC"], &mut commands);
        let question = Question {
            commands: commands.into(),
            replies: 4,
            reads: false,
        };
        let replies = self.lanes.ask(question).await;
        let replies = replies.map_err(|failure| self.error(&failure))?;
        let refused = replies.iter().find_map(|reply| match reply {
            Reply::Error(why) if !why.starts_with("EXECABORT") => Some(why.clone()),
            _ => None,
        });
        match (refused, replies.into_iter().next_back()) {
            (None, Some(Reply::Array(Some(done)))) => {
                let done = done.into_iter().next().unwrap_or(Reply::Bulk(None));
                match done {
                    Reply::Error(why) => Err(self.error(&failure(why))),
                    done => Ok(done),
                }
            }
            (Some(why), _) => Err(self.error(&failure(why))),
            (None, _) => {
                let why = "the change was not carried out".to_owned();
                Err(self.error(&BatchFailure::Refused(why)))
            }
        }
    }

    /// One command and its reply, which is no error.
    async fn command(&self, command: &[&[u8]]) -> Result<Reply, BatchFailure> {
        let mut commands = Vec::new();
        resp::write(command, &mut commands);
        let question = Question {
            commands: commands.into(),
            replies: 1,
            reads: true,
        };
        match self.lanes.ask(question).await?.pop() {
            Some(Reply::Error(why)) => Err(failure(why)),
            Some(reply) => Ok(reply),
            None => invariant::broken!(
                "a command is answered by a reply",
                Err(BatchFailure::Refused("no reply".to_owned()))
            ),
        }
    }

    fn error(&self, failure: &BatchFailure) -> Error {
        let login = &self.login;
        match failure {
            BatchFailure::Unreachable(why) => Error::new(
                format!("{login} cannot be reached ({why})"),
                "see whether it runs and the URL is right",
            ),
            BatchFailure::LogInRefused(why) => Error::new(
                format!("{login} refused the log-in ({why})"),
                "compare the user of the URL, the password and the database with its ACL",
            ),
            BatchFailure::Refused(why) | BatchFailure::Ended(why) | BatchFailure::Unusable(why) => {
                Error::new(
                    format!("{login} refused ({why})"),
                    "see what its user may do: docs/STORES.md lists the commands",
                )
            }
            BatchFailure::Cancelled(why) => Error::new(
                format!("{login} broke the command off ({why})"),
                "try again",
            ),
            BatchFailure::TimedOut => {
                Error::new(format!("{login} did not answer in time"), "try again")
            }
        }
    }
}

/// What a value says of its user.
fn row(reply: Reply) -> Row {
    match reply {
        Reply::Bulk(None) => Ok(None),
        Reply::Bulk(Some(text)) => ha1s::read(&text).map(Some),
        _ => Err(BadRow::Bad(
            "what is kept of him is not a string".to_owned(),
        )),
    }
}

/// The next cursor of a SCAN and what it found.
fn scanned(reply: Reply) -> Option<(Vec<u8>, Vec<Vec<u8>>)> {
    let Reply::Array(Some(parts)) = reply else {
        return None;
    };
    let [Reply::Bulk(Some(next)), Reply::Array(Some(keys))] = parts.as_slice() else {
        return None;
    };
    let keys = keys.iter().filter_map(|key| match key {
        Reply::Bulk(Some(key)) => Some(key.to_vec()),
        _ => None,
    });
    Some((next.to_vec(), keys.collect()))
}

/// An error of the server's: whether it is there and not ready, does not let us in, or refuses.
fn failure(mut why: String) -> BatchFailure {
    // A server that does not know a command repeats what came with it: a password, or an HA1.
    if let Some(at) = why.find(", with args") {
        why.truncate(at);
    }
    // That has no word of its own.
    if why.starts_with("ERR max number of clients") {
        return BatchFailure::Unreachable(why);
    }
    match why.split(' ').next() {
        Some("LOADING" | "MASTERDOWN" | "CLUSTERDOWN" | "TRYAGAIN" | "BUSY") => {
            BatchFailure::Unreachable(why)
        }
        // It wants a log-in of whoever gives none, or believes ours no more.
        Some("NOAUTH" | "WRONGPASS") => BatchFailure::LogInRefused(why),
        _ => BatchFailure::Refused(why),
    }
}

fn unexpected(command: &str, reply: Reply) -> BatchFailure {
    match reply {
        Reply::Error(why) => failure(why),
        _ => BatchFailure::Refused(format!("an unexpected reply to {command}")),
    }
}

/// Commands that are sent together, and how many replies they have.
struct Question {
    commands: zeroize::Zeroizing<Vec<u8>>,
    replies: usize,
    /// It changes nothing.
    reads: bool,
}

struct Wire(Rc<Login>);

impl Protocol for Wire {
    type Question = Question;
    type Answer = Vec<Reply>;
    type Dialogue = Talk;

    fn may_be_repeated(question: &Question) -> bool {
        question.reads
    }

    async fn begin(&self) -> Result<(Stream, Talk), BatchFailure> {
        Ok((self.0.begin().await?, Talk::default()))
    }

    fn patience(&self) -> Duration {
        self.0.connector.timeout()
    }
}

impl Login {
    /// Connects, authenticates and selects the database.
    async fn begin(&self) -> Result<Stream, BatchFailure> {
        let mut stream = self.connector.connect().await.map_err(unreachable)?;
        let mut commands = zeroize::Zeroizing::new(Vec::with_capacity(1024));
        let mut replies = Vec::new();
        if let Some(password) = &self.password {
            let mut command: Vec<&[u8]> = vec![b"AUTH"];
            command.extend(self.user.as_deref().map(str::as_bytes));
            command.push(password.expose());
            resp::write(&command, &mut commands);
            replies.push("AUTH");
        }
        if self.database != 0 {
            let number = self.database.to_string();
            resp::write(&[b"SELECT", number.as_bytes()], &mut commands);
            replies.push("SELECT");
        }
        if replies.is_empty() {
            return Ok(stream);
        }
        let talk = async {
            stream.write_all(&commands).await?;
            stream.flush().await?;
            let mut input = Vec::new();
            for command in replies {
                match one(&mut stream, &mut input).await? {
                    Reply::Simple(_) => {}
                    reply => return Ok(Err(of_log_in(unexpected(command, reply)))),
                }
            }
            Ok(Ok(()))
        };
        self.connector.in_time(talk).await.map_err(unreachable)??;
        Ok(stream)
    }
}

/// One reply of a log-in, during which nothing else comes.
async fn one(stream: &mut Stream, input: &mut Vec<u8>) -> std::io::Result<Reply> {
    loop {
        match resp::read(input).map_err(std::io::Error::other)? {
            Some((reply, len)) => {
                input.drain(..len);
                return Ok(reply);
            }
            None if input.len() > 4096 => return Err(std::io::Error::other("too long a reply")),
            None => {}
        }
        if stream.read_buf(input).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
}

fn unreachable(error: std::io::Error) -> BatchFailure {
    BatchFailure::Unreachable(error.to_string())
}

/// Who is to be answered next. Replies bear no name: before each question goes its number,
/// to be echoed, so that a reply too many or too few ends the connection and is never taken
/// for another user's.
#[derive(Default)]
struct Talk {
    expected: VecDeque<Expected>,
}

struct Expected {
    number: u32,
    is_echoed: bool,
    replies_left: usize,
    replies: Vec<Reply>,
}

impl Dialogue<Question, Vec<Reply>> for Talk {
    fn write(&mut self, number: u32, question: &Question, out: &mut Vec<u8>) {
        resp::write(&[b"ECHO", number.to_string().as_bytes()], out);
        out.extend_from_slice(&question.commands);
        self.expected.push_back(Expected {
            number,
            is_echoed: false,
            replies_left: question.replies,
            replies: Vec::with_capacity(question.replies),
        });
    }

    fn read(&mut self, input: &[u8]) -> Result<Taken<Vec<Reply>>, BatchFailure> {
        let garbage = |why: &str| BatchFailure::Refused(format!("Redis sent {why}"));
        let Some((reply, len)) = resp::read(input).map_err(|why| garbage(&why))? else {
            return Ok(Taken::Nothing);
        };
        let first = self
            .expected
            .front_mut()
            .ok_or_else(|| garbage("a reply to nothing"))?;
        if !first.is_echoed {
            return match reply {
                Reply::Bulk(Some(echo)) if *echo == first.number.to_string().as_bytes() => {
                    first.is_echoed = true;
                    Ok(Taken::Part(len))
                }
                Reply::Error(why) => Err(failure(why)),
                _ => Err(garbage("replies that are out of step")),
            };
        }
        first.replies.push(reply);
        first.replies_left = first.replies_left.saturating_sub(1);
        if first.replies_left > 0 {
            return Ok(Taken::Part(len));
        }
        match self.expected.pop_front() {
            Some(done) => Ok(Taken::Last(len, done.number, done.replies)),
            None => invariant::broken!("it was there before", Ok(Taken::Part(len))),
        }
    }

    /// Replies come in the order of the questions.
    fn about(&self, _: &[u8]) -> Option<u32> {
        self.expected.front().map(|first| first.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_with_a_command_is_not_repeated() {
        let said = "ERR unknown command 'AUTH', with args beginning with: 'signet' 'a secret' ";
        let failed = failure(said.to_owned());
        assert_eq!(
            failed,
            BatchFailure::Refused("ERR unknown command 'AUTH'".to_owned())
        );
    }

    #[test]
    fn what_is_no_word_about_a_question_is_told_apart() {
        let of = |said: &str| failure(said.to_owned());
        for said in [
            "ERR max number of clients reached",
            "ERR max number of clients + cluster connections reached",
            "LOADING Redis is loading the dataset in memory",
        ] {
            assert!(matches!(of(said), BatchFailure::Unreachable(_)), "{said}");
        }
        for said in [
            "NOAUTH Authentication required.",
            "WRONGPASS invalid username-password pair or user is disabled.",
        ] {
            assert!(matches!(of(said), BatchFailure::LogInRefused(_)), "{said}");
        }
        let denied = of("NOPERM this user has no permissions to run the 'mget' command");
        assert!(matches!(denied, BatchFailure::Refused(_)));
    }
}
