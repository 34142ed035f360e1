//! RADIUS (RFC 2865), whose server verifies digests by itself (RFC 5090, or the draft before
//! it).
//!
//! A server sees the digest and says yes or no; no secret of a user comes here. Every
//! request has a Message-Authenticator and no answer is believed without one, for a
//! Response Authenticator alone can be forged by who sits between (Blast-RADIUS,
//! CVE-2024-3596). What does not verify is ignored and counted, and the request goes on
//! waiting: who can send datagrams but lacks the secret can neither let in nor lock out.

mod digest;
mod packet;
mod port;
mod retry;

use std::cell::{Cell, RefCell};
use std::future::pending;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use sip_auth::{Algorithm, DigestRequest, Secrets, Subject};
use sip_lookup::{BatchAnswer, BatchFailure, Rows};
use tokio::sync::{Mutex, Semaphore};
use tokio::time::{Instant, timeout};

use self::digest::{Asked, Format};
use self::packet::{Request, SharedSecret, Verdict};
use self::port::{IDENTIFIERS, OpenPort, Seat, Tally};
use self::retry::Retry;
use crate::resolver::Resolver;
use crate::url::{Host, Url};
use crate::{Capabilities, Changed, Error, Layout, Options, Secret, Tls};

/// The most sockets, so that a wrong setting does not take all descriptors.
const PORTS_MAX: usize = 64;

/// Shorter secrets can be found by trying (RFC 2865 3: "at least 16 octets").
const SECRET_LEN_MIN: usize = 16;

/// How often the log says that answers do not verify, in seconds.
const WARN_EVERY_S: u64 = 60;

/// A RADIUS server.
pub(crate) struct Client {
    server: Resolver,
    secret: Rc<SharedSecret>,
    nas_identifier: String,
    format: Format,
    retransmit_ms: u64,
    /// Whether a user has no other name in the server's answer than he was asked for by.
    is_exact: bool,
    connect_timeout: Duration,
    capabilities: Capabilities,
    ports: RefCell<Vec<Rc<OpenPort>>>,
    /// Where the last socket led that was of no use.
    failed: Cell<Option<SocketAddr>>,
    /// Held by who opens a socket, so that one opens what many wait for.
    opening: Mutex<()>,
    /// As many as there are identifiers on all sockets together.
    turns: Semaphore,
    tally: Rc<Tally>,
    warned: Cell<Option<Instant>>,
}

impl Client {
    pub(crate) fn new(url: Url, options: Options) -> Result<Self, Error> {
        let Host::Name(host) = url.host else {
            return Err(Error::new(
                "a RADIUS server is reached by UDP and not by a socket of this machine",
                "name its host",
            ));
        };
        if options.tls == Tls::Always {
            return Err(Error::new(
                "RADIUS over UDP has no TLS",
                "leave tls out; where others can read the traffic, use IPsec or WireGuard",
            ));
        }
        if options.layout != Layout::Signet {
            return Err(Error::new(
                "a RADIUS server knows by itself how users are kept",
                "take away layout",
            ));
        }
        if url.user.is_some() || !url.path.is_empty() {
            return Err(Error::new(
                "the URL of a RADIUS server has a user or a path",
                "write it as radius://host:1812",
            ));
        }
        let secret = shared_secret(options.password, &host)?;
        let mut nas_identifier = "signet".to_owned();
        let mut format = Format::default();
        let mut retransmit_ms = 1_000;
        let mut is_exact = false;
        for (name, value) in url.query {
            match name.as_str() {
                "nas_identifier" if (1..=packet::VALUE_MAX).contains(&value.len()) => {
                    nas_identifier = value;
                }
                "digest" if value == "rfc5090" => format = Format::Rfc5090,
                "digest" if value == "sterman" => format = Format::Sterman,
                "user_name" if value == "exact" => is_exact = true,
                "retransmit_ms" if matches!(value.parse(), Ok(50_u64..=10_000)) => {
                    retransmit_ms = value.parse().unwrap_or(retransmit_ms);
                }
                _ => {
                    return Err(Error::new(
                        format!("the URL of a RADIUS server says {name}={value}"),
                        "it takes digest=rfc5090 or sterman, nas_identifier=TEXT, \
                         retransmit_ms=50 to 10000 and user_name=exact",
                    ));
                }
            }
        }
        let ports_max = options.connections_max.clamp(1, PORTS_MAX);
        Ok(Self {
            server: Resolver::new(&host, url.port),
            secret: Rc::new(secret),
            nas_identifier,
            format,
            retransmit_ms,
            is_exact,
            connect_timeout: Duration::from_millis(options.connect_timeout_ms),
            capabilities: Capabilities {
                algorithms: options.algorithms.unwrap_or_else(|| vec![Algorithm::Md5]),
                verifies: true,
                tells_unknown_users: false,
                is_writable: false,
                announces_changes: false,
                batch_max: 1,
                in_flight_max: ports_max * IDENTIFIERS,
            },
            ports: RefCell::default(),
            failed: Cell::new(None),
            opening: Mutex::new(()),
            turns: Semaphore::new(ports_max * IDENTIFIERS),
            tally: Rc::default(),
            warned: Cell::new(None),
        })
    }

