//! An endpoint of the operator's: one POST of JSON asks for many users.
//!
//! HTTP/1.1 answers one request at a time on a connection, so several connections are kept,
//! and as many requests are under way.

mod exchange;

use std::cell::RefCell;
use std::future::pending;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Bytes, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue, USER_AGENT};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use sip_auth::{Algorithm, Secrets, Subject};
use sip_lookup::{BatchAnswer, BatchFailure, Rows};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use zeroize::Zeroizing;

use crate::net::Connector;
use crate::url::{Host, Url};
use crate::{Capabilities, Changed, Error, Layout, Options, Secret, names};

/// Users in one request.
const BATCH_MAX: usize = 500;

/// The most connections, so that a wrong setting does not take all descriptors.
const CONNECTIONS_MAX: usize = 64;

/// The head of an answer, in bytes at most.
const HEAD_MAX: usize = 16 << 10;

/// The body of an answer has at most this many bytes, and so many more for each user.
const BODY_MAX: usize = 64 << 10;
const BODY_MAX_PER_USER: usize = 2 << 10;

/// An endpoint.
pub(crate) struct Client {
    connector: Connector,
    name: String,
    /// The path and query to ask, as they are sent.
    target: String,
    host: HeaderValue,
    authorization: Option<HeaderValue>,
    capabilities: Capabilities,
    /// As many as there may be connections.
    turns: Semaphore,
    idle: RefCell<Vec<Connection>>,
}

/// A connection that nobody is asking on. Dropping it closes it.
struct Connection {
    sender: SendRequest<Full<Bytes>>,
    driver: JoinHandle<()>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Client {
    pub(crate) fn new(url: Url, options: Options) -> Result<Self, Error> {
        let connector = Connector::new(&url, &options)?;
        if connector.wants_tls() && !url.is_tls {
            return Err(Error::new(
                "the URL of the endpoint is http, which would show HA1s to the network",
                "write https://, or tls = \"never\" where the way is protected otherwise",
            ));
        }
        if options.layout != Layout::Signet {
            return Err(Error::new(
                "the endpoint knows by itself how users are kept",
                "take away layout",
            ));
        }
        let unusable = |what: &str| {
            Error::new(
                format!("the URL of the endpoint cannot be used: {what}"),
                "write it as https://host/path",
            )
        };
        // As it was written, escapes and all: the endpoint's matter.
        let written = ::url::Url::parse(&options.url).map_err(|e| unusable(&e.to_string()))?;
        let target = match written.query() {
            Some(query) => format!("{}?{query}", written.path()),
            None => written.path().to_owned(),
        };
        let authority = match (&url.host, written.port()) {
            (Host::Name(_), Some(port)) => {
                format!("{}:{port}", written.host_str().unwrap_or_default())
            }
            (Host::Name(_), None) => written.host_str().unwrap_or_default().to_owned(),
            (Host::Socket(_), _) => "localhost".to_owned(),
        };
        let host = HeaderValue::from_str(&authority).map_err(|e| unusable(&e.to_string()))?;
        let authorization = authorization(url.user.as_deref(), options.password.as_ref())?;
        let connections_max = options.connections_max.clamp(1, CONNECTIONS_MAX);
        Ok(Self {
            connector,
            name: names::place(&url),
            target,
            host,
            authorization,
            capabilities: Capabilities {
                algorithms: options
                    .algorithms
                    .unwrap_or_else(|| Algorithm::ALL.to_vec()),
                verifies: false,
                tells_unknown_users: true,
                is_writable: false,
                announces_changes: false,
                batch_max: BATCH_MAX,
                in_flight_max: connections_max,
            },
            turns: Semaphore::new(connections_max),
            idle: RefCell::default(),
        })
    }

    pub(crate) fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    pub(crate) async fn ask(&self, rows: &Rows) -> Result<BatchAnswer, BatchFailure> {
        let Rows::Secrets(subjects) = rows else {
            return Err(BatchFailure::Refused(
                "an endpoint gives secrets and verifies no digests".to_owned(),
            ));
        };
        if subjects.is_empty() {
            return Ok(BatchAnswer::Rows(Vec::new()));
        }
        let _turn = self
            .turns
            .acquire()
            .await
            .map_err(|error| BatchFailure::Unreachable(error.to_string()))?;
        let body = Bytes::from(exchange::write(subjects));
        let body_max = BODY_MAX + BODY_MAX_PER_USER * subjects.len();
        let answer = timeout(self.connector.timeout(), self.post(body, body_max))
            .await
            .unwrap_or(Err(BatchFailure::TimedOut))?;
        exchange::read(subjects, &answer)
            .map(BatchAnswer::Rows)
            .map_err(|why| self.refused(&why))
    }

    pub(crate) fn traffic(&self) -> (u64, u64) {
        self.connector.traffic().so_far()
    }

    #[allow(clippy::unused_async, reason = "the shape that all have")]
    pub(crate) async fn domains(&self) -> Result<Option<Vec<String>>, Error> {
        Ok(None)
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

    /// Asks over a connection that was kept, or over a new one; the body of the answer.
    async fn post(&self, body: Bytes, body_max: usize) -> Result<Zeroizing<Vec<u8>>, BatchFailure> {
        if let Some(mut kept) = self.kept() {
            match kept.sender.send_request(self.request(&body)?).await {
                Ok(response) => return self.read(kept, response, body_max).await,
                // It was closed while nobody asked. The question changes nothing there, so
                // it may be asked again.
                Err(error) => tracing::debug!("a connection to {} ended: {error}", self.name),
            }
        }
        let mut new = self.connect().await?;
        let response = new
            .sender
            .send_request(self.request(&body)?)
            .await
            .map_err(|error| self.unreachable(&error))?;
        self.read(new, response, body_max).await
    }

    /// A connection that was used before and is ready.
    fn kept(&self) -> Option<Connection> {
        let mut idle = self.idle.borrow_mut();
        while let Some(connection) = idle.pop() {
            if connection.sender.is_ready() {
                return Some(connection);
            }
        }
        None
    }

    async fn connect(&self) -> Result<Connection, BatchFailure> {
        let stream = self
            .connector
            .connect()
            .await
            .map_err(|error| self.unreachable(&error))?;
        let (sender, connection) = http1::Builder::new()
            .max_buf_size(HEAD_MAX)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| self.unreachable(&error))?;
        let driver = tokio::task::spawn_local(async move {
            // Why it ended is told to who asks on it.
            let _ = connection.await;
        });
        Ok(Connection { sender, driver })
    }

    fn request(&self, body: &Bytes) -> Result<Request<Full<Bytes>>, BatchFailure> {
        let mut request = Request::post(&self.target)
            .header(HOST, &self.host)
            .header(USER_AGENT, "signet")
            .header(ACCEPT, "application/json")
            .header(CONTENT_TYPE, "application/json");
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        request
            .body(Full::new(body.clone()))
            .map_err(|error| self.refused(&format!("no request of its path ({error})")))
    }

    /// Checks an answer and reads its body; the connection is kept.
    async fn read(
        &self,
        mut connection: Connection,
        response: Response<Incoming>,
        body_max: usize,
    ) -> Result<Zeroizing<Vec<u8>>, BatchFailure> {
        let status = response.status();
        match status {
            StatusCode::OK => {}
            StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT => {
                return Err(BatchFailure::Unreachable(format!(
                    "the endpoint {} answered {status}",
                    self.name
                )));
            }
            _ => return Err(self.refused(&format!("with {status}"))),
        }
        let is_json = response.headers().get(CONTENT_TYPE).is_some_and(|value| {
            let essence = value.as_bytes().split(|&byte| byte == b';').next();
            essence.is_some_and(|essence| {
                essence
                    .trim_ascii()
                    .eq_ignore_ascii_case(b"application/json")
            })
        });
        if !is_json {
            return Err(self.refused("with something else than application/json"));
        }
        let mut body = response.into_body();
        let claimed = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
        if claimed > body_max {
            return Err(self.refused("with more than it was asked for"));
        }
        let mut bytes = Zeroizing::new(Vec::with_capacity(body_max));
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| self.unreachable(&error))?;
            if let Some(data) = frame.data_ref() {
                if bytes.len() + data.len() > body_max {
                    return Err(self.refused("with more than it was asked for"));
                }
                bytes.extend_from_slice(data);
            }
        }
        if connection.sender.ready().await.is_ok() {
            self.idle.borrow_mut().push(connection);
        }
        Ok(bytes)
    }

    fn unreachable(&self, error: &dyn std::error::Error) -> BatchFailure {
        BatchFailure::Unreachable(format!(
            "the endpoint {} cannot be reached: {error}",
            self.name
        ))
    }

    fn refused(&self, what: &str) -> BatchFailure {
        BatchFailure::Refused(format!("the endpoint {} answered {what}", self.name))
    }
}

