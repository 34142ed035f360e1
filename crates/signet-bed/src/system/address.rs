//! Any server, by its address.

use std::net::SocketAddr;
use std::str::FromStr;

use super::{ConfigFile, Driver, Server, Stage, Unable};
use crate::experiment::Setting;

/// A process to watch: `server=4711`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watched {
    /// The server under test and its descendants.
    Server(u32),
    /// Its database.
    Database(u32),
}

impl FromStr for Watched {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is no process; write server=PID or database=PID");
        let (name, id) = text.split_once('=').ok_or_else(wrong)?;
        let id: u32 = id.parse().map_err(|_| wrong())?;
        match name {
            _ if id == 0 => Err(wrong()),
            "server" => Ok(Self::Server(id)),
            "database" => Ok(Self::Database(id)),
            _ => Err(wrong()),
        }
    }
}

/// A server that somebody else has set up for a case and started.
#[derive(Clone, Debug)]
pub struct Address {
    /// What its results are listed under.
    name: String,
    to: SocketAddr,
    server: Option<u32>,
    database: Option<u32>,
}

impl Address {
    /// The server at `to`, and what of it runs on this machine.
    pub fn new(name: &str, to: SocketAddr, watched: &[Watched]) -> Self {
        let mut address = Self {
            name: name.to_owned(),
            to,
            server: None,
            database: None,
        };
        for process in watched {
            match process {
                Watched::Server(id) => address.server = Some(*id),
                Watched::Database(id) => address.database = Some(*id),
            }
        }
        address
    }
}

impl Driver for Address {
    fn name(&self) -> &str {
        &self.name
    }

    fn version(&self) -> Result<String, Unable> {
        Ok(String::new())
    }

    fn configuration(
        &self,
        _stage: &Stage<'_>,
        _setting: &Setting,
    ) -> Result<Vec<ConfigFile>, Unable> {
        Ok(Vec::new())
    }

    fn start(&self, _stage: &Stage<'_>, _setting: &Setting) -> Result<Server, String> {
        let mut server = Server {
            process: None,
            watched: self.server,
            log: None,
            address: Some(self.to),
        };
        server.must_run()?;
        Ok(server)
    }

    fn is_started(&self) -> bool {
        false
    }

    fn database(&self) -> Option<u32> {
        self.database
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_have_a_part() {
        assert_eq!("server=7".parse(), Ok(Watched::Server(7)));
        assert_eq!("database=8".parse(), Ok(Watched::Database(8)));
        for wrong in ["7", "server=", "server=0", "load=7", "server=-1"] {
            assert!(wrong.parse::<Watched>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_process_that_is_gone_is_told() {
        let to = SocketAddr::from(([127, 0, 0, 1], 5060));
        let mut server = Server {
            process: None,
            watched: Some(u32::MAX),
            log: None,
            address: Some(to),
        };
        assert!(server.must_run().unwrap_err().contains("start it again"));
        let here = Address::new("own", to, &[Watched::Server(std::process::id())]);
        assert_eq!(here.name(), "own");
    }
}