    pub(crate) fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    pub(crate) async fn ask(&self, rows: &Rows) -> Result<BatchAnswer, BatchFailure> {
        match rows {
            Rows::Verify(digest) => self.verify(digest).await.map(BatchAnswer::Verified),
            Rows::Secrets(_) => Err(BatchFailure::Refused(
                "a RADIUS server verifies digests and gives no secrets".to_owned(),
            )),
        }
    }

    pub(crate) fn traffic(&self) -> (u64, u64) {
        self.tally.traffic.so_far()
    }

    pub(crate) fn ignored_answers(&self) -> u64 {
        self.tally.ignored.get()
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

    /// Whether the server says that a digest is right.
    async fn verify(&self, digest: &DigestRequest) -> Result<bool, BatchFailure> {
        let _turn = self
            .turns
            .acquire()
            .await
            .map_err(|error| BatchFailure::Unreachable(error.to_string()))?;
        let mut authenticator = [0; 16];
        getrandom::fill(&mut authenticator)
            .map_err(|error| BatchFailure::Unreachable(format!("no random numbers: {error}")))?;
        let mut seat = self.seat(authenticator).await?;
        let asked = Asked::new(digest, self.format);
        let mut request = Request::new(seat.identifier, &authenticator);
        if !asked.write(&self.nas_identifier, &mut request) {
            return invariant::broken!(
                "what was measured before has its place in a packet",
                Err(BatchFailure::Refused("the digest is too long".to_owned()))
            );
        }
        let packet = request.finish(&self.secret);
        let life = Duration::from_millis(retry::LIFE_MAX_MS);
        let verdict = timeout(life, self.exchange(&mut seat, &packet))
            .await
            .unwrap_or(Err(BatchFailure::TimedOut))?;
        match verdict {
            Verdict::Accept { user } => {
                let returned = user.as_deref();
                Ok(asked.is_whole && is_spelt_so(&digest.user, returned, self.is_exact))
            }
            Verdict::Reject => Ok(false),
            Verdict::Challenge => Err(BatchFailure::Refused(
                "the RADIUS server wants nonces of its own: let it accept those of its client \
                 (RFC 5090 2.1.1)"
                    .to_owned(),
            )),
            Verdict::Other(code) => Err(BatchFailure::Refused(format!(
                "the RADIUS server answered with code {code}, which answers no Access-Request"
            ))),
        }
    }

    /// Sends a request until it is answered.
    async fn exchange(&self, seat: &mut Seat, packet: &[u8]) -> Result<Verdict, BatchFailure> {
        let unreachable = |why: String| {
            BatchFailure::Unreachable(format!(
                "the RADIUS server {} cannot be reached: {why}",
                self.server
            ))
        };
        let mut retry = Retry::new(self.retransmit_ms);
        loop {
            seat.send(packet, &self.tally).await.map_err(unreachable)?;
            let random = getrandom::u32().unwrap_or(0);
            let answer = match retry.next(random) {
                Some(pause_ms) => {
                    let pause = Duration::from_millis(pause_ms);
                    match timeout(pause, &mut seat.answer).await {
                        Ok(answer) => answer,
                        Err(_) => {
                            self.warn_of_unbelieved();
                            continue;
                        }
                    }
                }
                None => (&mut seat.answer).await,
            };
            return match answer {
                Ok(answer) => answer.map_err(unreachable),
                Err(_) => Err(unreachable("its socket was closed".to_owned())),
            };
        }
    }

    /// A free identifier on a good socket, a new one if need be.
    async fn seat(&self, authenticator: [u8; 16]) -> Result<Seat, BatchFailure> {
        if let Some(seat) = self.free_seat(authenticator) {
            return Ok(seat);
        }
        let _opening = self.opening.lock().await;
        if let Some(seat) = self.free_seat(authenticator) {
            return Ok(seat);
        }
        let unreachable = |why: String| {
            BatchFailure::Unreachable(format!(
                "the RADIUS server {} cannot be reached: {why}",
                self.server
            ))
        };
        let addresses = timeout(self.connect_timeout, self.server.addresses())
            .await
            .map_err(|_| unreachable("its name was not resolved in time".to_owned()))?
            .map_err(|error| unreachable(error.to_string()))?;
        let server = behind(&addresses, self.failed.get())
            .ok_or_else(|| unreachable("its name has no address".to_owned()))?;
        let open = OpenPort::open(server, Rc::clone(&self.secret), Rc::clone(&self.tally))
            .await
            .map_err(|error| {
                self.failed.set(Some(server));
                unreachable(error.to_string())
            })?;
        let open = Rc::new(open);
        let seat = OpenPort::seat(&open, authenticator);
        self.ports.borrow_mut().push(open);
        seat.ok_or_else(|| {
            invariant::broken!(
                "nobody waits on a new socket",
                unreachable("no identifier is free".to_owned())
            )
        })
    }

    /// A free identifier on a socket that is open. Sockets that are of no use are left to
    /// who waits on them still.
    fn free_seat(&self, authenticator: [u8; 16]) -> Option<Seat> {
        let mut ports = self.ports.borrow_mut();
        ports.retain(|open| {
            if !open.is_good() {
                self.failed.set(Some(open.server));
            }
            open.is_good()
        });
        ports
            .iter()
            .find_map(|open| OpenPort::seat(open, authenticator))
    }

    /// Says, not too often, that answers come and do not verify.
    fn warn_of_unbelieved(&self) {
        let Some(why) = self.tally.unbelieved.take() else {
            return;
        };
        let every = Duration::from_secs(WARN_EVERY_S);
        if self.warned.get().is_some_and(|at| at.elapsed() < every) {
            return;
        }
        self.warned.set(Some(Instant::now()));
        let server = &self.server;
        let ignored = self.tally.ignored.get();
        match why {
            packet::Unbelieved::NoMessageAuthenticator => tracing::warn!(
                "answers of the RADIUS server {server} have no Message-Authenticator and are \
                 not believed ({ignored} ignored so far): update the server, or let it add one \
                 to every answer"
            ),
            packet::Unbelieved::Malformed
            | packet::Unbelieved::Authenticator
            | packet::Unbelieved::MessageAuthenticator => tracing::warn!(
                "answers from {server} do not prove to be the RADIUS server's ({why:?}; \
                 {ignored} ignored so far): is the shared secret the same at both ends?"
            ),
        }
    }
}

/// The shared secret that the operator gave; one that is easily found by trying has a warning.
fn shared_secret(given: Option<Secret>, host: &str) -> Result<SharedSecret, Error> {
    let secret = given.ok_or_else(|| {
        Error::new(
            "the RADIUS server has no shared secret",
            "give it by password_file or password_env",
        )
    })?;
    if secret.expose().is_empty() {
        return Err(Error::new(
            "the shared secret of the RADIUS server is empty",
            "take 16 random characters or more, the same at both ends",
        ));
    }
    if secret.expose().len() < SECRET_LEN_MIN {
        tracing::warn!(
            "the shared secret of the RADIUS server {host} has fewer than {SECRET_LEN_MIN} \
             characters and can be found by trying: take a longer one"
        );
    }
    SharedSecret::new(secret)
}

/// The address behind that to which a socket led that was of no use; the first, where none has.
fn behind(addresses: &[SocketAddr], failed: Option<SocketAddr>) -> Option<SocketAddr> {
    let failed = failed.and_then(|failed| addresses.iter().position(|at| *at == failed));
    let next = failed.map_or(0, |nth| nth + 1);
    addresses.iter().cycle().nth(next).copied()
}

/// Whether a user's name is spelt as it was asked for, as far as the server says it (RFC 2865
/// 5.1). One that compares without regard to case, or to spaces around a name, takes `ALICE` for
/// `alice`; here those are two, with contacts of their own. A name that differs in more is what
/// the server calls him in its accounts, and says nothing of this, unless it `is_exact`.
fn is_spelt_so(asked: &[u8], returned: Option<&[u8]>, is_exact: bool) -> bool {
    let is_his = |returned: &[u8]| {
        let returned = returned.trim_ascii();
        is_exact || returned.eq_ignore_ascii_case(asked.trim_ascii())
    };
    returned.is_none_or(|returned| returned == asked || !is_his(returned))
}

fn read_only() -> Error {
    Error::new(
        "users of a RADIUS server cannot be read or changed from here",
        "change them where the server keeps them",
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::net::UdpSocket;

    use tokio::task::LocalSet;

    use super::*;

    fn client(port: u16) -> Client {
        let options = Options {
            url: format!("radius://radius.example.com:{port}"),
            password: Some(Secret::new(b"0123456789abcdef".to_vec())),
            tls: Tls::Never,
            tls_roots: None,
            layout: Layout::Signet,
            algorithms: None,
            wanted: None,
            connections_max: 1,
            connect_timeout_ms: 1_000,
        };
        Client::new(Url::parse(&options.url).unwrap(), options).unwrap()
    }

    #[test]
    fn behind_an_address_where_nobody_is_the_next_one_is_tried() {
        let there = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = there.local_addr().unwrap().port();
        let mut client = client(port);
        let at = |last: u8, port| SocketAddr::from(([127, 0, 0, last], port));
        client.server = Resolver::by("radius.example.com", port, |_, port| {
            Ok(vec![
                ([127, 0, 0, 2], port).into(),
                ([127, 0, 0, 1], port).into(),
            ])
        });
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().unwrap();
        LocalSet::new().block_on(&runtime, async {
            let leads_to = || client.ports.borrow().last().map(|open| open.server);
            let mut seat = client.seat([0; 16]).await.unwrap();
            assert_eq!(leads_to(), Some(at(2, port)));
            // The kernel says that nobody is there, in answer to this or to the next.
            let _ = seat.send(b"a request", &client.tally).await;
            let answer = timeout(Duration::from_secs(10), &mut seat.answer).await;
            assert!(answer.unwrap().is_ok_and(|answer| answer.is_err()));
            let _seat = client.seat([0; 16]).await.unwrap();
            assert_eq!(leads_to(), Some(at(1, port)));
        });
    }

    #[test]
    fn addresses_are_tried_in_turn() {
        let at = |last: u8| SocketAddr::from(([192, 0, 2, last], 1_812));
        let both = [at(1), at(2)];
        assert_eq!(behind(&both, None), Some(at(1)));
        assert_eq!(behind(&both, Some(at(1))), Some(at(2)));
        assert_eq!(behind(&both, Some(at(2))), Some(at(1)));
        assert_eq!(behind(&both, Some(at(3))), Some(at(1)), "it has moved");
        assert_eq!(behind(&[], Some(at(1))), None);
    }
}
