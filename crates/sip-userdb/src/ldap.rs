//! LDAP (RFC 4511). A batch is one search whose filter names all users; several are under
//! way on one connection, told apart by their message ids.
//!
//! A directory compares by its own rules, in which `ALICE` is `alice` and spaces count for
//! little. So an entry is a user's only if it has his name and realm byte by byte.

mod ber;
mod message;

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::future::pending;
use std::rc::Rc;
use std::time::Duration;

use sip_auth::{Algorithm, Ha1, Secrets, Subject};
use sip_lookup::{BadRow, BatchAnswer, BatchFailure, Row, Rows};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;
use zeroize::Zeroizing;

use self::message::{
    BIND_RESPONSE, EXTENDED_RESPONSE, Ended, Entry, Filter, SEARCH_DONE, SEARCH_ENTRY,
    SEARCH_REFERENCE, Search,
};
use crate::fault::of_log_in;
use crate::lane::{self, Dialogue, Lanes, Protocol, Taken};
use crate::names::{self, ABSENT_USER};
use crate::net::{Connector, Stream};
use crate::url::Url;
use crate::{Capabilities, Changed, Error, Layout, Options, Secret};

/// Users in one search. Directories give 500 entries by default, and their filters cost by
/// the part.
const BATCH_MAX: usize = 100;

/// The most bytes of entries that one search may find.
const FOUND_MAX: usize = 8 << 20;

/// No entry has a longer name, and a directory has a bound on requests.
const NAME_MAX: usize = 256;

const SUCCESS: u32 = 0;
const TIME_LIMIT_EXCEEDED: u32 = 3;
const SIZE_LIMIT_EXCEEDED: u32 = 4;
const AUTH_METHOD_NOT_SUPPORTED: u32 = 7;
const STRONGER_AUTH_REQUIRED: u32 = 8;
const ADMIN_LIMIT_EXCEEDED: u32 = 11;
const CONFIDENTIALITY_REQUIRED: u32 = 13;
const INAPPROPRIATE_AUTHENTICATION: u32 = 48;
const INVALID_CREDENTIALS: u32 = 49;
const BUSY: u32 = 51;
const UNAVAILABLE: u32 = 52;

/// How often the log says that an entry has no HA1.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// A directory.
pub(crate) struct Client {
    login: Rc<Login>,
    lanes: Lanes<Wire>,
    layout: Attributes,
    base: String,
    capabilities: Capabilities,
    warned: Cell<Option<Instant>>,
}

/// Which attribute has what.
struct Attributes {
    user: String,
    /// `None` where entries have none, and all users are of one realm.
    realm: Option<String>,
    ha1s: Vec<(Algorithm, String)>,
    domains: Option<String>,
}

struct Login {
    connector: Connector,
    name: String,
    /// Whether TLS begins after a question, and not at once.
    is_start_tls: bool,
    bind: Option<(String, Secret)>,
}

impl std::fmt::Display for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the directory at {}", self.name)
    }
}

impl Client {
    pub(crate) fn new(url: Url, options: Options) -> Result<Self, Error> {
        let connector = Connector::new(&url, &options)?;
        if options.layout != Layout::Signet {
            return Err(Error::new(
                "where a directory keeps users is said in its URL",
                "take away layout and name the attributes as docs/STORES.md shows",
            ));
        }
        if url.path.is_empty() {
            return Err(Error::new(
                "the URL of a directory names no base",
                "write it as ldap://host/ou=users,dc=example,dc=org",
            ));
        }
        let layout = Attributes::read(&url.query)?;
        let bind = match (url.user.clone(), options.password) {
            (None, None) => None,
            // RFC 4513 5.1.2: a name without a password would be no log-in and yet succeed.
            (Some(name), Some(password)) if !password.expose().is_empty() => Some((name, password)),
            _ => {
                return Err(Error::new(
                    "a directory is logged in to with a name and a password, or with neither",
                    "put the DN into the URL (ldap://cn=signet,dc=example,dc=org@host/BASE) and \
                     give the password by password_file or password_env",
                ));
            }
        };
        let held: Vec<_> = layout
            .ha1s
            .iter()
            .map(|(algorithm, _)| *algorithm)
            .collect();
        let login = Rc::new(Login {
            name: names::place(&url),
            is_start_tls: connector.wants_tls() && !url.is_tls,
            connector,
            bind,
        });
        Ok(Self {
            lanes: Lanes::new(Wire(Rc::clone(&login)), options.connections_max),
            login,
            layout,
            base: url.path,
            capabilities: Capabilities {
                algorithms: options.algorithms.unwrap_or(held),
                verifies: false,
                tells_unknown_users: true,
                is_writable: false,
                announces_changes: false,
                batch_max: BATCH_MAX,
                in_flight_max: lane::carried(options.connections_max),
            },
            warned: Cell::new(None),
        })
    }

