//! URLs of stores.

use crate::Error;

/// Which protocol a store speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    Mysql,
    Postgres,
    Redis,
    Ldap,
    Radius,
    Http,
}

/// A URL, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    pub(crate) scheme: Scheme,
    /// Whether the scheme itself says TLS (`rediss`, `ldaps`, `https`, `mysqls`, `postgresqls`).
    pub(crate) is_tls: bool,
    pub(crate) user: Option<String>,
    /// A name or an address, an IPv6 address without its brackets; or the path of a socket
    /// (`?socket=/path`).
    pub(crate) host: Host,
    pub(crate) port: u16,
    /// What follows the first slash, percent-decoded: a database, a base DN, a path.
    pub(crate) path: String,
    /// What follows the question mark, decoded, in order.
    pub(crate) query: Vec<(String, String)>,
}

/// Where a store listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Host {
    /// A name or an address.
    Name(String),
    /// The path of a socket on this machine.
    Socket(std::path::PathBuf),
}

/// Says what is wrong with the URL of a store.
pub fn check(text: &str) -> Result<(), Error> {
    Url::parse(text).map(drop)
}

/// What the store of a URL is called where nobody should read more: its scheme, as written, and
/// where it is, with the port in any case; or the path of its socket.
///
/// # Errors
/// As of [`check`].
pub fn name(text: &str) -> Result<String, Error> {
    let place = crate::names::place(&Url::parse(text)?);
    let scheme = text.split(':').next().unwrap_or_default();
    Ok(format!("{}://{place}", scheme.to_ascii_lowercase()))
}

impl Url {
    /// Reads a URL; an error says what is wrong with it, and never repeats a password.
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        let read = ::url::Url::parse(text).map_err(|error| {
            Error::new(
                format!("the URL of a store cannot be read ({error})"),
                "write it as mysql://user@db.example.com/signet",
            )
        })?;
        let (scheme, is_tls, port) = match read.scheme() {
            "mysql" | "mariadb" => (Scheme::Mysql, false, 3306),
            "mysqls" | "mariadbs" => (Scheme::Mysql, true, 3306),
            "postgresql" | "postgres" => (Scheme::Postgres, false, 5432),
            "postgresqls" => (Scheme::Postgres, true, 5432),
            "redis" | "valkey" => (Scheme::Redis, false, 6379),
            "rediss" | "valkeys" => (Scheme::Redis, true, 6379),
            "ldap" => (Scheme::Ldap, false, 389),
            "ldaps" => (Scheme::Ldap, true, 636),
            "radius" => (Scheme::Radius, false, 1812),
            "http" => (Scheme::Http, false, 80),
            "https" => (Scheme::Http, true, 443),
            other => {
                return Err(Error::new(
                    format!("there is no kind of store called {other}"),
                    "take sqlite, mysql, postgresql, redis, ldap, radius or https",
                ));
            }
        };
        if read.password().is_some() {
            return Err(Error::new(
                "the URL of a store has a password in it",
                "give it by password_file or password_env, where it is not shown or logged",
            ));
        }
        let decode = |text: &str| {
            percent_encoding::percent_decode_str(text)
                .decode_utf8()
                .map(std::borrow::Cow::into_owned)
                .map_err(|_| {
                    Error::new(
                        "the URL of a store has bytes in it that are not UTF-8",
                        "write it in UTF-8",
                    )
                })
        };
        let query: Vec<(String, String)> = read
            .query_pairs()
            .map(|(name, value)| (name.into_owned(), value.into_owned()))
            .collect();
        let socket = query.iter().find(|(name, _)| name == "socket");
        let host = match (socket, read.host_str()) {
            (Some((_, path)), _) => Host::Socket(path.into()),
            (None, Some(host)) if !host.is_empty() => {
                Host::Name(host.trim_matches(['[', ']']).to_owned())
            }
            (None, _) => {
                return Err(Error::new(
                    "the URL of a store names no host",
                    "write it as mysql://user@db.example.com/signet",
                ));
            }
        };
        let user = match read.username() {
            "" => None,
            user => Some(decode(user)?),
        };
        Ok(Self {
            scheme,
            is_tls,
            user,
            host,
            port: read.port().unwrap_or(port),
            path: decode(read.path().trim_start_matches('/'))?,
            query,
        })
    }
}
