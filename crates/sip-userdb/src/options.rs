//! What an operator says about a store.

use std::path::PathBuf;

use sip_auth::Algorithm;

/// What an operator says about a store, beside its URL.
#[derive(Clone, Debug)]
pub struct Options {
    /// `scheme://[user@]host[:port]/...`: `mysql`, `mariadb`, `postgresql`, `redis`, `ldap`,
    /// `radius`, `http`. Without a password.
    pub url: String,
    /// The password or shared secret.
    pub password: Option<Secret>,
    /// Whether the connection is encrypted.
    pub tls: Tls,
    /// PEM file with the authorities that certify the store; without one, the system's.
    pub tls_roots: Option<PathBuf>,
    /// How users are kept there.
    pub layout: Layout,
    /// The algorithms of the HA1s that are kept there, where the layout does not tell.
    pub algorithms: Option<Vec<Algorithm>>,
    /// The algorithms that are wanted of those; all if left out. A statement of ours for SQL
    /// asks for no others: three HA1s are two thirds of what a row takes on the way.
    pub wanted: Option<Vec<Algorithm>>,
    /// The most connections at once.
    pub connections_max: usize,
    /// How long a connection may take to be made, log-in included.
    pub connect_timeout_ms: u64,
}

/// When the connection to a store is encrypted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tls {
    /// Everywhere but to this machine itself.
    #[default]
    Auto,
    /// Always, and the store's name is verified.
    Always,
    /// Never.
    Never,
}

/// How users are kept in a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Signet's own: `signet_users` with the HA1 of each algorithm.
    Signet,
    /// The table `subscriber` of Kamailio and OpenSIPS: MD5 only.
    Subscriber {
        /// The name of the table.
        table: String,
        /// Whether phones give `user@domain` as their user name, so that `ha1b` counts.
        user_with_domain: bool,
    },
    /// A statement of the operator's own; what it may say is the driver's matter.
    Query(String),
}

impl Layout {
    /// Whether a user is asked for as `user@realm`, the name that phones give.
    pub fn names_have_realms(&self) -> bool {
        matches!(
            self,
            Self::Subscriber {
                user_with_domain: true,
                ..
            }
        )
    }
}

/// A secret of the operator's, never printed and wiped when dropped.
#[derive(Clone)]
pub struct Secret(zeroize::Zeroizing<Vec<u8>>);

impl Secret {
    /// Takes a secret.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(zeroize::Zeroizing::new(bytes))
    }

    /// The secret itself, to be sent to its store and nowhere else.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(***)")
    }
}
