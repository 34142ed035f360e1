//! Where a worker is.

use std::fmt;
use std::str::FromStr;

/// A worker, as it is written on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// It listens there: `HOST:PORT`.
    Port(String),
    /// It is started there by ssh: `ssh:HOST` or `ssh:USER@HOST`.
    Ssh(String),
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let help = || format!("'{text}' is no worker; write HOST:7000, or ssh:HOST");
        let is_host = |host: &str| {
            !host.is_empty()
                && !host.starts_with('-')
                && host
                    .bytes()
                    .all(|b| b.is_ascii_graphic() && !b"/#".contains(&b))
        };
        if let Some(host) = text.strip_prefix("ssh:") {
            return is_host(host)
                .then(|| Self::Ssh(host.to_owned()))
                .ok_or_else(help);
        }
        let (host, port) = text.rsplit_once(':').ok_or_else(help)?;
        let is_port = port.parse::<u16>().is_ok_and(|port| port > 0);
        let is_whole = host.starts_with('[') == host.ends_with(']')
            && (host.starts_with('[') || !host.contains(':'));
        (is_host(host) && is_port && is_whole)
            .then(|| Self::Port(text.to_owned()))
            .ok_or_else(help)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Port(at) => f.write_str(at),
            Self::Ssh(host) => write!(f, "ssh:{host}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_with_ports_and_those_of_ssh() {
        for good in ["host1:7000", "192.0.2.1:7000", "[::1]:7000", "ssh:me@host1"] {
            assert_eq!(good.parse::<Address>().unwrap().to_string(), good);
        }
        // What ssh would take for an option is no host.
        for bad in [
            "",
            "host1",
            "host1:0",
            "::1:7000",
            "ssh:",
            "ssh:-oProxyCommand=x",
            "a b:1",
        ] {
            let error = bad.parse::<Address>().unwrap_err();
            assert!(error.contains("write HOST:7000"), "{error}");
        }
    }
}