    pub(crate) fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    pub(crate) async fn ask(&self, rows: &Rows) -> Result<BatchAnswer, BatchFailure> {
        let Rows::Secrets(subjects) = rows else {
            return Err(BatchFailure::Refused(
                "a directory holds secrets and verifies no digests".to_owned(),
            ));
        };
        if subjects.is_empty() {
            return Ok(BatchAnswer::Rows(Vec::new()));
        }
        let filter = Filter::Any(subjects.iter().map(|s| self.layout.filter(s)).collect());
        let found = self.search(filter, self.layout.all()).await?;
        let is_cut = match found.ended.code {
            SUCCESS => false,
            // What came before is as good as any.
            TIME_LIMIT_EXCEEDED | SIZE_LIMIT_EXCEEDED | ADMIN_LIMIT_EXCEEDED => true,
            _ => return Err(found.ended.failure()),
        };
        let mut rows = self.layout.rows(subjects, &found.entries);
        self.warn_of_empty(subjects, &rows);
        if is_cut {
            for row in rows.iter_mut().filter(|row| **row == Ok(None)) {
                *row = Err(BadRow::Untold(format!(
                    "may be in what the directory left out ({})",
                    found.ended
                )));
            }
        }
        Ok(BatchAnswer::Rows(rows))
    }

    pub(crate) fn traffic(&self) -> (u64, u64) {
        self.login.connector.traffic().so_far()
    }

    pub(crate) async fn domains(&self) -> Result<Option<Vec<String>>, Error> {
        let Some(attribute) = &self.layout.domains else {
            return Ok(None);
        };
        let filter = Filter::Present(attribute.clone());
        let found = self.search(filter, vec![attribute.clone()]).await;
        let found = found.map_err(|failure| self.error(&failure))?;
        if found.ended.code != SUCCESS {
            return Err(self.error(&found.ended.failure()));
        }
        let mut domains = Vec::new();
        for value in found.entries.iter().flat_map(|e| e.values(attribute)) {
            let text = std::str::from_utf8(value).map_err(|_| {
                Error::new(
                    format!("{} has a domain that is not UTF-8", self.login),
                    format!("correct the attribute {attribute}"),
                )
            })?;
            domains.push(text.to_owned());
        }
        domains.sort();
        domains.dedup();
        Ok(Some(domains))
    }

    pub(crate) async fn changed(&self) -> Changed {
        pending().await
    }

    #[allow(clippy::unused_async, reason = "the shape that all have")]
    pub(crate) async fn put(&self, _subject: &Subject, _secrets: &Secrets) -> Result<(), Error> {
        Err(read_only())
    }

    #[allow(clippy::unused_async, reason = "the shape that all have")]
    pub(crate) async fn remove(&self, _subject: &Subject) -> Result<bool, Error> {
        Err(read_only())
    }

    #[allow(clippy::unused_async, reason = "the shape that all have")]
    pub(crate) async fn list(
        &self,
        _after: Option<&Subject>,
        _max: usize,
    ) -> Result<Vec<Subject>, Error> {
        Err(read_only())
    }