/// The header that says who asks: a token (RFC 6750), or a name and a password (RFC 7617)
/// where the URL has a name.
fn authorization(
    user: Option<&str>,
    password: Option<&Secret>,
) -> Result<Option<HeaderValue>, Error> {
    let unusable = |what: &str| {
        Error::new(
            format!("the endpoint cannot be logged in to: {what}"),
            "give a token by password_file or password_env, and a user in the URL only if it is \
             a password",
        )
    };
    let mut text = Zeroizing::new(Vec::with_capacity(4096));
    match (user, password) {
        (None, None) => return Ok(None),
        (Some(_), None) => return Err(unusable("its URL has a user, and there is no password")),
        (None, Some(token)) => {
            text.extend_from_slice(b"Bearer ");
            text.extend_from_slice(token.expose());
        }
        (Some(user), Some(_)) if user.contains(':') => {
            return Err(unusable("its user has a colon"));
        }
        (Some(user), Some(password)) => {
            let pair = Zeroizing::new([user.as_bytes(), b":", password.expose()].concat());
            text.extend_from_slice(b"Basic ");
            let encoded = Zeroizing::new(STANDARD.encode(&*pair));
            text.extend_from_slice(encoded.as_bytes());
        }
    }
    let mut header = HeaderValue::from_bytes(&text)
        .map_err(|_| unusable("the token has bytes that no header can have"))?;
    header.set_sensitive(true);
    Ok(Some(header))
}

fn read_only() -> Error {
    Error::new(
        "users are not changed or listed through the endpoint",
        "change them where it has them from",
    )
}
