//! An endpoint of the operator's that takes JSON by POST over HTTP/1.1 and answers with JSON.
//!
//! HTTP/1.1 answers one request at a time on a connection, so several connections are kept, and as
//! many requests are under way. No redirect is followed: what is asked goes to the place that the
//! operator wrote down, or nowhere.

use std::cell::RefCell;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Bytes, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue, USER_AGENT};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use sip_lookup::BatchFailure;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use zeroize::Zeroizing;

use crate::fault::Unanswered;
use crate::net::Connector;
use crate::url::{Host, Scheme, Url};
use crate::{Error, Options, Secret, names};

/// The most connections, so that a wrong setting does not take all descriptors.
const CONNECTIONS_MAX: usize = 64;

/// The head of an answer, in bytes at most.
const HEAD_MAX: usize = 16 << 10;

/// An endpoint. It lives in one thread, on tokio's current-thread runtime within a `LocalSet`.
pub struct Endpoint {
    connector: Connector,
    name: String,
    /// The path and query to ask, as they are sent.
    target: String,
    host: HeaderValue,
    authorization: Option<HeaderValue>,
    connections_max: usize,
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

impl Endpoint {
    /// Takes the configuration; of the options, those that are of a store of users do not count.
    /// Nothing is connected yet.
    pub fn new(options: &Options) -> Result<Self, Error> {
        let url = Url::parse(&options.url)?;
        Self::at(&url, options)
    }

    pub(super) fn at(url: &Url, options: &Options) -> Result<Self, Error> {
        if url.scheme != Scheme::Http {
            return Err(Error::new(
                "the URL of the endpoint is neither https nor http",
                "write it as https://host/path",
            ));
        }
        let connector = Connector::new(url, options)?;
        if connector.wants_tls() && !url.is_tls {
            return Err(Error::new(
                "the URL of the endpoint is http, which would show to the network what is asked and answered",
                "write https://, or tls = \"never\" where the way is protected otherwise",
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
            name: names::place(url),
            target,
            host,
            authorization,
            connections_max,
            turns: Semaphore::new(connections_max),
            idle: RefCell::default(),
        })
    }

    /// How many requests may be under way.
    pub fn in_flight_max(&self) -> usize {
        self.connections_max
    }

    /// The bytes sent and received so far.
    pub fn traffic(&self) -> (u64, u64) {
        self.connector.traffic().so_far()
    }

    /// Posts a body; the body of the answer, of at most `body_max` bytes. Dropping the future
    /// gives the request up, and closes its connection.
    pub async fn post(
        &self,
        body: Vec<u8>,
        body_max: usize,
    ) -> Result<Zeroizing<Vec<u8>>, BatchFailure> {
        let answer = self.try_post(body, body_max).await;
        answer.map_err(|unanswered| unanswered.failure)
    }

    /// The same, and whether the endpoint has ended the connection over the request.
    pub(super) async fn try_post(
        &self,
        body: Vec<u8>,
        body_max: usize,
    ) -> Result<Zeroizing<Vec<u8>>, Unanswered> {
        let _turn = self
            .turns
            .acquire()
            .await
            .map_err(|error| BatchFailure::Unreachable(error.to_string()))?;
        let asked = self.ask(Bytes::from(body), body_max);
        timeout(self.connector.timeout(), asked)
            .await
            .unwrap_or_else(|_| Err(BatchFailure::TimedOut.into()))
    }

    /// What is wrong with an answer.
    pub(super) fn refused(&self, what: &str) -> BatchFailure {
        BatchFailure::Refused(format!("the endpoint {} answered {what}", self.name))
    }

    /// Asks over a connection that was kept, or over a new one; the body of the answer.
    async fn ask(&self, body: Bytes, body_max: usize) -> Result<Zeroizing<Vec<u8>>, Unanswered> {
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
            .map_err(|error| ended(self.unreachable(&error)))?;
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
    ) -> Result<Zeroizing<Vec<u8>>, Unanswered> {
        let status = response.status();
        let told = || format!("the endpoint {} answered with {status}", self.name);
        match status {
            StatusCode::OK => {}
            StatusCode::TOO_MANY_REQUESTS
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT => {
                return Err(BatchFailure::Unreachable(told()).into());
            }
            // A gateway says so where what is behind it has ended the connection, too.
            StatusCode::BAD_GATEWAY => return Err(ended(BatchFailure::Unreachable(told()))),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                return Err(BatchFailure::LogInRefused(told()).into());
            }
            _ => return Err(BatchFailure::Refused(told()).into()),
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
            return Err(self
                .refused("with something else than application/json")
                .into());
        }
        let mut body = response.into_body();
        let claimed = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
        if claimed > body_max {
            return Err(self.refused("with more than it was asked for").into());
        }
        let mut bytes = Zeroizing::new(Vec::with_capacity(body_max));
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| ended(self.unreachable(&error)))?;
            if let Some(data) = frame.data_ref() {
                if bytes.len() + data.len() > body_max {
                    return Err(self.refused("with more than it was asked for").into());
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
}

/// A failure of a connection that was there, and ended before the answer was whole.
fn ended(failure: BatchFailure) -> Unanswered {
    Unanswered {
        failure,
        has_ended: true,
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
