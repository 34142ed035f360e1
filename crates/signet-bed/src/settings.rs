//! What a relay is to do.

use std::net::SocketAddr;

use serde::Serialize;

use crate::Error;
use crate::direction::Conditions;

/// What is relayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// Streams.
    Tcp,
    /// Datagrams.
    Udp,
}

/// What a relay is to do.
#[derive(Clone, Debug)]
pub struct DelaySettings {
    /// Streams or datagrams.
    pub transport: Transport,
    /// Where it listens; port 0 for a free one.
    pub listen: SocketAddr,
    /// Whether others than this machine may reach it: it asks nobody for a password.
    pub is_open: bool,
    /// Where everything goes.
    pub to: SocketAddr,
    /// What the path is like.
    pub conditions: Conditions,
    /// After how long it ends; never if left out.
    pub duration_ns: Option<u64>,
    /// How often it reports by itself; only when it is asked if left out.
    pub report_every_ns: Option<u64>,
    /// The same seed draws the same jitter and losses.
    pub seed: u64,
}

impl DelaySettings {
    /// A relay of streams from a free port of this machine to `to`, over a path with this
    /// round trip and no other flaw.
    pub fn new(to: SocketAddr, rtt_ns: u64) -> Self {
        Self {
            transport: Transport::Tcp,
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            is_open: false,
            to,
            conditions: Conditions {
                rtt_ns,
                jitter_ns: 0,
                loss: 0.0,
                rate_bits_per_s: None,
            },
            duration_ns: None,
            report_every_ns: None,
            seed: 1,
        }
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        if !self.is_open && !self.listen.ip().is_loopback() {
            return Err(Error::new(
                format!(
                    "{} can be reached from other machines, and a relay asks nobody for a password",
                    self.listen
                ),
                "listen on 127.0.0.1, or add --open where you want that",
            ));
        }
        if self.to.port() == 0 {
            return Err(Error::new(
                format!("{} has no port", self.to),
                "write --to ADDRESS:PORT, for example 127.0.0.1:3306",
            ));
        }
        if self.to == self.listen {
            return Err(Error::new(
                format!("--listen and --to are both {}", self.to),
                "listen on another port",
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_listened_to_unless_told() {
        let mut settings = DelaySettings::new(([127, 0, 0, 1], 3306).into(), 0);
        assert_eq!(settings.check(), Ok(()));
        settings.listen = ([0, 0, 0, 0], 13306).into();
        let error = settings.check().unwrap_err().to_string();
        assert!(error.contains("--open"), "{error}");
        settings.is_open = true;
        assert_eq!(settings.check(), Ok(()));
        settings.listen = settings.to;
        assert!(settings.check().is_err());
    }
}