    async fn search(&self, filter: Filter, attributes: Vec<String>) -> Result<Found, BatchFailure> {
        let patience_s = self.login.connector.timeout().as_secs().max(1);
        let search = Search {
            base: self.base.clone(),
            filter,
            attributes,
            time_limit_s: u32::try_from(patience_s).unwrap_or(u32::MAX),
        };
        self.lanes.ask(search).await
    }

    /// Says, not too often, that an entry has no HA1. Where attributes may not be read, entries
    /// come without them and nothing says so. Its user is refused as one who is unknown: who has
    /// an entry and no HA1 is nobody's business.
    fn warn_of_empty(&self, subjects: &[Subject], rows: &[Row]) {
        let is_empty = |row: &Row| matches!(row, Ok(Some(secrets)) if secrets.is_empty());
        let mut users = subjects.iter().zip(rows);
        let Some((subject, _)) = users.find(|&(_, row)| is_empty(row)) else {
            return;
        };
        let told = self.warned.get();
        if told.is_some_and(|told| told.elapsed() < WARN_EVERY) {
            return;
        }
        self.warned.set(Some(Instant::now()));
        let attributes = self.layout.ha1s.iter();
        let attributes: Vec<&str> = attributes.map(|(_, name)| name.as_str()).collect();
        tracing::warn!(
            user = ?subject,
            "an entry in {} has no attribute {}, and its user is refused as if there were none: \
             may the server's account read it?",
            self.login,
            attributes.join(", or ")
        );
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
                "compare the DN in the URL and the password with the directory's",
            ),
            BatchFailure::Refused(why) | BatchFailure::Ended(why) | BatchFailure::Unusable(why) => {
                Error::new(
                    format!("{login} refused ({why})"),
                    "see whether the base is there and who may read it",
                )
            }
            BatchFailure::Cancelled(why) => {
                Error::new(format!("{login} broke the search off ({why})"), "try again")
            }
            BatchFailure::TimedOut => {
                Error::new(format!("{login} did not answer in time"), "try again")
            }
        }
    }
}

fn read_only() -> Error {
    Error::new(
        "users of a directory are not changed or listed from here",
        "change them with the directory's own means",
    )
}

impl Attributes {
    /// Reads which attribute has what; what is not said is by the schema of Signet's own.
    fn read(query: &[(String, String)]) -> Result<Self, Error> {
        let mut user = "uid".to_owned();
        let mut realm = Some("signetRealm".to_owned());
        let mut domains = None;
        let mut ha1s = Vec::new();
        for (name, value) in query {
            let some = || (!value.is_empty()).then(|| value.clone());
            let algorithm = match name.as_str() {
                "socket" => continue,
                "user" if !value.is_empty() => {
                    user.clone_from(value);
                    continue;
                }
                "realm" => {
                    realm = some();
                    continue;
                }
                "domains" => {
                    domains = some();
                    continue;
                }
                "ha1_md5" => Algorithm::Md5,
                "ha1_sha256" => Algorithm::Sha256,
                "ha1_sha512_256" => Algorithm::Sha512_256,
                _ => {
                    return Err(Error::new(
                        format!("the URL of a directory says {name}={value}"),
                        "it takes user, realm, domains, ha1_md5, ha1_sha256 and ha1_sha512_256, \
                         each with the name of an attribute",
                    ));
                }
            };
            ha1s.extend(some().map(|attribute| (algorithm, attribute)));
        }
        if ha1s.is_empty() {
            ha1s = [
                (Algorithm::Sha512_256, "signetHA1SHA512256"),
                (Algorithm::Sha256, "signetHA1SHA256"),
                (Algorithm::Md5, "signetHA1MD5"),
            ]
            .map(|(algorithm, attribute)| (algorithm, attribute.to_owned()))
            .into();
        }
        Ok(Self {
            user,
            realm,
            ha1s,
            domains,
        })
    }

    /// All that a search for users brings back.
    fn all(&self) -> Vec<String> {
        let names = std::iter::once(&self.user).chain(&self.realm);
        let ha1s = self.ha1s.iter().map(|(_, attribute)| attribute);
        names.chain(ha1s).cloned().collect()
    }

