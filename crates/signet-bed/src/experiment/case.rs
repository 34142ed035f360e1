//! A case: how servers and load are set for one set of figures.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What is measured of each server: one place of an experiment's axes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Unique in its experiment; letters, digits, `-` and `.`, since it names files.
    pub id: String,
    /// Where it stands on each axis: `mode = "outbound"`, `transport = "tls"`.
    pub labels: BTreeMap<String, String>,
    /// How servers and load are set.
    pub setting: Setting,
    /// What is measured, one after the other.
    pub loads: Vec<Load>,
    /// Shares of its peak that it is held at once that is found (`[cross_check]`).
    #[serde(default)]
    pub below: Vec<f64>,
}

/// How servers and load are set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Setting {
    /// What the server does.
    pub role: Role,
    /// What the load does.
    pub flow: Flow,
    /// What both legs go over.
    pub transport: Transport,
    /// From the callers to the server.
    pub caller_connection: Connection,
    /// From the server to the called side.
    pub called_connection: Connection,
    /// TLS, where the transport has it.
    pub security: Security,
    /// Whether requests are authenticated, and where the users are.
    pub authentication: Authentication,
    /// The users that call, are called, or register.
    pub agents: Agents,
    /// How long a call lasts, in milliseconds.
    pub hold_ms: u64,
    /// Round trip to the database, in milliseconds; 0 for none.
    pub database_rtt_ms: u64,
    /// Workers, threads or processes that the server may have.
    pub workers: Option<u32>,
    /// The share of its core that the server may take ([`crate::record::Repeat::server_share`]);
    /// all of it if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_share: Option<f64>,
    /// Processes that wait for the database and the look-ups that each sends at once
    /// (Dacosta 2009); the server's own way if left out.
    pub lookups: Option<(u32, u32)>,
}

/// What the server under test does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Forwards calls to one next hop.
    #[default]
    Proxy,
    /// Keeps bindings, and forwards calls to them.
    Registrar,
}

/// What the load does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Flow {
    /// INVITE to BYE.
    #[default]
    Calls,
    /// INVITE to BYE between agents who have registered, each reached where he registered.
    CallsToRegistered,
    /// REGISTER, a different user each time.
    Registrations,
}

/// What SIP goes over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// UDP.
    #[default]
    Udp,
    /// TCP.
    Tcp,
    /// TLS over TCP.
    Tls,
}

/// How long connections of one side live.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Connection {
    /// One carries all calls.
    #[default]
    One,
    /// Each call has its own.
    PerCall,
    /// Each agent has his own.
    PerAgent,
}

/// How TLS is set, on both legs alike.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Security {
    /// Version and suite.
    pub suite: Suite,
    /// Key-exchange group by its registered name; the server's choice if left out.
    pub group: Option<String>,
    /// Key of the certificates: `rsa2048` or `p256`.
    pub key: Option<String>,
    /// Whether new connections resume an earlier session.
    pub resumption: Resumption,
    /// Whether clients show certificates.
    pub mutual: bool,
}

/// Version and suite.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Suite {
    /// TLS 1.3.
    #[default]
    Tls13,
    /// TLS 1.2 with ECDHE and AES-GCM.
    Tls12,
    /// TLS_RSA_WITH_AES_128_CBC_SHA (RFC 3261 26.2.1), in a build that has it.
    RsaAes,
    /// TLS_RSA_WITH_3DES_EDE_CBC_SHA (RFC 3261 26.2.1), in a build that has it.
    RsaTripleDes,
}

/// Whether new connections resume an earlier session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Resumption {
    /// Each handshake is a full one.
    #[default]
    None,
    /// By tickets, or by what the version has in their place.
    Tickets,
    /// By session identifiers (TLS 1.2 and before).
    Ids,
}

/// Whether requests are authenticated, and where the users are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Authentication {
    /// Nobody is asked.
    #[default]
    None,
    /// Users in the server's own store.
    Own,
    /// Users in MariaDB.
    Mariadb,
}

/// The users that call, are called, or register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Agents {
    /// Those who call or register.
    pub callers: u32,
    /// Those who are called, where these have registered.
    pub called: u32,
    /// Users in the store, at least as many as take part.
    pub users: u32,
}

impl Default for Agents {
    fn default() -> Self {
        Self {
            callers: 1_000,
            called: 1_000,
            users: 10_000,
        }
    }
}

/// What is measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Load {
    /// The largest rate with no more than this share of failures.
    Peak {
        /// From 0 to below 1.
        failures_max: f64,
        /// Where the search begins, calls or registrations a second.
        guess_per_s: f64,
    },
    /// A rate that is held.
    Rate {
        /// Calls or registrations a second.
        per_s: f64,
        /// Whether the CPU time is taken apart by component.
        #[serde(default)]
        profile: bool,
        /// Whether it only lets a peak be expected, and is none of the rates that findings and
        /// drawings are about.
        #[serde(default)]
        for_check: bool,
    },
}

impl Load {
    /// Whether both are peaks, wherever their searches begin, or the same rate.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Peak { .. }, Self::Peak { .. }) => true,
            (Self::Rate { per_s: a, .. }, Self::Rate { per_s: b, .. }) => a == b,
            (Self::Peak { .. }, Self::Rate { .. }) | (Self::Rate { .. }, Self::Peak { .. }) => {
                false
            }
        }
    }
}
