//! What is asked of a server in one run: several loads at once.

use serde::{Deserialize, Serialize};

use crate::demand::{Key, Transport};
use crate::event::{Event, Rates};
use crate::rates::{full, leg, register};

/// Several loads at once, and how the server proves who sends them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mixture {
    /// What it is called; runs with the same name are repeats.
    pub name: String,
    /// How callers prove who they are.
    pub users: PasswordStore,
    /// Round trip to the database, in milliseconds; above 0 there is a relay.
    pub rtt_ms: u64,
    /// The loads.
    pub streams: Vec<Stream>,
}

/// Where the server looks passwords up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PasswordStore {
    /// Nobody is asked.
    #[default]
    None,
    /// In its own store.
    Own,
    /// In MariaDB.
    Database,
    /// In MariaDB behind the server's cache.
    Cache,
}

impl PasswordStore {
    /// Whether there is a database.
    pub const fn has_database(self) -> bool {
        matches!(self, Self::Database | Self::Cache)
    }
}

/// One load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stream {
    /// What it does.
    pub flow: Flow,
    /// From its callers to the server.
    pub transport: Transport,
    /// How often, a second.
    pub per_s: f64,
    /// Whether each request comes without credentials first.
    pub is_challenged: bool,
    /// The connections of callers.
    pub connection: Connection,
}

/// What a load does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Flow {
    /// Calls to a gateway over this transport.
    Calls(Transport),
    /// Calls between registered users.
    Local,
    /// Registrations that are renewed.
    Registrations,
}

/// The connections of a load over TCP or TLS.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Connection {
    /// One carries all.
    Kept,
    /// Each call has its own, over TLS with a handshake.
    PerCall {
        /// The key of the server's certificate.
        key: Key,
        /// The share of handshakes that resume a session.
        resumed: f64,
        /// Whether the client shows a certificate.
        is_mutual: bool,
    },
}

impl Stream {
    /// Over connections that are there, with credentials as soon as there is a nonce.
    pub const fn new(flow: Flow, transport: Transport, per_s: f64) -> Self {
        Self {
            flow,
            transport,
            per_s,
            is_challenged: false,
            connection: Connection::Kept,
        }
    }

    /// Calls to a gateway over UDP, each over a connection of its own.
    pub const fn per_call(transport: Transport, per_s: f64, key: Key, resumed: f64) -> Self {
        Self {
            connection: Connection::PerCall {
                key,
                resumed,
                is_mutual: false,
            },
            ..Self::new(Flow::Calls(Transport::Udp), transport, per_s)
        }
    }

    /// The same load, each request without credentials first.
    #[must_use]
    pub const fn challenged(self) -> Self {
        Self {
            is_challenged: true,
            ..self
        }
    }

    /// What happens in a server by it, where it comes so often a second.
    pub fn rates(&self, users: PasswordStore, per_s: f64) -> Rates {
        let mut rates = Rates::default();
        let challenge = match self.flow {
            Flow::Calls(onward) => {
                rates.add(leg(self.transport), per_s);
                rates.add(leg(onward), per_s);
                Event::ChallengeCall
            }
            Flow::Local => {
                rates.add(leg(self.transport), 2.0 * per_s);
                rates.add(Event::Local, per_s);
                Event::ChallengeCall
            }
            Flow::Registrations => {
                rates.add(register(self.transport), per_s);
                Event::ChallengeRegister
            }
        };
        self.connections(&mut rates, per_s);
        match users {
            PasswordStore::None => return rates,
            PasswordStore::Own => rates.add(Event::VerifyOwn, per_s),
            PasswordStore::Database => rates.add(Event::VerifyRemote, per_s),
            PasswordStore::Cache => rates.add(Event::VerifyCached, per_s),
        }
        if self.is_challenged {
            rates.add(challenge, per_s);
        }
        rates
    }

    fn connections(&self, rates: &mut Rates, per_s: f64) {
        let Connection::PerCall {
            key,
            resumed,
            is_mutual,
        } = self.connection
        else {
            return;
        };
        match self.transport {
            Transport::Udp => {}
            Transport::Tcp => rates.add(Event::ConnectTcp, per_s),
            Transport::Tls => {
                let full_per_s = per_s * (1.0 - resumed);
                rates.add(full(key), full_per_s);
                rates.add(Event::Resumed, per_s * resumed);
                if is_mutual {
                    rates.add(Event::Mutual, full_per_s);
                }
            }
        }
    }
}

impl Mixture {
    /// What happens in a server by all of it, as often as it is asked for.
    pub fn rates(&self) -> Rates {
        let mut rates = Rates::default();
        for stream in &self.streams {
            rates.add_all(&stream.rates(self.users, stream.per_s));
        }
        rates
    }

    /// The same with each load so many times as often.
    #[must_use]
    pub fn scaled(mut self, factor: f64) -> Self {
        for stream in &mut self.streams {
            stream.per_s *= factor;
        }
        self
    }

    /// Whether anybody calls a gateway.
    pub fn has_gateway(&self) -> bool {
        self.streams
            .iter()
            .any(|stream| matches!(stream.flow, Flow::Calls(_)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_what_it_does() {
        let calls = Stream::per_call(Transport::Tls, 100.0, Key::Rsa2048, 0.25);
        let mixture = Mixture {
            users: PasswordStore::Own,
            streams: vec![
                calls.challenged(),
                Stream::new(Flow::Registrations, Transport::Tcp, 50.0),
            ],
            ..Mixture::default()
        };
        let rates = mixture.clone().scaled(2.0).rates();
        for (event, per_s) in [
            (Event::LegTls, 200.0),
            (Event::LegUdp, 200.0),
            (Event::FullRsa2048, 150.0),
            (Event::Resumed, 50.0),
            (Event::ChallengeCall, 200.0),
            (Event::RegisterTcp, 100.0),
            (Event::VerifyOwn, 300.0),
            (Event::ChallengeRegister, 0.0),
            (Event::Mutual, 0.0),
        ] {
            assert_eq!(rates.get(event), per_s, "{event:?}");
        }
        assert!(mixture.has_gateway());
    }

    #[test]
    fn a_mixture_is_written_and_read() {
        let mixture = Mixture {
            name: "it".to_owned(),
            streams: vec![
                Stream::per_call(Transport::Tls, 1.0, Key::P256, 0.5),
                Stream::new(Flow::Local, Transport::Udp, 2.0),
            ],
            ..Mixture::default()
        };
        let text = serde_json::to_string(&mixture).unwrap();
        assert_eq!(serde_json::from_str::<Mixture>(&text).unwrap(), mixture);
    }
}