    /// What a user's entry has. A name that can be in no entry is replaced by one that is in
    /// none.
    fn filter(&self, subject: &Subject) -> Filter {
        let user = names::as_text(subject.user())
            .filter(|user| user.len() <= NAME_MAX)
            .unwrap_or(ABSENT_USER);
        let user = Filter::Equal(self.user.clone(), user.into());
        match &self.realm {
            Some(realm) => {
                let realm = Filter::Equal(realm.clone(), subject.realm().as_bytes().to_vec());
                Filter::All(vec![realm, user])
            }
            None => user,
        }
    }

    /// One row for each subject, in their order.
    fn rows(&self, subjects: &[Subject], entries: &[Entry]) -> Vec<Row> {
        let mut rows: Vec<Row> = subjects.iter().map(|_| Ok(None)).collect();
        for entry in entries {
            let set = |attribute: &str| -> HashSet<&[u8]> {
                let values = entry.values(attribute).iter();
                values.map(|value| value.as_slice()).collect()
            };
            let users = set(&self.user);
            let realms = self.realm.as_deref().map(set);
            for (subject, row) in subjects.iter().zip(&mut rows) {
                let is_his = users.contains(subject.user())
                    && names::as_text(subject.user()).is_some()
                    && realms
                        .as_ref()
                        .is_none_or(|realms| realms.contains(subject.realm().as_bytes()));
                if is_his {
                    *row = match row {
                        Ok(None) => self.secrets(entry).map(Some),
                        _ => Err(BadRow::Bad("has more than one entry".to_owned())),
                    };
                }
            }
        }
        rows
    }

    fn secrets(&self, entry: &Entry) -> Result<Secrets, BadRow> {
        let mut secrets = Secrets::default();
        for (algorithm, attribute) in &self.ha1s {
            let digits = match entry.values(attribute) {
                [] => continue,
                [digits] => digits,
                _ => return Err(BadRow::Bad(format!("has several values of {attribute}"))),
            };
            let ha1 = Ha1::from_hex(*algorithm, digits).ok_or_else(|| {
                BadRow::Bad(format!(
                    "has a value of {attribute} that is not {} hexadecimal digits",
                    2 * algorithm.digest_len()
                ))
            })?;
            secrets.insert(ha1);
        }
        Ok(secrets)
    }
}

/// What a search found.
struct Found {
    entries: Vec<Entry>,
    ended: Ended,
}

impl Ended {
    fn failure(&self) -> BatchFailure {
        self.failure_of(self.to_string())
    }

    /// The same of a log-in, say, with what is told of it.
    fn failure_of(&self, told: String) -> BatchFailure {
        match self.code {
            BUSY | UNAVAILABLE => BatchFailure::Unreachable(told),
            AUTH_METHOD_NOT_SUPPORTED
            | STRONGER_AUTH_REQUIRED
            | CONFIDENTIALITY_REQUIRED
            | INAPPROPRIATE_AUTHENTICATION
            | INVALID_CREDENTIALS => BatchFailure::LogInRefused(told),
            _ => BatchFailure::Refused(told),
        }
    }
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.text.as_str() {
            "" => write!(f, "result {}", self.code),
            text => write!(f, "result {}: {text}", self.code),
        }
    }
}

struct Wire(Rc<Login>);

impl Protocol for Wire {
    type Question = Search;
    type Answer = Found;
    type Dialogue = Talk;

    fn may_be_repeated(_: &Search) -> bool {
        true
    }

    async fn begin(&self) -> Result<(Stream, Talk), BatchFailure> {
        let login = &self.0;
        let gone = |error: std::io::Error| BatchFailure::Unreachable(error.to_string());
        let begun = login.connector.in_time(login.begin()).await;
        Ok((begun.map_err(gone)??, Talk::default()))
    }

    fn patience(&self) -> Duration {
        self.0.connector.timeout()
    }
}

impl Login {
    /// Connects, puts TLS under it and logs in.
    async fn begin(&self) -> std::io::Result<Result<Stream, BatchFailure>> {
        let mut stream = self.connector.open().await?;
        if self.is_start_tls {
            let mut request = Vec::new();
            message::write_start_tls(1, &mut request);
            let ended = one(&mut stream, &request, EXTENDED_RESPONSE).await?;
            // RFC 4511 4.14: whoever asked for TLS and did not get it does not go on.
            if ended.code != SUCCESS {
                return Ok(Err(BatchFailure::Unreachable(format!(
                    "the directory refused StartTLS ({ended}): let it have a certificate, or take \
                     ldaps"
                ))));
            }
        }
        if self.connector.wants_tls() {
            stream = self.connector.upgrade(stream).await?;
        }
        if let Some((name, password)) = &self.bind {
            let mut request = Zeroizing::new(Vec::with_capacity(1024));
            message::write_bind(2, name, password.expose(), &mut request);
            let ended = one(&mut stream, &request, BIND_RESPONSE).await?;
            if ended.code != SUCCESS {
                let told = format!("the directory refused the log-in of {name} ({ended})");
                return Ok(Err(of_log_in(ended.failure_of(told))));
            }
        }
        Ok(Ok(stream))
    }
}

/// Sends a request and reads its answer, with nothing before or after it: what came in plain
/// text is not taken for what comes under TLS.
async fn one(stream: &mut Stream, request: &[u8], operation: u8) -> std::io::Result<Ended> {
    let garbage = |why: &str| std::io::Error::other(format!("the directory sent {why}"));
    stream.write_all(request).await?;
    stream.flush().await?;
    let mut input = Vec::new();
    loop {
        if let Some((message, len)) = message::read(&input).map_err(garbage)? {
            if message.operation != operation || len != input.len() {
                return Err(garbage("something else than the answer"));
            }
            return message.ended().ok_or_else(|| garbage("a broken answer"));
        }
        if input.len() > 64 << 10 {
            return Err(garbage("too long an answer"));
        }
        if stream.read_buf(&mut input).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// The searches under way on a connection and what they have found so far.
#[derive(Default)]
struct Talk {
    found: HashMap<u32, (Vec<Entry>, usize)>,
}

impl Dialogue<Search, Found> for Talk {
    fn write(&mut self, number: u32, question: &Search, out: &mut Vec<u8>) {
        message::write_search(number, question, out);
        self.found.insert(number, Default::default());
    }

    fn read(&mut self, input: &[u8]) -> Result<Taken<Found>, BatchFailure> {
        let garbage = |why: &str| BatchFailure::Refused(format!("the directory sent {why}"));
        let Some((message, len)) = message::read(input).map_err(garbage)? else {
            return Ok(Taken::Nothing);
        };
        if message.id == 0 {
            // RFC 4511 4.4.1: the directory is about to disconnect.
            let why = message.ended().map(|ended| ended.to_string());
            return Err(BatchFailure::Unreachable(
                why.unwrap_or_else(|| "the directory ends the connection".to_owned()),
            ));
        }
        match message.operation {
            SEARCH_ENTRY => {
                let (entry, bytes) = message
                    .entry()
                    .ok_or_else(|| garbage("an entry that cannot be read"))?;
                let (entries, total) = self
                    .found
                    .get_mut(&message.id)
                    .ok_or_else(|| garbage("an entry that nobody looked for"))?;
                *total += bytes;
                if *total > FOUND_MAX {
                    return Err(garbage("more than a search may find"));
                }
                entries.push(entry);
                Ok(Taken::Part(len))
            }
            SEARCH_REFERENCE => Ok(Taken::Part(len)),
            SEARCH_DONE => {
                let ended = message
                    .ended()
                    .ok_or_else(|| garbage("an end of a search that cannot be read"))?;
                let (entries, _) = self
                    .found
                    .remove(&message.id)
                    .ok_or_else(|| garbage("the end of what nobody looked for"))?;
                Ok(Taken::Last(len, message.id, Found { entries, ended }))
            }
            _ => Err(garbage("an answer to no search")),
        }
    }

    fn about(&self, input: &[u8]) -> Option<u32> {
        message::id(input)
    }
}
